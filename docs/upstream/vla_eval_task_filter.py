"""vla-eval 0.8.0: a task in a filter that the benchmark does not have is left out silently.

With a misspelt task, the mean is over fewer tasks. If no name matches, no episode is run, the
success rate is 0.0%, and ``vla-eval run`` exits with status 0.

Cause: ``tasks = [t for t in tasks if t.get("suite") in cfg.tasks or t.get("name") in cfg.tasks]``
in vla_eval/orchestrator.py, line 344; nothing compares the result with ``cfg.tasks``.

Suggested change: raise a ValueError for such names before the first episode, and if nothing is left
to run.
"""

import contextlib
import io
import logging
from importlib.metadata import version

import numpy as np
import vla_eval
from vla_eval.benchmarks.base import StepBenchmark, StepResult
from vla_eval.model_servers.predict import PredictModelServer


class Benchmark(StepBenchmark):
    """Has two tasks; an episode is one step and a success."""

    def get_tasks(self):
        return [{"name": "push"}, {"name": "pull"}]

    def reset(self, task):
        return None

    def step(self, action):
        return StepResult(None, 1.0, True, {})

    def make_obs(self, raw_obs, task):
        return {"images": {}, "task_description": task["name"]}

    def get_step_result(self, step_result):
        return {"success": True}


class Server(PredictModelServer):
    """Answers every observation."""

    def predict(self, obs, ctx):
        return {"actions": np.zeros(1, np.float32)}


def run(tasks):
    """How many episodes were run, and the success rate."""
    entry = {"benchmark": "__main__:Benchmark", "tasks": tasks}
    with contextlib.redirect_stdout(io.StringIO()):  # which has the tables of vla-eval
        [result] = vla_eval.evaluate(Server(), {"benchmarks": [entry]}, no_save=True)
    return sum(task["num_episodes"] for task in result["tasks"]), result.get("mean_success", 0.0)


logging.disable(logging.INFO)
both, misspelt, none = run(["push", "pull"]), run(["push", "pul"]), run(["pul"])
print("vla-eval", version("vla-eval"))
print("tasks: [push, pull]: episodes, success:", both)
print("tasks: [push, pul]:  episodes, success:", misspelt)
print("tasks: [pul]:        episodes, success:", none)
print("fault:", "yes" if misspelt == (1, 1.0) and none == (0, 0.0) else "no")
