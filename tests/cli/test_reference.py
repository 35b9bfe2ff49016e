"""`mtwrappers compare` with results that come with the package."""

import shutil

import pytest

from mtwrappers.cli import main
from tests.fakes import ROOT

SHIPPED = ROOT / "benchmarks/reference"
RANDOM, EXPERTS = "random/metaworld-3.1-MT10", "reference:experts/metaworld-3.1-MT10"


@pytest.fixture
def mine(tmp_path):
    """A result on MT10 by metaworld-3.1."""
    return str(shutil.copy(SHIPPED / RANDOM / "results.json", tmp_path / "mine.json"))


def test_a_method_stands_for_its_result_of_the_same_protocol_wherever_it_is_named(mine, capsys):
    assert main(["compare", mine, "reference:experts"]) == 0
    said = capsys.readouterr().out
    assert "\nA: random (1 run)\nB: experts (1 run)\n" in said
    *_, row = [line for line in said.splitlines() if line.startswith("mean over tasks")]
    assert row.split()[3:6] == ["0.04", "0.98", "+0.94"]
    assert main(["compare", mine, EXPERTS]) == 0
    assert capsys.readouterr().out == said
    assert main(["compare", "reference:experts", mine]) == 0
    assert "\nA: experts (1 run)\nB: random (1 run)\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["reference:expert"],
            "there are no reference results of 'expert'; did you mean 'experts'?",
        ),
        (["reference:experts/MT10"], "choose from ['experts/lerobot-0.6-states-MT50', "),
        ([EXPERTS, "reference:experts"], f"{EXPERTS} is given twice"),
        (["reference:experts/tdmpc2-MT50"], "are not comparable: protocols metaworld-3.1 ("),
    ],
)
def test_what_is_no_such_result_is_one_line(arguments, message, mine, capsys):
    with pytest.raises(SystemExit, match=r"^2$"):
        main(["compare", mine, *arguments])
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1


def test_methods_alone_do_not_say_which_protocol(capsys):
    with pytest.raises(SystemExit):
        main(["compare", "reference:experts", "reference:random"])
    assert "reference:experts has one result per protocol: name one" in capsys.readouterr().err
    assert main(["compare", f"reference:{RANDOM}", "reference:experts"]) == 0
