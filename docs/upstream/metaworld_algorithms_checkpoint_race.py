"""metaworld-algorithms 30c9991: saving a checkpoint sometimes fails, by a race in Orbax.

Ten checkpoints are saved in the form of `metaworld_algorithms/checkpoint.py`: the buffer is a
`Composite` inside a `Composite`. Then ten more, with folders that are created before anything is
written. Seen with orbax-checkpoint 0.11.40: on two busy cores most saves fail, elsewhere few may.

Cause: Orbax creates directories in the background by default
(``AsyncOptions.create_directories_asynchronously``), and the writers of the inner items do not
wait for theirs. checkpoint.py nests them in lines 62 and 76 to 82.

Suggested change: pass ``async_options=ocp.AsyncOptions(create_directories_asynchronously=False)``
to ``CheckpointManagerOptions`` (run.py, lines 82 and 152), or save the buffer as two items.
"""

import tempfile
from importlib.metadata import version
from pathlib import Path

import numpy as np
import orbax.checkpoint as ocp


def failed(asynchronously):
    """How many of ten saves fail."""
    options = ocp.CheckpointManagerOptions(
        async_options=ocp.AsyncOptions(create_directories_asynchronously=asynchronously)
    )
    errors = []
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        for i in range(10):
            manager = ocp.CheckpointManager(
                Path(folder) / str(i), item_names=("buffer",), options=options
            )
            buffer = ocp.args.Composite(
                data=ocp.args.StandardSave({"obs": np.zeros((1000, 10)), "pos": 3}),
                rng_state=ocp.args.JsonSave({"state": 1}),
            )
            try:
                manager.save(1, args=ocp.args.Composite(buffer=buffer))
                manager.wait_until_finished()
            except (OSError, ValueError) as error:
                errors.append(type(error).__name__)
    return len(errors)


print("metaworld-algorithms", version("metaworld-algorithms"), end=", ")
print("orbax-checkpoint", version("orbax-checkpoint"))
default = failed(True)
print("saves that failed:", default, "of 10")
print("saves that failed, create_directories_asynchronously=False:", failed(False), "of 10")
print("fault:", "yes" if default else "no")
