"""Equality of what users give: tasks, and arguments of constructors."""

import copy
import pickle
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pytest

from mtwrappers.common.equality import same_values


@dataclass
class Task:
    goal: Any


class Slots:
    __slots__ = ("goal",)

    def __eq__(self, other):
        raise ValueError("never")

    __hash__ = None


VALUES = [
    {"goal": np.array([1.0, 2.0]), "name": "reach"},
    [np.eye(2), (1, "a")],
    partial(Task, np.arange(3), goal=[np.zeros(1)]),
    partial(Task, partial(Task, 1)),
    Task(np.array([1.0, 2.0])),
    [Task({"goal": np.zeros(2)})],
    np.array([{"goal": 1}, None], dtype=object),
    np.float32(0.5),
]


@pytest.mark.parametrize("value", VALUES)
def test_copies_are_the_same(value):
    assert same_values(value, copy.deepcopy(value)) is True
    assert same_values(value, pickle.loads(pickle.dumps(value))) is True


@pytest.mark.parametrize(
    ("value", "other"),
    [
        (1, 1.0),
        ((1, 2), [1, 2]),
        ({"a": 1}, {"a": 1, "b": 2}),
        ([1], [1, 2]),
        (np.zeros(2), np.zeros(3)),
        (np.zeros(2), np.zeros(2, np.float32)),
        (Task(np.zeros(2)), Task(np.ones(2))),
        (partial(Task, goal=np.zeros(2)), partial(Task, goal=np.ones(2))),
        (Slots(), Slots()),
    ],
)
def test_other_values_types_and_shapes_are_not(value, other):
    assert same_values(value, other) is False
