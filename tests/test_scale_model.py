"""The model of throughput against nodes, in its limits."""

import math

import pytest

from benchmarks.scale import Cluster, Costs, fitted, rate

# Round numbers, in milliseconds: 3 environments per worker, paths of 10 steps, 2 per iteration.
ROUND = Costs(
    env_step=1e-3,
    policy_call=0.8e-3,
    policy_row=0.1e-3,
    message=1e-3,
    path=1e-3,
    step_bytes=1000,
    policy_bytes=6000,
)
SMALL = Cluster(latency=1e-3, bandwidth=1e6, cores=2, envs=3, steps=10, paths=2)


@pytest.mark.parametrize("network", [{}, {"latency": 0, "bandwidth": math.inf}])
def test_one_node_has_the_rates_that_were_measured_whatever_the_network(network):
    measured = {"step-wise": 5e3, "path-wise": 1e4}
    costs, cluster = fitted(Costs(), Cluster(), measured), Cluster(**network)
    assert {model: rate(model, costs, cluster, 1) for model in measured} == pytest.approx(measured)


@pytest.mark.parametrize(
    ("model", "nodes", "milliseconds", "steps"),
    [
        ("ideal", 1, 1.1 + 3, 6),
        ("ideal", 4, 1.1 + 3, 24),
        # The policy for all, a message per worker, and a worker's environments.
        ("step-wise", 1, 1.4 + 2 + 3, 6),
        # There and back, and the 18 of 24 environments that are on other nodes.
        ("step-wise", 4, 3.2 + 8 + 3 + 2 + 18, 24),
        # Messages, then 41 ms to collect a trajectory and 6 to take it, during which the next runs.
        ("path-wise", 1, 2 + 41 + 6 + 41, 120),
        # The policy to 3 nodes, and paths of 180 ms on the link, which is the slowest.
        ("path-wise", 4, 8 + 18 + 2 + 41 + 180 + 24 + 180, 480),
    ],
)
def test_a_rate_by_hand(model, nodes, milliseconds, steps):
    assert rate(model, ROUND, SMALL, nodes) == pytest.approx(steps / milliseconds * 1e3)
