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
from tests.cli.fakes import FILES, finished, processes, results_of, rollout_in_a_fork
from tests.vector.processes import needs_proc, wait_until

RANDOM = ["MT1", "--policy", "random", "--episodes"]
# Episodes of 40 steps, so that a rollout is short, and is interrupted in many places.
pytestmark = [pytest.mark.usefixtures("short_episodes"), needs_proc]


@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGINT])
@pytest.mark.slow_but("9")
def test_an_interrupted_rollout_continues_to_the_same_bytes(sent, tmp_path):
    out, said = tmp_path / "it's out", tmp_path / "said"
    arguments = [*RANDOM, "100", "--workers", "2"]
    results_of(tmp_path / "calm", *RANDOM, "100", workers=2)
    command, parts = ["rollout", *arguments, "--out", str(out)], [0]
    while len(parts) < 4:
        process = forks.start(main, command, output=said)
        group = process.pid
        assert wait_until(lambda: finished(out) > parts[-1] or not process.is_alive())  # noqa: B023
        time.sleep(0.05 * len(parts))
        if sent == signal.SIGKILL:
            os.kill(process.pid, sent)
        while sent == signal.SIGINT and process.is_alive():  # pressed by someone who is impatient
            os.killpg(process.pid, sent)
            time.sleep(0.01)
        process.join()
        assert wait_until(lambda: not processes(group))  # noqa: B023 (it is called here)
        parts.append(finished(out))
        if process.exitcode == 0:
            break
        assert process.exitcode == (130 if sent == signal.SIGINT else -signal.SIGKILL)
        assert parts[-1] > parts[-2]
        if sent == signal.SIGINT:
            done = re.search(
                r"Interrupted: (\d+) of 100 episodes .* with:\n(.*)\n$", said.read_text()
            )
            # An episode may be kept, and not yet be counted.
            assert parts[-1] - int(done[1]) in (0, 1)
            command = shlex.split(done[2])[1:]
            assert "Traceback" not in said.read_text()
        command = [*command, *["--resume"] * ("--resume" not in command)]
    assert parts[1] < 100
    assert main(command) == 0
    assert sorted(os.listdir(out)) == FILES
    for name in FILES:
        assert (out / name).read_bytes() == (tmp_path / "calm" / name).read_bytes()


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
        patch.setattr(rollout, "_make_envs", lambda of: signal.raise_signal(signal.SIGINT))
        assert main(command) == 130
        assert "Interrupted: no episode was begun. Continue" in capsys.readouterr().out
        signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, finished_episodes in ((2, 2), (1, 3)):
        monkeypatch.setattr(rollout.EpisodeCounter, "end", end_at(number))
        assert main(command) == 130
        said = capsys.readouterr().out
        assert f"Interrupted: {finished_episodes} of 5 episodes were finished." in said
        signal.signal(signal.SIGINT, signal.default_int_handler)


def test_what_contradicts_the_rollout_that_is_resumed_is_refused(tmp_path, capsys):
    arguments = [*RANDOM, "2", "--name", "a"]
    main(["rollout", *arguments, "--out", str(tmp_path), "--resume"])
    assert "has no episodes to continue: starting from the beginning" in capsys.readouterr().err
    before = EvaluationResult.load(tmp_path / "results.json")
    for given, message in (
        (["--seed", "1"], "seed 0, got 1"),
        (["--policy", "expert"], "policy 'random', got 'expert'"),
        (["--name", "b"], "name 'a', got 'b'"),
        (["--training-seed", "1"], "training_seed None, got 1"),
    ):
        with pytest.raises(SystemExit, match=r"^2$"):
            main(["rollout", *arguments, *given, "--out", str(tmp_path), "--resume"])
        said = capsys.readouterr().err
        assert said.startswith("mtwrappers: error: --resume: cannot use ")
        assert message in said
    assert EvaluationResult.load(tmp_path / "results.json") == before
    assert main(["rollout", *arguments, "--out", str(tmp_path), "--resume"]) == 0  # it is complete
    assert "0 steps in" in capsys.readouterr().out


def test_a_second_rollout_into_a_directory_is_refused_until_the_first_has_ended(tmp_path, capsys):
    first = rollout_in_a_fork(tmp_path, *RANDOM, "50000", "--workers", "2")
    assert wait_until(lambda: len(processes(first.pid)) == 3 and finished(tmp_path))
    for command in (["--overwrite"], ["--resume"]):
        with pytest.raises(SystemExit, match=r"^2$"):
            main(["rollout", "MT1", "--out", str(tmp_path), *command, "--workers", "1"])
        said = capsys.readouterr().err
        assert said == (
            f"mtwrappers: error: another rollout is writing into {tmp_path}: wait until it has "
            "ended, or choose another place with --out\n"
        )
    # Its workers, one of which is stopped, do not hold the lock.
    workers = [pid for pid in processes(first.pid) if pid != first.pid]
    os.kill(workers[0], signal.SIGSTOP)
    first.kill()
    first.join()
    results_of(tmp_path, *RANDOM, "1")
    with contextlib.suppress(ProcessLookupError):  # they have ended by themselves
        os.killpg(first.pid, signal.SIGKILL)


def test_an_earlier_rollout_is_replaced_only_if_asked_and_when_there_is_another(tmp_path, capsys):
    results_of(tmp_path, *RANDOM, "1")
    for name in ("push-v3.mp4", "holiday.mp4"):
        (tmp_path / name).write_text("of before")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
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
        results_of(tmp_path, "MT1", "--policy", f"{policy}:act")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    results_of(tmp_path, *RANDOM, "1", "--seed", "1")
    assert sorted(os.listdir(tmp_path)) == ["holiday.mp4", *FILES]
    for name in FILES:
        assert (tmp_path / name).read_bytes() != before[name]


def test_links_in_the_folder_are_replaced_and_what_they_lead_to_is_left_alone(tmp_path):
    out, victims = tmp_path / "out", tmp_path / "victims"
    for folder in (out, victims):
        folder.mkdir()
    for name in FILES:
        (victims / name).write_text("a victim")
        (out / name).symlink_to(victims / name)
    results_of(out, *RANDOM, "1")
    assert {path.read_text() for path in victims.iterdir()} == {"a victim"}
    assert sorted(os.listdir(out)) == FILES
    assert not any(path.is_symlink() for path in out.iterdir())


def test_a_full_disk_is_one_line_and_keeps_finished_episodes(tmp_path):
    out, said = tmp_path / "out", tmp_path / "said"
    arguments = ["rollout", *RANDOM, "40", "--workers", "1", "--out", str(out)]

    def rollout_on_a_full_disk():
        # A limit on the size of files fails as a full disk does, in the middle of one.
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
        return main(arguments)

    process = forks.start(rollout_on_a_full_disk, output=said)
    process.join()
    assert process.exitcode == 2
    assert said.read_text().endswith(
        f"\nmtwrappers: error: cannot write to {out}: File too large; choose another directory "
        "with --out DIR, or make this one writable and continue with --resume\n"
    )
    assert os.listdir(out) == ["results.npz"]
    assert 1 <= finished(out) < 40
    assert main([*arguments, "--resume"]) == 0
    assert sorted(os.listdir(out)) == FILES
