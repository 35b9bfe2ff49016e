"""The command line as `main`: the list, the help, and what it refuses."""

import re
from importlib.metadata import version

import pytest

from mtwrappers.cli import main
from mtwrappers.registration import TABLE

BENCHMARKS = (
    "MT1, MT10, MT25, MT50, ML1-train, ML1-test, ML10-train, ML10-test, "
    "ML25-train, ML25-test, ML45-train, ML45-test"
)


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
    multi = ["2", "-", "float32[8]", "Discrete(3)", "onehot", "2"]
    assert rows["mtwrappers/MultiEnv-v0"] == multi


@pytest.mark.parametrize(
    ("columns", "left_out"),
    [(79, ()), (78, ("action",)), (67, ("action",)), (60, ("action", "observation"))],
)
def test_list_in_a_narrow_terminal_keeps_what_its_notes_explain(
    columns, left_out, capsys, monkeypatch
):
    monkeypatch.setenv("COLUMNS", str(columns))
    assert main(["list"]) == 0
    head, *lines = capsys.readouterr().out.splitlines()
    every = ["id", "tasks", "goals", "observation", "action", "encoding", "envs"]
    assert head.split() == [name for name in every if name not in left_out]
    assert max(map(len, [head, *lines])) <= columns
    explained = {note.split(":")[0] for line in lines[-2:] for note in line.split("; ")}
    assert explained == {"goals", "encoding", "envs"} <= set(head.split())


# Help.


def test_help_of_every_command_ends_with_examples_that_parse(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    commands = {"list": 2, "rollout": 5, "verify-fast": 2}
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


def test_what_parsing_refuses_names_the_help_of_its_command(capsys):
    for arguments, command in (
        ([], "mtwrappers"),
        (["rollout", "--episodes", "0"], "mtwrappers rollout"),
    ):
        with pytest.raises(SystemExit, match=r"^2$"):
            main(arguments)
        assert capsys.readouterr().err.endswith(f"; see {command} --help\n")


# Bad input.


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["rollout", "MT10-test"], f"unknown benchmark 'MT10-test' (choose from {BENCHMARKS})"),
        (["rollout", "ML10-"], f"unknown benchmark 'ML10-' (choose from {BENCHMARKS})"),
        (
            ["rollout", "ML10-test", "--task", "reach-v3"],
            "unknown task 'reach-v3' of ML10-test (choose from drawer-open-v3, door-close-v3, "
            "shelf-place-v3, sweep-into-v3, lever-pull-v3)",
        ),
        (
            ["rollout", "MT10", "--task", "push-v3", "--task", "hammer-v3"],
            "unknown task 'hammer-v3' of MT10 (choose from reach-v3, push-v3, pick-place-v3, ",
        ),
        (
            ["rollout", "MT1", "--task", "reach-v2"],
            "unknown task 'reach-v2' of MT1 (choose from assembly-v3, basketball-v3, ",
        ),
        (
            ["rollout", "MT1", "--task", "reach-v3", "--task", "push-v3"],
            "MT1 has one task, got 2; several classes are in MT10, MT50",
        ),
        (["rollout"], "the following arguments are required: benchmark, or --resume DIR"),
        (["rollout", "MT1", "--seed", str(2**32 - 1)], "[0, 2**32 - 2], got 4294967295"),
    ],
)
def test_bad_input_is_one_line_that_names_the_choices(
    arguments, message, capsys, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match=r"^2$"):
        main(arguments)
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("mtwrappers: error: ")
    assert said.err.count("\n") == 1
    # Versions of Python differ in where they quote.
    assert message.replace("'", "") in said.err.replace("'", "")
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_cannot_be_written_is_one_line(capsys, tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    for out in (file, file / "below"):
        with pytest.raises(SystemExit, match=r"^2$"):
            main(["rollout", "MT1", "--out", str(out)])
        said = capsys.readouterr().err
        assert said.startswith(f"mtwrappers: error: cannot write to {out}: ")
        assert said.endswith("; choose another directory with --out DIR\n")
        assert said.count("\n") == 1
