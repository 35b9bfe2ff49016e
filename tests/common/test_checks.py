"""Checks of arguments: what each takes, and that it names the argument where it takes nothing."""

import re
from pathlib import Path

import gymnasium
import numpy as np
import pytest

from mtwrappers.common import checks

VALUES = {"zeros": np.zeros(3), "object": object(), "10**30": 10**30, "a bool": np.True_}
VALUES |= {"an int": np.int64(1), "a float": np.float32(0.5), "print": print}
VALUES |= {
    str(value): value
    for value in (None, "x", [], [1], -1, 0, 1, 1.5, {}, True, float("nan"), float("inf"))
}
VALUES |= {"a space": gymnasium.spaces.Discrete(2), "an env": gymnasium.Env()}


def check_each_positive(value, name):
    return checks.check_each(value, 1, name, checks.positive)


def refusal(check, value):
    """Returns the message of the refusal of a value, or None."""
    try:
        check(value, "the_argument")
    except (TypeError, ValueError) as exc:
        return str(exc)
    return None


@pytest.mark.parametrize(
    ("check", "accepted"),
    [
        (checks.positive, "1 an-int"),
        (checks.not_negative, "0 1 an-int"),
        (checks.check_limit, "-1 1 an-int"),
        (lambda value, name: checks.check_index(value, 2, name), "0 1 an-int"),
        (checks.check_fraction, "0 1 an-int a-float"),
        (checks.above_zero, "1 1.5 10**30 an-int a-float"),
        (checks.check_flag, "True a-bool"),
        (lambda value, name: checks.check_choice(value, ("x", "y"), name), "x"),
        (checks.check_callable, "print"),
        (checks.check_string, "x"),
        (checks.check_space, "a-space"),
        (checks.check_mapping, "{}"),
        (lambda value, name: checks.check_list(value, name, "task"), "[1] zeros"),
        (checks.check_makers, ""),
        (check_each_positive, "None 1 [1] an-int"),
        (checks.check_env, "an-env"),
    ],
)
def test_what_a_check_takes_and_that_it_names_the_argument(check, accepted):
    messages = {label.replace(" ", "-"): refusal(check, value) for label, value in VALUES.items()}
    assert {label for label in messages if messages[label] is None} == set(accepted.split())
    refusals = [message for message in messages.values() if message is not None]
    assert [message for message in refusals if "the_argument" not in message] == []


def test_numbers_and_flags_become_pythons_own():
    assert type(checks.positive(np.int64(3), "n")) is int
    assert type(checks.check_fraction(np.float32(0.5), "share")) is float
    assert checks.check_flag(np.False_, "log") is False


def test_an_unknown_keyword_argument_is_refused_in_pythons_words_and_with_advice():
    # Libraries look for these words, to try a keyword argument and drop it.
    words = "make of MT10 got an unexpected keyword argument 'frameskip': "
    with pytest.raises(TypeError, match=f"^{words}did you mean 'frame_skip'"):
        checks.check_keywords(["frameskip"], ["frame_skip", "seed"], "make of MT10")
    hints = {"frameskip": "pass action_repeat"}
    with pytest.raises(TypeError, match=f"^{words}pass action_repeat$"):
        checks.check_keywords(["seed", "frameskip"], ["seed"], "make of MT10", hints)


def test_an_array_of_no_dimensions_is_one_value():
    assert checks.check_each(np.array(3), 2, "steps", checks.positive) == (3, 3)
    with pytest.raises(ValueError, match=r"expected seeds of 2 environments, got array\(3\)"):
        checks.check_rows(np.array(3), 2, "seeds")


def test_the_page_on_the_old_gym_is_where_the_hint_says():
    [title], [path] = (re.findall(p, checks.OLD_GYM_HINT) for p in ("'(.+)'", r"\((.+)\)"))
    page = (Path(__file__).parents[2] / path).read_text(encoding="utf-8")
    assert page.startswith(f"# {title}\n")
    assert "\n## Environments for the old Gym\n" in page
