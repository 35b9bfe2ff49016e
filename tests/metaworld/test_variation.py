"""How episodes look: words, draws within their ranges, and a stream that goes on."""

import re
from pathlib import Path

import pytest

from mtwrappers.metaworld.variation import (
    RANGES,
    WORDS,
    Choice,
    VariationStream,
    check_variation,
    draw_parameters,
)

EVERYTHING = ",".join(WORDS)
GUIDE = Path(__file__).parents[2] / "docs/guides/variation.md"
NAMES = {
    "light": ["headlight", "light 0"],
    "camera": ["corner4"],
    "table": ["table_wood"],
    "objects": ["btn_red", "btn_yellow"],
}


@pytest.mark.parametrize(
    ("given", "canonical"),
    [
        (None, None),
        ("light", "light"),
        ("objects, light,camera,light", "light,camera,objects"),
        ("objects,table,camera,light", EVERYTHING),
    ],
)
def test_a_variation_has_one_canonical_form(given, canonical):
    assert check_variation(given) == canonical


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ("light,ligth", ValueError, r"light, camera, table, objects, .* 'ligth' .* mean 'light'\?"),
        ("cameras", ValueError, "got 'cameras'; did you mean 'camera'"),
        ("", ValueError, "must be some of light, camera, table, objects, .* commas, got ''$"),
        ("light,", ValueError, "got '' in 'light,'"),
        (["light"], TypeError, r"variation must be a string, got \['light'\]"),
        (True, TypeError, "variation must be a string, got True"),
    ],
)
def test_another_word_is_refused_with_those_that_there_are(given, error, message):
    with pytest.raises(error, match=message):
        check_variation(given)


def test_what_a_seed_draws_is_the_same_on_every_machine():
    stream = VariationStream(0)
    stream.seed(7)
    episodes = [stream.draw() for _ in range(2)]
    assert episodes == [5793198500730405243, 6898000683709205636]
    drawn = draw_parameters("light,camera,objects", episodes[0], NAMES)
    assert drawn["light"]["headlight"] == {
        "ambient": 1.148,
        "diffuse": 1.196,
        "specular": 0.792,
        "colour": [1.111, 0.99, 1.032],
    }
    assert drawn["camera"]["corner4"] == {
        "offset": [-0.014, -0.003, -0.027],
        "rotation": [-2.958, -1.489, 1.718],
        "field_of_view": 0.975,
    }
    assert drawn["objects"]["btn_yellow"] == {
        "hue": 4.799,
        "saturation": 0.705,
        "brightness": 1.079,
        "tint": [0.983, 0.932, 0.904],
        "texture": "checker",
        "repeats": 2,
    }


def test_draws_stay_within_their_ranges_and_reach_all_of_them():
    names = {word: ["one"] for word in WORDS}
    seen = [draw_parameters(EVERYTHING, episode, names) for episode in range(400)]
    for word, ranges in RANGES.items():
        for parameter, of in ranges.items():
            drawn = [episode[word]["one"][parameter] for episode in seen]
            if isinstance(of, Choice):
                assert set(drawn) == set(of.values)
                continue
            numbers = [part for one in drawn for part in (one if of.size > 1 else [one])]
            assert len(numbers) == 400 * of.size
            width = of.high - of.low
            assert of.low <= min(numbers) < of.low + width / 20
            assert of.high - width / 20 < max(numbers) <= of.high


def test_each_name_draws_by_itself():
    everything = draw_parameters(EVERYTHING, 3, NAMES)
    assert list(everything) == list(WORDS)
    for word in WORDS:
        for name in NAMES[word]:
            assert draw_parameters(word, 3, {word: [name]}) == {
                word: {name: everything[word][name]}
            }
    objects = everything["objects"]
    assert objects["btn_red"] != objects["btn_yellow"]
    assert draw_parameters(EVERYTHING, 4, NAMES) != everything


def test_a_stream_goes_on_from_its_state_and_begins_with_its_seed():
    one, other = VariationStream(5), VariationStream(None)
    first = one.draw()
    state = one.get_state()
    later = [one.draw() for _ in range(3)]
    assert len({first, *later}) == 4
    other.set_state(state)
    assert [other.draw() for _ in range(3)] == later
    other.seed(5)
    assert other.draw() == first
    assert VariationStream(None).draw() != VariationStream(None).draw()


@pytest.mark.parametrize("state", [None, {}, {"seed": 0, "state": {"pos": -1}}, {"seed": -1}])
def test_another_state_is_refused(state):
    with pytest.raises((TypeError, ValueError, KeyError)):
        VariationStream(0).set_state(state)


def test_the_guide_has_the_ranges():
    text = GUIDE.read_text()
    rows = re.findall(r"^\| `(\w+)` \| `(\w+)` \| (.+?) \|", text, re.MULTILINE)
    expected = []
    for word, ranges in RANGES.items():
        for parameter, of in ranges.items():
            if isinstance(of, Choice):
                values = ", ".join(f"`{value!r}`".replace("'", '"') for value in of.values)
            else:
                each = f"{of.size} x " if of.size > 1 else ""
                values = f"{each}{of.low:g} to {of.high:g} {of.unit}"
            expected.append((word, parameter, values))
    assert rows == expected
