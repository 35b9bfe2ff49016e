import numpy as np
import pytest
from numpy.random import SeedSequence

from mtwrappers.common import seeding


@pytest.mark.parametrize("seed", [0, 2**100])
def test_a_seed_is_returned_as_it_is(seed):
    assert seeding.check_seed(seed) == seeding.chosen_seed(seed) == seed


@pytest.mark.parametrize("seed", [1.0, "1", None, [1], True, np.True_, np.float32(1), -1])
def test_what_is_no_seed_is_refused(seed):
    error, message = (TypeError, "must be an integer, got ")
    if seed == -1:
        error, message = (ValueError, "must be zero or greater, got -1")
    with pytest.raises(error, match=f"a seed {message}"):
        seeding.check_seed(seed)


def test_a_fresh_seed_has_32_bits_and_differs_from_the_last():
    seeds = [*(seeding.fresh_seed() for _ in range(10)), *map(seeding.chosen_seed, [None] * 10)]
    assert all(type(seed) is int and 0 <= seed < 2**32 for seed in seeds)
    assert len(set(seeds)) == 20


def test_one_seed_sequence_spawns_all_the_streams_which_no_release_changes():
    env, task, children = SeedSequence(0).spawn(3)
    for generator, spawned in ((seeding.env_generator(0), env), (seeding.task_generator(0), task)):
        draws = np.random.default_rng(spawned).integers(2**32, size=4)
        assert np.array_equal(generator.integers(2**32, size=4), draws)
    # A child is addressed, not consumed: the order in which they are asked for does not matter.
    child_seeds = {index: seeding.child_seed(0, index) for index in (2, 0, 1)}
    assert child_seeds == {0: 1961512366, 1: 1663335698, 2: 1902154619}
    assert [child_seeds[i] for i in range(3)] == [c.generate_state(1)[0] for c in children.spawn(3)]
