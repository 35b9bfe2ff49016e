"""`check_mtenv`, `check_set_task_env` and `check_meta_vector_env` name the rule that is broken."""

import random
import re
from functools import partial

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box
from gymnasium.vector import SyncVectorEnv
from gymnasium.wrappers import (
    NormalizeReward,
    OrderEnforcing,
    RecordEpisodeStatistics,
    TimeLimit,
)

from mtwrappers import (
    EnvToMTEnv,
    FlattenMTEnv,
    MetaIterativeEnvExecutor,
    MultiEnvWrapper,
    TaskOnehotWrapper,
)
from mtwrappers.testing import (
    check,
    check_meta_vector_env,
    check_mtenv,
    check_set_task_env,
    check_vector_env,
    task_rules,
)
from tests.fakes import CountingEnv, CountingMTEnv, CountingSetTaskEnv, counting_makers, equal
from tests.testing.faults import DISABLED, count_calls, raise_error, subclass
from tests.vector.fakes import BoxCountingEnv


def pattern(message):
    """A pattern of a message in which ``...`` stands for any text."""
    return re.escape(message).replace(re.escape("..."), "(.|\n)*")


def change_returns(base, **changes):
    """A ``base`` whose methods return ``change(env, *returned)``."""

    def make_method(name, change):
        def method(self, *args, **kwargs):
            returned = getattr(base, name)(self, *args, **kwargs)
            return change(self, *(returned if isinstance(returned, tuple) else (returned,)))

        return method

    return subclass(base, **{name: make_method(name, change) for name, change in changes.items()})


def draw_from_global_random(*returned):
    np.random.uniform()
    return returned[1:]


# `MTEnv`.

MT = CountingMTEnv
subclass_mt, change_mt_returns = partial(subclass, MT), partial(change_returns, MT)


class GoalEnv(MT):
    """A `CountingMTEnv` whose task state is a dict of an array; it also says its task id."""

    def get_task_state(self):
        return {"goal": np.array([float(self.goal)])}

    def set_task_state(self, task_state):
        self.goal = int(task_state["goal"][0])

    def sample_task_state(self):
        return {"goal": np.array([float(super().sample_task_state())])}

    def observe(self, env_obs):
        return {**super().observe(env_obs), "task_obs": self.goal}

    def _infos(self, *returned):
        return *returned[:-1], {"task_id": self.goal}

    def reset(self, **kwargs):
        return self._infos(*super().reset(**kwargs))

    def step(self, action):
        return self._infos(*super().step(action))


class KeptEnv(GoalEnv):
    """Keeps its task by reference."""

    task_state = None

    def get_task_state(self):
        return super().get_task_state() if self.task_state is None else self.task_state

    def set_task_state(self, task_state):
        self.task_state = task_state
        super().set_task_state(task_state)


class ReturnedEnv(GoalEnv):
    """Keeps a copy of its task, and returns that copy itself."""

    task_state = None

    def get_task_state(self):
        return super().get_task_state() if self.task_state is None else self.task_state

    def set_task_state(self, task_state):
        super().set_task_state(task_state)
        self.task_state = {"goal": task_state["goal"].copy()}


def move_goal(task_state):
    """Changes a task state of `GoalEnv` in place."""
    task_state["goal"] += 1


class MovedOptionEnv(GoalEnv):
    """Changes the task state in the options of its resets, and not that of its setter."""

    def reset(self, *, seed=None, options=None):
        returned = super().reset(seed=seed, options=options)
        if options and "task_state" in options:
            move_goal(options["task_state"])
        return returned


class CopiedEnv(MT):
    """Says that it is on a task, and runs on another goal until it is given one."""

    def __init__(self, task_state=0, goal=0):
        super().__init__()
        self.returned_state, self.goal = task_state, goal

    def get_task_state(self):
        return self.returned_state

    def set_task_state(self, task_state):
        super().set_task_state(task_state)
        self.returned_state = task_state


def change_options(change):
    """A `CountingMTEnv` that resets with ``change(options)``."""
    return subclass_mt(
        reset=lambda s, *, seed=None, options=None: MT.reset(s, seed=seed, options=change(options))
    )


def run_after_reset(function):
    """A `CountingMTEnv` that calls ``function(env, options)`` after a reset."""

    def reset(self, *, seed=None, options=None):
        returned = MT.reset(self, seed=seed, options=options)
        function(self, options)
        return returned

    return subclass_mt(reset=reset)


def wrong_id(self, *returned):
    """Says the task id of the episode before."""
    last, self.last = getattr(self, "last", 0), self.goal
    return *returned[:-1], {"task_id": last}


GOOD_MT = {
    "a subclass": MT,
    "tasks of arrays": GoalEnv,
    "infos of steps": change_mt_returns(
        step=lambda s, *r: (*r[:4], {"goal": s.goal, "success": 0})
    ),
    "many": lambda: MultiEnvWrapper(counting_makers(3)),
    "one task": lambda: MultiEnvWrapper(counting_makers(1)),
    "a parameter": lambda: EnvToMTEnv(
        CountingEnv(), [1, 2], lambda env, task: setattr(env, "first", task)
    ),
}
BROKEN_MT = {
    "no MTEnv": (CountingEnv, "expected an MTEnv, got CountingEnv"),
    "a constructor": (lambda: MT, "expected an MTEnv, got ABCMeta: call it, and pass the env"),
    "in a wrapper": (
        lambda: FlattenMTEnv(MT()),
        "expected an MTEnv, got FlattenMTEnv: pass env.unwrapped, or check a function that makes",
    ),
    "one environment for all tasks": (
        lambda: make_pendulums(10.0, 10.0, 10.0),
        "3 different tasks lead to the same observations and rewards in 100 steps: their construc",
    ),
    "flat space": (
        subclass_mt(
            __init__=lambda s: (MT.__init__(s), setattr(s, "observation_space", Box(0, 1)))[0]
        ),
        "must be a Dict of env_obs and task_obs, got Box(",
    ),
    "samples unseeded": (
        subclass_mt(sample_task_state=lambda s: MT.sample_task_state(s) if s._task_seed else 1),
        "must raise SeedNotSetError, raised nothing",
    ),
    "seed returns nothing": (
        change_mt_returns(seed=lambda s, _: None),
        "seed(3) must return its seed",
    ),
    "seed forgets": (
        subclass_mt(seed=lambda s, seed=None: [seed]),
        "the environment seed is not set",
    ),
    "seed_task ignores": (
        subclass_mt(seed_task=lambda s, seed=None: MT.seed_task(s, 7) and [seed]),
        "seed_task(3) and seed_task(4) lead to the same task stream: the seed is ignored",
    ),
    "seed_task ignores the last bit": (
        subclass_mt(seed_task=lambda s, seed=None: MT.seed_task(s, seed and seed // 2) and [seed]),
        "seed_task(4) and seed_task(5) lead to the same task stream:",
    ),
    "seed_task rounds": (
        change_mt_returns(
            seed_task=lambda s, _: MT.seed_task(s, int(np.float32(s._task_seed))) and [3]
        ),
        "seed_task(2147483650) and seed_task(2147483651) lead to the same task stream:",
    ),
    "tasks of the other stream": (
        subclass_mt(sample_task_state=lambda s: s.np_random_task and int(s.np_random.integers(3))),
        "the tasks[0]",
    ),
    "draws from both streams": (
        change_mt_returns(sample_task_state=lambda s, task: (s.np_random.random(), task)[1]),
        "sample_task_state() draws from np_random, the stream of the environment, and not from",
    ),
    "copies on the first task": (
        subclass_mt(
            __deepcopy__=lambda s, memo: CopiedEnv(s.goal), __reduce__=lambda s: (CopiedEnv, (7,))
        ),
        "a copy made by pickle of an environment that was set to a task must be on it:",
    ),
    **{
        f"copies that run on goal {goal}": (
            subclass_mt(__reduce__=lambda s, goal=goal: (CopiedEnv, (s.goal, goal))),
            "on another task, a copy made by pickle runs differently: ",
        )
        for goal in range(3)
    },
    "tasks differ": (
        change_mt_returns(sample_task_state=lambda s, _: count_calls(s) // 5 % 3),
        "the tasks[0]",
    ),
    "global, of tasks": (
        change_mt_returns(sample_task_state=lambda s, task: (random.random(), task)[1]),
        "sample_task_state() draws from the global random",
    ),
    "fills options": (
        run_after_reset(lambda s, options: options is not None and options.update(seen=True)),
        "changes the caller's options",
    ),
    "takes the task option": (
        run_after_reset(lambda s, options: options and options.pop("task_state", None)),
        "changes the caller's options",
    ),
    "numpy reward": (
        change_mt_returns(step=lambda s, o, r, end, cut, i: (o, np.float64(r), end, cut, i)),
        "'types'",
    ),
    "info that goes": (
        change_mt_returns(step=lambda s, *r: (*r[:4], {"success": 0} if s.steps == 1 else {})),
        "'infos': a step's infos lack a key ...step 1, info['success']: expected a value, got no",
    ),
    "sampling sets": (
        change_mt_returns(sample_task_state=lambda s, task: MT.set_task_state(s, task) or task),
        "a task that is drawn is not set: get_task_state()",
    ),
    "setting does nothing": (
        subclass_mt(set_task_state=lambda s, task_state: None),
        "expected 0, got 2",
    ),
    "setting has no effect": (
        subclass_mt(
            set_task_state=lambda s, state: setattr(s, "returned_state", state),
            get_task_state=lambda s: vars(s).get("returned_state", 2),
            get_task_obs=lambda s: vars(s).get("returned_state", 2),
        ),
        "3 different tasks lead to the same observations and rewards in 100 steps: set_task",
    ),
    "kept by reference": (
        KeptEnv,
        "if the caller changes the task after set_task_state(), the environment's changes",
    ),
    "returns its own task": (
        ReturnedEnv,
        "after the caller has changed what it returned, get_task_state()['goal']",
    ),
    "setting changes the task": (
        subclass(
            GoalEnv,
            set_task_state=lambda s, state: (GoalEnv.set_task_state(s, state), move_goal(state))[0],
        ),
        "set_task_state() must not change the task that it is given['goal'][0]: ",
    ),
    "a reset changes the task": (
        MovedOptionEnv,
        "reset(options={'task_state': ...}) must not change the task that it is given['goal'][0]",
    ),
    "all tasks look alike": (
        subclass_mt(get_task_obs=lambda s: 1),
        "observed as the same task_obs, 1,",
    ),
    "wrong task_id": (
        change_returns(MT, reset=wrong_id, step=lambda s, *r: (*r[:4], {"task_id": s.goal})),
        "'seed repeats': two runs from reset(seed=3) ... reset(seed=3), info['task_id']:",
    ),
    "shifted task_id": (
        subclass(GoalEnv, _infos=lambda s, *r: (*r[:-1], {"task_id": (s.goal + 1) % 3})),
        "the observed task is not info['task_id']: reset(seed=3),",
    ),
    "reset forgets the task": (
        run_after_reset(lambda s, options: options or setattr(s, "goal", 2)),
        "after set_task_state(), get_task_state(): expected",
    ),
    "observes another task": (
        change_mt_returns(observe=lambda s, obs: {**obs, "task_obs": (s.goal + 1) % 3}),
        "task_obs must be get_task_obs(): expected 2, got 0",
    ),
    "observes another task later": (
        change_mt_returns(
            reset=lambda s, *returned: (vars(s).update(t=0), returned)[1],
            step=lambda s, o, r, end, cut, i: (
                vars(s).update(t=s.t + 1),
                ({**o, "task_obs": (s.goal + (s.t == 2)) % 3}, r, end, cut, i),
            )[1],
        ),
        "step 1, task_obs must be get_task_obs(): expected 2, got 0",
    ),
    "resamples nothing": (
        change_options(lambda o: None if o and "resample_task" in o and (len(o) == 1) else o),
        "20 resets with options={'resample_task': True} must draw tasks,",
    ),
    "resamples before it is seeded": (
        subclass_mt(
            reset=lambda s, *, seed=None, options=None: (
                options and seed is not None and MT.reset(s, options=options),
                MT.reset(s, seed=seed, options=None if seed is not None else options),
            )[1]
        ),
        "reset(seed=3, options={'resample_task': True}) must determine the task, got [",
    ),
    "the option is another": (
        change_options(
            lambda o: (
                {"task_state": (o["task_state"] + 1) % 3}
                if o and len(o) == 1 and "task_state" in o
                else o
            )
        ),
        "after reset(options={'task_state': ...}), get_task_state(): expected ",
    ),
    "takes both options": (
        change_options(lambda options: None if options and len(options) == 2 else options),
        "task_state and resample_task must raise ValueError, raised nothing",
    ),
}


@pytest.mark.parametrize("make", GOOD_MT.values(), ids=GOOD_MT)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.slow
def test_an_mtenv_that_keeps_the_contract_passes_for_any_seed(make, seed):
    check_mtenv(make(), seed=seed)


@pytest.mark.parametrize("make", GOOD_MT.values(), ids=GOOD_MT)
def test_an_mtenv_that_keeps_the_contract_passes_and_is_left_ready(make):
    states = random.getstate(), np.random.get_state(legacy=False)
    env = make()
    check_mtenv(env, steps=1)
    env.step(env.action_space.sample())  # it is left ready
    check_mtenv(env)
    assert equal((random.getstate(), np.random.get_state(legacy=False)), states)


@pytest.mark.usefixtures("same_random_state")
@pytest.mark.parametrize(("env", "message"), BROKEN_MT.values(), ids=BROKEN_MT)
def test_the_rule_that_an_mtenv_breaks_is_named(env, message):
    with pytest.raises(AssertionError, match=pattern(message)):
        check_mtenv(env())


@pytest.mark.parametrize("seed", range(4))
def test_a_task_that_is_drawn_before_the_seed_is_set_is_found_for_any_seed(seed):
    env, _ = BROKEN_MT["resamples before it is seeded"]
    with pytest.raises(AssertionError, match="must determine the task, got"):
        check_mtenv(env(), seed=seed)


def test_the_check_of_an_unseeded_environment_is_left_out_on_a_seeded_one():
    env = BROKEN_MT["samples unseeded"][0]()
    env.reset(seed=1)
    check_mtenv(env)


def test_what_an_environment_raises_is_named():
    env = subclass_mt(step=lambda s, action: raise_error(RuntimeError("no physics")))()
    place = r"\(faults.py, line \d+, in raise_error\)"
    message = f"Broken fails 'runs': RuntimeError: no physics {place}"
    with pytest.raises(AssertionError, match=message):
        check_mtenv(env)


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("name", ["kept by reference", "setting has no effect", "shifted task_id"])
def test_the_same_is_found_by_the_check_of_any_environment(name):
    report = check_vector_env(BROKEN_MT[name][0], steps=60)
    rows = {"tasks", "task observation"}
    assert report.failed
    assert set(report.failed) <= rows, str(report)
    assert check_vector_env(GoalEnv, steps=60)["tasks"].outcome == "passed"


# Whether tasks have an effect.


def make_pendulums(*gravities, **kwargs):
    makers = [partial(gymnasium.make, "Pendulum-v1", g=gravity) for gravity in gravities]
    return MultiEnvWrapper(makers, **kwargs)


class FarStart(gymnasium.Wrapper):
    """Begins further away than the wrapped `CountingEnv`."""

    def reset(self, **kwargs):
        obs, info = super().reset(**kwargs)
        return obs + 1, info


class RareRewardEnv(CountingEnv):
    """Rewards actions alone, and a goal that nobody reaches here; draws nothing."""

    def __init__(self, goal=1000):
        super().__init__(length=200)
        self.goal = goal

    def step(self, action):
        obs, _, *flags_and_info = super().step(action)
        return obs, 1.0 if self.steps == self.goal else -0.1 * float(action), *flags_and_info


class TaskReward(gymnasium.Wrapper):
    """Rewards each task of the wrapped `MTEnv` in another way."""

    def step(self, action):
        obs, reward, *flags, info = super().step(action)
        return obs, reward * (1 + info["task_id"]), *flags, info


ONE_FOR_ALL = {
    "flat": lambda: FlattenMTEnv(make_pendulums(10.0, 10.0)),
    "embedded": lambda: FlattenMTEnv(make_pendulums(10.0, 10.0, task_embedding=np.eye(2, 4)[::-1])),
    "drawn": lambda: make_pendulums(10.0, 10.0, sample_tasks_on_reset=True, max_episode_steps=7),
    "onehots inside": lambda: MultiEnvWrapper(
        TaskOnehotWrapper.wrap_env_cons_list([partial(gymnasium.make, "Pendulum-v1")] * 2)
    ),
    "an observed parameter": lambda: FlattenMTEnv(
        EnvToMTEnv(
            gymnasium.make("Pendulum-v1"),
            [1.0, 2.0],
            lambda env, task: None,
            task_obs=lambda task: np.array([task]),
            task_observation_space=Box(0, 9, (1,), np.float64),
        )
    ),
}
SEVERAL = {
    "another parameter": lambda: FlattenMTEnv(make_pendulums(9.0, 10.0)),
    "the start": lambda: MultiEnvWrapper([CountingEnv, lambda: FarStart(CountingEnv())]),
    "the reward of a wrapper": lambda: TaskReward(FlattenMTEnv(make_pendulums(10.0, 10.0))),
    "the horizon": lambda: make_pendulums(10.0, 10.0, max_episode_steps=[70, 90]),
    "a late reward": lambda: MultiEnvWrapper([RareRewardEnv, partial(RareRewardEnv, 150)]),
}


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("make", ONE_FOR_ALL.values(), ids=ONE_FOR_ALL)
def test_tasks_that_differ_in_their_names_and_random_streams_alone_are_found(make):
    report = check_vector_env(make, steps=60)
    assert report.failed == ("tasks",), str(report)
    message = r"different tasks lead to the same observations and rewards in 100 steps: "
    assert re.search(message, report["tasks"].message)


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("make", SEVERAL.values(), ids=SEVERAL)
def test_tasks_that_differ_in_one_thing_pass(make):
    report = check_vector_env(make, steps=300)
    assert report["tasks"].outcome == "passed", str(report)
    assert not report["tasks"].message


@pytest.mark.usefixtures("alone")
def test_rewards_that_may_come_later_are_a_note_and_a_warning():
    def make():
        return MultiEnvWrapper([RareRewardEnv, partial(RareRewardEnv, 999)])

    report = check_vector_env(make, steps=120)
    assert report.ok
    note = "2 different tasks lead to the same observations and rewards in 120 steps, where only"
    assert report["tasks"].message.startswith(note)
    assert note in " ".join(str(report).split())
    with pytest.warns(UserWarning, match=re.escape(note)) as caught:
        check_mtenv(make(), steps=120)
    assert caught[0].filename == __file__


@pytest.mark.usefixtures("alone")
def test_warnings_of_a_constructor_reach_the_caller_once():
    def make():
        return MultiEnvWrapper([lambda: gymnasium.make("Pendulum-v1", g=g) for g in (8.0, 9.0)])  # noqa: B023

    with pytest.warns(UserWarning, match="reads the variable 'g' of a loop") as caught:
        report = check_vector_env(make, steps=30)
    assert len(caught) == 1
    assert report.failed == ("tasks",)


# The set-task contract. Copies and pickles of the broken ones are of the good class.

ST = CountingSetTaskEnv


def rebuild(attributes):
    env = ST()
    env.__dict__.update(attributes)
    return env


def reduce(self, **changes):
    return rebuild, ({**self.__dict__, **changes},)


subclass_st = partial(subclass, ST, __reduce__=reduce)
change_st_returns = partial(change_returns, subclass(ST, __reduce__=reduce))


def change_copies(**changes):
    """A `CountingSetTaskEnv` whose copies have other attributes."""
    return subclass_st(__deepcopy__=lambda s, memo: rebuild({**s.__dict__, **changes}))


class ManyTasksEnv(ST):
    """Does not say how many tasks there are, and whose episodes are truncated."""

    num_tasks = None

    def __init__(self):
        super().__init__(2, truncate=True)

    def sample_tasks(self, n):
        return [{"first": int(self.np_random.integers(900))} for _ in range(n)]


class PendulumGravity(gymnasium.Wrapper):
    """A wrapper whose tasks take effect at once, and which does without checks of its own."""

    def __init__(self):
        super().__init__(gymnasium.make("Pendulum-v1"))

    def sample_tasks(self, n_tasks):
        gravities = self.np_random.uniform(5.0, 15.0, n_tasks)
        return [{"gravity": gravity} for gravity in gravities.tolist()]

    def set_task(self, task):
        self.unwrapped.g = task["gravity"]

    def get_task(self):
        return {"gravity": self.unwrapped.g}


class KeptTaskEnv(ST):
    """Keeps its task by reference."""

    task = None

    def set_task(self, task):
        super().set_task(task)
        self.task = task

    def get_task(self):
        return super().get_task() if self.task is None else self.task


class ReturnedTaskEnv(ST):
    """Keeps a copy of its task, and returns that copy itself."""

    task = None

    def set_task(self, task):
        super().set_task(task)
        self.task = dict(task)

    def get_task(self):
        return super().get_task() if self.task is None else self.task


class SharingEnv(ST):
    """Resets to the task that any of its class was given last."""

    last = None

    def set_task(self, task):
        super().set_task(task)
        SharingEnv.last = self.first

    def reset(self, **kwargs):
        self.first = self.first if SharingEnv.last is None else SharingEnv.last
        return super().reset(**kwargs)


class RememberingEnv(ST):
    """Observes a hundredth of the task before."""

    last = 0

    def set_task(self, task):
        last = self.first
        super().set_task(task)
        self.last = last / 100

    def _obs(self):
        return super()._obs() + self.last


class ObliviousEnv(ST):
    """Says that its task is set, and goes on with the one it has."""

    returned_task = 0

    def set_task(self, task):
        super().set_task(task)
        self.returned_task, self.first = self.first, 0

    def get_task(self):
        return {"first": self.returned_task}


BROKEN_ST = {
    "no set-task": (CountingEnv, "CountingEnv must have set_task()"),
    "a constructor": (lambda: ST, "expected a gymnasium.Env, got type: call it, and pass the env"),
    "a wrong number": (
        subclass_st(sample_tasks=lambda s, n: ST.sample_tasks(s, 3)),
        "sample_tasks(20) must return a list of 20 tasks, got",
    ),
    "tasks differ": (
        subclass(
            ManyTasksEnv,
            sample_tasks=lambda s, n: [{"first": 100 * count_calls(s) + i} for i in range(n)],
        ),
        "reset(seed=3) must determine the tasks that it draws next",
    ),
    "each call draws the same": (
        subclass(
            ManyTasksEnv,
            sample_tasks=lambda s, n: [
                {"first": int(first)} for first in np.random.default_rng(0).integers(900, size=n)
            ],
            __reduce__=reduce,
        ),
        "sample_tasks(20) returns different tasks, but 20 calls of sample_tasks(1) the same task, ",
    ),
    "a task repeats": (
        change_st_returns(sample_tasks=lambda s, t: [*t[:-1], t[0]] if len(t) == 5 else t),
        "num_tasks is 5, so that sample_tasks(5) after a seed must repeat no task, got 4 different",
    ),
    "changes the task": (
        subclass_st(set_task=lambda s, t: ST.set_task(s, t) or t.update(seen=True)),
        "set_task() must not change the task that it is given",
    ),
    "gets another task": (
        subclass_st(get_task=lambda s: {"first": -1}),
        "after set_task(), get_task()['first']: expected 30, got -1",
    ),
    "no effect": (
        ObliviousEnv,
        "5 different tasks lead to the same observations and rewards in 100 steps: set_task() may "
        "have no effect; if it shows only later, pass more steps",
    ),
    "kept by reference": (
        KeptTaskEnv,
        "if the caller changes the task after set_task(), the environment's changes",
    ),
    "returns its own task": (
        ReturnedTaskEnv,
        "after the caller has changed what it returned, get_task()['first']: expected int ",
    ),
    "shares its task": (SharingEnv, "after set_task(), get_task()['first']: expected 40, got 20"),
    "remembers the last task": (RememberingEnv, "it returns something else after set_task()"),
    "a copy that does not run": (
        change_copies(action_space=None, length=None),
        "a copy made by copy.deepcopy does not run: TypeError: ",
    ),
    "a copy's task": (change_copies(first=7), "copy.deepcopy runs differently: reset(seed=3), obs"),
    "a copy's episode": (change_copies(length=1), "a copy made by copy.deepcopy runs differently"),
    "a pickle's task": (
        subclass_st(__reduce__=lambda s: reduce(s, first=7)),
        "pickle runs differently: reset(seed=3), observation[0]: expected 0.0, got 7.0",
    ),
    "a copy that is itself": (
        subclass(ST, __deepcopy__=lambda s, memo: s, __reduce__=reduce),
        "a copy made by copy.deepcopy shares state with the environment",
    ),
}
GOOD_ST = {
    "a class": ST,
    "many tasks": ManyTasksEnv,
    "wrapped": lambda: TimeLimit(OrderEnforcing(ST()), 7),
    "a wrapper": PendulumGravity,
    "a wrapped wrapper": lambda: TimeLimit(PendulumGravity(), 7),
    "a tuple": subclass_st(sample_tasks=lambda s, n: tuple(ST.sample_tasks(s, n))),
    "steps without a reset": subclass_st(step=CountingEnv.step),
    "refuses nothing": subclass_st(
        set_task=lambda s, t: ST.set_task(s, t) if isinstance(t, dict) else None
    ),
    "no copy": subclass_st(
        __deepcopy__=lambda s, memo: raise_error(TypeError("it has a lock")),
        __reduce__=lambda s: raise_error(TypeError("it has a lock")),
    ),
}


@pytest.mark.parametrize("good", GOOD_ST.values(), ids=GOOD_ST)
def test_both_functions_pass_the_same_families(good):
    env = good()
    check_set_task_env(env)
    env.step(env.action_space.sample())  # it is left ready
    checks = [rule for rule in check.ENV_CHECKS if rule in check.SET_TASK_CHECKS]
    assert set(check.SET_TASK_CHECKS) - {*checks} == {task_rules.methods}
    report = check_vector_env(good, steps=10)
    assert report.ok, str(report)


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("name", ["no effect", "a task repeats", "gets another task"])
def test_both_functions_find_the_same_in_a_family(name):
    make, message = BROKEN_ST[name]
    for wrap in (lambda env: env, OrderEnforcing):
        with pytest.raises(AssertionError, match=pattern(message)):
            check_set_task_env(wrap(make()))
        report = check_vector_env(lambda wrap=wrap: wrap(make()), seed=3, steps=60)
        assert report.failed == ("tasks",)
        assert re.search(pattern(message), report["tasks"].message)


@pytest.mark.parametrize("good", [ST, ManyTasksEnv])
@pytest.mark.parametrize("seed", [0, 3])
def test_a_set_task_environment_passes_and_is_left_on_its_task(good, seed):
    env = good()
    for _ in range(2):
        check_set_task_env(env, seed=seed)
        obs, _ = env.reset()
        assert obs.tolist() == [env.get_task()["first"]] * 2
        env.step(0)


def test_running_statistics_are_no_fault_of_a_family_and_are_kept():
    env = NormalizeReward(ManyTasksEnv())
    env.reset(seed=0)
    env.step(0)
    counted = env.return_rms.count
    check_set_task_env(env)
    assert (env.return_rms.count, env.update_running_mean) == (counted, True)


@pytest.mark.usefixtures("same_random_state")
@pytest.mark.parametrize(("env", "message"), BROKEN_ST.values(), ids=BROKEN_ST)
def test_the_rule_that_a_set_task_environment_breaks_is_named(env, message):
    with pytest.raises(AssertionError, match=pattern(message)):
        check_set_task_env(env())


# `MetaVectorEnv`.

LENGTHS = (2, 3, 5, 4)
DISCRETE = [partial(CountingEnv, length, first=100 * i) for i, length in enumerate(LENGTHS)]
MAKERS = [partial(BoxCountingEnv, length, first=100 * i) for i, length in enumerate(LENGTHS)]
ME = MetaIterativeEnvExecutor


def make(cls, makers, **kwargs):
    return cls(makers, 2, 2, **kwargs)


def check_executor(cls, makers=MAKERS):
    check_meta_vector_env(partial(make, cls), makers, steps=12)


def change_reset_arguments(change):
    """A `MetaVectorEnv` that resets with ``change(envs, seed, options)``."""

    def reset(self, *, seed=None, options=None):
        seed, options = change(self, seed, options)
        return ME.reset(self, seed=seed, options=options)

    return subclass(ME, reset=reset)


def change_infos(change):
    """A `MetaVectorEnv` whose steps change their infos in place."""
    return change_returns(ME, step=lambda s, *returned: (change(s, returned[4]), returned)[1])


def alter_final(envs, infos):
    if "final_info" in infos:
        infos["final_info"]["steps"][:] += 1


def keep_an_info(envs, infos):
    envs.steps_mask = infos["_steps"] = getattr(envs, "steps_mask", infos["_steps"])


def alter_a_reward(self, obs, rewards, terminated, truncated, infos):
    rewards[1] += 1e-12 * (count_calls(self) == 3)
    return obs, rewards, terminated, truncated, infos


def set_attributes(**attributes):
    """A `MetaVectorEnv` with other attributes."""

    def init(self, *args, **kwargs):
        ME.__init__(self, *args, **kwargs)
        vars(self).update(attributes)

    return subclass(ME, __init__=init)


BROKEN_META = {
    "no mode in metadata": (
        set_attributes(metadata={}),
        "metadata['autoreset_mode']: expected Autoreset",
    ),
    "another space": (
        set_attributes(observation_space=Box(0, 1)),
        "observation_space: expected Box(",
    ),
    "miscounts tasks": (set_attributes(meta_batch_size=3), "3 tasks times 2 environments must be"),
    "a reward": (
        change_returns(ME, step=alter_a_reward),
        "NextStep: environment 1, step 2, reward[1]: ",
    ),
    "flags swapped": (
        change_returns(ME, step=lambda s, o, r, end, cut, i: (o, r, cut, end, i)),
        "NextStep: environment 0, step 1, terminated[0]: expected True, got False",
    ),
    "drops a mask": (change_infos(lambda s, i: i.pop("_draw")), "step 0, info['_draw']: "),
    "other final infos": (change_infos(alter_final), "SameStep: environment 0, step 1,"),
    "the same info": (
        change_infos(keep_an_info),
        "if the caller changes what a call has returned, ",
    ),
    "seeds all alike": (
        change_reset_arguments(
            lambda s, seed, o: ([seed] * 4 if isinstance(seed, int) else seed, o)
        ),
        "NextStep: environment 1, reset(seed=3),",
    ),
    "changes options": (
        change_reset_arguments(
            lambda s, seed, o: (seed, (o is not None and o.update(seen=True)) or None)
        ),
        "changes the caller's options",
    ),
    "ignores the mask": (
        change_reset_arguments(
            lambda s, seed, o: (
                seed,
                {"reset_mask": np.ones(4, bool)} if o and s.autoreset_mode is DISABLED else None,
            )
        ),
        "Disabled: environment 1, the reset after step 1, observation[1, 0]: ",
    ),
    "changes actions": (
        subclass(ME, step=lambda s, a: (ME.step(s, a), np.copyto(a, 0))[0]),
        "changes the action that it is given in place: environment 0, step 0, action[0, 0]: ",
    ),
    "global np.random": (
        change_returns(ME, step=draw_from_global_random),
        "reset or step draws from the global np.ran",
    ),
}


@pytest.mark.usefixtures("same_random_state")
@pytest.mark.parametrize(("envs", "message"), BROKEN_META.values(), ids=BROKEN_META)
def test_the_rule_that_a_vector_environment_breaks_is_named(envs, message):
    with pytest.raises(AssertionError, match=re.escape(message)):
        check_executor(envs)


@pytest.mark.parametrize("makers", [MAKERS, DISCRETE], ids=["boxes", "discrete"])
def test_a_vector_environment_that_keeps_the_contract_passes_and_is_closed(makers):
    vector_envs = []

    def make_vector(makers, **kwargs):
        vector_envs.append(make(ME, makers, **kwargs))
        return vector_envs[-1]

    check_executor(ME, makers)
    check_meta_vector_env(
        make_vector, [lambda m=m: RecordEpisodeStatistics(m()) for m in makers], steps=9
    )
    assert [envs.closed for envs in vector_envs] == [True] * 3


def test_gymnasiums_own_vector_environment_lacks_what_is_ours():
    with pytest.raises(AssertionError, match="must make a MetaVectorEnv, got SyncVectorEnv"):
        check_meta_vector_env(SyncVectorEnv, MAKERS)
