import numpy as np
import pytest

from mtwrappers.metaworld import fast_class, make_benchmark
from mtwrappers.metaworld.fast import classes
from mtwrappers.metaworld.fast.helpers import exact, fast_globals, norm, twin_of
from mtwrappers.metaworld.goal_cache import goal_file
from mtwrappers.metaworld.upstream import all_classes
from mtwrappers.metaworld.verify import Extent, first_difference

EXTENT = Extent(tasks=1, steps=20, reward_versions=("v2",), goals_visible=(True,))


def test_the_helpers_give_the_bits_of_their_originals():
    assert exact() == []


def test_one_unit_in_the_last_place_of_one_helper_is_found(monkeypatch):
    def off(x, *args, **kwargs):
        return np.nextafter(norm(x, *args, **kwargs), np.inf)

    names = fast_globals()
    names["np"] = twin_of(names["np"], linalg=twin_of(np.linalg, norm=off))
    monkeypatch.setattr(classes, "fast_globals", lambda: names)
    classes.make_fast_class.cache_clear()
    try:
        assert first_difference("reach-v3", EXTENT) is not None
    finally:
        classes.make_fast_class.cache_clear()
    monkeypatch.undo()
    assert first_difference("reach-v3", EXTENT) is None


def test_an_edited_model_turns_snapshots_off_and_keeps_the_new_physics():
    task = make_benchmark("MT1", env_name="push-v3", num_goals=1).train_tasks[0]
    fast, stock = fast_class("push-v3")(), all_classes()["push-v3"]()
    for env in (fast, stock):
        env.set_task(task)
        env.reset()
    for env in (fast, stock):
        env.model.opt.gravity[2] = -3.0
        env.model.body_mass[:] *= 1.5
    assert fast.reset()[0].tobytes() == stock.reset()[0].tobytes()
    action = np.array([0.3, -0.2, -1.0, 0.5], np.float32)
    for _ in range(10):
        assert fast.step(action)[0].tobytes() == stock.step(action)[0].tobytes()
    assert fast._snapshots is None


@pytest.mark.parametrize("damage", [b"", b"no archive", b"cut"])
def test_a_damaged_goal_file_is_replaced_with_a_warning(tmp_path, monkeypatch, damage):
    monkeypatch.setenv("MTWRAPPERS_CACHE_DIR", str(tmp_path))
    tasks = make_benchmark("MT1", num_goals=2, seed=9).train_tasks
    path = goal_file(("reach-v3",), 9, 2)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2] if damage == b"cut" else damage)
    with pytest.warns(UserWarning, match="replacing the damaged goal file"):
        assert make_benchmark("MT1", num_goals=2, seed=9).train_tasks == tasks
    assert path.read_bytes()[:2] == b"PK"
    assert make_benchmark("MT1", num_goals=2, seed=9).train_tasks == tasks
