"""`reference`: the results that come with the package, by name."""

import shutil
import sys

import pytest

from mtwrappers import protocols
from mtwrappers.evaluation import (
    Episode,
    EvaluationResult,
    compare,
    reference,
)
from tests.fakes import ROOT

MODULE = sys.modules[reference.__module__]  # the package has the function of its name
SHIPPED = ROOT / "benchmarks/reference"
MT10 = protocols["metaworld-3.1"]
EXPERTS = [
    *("experts/lerobot-0.6-states-MT50", "experts/metaworld-3.1-MT10"),
    *("experts/metaworld-3.1-MT50", "experts/rlinf-states-MT50", "experts/tdmpc2-MT50"),
]


def measured(protocol):
    """A result by a protocol."""
    return EvaluationResult([Episode("reach-v3", 0, 1.0, 5, True, True)], protocol=protocol)


def labels(name, protocol):
    return [*reference(name, measured(protocol))]


def test_a_method_has_a_result_of_each_protocol_and_each_has_a_name_of_its_own():
    assert set(EXPERTS) <= set(found := reference("experts"))
    for name in EXPERTS:
        assert found[name].description.policy == "experts"
    [alone] = reference("experts/tdmpc2-MT50").items()
    assert alone == ("experts/tdmpc2-MT50", found["experts/tdmpc2-MT50"])


@pytest.mark.parametrize(
    ("protocol", "name"),
    [
        (MT10, "metaworld-3.1-MT10"),
        (MT10.on("MT50"), "metaworld-3.1-MT50"),
        (protocols["tdmpc2"], "tdmpc2-MT50"),
        (protocols["rlinf"].with_states(), "rlinf-states-MT50"),
        # Of frames there is none; `compare` says why they are not comparable.
        (protocols["rlinf"], "rlinf-states-MT50"),
    ],
)
def test_the_one_of_the_same_protocol_and_benchmark_is_found(protocol, name):
    assert labels("experts", protocol) == [f"experts/{name}"]


def test_all_training_runs_of_a_method_are_found(tmp_path, monkeypatch):
    for seed in (1, 2):
        place = tmp_path / f"mine/metaworld-3.1-MT10-seed{seed}"
        shutil.copytree(SHIPPED / "experts/metaworld-3.1-MT10", place)
    monkeypatch.setattr(MODULE, "_PLACES", (tmp_path / "none", tmp_path))
    assert labels("mine", MT10) == [f"mine/metaworld-3.1-MT10-seed{seed}" for seed in (1, 2)]
    with pytest.raises(ValueError, match=r"no reference results of 'experts'; .* \['mine'\]"):
        reference("experts")


def test_they_are_ready_to_compare():
    like = measured(MT10)
    [found] = compare({name: reference(name, like) for name in ("random", "experts")})
    assert found.names == ("random", "experts")
    row = found.overall["mean over tasks"]
    assert [row.first, row.second] == pytest.approx([0.036, 0.98])


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("expert", r"of 'expert'; did you mean 'experts'\?"),
        ("experts/MT10", r"of 'experts/MT10'; choose from \['experts/lerobot-0.6-states-MT50', "),
        ("", r"of ''; choose from \[.*'experts', "),
    ],
)
def test_an_unknown_name_is_refused_with_those_that_there_are(name, message):
    with pytest.raises(ValueError, match=message):
        reference(name)


def test_no_result_of_a_protocol_is_said_with_those_that_there_are():
    there = "; evaluate by the protocol of one of these: experts/lerobot-0.6-states-MT50, "
    by = r"'experts' was measured by metaworld-3.1 \(\w{10}\) on "
    with pytest.raises(ValueError, match=f"{by}MT25{there}"):
        reference("experts", measured(MT10.on("MT25")))
    with pytest.raises(ValueError, match=f"{by}MT1 push-v3{there}"):
        reference("experts", measured(MT10.on("MT1", "push-v3")))
    with pytest.raises(
        ValueError, match=r"by tdmpc2 on MT10 \(\w{10}, not .* protocol\) on MT10; ev"
    ):
        reference("experts", measured(protocols["tdmpc2"].on("MT10")))
    alone = EvaluationResult([Episode("reach-v3", 0, 1.0, 5, True, True)])
    with pytest.raises(ValueError, match=f"'experts' was measured without a protocol{there}"):
        reference("experts", alone)
