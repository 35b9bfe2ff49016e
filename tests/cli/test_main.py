"""The command line as `main`: the list, the help, and what it refuses."""

import dataclasses
import re
import sys
from importlib.metadata import version

import pytest
from gymnasium.error import DependencyNotInstalled

from mtwrappers import protocols
from mtwrappers.cli import main
from mtwrappers.common.errors import with_place
from mtwrappers.common.registration import TABLE
from mtwrappers.evaluation.protocol_text import FIELDS
from mtwrappers.evaluation.scoring import Scoring
from mtwrappers.metaworld.env_settings import EnvSettings
from tests.fakes import ROOT

# list


def test_list_shows_every_id_whole_with_its_sizes_in_a_file_too(capsys, monkeypatch):
    monkeypatch.delenv("COLUMNS")
    assert main(["list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    rows = {line.split()[0]: line.split()[1:] for line in lines if line.startswith("mtwrappers/")}
    assert sorted(rows) == sorted(TABLE)
    action = "float32[4]"
    assert rows["mtwrappers/MT10-v0"] == ["10", "50", "float64[49]", action, "onehot"]
    assert rows["mtwrappers/MT50-v0"] == ["50", "50", "float64[89]", action, "onehot"]
    assert rows["mtwrappers/ML1-test-v0"] == ["1", "50", "float64[39]", action, "none"]
    assert rows["mtwrappers/ML10-test-v0"] == ["5", "50", "float64[39]", action, "none"]
    assert rows["mtwrappers/CW20-v0"] == ["10", "new", "float64[59]", action, "onehot"]
    assert rows["mtwrappers/MultiEnv-v0"] == ["2", "-", "float32[8]", "Discrete(3)", "onehot"]
    assert rows["mtwrappers/AntGoal-v0"] == ["any", "new", "float64[113]", "float32[8]", "none"]
    table = [line for line in lines if line.startswith(("id ", "mtwrappers/"))]
    assert {line.rindex(" ") for line in table} == {table[0].index(" encoding")}  # in columns


def test_list_shows_ids_by_the_extra_that_they_need(capsys):
    assert main(["list"]) == 0
    groups = {}
    for block in capsys.readouterr().out.split("\n\n")[1:-1]:
        heading, *rows = block.splitlines()
        groups[heading] = [row.split()[0].removeprefix("mtwrappers/") for row in rows]
    assert list(groups) == [
        "with pip install '.[metaworld]'",
        "without an extra",
        "with pip install '.[mujoco]'",
    ]
    assert "CW10-v0" in groups["with pip install '.[metaworld]'"]
    assert {"PointGoal-v0", "Bandit-v0"} < {*groups["without an extra"]}
    assert "AntGoal-v0" in groups["with pip install '.[mujoco]'"]


# protocols


def test_protocols_shows_all_fields_side_by_side_with_their_sources(capsys):
    assert main(["protocols"]) == 0
    output = capsys.readouterr().out
    lines = output.splitlines()
    assert max(map(len, lines)) <= 80
    rows = {line[:17].strip(): line[17:].split() for line in lines[: lines.index("")]}
    assert rows["horizon, actions"] == ["500", "500", "500", "160", "100"]
    assert rows["idle steps"] == ["-", "-", "-", "15", "1"]
    assert rows["success at"] == ["any", "any", "any", "any", "last"]
    assert rows["digest"] == [p.digest[:10] for p in protocols.values()]
    assert rows["sentences of"] == ["-", "-", "lerobot", "lerobot", "-"]
    assert rows["version"] == ["-", "-", "0.6.1", "0.6.1", "-"]  # of the sentences
    # A row for each field but these, and five for the digest and what fields say beside.
    fields = [*dataclasses.fields(EnvSettings), *dataclasses.fields(Scoring)]
    names = {field.name for field in fields}
    assert len(FIELDS) == len(names - {"env_name", "width"}) + 5
    assert (
        output[: output.index("\n\n")] in (ROOT / "docs" / "what-scores-depend-on.md").read_text()
    )
    for protocol in protocols.values():
        for source in protocol.source:
            assert source.split(":")[0] in output
        assert f"\n{protocol.name} ({protocol.digest[:10]}):\n" in output


def test_protocols_shows_one_that_is_named(capsys):
    assert main(["protocols", "rlinf"]) == 0
    output = capsys.readouterr().out
    table = output[: output.index("\n\n")].splitlines()
    assert table[0].split() == ["protocol", "rlinf"]
    assert next(line for line in table if line.startswith("horizon")).split()[-1] == "160"
    assert not [line for line in table if line.endswith(" -")]
    assert main(["protocols", "metaworld-3.1"]) == 0
    state_output = capsys.readouterr().out
    assert state_output.startswith("protocol          metaworld-3.1\nbenchmark")
    assert "camera" not in state_output
    assert "\nrlinf (" in output
    assert "lerobot-0.6 (" not in output
    with pytest.raises(SystemExit, match="2"):
        main(["protocols", "rlinv"])
    assert "unknown protocol 'rlinv'; did you mean 'rlinf'" in capsys.readouterr().err


# Help.


def test_help_of_every_command_ends_with_examples_that_parse(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    num_examples = {"": 3, "list": 2, "rollout": 6, "export": 3, "verify": 3, "compare": 5}
    num_examples |= {"protocols": 2, "check": 3, "verify-fast": 2}
    for command, number in num_examples.items():
        assert main([*command.split(), "--help"]) == 0
        output = capsys.readouterr().out
        assert max(map(len, output.splitlines())) <= 80
        examples = output.partition("examples:\n")[2].splitlines()
        assert len(examples) == number
        for example in examples:
            words = re.split(r" {2}| \|", example.strip())[0].split()
            assert words.pop(0) == "mtwrappers"
            if "--help" in words:
                continue
            # Another, wrong word is all that parsing finds.
            with pytest.raises(SystemExit, match=r"^2$"):
                main([*words, "--xyz"])
            expected = rf"--xyz. {words[0]} has .*\. See mtwrappers {words[0]} --help."
            assert re.search(expected, capsys.readouterr().err)


def test_the_version_is_that_of_the_package(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"mtwrappers {version('mtwrappers')}\n"


# Refusals.


def test_an_error_names_the_environment_that_lacks_something(capsys, monkeypatch):
    def fail():
        raise with_place(DependencyNotInstalled("pip install it"), "environment 3")

    monkeypatch.setattr("mtwrappers.cli.rollout.make_benchmark", lambda *_, **__: fail())
    with pytest.raises(SystemExit, match=r"^2$"):
        main(["rollout", "MT10"])
    assert capsys.readouterr().err == "mtwrappers: error: environment 3: pip install it\n"


@pytest.mark.parametrize("missing", ["cyclopts", "rich"])
def test_without_the_extra_every_command_says_how_to_install_it(missing, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, missing, None)
    monkeypatch.setitem(sys.modules, f"{missing}.text", None)
    with pytest.raises(SystemExit, match=r"^2$"):
        main(["list"])
    error = capsys.readouterr().err
    assert error.startswith(f"mtwrappers: error: '{missing}")
    assert error.endswith(
        "' is not installed; it comes with: pip install '.[cli]' in a clone of mtwrappers\n"
    )
