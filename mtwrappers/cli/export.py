"""``mtwrappers export``: replays a result into a dataset."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from cyclopts import Parameter

from mtwrappers.cli.commands import Count, described
from mtwrappers.cli.console import UsageError, result_file, say
from mtwrappers.cli.main import raise_on_ctrl_c
from mtwrappers.common.counts import format_count
from mtwrappers.common.errors import full_message
from mtwrappers.evaluation import EvidenceError, VerificationError
from mtwrappers.export.datasets import SIZE, Dataset, Frames, LeRobotDataset, MinariDataset
from mtwrappers.export.replay import export
from mtwrappers.metaworld.observations import CAMERA, ObservationName
from mtwrappers.metaworld.upstream import all_classes

# For each library: its dataset, and the default observation.
_LIBRARIES: dict[str, tuple[Callable[[str, Frames], Dataset], ObservationName]] = {
    "minari": (MinariDataset, "state"),
    "lerobot": (LeRobotDataset, "pixels_agent_pos"),
}


@described
def run(
    result: Annotated[str, Parameter(metavar="RESULT")],
    dataset: Annotated[str, Parameter(metavar="DATASET")],
    /,
    *,
    successes: bool = False,
    observation: ObservationName | None = None,
    camera: Annotated[list[str] | None, Parameter(metavar="CAMERA")] = None,
    size: Count | None = None,
    no_shadows: bool = False,
    video: bool = False,
) -> int:
    """Replay a result into a Minari or LeRobot dataset.

    Args:
        result: The folder of a rollout, or a file of EvaluationResult.save with its evidence
            beside it. All of it is verified first.
        dataset: minari:NAME, in Minari's folder of datasets, or lerobot:DIR.
        successes: Store only successful episodes, each until its first success.
        observation: What is observed: states (default), frames, or frames with a part of the
            state (pixels_agent_pos is the default for LeRobot) or all of it.
        camera: The camera of the frames (default: corner4); can be repeated.
        size: The height and width of frames in pixels (default: 480).
        no_shadows: Draw frames without shadows and reflections, which is faster.
        video: Store LeRobot's frames as video, which is smaller and lossy (default: PNG, lossless).
    """
    library, _, name = dataset.partition(":")
    if library not in _LIBRARIES or not name:
        raise UsageError(f"a dataset must be minari:NAME or lerobot:DIR, got {dataset}")
    make, default = _LIBRARIES[library]
    frames = Frames(
        observation or default,
        tuple(camera or [CAMERA]),
        size or SIZE,
        not no_shadows,
        video,
    )
    if frames.observation == "state" and (camera or size or no_shadows):
        raise UsageError("--camera, --size and --no-shadows are for frames: add --observation")
    path = result_file(result)
    try:
        target = make(name, frames)
        all_classes()  # imports what an interruption would leave half imported
        raise_on_ctrl_c()
        written = export(path, target, successes=successes)
    except (VerificationError, EvidenceError) as exc:
        raise UsageError(f"cannot export {result}: {full_message(exc)}") from None
    except OSError as exc:
        place = exc.filename or target.path
        raise UsageError(f"cannot read or write {place}: {exc.strerror or exc}") from None
    counts = f"{format_count(written.episodes, 'episode')}, {format_count(written.steps, 'step')}"
    say(f"{dataset}: {counts}, {written}")
    return 0
