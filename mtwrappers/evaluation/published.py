"""The protocols of the literature, each as implemented in its source.

Every field was read in the files that ``source`` names. If a paper's exact code is unknown, its
repository's evaluation script is used.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

from mtwrappers.evaluation.by_name import ByName
from mtwrappers.evaluation.protocol import Protocol, Published, publish
from mtwrappers.evaluation.scoring import Groups, Scoring
from mtwrappers.metaworld.env_settings import EnvSettings

# LeRobot's metaworld_config.json, which RLinf has copied.
_DIFFICULTY = {
    "easy": """button-press button-press-topdown button-press-topdown-wall button-press-wall
        coffee-button dial-turn door-close door-lock door-open door-unlock drawer-close drawer-open
        faucet-close faucet-open handle-press handle-press-side handle-pull handle-pull-side
        lever-pull plate-slide plate-slide-back plate-slide-back-side plate-slide-side reach
        reach-wall window-close window-open peg-unplug-side""",
    "medium": """basketball bin-picking box-close coffee-pull coffee-push hammer peg-insert-side
        push-wall soccer sweep sweep-into""",
    "hard": "assembly hand-insert pick-out-of-hole pick-place push push-back",
    "very_hard": "shelf-place disassemble stick-pull stick-push pick-place-wall",
}
DIFFICULTY: Groups = tuple(
    (group, tuple(f"{name}-v3" for name in names.split())) for group, names in _DIFFICULTY.items()
)
_METAWORLD = (
    "Farama-Foundation/Metaworld@7ea2b501 (v3.1.1): docs/evaluation/evaluation.md, "
    "metaworld/evaluation.py, metaworld/__init__.py"
)
_FRAMES: dict[str, Any] = {
    "observation": "pixels_agent_pos",
    "camera_name": "corner4",
    "height": 480,
    "width": 480,
    "descriptions": "lerobot-0.6.1",
}


class Protocols(ByName[Protocol]):
    """Protocols by name."""

    noun = "protocol"


_PUBLISHED = (
    # The documentation's "one episode per training goal position, per training task". The code
    # draws goals with replacement unless task_select="pseudorandom". It leaves the seed of the
    # goals open: here it is 0.
    Published(
        Protocol(
            name="metaworld-3.1",
            source=(_METAWORLD,),
            settings=EnvSettings(benchmark="MT10", terminate_on_success=True),
        ),
        benchmarks=("MT1", "MT10", "MT25", "MT50"),
    ),
    # "Three episodes per testing goal position, per testing task", 40 goals per task, which
    # metalearning_evaluation goes through with 10 evaluations of 20 environments. It lets the
    # episodes of adaptation go on after a success.
    Published(
        Protocol(
            name="metaworld-3.1-ml",
            source=(_METAWORLD,),
            settings=EnvSettings(
                benchmark="ML10",
                kind="test",
                num_goals=40,
                meta_batch_size=20,
                terminate_on_success=True,
            ),
            scoring=Scoring(
                episodes_per_task=3, trials=10, adaptation_episodes=10, adaptation_steps=1
            ),
        ),
        benchmarks=("ML10", "ML25", "ML45"),
    ),
    # The documentation recommends 10 episodes of each task; the configuration's default is 50. The
    # camera is corner2, moved to where corner4 is.
    Published(
        Protocol(
            name="lerobot-0.6",
            source=(
                "huggingface/lerobot@7e241bd6 (v0.6.1): src/lerobot/envs/metaworld.py, "
                "src/lerobot/envs/metaworld_config.json, src/lerobot/scripts/lerobot_eval.py, "
                "docs/source/metaworld.mdx",
            ),
            settings=EnvSettings(
                benchmark="MT50", goals="continuous", terminate_on_success=True, **_FRAMES
            ),
            scoring=Scoring(means=("tasks", "groups"), groups=DIFFICULTY, episodes_per_task=10),
        ),
        benchmarks=("MT50",),
    ),
    # Each of its environments draws from a list of 50 goals that nothing seeds: a goal is new in
    # every run. (Its training configurations evaluate by another loop: 100 steps, 160 for ML45, on
    # tasks that are drawn at random.) The camera is moved as LeRobot's.
    Published(
        Protocol(
            name="rlinf",
            source=(
                "RLinf/RLinf@a3816b59: "
                "toolkits/standalone_eval_scripts/openpi/metaworld_eval.py, "
                "toolkits/standalone_eval_scripts/openpi/README.md, "
                "rlinf/envs/metaworld/metaworld_config.json",
            ),
            settings=EnvSettings(
                benchmark="MT50",
                goals="continuous",
                max_episode_steps=160,
                idle_steps=15,
                **_FRAMES,
            ),
            scoring=Scoring(means=("groups", "tasks"), groups=DIFFICULTY, episodes_per_task=10),
        ),
        benchmarks=("MT50",),
    ),
    # On Meta-World's second version, with the same rewards. TD-MPC2's first observation of an
    # episode is from before the idle step; Newt's, from after it, is the one here.
    Published(
        Protocol(
            name="tdmpc2",
            source=(
                "nicklashansen/tdmpc2@e9f59321: tdmpc2/envs/metaworld.py, "
                "tdmpc2/envs/wrappers/timeout.py, tdmpc2/evaluate.py, tdmpc2/config.yaml",
                "nicklashansen/newt@75def92f: tdmpc2/envs/metaworld.py",
            ),
            settings=EnvSettings(
                benchmark="MT50",
                goals="continuous",
                max_episode_steps=100,
                action_repeat=2,
                idle_steps=1,
            ),
            scoring=Scoring(success="last", episodes_per_task=10),
        ),
        benchmarks=("MT1", "MT50"),
    ),
)
protocols = MappingProxyType(Protocols(publish(*_PUBLISHED)))
"""The protocols of the literature, by name: ``protocols["metaworld-3.1"]``.

>>> from mtwrappers import protocols
>>> list(protocols)
['metaworld-3.1', 'metaworld-3.1-ml', 'lerobot-0.6', 'rlinf', 'tdmpc2']
>>> protocols["metaworld-3.1"].on("MT50").env_id, protocols["rlinf"].settings.max_episode_steps
('mtwrappers/MT50-v0', 160)
"""
