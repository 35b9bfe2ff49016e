"""The command line as `main`: the list, the help, and what it refuses."""

import dataclasses
import re
import sys
from importlib.metadata import version

import pytest
from gymnasium.error import DependencyNotInstalled

from mtwrappers import protocols
from mtwrappers.cli import main
from mtwrappers.cli.protocols import FIELDS
from mtwrappers.common.errors import with_place
from mtwrappers.common.registration import TABLE
from mtwrappers.evaluation import Protocol
from tests.fakes import ROOT

COMMANDS = "list, rollout, export, verify, compare, protocols, check, verify-fast"

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
    row = (28 * "x", 10, "new", "float32[84]", "float32[4]", "onehot", 10)
    monkeypatch.setattr("mtwrappers.cli.list._row", lambda *of: row)
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
    assert rows["version"] == ["-", "-", "0.6.1", "0.6.1", "-"]  # of the sentences
    # A row for each field but these, and six for the digest and what fields say beside.
    fields = {field.name for field in dataclasses.fields(Protocol)}
    assert len(FIELDS) == len(fields - {"name", "source", "env_name"}) + 6
    assert said[: said.index("\n\n")] in (ROOT / "docs" / "what-scores-depend-on.md").read_text()
    for protocol in protocols.values():
        for source in protocol.source:
            assert source.split(":")[0] in said
        assert f"\n{protocol.name} ({protocol.digest[:10]}):\n" in said


# Help.


def test_help_of_every_command_ends_with_examples_that_parse(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    examples_of = {"": 3, "list": 2, "rollout": 6, "export": 3, "verify": 3, "compare": 5}
    examples_of |= {"protocols": 1, "check": 3, "verify-fast": 2}
    for command, number in examples_of.items():
        assert main([*command.split(), "--help"]) == 0
        said = capsys.readouterr().out
        assert max(map(len, said.splitlines())) <= 80
        examples = said.partition("examples:\n")[2].splitlines()
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


def test_a_shell_completes_commands_and_options(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("HOME", str(tmp_path))
    script = tmp_path / "completions"
    assert main(["--install-completion", "--shell", "bash", "--output", str(script)]) == 0
    words = set(re.findall(r"[\w-]+", script.read_text()))
    assert words >= {"rollout", "verify-fast", "--overwrite", "--kwargs", "markdown"}
    assert str(script) in capsys.readouterr().out


# Refusals.


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            "rolout",
            f'Unknown command "rolout". Did you mean "rollout"? Available commands: {COMMANDS}',
        ),
        ("rollout MT1 --epsodes 3", "Unknown option: --epsodes. Did you mean --episodes? --epis"),
        (
            "rollout MT1 --env-name push-v3",
            "Unknown option: --env-name. Did you mean --task? --task: Evaluate only this class; "
            "can be repeated. See mtwrappers rollout --help.",
        ),
        (
            "rollout MT10 --num-envs=20",
            "Unknown option: --num-envs. Did you mean --workers or --episodes? --workers: "
            "Worker processes (default: all cores). --episodes: Episodes per class (default: 5, or",
        ),
        ("rollout MT1 --output x", "Unknown option: --output. Did you mean --out? --out: The outp"),
        ("verify a --quick", "Unknown option: --quick. verify has --sample, --workers. See mtwrap"),
        ("list --json", "Unknown option: --json. list has no options. See mtwrappers list --help"),
        ("rollout MT1 push-v3", 'Unexpected argument "push-v3": rollout takes one benchmark; ch'),
        ("rollout MT1 --video yes", 'Unexpected argument "yes": --video takes no value. See mtwra'),
        ("rollout push-v3", "push-v3 is a class: choose it with mtwrappers rollout MT1 --task pus"),
        ("rollout mtwrappers/MT10-v0", "unknown benchmark 'mtwrappers/MT10-v0'; did you mean 'MT"),
        (
            "rollout MT1 --policy ppo.zip",
            'Invalid value "ppo.zip" for --policy. Choose from expert, random, FILE.py:NAME, '
            "package.module:NAME. For a saved model, write a FILE.py with a function NAME that l",
        ),
        ("verify", "verify needs a value for RESULT: A file of rollout or EvaluationResult.save, "),
        ("verify a --sample 1%", "Invalid value for --sample: expected a number such as 0.1, got"),
        ("rollout MT10 --task a,b", "--task takes one class, got 'a,b': repeat --task for each"),
        ("verify .", ". has no results.json: expected the folder of a complete rollout (--resume"),
        ("rollout MT1O", "unknown benchmark 'MT1O'; did you mean 'MT1' or 'MT10'?"),
        ("rollout MT10 --task reach", "unknown class 'reach' of MT10; did you mean 'reach-v3'?"),
        ("rollout --protocol rlinv", "unknown protocol 'rlinv'; did you mean 'rlinf'?"),
        (
            "rollout MT1 --policy exprt",
            "Invalid value \"exprt\" for --policy. Did you mean 'expert'? See mtwrappers",
        ),
        (
            "rollout MT1 --policy own.py",
            'Invalid value "own.py" for --policy. Name the policy in the file too, such as ',
        ),
        ("rollout --seed", "rollout needs a value for --seed: Determines goals, their order and"),
        ("rollout MT1 --out FILE", "cannot write to FILE: File exists; choose another directory w"),
        ("rollout MT1 --seed -1", 'Invalid value "-1" for --seed. Must be >= 0. See mtwrappers'),
        ("rollout MT1 --workers -1", 'Invalid value "-1" for --workers. Must be >= 1. See mtwrapp'),
        ("rollout MT1 --seed 1.5", "Invalid value for --seed: expected a whole number such as 1"),
        ("rollout MT1 --execution here", 'Invalid value "here" for --execution. Choose from: "pa'),
        (
            "verify-fast --workers 0",
            'Invalid value "0" for --workers. Must be >= 1. See mtwrappers',
        ),
        (
            "compare a b --format word",
            'Invalid value "word" for --format. Choose from: "table", "markdow',
        ),
    ],
)
def test_wrong_arguments_are_one_line_that_says_what_to_do(
    arguments, message, capsys, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "FILE").touch()
    with pytest.raises(SystemExit, match=r"^2$"):
        main(arguments.split())
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith(f"mtwrappers: error: {message}")
    assert said.err.count("\n") == 1


def test_the_last_of_a_repeated_option_counts(capsys):
    with pytest.raises(SystemExit, match=r"^2$"):
        main(["rollout", "--protocol", "metaworld-3.1", "--protocol", "none"])
    assert "unknown protocol 'none'" in capsys.readouterr().err


def test_an_error_names_the_environment_that_lacks_something(capsys, monkeypatch):
    def fail():
        raise with_place(DependencyNotInstalled("pip install it"), "environment 3")

    monkeypatch.setattr("mtwrappers.cli.list._row", lambda *of: fail())
    with pytest.raises(SystemExit, match=r"^2$"):
        main(["list"])
    assert capsys.readouterr().err == "mtwrappers: error: environment 3: pip install it\n"


@pytest.mark.parametrize("missing", ["cyclopts", "rich"])
def test_without_the_extra_every_command_says_how_to_install_it(missing, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, missing, None)
    monkeypatch.setitem(sys.modules, f"{missing}.text", None)
    with pytest.raises(SystemExit, match=r"^2$"):
        main(["list"])
    said = capsys.readouterr().err
    assert said.startswith(f"mtwrappers: error: '{missing}")
    assert said.endswith(
        "' is not installed; it comes with: pip install '.[cli]' in a clone of mtwrappers\n"
    )
