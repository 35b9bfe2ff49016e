"""Equality of what users give: tasks, and arguments of constructors."""

import copy
import math
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


class Plain:
    """Has no ``__eq__``."""

    def __init__(self, goal):
        self.goal = goal


class Tensor(Plain):
    """Cannot be compared, as a tensor of PyTorch in a dataclass."""

    def __eq__(self, other):
        raise RuntimeError("the truth value is ambiguous")

    __hash__ = None


def first():
    return 0


def second():
    return 0


first.goal = second.goal = 1
cycle, other_cycle = Plain(0), Plain(0)
cycle.goal, other_cycle.goal = cycle, other_cycle


VALUES = [
    Plain(np.array([1.0, math.nan])),
    Tensor([1, 2]),
    math.nan,
    np.float32(math.nan),
    first,
    Plain,
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
    ("value", "different"),
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
        (Plain(1), Plain(2)),
        (Tensor(1), Tensor(2)),
        (math.nan, 1.0),
        (first, second),
        (cycle, other_cycle),
    ],
)
def test_other_values_types_and_shapes_are_not(value, different):
    assert same_values(value, different) is False
