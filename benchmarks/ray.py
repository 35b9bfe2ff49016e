"""Ray's actors against local workers, in one run.

    python -m benchmarks.ray [--quick]

MT10 on 2 actors and on 2 worker processes of one machine, whole episodes of 500 steps with two
layers of 64 in NumPy: `MetaSampler` step-wise and path-wise. Needs the extras `bench` and `ray`.
Prints a table, writes ``results/ray.json``.
"""

from __future__ import annotations

import argparse
import warnings
from statistics import median

import ray

from benchmarks.common import machine, rates, ratio, save, table, target_row
from benchmarks.path_wise import Layers, sampler_player

HOW = {"step-wise": "parent", "path-wise": "workers"}
TARGETS = {"step-wise": 0.4, "path-wise": 0.9}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    rounds = 3 if parser.parse_args().quick else 7
    warnings.simplefilter("ignore")
    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False, logging_level="error")
    players, closers = {}, []
    for where in ("parallel", "ray"):
        for how, policy_in in HOW.items():
            kwargs = {"execution": where, "workers": 2, "policy_in": policy_in}
            play, close = sampler_player(Layers(), **kwargs)
            players[f"{how}, {'Ray' if where == 'ray' else 'local'}"] = play
            closers.append(close)
    found = rates(players, rounds)
    for close in closers:
        close()
    ray.shutdown()
    rows = []
    for how, least in TARGETS.items():
        share = ratio(found, f"{how}, Ray", f"{how}, local")
        rows.append(target_row(f"{how}: 2 actors / 2 local workers", share, least))
    save("ray", {"rates": found, "targets": rows})
    print(machine()["cpu"], machine()["cores"], "cores")
    print({name: f"{median(values):,.0f}" for name, values in found.items()})
    print(table(rows))


if __name__ == "__main__":
    main()
