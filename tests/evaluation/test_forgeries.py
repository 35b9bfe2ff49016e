"""No forgery of one field is verified, unless the verification lists the field as said by the file.

A forgery changes one value in a file of results, and its score line follows. The evidence stays.
"""

import contextlib
import copy
import json
import os
import random

import pytest

from mtwrappers import protocols
from mtwrappers.evaluation import EvaluationResult, EvidenceError, VerificationError, verify
from tests.evaluation.test_verify import KINDS


def published(where):
    """By a published protocol: one class, with an expert that succeeds."""
    from mtwrappers.metaworld.experts import expert

    policy = expert("drawer-close-v3")
    result = (
        protocols["metaworld-3.1"]
        .on("MT1", "drawer-close-v3")
        .evaluate(lambda obs: policy(obs[0], obs[0, 36:39])[None], evidence=where / "r.npz")
    )
    result.save(where / "r.json")


ALL_KINDS = {**KINDS, "published": published}
FORGERIES = int(os.environ.get("MTWRAPPERS_FORGERIES", "200"))  # of each kind


@pytest.fixture(scope="module")
def originals(tmp_path_factory):
    """A folder for each kind with a true result and its evidence."""
    folders = {}
    for name, make in ALL_KINDS.items():
        folders[name] = tmp_path_factory.mktemp(name)
        make(folders[name])
    return folders


def list_places(value, place=()):
    """The places of all values in JSON, down to numbers and texts."""
    if place:
        yield place
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, child in items:
        if isinstance(child, (dict, list)) and child:
            yield from list_places(child, (*place, key))
        else:
            yield (*place, key)


def forge_value(value, dice):
    """Another value, often of the same type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + dice.choice([-1, 1, 2, 10])
    if isinstance(value, float):
        return value + dice.choice([-1.0, 1e-3, 100.0])
    if isinstance(value, str):
        return dice.choice([f"{value}x", value[:-1], "reach-v3", "push-v3", "list", "test"])
    if isinstance(value, list) and value:
        return dice.choice([value[:-1], [*value, value[-1]], value[::-1], None])
    if isinstance(value, dict):
        return dice.choice([{}, None, {**value, "more": 1}])
    return dice.choice([1, 0, True, "x", 2.5, []])


def forge(original, dice):
    """A copy of results with another value at one place, which is returned too."""
    while True:
        data = copy.deepcopy(original)
        # As many forgeries of settings as of episodes, of which there are many more.
        index = dice.randrange(len(data))
        places = [place for place in list_places(data[index]) if place[0] != "score"]
        field = dice.choice(sorted({place[0] for place in places}))
        place = dice.choice([place for place in places if place[0] == field])
        parent = data[index]
        for key in place[:-1]:
            parent = parent[key]
        parent[place[-1]] = forge_value(parent[place[-1]], dice)
        if data != original:
            return data, index, place


def is_said(place, true_said, forged_said):
    """Whether the verification lists a forged field as said by the file."""
    head, *rest = place
    name = str(rest[0]) if rest else ""
    prefix = f"{head}_"
    if head == "environments":
        prefix = ""
        name = {"goals": "goals_digest", "kwargs": str(rest[1]) if len(rest) > 1 else ""}.get(
            name, name
        )
    elif head == "description":
        prefix = ""
    elif place[:2] == ("protocol", "scoring") and len(place) > 2:
        name = str(place[2])
    names = [f"{prefix}{name}"] if name else []
    if not name or head in ("versions", "normalization"):  # all of them
        names += [key for key in {**true_said, **forged_said} if key.startswith(prefix) and prefix]
    return any(true_said.get(key) != forged_said.get(key) for key in names)


def check_forgeries(kind, count, seed, folder, tmp_path):
    """Verifies forgeries; a verified one must be listed as said by the file."""
    dice = random.Random(f"{kind} {seed}")
    text = (folder / "r.json").read_text()
    original = json.loads(text)
    is_list = isinstance(original, list)
    original = original if is_list else [original]
    for path in folder.glob("*.npz"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    true_said = verify(folder / "r.json").said_by_file
    for _ in range(count):
        data, index, place = forge(original, dice)
        with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError):
            data[index]["score"] = EvaluationResult.from_dict(data[index]).to_dict()["score"]
        (tmp_path / "r.json").write_text(json.dumps(data if is_list else data[0]))
        try:
            verification = verify(tmp_path / "r.json")
        except (VerificationError, EvidenceError):
            continue
        if verification.ok and place == ("protocol",) and data[index]["protocol"] is None:
            # The file claims less: the same episodes, by no protocol.
            assert str(verification).splitlines()[0].split() == ["protocol", "none"]
        elif verification.ok:
            forged_said = verification.said_by_file[index]
            assert is_said(place, true_said[index], forged_said), (kind, place, data[index])


@pytest.mark.parametrize("kind", ALL_KINDS)
@pytest.mark.slow_but(*KINDS)
def test_no_forgery_of_one_field_is_verified_but_as_said_by_the_file(kind, originals, tmp_path):
    check_forgeries(kind, 8, 0, originals[kind], tmp_path)


@pytest.mark.parametrize("kind", ALL_KINDS)
@pytest.mark.slow
def test_none_of_a_thousand_forgeries_is_verified(kind, originals, tmp_path):
    check_forgeries(kind, FORGERIES, 1, originals[kind], tmp_path)
