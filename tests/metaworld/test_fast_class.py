"""What else a fast class is, beside quick: all that the stock class is, also for a user's own."""

import pickle
from types import SimpleNamespace

import numpy as np
import pytest
from metaworld.envs.sawyer_push_v3 import SawyerPushEnvV3
from metaworld.envs.sawyer_reach_v3 import SawyerReachEnvV3
from metaworld.sawyer_xyz_env import SawyerXYZEnv

from mtwrappers.metaworld import fast_class, make_benchmark
from mtwrappers.metaworld.fast.sawyer import FastSawyer
from mtwrappers.metaworld.known_good import class_to_build
from mtwrappers.metaworld.opengl import choose_gl
from mtwrappers.metaworld.upstream import all_classes
from mtwrappers.metaworld.verify import Extent, first_difference, state

CLASSES = all_classes()
ACTIONS = np.random.default_rng(0).uniform(-1, 1, (15, 4)).astype(np.float32)


@pytest.mark.parametrize("name", CLASSES)
def test_a_fast_class_is_a_subclass_with_the_names_of_its_own(name):
    cls, fast = CLASSES[name], fast_class(name)
    assert fast is fast_class(cls)
    assert issubclass(fast, cls)
    assert fast is not cls
    assert issubclass(fast, FastSawyer)
    assert (fast.__name__, fast.__module__) == (cls.__name__, cls.__module__)
    assert fast_class(fast) is fast


def test_an_environment_has_the_type_the_task_name_and_the_spaces_of_its_class():
    fast, stock = fast_class("reach-v3")(), SawyerReachEnvV3()
    assert isinstance(fast, SawyerReachEnvV3)
    assert isinstance(fast, SawyerXYZEnv)
    assert fast.task_name == stock.task_name == "SawyerReachEnvV3"
    assert fast.spec == stock.spec
    assert fast.metadata == stock.metadata
    assert fast.action_space == stock.action_space
    assert fast.goal_space == stock.goal_space
    assert fast.model_name == stock.model_name
    assert fast.dt == stock.dt == 0.0125
    assert str(fast).replace(hex(id(fast)), "") == str(stock).replace(hex(id(stock)), "")


@pytest.mark.parametrize("version", ["v1", "v2"])
@pytest.mark.parametrize("visible", [True, False])
def test_both_reward_functions_give_their_own_bits(version, visible):
    extent = Extent(tasks=1, steps=25, reward_versions=(version,), goals_visible=(visible,))
    for name in ("push-v3", "hand-insert-v3"):
        assert first_difference(name, extent) is None


def test_tasks_pickle_and_serve_fast_and_stock_classes():
    task = make_benchmark("MT1", env_name="push-v3", num_goals=1).train_tasks[0]
    copy = pickle.loads(pickle.dumps(task))
    assert copy == task
    assert pickle.loads(task.data)["env_cls"] is SawyerPushEnvV3
    assert played(fast_class("push-v3")(), copy) == played(SawyerPushEnvV3(), task)


def test_a_task_of_another_class_is_refused_as_by_stock():
    task = make_benchmark("MT1", num_goals=1).train_tasks[0]
    for env in (SawyerPushEnvV3(), fast_class("push-v3")()):
        with pytest.raises(AssertionError):
            env.set_task(task)


def test_stepping_without_a_task_is_refused_as_by_stock():
    for env in (SawyerPushEnvV3(), fast_class("push-v3")()):
        with pytest.raises(RuntimeError, match=r"You must call env\.set_task before using env\.st"):
            env.step(ACTIONS[0])


def test_an_environment_that_cannot_survive_pickling_says_what_to_pickle():
    with pytest.raises(TypeError, match="pickle a MetaWorldSetTaskEnv, or its task"):
        pickle.dumps(fast_class("push-v3")())


@pytest.fixture
def gl(monkeypatch):
    name = choose_gl()
    if name is None:
        pytest.skip("neither EGL nor OSMesa can render here")
    monkeypatch.setenv("MUJOCO_GL", name)


@pytest.mark.usefixtures("gl")
@pytest.mark.parametrize("mode", ["rgb_array", "depth_array"])
def test_frames_are_those_of_stock_after_first_and_later_resets_and_steps(mode):
    name = "dial-turn-v3"  # it is drawn before its last move is computed
    first, second = make_benchmark("MT1", env_name=name, num_goals=2).train_tasks
    frames = []
    for cls in (fast_class(name), CLASSES[name]):
        env = cls(render_mode=mode, camera_name="corner2", width=48, height=32)
        own = []
        for task in (first, second, first):
            env.set_task(task)
            env.reset()
            own.append(env.render())
            env.step(ACTIONS[0])
        own.append(env.render())
        env.close()
        frames.append(own)
    assert frames[0][0].shape == ((32, 48, 3) if mode == "rgb_array" else (32, 48))
    assert [frame.tobytes() for frame in frames[0]] == [frame.tobytes() for frame in frames[1]]
    assert not np.array_equal(frames[0][2], frames[0][3])


# Classes of a user's own.

FACTOR = 3.0
linalg = SimpleNamespace(norm=lambda x: x + 1)


def halved(function):
    def evaluate_state(self, obs, action):
        reward, info = function(self, obs, action)
        return reward / 2, info

    return evaluate_state


class OwnReward(SawyerPushEnvV3):
    def compute_reward(self, action, obs):
        reward, *rest = super().compute_reward(action, obs)
        return reward * FACTOR + np.linalg.norm(action), *rest


class OwnEvaluation(SawyerPushEnvV3):
    calls = 0

    @halved
    def evaluate_state(self, obs, action):
        self.calls += 1
        reward, info = super().evaluate_state(obs, action)
        return reward + self.calls, {**info, "calls": float(self.calls)}


class OwnTouch(SawyerPushEnvV3):
    def touching_object(self, object_geom_id):
        return object_geom_id + super().touching_object(object_geom_id)

    def evaluate_state(self, obs, action):
        reward, info = super().evaluate_state(obs, action)
        return reward, {**info, "touching": float(self.touching_main_object)}


class OwnReset(SawyerPushEnvV3):
    """Draws anew in every run, counts them, and looks at where the settled hand is."""

    def __init__(self, **kwargs):
        self.own_random = np.random.default_rng(0)
        self.seen = []
        super().__init__(**kwargs)

    def reset_model(self):
        obs = super().reset_model()
        self.seen.append(self.tcp_center.tolist())
        pos = np.r_[self.own_random.uniform(-0.1, 0.1), 0.6, 0.02]
        self._set_obj_xyz(pos)
        return self._get_obs() + 0 * obs


class OwnOuterReset(SawyerPushEnvV3):
    resets = 0

    def reset(self, seed=None, options=None):
        obs, _ = super().reset(seed, options)
        self.resets += 1
        return obs + self.resets, {"resets": self.resets}


class OwnStep(SawyerPushEnvV3):
    def step(self, action):
        obs, reward, *rest = super().step(np.asarray(action) * 0.5)
        return obs, reward + 1, *rest


class OwnSimulation(SawyerPushEnvV3):
    def do_simulation(self, ctrl, n_frames=None):
        super().do_simulation([0.5 * c for c in ctrl], n_frames)


class OwnHand(SawyerPushEnvV3):
    def get_endeff_pos(self):
        return super().get_endeff_pos() + 0.01


class OwnHelpers(SawyerPushEnvV3):
    """Its module's ``linalg`` is not NumPy's."""

    def _get_pos_objects(self):
        return linalg.norm(super()._get_pos_objects())


class OwnGrandchild(OwnReward, OwnTouch):
    TARGET_RADIUS = 0.2


OWN = [OwnReward, OwnEvaluation, OwnTouch, OwnReset, OwnOuterReset, OwnStep, OwnSimulation]
OWN += [OwnHand, OwnHelpers, OwnGrandchild]


def played(env, *tasks):
    """The bits of episodes."""
    bits = []
    for task in tasks:
        env.set_task(task)
        obs, info = env.reset()
        bits.append((obs.tobytes(), info, state(env)))
        for action in ACTIONS:
            obs, reward, *flags, info = env.step(action)
            bits.append((obs.tobytes(), float(reward), flags, info, state(env)))
    return bits


@pytest.fixture(scope="module")
def tasks():
    first, second = make_benchmark("MT1", env_name="push-v3", num_goals=2).train_tasks
    return first, second, first, first


@pytest.fixture(scope="module")
def plain(tasks):
    return played(SawyerPushEnvV3(), *tasks)


@pytest.mark.parametrize("cls", OWN)
def test_a_class_of_the_users_own_stays_itself_bit_for_bit(tasks, plain, cls):
    stock, fast = cls(), fast_class(cls)()
    expected = played(stock, *tasks)
    assert expected != plain
    assert played(fast, *tasks) == expected
    assert isinstance(fast, cls)
    assert fast.task_name == cls.__name__
    for name in ("calls", "resets", "seen", "num_resets", "curr_path_length"):
        assert getattr(fast, name, None) == getattr(stock, name, None)


def test_its_functions_see_their_module_as_it_changes(monkeypatch, tasks):
    stock, fast = OwnReward(), fast_class(OwnReward)()
    before = played(fast, tasks[0])
    monkeypatch.setitem(globals(), "FACTOR", 5.0)
    assert played(fast, tasks[0]) == played(stock, tasks[0]) != before


def test_one_that_only_adds_rewards_steps_as_fast_classes_do():
    assert issubclass(fast_class(OwnReward), FastSawyer)
    assert issubclass(fast_class(OwnReward), fast_class("push-v3"))
    assert not issubclass(fast_class(OwnSimulation), FastSawyer)


def test_auto_leaves_a_class_of_the_users_own_as_it_is():
    assert class_to_build(OwnReward, "auto") is OwnReward
    assert class_to_build(OwnReward, True) is fast_class(OwnReward)


@pytest.mark.parametrize("what", [int, dict, object, FastSawyer.__mro__[-2], 3, None, SawyerXYZEnv])
def test_what_is_no_sawyer_class_is_refused_by_name(what):
    with pytest.raises(TypeError, match=r"expected a Sawyer class .*, got ") as caught:
        fast_class(what)
    assert repr(what) in str(caught.value)


def test_an_environment_in_place_of_its_class_is_refused():
    with pytest.raises(TypeError, match=r"expected a Sawyer class .*, got <.*SawyerReachEnvV3.*>"):
        fast_class(SawyerReachEnvV3())


def test_a_name_that_does_not_exist_is_refused_with_one_that_does():
    with pytest.raises(ValueError, match=r"unknown class 'reach-v2' \(did you mean 'reach-v3'\?\)"):
        fast_class("reach-v2")
