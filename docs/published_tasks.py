"""Writes the lists of tasks that were published, ``mtwrappers/envs/published_tasks.json``.

PEARL (Rakelly et al. 2019) draws the tasks of three families after ``np.random.seed(1337)``, and
splits them by its configurations: the first are for training, the last for tests. They are drawn
here from a generator of NumPy's legacy kind with that seed. From github.com/katerakelly/oyster at
44e20fd:

- ``rlkit/envs/half_cheetah_vel.py``, ``configs/cheetah-vel.json``: 100 and 30 of 130;
- ``rlkit/envs/half_cheetah_dir.py``, ``configs/cheetah-dir.json``: both directions in both lists;
- ``rlkit/envs/point_robot.py``, ``configs/point-robot.json`` and ``sparse-point-robot.json``: 80
  and 20 of 100.

The other families of PEARL draw from NumPy's global generator, which its code does not seed, so
their tasks differ from run to run.

    python docs/published_tasks.py
"""

import json
from pathlib import Path

import numpy as np

FILE = Path(__file__).parents[1] / "mtwrappers" / "envs" / "published_tasks.json"
SEED = 1337


def split(name, values, num_train, num_test):
    """The first tasks for training, and the last for tests."""
    tasks = [{name: value} for value in values]
    return {"train": tasks[:num_train], "test": tasks[-num_test:]}


def draw_lists():
    """Draws all lists."""
    velocities = np.random.RandomState(SEED).uniform(0.0, 3.0, size=(130,))
    goals = np.random.RandomState(SEED).uniform(-1.0, 1.0, size=(100, 2))
    angles = np.linspace(0, np.pi, num=100)
    on_half_circle = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    np.random.RandomState(SEED).shuffle(on_half_circle)
    return {
        "PEARL, HalfCheetahVel": split("velocity", velocities.tolist(), 100, 30),
        "PEARL, HalfCheetahDir": split("direction", [-1.0, 1.0], 2, 2),
        "PEARL, PointRobot": split("goal", goals.tolist(), 80, 20),
        "PEARL, SparsePointRobot": split("goal", on_half_circle.tolist(), 80, 20),
    }


if __name__ == "__main__":
    # A line for each family.
    rows = [f"{json.dumps(name)}: {json.dumps(lists)}" for name, lists in draw_lists().items()]
    FILE.write_text("{\n" + ",\n".join(rows) + "\n}\n", encoding="utf-8")
