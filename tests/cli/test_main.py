"""The command line as `main`: the list, the help, and what it refuses."""

import dataclasses
import re
import sys
from importlib.metadata import version

import pytest
from gymnasium.error import DependencyNotInstalled

from mtwrappers import protocols
from mtwrappers.cli import main
from mtwrappers.cli.protocols import ROWS
from mtwrappers.common.errors import with_place
from mtwrappers.common.registration import TABLE
from mtwrappers.evaluation import Protocol
from tests.fakes import ROOT

# list


def test_list_shows_every_id_whole_with_its_sizes_in_a_file_too(capsys, monkeypatch):
    monkeypatch.delenv("COLUMNS")
    assert main(["list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    rows = {line.split()[0]: line.split()[1:] for line in lines if line.startswith("mtwrappers/")}
    assert list(rows) == list(TABLE)
    action = "float32[4]"
    assert rows["mtwrappers/MT10-v0"] == ["10", "50", "float64[49]", action, "onehot", "10"]
    assert rows["mtwrappers/MT50-v0"] == ["50", "50", "float64[89]", action, "onehot", "50"]
    assert rows["mtwrappers/ML1-test-v0"] == ["1", "50", "float64[39]", action, "none", "1"]
    assert rows["mtwrappers/ML10-test-v0"] == ["5", "50", "float64[39]", action, "none", "5"]
    assert rows["mtwrappers/CW20-v0"] == ["10", "new", "float64[59]", action, "onehot", "1"]
    multi = ["2", "-", "float32[8]", "Discrete(3)", "onehot", "2"]
    assert rows["mtwrappers/MultiEnv-v0"] == multi


@pytest.mark.parametrize(
    ("columns", "left_out"), [(80, ()), (79, ("action",)), (67, ("action", "observation"))]
)
@pytest.mark.slow_but("79-left_out1")
def test_list_in_a_narrow_terminal_keeps_what_its_notes_explain(
    columns, left_out, capsys, monkeypatch
):
    monkeypatch.setenv("COLUMNS", str(columns))
    assert main(["list"]) == 0
    head, *lines = capsys.readouterr().out.splitlines()
    every = ["id", "classes", "goals", "observation", "action", "encoding", "envs"]
    assert head.split() == [name for name in every if name not in left_out]
    assert max(map(len, [head, *lines])) <= columns
    explained = {note.split(":")[0] for line in lines[-3:] for note in line.split("; ")}
    assert explained == {"goals", "encoding", "envs"} <= set(head.split())


# protocols


def test_protocols_shows_all_fields_side_by_side_with_their_sources(capsys):
    assert main(["protocols"]) == 0
    said = capsys.readouterr().out
    lines = said.splitlines()
    assert max(map(len, lines)) <= 80
    rows = {line[:17].strip(): line[17:].split() for line in lines[: lines.index("")]}
    assert rows["horizon, actions"] == ["500", "500", "500", "160", "100"]
    assert rows["idle steps"] == ["-", "-", "-", "15", "1"]
    assert rows["success at"] == ["any", "any", "any", "any", "last"]
    assert rows["digest"] == [p.digest[:10] for p in protocols.values()]
    assert rows["sentences of"] == ["-", "-", "lerobot", "lerobot", "-"]
    # A row for each field but these, and three for the digest and what two fields say second.
    fields = {field.name for field in dataclasses.fields(Protocol)}
    assert len(ROWS) == len(fields - {"name", "source", "env_name"}) + 3
    assert said[: said.index("\n\n")] in (ROOT / "docs" / "scores.md").read_text()
    for protocol in protocols.values():
        for source in protocol.source:
            assert source.split(":")[0] in said
        assert f"\n{protocol.name} ({protocol.digest[:10]}):\n" in said


# Help.


def test_help_of_every_command_ends_with_examples_that_parse(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    commands = {"list": 2, "rollout": 6, "protocols": 1, "verify-fast": 2}
    for command in ([], *([name] for name in commands)):
        with pytest.raises(SystemExit, match=r"^0$"):
            main([*command, "--help"])
        said = capsys.readouterr().out
        assert max(map(len, said.splitlines())) <= 80
        examples = said.partition("examples:\n")[2].splitlines()
        assert len(examples) == commands.get("".join(command), 3)
        for example in examples:
            words = re.split(r" {2}| \|", example.strip())[0].split()
            assert words[0] == "mtwrappers"
            # Another, wrong word is all that parsing finds.
            with pytest.raises(SystemExit):
                main([*words[1:], "--wrong"])
            if "--help" not in words:
                assert "unrecognized arguments: --wrong" in capsys.readouterr().err
            capsys.readouterr()


def test_the_version_is_that_of_the_package(capsys):
    with pytest.raises(SystemExit, match=r"^0$"):
        main(["--version"])
    assert capsys.readouterr().out == f"mtwrappers {version('mtwrappers')}\n"


def test_what_is_refused_is_one_line_that_says_what_to_do(capsys, tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    cannot = f"cannot write to {file}: File exists; choose another directory with --out DIR"
    commands = "{list,rollout,verify,compare,protocols,check,verify-fast}"
    required = f"the following arguments are required: {commands}; see mtwrappers --help"
    for arguments, message in (
        (
            [],
            required.replace(
                "command", "{list,rollout,verify,compare,protocols,check,verify-fast}"
            ),
        ),
        (["rollout", "--seed"], "argument --seed: expected one argument; see mtwrappers rollout -"),
        (["rollout", "MT1", "--out", str(file)], cannot),
    ):
        with pytest.raises(SystemExit, match=r"^2$"):
            main(arguments)
        said = capsys.readouterr().err
        assert said.startswith(f"mtwrappers: error: {message}")
        assert said.count("\n") == 1


def test_what_an_environment_lacks_is_told_with_its_place(capsys, monkeypatch):
    def fail():
        raise with_place(DependencyNotInstalled("pip install it"), "environment 3")

    monkeypatch.setattr(sys.modules["mtwrappers.cli.main"], "_list", fail)
    with pytest.raises(SystemExit, match=r"^2$"):
        main(["list"])
    assert capsys.readouterr().err == "mtwrappers: error: environment 3: pip install it\n"
