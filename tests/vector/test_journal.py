"""What a journal keeps: all that matters, in order, and nothing that others can still change."""

from contextlib import closing, nullcontext
from functools import partial

import gymnasium
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.spaces import Box, Dict

from mtwrappers import MetaIterativeEnvExecutor, MetaParallelEnvExecutor, WorkerDiedError
from mtwrappers.envs.point_goal import PointGoalEnv
from mtwrappers.vector.journal import ReplayLog, fingerprint, read_only
from tests.fakes import CountingEnv, equal
from tests.vector.fakes import both_executors
from tests.vector.faults import FragileEnv, kill, parallel
from tests.vector.processes import needs_proc

pytestmark = [
    needs_proc,
    pytest.mark.filterwarnings("ignore:.*starting a replacement"),
]
NO_ACTIONS = np.zeros(4, np.int64)
recovering = partial(parallel, on_worker_failure="recover")
iterative = partial(MetaIterativeEnvExecutor, meta_batch_size=2, envs_per_task=2, journal=True)


def two(make, **kwargs):
    return MetaParallelEnvExecutor(make, 2, workers=2, on_worker_failure="recover", **kwargs)


# Pause, after a function of a block that raised.


def set_tasks_and_fail(envs, rows):
    envs.call("set_task", 500)
    raise KeyError("of the function")


def test_what_a_failed_function_has_called_is_called_again():
    with closing(recovering()) as envs:
        envs.reset(seed=0)
        with pytest.raises(KeyError, match="of the function"):
            envs.map_blocks(set_tasks_and_fail)
        assert envs.reset()[0][:, 0].tolist() == [500] * 4
        kill(envs, 1)
        assert envs.step(NO_ACTIONS)[0][:, 0].tolist() == [501] * 4


# Calls.


class Settings(CountingEnv):
    """Keeps what it was called with, and returns it as its reward."""

    def __init__(self):
        super().__init__(length=9)
        self.kept = []

    def keep(self, what, factor=1):
        self.kept = [*self.kept, (what, factor)]

    def double(self):
        self.kept = self.kept * 2

    @read_only
    def look(self):
        return len(self.kept)

    def get_state(self):
        return {"kept": self.kept, "rng": self.np_random.bit_generator.state}

    def set_state(self, state):
        self.kept = state["kept"]
        self.np_random.bit_generator.state = state["rng"]

    def step(self, action):
        obs, _, *rest = super().step(action)
        return obs, float(sum(np.sum(what) * factor for what, factor in self.kept)), *rest


def set_first(env):
    env.unwrapped.first = 5


def test_a_call_that_could_not_be_made_again_is_refused_before_it_is_made():
    with closing(iterative(Settings)) as envs:
        envs.reset(seed=0)
        with pytest.raises(TypeError, match=r"<lambda>.*pass the name of a method"):
            envs.call(lambda env: env.keep(3))
        with pytest.raises(TypeError, match=r"arguments of 'keep' cannot be copied: .*generator"):
            envs.call("keep", (i for i in range(3)))
        assert envs.get_attr("kept") == ([],) * 4
    with closing(MetaIterativeEnvExecutor(Settings, 2)) as envs:
        envs.call(lambda env: env.keep(3))  # without a journal, anything goes
        assert envs.call("look") == (1, 1)


class Borrowing(CountingEnv):
    """Counts from its task, which only the first (or not the first) of its kind can be given."""

    def __init__(self, path, raises_later):
        super().__init__(length=9)
        self.raises = path.exists() is raises_later
        path.touch()

    def set_task(self, task):
        if self.raises:
            raise OSError("out of order")
        self.first = task


@pytest.mark.parametrize(
    ("raises_later", "message"),
    [
        (True, "succeeded, and raises when it is replayed in a new environment: OSError: out of"),
        (False, "raised, and does not when it is replayed in a new environment"),
    ],
)
def test_a_call_that_ends_otherwise_when_it_is_made_again_is_named(raises_later, message, tmp_path):
    with closing(two([CountingEnv, partial(Borrowing, tmp_path / "made", raises_later)])) as envs:
        envs.reset(seed=0)
        with nullcontext() if raises_later else pytest.raises(OSError, match="out of order"):
            envs.call_some([1], "set_task", 5)
        kill(envs, 1)
        with pytest.raises(WorkerDiedError, match=rf"environment 1: .*set_task\(5\) {message}"):
            envs.reset()


# What others could still change.


class Reusing(gymnasium.Env):
    """Scales its actions and options in place, and gives away its state itself."""

    action_space = Dict({"a": Box(-9, 9, (2,), np.float64)})
    observation_space = Box(-99, 99, (2,), np.float64)

    def __init__(self, plain=False):
        self.total, self.began = np.zeros(2), np.zeros(2)
        if plain:
            self.action_space = self.action_space["a"]

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.began += 1
        if options:
            self.began += options["by"]
            options["by"] *= 0
        self.total = self.began.copy()
        return self.total.copy(), {}

    def step(self, action):
        action = action["a"] if isinstance(action, dict) else action
        action *= 2
        self.total += action
        return self.total.copy(), 0.0, False, False, {}

    def get_state(self):
        return {"rng": self.np_random.bit_generator.state, "began": self.began}

    def set_state(self, state):
        self.np_random.bit_generator.state = state["rng"]
        self.began = state["began"]


def play_with_reused_arguments(envs, plain):
    """Resets and steps with objects that change as soon as they were used."""
    buffer, options = np.ones((2, 2)), {"by": np.array([3.0, 4.0])}
    envs.reset(seed=0)
    envs.reset(options={"by": np.ones(2)})
    envs.reset(options=options)
    options["by"] = np.full(2, 50.0)
    for i in range(3):
        buffer[...] = i + 1
        envs.step(buffer if plain else {"a": buffer})
    buffer[...] = 9


@pytest.mark.parametrize("plain", [False, True], ids=["dict", "array"])
@both_executors
@pytest.mark.slow_but("iterative", "parallel-array")
def test_a_journal_keeps_copies(executor, plain):
    make = partial(Reusing, plain)
    still = np.zeros((2, 2)) if plain else {"a": np.zeros((2, 2))}
    with (
        closing(executor(make, 2, journal=True)) as envs,
        closing(executor(make, 2, journal=True)) as other,
    ):
        play_with_reused_arguments(envs, plain)
        state = envs.get_state()
        shown = envs.step(still)[0]
        envs.reset(seed=4)
        other.set_state(state)
        assert equal(other.step(still)[0], shown)


def test_every_call_is_made_again_in_order_with_what_it_was_given():
    with closing(two(Settings)) as envs:
        envs.reset(seed=0)
        array = np.ones(2)
        for call in (("keep", array), ("keep", array), ("double",), ("keep", array)):
            envs.call(*call)
        array[...] = 9
        kill(envs, 1)
        assert envs.step([0, 0])[1].tolist() == [10.0, 10.0]


class TypedEnv(CountingEnv):
    """Returns the dtype of the action that it was given."""

    def step(self, action):
        *result, info = super().step(action)
        return *result, {**info, "dtype": action.dtype.str}


def test_actions_keep_the_dtypes_in_which_they_came():
    with closing(iterative(partial(TypedEnv, 9))) as envs:
        envs.reset(seed=0)
        for dtype in (np.int64, np.int8, np.int8, np.int64):
            envs.step(NO_ACTIONS.astype(dtype))
        with closing(iterative(partial(TypedEnv, 9))) as other:
            other.set_state(envs.get_state())
            assert equal(other.step(NO_ACTIONS), envs.step(NO_ACTIONS))


# All that environments have returned.


class Faulty(CountingEnv):
    """Differs, in its second life, in one thing that it returns in its second step."""

    def __init__(self, path, what):
        super().__init__(length=9)
        self.again, self.what = path.exists(), what
        path.touch()

    def step(self, action):
        obs, reward, ended, cut, info = super().step(action)
        if self.steps == 2 and self.again:
            if self.what == "reward":
                reward = np.nextafter(reward, 9)
            elif self.what == "observation":
                obs = np.nextafter(obs, 99)
            elif self.what == "end":
                cut = True
            elif self.what == "info":
                info["draw"] += 1
        return obs, reward, ended, cut, info


@pytest.mark.parametrize("what", ["reward", "observation", "end", "info"])
def test_an_environment_that_ever_showed_something_else_is_named(what, tmp_path):
    envs = two([CountingEnv, partial(Faulty, tmp_path / "born", what)])
    envs.reset(seed=0)
    for _ in range(4):
        envs.step([0, 0])
    kill(envs, 1)
    with pytest.raises(WorkerDiedError, match=r"environment 1: this .* \(4 steps\)"):
        envs.step([0, 0])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ([np.zeros(2)], [np.array([0.0, -0.0])]),
        ([np.zeros(2), 1.0], [np.zeros(2), np.nextafter(1.0, 2)]),
        ([np.float32(1), {"a": 1}], [np.float32(1), {"a": 2}]),
        ([{"a": {"b": [1, "x"]}}], [{"a": {"b": [1, "y"]}}]),
        ([{"a": np.full((2, 2), np.nan)[:, 0]}], [{"a": np.ones((2, 2))[:, 0]}]),
        ([(np.int64(3),), {"s": "\ud800"}], [(np.int64(3),), {"s": "\ud801"}]),
    ],
)
def test_every_bit_counts(one, other):
    assert fingerprint(0, *one) == fingerprint(0, *one)
    assert fingerprint(0, *one) != fingerprint(0, *other)
    assert fingerprint(0, *one) != fingerprint(1, *one)


def test_objects_and_the_wall_clock_do_not_count():
    assert fingerprint(5, {"a": object(), "b": 1}) == fingerprint(5, {"a": object(), "b": 1})
    timed = [{"episode": {"r": 1.0, "t": seconds}} for seconds in (0.1, 0.2)]
    assert fingerprint(5, timed[0]) == fingerprint(5, timed[1])
    assert fingerprint(5, timed[0]) != fingerprint(5, {"episode": {"r": 2.0, "t": 0.1}})


def test_an_episode_that_the_executor_has_cut_can_be_replayed():
    make = partial(
        MetaIterativeEnvExecutor,
        partial(CountingEnv, 9),
        2,
        max_path_length=2,
        autoreset_mode="NextStep",
        journal=True,
    )
    with closing(make()) as envs, closing(make()) as other:
        envs.reset(seed=0)
        envs.step([0, 0])
        assert envs.step([0, 0])[3].all()
        other.set_state(envs.get_state())
        assert equal(other.step([0, 0]), envs.step([0, 0]))


# How large it grows.


def test_a_journal_warns_when_it_grows(monkeypatch):
    monkeypatch.setattr("mtwrappers.vector.journal._WARN_BYTES", 2_000)
    with closing(iterative(partial(CountingEnv, 10**6))) as envs:
        envs.reset(seed=0)
        said = r"the journal of 4 environments has grown to"
        with pytest.warns(UserWarning, match=said):  # noqa: PT031 (in one of them)
            for _ in range(2000):
                envs.step(NO_ACTIONS)


# Logs in a file.


def test_a_file_holds_no_calls():
    with closing(iterative(Settings)) as envs, closing(iterative(Settings)) as other:
        envs.call("keep", 3)
        envs.reset(seed=0)
        other.set_state(envs.get_state())  # where the state has what the call has changed
        assert equal(other.step(NO_ACTIONS), envs.step(NO_ACTIONS))
        envs.call_some([1], "keep", 1, factor=2)
        message = (
            r"environment 1 was called since its last reset, with keep\(1, factor=2\), and a "
            "checkpoint holds no calls: reset first, then save"
        )
        with pytest.raises(RuntimeError, match=message):
            envs.get_state()
        between = envs.get_state(between_episodes=True)
        envs.reset(seed=1)
        assert set(envs.get_state()["logs"][0]) == {"state", "reset", "actions", "digest"}
        other.set_state(between)
        assert equal(other.reset(seed=1), envs.reset(seed=1))
        assert equal(other.step(NO_ACTIONS), envs.step(NO_ACTIONS))


def test_before_a_reset_that_is_due_what_was_set_is_saved():
    with closing(iterative(PointGoalEnv)) as envs, closing(iterative(PointGoalEnv)) as other:
        envs.reset(seed=0)
        envs.set_tasks([{"goal": (1.0, 0.0)}, {"goal": (0.0, 1.0)}])
        other.set_state(envs.get_state())
        with pytest.raises(ResetNeeded):
            other.step(np.zeros((4, 2)))
        assert equal(other.reset(), envs.reset())
        assert other.call("get_task")[3] == {"goal": (0.0, 1.0)}


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (("set_task", 5), "'set_task'"),
        (("set_wrapper_attr", "first", 5), "'first'"),
        ((set_first,), "a function"),
    ],
)
def test_what_no_state_has_is_refused_before_it_would_be_lost(call, said):
    make = partial(gymnasium.wrappers.NormalizeReward, FragileEnv())
    with closing(MetaIterativeEnvExecutor(make, 1, journal=True)) as envs:
        envs.call("set_statistics_updates", False)  # which the wrapper's state has
        envs.reset(seed=0)
        envs.get_state()
        envs.call(*call)
        envs.reset()
        message = (
            f"environment 0, task 'a': it was called with {said}, and a checkpoint cannot hold "
            "what this has changed: give FragileEnv the methods get_state"
        )
        with pytest.raises(TypeError, match=message):
            envs.get_state()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"reset": ["s", None]}, "expected a seed, got 's'"),
        ({"reset": [3, 5]}, "expected options of a reset, got 5"),
        ({"reset": [3]}, "environment 3"),
        ({"reset": 5}, "environment 3"),
        ({"reset": None}, "expected a reset before actions"),
        ({"actions": [np.array(3)]}, "expected an array of actions, got array"),
        ({"actions": [np.zeros((10**12, 0))]}, "expected an array of actions, got array"),
        ({"actions": [np.array([np.nan])]}, "expected actions that are numbers, got NaN"),
        ({"actions": 5}, "environment 3"),
        ({"digest": "x"}, "environment 3"),
        ({"digest": None}, "environment 3"),
    ],
)
def test_a_log_from_elsewhere_holds_a_reset_and_actions(change, message):
    state = {"state": [], "reset": [3, None], "actions": [np.zeros(3)], "digest": np.uint64(1)}
    assert equal(ReplayLog.from_state(state, "environment 3").to_state("environment 3"), state)
    with pytest.raises(ValueError, match=message):
        ReplayLog.from_state({**state, **change}, "environment 3")


@both_executors
def test_a_state_from_elsewhere_is_refused_and_changes_nothing(executor):
    with closing(executor([partial(CountingEnv, 9)] * 2, 2, journal=True)) as envs:
        envs.reset(seed=0)
        state = envs.get_state()
        for name, value in {"logs": [{}, {}], "due": [True], "first_seeds": ["x", "y"]}.items():
            with pytest.raises((ValueError, TypeError)):
                envs.set_state({**state, name: value})
        assert envs.step([0, 0])[1].tolist() == [1.0, 1.0]
