"""Baselines: what they fit, predict and remember."""

import copy
import pickle

import numpy as np
import pytest

from mtwrappers import LinearFeatureBaseline, LinearTimeBaseline, SampleProcessor, ZeroBaseline
from mtwrappers.processors.baselines import Baseline
from tests.processors import make_path, random_paths, unchanged

LINEAR = [LinearFeatureBaseline, LinearTimeBaseline]
linear = pytest.mark.parametrize("baseline_type", LINEAR)


def targets_of(paths, key="returns", seed=0):
    """The paths with random targets."""
    rng = np.random.default_rng(seed)
    return [{**path, key: rng.normal(size=len(path["rewards"]))} for path in paths]


def time_features(n):
    t = np.arange(n) / 100
    return np.stack([t, t**2, t**3, np.ones(n)], axis=1)


def features_of(baseline_type, path):
    time = time_features(len(path["rewards"]))
    if baseline_type is LinearTimeBaseline:
        return time
    obs = np.clip(path["observations"], -10, 10)
    return np.concatenate([obs, obs**2, time], axis=1)


def test_a_baseline_is_abstract():
    with pytest.raises(TypeError, match="abstract"):
        Baseline()


def test_zero_is_zero():
    baseline = ZeroBaseline()
    paths = targets_of(random_paths(0))
    baseline.fit(paths)
    assert baseline.predict(make_path([1, 2, 3])).tolist() == [0, 0, 0]
    assert baseline.get_param_values() is None
    baseline.set_params(None)
    assert baseline.predict(make_path([1])).tolist() == [0]


@linear
def test_before_the_first_fit_the_prediction_is_zero(baseline_type):
    baseline = baseline_type()
    assert baseline.get_param_values() is None
    assert baseline.predict(make_path([1, 2])).tolist() == [0, 0]


@linear
@pytest.mark.parametrize("reg_coeff", [1e-5, 0.1, 3.0])
def test_the_fit_is_the_ridge_formula(baseline_type, reg_coeff):
    paths = targets_of(random_paths(1, n=8, longest=40))
    baseline = baseline_type(reg_coeff)
    unchanged(paths, baseline.fit)
    x = np.concatenate([features_of(baseline_type, path) for path in paths])
    y = np.concatenate([path["returns"] for path in paths])
    solved = np.linalg.solve(x.T @ x + reg_coeff * np.eye(x.shape[1]), x.T @ y)
    # Two ways to solve one system, whose condition is about 1e6.
    np.testing.assert_allclose(baseline.get_param_values(), solved, rtol=1e-7, atol=1e-7)
    for path in paths:
        expected = features_of(baseline_type, path) @ solved
        np.testing.assert_allclose(baseline.predict(path), expected, rtol=1e-7, atol=1e-7)


def test_a_time_baseline_fits_what_grows_with_time():
    target = np.arange(50.0)
    baseline = LinearTimeBaseline(1e-9)
    baseline.fit([make_path(np.zeros(50), returns=target)])
    # The regularisation, as small as it is, keeps it from being exact.
    np.testing.assert_allclose(baseline.predict(make_path(np.zeros(50))), target, atol=1e-3)


def test_a_time_baseline_does_not_look_at_observations():
    baseline = LinearTimeBaseline()
    baseline.fit(targets_of(random_paths(2)))
    one, two = make_path([1, 2, 3]), make_path([4, 5, 6])
    assert np.array_equal(baseline.predict(one), baseline.predict(two))


def test_a_feature_baseline_fits_squares_of_observations():
    obs = np.linspace(-3, 3, 30)
    path = make_path(np.zeros(30), obs=[*obs, 0.0], returns=2 * obs**2 - obs + 5)
    baseline = LinearFeatureBaseline(1e-9)
    baseline.fit([path])
    # As above.
    np.testing.assert_allclose(baseline.predict(path), path["returns"], atol=1e-5)


def test_observations_are_clipped_to_ten():
    baseline = LinearFeatureBaseline()
    baseline.fit(targets_of(random_paths(3)))
    far, ten = (make_path([0, 0], obs=[x, -x, 0.0]) for x in (1e6, 10.0))
    assert np.array_equal(baseline.predict(far), baseline.predict(ten))
    nine = make_path([0, 0], obs=[9.0, -9.0, 0.0])
    assert not np.array_equal(baseline.predict(nine), baseline.predict(ten))


def test_the_coefficients_are_as_many_as_the_features():
    feature, time = LinearFeatureBaseline(), LinearTimeBaseline()
    for baseline in (feature, time):
        baseline.fit(targets_of(random_paths(4)))
    # Two observations, their two squares, three powers of time and 1.
    assert feature.get_param_values().shape == (8,)
    assert time.get_param_values().shape == (4,)


@linear
def test_parameters_carry_over_to_another_baseline(baseline_type):
    one, two = baseline_type(), baseline_type()
    paths = targets_of(random_paths(5))
    one.fit(paths)
    two.set_params(one.get_param_values())
    assert np.array_equal(one.get_param_values(), two.get_param_values())
    for path in paths:
        assert np.array_equal(one.predict(path), two.predict(path))
    two.set_params(None)
    assert two.predict(paths[0]).tolist() == [0] * len(paths[0]["rewards"])


@linear
def test_predictions_outlive_the_next_ones(baseline_type):
    """Features are computed in memory that is used again; what is returned is not."""
    baseline = baseline_type()
    one, two = targets_of(random_paths(5))[:2]
    baseline.fit([one, two])
    first = baseline.predict(one)
    before = first.copy()
    baseline.predict(two)
    baseline.fit([two])
    assert np.array_equal(first, before)


@linear
def test_copies_and_pickles_hold_the_coefficients_alone(baseline_type):
    baseline = baseline_type()
    path = make_path([1.0] * 3000)
    baseline.fit([{**path, "returns": np.arange(3000.0)}])
    packed = pickle.dumps(baseline)
    assert len(packed) < 2000
    for same in (pickle.loads(packed), copy.deepcopy(baseline)):
        assert np.array_equal(same.predict(path), baseline.predict(path))


@linear
def test_parameters_are_copies(baseline_type):
    baseline = baseline_type()
    baseline.fit(targets_of(random_paths(6)))
    path = make_path([1, 2])
    expected = baseline.predict(path)
    given = baseline.get_param_values()
    given[:] = 7
    assert np.array_equal(baseline.predict(path), expected)
    other = baseline_type()
    own = baseline.get_param_values()
    other.set_params(own)
    own[:] = 7
    assert np.array_equal(other.predict(path), expected)


@linear
def test_fitting_again_forgets_the_first_fit(baseline_type):
    once, twice = baseline_type(), baseline_type()
    first, second = targets_of(random_paths(7), seed=1), targets_of(random_paths(8), seed=2)
    twice.fit(first)
    assert not np.array_equal(twice.get_param_values(), 0)
    twice.fit(second)
    once.fit(second)
    assert np.array_equal(once.get_param_values(), twice.get_param_values())


@linear
def test_the_target_is_chosen_by_its_key(baseline_type):
    paths = targets_of(targets_of(random_paths(9), "returns", 1), "other", 2)
    one, two = baseline_type(), baseline_type()
    one.fit(paths, target_key="other")
    two.fit([{**path, "returns": path["other"]} for path in paths])
    assert np.array_equal(one.get_param_values(), two.get_param_values())


@linear
@pytest.mark.parametrize("reg_coeff", [0.0, 1e-5])
@pytest.mark.parametrize("value", [0.0, 3.0, 1e9])
def test_constant_observations_give_finite_predictions_near_the_mean(
    baseline_type, reg_coeff, value
):
    paths = [make_path([0.0], obs=[value, value], returns=np.array([x])) for x in (1.0, 3.0)]
    baseline = baseline_type(reg_coeff)
    baseline.fit(paths)
    predicted = np.concatenate([baseline.predict(path) for path in paths])
    # A constant can be fitted, so both get the mean but for the regularisation.
    np.testing.assert_allclose(predicted, [2, 2], atol=1e-4)


@linear
def test_a_missing_target_is_named(baseline_type):
    paths = [make_path([1]), make_path([2])]
    with pytest.raises(ValueError, match=r"paths \[0, 1\] lack the target 'returns'"):
        baseline_type().fit(paths)


@linear
def test_no_paths_are_refused(baseline_type):
    with pytest.raises(ValueError, match="must be a list of at least one path, got none"):
        baseline_type().fit([])


@linear
@pytest.mark.parametrize("reg_coeff", [-1e-5, float("nan")])
def test_a_negative_regularisation_is_refused(baseline_type, reg_coeff):
    with pytest.raises(ValueError, match="reg_coeff must be zero or greater, got"):
        baseline_type(reg_coeff)


@linear
def test_a_subclass_may_change_the_prediction(baseline_type):
    class Shifted(baseline_type):
        def predict(self, path):
            return np.full(len(path["rewards"]), 5.0)

    data = SampleProcessor(Shifted(), discount=0.0).process_samples([make_path([1.0, 2.0])])
    # With no discount, advantages are rewards less the prediction.
    assert data["advantages"].tolist() == [-4, -3]
