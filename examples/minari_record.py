"""Records MT10 with Minari: a dataset of all classes, each step with its task's id.

    pip install '.[metaworld,minari]'
    python examples/minari_record.py

By default Minari seeds every reset, and a seed restarts the selection of tasks. So name each
episode's task, as here, or pass ``options={"minari_autoseed": False}``.

The dataset goes to a temporary folder; do not set ``MINARI_DATASETS_PATH`` to keep yours.
"""

import os
import tempfile
from collections import Counter

import gymnasium

GOALS = 5


def main() -> None:
    """Records two episodes of each class, reads them back, and rebuilds their environment."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["MINARI_DATASETS_PATH"] = folder
        import minari  # after the folder is set

        env = gymnasium.make(
            "mtwrappers:mtwrappers/MT10-v0",
            max_episode_steps=50,
            num_goals=GOALS,
        )
        collector = minari.DataCollector(env, record_infos=True)
        collector.action_space.seed(0)
        for episode in range(20):
            class_index, goal = episode % 10, episode // 10
            collector.reset(seed=episode, options={"task_state": class_index * GOALS + goal})
            ended = False
            while not ended:
                *_, terminated, truncated, _ = collector.step(collector.action_space.sample())
                ended = terminated or truncated
        dataset = collector.create_dataset(
            "mtwrappers/mt10-random-v0",
            eval_env=env,
            algorithm_name="random actions",
            description="Random actions on the classes of MT10.",
            author="The mtwrappers maintainers",
            author_email="none",
            code_permalink="none",
        )
        collector.close()

        print(f"episodes: {dataset.total_episodes}, steps: {dataset.total_steps}")
        episodes = Counter(int(e.infos["task_id"][0]) for e in dataset.iterate_episodes())
        print(f"episodes a class: {dict(sorted(episodes.items()))}")
        recovered = dataset.recover_environment()
        print(f"recovered: {recovered.spec.id} {recovered.spec.kwargs}")


if __name__ == "__main__":
    main()
