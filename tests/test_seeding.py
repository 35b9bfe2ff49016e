import numpy as np
import pytest
from numpy.random import SeedSequence

from mtwrappers import seeding


@pytest.mark.parametrize("seed", [0, 2**100])
def test_a_seed_is_returned_as_it_is(seed):
    assert seeding.check_seed(seed) == seeding.chosen_seed(seed) == seed


@pytest.mark.parametrize("seed", [1.0, "1", None, [1], True, np.True_, np.float32(1)])
def test_a_seed_of_another_type_is_refused(seed):
    with pytest.raises(TypeError, match="a seed must be an integer, got "):
        seeding.check_seed(seed)


@pytest.mark.parametrize("seed", [-1, np.int8(-1)])
def test_a_negative_seed_is_refused(seed):
    with pytest.raises(ValueError, match="a seed must be zero or greater, got -1"):
        seeding.check_seed(seed)


def test_a_fresh_seed_has_32_bits_and_differs_from_the_last():
    seeds = [*(seeding.fresh_seed() for _ in range(10)), *map(seeding.chosen_seed, [None] * 10)]
    assert all(type(seed) is int and 0 <= seed < 2**32 for seed in seeds)
    assert len(set(seeds)) == 20


@pytest.mark.parametrize("seed", [0, 5])
def test_one_seed_sequence_spawns_all_the_streams(seed):
    env, task, children = SeedSequence(seed).spawn(3)
    for own, spawned in (
        (seeding.env_generator(seed), env),
        (seeding.task_generator(seed), task),
    ):
        draws = np.random.default_rng(spawned).integers(2**32, size=4)
        assert np.array_equal(own.integers(2**32, size=4), draws)
    expected = [int(child.generate_state(1)[0]) for child in children.spawn(4)]
    # A child is addressed, not consumed: the order in which they are asked for does not matter.
    assert {index: seeding.child_seed(seed, index) for index in (2, 0, 3, 1)} == dict(
        enumerate(expected)
    )


def test_a_release_does_not_change_the_children_of_a_seed():
    children = [seeding.child_seed(0, index) for index in range(3)]
    assert children == [1961512366, 1663335698, 1902154619]


def test_children_of_near_seeds_and_indices_all_differ():
    children = [seeding.child_seed(seed, index) for seed in range(20) for index in range(50)]
    assert len(set(children)) == 1000
