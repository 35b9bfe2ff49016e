"""The hint about a name that is unknown."""

from mtwrappers.common.did_you_mean import did_you_mean

KNOWN = ["MT1", "MT10", "MT50", "reach-v3"]


def test_names_that_come_close_are_named_the_closest_first():
    assert did_you_mean("MT1O", KNOWN) == "did you mean 'MT1' or 'MT10'?"
    assert did_you_mean("reach", KNOWN) == "did you mean 'reach-v3'?"
    assert did_you_mean("MT", KNOWN) == "did you mean 'MT1', 'MT50' or 'MT10'?"


def test_a_name_in_another_case_is_meant_alone():
    assert did_you_mean("mt10", KNOWN) == "did you mean 'MT10'?"


def test_nothing_close_is_no_hint():
    assert did_you_mean("hammer-v3", []) == ""
    assert did_you_mean(3.5, KNOWN) == ""
