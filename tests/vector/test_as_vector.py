"""Any Gymnasium environments on executors, in one line."""

import functools
from contextlib import closing
from functools import partial

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import SyncVectorEnv
from gymnasium.wrappers.vector import RecordEpisodeStatistics

from mtwrappers import as_vector, load_checkpoint, save_checkpoint
from mtwrappers.vector.make import MetaIterativeEnvExecutor, MetaParallelEnvExecutor
from tests.fakes import CountingEnv, counting_makers, equal
from tests.vector.fakes import all_modes, exact
from tests.vector.faults import kill, run_steps
from tests.vector.processes import needs_proc


def specs():
    """Environments whose episodes end at different times: by falling, and by a limit."""
    pytest.importorskip("mujoco")
    found = {name: gymnasium.spec(name) for name in ("CartPole-v1", "Hopper-v5")}
    found["Hopper-v5"].max_episode_steps = 25
    return found


@needs_proc
@pytest.mark.parametrize("name", ["CartPole-v1", "Hopper-v5"])
@all_modes
@pytest.mark.slow_but("CartPole-v1")
def test_it_returns_what_gymnasium_returns_with_any_number_of_environments_per_worker(name, mode):
    spec = specs()[name]
    with closing(SyncVectorEnv([partial(gymnasium.make, spec)] * 5, autoreset_mode=mode)) as sync:
        sync.action_space.seed(0)
        actions = [sync.action_space.sample() for _ in range(50)]
        expected = sync.reset(seed=3), run_steps(sync, actions)
    assert sum(result[2].sum() for result in expected[1] if len(result) == 5) > 3
    for workers in (1, 2, 5):
        envs = as_vector(spec, 5, workers=workers, autoreset_mode=mode)
        with closing(envs):
            assert equal((envs.reset(seed=3), run_steps(envs, actions)), expected)
            assert envs.single_observation_space == sync.single_observation_space
            assert envs.observation_space == sync.observation_space
            assert envs.action_space == sync.action_space
            assert envs.metadata == sync.metadata


def test_a_list_has_an_environment_of_each_entry_or_as_many_of_each_as_num_envs_has_room_for():
    with closing(as_vector(counting_makers(2))) as envs:
        assert isinstance(envs, MetaIterativeEnvExecutor)
        assert (envs.meta_batch_size, envs.envs_per_task) == (2, 1)
        each = [env.first for env in envs.envs]
    with closing(as_vector(counting_makers(2), 4, workers=1)) as envs:
        assert (envs.meta_batch_size, envs.envs_per_task) == (2, 2)
        assert [env.first for env in envs.envs] == [each[0]] * 2 + [each[1]] * 2


@pytest.mark.parametrize(
    "env_fns",
    [
        "CartPole-v1",
        "gymnasium:CartPole-v1",
        gymnasium.spec("CartPole-v1"),
        ("CartPole-v1",),
        functools.partial(gymnasium.make, "CartPole-v1"),
    ],
    ids=["id", "module and id", "spec", "list", "function"],
)
def test_an_environment_may_be_said_in_several_ways(env_fns):
    with closing(as_vector(env_fns, 2)) as envs:
        assert envs.get_attr("spec")[1].id == "CartPole-v1"
        assert envs.reset(seed=0)[0].shape == (2, 4)
        assert type(envs.envs[0].unwrapped).__name__ == "CartPoleEnv"


@needs_proc
def test_an_id_need_not_be_registered_in_workers():
    gymnasium.register("tests/Counting-v0", CountingEnv)
    try:
        envs = as_vector("tests/Counting-v0", 2, workers=2, context="forkserver")
    finally:
        del gymnasium.registry["tests/Counting-v0"]
    with closing(envs):
        assert isinstance(envs, MetaParallelEnvExecutor)
        assert envs.reset(seed=0)[0].tolist() == [[0.0, 0.0]] * 2


@needs_proc
@pytest.mark.filterwarnings("ignore:.*starting a replacement")
def test_a_killed_worker_changes_nothing_and_a_checkpoint_in_mid_episode_goes_on(tmp_path):
    makers = [specs()["Hopper-v5"]] * 3
    path = tmp_path / "run.ckpt"
    with (
        closing(as_vector(makers, workers=2, on_worker_failure="recover")) as envs,
        closing(as_vector(makers, journal=True)) as alone,
    ):
        envs.action_space.seed(0)
        actions = [envs.action_space.sample() for _ in range(30)]
        assert equal(envs.reset(seed=0), alone.reset(seed=0))
        assert equal(run_steps(envs, actions[:18]), run_steps(alone, actions[:18]))
        kill(envs, 1)
        save_checkpoint(path, envs=alone)
        expected = run_steps(alone, actions[18:])
        assert equal(run_steps(envs, actions[18:]), expected)
        assert envs.recoveries == 1
    with closing(as_vector(makers, journal=True, workers=3)) as later:
        load_checkpoint(path, envs=later)
        assert equal(run_steps(later, actions[18:]), expected)


def count(envs, rows):
    envs.reset(seed=[*range(rows.start, rows.stop)])
    results = [envs.step(np.zeros(envs.num_envs, np.int64)) for _ in range(12)]
    return np.array([result[1] for result in results]).sum(axis=0), results[-1][0]


@needs_proc
def test_a_function_is_called_where_the_environments_are():
    with (
        closing(as_vector("CartPole-v1", 4)) as alone,
        closing(as_vector("CartPole-v1", 4, workers=2)) as envs,
    ):
        [(rewards, obs)] = alone.map_blocks(count)
        parts = envs.map_blocks(count)
        assert len(parts) == 2
        assert equal(np.concatenate([part[0] for part in parts]), rewards)
        assert equal(np.concatenate([part[1] for part in parts]), obs)


def test_gymnasium_counts_returns_and_lengths_around_it():
    makers = counting_makers(2)
    with closing(RecordEpisodeStatistics(as_vector(makers))) as envs:
        envs.reset(seed=0)
        results = [envs.step(np.zeros(2, np.int64)) for _ in range(9)]
    lengths = [info["episode"]["l"][info["_episode"]] for *_, info in results if "episode" in info]
    assert {int(n) for each in lengths for n in each} == {make().length for make in makers}


@pytest.mark.parametrize(
    ("env_fns", "given", "error", "message"),
    [
        ([], {}, ValueError, "env_fns must name at least one environment, got an empty list"),
        (3, {}, TypeError, "entry 0 of env_fns must be an id, a spec or a function that makes an "),
        (
            [CountingEnv, CountingEnv()],
            {},
            TypeError,
            "; pass a function that makes it",
        ),
        (
            counting_makers(2),
            {"num_envs": 3},
            ValueError,
            "env_fns has 2 tasks: num_envs must be a multiple of 2 (2, 4, 6, ...) or 1",
        ),
        (
            "CartPole-v1",
            {"worker": 2},
            TypeError,
            "as_vector takes no 'worker': did you mean",
        ),
    ],
)
def test_what_cannot_be_made_is_refused(env_fns, given, error, message):
    with pytest.raises(error, match=exact(message)):
        as_vector(env_fns, **given)


def test_an_unknown_id_is_refused_before_anything_is_made():
    with pytest.raises(gymnasium.error.NameNotFound, match="CartPool"):
        as_vector(["CartPole-v1", "CartPool-v1"])
