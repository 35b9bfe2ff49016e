"""Minari records a multi-task dataset, and makes its environment again."""

import gymnasium
import pytest

from tests.fakes import play
from tests.integrations import ledgers
from tests.integrations.examples import load_example

minari = pytest.importorskip("minari")
pytest.importorskip("h5py")

# Minari's own: its collector leaves its temporary folder to the garbage collector.
pytestmark = [
    pytest.mark.filterwarnings("ignore:Implicitly cleaning up:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning:minari"),
]


@pytest.fixture(autouse=True)
def _own_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))


def record(env, num_episodes, **kwargs):
    """Records random actions; returns the dataset, and the results of each episode."""
    collector = minari.DataCollector(env, **kwargs)
    collector.action_space.seed(0)
    episodes = []
    for episode in range(num_episodes):
        # Without the option Minari seeds every reset, which starts the selection of tasks anew.
        kwargs = {"options": {"minari_autoseed": False}} if episode else {"seed": 0}
        returned = [collector.reset(**kwargs)]
        while len(returned) == 1 or not any(returned[-1][2:4]):
            returned.append(collector.step(collector.action_space.sample()))
        episodes.append(returned)
    dataset = collector.create_dataset("tests/it-v0", eval_env=env)
    collector.close()
    return dataset, episodes


@pytest.mark.parametrize(
    ("env_id", "kwargs"),
    [("MT10", {"num_goals": 2, "select": "without_replacement"}), ("PointGoal", {"radius": 2.0})],
)
def test_episodes_are_recorded_and_their_environment_is_made_again(env_id, kwargs):
    kwargs = {"max_episode_steps": 4, **kwargs}
    env = gymnasium.make(f"mtwrappers:mtwrappers/{env_id}-v0", **kwargs)
    dataset, episodes = record(env, 6, record_infos=True)
    assert (dataset.total_episodes, dataset.total_steps) == (6, 24)
    seen, loaded = set(), minari.load_dataset(dataset.id)
    for episode, ((first, info), *steps) in zip(loaded, episodes, strict=True):
        assert episode.observations.tolist() == [first.tolist(), *(s[0].tolist() for s in steps)]
        assert episode.observations.dtype == first.dtype
        assert episode.rewards.tolist() == [step[1] for step in steps]
        assert episode.truncations.tolist() == [False, False, False, True]
        assert episode.terminations.tolist() == [False] * 4
        if "task_id" in info:
            assert episode.infos["task_id"].tolist() == [info["task_id"]] * 5
            assert episode.infos["task_name"][0].decode() == info["task_name"]
            seen.add(info["task_id"])
    assert len(seen) >= 2 or env_id == "PointGoal"
    assert loaded.env_spec == env.spec
    recovered = loaded.recover_environment()
    assert recovered.spec == env.spec
    assert recovered.observation_space == loaded.observation_space == env.observation_space
    assert recovered.action_space == loaded.action_space == env.action_space
    repeated = play(recovered, list(loaded[0].actions), seed=0)
    assert [step[0].tolist() for step in repeated] == loaded[0].observations.tolist()
    assert [step[1] for step in repeated[1:]] == loaded[0].rewards.tolist()


@pytest.mark.parametrize("observation", ["vector", "image", "dict"])
def test_it_stores_what_was_made(observation):
    env = gymnasium.make(ledgers.ID, observation=observation)
    dataset, _ = record(env, 9, jpeg_encoding=False)
    columns = ("observations", "actions", "rewards", "terminations", "truncations")
    episodes = [[getattr(episode, column) for column in columns] for episode in dataset]
    report = ledgers.check_transitions(*ledgers.stack_transitions(episodes))
    ledgers.assert_complete(report, least=4)


def test_the_example_prints_what_it_recorded(capsys):
    load_example("minari_record.py").main()
    assert capsys.readouterr().out.splitlines() == [
        "episodes: 20, steps: 1000",
        "episodes a class: {0: 2, 1: 2, 2: 2, 3: 2, 4: 2, 5: 2, 6: 2, 7: 2, 8: 2, 9: 2}",
        "recovered: mtwrappers/MT10-v0 {'benchmark': 'MT10', 'num_goals': 5}",
    ]
