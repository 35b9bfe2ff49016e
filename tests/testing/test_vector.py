"""`check_meta_vector_env` finds what is wrong with executors that break the contract."""

import random
import re
from functools import partial

import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from mtwrappers import MetaIterativeEnvExecutor
from mtwrappers.testing import check_meta_vector_env
from tests.fakes import CountingEnv
from tests.vector.fakes import BoxCountingEnv, short_episodes

LENGTHS = (2, 3, 5, 4)
DISCRETE = [partial(CountingEnv, length, first=100 * i) for i, length in enumerate(LENGTHS)]
MAKERS = [partial(BoxCountingEnv, length, first=100 * i) for i, length in enumerate(LENGTHS)]
BROKEN = {}


def broken(message):
    """Declares a subclass of the iterative executor that the checker refuses with the message."""

    def declare(cls):
        BROKEN[cls.__name__] = (cls, message)
        return cls

    return declare


def check(cls, makers=MAKERS):
    check_meta_vector_env(partial(make, cls), makers, steps=12)


def make(cls, makers, **kwargs):
    return cls(makers, 2, 2, **kwargs)


Iterative = MetaIterativeEnvExecutor


# What it says of itself.


@broken("autoreset_mode must be AutoresetMode.NEXT_STEP, as an attribute and in metadata; got ")
class SaysAnotherMode(Iterative):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.autoreset_mode = AutoresetMode.SAME_STEP


@broken("as an attribute and in metadata; got AutoresetMode.NEXT_STEP and None")
class SaysNoModeInMetadata(Iterative):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.metadata = {}


@broken("as an attribute and in metadata; got AutoresetMode.NEXT_STEP and NextStep")
class SaysTheModeByItsValue(Iterative):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.metadata["autoreset_mode"] = self.autoreset_mode.value


@broken("autoreset_mode must be AutoresetMode.SAME_STEP")
class KnowsOneModeOnly(Iterative):
    def __init__(self, *args, autoreset_mode, **kwargs):
        super().__init__(*args, autoreset_mode="NextStep", **kwargs)


@broken("observation_space must be ")
class HasAnotherObservationSpace(Iterative):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.observation_space = self.single_observation_space


@broken("single_action_space must be ")
class HasAnotherActionSpace(Iterative):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.single_action_space = self.action_space


@broken("3 tasks times 2 environments must be 4")
class MiscountsTasks(Iterative):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.meta_batch_size = 3


@broken("num_envs must be 4, got 2")
class MakesHalfOfTheEnvironments(Iterative):
    def __init__(self, makers, *args, **kwargs):
        super().__init__(makers[:2], 2, 1, **kwargs)


# What it returns.


class Changes(Iterative):
    """Returns what `change` makes of a result."""

    calls = 0

    def reset(self, **kwargs):
        result = super().reset(**kwargs)
        return self.change_reset(*result)

    def step_wait(self):
        self.calls += 1
        result = super().step_wait()
        return self.change_step(*result)

    def change_reset(self, obs, infos):
        return obs, infos

    def change_step(self, obs, rewards, terminated, truncated, infos):
        return obs, rewards, terminated, truncated, infos


@broken("observations of reset in mode NextStep must be those of SyncVectorEnv")
class ShiftsFirstObservations(Changes):
    def change_reset(self, obs, infos):
        return obs + 1, infos


@broken("observations of reset in mode NextStep must be those of SyncVectorEnv")
class ReturnsSinglePrecision(Changes):
    def change_reset(self, obs, infos):
        return obs.astype(np.float32), infos


@broken("observations of step 3 in mode NextStep must be those of SyncVectorEnv")
class SwapsEnvironmentsOnce(Changes):
    def change_step(self, obs, *rest):
        return obs[::-1].copy() if self.calls == 4 else obs, *rest


@broken("rewards of step 2 in mode NextStep must be those of SyncVectorEnv")
class ChangesAReward(Changes):
    def change_step(self, obs, rewards, *rest):
        if self.calls == 3:
            rewards[1] += 1e-12
        return obs, rewards, *rest


@broken("rewards of step 0 in mode NextStep must be those of SyncVectorEnv")
class ReturnsRewardsInAList(Changes):
    def change_step(self, obs, rewards, *rest):
        return obs, rewards.tolist(), *rest


@broken("terminated of step 1 in mode NextStep must be those of SyncVectorEnv")
class CallsTerminationsTruncations(Changes):
    def change_step(self, obs, rewards, terminated, truncated, infos):
        return obs, rewards, truncated, terminated, infos


@broken("truncated of step 0 in mode NextStep must be those of SyncVectorEnv")
class ReturnsTruncatedAsInts(Changes):
    def change_step(self, obs, rewards, terminated, truncated, infos):
        return obs, rewards, terminated, truncated.astype(int), infos


@broken("infos of reset in mode NextStep must be those of SyncVectorEnv")
class DropsAKeyOnReset(Changes):
    def change_reset(self, obs, infos):
        del infos["draw"]
        return obs, infos


@broken("infos of step 0 in mode NextStep must be those of SyncVectorEnv")
class DropsAKeyOnStep(Changes):
    def change_step(self, obs, rewards, terminated, truncated, infos):
        return obs, rewards, terminated, truncated, {k: v for k, v in infos.items() if k != "draw"}


@broken("infos of step 0 in mode NextStep must be those of SyncVectorEnv")
class DropsAMask(Changes):
    def change_step(self, obs, rewards, terminated, truncated, infos):
        infos.pop("_draw")
        return obs, rewards, terminated, truncated, infos


@broken("infos of step 0 in mode NextStep must be those of SyncVectorEnv")
class ReturnsInfosInAList(Changes):
    def change_step(self, obs, rewards, terminated, truncated, infos):
        return obs, rewards, terminated, truncated, infos["steps"].tolist()


@broken("infos of step 1 in mode SameStep must be those of SyncVectorEnv")
class LosesFinalObservations(Changes):
    def change_step(self, obs, rewards, terminated, truncated, infos):
        infos.pop("final_obs", None)
        return obs, rewards, terminated, truncated, infos


@broken("infos of step 1 in mode SameStep must be those of SyncVectorEnv")
class MixesUpFinalInfos(Changes):
    def change_step(self, obs, rewards, terminated, truncated, infos):
        if "final_info" in infos:
            infos["final_info"]["steps"][:] += 1
        return obs, rewards, terminated, truncated, infos


@broken("step 1 returned arrays that an earlier step did")
class ReusesItsRewards(Changes):
    def change_step(self, obs, rewards, *rest):
        if self.calls == 1:
            self.kept = rewards
        self.kept[:] = rewards
        return obs, self.kept, *rest


@broken("step 1 returned arrays that an earlier step did")
class ReusesItsObservations(Changes):
    def change_step(self, obs, *rest):
        if self.calls == 1:
            self.kept = obs
        self.kept[:] = obs
        return self.kept, *rest


@broken("step 1 returned arrays that an earlier step did")
class ReusesAnInfo(Changes):
    def change_step(self, obs, rewards, terminated, truncated, infos):
        if self.calls == 1:
            self.kept = infos["_steps"]
        infos["_steps"] = self.kept
        return obs, rewards, terminated, truncated, infos


# What it does with seeds, options and actions.


@broken("infos of reset in mode NextStep must be those of SyncVectorEnv")
class IgnoresSeeds(Iterative):
    def reset(self, *, seed=None, options=None):
        return super().reset(options=options)


@broken("infos of reset in mode NextStep must be those of SyncVectorEnv")
class SeedsAllAlike(Iterative):
    def reset(self, *, seed=None, options=None):
        if isinstance(seed, int):
            seed = [seed] * self.num_envs
        return super().reset(seed=seed, options=options)


@broken("infos of reset in mode NextStep must be those of SyncVectorEnv")
class TakesTheFirstSeedOfAList(Iterative):
    def reset(self, *, seed=None, options=None):
        return super().reset(seed=seed[0] if isinstance(seed, list) else seed, options=options)


@broken("reset changed the caller's options to {'seen': True}")
class ChangesOptions(Iterative):
    def reset(self, *, seed=None, options=None):
        if options is not None:
            options["seen"] = True
        return super().reset(seed=seed)


@broken("reset changed the caller's options to []")
class TakesTheMaskOutOfOptions(Iterative):
    def reset(self, *, seed=None, options=None):
        result = super().reset(seed=seed, options=options)
        (options or {}).pop("reset_mask", None)
        return result


@broken("reset with reset_mask after step 1 in mode Disabled must be those of SyncVectorEnv")
class IgnoresTheResetMask(Iterative):
    def reset(self, *, seed=None, options=None):
        disabled = self.autoreset_mode is AutoresetMode.DISABLED
        return super().reset(seed=seed, options=None if disabled else options)


@broken("step 0 changed the caller's actions")
class ChangesActions(Iterative):
    def step_async(self, actions):
        super().step_async(actions)
        actions *= 0


@broken("the environment used the global state of np.random")
class DrawsFromNumpy(Changes):
    def change_step(self, *result):
        np.random.random()
        return result


@broken("the environment used the global state of random")
class DrawsFromPython(Changes):
    def change_reset(self, *result):
        random.random()
        return result


# What it refuses.


@broken("step() before reset() must raise ResetNeeded, raised nothing")
class StepsWithoutAReset(Iterative):
    def step(self, actions):
        try:
            return super().step(actions)
        except ResetNeeded:
            self.reset()
            return super().step(actions)


@broken("step() before reset() must raise ResetNeeded, raised RuntimeError: reset first")
class RaisesAnotherErrorWithoutAReset(Iterative):
    def step(self, actions):
        try:
            return super().step(actions)
        except ResetNeeded:
            raise RuntimeError("reset first") from None


@broken("step() of an episode that is over must raise ResetNeeded, raised nothing")
class StepsPastTheEnd(Iterative):
    last = None

    def step(self, actions):
        try:
            self.last = super().step(actions)
        except ResetNeeded:
            if self.last is None:
                raise
        return self.last


@broken("step() with actions for too few environments must raise ValueError, raised nothing")
class TakesTooFewActions(Iterative):
    def step(self, actions):
        missing = self.num_envs - len(actions)
        return super().step(np.concatenate([actions, actions[:missing]]))


@broken("step() with a NaN action must raise ValueError, raised nothing")
class TakesNaN(Iterative):
    def step(self, actions):
        return super().step(np.nan_to_num(actions))


@broken("a step after refused actions in mode NextStep must be those of SyncVectorEnv")
class StepsBeforeItRefuses(Iterative):
    def step_async(self, actions):
        if np.isnan(actions).any():
            self.envs[0].step(actions[0])
        super().step_async(actions)


@broken("reset() with too few seeds must raise ValueError, raised nothing")
class TakesAnyNumberOfSeeds(Iterative):
    def reset(self, *, seed=None, options=None):
        return super().reset(seed=seed[:4] if isinstance(seed, list) else seed, options=options)


@broken("reset() with an empty reset_mask must raise ValueError, raised nothing")
class TakesAnEmptyMask(Iterative):
    def reset(self, *, seed=None, options=None):
        if options and not np.any(options.get("reset_mask", True)):
            return None
        return super().reset(seed=seed, options=options)


@broken("reset() with a reset_mask of another shape must raise ValueError, raised nothing")
class TakesALongMask(Iterative):
    def reset(self, *, seed=None, options=None):
        if options and "reset_mask" in options:
            options = {"reset_mask": options["reset_mask"][: self.num_envs]}
        return super().reset(seed=seed, options=options)


@broken("reset() with a reset_mask that is no bool array must raise TypeError, raised nothing")
class TakesAListAsMask(Iterative):
    def reset(self, *, seed=None, options=None):
        if options and "reset_mask" in options:
            options = {"reset_mask": np.array(options["reset_mask"])}
        return super().reset(seed=seed, options=options)


@broken("reset() after close() must raise ClosedEnvironmentError, raised nothing")
class WorksAfterClose(Iterative):
    def reset(self, **kwargs):
        return None if self.closed else super().reset(**kwargs)


@broken("reset() after close() must raise ClosedEnvironmentError, raised ValueError: closed")
class RaisesAnotherErrorAfterClose(Iterative):
    def reset(self, **kwargs):
        if self.closed:
            raise ValueError("closed")
        return super().reset(**kwargs)


# What it does with attributes.


@broken("call('has_wrapper_attr') must return (True, True, True, True), got [True, True, True, ")
class ReturnsAList(Iterative):
    def call(self, name, *args, **kwargs):
        return list(super().call(name, *args, **kwargs))


@broken("call('get_wrapper_attr') must return (None, None, None, None), got ('x', 'x', 'x', 'x')")
class CallsSomethingElse(Iterative):
    def call(self, name, *args, **kwargs):
        result = super().call(name, *args, **kwargs)
        return ("x",) * 4 if name == "get_wrapper_attr" else result


@broken("get_attr after set_attr must be (0.0, 1.0, 2.0, 3.0), got (0.0, 0.0, 0.0, 0.0)")
class SetsTheFirstValueOnly(Iterative):
    def set_attr(self, name, values):
        super().set_attr(name, [values[0]] * 4 if isinstance(values, list) else values)


@broken("set_attr with too many values must raise ValueError, raised nothing")
class TakesTooManyValues(Iterative):
    def set_attr(self, name, values):
        super().set_attr(name, values[:4] if isinstance(values, list) else values)


@pytest.mark.parametrize("name", BROKEN)
def test_a_breach_is_found_and_named(name):
    cls, message = BROKEN[name]
    with pytest.raises(AssertionError, match=re.escape(message)):
        check(cls)


@pytest.mark.parametrize("makers", [MAKERS, DISCRETE], ids=["boxes", "discrete"])
def test_an_executor_that_keeps_the_contract_is_accepted(makers):
    check(Iterative, makers)
    check(Changes, makers)


def test_the_message_shows_what_was_expected_and_what_came():
    with pytest.raises(AssertionError) as info:
        check(ShiftsFirstObservations)
    lines = str(info.value).splitlines()
    assert lines[0] == "observations of reset in mode NextStep must be those of SyncVectorEnv:"
    assert lines[1] == "expected [[  0.   0.]"
    assert "got      [[  1.   1.]" in lines


def test_a_close_that_raises_is_not_hidden():
    class RefusesToClose(Iterative):
        def close_extras(self, **kwargs):
            super().close_extras(**kwargs)
            self.closed = True
            raise OSError("stuck")

    with pytest.raises(OSError, match="stuck"):
        check(RefusesToClose)


def test_gymnasiums_own_vector_environment_lacks_what_is_ours():
    with pytest.raises(AttributeError, match="meta_batch_size"):
        check_meta_vector_env(SyncVectorEnv, MAKERS)


def test_the_wall_clock_of_episode_statistics_is_no_breach():
    makers = [partial(short_episodes, "CartPole-v1", n) for n in (3, 4)]
    check_meta_vector_env(lambda makers, **kwargs: Iterative(makers, 2, **kwargs), makers, steps=9)


def test_statistics_other_than_the_wall_clock_are_compared():
    class LosesLengths(Changes):
        def change_step(self, obs, rewards, terminated, truncated, infos):
            if "episode" in infos:
                infos["episode"]["l"] += 1
            return obs, rewards, terminated, truncated, infos

    makers = [partial(short_episodes, "CartPole-v1", n) for n in (3, 4)]
    with pytest.raises(AssertionError, match="infos of step 2 in mode NextStep"):
        check_meta_vector_env(lambda m, **kwargs: LosesLengths(m, 2, **kwargs), makers, steps=9)


@pytest.mark.parametrize("name", ["IgnoresSeeds", "ChangesAReward"])
def test_the_vector_environments_are_closed_after_a_breach(name):
    made = []

    def make_vector(makers, **kwargs):
        made.append(make(BROKEN[name][0], makers, **kwargs))
        return made[-1]

    with pytest.raises(AssertionError, match="must be those of SyncVectorEnv"):
        check_meta_vector_env(make_vector, MAKERS)
    assert [envs.closed for envs in made] == [True]


def test_the_seed_and_the_number_of_steps_can_be_chosen():
    seeds, steps = [], []

    class Notes(Iterative):
        def reset(self, *, seed=None, options=None):
            seeds.append(seed)
            return super().reset(seed=seed, options=options)

        def step_wait(self):
            steps.append(1)
            return super().step_wait()

    check_meta_vector_env(partial(make, Notes), MAKERS, seed=5, steps=1)
    assert len(set(seeds[0])) == 4
    assert seeds[1] == 5
    # One step after each of two resets, and the one after refused actions, in each mode.
    assert len(steps) == 3 * 3
