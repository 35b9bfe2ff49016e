"""`reference`: the results that come with the package, by name."""

import os
import shutil
import subprocess
import sys
from functools import partial

import gymnasium
import pytest

from mtwrappers import protocols
from mtwrappers.evaluation import Episode, EvaluationResult, compare, reference, scores
from tests.fakes import ROOT

MODULE = sys.modules[reference.__module__]  # the package has the function of its name
MT10 = protocols["metaworld-3.1"]
EXPERTS = [
    *("experts/lerobot-0.6-states-MT50", "experts/metaworld-3.1-MT10"),
    *("experts/metaworld-3.1-MT50", "experts/rlinf-states-MT50", "experts/tdmpc2-MT50"),
]


def measured(protocol=None):
    """A result by a protocol."""
    return EvaluationResult([Episode("reach-v3", 0, 1.0, 5, True, True)], protocol=protocol)


def test_a_method_has_a_result_of_each_protocol_and_each_has_a_name_of_its_own():
    assert set(EXPERTS) <= set(experts := reference("experts"))
    assert {experts[name].description.policy for name in EXPERTS} == {"experts"}
    assert reference("experts/tdmpc2-MT50") == {"experts/tdmpc2-MT50": experts[EXPERTS[-1]]}


@pytest.mark.parametrize(
    ("protocol", "name"),
    [
        (MT10, "metaworld-3.1-MT10"),
        (MT10.on("MT50"), "metaworld-3.1-MT50"),
        (protocols["rlinf"].with_states(), "rlinf-states-MT50"),
        # Of frames there is none; `compare` says why they are not comparable.
        (protocols["rlinf"], "rlinf-states-MT50"),
    ],
)
def test_the_one_of_the_same_protocol_and_benchmark_is_found(protocol, name):
    assert [*reference("experts", measured(protocol))] == [f"experts/{name}"]


def test_all_training_runs_of_a_method_are_found(tmp_path, monkeypatch):
    for seed in (1, 2):
        place = tmp_path / f"mine/metaworld-3.1-MT10-seed{seed}"
        shutil.copytree(ROOT / "benchmarks/reference/experts/metaworld-3.1-MT10", place)
    monkeypatch.setattr(MODULE, "_PLACES", (tmp_path / "none", tmp_path))
    names = [f"mine/metaworld-3.1-MT10-seed{seed}" for seed in (1, 2)]
    assert [*reference("mine", measured(MT10))] == names
    with pytest.raises(ValueError, match=r"no reference results of 'experts'; .* \['mine'\]"):
        reference("experts")


def test_an_installation_without_results_says_how_to_get_them(tmp_path, monkeypatch):
    monkeypatch.setattr(MODULE, "_PLACES", (tmp_path,))
    message = "this installation has no reference results, so none of 'experts': install mtwrappers"
    with pytest.raises(ValueError, match=message):
        reference("experts")


def test_a_folder_beside_an_installed_package_is_not_taken_for_that_of_a_clone(tmp_path):
    code = """
import pathlib, mtwrappers.evaluation.references as references
print([place.relative_to(pathlib.Path.cwd()).as_posix() for place in references._PLACES])
"""
    shutil.copytree(ROOT / "mtwrappers", tmp_path / "mtwrappers")
    run = partial(subprocess.run, [sys.executable, "-c", code], cwd=tmp_path, text=True)
    run = partial(run, capture_output=True, check=True, env={**os.environ, "PYTHONPATH": "."})
    installed = "'mtwrappers/evaluation/reference_results'"
    assert run().stdout == f"[{installed}]\n"
    (tmp_path / "pyproject.toml").touch()
    assert run().stdout == f"[{installed}, 'benchmarks/reference']\n"


def test_they_are_ready_to_compare():
    like = measured(MT10)
    [comparison] = compare({name: reference(name, like) for name in ("random", "experts")})
    row = comparison.overall["mean over tasks"]
    assert [row.first, row.second] == pytest.approx([0.036, 0.98])
    head = "B: experts (reference of mtwrappers, 1 run)"
    assert head in str(comparison).splitlines()
    [(label, experts)] = reference("experts", like).items()
    assert experts.reference == label
    assert f"reference:{label}, a result that comes with mtwrappers" in str(experts).splitlines()
    with pytest.raises(ValueError, match="is a reference that comes with mtwrappers, and no run"):
        scores({"experts": [experts, like.described(training_seed=1)]})
    goals = gymnasium.make("mtwrappers/MT10-v0").unwrapped.goals_digest
    assert [result.environments.goals for result in reference("experts", like).values()] == [goals]


# Those first that have the most tasks of the result, and few others.
THERE = "; evaluate by the protocol of one of these: experts/metaworld-3.1-MT10, "


@pytest.mark.parametrize(
    ("name", "like", "message"),
    [
        ("expert", None, r"of 'expert'; did you mean 'experts'\?"),
        ("experts/MT10", None, r"of 'experts/MT10'; did you mean .*'experts/metaworld-3.1-MT10'\?"),
        ("experts/rlinf-MT50", None, r"; did you mean 'experts/rlinf-states-MT50', "),
        ("experts/best", None, r"of 'experts/best'; choose from \['experts/lerobot-0.6-states"),
        ("", None, r"of ''; choose from \[.*'experts', "),
        ("experts", measured(), f"'experts' was measured without a protocol{THERE}"),
        ("experts", measured(MT10.on("MT25")), rf"by metaworld-3.1 \(\w{{10}}\) on MT25{THERE}"),
        ("experts", measured(MT10.on("MT1", "push-v3")), f"on MT1 push-v3{THERE}"),
        (
            *("experts", measured(protocols["tdmpc2"].on("MT10"))),
            r"by tdmpc2 on MT10 \(\w{10}, derived from tdmpc2\) on MT10; ev",
        ),
    ],
)
def test_where_there_is_none_the_error_names_those_that_there_are(name, like, message):
    with pytest.raises(ValueError, match=message):
        reference(name, like)


def test_the_error_names_a_reference_that_can_be_compared_with_force():
    with pytest.raises(ValueError, match=r"command line reference:experts/\S+ --force$"):
        reference("experts", measured())
