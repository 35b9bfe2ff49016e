"""Observers of `evaluate` follow its episodes, and those that are finished are not run again."""

from contextlib import closing
from dataclasses import replace

import pytest

from mtwrappers import evaluate
from mtwrappers.evaluation import EvaluationResult, Observer
from tests.evaluation.fakes import drawn, ones, scripted
from tests.vector.fakes import all_modes


class Following(Observer):
    """Keeps all that it is called with, and asks the environments meanwhile."""

    def __init__(self, envs, stop=None):
        self.envs, self.stop = envs, stop
        self.log, self.episodes = [], []

    def plan(self, episodes):
        self.log.append([(planned.task, planned.number) for planned in episodes])

    def begin(self, i, planned):
        self.log.append((i, planned.task, planned.number, self.envs.call_some([i], "steps")[0]))

    def step(self, step):
        self.log.append(step.finished.tolist())

    def end(self, i, episode):
        self.log.append((i, episode.number, episode.length))
        self.episodes.append(episode)
        if len(self.episodes) == self.stop:
            raise KeyboardInterrupt


@all_modes
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.slow_but("0", "2-SameStep")
def test_observers_follow_every_episode_while_the_environments_can_be_asked(mode, workers):
    tasks = [{"lengths": [1], "name": "a"}, {"lengths": [2], "name": "b"}]
    with closing(scripted(tasks, 1, workers, autoreset_mode=mode)) as envs:
        observer = Following(envs)
        result = evaluate(ones, envs, 2, observers=[observer])
    assert observer.log == [
        [("a", 0), ("a", 1), ("b", 0), ("b", 1)],
        (0, "a", 0, 0),
        (1, "b", 0, 0),
        [True, False],
        (0, 0, 1),
        (0, "a", 1, 0),
        [True, True],
        (0, 1, 1),
        (1, 0, 2),
        (1, "b", 1, 0),
        [False, False],  # the first one pauses
        [False, True],
        (1, 1, 2),
    ]
    assert sorted(observer.episodes, key=lambda e: e.task) == list(result.episodes)


@pytest.mark.parametrize("workers", [0, 2])
def test_an_observer_has_what_was_finished_before_an_interruption(workers):
    with closing(scripted([{"lengths": [2], "name": "a"}] * 2, 1, workers)) as envs:
        observer = Following(envs, stop=3)
        with pytest.raises(KeyboardInterrupt):
            evaluate(ones, envs, 5, observers=[observer])
        assert len(EvaluationResult(observer.episodes).of_task("a")) == 3
        assert len(evaluate(ones, envs, 2).episodes) == 2  # they can be used on


@pytest.mark.parametrize("kept", [[], [0], [3, 13, 1, 7, 8], [*range(7)], [*range(14)]])
@pytest.mark.parametrize(("k", "workers"), [(1, 0), (3, 2)])
@pytest.mark.slow_but("1-0", "3-2-kept1")
def test_finished_episodes_count_and_are_not_played_again(kept, k, workers):
    tasks = [{"lengths": [1, 2, 9]}, {"lengths": [4, 2]}]
    expected = evaluate(drawn, scripted(tasks), 7, seed=1)
    finished = [expected.episodes[i] for i in kept]
    with closing(scripted(tasks, k, workers)) as envs:
        watch = Following(envs)
        assert evaluate(drawn, envs, 7, seed=1, observers=[watch], finished=finished) == expected
    assert watch.log[0] == [(e.task, e.number) for e in expected.episodes]
    left = [e for i, e in enumerate(expected.episodes) if i not in kept]
    assert sorted(watch.episodes, key=expected.episodes.index) == left


def test_finished_episodes_must_be_those_of_this_evaluation():
    envs = scripted([{}, {}])
    first, *_ = evaluate(drawn, envs, 2).episodes
    for wrong in (
        [first, first],
        [replace(first, task="task 2")],
        [replace(first, number=2)],
        [replace(first, task_state=0)],
        [replace(first, trial=0)],
    ):
        with pytest.raises(ValueError, match=r"finished must be episodes of this eval.* got Epis"):
            evaluate(drawn, envs, 2, finished=wrong)
    with pytest.raises(TypeError, match=r"finished must be a list of Episode, got 'task 0'"):
        evaluate(drawn, envs, 2, finished=["task 0"])


# Progress.


def test_progress_counts_episodes_those_that_are_finished_too(monkeypatch):
    bars, done = [], []
    monkeypatch.setattr(
        "rich.progress.Progress.add_task", lambda self, *a, **k: bars.append((a, k))
    )
    monkeypatch.setattr("rich.progress.Progress.update", lambda self, task, **state: None)
    monkeypatch.setattr("rich.progress.Progress.advance", lambda self, task, n: done.append(n))
    envs = scripted([{"lengths": [2]}, {"lengths": [3]}])
    expected = evaluate(ones, envs, 3)
    assert (bars, done) == ([], [])
    assert evaluate(ones, envs, 3, progress=True) == expected
    assert evaluate(ones, envs, 3, progress=True, finished=expected.episodes[:2]) == expected
    assert bars == [(("episodes",), {"total": 6})] * 2
    assert done == [0, *[1] * 6, 2, *[1] * 4]
    assert evaluate(ones, envs, 3, progress=True, policy_in="workers") == expected
    assert bars[2:] == [(("episodes",), {"total": None})]
    with pytest.raises(TypeError, match="progress must be True or False, got 'no'"):
        evaluate(ones, envs, 3, progress="no")
