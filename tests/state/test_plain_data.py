"""`copied`: what was copied does not change with the original."""

import copy
from collections import OrderedDict, namedtuple

import numpy as np
import pytest

from mtwrappers.state.plain_data import copied, copied_if_possible

Pair = namedtuple("Pair", "a b")


class Uncopyable:
    def __deepcopy__(self, memo):
        raise TypeError


def test_containers_and_arrays_are_copied_however_deep():
    array = np.arange(3.0)
    value = {"a": [array, (array, {"b": array})], "c": Pair(1, array)}
    found = copied(value)
    array[0] = 9
    value["a"].append(1)
    assert [x.tolist() for x in (found["a"][0], found["a"][1][0], found["a"][1][1]["b"])] == [
        [0.0, 1.0, 2.0]
    ] * 3
    assert type(found["c"]) is Pair
    assert found["c"].b.tolist() == [0.0, 1.0, 2.0]
    assert len(found["a"]) == 2


def test_an_array_keeps_its_order_in_memory_and_objects_in_arrays_are_copied():
    turned = np.asfortranarray(np.zeros((2, 3)))
    infos = np.array([{"x": [1]}, None], dtype=object)
    found = copied([turned, infos])
    infos[0]["x"].append(2)
    assert found[0].flags.f_contiguous
    assert found[1].tolist() == [{"x": [1]}, None]


@pytest.mark.parametrize("other", [None, copy.deepcopy, copied_if_possible])
def test_all_else_stays_the_same_object_unless_a_function_copies_it(other):
    value = [OrderedDict(a=[1])]
    [found] = copied(value, other)
    assert (found is value[0]) == (other is None)
    assert found == value[0]


def test_a_value_that_nobody_can_change_is_not_made_again():
    pair, uncopyable = Pair("push-v3", b"data"), Uncopyable()
    assert copied([pair, uncopyable])[0] is pair
    assert copied([uncopyable], copied_if_possible)[0] is uncopyable
    with pytest.raises(TypeError):
        copied([uncopyable], copy.deepcopy)
