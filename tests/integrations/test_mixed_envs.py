"""Tasks beyond Meta-World: classic control, MuJoCo locomotion, a class of one's own."""

from __future__ import annotations

import pytest

from tests.integrations.examples import load_example, run_example


def test_the_example_on_classic_control_solves_its_tasks(tmp_path):
    first, *lines = run_example("classic_control.py", tmp_path)
    assert first == "observations: (6,) actions: Discrete(3)"
    returns = {}
    for line in lines:
        name, _, value = line.split()
        returns.setdefault(name, []).append(float(value))
    assert [len(values) for values in returns.values()] == [3, 3, 3]
    # Random actions reach about 22, -200 and -500 (the last two are the limits of an episode).
    assert min(returns["CartPole"]) > 200
    assert min(returns["MountainCar"]) > -200
    assert min(returns["Acrobot"]) > -200


@pytest.mark.filterwarnings("ignore:.*precision lowered")  # by Meta-World's spaces
@pytest.mark.slow
def test_the_example_of_mixed_environments_trains_one_policy_on_them(tmp_path, monkeypatch, capsys):
    pytest.importorskip("torch")
    example = load_example("mixed_environments.py")
    monkeypatch.chdir(tmp_path)
    options = ["--minutes", "0", "--envs-per-task", "1", "--steps", "200"]
    monkeypatch.setattr("sys.argv", ["mixed_environments.py", *options])
    example.main()
    lines = capsys.readouterr().out.splitlines()
    # Those whose episodes end within 200 steps, in a first iteration.
    assert {line.split(":")[0] for line in lines} == {"hopper", "pendulum", "cart-pole"}
    assert (tmp_path / "mixed_environments.png").stat().st_size > 1000


def test_the_example_of_an_own_class_reaches_every_temperature(tmp_path):
    assert run_example("own_class.py", tmp_path) == [
        "task 0: 16.0 degrees, True",
        "task 1: 18.0 degrees, True",
        "task 2: 20.0 degrees, True",
        "task 3: 22.0 degrees, True",
        "returns of constant heating: [-80.0, -57.2, -61.9, -57.4]",
    ]
