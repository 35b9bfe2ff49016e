"""Workers get contiguous blocks of about equal cost."""

import pytest

from mtwrappers import MetaParallelEnvExecutor
from mtwrappers.vector.balance import block_bounds
from tests.vector.fakes import BoxCountingEnv


@pytest.mark.parametrize(
    ("costs", "workers", "bounds"),
    [
        ([1, 1, 1, 1], 2, [0, 2, 4]),
        ([9, 1, 1, 1], 2, [0, 1, 4]),
        ([1, 1, 1, 9], 2, [0, 3, 4]),
        ([175, 391, 386, 179, 117, 121, 113, 224, 117, 123], 2, [0, 3, 10]),
        # No worker goes without, however uneven the costs are.
        ([9, 1, 1, 1], 4, [0, 1, 2, 3, 4]),
        ([1, 1, 1, 900], 3, [0, 2, 3, 4]),
        ([900, 1, 1, 1], 3, [0, 1, 2, 4]),
        (None, 3, [0, 1, 2, 4]),
        ([0.1], 1, [0, 1]),
    ],
)
def test_blocks_have_about_equal_cost(costs, workers, bounds):
    assert block_bounds(costs, 4 if costs is None else len(costs), workers) == bounds


@pytest.mark.parametrize(
    ("costs", "message"),
    [
        ([1, 1, 1], "expected 4 step costs, one an environment, got 3"),
        ([1, 0, 1, 1], "the step cost of environment 1 must be positive, got 0"),
        ([1, 1, -2, 1], "the step cost of environment 2 must be positive, got -2"),
        ([1, 1, 1, float("nan")], "the step cost of environment 3 must be positive, got nan"),
        ([float("inf"), 1, 1, 1], "the step cost of environment 0 must be positive, got inf"),
    ],
)
def test_costs_that_are_none_are_refused(costs, message):
    with pytest.raises(ValueError, match=message):
        MetaParallelEnvExecutor(BoxCountingEnv, 4, workers=2, step_costs=costs)


def test_uneven_blocks_give_the_same_results():
    even = MetaParallelEnvExecutor(BoxCountingEnv, 4, workers=2)
    uneven = MetaParallelEnvExecutor(BoxCountingEnv, 4, workers=2, step_costs=[9, 1, 1, 1])
    assert [worker.rows for worker in uneven._workers] == [slice(0, 1), slice(1, 4)]
    for envs in (even, uneven):
        envs.reset(seed=0)
    for _ in range(7):
        actions = even.action_space.sample()
        for one, other in zip(even.step(actions)[:4], uneven.step(actions)[:4], strict=True):
            assert (one == other).all()
    even.close()
    uneven.close()
