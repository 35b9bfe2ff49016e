"""The pictures of the documentation are drawn from the data in the repository."""

import importlib.util

import pytest
from PIL import Image

from tests.fakes import ROOT


@pytest.fixture(scope="module")
def pictures():
    spec = importlib.util.spec_from_file_location("pictures", ROOT / "docs/pictures.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def size(path):
    with Image.open(path) as image:
        return image.size


@pytest.mark.slow
def test_each_chart_is_drawn_as_large_as_the_one_in_the_documentation(pictures, tmp_path):
    names = [name.removesuffix(".png") for name in pictures.CHARTS]
    pictures.main([*names, "--out", str(tmp_path)])
    drawn = {path.name: size(path) for path in tmp_path.glob("*.png")}
    assert drawn == {name: size(ROOT / "docs/assets" / name) for name in pictures.CHARTS}


def test_each_picture_of_the_documentation_has_a_function_that_draws_it(pictures):
    assets = {path.name for path in (ROOT / "docs/assets").iterdir()}
    by_hand = {"concepts.svg", "extra.css"}
    assert assets - by_hand == {*pictures.CHARTS, *pictures.RENDERED}


def test_an_unknown_picture_is_named(pictures, capsys):
    with pytest.raises(SystemExit):
        pictures.main(["mt10", "protocol"])
    assert "no picture is called ['protocol']; choose from" in capsys.readouterr().err
