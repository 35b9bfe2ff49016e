"""Rollouts that Ctrl-C, a kill or a full disk ends: what is kept, and that nothing stays behind."""

import contextlib
import os
import re
import resource
import shlex
import signal
import time

import pytest

from mtwrappers.cli import main, rollout
from mtwrappers.evaluation import EvaluationResult
from tests import forks
from tests.cli.fakes import FILES, count_episodes, find_processes, run_rollout, start_rollout
from tests.vector.processes import needs_proc, wait_until

RANDOM = ["MT1", "--policy", "random", "--episodes"]
# Episodes of 40 steps, so that a rollout is short, and is interrupted in many places.
pytestmark = [pytest.mark.usefixtures("short_episodes"), needs_proc]


@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGINT])
@pytest.mark.slow_but("9")
def test_an_interrupted_rollout_continues_to_the_same_bytes(signum, tmp_path):
    folder, output = tmp_path / "it's out", tmp_path / "output"
    arguments = [*RANDOM, "100", "--workers", "2"]
    run_rollout(tmp_path / "uninterrupted", *RANDOM, "100", workers=2)
    command, counts = ["rollout", *arguments, "--out", str(folder)], [0]
    while len(counts) < 4:
        process = forks.start(main, command, output=output)
        group = process.pid
        assert wait_until(
            lambda: count_episodes(folder) > counts[-1] or not process.is_alive()  # noqa: B023
        )
        time.sleep(0.05 * len(counts))
        if signum == signal.SIGKILL:
            os.kill(process.pid, signum)
        while signum == signal.SIGINT and process.is_alive():  # pressed by someone who is impatient
            os.killpg(process.pid, signum)
            time.sleep(0.01)
        process.join()
        assert wait_until(lambda: not find_processes(group))  # noqa: B023 (it is called here)
        counts.append(count_episodes(folder))
        if process.exitcode == 0:
            break
        assert process.exitcode == (130 if signum == signal.SIGINT else -signal.SIGKILL)
        assert counts[-1] > counts[-2]
        if signum == signal.SIGINT:
            interruption = re.search(
                r"Interrupted: (\d+) of 100 episodes .* with:\n(.*)\n$", output.read_text()
            )
            # An episode may be kept, and not yet be counted.
            assert counts[-1] - int(interruption[1]) in (0, 1)
            command = shlex.split(interruption[2])[1:]
            assert "Traceback" not in output.read_text()
        if "--resume" not in command:
            command = [*command, "--resume"]
    assert counts[1] < 100
    assert main(command) == 0
    assert sorted(os.listdir(folder)) == FILES
    for name in FILES:
        assert (folder / name).read_bytes() == (tmp_path / "uninterrupted" / name).read_bytes()


def test_the_line_of_an_interruption_counts_all_episodes_of_the_rollout(
    tmp_path, capsys, monkeypatch
):
    end = rollout.EpisodeCounter.end

    def end_at(number):
        def end_and_interrupt(follower, i, episode):
            end(follower, i, episode)
            if len(follower.lengths) == number:
                raise KeyboardInterrupt

        return end_and_interrupt

    command = ["rollout", *RANDOM, "5", "--workers", "1", "--out", str(tmp_path), "--resume"]
    with monkeypatch.context() as patch:
        patch.setattr(rollout, "_make_envs", lambda plan: signal.raise_signal(signal.SIGINT))
        assert main(command) == 130
        assert "Interrupted: no episode was begun. Continue" in capsys.readouterr().out
        signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, finished_episodes in ((2, 2), (1, 3)):
        monkeypatch.setattr(rollout.EpisodeCounter, "end", end_at(number))
        assert main(command) == 130
        output = capsys.readouterr().out
        assert f"Interrupted: {finished_episodes} of 5 episodes were finished." in output
        signal.signal(signal.SIGINT, signal.default_int_handler)


def test_what_contradicts_the_rollout_that_is_resumed_is_refused(tmp_path, capsys):
    arguments = [*RANDOM, "2", "--name", "a"]
    main(["rollout", *arguments, "--out", str(tmp_path), "--resume"])
    assert "has no episodes to continue: starting from the beginning" in capsys.readouterr().err
    result = EvaluationResult.load(tmp_path / "results.json")
    for options, message in (
        (["--seed", "1"], "seed 0, got 1"),
        (["--policy", "expert"], "policy 'random', got 'expert'"),
        (["--name", "b"], "name 'a', got 'b'"),
        (["--training-seed", "1"], "training_seed None, got 1"),
    ):
        with pytest.raises(SystemExit, match=r"^2$"):
            main(["rollout", *arguments, *options, "--out", str(tmp_path), "--resume"])
        error = capsys.readouterr().err
        assert error.startswith("mtwrappers: error: --resume: cannot use ")
        assert message in error
    assert EvaluationResult.load(tmp_path / "results.json") == result
    assert main(["rollout", *arguments, "--out", str(tmp_path), "--resume"]) == 0  # it is complete
    assert "0 steps in" in capsys.readouterr().out


def test_a_second_rollout_into_a_directory_is_refused_until_the_first_has_ended(tmp_path, capsys):
    first = start_rollout(tmp_path, *RANDOM, "50000", "--workers", "2")
    assert wait_until(lambda: len(find_processes(first.pid)) == 3 and count_episodes(tmp_path))
    for command in (["--overwrite"], ["--resume"]):
        with pytest.raises(SystemExit, match=r"^2$"):
            main(["rollout", "MT1", "--out", str(tmp_path), *command, "--workers", "1"])
        error = capsys.readouterr().err
        assert error == (
            f"mtwrappers: error: another rollout is writing into {tmp_path}: wait until it has "
            "ended, or choose another place with --out\n"
        )
    # Its workers, one of which is stopped, do not hold the lock.
    workers = [pid for pid in find_processes(first.pid) if pid != first.pid]
    os.kill(workers[0], signal.SIGSTOP)
    first.kill()
    first.join()
    run_rollout(tmp_path, *RANDOM, "1")
    with contextlib.suppress(ProcessLookupError):  # they have ended by themselves
        os.killpg(first.pid, signal.SIGKILL)


def test_an_earlier_rollout_is_replaced_only_if_asked_and_when_there_is_another(tmp_path, capsys):
    run_rollout(tmp_path, *RANDOM, "1")
    for name in ("push-v3.mp4", "holiday.mp4"):
        (tmp_path / name).write_text("of before")
    contents = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    capsys.readouterr()
    with pytest.raises(SystemExit, match=r"^2$"):
        main(["rollout", *RANDOM, "1", "--out", str(tmp_path)])
    assert capsys.readouterr().err == (
        f"mtwrappers: error: {tmp_path} has files of an earlier rollout (push-v3.mp4, "
        f"{', '.join(FILES)}): replace them with --overwrite, continue it with --resume, or choose "
        "another folder with --out DIR\n"
    )
    policy = tmp_path.with_name("fails.py")
    policy.write_text("def act(observations): raise ZeroDivisionError")
    with pytest.raises(SystemExit, match=r"^2$"):
        run_rollout(tmp_path, "MT1", "--policy", f"{policy}:act")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == contents
    run_rollout(tmp_path, *RANDOM, "1", "--seed", "1")
    assert sorted(os.listdir(tmp_path)) == ["holiday.mp4", *FILES]
    for name in FILES:
        assert (tmp_path / name).read_bytes() != contents[name]


def test_links_in_the_folder_are_replaced_and_what_they_lead_to_is_left_alone(tmp_path):
    folder, victims = tmp_path / "out", tmp_path / "victims"
    folder.mkdir()
    victims.mkdir()
    for name in FILES:
        (victims / name).write_text("a victim")
        (folder / name).symlink_to(victims / name)
    run_rollout(folder, *RANDOM, "1")
    assert {path.read_text() for path in victims.iterdir()} == {"a victim"}
    assert sorted(os.listdir(folder)) == FILES
    assert not any(path.is_symlink() for path in folder.iterdir())


def test_a_full_disk_is_one_line_and_keeps_finished_episodes(tmp_path):
    folder, output = tmp_path / "out", tmp_path / "output"
    arguments = ["rollout", *RANDOM, "40", "--workers", "1", "--out", str(folder)]

    def rollout_on_a_full_disk():
        # A limit on the size of files fails as a full disk does, in the middle of one.
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
        return main(arguments)

    process = forks.start(rollout_on_a_full_disk, output=output)
    process.join()
    assert process.exitcode == 2
    assert output.read_text().endswith(
        f"\nmtwrappers: error: cannot write to {folder}: File too large; choose another directory "
        "with --out DIR, or make this one writable and continue with --resume\n"
    )
    assert os.listdir(folder) == ["results.npz"]
    assert 1 <= count_episodes(folder) < 40
    assert main([*arguments, "--resume"]) == 0
    assert sorted(os.listdir(folder)) == FILES
