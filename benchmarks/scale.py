"""Models the throughput of up to 1,000 nodes of a cluster from measured costs.

    python -m benchmarks.scale [--latency 1e-4] [--bandwidth 1.25e9] [--cores 2] [--envs 5] ...

Takes the costs that were measured on one machine, below, and prints a table of environment steps
per second; ``docs/pictures.py`` draws the model.

A cluster has ``n`` nodes of ``c`` cores, with a worker on each core that steps ``k`` environments:
``W = n c`` workers and ``N = W k`` environments. A driver on one of the nodes sends and receives
all messages, one after another. A step of an environment takes ``e`` seconds, a policy's answer to
``b`` observations ``p(b) = a + d b``. Between machines there are a latency ``L`` in each direction
(none if ``n = 1``), and a link to the driver of bandwidth ``B``, which carries the share
``f = (n - 1) / n`` of the bytes: those of the workers that are not on the driver's own node.

Step-wise, the driver asks the policy for all environments, and sends every worker a message per
step. Nothing overlaps, so that a step of all ``N`` environments takes

    p(N)         policy: one call for all of them
    + W m        messages: the driver sends each worker its actions and takes its answer
    + 2 L        latency: there and back
    + f N s / B  link: the s bytes of an action, observation, reward, flags and infos, for each
    + k e        environments: those of a worker, one after another
    + x          rest: what one node was measured to take beyond these, such as waiting for the
                 slower worker

Path-wise, the policy goes to every worker once per iteration, and ``j`` paths of ``T`` steps come
back from each environment, while the next are played. An iteration takes

    W m                     messages: one to each worker
    + (n - 1) w / B         link: the w bytes of the policy, to every other node
    + 2 L                   latency: there and back
    + P + D + F             the first path of every environment: played, sent, taken
    + (j - 1) max(P, D, F)  the other paths: whichever of the three takes longest

with ``P = T (p(k) + k e + y)`` to play them on the workers (``y`` is a rest again), ``D = f N T s /
B`` to send them, and ``F = N q`` in which the driver takes them. In the ideal model, workers only
step environments and ask their copy of the policy: ``N`` steps in ``p(k) + k e``.

The model leaves out that the slowest of many workers is slower than that of two, and that nodes
fail.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field, fields

NODES = [round(10 ** (i / 12)) for i in range(37)]  # 1 to 1,000


@dataclass(frozen=True)
class Costs:
    """Measured costs, in seconds and bytes; see the module for the letters."""

    env_step: float = 100e-6  # e
    policy_call: float = 5e-6  # a
    policy_row: float = 0.5e-6  # d
    message: float = 150e-6  # m
    path: float = 100e-6  # q
    step_bytes: float = 555.0  # s
    policy_bytes: float = 58e3  # w
    step_rest: float = 0.0  # x
    path_rest: float = 0.0  # y

    def policy(self, rows: int) -> float:
        """The seconds of a policy's answer."""
        return self.policy_call + self.policy_row * rows


# Measured with MT10 on two plain Ray actors of an idle machine (2 virtual cores of an AMD EPYC),
# and a network in NumPy with two layers of 64. Exceptions: `message` is the time that
# `MetaRayEnvExecutor` takes of its thread, and the rests are chosen so that one node has the 2,673
# (step-wise) and 8,719 (path-wise) steps per second of `benchmarks.ray`.
MEASURED = Costs(
    env_step=170e-6,
    policy_call=5.9e-6,
    policy_row=0.56e-6,
    message=438e-6,
    path=186e-6,
    step_bytes=555.0,
    policy_bytes=58e3,
    step_rest=2004e-6,
    path_rest=287e-6,
)


@dataclass(frozen=True)
class Cluster:
    """Nodes, the network between them, and the workers that run on them."""

    latency: float = field(default=100e-6, metadata={"help": "one way between machines, seconds"})
    bandwidth: float = field(default=1.25e9, metadata={"help": "of the driver's link, bytes/s"})
    cores: int = field(default=2, metadata={"help": "per node, each with a worker"})
    envs: int = field(default=5, metadata={"help": "per worker"})
    steps: int = field(default=500, metadata={"help": "of a path"})
    paths: int = field(default=4, metadata={"help": "per environment and iteration"})

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not (value > 0 or (name == "latency" and value == 0)):
                raise ValueError(f"{name} must be positive, got {value!r}")


def step_wise(costs: Costs, cluster: Cluster, nodes: int) -> dict[str, float]:
    """The seconds of a step of all environments, term by term."""
    workers = nodes * cluster.cores
    envs = workers * cluster.envs
    return {
        "policy": costs.policy(envs),
        "messages": workers * costs.message,
        "latency": 2 * cluster.latency * (nodes > 1),
        "link": (nodes - 1) / nodes * envs * costs.step_bytes / cluster.bandwidth,
        "environments": cluster.envs * costs.env_step,
        "rest": costs.step_rest,
    }


def path_wise(costs: Costs, cluster: Cluster, nodes: int) -> dict[str, float]:
    """The seconds of an iteration per step of all environments, term by term."""
    workers = nodes * cluster.cores
    envs = workers * cluster.envs
    path_bytes = (nodes - 1) / nodes * cluster.steps * costs.step_bytes
    step = costs.policy(cluster.envs) + cluster.envs * costs.env_step + costs.path_rest
    terms = {
        "playing": cluster.steps * step,
        "link": envs * path_bytes / cluster.bandwidth,
        "taking paths": envs * costs.path,
    }
    slowest = max(terms, key=lambda name: terms[name])
    terms[slowest] *= cluster.paths
    terms["link"] += (nodes - 1) * costs.policy_bytes / cluster.bandwidth
    terms["messages"] = workers * costs.message
    terms["latency"] = 2 * cluster.latency * (nodes > 1)
    return {name: seconds / (cluster.paths * cluster.steps) for name, seconds in terms.items()}


def ideal(costs: Costs, cluster: Cluster, nodes: int) -> dict[str, float]:
    """The seconds of a step of all environments where nothing is sent."""
    return {"playing": costs.policy(cluster.envs) + cluster.envs * costs.env_step}


MODELS = {"ideal": ideal, "path-wise": path_wise, "step-wise": step_wise}


def rate(model: str, costs: Costs, cluster: Cluster, nodes: int) -> float:
    """Environment steps per second of a model on a number of nodes."""
    seconds = sum(MODELS[model](costs, cluster, nodes).values())
    return nodes * cluster.cores * cluster.envs / seconds


def main() -> None:
    parser = argparse.ArgumentParser()
    for option in fields(Cluster):
        text = f"{option.metadata['help']} (%(default)s)"
        kind = type(option.default)
        parser.add_argument(f"--{option.name}", type=kind, default=option.default, help=text)
    cluster = Cluster(**vars(parser.parse_args()))
    print(f"{'nodes':>5}", *(f"{model:>12}" for model in MODELS))
    for nodes in (1, 2, 4, 10, 30, 100, 300, 1000):
        rates = [rate(model, MEASURED, cluster, nodes) for model in MODELS]
        print(f"{nodes:5}", *(f"{steps_per_second:12,.0f}" for steps_per_second in rates))


if __name__ == "__main__":
    main()
