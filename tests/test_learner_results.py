"""The results in `benchmarks/learners` are true, and the page of learners has their numbers."""

import pytest

from mtwrappers import verify
from mtwrappers.evaluation import EvaluationResult
from tests.fakes import ROOT

PATHS = sorted((ROOT / "benchmarks/learners").glob("*/*.json"))
PAGE = (ROOT / "docs/learners.md").read_text()


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
@pytest.mark.slow
def test_a_result_is_replayed(path):
    pytest.importorskip("mujoco")
    verification = verify(path, sample=0.05)
    assert verification.ok, verification.difference


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_the_page_has_the_number_of_a_result(path):
    estimate = EvaluationResult.load(path).overall["mean over tasks"]["return"]
    digits = 0 if "half-cheetah" in str(path) else 2
    value, low, high = (f"{x:.{digits}f}" for x in (estimate.value, estimate.low, estimate.high))
    assert f"{value} ({low} to {high})" in PAGE
