"""The adapter against Stable-Baselines3's own `DummyVecEnv` over the same constructors."""

import importlib
import time
from functools import partial

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, Tuple, flatten
from gymnasium.wrappers import NormalizeReward, RecordEpisodeStatistics, TimeLimit

import mtwrappers as mt
from tests.fakes import CountingEnv, counting_makers, equal
from tests.vector.fakes import BoxCountingEnv, HalfReward, both_executors
from tests.vector.test_interrupts import interrupted

LENGTHS = (1, 2, 3, 5)


class ReportingEnv(BoxCountingEnv):
    """Reports other things at every step, and success in some."""

    def _info(self):
        n = self.steps
        info = {"steps": n, "half": n / 2, "name": f"step {n}", "none": None, "success": n % 2}
        if n % 2:
            info["odd"] = {"steps": n, "below": {"deep": -n}}
        return info | ({"draw": self.draw} if n == 0 else {})


class DictEnv(CountingEnv):
    def __init__(self, length):
        super().__init__(length)
        self.observation_space = Dict({"at": Box(0, 9, (2, 2), np.float32), "n": Discrete(9)})

    def _obs(self):
        return {"at": np.full((2, 2), self.steps, np.float32), "n": self.steps}


class OptionEnv(CountingEnv):
    """Starts to count from what the options say."""

    def reset(self, *, seed=None, options=None):
        self.first = (options or {}).get("first", 0)
        return super().reset(seed=seed, options=options)


class NestedActionEnv(CountingEnv):
    """Rewards with a number that distinguishes the actions."""

    def __init__(self, action_space):
        super().__init__()
        self.action_space = action_space

    def step(self, action):
        obs, _, *flags_and_info = super().step(action)
        flat = flatten(self.action_space, action)
        return obs, float(np.arange(len(flat)) @ flat), *flags_and_info


class LivesEnv(gymnasium.Wrapper):
    """Ends an episode with every step, as wrappers do that end one with each life of a game."""

    env_ended = True

    def reset(self, **kwargs):
        return self.env.reset(**kwargs) if self.env_ended else (self.last_obs, {})

    def step(self, action):
        self.last_obs, reward, terminated, truncated, info = self.env.step(action)
        self.env_ended = terminated or truncated
        return self.last_obs, reward, True, False, info


def with_statistics(make, **kwargs):
    return RecordEpisodeStatistics(make(**kwargs))


def make_limited(length):
    """Is terminated, truncated after three steps, or both at once."""
    return TimeLimit(DictEnv(length), 3)


def varied_makers(kind=CountingEnv):
    """Constructors of episodes of other lengths; every second one is truncated."""
    return [
        partial(kind, length=length, truncate=i % 2 == 1, first=100 * i)
        for i, length in enumerate(LENGTHS)
    ]


KINDS = {
    "numbers": varied_makers(),
    "boxes and any infos": varied_makers(ReportingEnv),
    "dicts": [partial(make_limited, length) for length in LENGTHS],
    "statistics": [partial(with_statistics, make) for make in varied_makers()],
}
N = len(LENGTHS)


@pytest.fixture
def sb3():
    """Stable-Baselines3's vector environments."""
    return pytest.importorskip("stable_baselines3.common.vec_env")


def actions(space, t):
    """SB3's policies act in float32 or int64."""
    if isinstance(space, Discrete):
        return np.full(N, t % 2, np.int64)
    return np.full((N, *space.shape), t / 10, np.float32)


# Times, which differ, and the adapter's additions.
ADDED = ("t", "is_success", "success_once")


def remove_added(value):
    """Removes the entries of infos that are `ADDED`."""
    if isinstance(value, dict):
        return {key: remove_added(v) for key, v in value.items() if key not in ADDED}
    if isinstance(value, (list, tuple)):
        return [remove_added(element) for element in value]
    return value


def make_monitored(make):
    """Makes an environment in SB3's own wrapper."""
    return importlib.import_module("stable_baselines3.common.monitor").Monitor(make())


BOXES = "boxes and any infos"
WRAPPERS = {"VecMonitor": (), "VecNormalize": (), "VecFrameStack": (2,)}


@pytest.mark.filterwarnings("ignore:The environment is already wrapped with a `Monitor`")
@both_executors
@pytest.mark.parametrize(
    ("kind", "wrap"),
    [*((kind, "nothing") for kind in KINDS), *((BOXES, wrap) for wrap in WRAPPERS)],
)
def test_it_returns_what_dummy_vec_env_returns_in_its_wrappers_too(sb3, executor, kind, wrap):
    makers = KINDS[kind]
    ours = mt.as_sb3_vec_env(executor(makers, N))
    if kind != "statistics":  # SB3's own, where the environments have none
        makers = [partial(make_monitored, make) for make in makers]
    theirs = sb3.DummyVecEnv(makers)
    if wrap != "nothing":
        ours, theirs = (getattr(sb3, wrap)(venv, *WRAPPERS[wrap]) for venv in (ours, theirs))
    assert (ours.num_envs, ours.render_mode) == (theirs.num_envs, theirs.render_mode)
    assert ours.observation_space == theirs.observation_space
    assert ours.action_space == theirs.action_space
    for _ in range(2):
        assert ours.seed(7) == theirs.seed(7) == [7, 8, 9, 10]
        assert equal(*map(remove_added, (ours.reset(), theirs.reset())))
        for t in range(13):
            assert ours.unwrapped.reset_infos == theirs.unwrapped.reset_infos
            act = actions(ours.action_space, t)
            assert equal(*map(remove_added, (ours.step(act), theirs.step(act))))
    ours.close()
    theirs.close()


@both_executors
@pytest.mark.parametrize(
    "space",
    [
        Dict(one=Discrete(4), some=Box(-1, 1, (2, 3), np.float32)),
        Tuple((MultiBinary(3), Dict(deep=Discrete(5)))),
    ],
    ids=["dict", "tuple"],
)
def test_nested_actions_come_one_per_environment(sb3, executor, space):
    def make():
        return NestedActionEnv(space)

    ours, theirs = mt.as_sb3_vec_env(executor(make, 3)), sb3.DummyVecEnv([make] * 3)
    ours.reset()
    theirs.reset()
    ours.action_space.seed(0)
    for _ in range(3):
        batch = [ours.action_space.sample() for _ in range(3)]
        assert ours.step(batch)[1].tolist() == theirs.step(batch)[1].tolist()
    ours.close()


@both_executors
@pytest.mark.parametrize("wrap", [with_statistics, make_monitored, lambda make: make()])
def test_a_wrapper_that_counts_episodes_says_where_they_end(sb3, executor, wrap):
    makers = [lambda: LivesEnv(wrap(CountingEnv))] * 2
    venv = mt.as_sb3_vec_env(executor(makers, 2))
    venv.reset()
    lengths = []
    for _ in range(6):
        infos = venv.step(np.zeros(2, np.int64))[3]
        lengths.append([info["episode"]["l"] if "episode" in info else 0 for info in infos])
    episode_ends = [[0, 0], [0, 0], [3, 3]]
    assert lengths == (
        episode_ends * 2 if wrap in (with_statistics, make_monitored) else [[1, 1]] * 6
    )
    venv.close()


def test_success_and_the_time_are_reported_at_the_end_of_an_episode(sb3):
    makers, start = [partial(ReportingEnv, 2), partial(ReportingEnv, 3)], time.time()
    venv = mt.as_sb3_vec_env(mt.MetaIterativeEnvExecutor(makers, 2))
    venv.reset()
    infos = [venv.step(np.zeros((2, 2), np.float32))[3] for _ in range(3)]
    successes = [[info.get("is_success") for info in env_infos] for env_infos in infos]
    assert successes == [[None, None], [False, None], [None, True]]
    assert 0 <= infos[1][0]["episode"]["t"] <= time.time() - start


class SuccessEnv(CountingEnv):
    """Episodes of three steps; success is reported at some, and otherwise ``missing`` is."""

    def __init__(self, successes, missing=None):
        super().__init__()
        self.successes, self.missing = successes, missing

    def _info(self):
        success = True if self.steps in self.successes else self.missing
        return {} if success is None else {"success": success}


@both_executors
def test_success_at_any_step_and_at_the_last_are_told_apart(sb3, executor):
    """The third environment never reports any, and the others only when it happens."""
    makers = [partial(SuccessEnv, (2,)), partial(SuccessEnv, (3,)), partial(SuccessEnv, ())]
    venv = mt.as_sb3_vec_env(executor(makers, 3))
    for _ in range(2):  # the second time in mid-episode
        venv.reset()
        ends = [venv.step(np.zeros(3, np.int64))[3] for _ in range(5)][2]
        assert [info["success_once"] for info in ends] == [True, True, False]
        assert [info["is_success"] for info in ends] == [False, True, False]
    venv.close()


@both_executors
def test_a_success_counts_for_its_own_episode_alone(sb3, executor):
    makers = [partial(SuccessEnv, (1,), False), partial(SuccessEnv, (), False)]
    venv = mt.as_sb3_vec_env(executor(makers, 2))
    venv.reset()
    venv.step(np.zeros(2, np.int64))
    venv.set_attr("successes", ())
    infos = [venv.step(np.zeros(2, np.int64))[3] for _ in range(5)]
    first, second = infos[1], infos[4]
    assert [info["success_once"] for info in first] == [True, False]
    assert [info["success_once"] for info in second] == [False, False]
    assert "success_once" not in infos[0][0]
    venv.close()


def test_environments_that_report_no_success_get_none(sb3):
    venv = mt.as_sb3_vec_env(mt.MetaIterativeEnvExecutor(CountingEnv, 2))
    venv.reset()
    infos = [venv.step(np.zeros(2, np.int64))[3] for _ in range(3)][2]
    assert not {"is_success", "success_once"} & infos[0].keys()


def test_a_single_environment_reports_success_through_as_vector(sb3):
    env = SuccessEnv((1,))
    with pytest.raises(TypeError, match=r"got the environment .* pass mtwrappers\.as_vector\("):
        mt.as_sb3_vec_env(env)
    venv = mt.as_sb3_vec_env(mt.as_vector(lambda: env))
    venv.reset()
    infos = [venv.step(np.zeros(1, np.int64))[3] for _ in range(3)][2]
    assert (infos[0]["is_success"], infos[0]["success_once"]) == (False, True)


@pytest.mark.parametrize("wrap", ["VecNormalize", "VecMonitor", "VecCheckNan"])
@pytest.mark.parametrize("ours", [lambda envs: envs, HalfReward])
def test_without_the_adapter_the_error_names_it(sb3, wrap, ours):
    envs = ours(mt.MetaIterativeEnvExecutor(partial(BoxCountingEnv, 2), 2))
    with pytest.raises(TypeError, match=r"wrappers, pass mtwrappers\.as_sb3_vec_env\(envs\)"):
        getattr(sb3, wrap)(envs)
    assert getattr(sb3, wrap)(mt.as_sb3_vec_env(envs)).num_envs == 2


# Options, attributes and methods.


def test_seeds_and_options_are_used_once(sb3):
    venv = mt.as_sb3_vec_env(mt.MetaIterativeEnvExecutor([OptionEnv] * 2, 2))
    options = {"first": 40}
    venv.set_options(options)
    options["first"] = 50  # too late
    venv.seed(5)
    assert venv.reset()[:, 0].tolist() == [40, 40]
    assert venv.reset()[:, 0].tolist() == [0, 0]
    assert venv.get_attr("seeds") == [[5, None], [6, None]]
    venv.set_options([{"first": 60}, {"first": 61}])
    assert venv.reset()[:, 0].tolist() == [60, 61]
    for odd in ([{"first": 60}], []):
        venv.set_options(odd)
        with pytest.raises(ValueError, match="set_options must be given a dict or 2 dicts, got "):
            venv.reset()
    venv.set_options()
    # None draws a seed, and leaves the global state alone.
    state = np.random.get_state()[1].tolist()
    first, second = venv.seed(None), venv.seed(None)
    assert np.random.get_state()[1].tolist() == state
    assert first[1] == first[0] + 1
    assert first != second


@both_executors
def test_attributes_and_methods_of_all_and_of_some(sb3, executor):
    venv = mt.as_sb3_vec_env(executor(counting_makers(3), 3))
    assert venv.get_attr("first") == [0, 100, 200]
    assert venv.get_attr("first", 1) == venv.get_attr("first", -2) == [100]
    assert venv.get_attr("first", np.array([2, 0])) == [200, 0]
    with pytest.raises(IndexError, match=r"indices must be in \[-3, 2\], got 3"):
        venv.get_attr("first", 3)
    assert (venv.has_attr("reset"), venv.has_attr("nothing")) == (True, False)
    assert venv.get_attr("seeds") == [[], [], []]  # the method was not called
    [(obs, _)] = venv.env_method("reset", seed=3, options={"a": 1}, indices=1)
    assert obs.tolist() == [100, 100]
    assert venv.get_attr("seeds") == [[], [3], []]
    assert venv.get_attr("options", 1) == [[{"a": 1}]]
    assert venv.env_method("has_wrapper_attr", name="first", indices=[2, 0]) == [True, True]
    venv.set_attr("first", 7, indices=[1])
    assert venv.get_attr("first") == [0, 7, 200]
    venv.set_attr("first", [1, 2, 3])  # one value, not one per environment
    assert venv.get_attr("first") == [[1, 2, 3]] * 3
    with pytest.warns(UserWarning, match="'new', which no environment had"):
        venv.set_attr("new", 5, indices=2)
    assert venv.env_method("has_wrapper_attr", "new") == [False, False, True]
    venv.close()
    limited = partial(TimeLimit, CountingEnv(), 3)
    venv = mt.as_sb3_vec_env(executor([partial(with_statistics, limited), CountingEnv], 2))
    for wrapper in (RecordEpisodeStatistics, TimeLimit, gymnasium.Wrapper):
        assert venv.env_is_wrapped(wrapper) == [True, False]
    assert venv.env_is_wrapped(gymnasium.Wrapper, indices=[1, 0]) == [False, True]
    assert venv.env_is_wrapped(NormalizeReward) == [False, False]
    venv.close()


def test_frames_are_tiled_where_there_are_any(sb3):
    without = mt.as_sb3_vec_env(mt.MetaIterativeEnvExecutor(counting_makers(2), 2))
    with pytest.warns(UserWarning, match="images need render_mode='rgb_array', got None"):
        assert without.get_images() == [None, None]
    makers = [partial(CountingEnv, first=i, render_mode="rgb_array") for i in range(2)]
    venv = mt.as_sb3_vec_env(mt.MetaIterativeEnvExecutor(makers, 2))
    venv.reset()
    assert [image[0, 0, 0] for image in venv.get_images()] == [0, 1]
    assert venv.render()[:, 0, 0].tolist() == [0, 0, 1, 1]
    assert venv.metadata == {"render_modes": ["human", "rgb_array"]}


@both_executors
def test_after_ctrl_c_anywhere_in_a_step_a_reset_begins_anew(sb3, executor):
    venv = mt.as_sb3_vec_env(executor(counting_makers(2), 2))
    venv.reset()
    for k in range(1, 40, 3):
        with interrupted(k) as interrupt:
            venv.step(np.zeros(2, np.int64))
        assert interrupt.heard or k > 15
        assert venv.reset()[:, 0].tolist() == [0, 100]
        assert venv.step(np.zeros(2, np.int64))[1].tolist() == [1, 1]
    venv.close()


@pytest.mark.parametrize(
    "env_keeps_statistics", [False, True], ids=["the adapter's", "the environments'"]
)
def test_statistics_are_of_the_rewards_that_those_see_who_keep_them(sb3, env_keeps_statistics):
    make = partial(with_statistics, CountingEnv) if env_keeps_statistics else CountingEnv
    envs = HalfReward(mt.MetaIterativeEnvExecutor([partial(make, length=2)] * 2, 2))
    venv = mt.as_sb3_vec_env(envs)
    venv.reset()
    venv.step(np.zeros(2, np.int64))
    _, rewards, _, infos = venv.step(np.zeros(2, np.int64))
    assert rewards.tolist() == [1, 1]
    assert infos[0]["episode"]["r"] == (3.0 if env_keeps_statistics else 1.5)
    assert venv.vec_env is envs
    venv.close()
    assert envs.unwrapped.closed


def test_steps_of_paused_environments_do_not_count_in_the_length_of_an_episode(sb3):
    env = mt.as_sb3_vec_env(mt.MetaIterativeEnvExecutor(counting_makers(2, length=3), 2))
    env.reset()
    for t in range(5):
        env.vec_env.pause(np.array([t in (1, 2), False]))
        _, _, dones, infos = env.step([0, 0])
    assert dones.tolist() == [True, False]
    assert (infos[0]["episode"]["l"], infos[0]["episode"]["r"]) == (3, 6.0)
