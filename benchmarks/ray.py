"""Compares Ray's actors with local workers, in one run.

    python -m benchmarks.ray [--quick]

MT10 on 2 actors and on 2 worker processes of one machine, whole episodes of 500 steps, with a
network in NumPy that has two layers of 64: `MetaSampler` step-wise and path-wise. Needs the extras
``bench`` and ``ray``. Prints a table and writes ``results/ray.json``.
"""

from __future__ import annotations

import argparse
import warnings
from statistics import median

import ray

from benchmarks.common import machine, measure_rates, median_ratio, save, table, target_row
from benchmarks.path_wise import NetworkPolicy, make_sampler_workload

POLICY_IN = {"step-wise": "parent", "path-wise": "workers"}
TARGETS = {"step-wise": 0.4, "path-wise": 0.9}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    rounds = 3 if parser.parse_args().quick else 7
    warnings.simplefilter("ignore")
    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False, logging_level="error")
    workloads, close_functions = {}, []
    for execution, label in (("parallel", "local"), ("ray", "Ray")):
        for sampling, policy_in in POLICY_IN.items():
            run, close = make_sampler_workload(
                NetworkPolicy(), execution=execution, workers=2, policy_in=policy_in
            )
            workloads[f"{sampling}, {label}"] = run
            close_functions.append(close)
    rates = measure_rates(workloads, rounds)
    for close in close_functions:
        close()
    ray.shutdown()
    rows = []
    for sampling, at_least in TARGETS.items():
        ratio = median_ratio(rates, f"{sampling}, Ray", f"{sampling}, local")
        rows.append(target_row(f"{sampling}: 2 actors / 2 local workers", ratio, at_least))
    save("ray", {"rates": rates, "targets": rows})
    print(machine()["cpu"], machine()["cores"], "cores")
    print({name: f"{median(values):,.0f}" for name, values in rates.items()})
    print(table(rows))


if __name__ == "__main__":
    main()
