"""Baselines: what they fit, predict and remember."""

import copy
import pickle

import numpy as np
import pytest

from mtwrappers import LinearFeatureBaseline, LinearTimeBaseline, ZeroBaseline
from mtwrappers.processors.baselines import Baseline
from tests.processors.fakes import loop_returns, make_path, process_and_check_inputs, random_paths

both_linear = pytest.mark.parametrize("baseline_type", [LinearFeatureBaseline, LinearTimeBaseline])


def add_targets(paths, key="returns", seed=0):
    """Returns the paths with random targets."""
    rng = np.random.default_rng(seed)
    return [{**path, key: rng.normal(size=len(path["rewards"]))} for path in paths]


def compute_features(baseline_type, path):
    t = np.arange(len(path["rewards"])) / 100
    time = np.stack([t, t**2, t**3, np.ones(len(t))], axis=1)
    if baseline_type is LinearTimeBaseline:
        return time
    obs = np.clip(path["observations"], -10, 10)
    return np.concatenate([obs, obs**2, time], axis=1)


def test_the_base_is_abstract_and_zero_is_zero():
    with pytest.raises(TypeError, match="abstract"):
        Baseline()
    baseline = ZeroBaseline()
    baseline.fit(add_targets(random_paths(0)))
    assert baseline.predict(make_path([1, 2, 3])).tolist() == [0, 0, 0]
    assert baseline.get_param_values() is None
    baseline.set_params(None)


@both_linear
@pytest.mark.parametrize("reg_coeff", [1e-5, 0.1, 3.0])
def test_the_fit_is_the_ridge_formula_and_needs_observations_and_the_target_alone(
    baseline_type, reg_coeff
):
    paths = add_targets(random_paths(1, n=8, longest=40))
    baseline = baseline_type(reg_coeff)
    bare_paths = [
        {"observations": path["observations"], "other": path["returns"]} for path in paths
    ]
    process_and_check_inputs(bare_paths, lambda batch: baseline.fit(batch, target_key="other"))
    x = np.concatenate([compute_features(baseline_type, path) for path in paths])
    y = np.concatenate([path["returns"] for path in paths])
    coefficients = np.linalg.solve(x.T @ x + reg_coeff * np.eye(x.shape[1]), x.T @ y)
    # Two ways to solve one system, whose condition is about 1e6.
    np.testing.assert_allclose(baseline.get_param_values(), coefficients, rtol=1e-7, atol=1e-7)
    for path in paths:
        expected = compute_features(baseline_type, path) @ coefficients
        np.testing.assert_allclose(baseline.predict(path), expected, rtol=1e-7, atol=1e-7)


def test_observations_are_clipped_to_ten():
    baseline = LinearFeatureBaseline()
    baseline.fit(add_targets(random_paths(3)))
    far, ten = (make_path([0, 0], obs=[x, -x, 0.0]) for x in (1e6, 10.0))
    assert np.array_equal(baseline.predict(far), baseline.predict(ten))
    nine = make_path([0, 0], obs=[9.0, -9.0, 0.0])
    assert not np.array_equal(baseline.predict(nine), baseline.predict(ten))


@both_linear
def test_parameters_are_copies_and_carry_over_as_copies_and_pickles_do(baseline_type):
    baseline, other_baseline = baseline_type(), baseline_type()
    path = add_targets([make_path([1.0] * 3000)])[0]
    assert baseline.get_param_values() is None
    assert set(baseline.predict(path)) == {0.0}  # before the first fit
    baseline.fit([path])
    expected, params = baseline.predict(path).tolist(), baseline.get_param_values()
    # Two observations, their two squares, three powers of time and 1.
    assert params.shape == ((8,) if baseline_type is LinearFeatureBaseline else (4,))
    other_baseline.set_params(params)
    params[:] = 7
    pickled = pickle.dumps(baseline)
    assert len(pickled) < 2000  # they hold the coefficients alone
    for copied in (baseline, other_baseline, pickle.loads(pickled), copy.deepcopy(baseline)):
        assert copied.predict(path).tolist() == expected
    other_baseline.set_params(None)
    assert set(other_baseline.predict(path)) == {0.0}


def test_what_cannot_be_fitted_is_named():
    paths = [{"observations": np.ones((2, 2)), "returns": np.ones(2)}, {"observations": [1.0]}]
    with pytest.raises(ValueError, match=r"path 1 of paths lacks \['returns'\]; it has \['obs"):
        LinearTimeBaseline().fit(paths)
    paths[1] = {"observations": np.ones((2, 2)), "returns": np.array([1, np.nan])}
    with pytest.raises(ValueError, match="'returns' of path 1 of paths is NaN at step 1"):
        LinearFeatureBaseline().fit(paths)


# Returns that go on after a time limit.


def add_returns(path, discount):
    """Returns the path with the discounted sums of its rewards."""
    return {**path, "returns": np.array(loop_returns(path["rewards"], discount))}


def predict_value(baseline, observation):
    return float(baseline.predict(make_path([0.0], obs=[observation]))[0])


def test_a_reward_of_one_for_ever_is_worth_a_hundred_after_a_cut_at_a_hundred_steps():
    path = make_path([1.0] * 100, obs=[0.5] * 101, ended="truncated")
    baseline = LinearFeatureBaseline()
    process_and_check_inputs(
        [add_returns(path, 0.99)], lambda paths: baseline.fit_bootstrapped(paths, 0.99)
    )
    later_path = {"observations": np.full((101, 2), 0.5)}
    # 1 / (1 - 0.99), whatever the step.
    np.testing.assert_allclose(baseline.predict(later_path), np.full(101, 100.0), atol=1e-3)


@pytest.mark.parametrize("steps", [1, 2, 5])
def test_the_values_of_a_cycle_of_two_states_do_not_depend_on_where_it_was_cut(steps):
    """Reward 0 in state 0, then 1 in state 1, and so on: V0 = V1 / 2 and V1 = 1 + V0 / 2."""
    states = np.arange(steps + 2) % 2
    paths = [
        make_path(s[:-1].astype(float), obs=s.astype(float), ended="truncated")
        for s in (states[:-1], states[1:])
    ]
    baseline = LinearFeatureBaseline(1e-9)
    baseline.fit_bootstrapped([add_returns(path, 0.5) for path in paths], 0.5)
    assert predict_value(baseline, 0.0) == pytest.approx(2 / 3, abs=1e-6)
    assert predict_value(baseline, 1.0) == pytest.approx(4 / 3, abs=1e-6)


def test_a_path_that_ended_is_worth_nothing_more():
    paths = [
        make_path([1.0], obs=[0.0, 2.0], ended="truncated"),
        make_path([6.0], obs=[2.0, 0.0], ended="terminated"),
    ]
    baseline = LinearFeatureBaseline(1e-9)
    baseline.fit_bootstrapped([add_returns(path, 0.5) for path in paths], 0.5)
    assert predict_value(baseline, 2.0) == pytest.approx(6, abs=1e-6)
    assert predict_value(baseline, 0.0) == pytest.approx(1 + 0.5 * 6, abs=1e-6)


def test_values_without_a_bound_are_refused():
    truncated, ended = (make_path([1.0], ended=e, returns=np.ones(1)) for e in ("truncated", None))
    with pytest.raises(ValueError, match="discount of 1, at least one path must end without being"):
        LinearFeatureBaseline().fit_bootstrapped([truncated, truncated], 1.0)
    for discount in (1.5, -0.1, True):
        with pytest.raises(ValueError, match=r"discount must be in \[0, 1\], got"):
            LinearFeatureBaseline().fit_bootstrapped([truncated, ended], discount)
    LinearFeatureBaseline().fit_bootstrapped([truncated, ended], 1.0)


@both_linear
@pytest.mark.parametrize("reg_coeff", [-1.0, np.inf, np.nan, True, False, np.complex128(1), "1"])
def test_a_regularization_that_is_no_finite_number_from_zero_on_is_refused(
    baseline_type, reg_coeff
):
    with pytest.raises(ValueError, match="reg_coeff must be zero or more and finite"):
        baseline_type(reg_coeff)
