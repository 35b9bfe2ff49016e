"""Meta-World's ids through `gymnasium.make_vec`: sizes, tasks, checkpoints, and its evaluation."""

import json
import re
from contextlib import closing

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode
from metaworld import ALL_V3_ENVIRONMENTS
from metaworld.evaluation import evaluation, metalearning_evaluation
from metaworld.policies import ENV_POLICY_MAP

from mtwrappers import MetaIterativeEnvExecutor, MetaParallelEnvExecutor, MetaWorldSetTaskEnv
from mtwrappers.metaworld import make_benchmark
from tests.fakes import equal

ITERATIVE = {"execution": "iterative"}
PARALLEL = {"execution": "parallel", "workers": 2}
both = pytest.mark.parametrize("execution", [ITERATIVE, PARALLEL], ids=["iterative", "parallel"])
# Meta-learning over classes that are quick to build: two to train on, two to test on.
SPLIT = {
    "train_classes": ["reach-v3", "push-v3"],
    "test_classes": ["pick-place-v3", "button-press-v3"],
}


def make_vec(name, num_envs=1, **kwargs):
    return closing(gymnasium.make_vec(f"mtwrappers/{name}-v0", num_envs, **kwargs))


def actions(envs, n, seed=0):
    envs.action_space.seed(seed)
    return [envs.action_space.sample() for _ in range(n)]


def play(envs, n=3, **reset):
    return [envs.reset(**reset), *(envs.step(action) for action in actions(envs, n))]


def states(envs):
    return envs.call("get_task_state")


# Where the environments run.


@pytest.mark.parametrize(
    ("kwargs", "executor", "workers"),
    [
        ({}, MetaIterativeEnvExecutor, None),
        ({"workers": 1}, MetaIterativeEnvExecutor, None),
        ({"workers": 2}, MetaParallelEnvExecutor, 2),
        ({"workers": 9}, MetaParallelEnvExecutor, 4),
        (ITERATIVE, MetaIterativeEnvExecutor, None),
        (ITERATIVE | {"workers": 1}, MetaIterativeEnvExecutor, None),
        (PARALLEL | {"workers": 1}, MetaParallelEnvExecutor, 1),
        (PARALLEL, MetaParallelEnvExecutor, 2),
    ],
)
def test_execution_and_workers_choose_the_executor(kwargs, executor, workers):
    with make_vec("CustomMT", envs_per_task=2, num_goals=2, **kwargs) as envs:
        assert type(envs) is executor
        assert envs.num_envs == 4
        assert getattr(envs, "num_workers", None) == workers


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"execution": "ray"}, "execution must be 'parallel' or 'iterative', got 'ray'"),
        ({"workers": 0}, "workers must be a positive integer, got 0"),
        ({"workers": 1.5}, "workers must be a positive integer, got 1.5"),
        (ITERATIVE | {"workers": 2}, "iterative execution has no workers; got {'workers': 2}"),
        ({"timeout": 3.0}, "iterative execution has no workers; got {'timeout': 3.0}"),
        ({"context": "fork"}, "iterative execution has no workers; got {'context': 'fork'}"),
        ({"on_worker_failure": "raise"}, "has no workers; got {'on_worker_failure': 'raise'}"),
        (PARALLEL | {"on_worker_failure": "x"}, "must be 'raise' or 'restart', got 'x'"),
        (PARALLEL | {"timeout": -1}, "timeout must be positive or None, got -1"),
        ({"autoreset_mode": "x"}, "must be one of ['NextStep', 'SameStep', 'Disabled'], got 'x'"),
    ],
)
def test_arguments_that_do_not_go_with_the_execution_are_refused(kwargs, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        make_vec("CustomMT", num_goals=2, **kwargs)


@pytest.mark.parametrize(
    ("name", "mode"),
    [("MT10", AutoresetMode.SAME_STEP), *(("ML10-test", mode) for mode in AutoresetMode)],
)
def test_parallel_and_iterative_execution_give_the_same_bits(name, mode):
    kwargs = {"num_goals": 2, "max_episode_steps": 4, "autoreset_mode": mode}
    with (
        make_vec(name, **kwargs, **ITERATIVE) as iterative,
        make_vec(name, **kwargs, **PARALLEL | {"workers": 3}) as parallel,
    ):
        for seed in (0, 1):
            results = [without_time(envs.reset(seed=seed)) for envs in (iterative, parallel)]
            assert equal(*results)
            for action in actions(iterative, 9, seed):
                results = [without_time(envs.step(action)) for envs in (iterative, parallel)]
                assert equal(*results)
                over = results[0][2] | results[0][3]
                if mode is AutoresetMode.DISABLED and over.any():
                    mask = {"reset_mask": over}
                    results = [without_time(e.reset(options=mask)) for e in (iterative, parallel)]
                    assert equal(*results)


def without_time(result):
    """Without the wall-clock time of episode statistics."""
    for info in (result[-1], result[-1].get("final_info", {})):
        if "episode" in info:
            info["episode"] = {k: v for k, v in info["episode"].items() if k not in ("t", "_t")}
    return result


# Sizes.


@pytest.mark.parametrize(
    ("name", "num_envs", "kwargs", "sizes"),
    [
        ("MT10", 1, {}, (10, 1)),
        ("MT10", 30, {}, (10, 3)),
        ("MT10", 1, {"envs_per_task": 3}, (10, 3)),
        ("MT10", 20, {"envs_per_task": 2}, (10, 2)),
        ("MT1", 4, {}, (1, 4)),
        ("ML10-test", 1, {}, (5, 1)),
        ("ML10-test", 7, {}, (7, 1)),
        ("ML10-test", 1, {"meta_batch_size": 7}, (7, 1)),
        ("ML10-test", 7, {"meta_batch_size": 7}, (7, 1)),
        ("ML10-test", 1, {"meta_batch_size": 6, "envs_per_task": 2}, (6, 2)),
        ("ML10-test", 12, {"meta_batch_size": 6, "envs_per_task": 2}, (6, 2)),
        ("ML10-test", 12, {"envs_per_task": 2}, (6, 2)),
        ("ML10-train", 1, {}, (10, 1)),
        ("ML1-train", 1, {"meta_batch_size": 50}, (50, 1)),
    ],
)
def test_sizes_that_fit(name, num_envs, kwargs, sizes):
    with make_vec(name, num_envs, **kwargs) as envs:
        assert (envs.meta_batch_size, envs.envs_per_task) == sizes
        assert envs.num_envs == sizes[0] * sizes[1]


@pytest.mark.parametrize(
    ("name", "num_envs", "kwargs", "message"),
    [
        ("MT10", 15, {}, r"num_envs must be a multiple of 10 \(10, 20, 30, "),
        ("MT10", 15, {"envs_per_task": 2}, "with envs_per_task=2, num_envs must be 20 .*got 15"),
        ("MT10", 1, {"envs_per_task": 0}, "envs_per_task must be a positive integer, got 0"),
        ("MT10", 1, {"meta_batch_size": 10}, "is for meta-learning .* MT10: pass envs_per_task"),
        ("MT10", 1, {"total_tasks_per_cls": 0}, r"must be in \[1, 50\], got 0"),
        ("MT10", 1, {"total_tasks_per_cls": 51}, r"must be in \[1, 50\], got 51"),
        ("ML10-test", 1, {"num_goals": 3, "total_tasks_per_cls": 4}, r"must be in \[1, 3\], got 4"),
        ("ML10-test", 1, {"meta_batch_size": 4}, r"must be in \[5, 250\], got 4"),
        ("ML10-test", 4, {}, r"meta_batch_size must be in \[5, 250\], got 4"),
        ("ML10-test", 0, {}, r"must be in \[5, 250\], got 0"),
        ("ML10-test", 1, {"meta_batch_size": 251}, r"must be in \[5, 250\], got 251"),
        ("ML10-test", 1, {"meta_batch_size": 16, "num_goals": 3}, r"must be in \[5, 15\], got 16"),
        (
            "ML10-test",
            1,
            {"meta_batch_size": 11, "total_tasks_per_cls": 2},
            r"5 classes of 2 tasks: meta_batch_size must be in \[5, 10\], got 11",
        ),
        (
            "ML10-test",
            11,
            {"meta_batch_size": 5, "envs_per_task": 2},
            r"num_envs must be meta_batch_size \* envs_per_task = 10 \(or 1, .* got 11",
        ),
        ("ML1-train", 1, {"meta_batch_size": 51}, r"must be in \[1, 50\], got 51"),
    ],
)
def test_sizes_that_do_not_fit_are_refused_with_those_that_do(name, num_envs, kwargs, message):
    with pytest.raises(ValueError, match=message):
        make_vec(name, num_envs, **kwargs)


@pytest.mark.parametrize(("num_envs", "each"), [(7, 2), (4, 3), (9, 4)])
def test_a_refusal_names_a_number_of_environments_that_fits(num_envs, each):
    with pytest.raises(ValueError, match="must be") as info:
        make_vec("ML10-test", num_envs, envs_per_task=each)
    message = str(info.value).replace("ML10", "")
    named = {int(n) for n in re.findall(r"\d+", message)} - {1, each, num_envs}
    assert any(fits(size, each) for size in named), message


def fits(num_envs, each):
    try:
        with make_vec("ML10-test", num_envs, envs_per_task=each) as envs:
            return envs.num_envs == num_envs
    except ValueError:
        return False


@pytest.mark.parametrize("name", ["meta_batch_size", "total_tasks_per_cls"])
@pytest.mark.parametrize("size", [5.0, "5", [5]])
def test_sizes_that_are_no_integers_are_refused_by_name(name, size):
    message = f"{name} must be .*got {re.escape(repr(size))}"
    with pytest.raises((TypeError, ValueError), match=message):
        make_vec("ML10-test", **{name: size})


# Which environment has which tasks.


def drawn(envs, n):
    """The tasks that each environment draws: ``n`` of them, with the one of a seeded reset."""
    envs.reset(seed=0)
    found = [{state} for state in states(envs)]
    for _ in range(n - 1):
        envs.call("sample_tasks")
        for own, state in zip(found, states(envs), strict=True):
            own.add(state)
    return found


def test_a_meta_batch_is_spread_over_the_classes_as_evenly_as_it_goes():
    with make_vec("ML10-test", meta_batch_size=8, num_goals=2) as envs:
        _, infos = envs.reset(seed=0)
        assert infos["task_id"].tolist() == [0, 0, 1, 1, 2, 2, 3, 4]
    with make_vec("CustomML-train", meta_batch_size=5, num_goals=3) as envs:
        assert envs.reset(seed=0)[1]["task_id"].tolist() == [0, 0, 0, 1, 1]


@both
def test_the_groups_of_a_class_share_its_goals_out_among_them(execution):
    kwargs = {"num_goals": 5, "meta_batch_size": 3, "envs_per_task": 2}
    with make_vec("CustomML-train", **kwargs, **execution) as envs:
        assert drawn(envs, 5) == [
            {0, 2, 4},
            {0, 2, 4},
            {1, 3},
            {1, 3},
            {5, 6, 7, 8, 9},
            {5, 6, 7, 8, 9},
        ]


def test_a_total_leaves_only_the_first_goals_of_each_class():
    kwargs = {"num_goals": 5, "total_tasks_per_cls": 3}
    with make_vec("CustomML-train", meta_batch_size=3, **kwargs) as envs:
        assert drawn(envs, 5) == [{0, 2}, {1}, {5, 6, 7}]
    with make_vec("CustomMT", **kwargs) as envs:
        envs.reset(seed=0)
        found = [set(), set()]
        for _ in range(40):
            envs.reset()
            for own, state in zip(found, states(envs), strict=True):
                own.add(state)
        assert found == [{0, 1, 2}, {5, 6, 7}]


@both
@pytest.mark.parametrize("seed", [0, 7, None])
@pytest.mark.parametrize(("name", "kwargs"), [("CustomMT", {}), ("ML1-train", {"num_envs": 3})])
def test_the_tasks_of_all_environments_are_those_of_the_benchmark(name, kwargs, seed, execution):
    with make_vec(name, num_goals=3, seed=seed, **kwargs, **execution) as envs:
        benchmark = {"CustomMT": "CustomMT", "ML1-train": "ML1"}[name]
        classes = {"train_classes": ["reach-v3", "push-v3"]} if name == "CustomMT" else {}
        made = make_benchmark(benchmark, seed=seed or 0, num_goals=3, **classes)
        own = zip(envs.get_attr("task_states"), envs.get_attr("tasks"), strict=True)
        held = {state: task for of_one in own for state, task in zip(*of_one, strict=True)}
        assert held == dict(enumerate(made.train_tasks))


@both
def test_multi_task_environments_draw_a_task_at_every_reset(execution):
    with make_vec("CustomMT", num_goals=50, max_episode_steps=1, **execution) as envs:
        envs.reset(seed=0)
        seen = [states(envs)]
        for action in actions(envs, 5):
            envs.step(action)
            seen.append(states(envs))
        for column in zip(*seen, strict=True):
            assert len(set(column)) > 1
        envs.call("toggle_sample_tasks_on_reset", False)
        seen = []
        for action in actions(envs, 5):
            envs.step(action)
            seen.append(states(envs))
        assert len(set(seen)) == 1


@both
def test_meta_learning_keeps_its_tasks_until_they_are_sampled(execution):
    kwargs = {"num_goals": 4, "max_episode_steps": 1, **SPLIT, **execution}
    with make_vec("CustomML-test", **kwargs) as envs:
        first_obs, _ = envs.reset(seed=0)
        seen = [states(envs)]
        for action in actions(envs, 3):
            obs, *_ = envs.step(action)
            assert np.array_equal(obs, first_obs)
            seen.append(states(envs))
            envs.reset()
            seen.append(states(envs))
        assert len(set(seen)) == 1
        # Each class's tasks come without replacement, and stay.
        sampled = [seen[0]]
        for _ in range(3):
            envs.call("sample_tasks")
            sampled.append(states(envs))
            envs.reset()
            assert states(envs) == sampled[-1]
            envs.step(actions(envs, 1)[0])
            assert states(envs) == sampled[-1]
        assert [set(own) for own in zip(*sampled, strict=True)] == [{0, 1, 2, 3}, {4, 5, 6, 7}]


def test_sampling_on_reset_can_be_chosen():
    with make_vec("ML1-train", num_goals=4, sample_tasks_on_reset=True) as envs:
        envs.reset(seed=0)
        seen = [states(envs)]
        for _ in range(3):
            envs.reset()
            seen.append(states(envs))
        assert set(seen) == {(0,), (1,), (2,), (3,)}


@both
def test_set_tasks_turns_each_group_to_a_task_of_its_own(execution):
    kwargs = {"num_goals": 3, "envs_per_task": 2, **SPLIT, **execution}
    with make_vec("CustomML-train", **kwargs) as envs:
        envs.set_tasks([2, 4])
        envs.reset(seed=0)
        assert states(envs) == (2, 2, 4, 4)
        envs.reset()
        assert states(envs) == (2, 2, 4, 4)
        goals = envs.call("goal")
        assert np.array_equal(goals[0], goals[1])
        assert np.array_equal(goals[2], goals[3])
        with pytest.raises(ValueError, match="expected 2 tasks, one for each group of 2"):
            envs.set_tasks([1, 2, 3, 4])


# What evaluation and training code calls.


@both
def test_toggles_and_names_reach_every_environment(execution):
    with make_vec("CustomMT", num_goals=2, envs_per_task=2, **execution) as envs:
        assert envs.get_attr("task_name") == ("SawyerReachEnvV3",) * 2 + ("SawyerPushEnvV3",) * 2
        assert envs.get_attr("terminate_on_success") == (False,) * 4
        assert envs.get_attr("sample_tasks_on_reset") == (True,) * 4
        for on in (True, False):
            envs.call("toggle_terminate_on_success", on)
            envs.call("toggle_sample_tasks_on_reset", on)
            assert envs.get_attr("terminate_on_success") == (on,) * 4
            assert envs.get_attr("sample_tasks_on_reset") == (on,) * 4


@both
def test_a_step_after_sampled_tasks_continues_their_first_episode(execution):
    with make_vec("ML1-train", 2, num_goals=4, **execution) as envs:
        envs.reset(seed=0)
        [action] = actions(envs, 1)
        envs.call("sample_tasks")
        first = envs.step(action)
        envs.reset()
        assert equal(envs.step(action)[:4], first[:4])


@both
def test_meta_worlds_evaluation_runs_unchanged_and_finds_what_bare_meta_world_does(execution):
    limit = 80
    with make_vec("MT10", num_goals=2, max_episode_steps=limit, **execution) as envs:
        envs.reset(seed=4)
        agent = Expert(envs)
        mean, mean_return, rates, returns = evaluation(agent, envs, num_episodes=1)
        made = make_benchmark("MT10", num_goals=2)
        bare = [bare_episode(made, made.train_tasks[state], limit) for state in agent.began]
        names = list(made.train_classes)
    expected = {name: float(success) for name, (success, _) in zip(names, bare, strict=True)}
    assert rates == expected
    # Within 80 steps some experts succeed and some do not.
    assert set(rates.values()) == {0.0, 1.0}
    assert mean == np.mean(list(expected.values()))
    assert {name: own[0] for name, own in returns.items()} == {
        name: total for name, (_, total) in zip(names, bare, strict=True)
    }
    assert mean_return == np.mean(list(returns.values()))


@both
def test_meta_worlds_meta_learning_evaluation_finds_what_bare_meta_world_does(execution):
    limit, evals = 80, 2
    with make_vec("ML10-test", num_goals=3, max_episode_steps=limit, **execution) as envs:
        envs.reset(seed=1)
        agent = Expert(envs)
        mean, _, rates = metalearning_evaluation(
            agent, envs, num_evals=evals, adaptation_episodes=1, evaluation_episodes=1
        )
        assert envs.get_attr("sample_tasks_on_reset") == (False,) * 5
        assert envs.get_attr("terminate_on_success") == (False,) * 5
    made = make_benchmark("ML10", num_goals=3)
    names = list(made.test_classes)
    assert len(agent.sampled) == evals
    assert all(a != b for a, b in zip(*agent.sampled, strict=True))
    bare = [
        [bare_episode(made, made.test_tasks[state], limit)[0] for state in sampled]
        for sampled in agent.sampled
    ]
    assert rates == dict(zip(names, np.mean(bare, axis=0).tolist(), strict=True))
    assert mean == np.mean([np.mean(row) for row in bare])
    assert 0 < mean < 1


class Expert:
    """Meta-World's scripted experts as an agent, told the goals that observations hide."""

    def __init__(self, envs):
        by_class = {cls.__name__: name for name, cls in ALL_V3_ENVIRONMENTS.items()}
        self.envs = envs
        self.policies = [ENV_POLICY_MAP[by_class[n]]() for n in envs.get_attr("task_name")]
        self.began = None
        self.sampled = []

    def reset(self, env_mask):
        if env_mask.all() and self.began is None:
            self.began = states(self.envs)

    def init(self):
        self.sampled.append(states(self.envs))

    def eval_action(self, observations):
        goals = self.envs.call("goal")
        return np.stack(
            [
                policy.get_action(np.concatenate([obs[:36], goal]))
                for policy, obs, goal in zip(self.policies, observations, goals, strict=True)
            ]
        )

    def adapt_action(self, observations):
        return self.eval_action(observations), {}

    def step(self, timestep):
        assert timestep.observation.shape == (5, 39)

    def adapt(self):
        pass


def bare_episode(made, task, limit):
    """Whether bare Meta-World's expert succeeds within the limit, and its return until then."""
    env = (made.train_classes | made.test_classes)[task.env_name]()
    env.set_task(task)
    obs, _ = env.reset()
    policy = ENV_POLICY_MAP[task.env_name]()
    total = 0.0
    for _ in range(limit):
        action = policy.get_action(np.concatenate([obs[:36], env._target_pos]))
        obs, reward, *_, info = env.step(action)
        total += float(reward)
        if info["success"] == 1.0:
            return True, total
    return False, total


# Checkpoints.


@both
@pytest.mark.parametrize(
    ("name", "kwargs"),
    [
        ("MT10", {"envs_per_task": 2}),
        ("ML10-test", {"meta_batch_size": 7, "envs_per_task": 2}),
        ("ML1-train", {"num_envs": 5}),
    ],
)
def test_every_environment_has_a_checkpoint_id_of_its_own(name, kwargs, execution):
    with make_vec(name, num_goals=5, **kwargs, **execution) as envs:
        ids = [checkpoint_id for checkpoint_id, _ in envs.call("get_checkpoint")]
        assert len(set(ids)) == envs.num_envs
    with make_vec(name, num_goals=5, **kwargs) as other:
        assert [checkpoint_id for checkpoint_id, _ in other.call("get_checkpoint")] == ids


CHECKPOINTED = {
    "multi-task": ("CustomMT", {"envs_per_task": 2, "num_goals": 20}),
    "round robin": ("CustomMT", {"num_goals": 6, "select": "round_robin"}),
    "meta-learning": ("CustomML-train", {"meta_batch_size": 3, "num_goals": 20}),
}


def run(envs):
    """What the environments do from a reset on: resets, autoresets and sampled tasks."""
    seen = [envs.reset()[0], states(envs)]
    for action in actions(envs, 7):
        seen += [envs.step(action)[:4], states(envs)]
    envs.call("sample_tasks")
    seen += [envs.reset()[0], states(envs)]
    envs.reset(options={"resample_task": True})
    seen += [states(envs), np.array([rng.random() for rng in envs.np_random])]
    return seen


@both
@pytest.mark.parametrize("kind", CHECKPOINTED)
@pytest.mark.parametrize("when", ["between episodes", "in an episode", "after sampling"])
def test_after_loading_a_checkpoint_a_reset_goes_on_as_the_original_would(when, kind, execution):
    name, kwargs = CHECKPOINTED[kind]
    kwargs = {"max_episode_steps": 3, **kwargs}
    with make_vec(name, **kwargs) as original, make_vec(name, **kwargs, **execution) as other:
        play(original, 4, seed=6)
        for rng in original.np_random:
            rng.random()
        if when == "in an episode":
            original.step(actions(original, 1)[0])
        if when == "after sampling":
            original.call("sample_tasks")
        saved = json.dumps(original.call("get_checkpoint"))
        expected = run(original)
        assert len({repr(s) for s in expected[1::2]}) > 1
        for before in (None, 3):
            if before is not None:
                play(other, 2, seed=before)
            other.call("load_checkpoint", json.loads(saved))
            assert equal(run(other), expected)
        # The original goes back, too.
        original.call("load_checkpoint", json.loads(saved))
        assert equal(run(original), expected)


def test_a_checkpoint_keeps_what_was_toggled():
    with make_vec("CustomMT", num_goals=3) as envs, make_vec("CustomMT", num_goals=3) as other:
        envs.reset(seed=0)
        envs.call("toggle_terminate_on_success", True)
        envs.call("toggle_sample_tasks_on_reset", False)
        other.call("load_checkpoint", envs.call("get_checkpoint"))
        assert other.get_attr("terminate_on_success") == (True, True)
        assert other.get_attr("sample_tasks_on_reset") == (False, False)


def test_a_checkpoint_keeps_a_task_that_was_set_but_not_begun():
    with make_vec("CustomMT", num_goals=9) as envs, make_vec("CustomMT", num_goals=9) as other:
        envs.reset(seed=0)
        envs.set_tasks([3, 12])
        other.call("load_checkpoint", envs.call("get_checkpoint"))
        other.reset()
        assert states(other) == (3, 12)


@both
def test_a_checkpoint_that_is_missing_is_named(execution):
    with make_vec("CustomMT", num_goals=3, **execution) as envs:
        saved = envs.call("get_checkpoint")
        message = (
            r"environment 1.*: no checkpoint of 'CustomMT-train/push-v3/1' among \['.*reach-v3/0'"
        )
        with pytest.raises(ValueError, match=message):
            envs.call("load_checkpoint", saved[:1])


@pytest.mark.parametrize("other", [{"num_goals": 4}, {"seed": 2}])
def test_a_checkpoint_of_other_goals_is_refused_and_nothing_changes(other):
    with (
        make_vec("CustomMT", num_goals=3, seed=1) as envs,
        make_vec("CustomMT", **{"num_goals": 3, "seed": 1, **other}) as others,
    ):
        envs.reset(seed=5)
        state = others.call("get_task_state")
        message = r"expected the state of an .* on the tasks {.*'goals': '\w{16}'}, got one on {"
        with pytest.raises(ValueError, match=message):
            others.call("load_checkpoint", envs.call("get_checkpoint"))
        assert others.call("get_task_state") == state


def test_a_checkpoint_is_a_few_hundred_bytes_of_json():
    with make_vec("MT10", num_goals=50) as envs:
        envs.reset(seed=5)
        for _, state in envs.call("get_checkpoint"):
            assert len(json.dumps(state)) < 1500


# The seed of an id.


def tasks_played(envs, n=3):
    drawn = []
    for _ in range(n):
        envs.reset()
        drawn.append(envs.call("get_task_state"))
    return drawn


def test_a_seed_makes_runs_repeat_though_no_reset_is_given_one():
    runs = []
    for seed in (1, 1, 2, None, None):
        with make_vec("CustomMT", 6, num_goals=50, seed=seed) as envs:
            runs.append((tasks_played(envs), envs.action_space.sample().tolist()))
    assert runs[0] == runs[1]
    assert len({str(tasks) for tasks, _ in runs}) == 4
    # Each environment draws on its own: equal streams would give equal columns.
    columns = list(zip(*runs[0][0], strict=True))
    assert len(set(columns[:3])) == 3


def test_the_first_reset_is_that_of_the_seed():
    with (
        make_vec("CustomMT", num_goals=9, seed=3) as envs,
        make_vec("CustomMT", num_goals=9, seed=3) as other,
    ):
        assert equal(envs.reset(), other.reset(seed=3))
        assert equal(envs.reset(), other.reset())


def test_a_single_environment_repeats_too():
    runs = []
    for seed in (1, 1, 2, None, None):
        env = gymnasium.make("mtwrappers/MT1-v0", seed=seed)
        tasks = []
        for _ in range(6):
            env.reset()
            tasks.append(env.get_wrapper_attr("get_task_state")())
        runs.append((*tasks, *env.action_space.sample().tolist()))
    assert runs[0] == runs[1]
    assert len(set(runs)) == 4


# A slot.


def test_a_slot_holds_the_tasks_of_its_own_class_and_refuses_others():
    with make_vec("MT10", num_goals=5) as envs:
        envs.reset(seed=0)
        slot = envs.envs[3]
        made = make_benchmark("MT10", num_goals=5).train_tasks
        assert slot.get_wrapper_attr("tasks") == made[15:20]
        assert slot.get_wrapper_attr("task_states") == (15, 16, 17, 18, 19)
        assert slot.get_wrapper_attr("num_tasks") == 5
        slot.reset(options={"task_state": 17})
        with pytest.raises(ValueError, match=r"environment's own \[15, 16, 17, 18, 19\], got 3"):
            slot.reset(options={"task_state": 3})
        assert slot.get_wrapper_attr("get_task_state")() == 17


def test_a_slot_is_made_of_the_wrappers_that_this_package_is_known_for():
    with make_vec("MT10", num_goals=2) as envs:
        slot, layers = envs.envs[4], []
        while isinstance(slot, gymnasium.Wrapper):
            layers.append(type(slot).__name__)
            slot = slot.env
        assert layers == ["RecordingTaskControl", "TaskOnehotWrapper", "FlattenMTEnv"]
        assert type(slot.env) is MetaWorldSetTaskEnv
