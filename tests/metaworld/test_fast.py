import numpy as np

from mtwrappers.metaworld import fast_class, make_benchmark
from mtwrappers.metaworld.fast import classes
from mtwrappers.metaworld.fast.helpers import exact, fast_globals, norm, twin_of
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
