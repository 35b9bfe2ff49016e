"""What commands refuse is one line that says what was expected, what came, and the way out."""

import shutil
import sys
from pathlib import Path

import pytest

from mtwrappers.cli import main
from mtwrappers.evaluation import Episode, EvaluationResult
from tests.cli.fakes import SHIPPED
from tests.testing import faults

COMMANDS = "list, rollout, export, verify, compare, protocols, check, verify-fast, ..."
POLICIES = """
def expert(observations):
    raise ZeroDivisionError("of mine")

def short(observations):
    return observations[:, :3]

class Wants:
    def __init__(self, path): ...

def nothing(): ...

def fails():
    raise ValueError("of mine")

number = 3
"""
FILES = {
    "own.py": POLICIES,
    "own.txt": POLICIES,
    "broken.py": "def act(obs): ...\n1 / 0\n",
    "class.py": "class Own: ...\n\ndef make():\n    return Own\n",
    "old.py": "class Old:\n    def reset(self): ...\n\n    def step(self, action): ...\n",
    "broken.json": "{",
}
RANDOM, EXPERTS = "random/metaworld-3.1-MT10", "reference:experts/metaworld-3.1-MT10"
MT10 = "mine.json"  # of the protocol metaworld-3.1
TWO_RUNS = "run-0.json run-1.json"


@pytest.fixture(autouse=True)
def _files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr("mtwrappers.cli.rollout.cores", lambda: 1)
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    shutil.copy(faults.__file__, "my_env.py")
    for suffix in (".json", ".npz"):
        shutil.copy(SHIPPED / RANDOM / f"results{suffix}", f"mine{suffix}")
    shutil.copy(MT10, "alone.json")
    for name, policy, seed, steps in (
        *(("run-0", "run", 0, None), ("run-1", "run", 0, None)),
        *(("late", "late", 0, 9), ("early", "late", 1, 5)),
    ):
        episodes = [Episode("reach-v3", i, float(len(name)), 5, i < 2, False, i) for i in range(5)]
        described = {"policy": policy, "training_seed": seed, "training_steps": steps}
        EvaluationResult(episodes).described(**described).save(f"{name}.json")
    yield
    for name in ("my_env", "own", "user_file"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        # Commands, options and their values.
        (
            "rolout",
            f'Unknown command "rolout". Did you mean "rollout"? Available commands: {COMMANDS}',
        ),
        (
            "rollout MT1 --epsodes 3",
            "Unknown option: --epsodes. Did you mean --episodes? --episodes",
        ),
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
        (
            "rollout MT1 push-v3",
            'Unexpected argument "push-v3": rollout takes one benchmark; choose',
        ),
        ("rollout", "a benchmark is required, such as: mtwrappers rollout MT10"),
        ("rollout MT1 --task push-v3 --task reach-v3", "MT1 has one class, got 2; several are"),
        ("rollout MT1 --out /proc/x", "cannot write to /proc/x"),
        ("verify", "verify needs a value for RESULT: A file of rollout or EvaluationResult.save, "),
        (
            "rollout MT1 --seed 1.5",
            "Invalid value for --seed: expected a whole number such as 1000000 or 1e6, got",
        ),
        (
            "rollout MT1 --training-steps 1e999999",
            "--training-steps. Must be <= 9223372036854775807",
        ),
        ("rollout MT1 --training-steps nan", "expected a whole number such as 1000000 or 1e6, got"),
        ("verify a --sample 1%", "Invalid value for --sample: expected a number such as 0.1, got"),
        (
            "compare a --format html",
            'Invalid value "html" for --format. Choose from: "table", "markdown"',
        ),
        # What is to be run.
        ("rollout MT1O", "unknown benchmark 'MT1O'; did you mean 'MT1' or 'MT10'?"),
        (
            "rollout HalfCheetahVel",
            "rollout evaluates on Meta-World's benchmarks alone, such as MT10; HalfCheetahVel is "
            "evaluated in Python, with "
            "mtwrappers.few_shot_evaluate(policy, "
            "gymnasium.make_vec('mtwrappers/HalfCheetahVel-v0', num_envs=20)), or "
            "mtwrappers.evaluate for a policy that does not adapt",
        ),
        (
            "rollout PointGoal",
            "with mtwrappers.evaluate(policy, gymnasium.make_vec('mtwrappers/PointGoal-v0'))",
        ),
        ("rollout mtwrappers/CW10-v0", "in Python, with mtwrappers.continual_evaluate"),
        ("rollout mtwrappers/MT10-v0", "did you mean 'MT10'?"),
        (
            "rollout push-v3",
            "push-v3 is a class: choose it with mtwrappers rollout MT1 --task push-v3",
        ),
        ("rollout MT10 --task reach", "unknown class 'reach' of MT10; did you mean 'reach-v3'?"),
        (
            "rollout ML45 --task bin-picking",
            "unknown class 'bin-picking' of ML45-train; did you mean 'bin-picking-v3'?",
        ),
        (
            "rollout ML10 --task drawer-open-v3",
            "drawer-open-v3 is not a class of ML10-train but of ML10-test: mtwrappers rollout "
            "ML10-test --task drawer-open-v3",
        ),
        (
            "rollout ML10-test --task reach-v3",
            "reach-v3 is not a class of ML10-test but of ML10-train: mtwrappers rollout ML10-train",
        ),
        (
            "rollout MT10 --task reach-v3 --task reach-v3",
            "--task reach-v3 is given 2 times",
        ),
        ("rollout MT10 --task a,b", "--task takes one class, got 'a,b': repeat --task for each"),
        ("rollout MT1 --resume --overwrite", "--overwrite replaces a whole rollout, and --resume "),
        ("rollout MT1 --action-chunk 7", "--action-chunk 7 is for a policy that returns chunks of"),
        ("rollout MT1 --observation pixels", "own without a protocol: expert reads states"),
        (
            "rollout MT1 --policy own.py:short --instruction --protocol lerobot-0.6",
            "--instruction is for a policy of your own without a protocol: a protocol says what is",
        ),
        ("rollout ML1 --policy own.py:short --instruction", "needs descriptions on ML1: its class"),
        ("rollout MT1 --size 84", "--size is for frames: add --observation or --video"),
        ("rollout MT1 --video-steps 9", "--video-steps is for videos: add --video"),
        ("rollout --protocol rlinv", "unknown protocol 'rlinv'; did you mean 'rlinf'?"),
        (
            "rollout --protocol metaworld-3.1-ml",
            "metaworld-3.1-ml is for a policy that adapts, and expert does not: give a policy of ",
        ),
        (
            "rollout --protocol metaworld-3.1-ml --policy own.py:short --video",
            "--video is for single episodes, and --protocol metaworld-3.1-ml has trials",
        ),
        (
            "rollout ML10 --protocol metaworld-3.1-ml --policy own.py:short --task reach-v3",
            "reach-v3 is not a class of ML10-test but of ML10-train",
        ),
        ("rollout ML10 --protocol metaworld-3.1", "metaworld-3.1 is for "),
        # Policies.
        (
            "rollout MT1 --policy exprt",
            "\"exprt\" for --policy. Did you mean 'expert'? See mtwrappers",
        ),
        ("rollout MT1 --policy own.py", "Name the policy in the file too, such as own.py:act. "),
        (
            "rollout MT1 --policy ppo.zip",
            'Invalid value "ppo.zip" for --policy. Choose from expert, random, FILE.py:NAME, '
            "package.module:NAME. For a saved model, write a FILE.py with a function NAME",
        ),
        ("rollout MT1 --policy ovn.py:act", "is no file 'ovn.py'; did you mean 'own.py'"),
        (
            "rollout MT1 --policy own.txt:act",
            "a path must end in .py, got 'own.txt'; did you mean 'own.py'?",
        ),
        (
            "check ./own:act",
            "./own:act: a path must end in .py, got './own'; did you mean 'own.py'?",
        ),
        ("rollout MT1 --policy own.py:number", "or an object with get_actions, got 3"),
        ("rollout MT1 --policy own.py:Wants", "or an object with get_actions, got <class "),
        ("rollout MT1 --policy own.py:nothing", "the result of nothing() must be a function from"),
        (
            "rollout MT1 --policy own.py:fails",
            "fails() failed: ValueError: of mine (own.py, line 14)",
        ),
        ("rollout MT1 --policy own.py:expert", "ZeroDivisionError: of mine (own.py, line 3)"),
        ("rollout MT1 --policy own.py:short", "ValueError: expected actions of shape (1, 4)"),
        (
            "rollout MT1 --policy broken.py:act",
            "import failed: ZeroDivisionError: division by zero",
        ),
        # Results.
        ("verify .", ". has no results.json: expected the folder of a complete rollout (--resume"),
        ("verify .", "or a file of EvaluationResult.save; did you mean alone.json or broken.json"),
        (
            "verify none.json",
            "cannot read none.json: No such file or directory; expected the folder",
        ),
        (
            "verify reference:experts/metaworld-3.1-MT10",
            "the actions of reference:experts/metaworld-3.1-MT10 are not shipped with the package, "
            "so that nothing can be replayed; compare with it (mtwrappers compare RESULT reference:"
            "experts/metaworld-3.1-MT10), or make it again by the commands in "
            "benchmarks/reference/README.md of the repository; in a clone, verify its folder, such "
            "as benchmarks/reference/experts/metaworld-3.1-MT10, if that has a results.npz",
        ),
        ("verify broken.json", "cannot verify broken.json: expected an evaluation in JSON"),
        ("verify alone.json", "there is no file alone.npz with its evidence"),
        ("compare none", "a rollout or a file of EvaluationResult.save, or reference:NAME"),
        ("compare mine.json experts", "no file experts; did you mean reference:experts?"),
        (
            f"compare mine.json {EXPERTS} --plot a.xyz",
            "--plot must end in the suffix of an image, such as .png, .pdf or .svg, got 'a.xyz'",
        ),
        ("compare mine.json --curve a.xyz", "--curve must end in the suffix of an image, such as"),
        ("compare broken.json mine.json", "broken.json: expected an evaluation in JSON"),
        (
            "compare mine.json alone.json",
            "mine.json and alone.json both have 'reach-v3', episode 0",
        ),
        (
            "compare mine.json --plot x",
            "add reference:experts or another policy's results, or use --curve",
        ),
        ("compare mine.json --curve x.png", "no result of ['random'] names its training_steps"),
        (
            f"compare {TWO_RUNS}",
            "the results of run are not comparable: run-0.json and run-1.json are both of training "
            "seed 0, and both have 'reach-v3', episode 0; --force compares them anyway",
        ),
        (
            "compare late.json early.json",
            "ends of training, 9 steps and 5 steps (early.json): evaluate every run after",
        ),
        ("compare mine.json reference:expert", "results of 'expert'; did you mean 'experts'?"),
        (f"compare mine.json {EXPERTS} reference:experts", f"{EXPERTS} is given twice"),
        (
            "compare mine.json reference:experts/tdmpc2-MT50",
            "not comparable: protocols metaworld-3.1",
        ),
        (
            "compare reference:experts reference:random",
            "reference:experts has results by 5 protocols",
        ),
        # Environments.
        ("check none:make", "No module named 'none'"),
        ("check none:Walk-v0", "No module named 'none'"),
        (
            "check Qbert2-v0",
            "no such id; an id of your own module is written my_module:Qbert2-v0",
        ),
        (
            "check CartPoles-v1",
            "'phys2d/CartPole-v1'? An id of your own module is written my_module:CartPoles-v1",
        ),
        ("check my_env:Qbert2-v0", "my_env:Qbert2-v0: no such id; my_env does not register it"),
        ("check my_env:WalkEnv --vector", "my_env:WalkEnv: vector is for ids; leave it out"),
        ("check my_env:CartPole-v1 --ignore time", "ignore must be names of infos such as"),
        ("check my_env:WalkEmv", "my_env has no 'WalkEmv'; did you mean 'WalkEnv'?"),
        (
            "check my_env.py",
            "got 'my_env.py'; name the function in the file too, such as my_env.py:make",
        ),
        (
            "check CartPoles",
            "expected package.module:NAME, FILE.py:NAME or a registered id, got 'CartPoles'",
        ),
        ("check CartPole", "a registered id, got 'CartPole'; did you mean 'CartPole-v1'?"),
        (
            "check mtwrappers/MT11-v0",
            "no such id; did you mean 'mtwrappers/MT1-v0', 'mtwrappers/MT10-v0'",
        ),
        ("check my_env:WalkEnv --kwargs {", "--kwargs must be JSON"),
        ("check my_env:np", "expected an id, or a function"),
        ("check my_env:WalkEnv --kwargs [3]", "--kwargs must be a JSON object, got [3]"),
        (
            "check class.py:make",
            "must make a gymnasium.Env or VectorEnv, got <class 'user_file.Own'>\n",
        ),
        (
            "check old.py:Old",
            "; an environment of the old Gym needs the class on the page 'Coming from other "
            "packages' (docs/migration.md)\n",
        ),
    ],
)
def test_it_is_one_line_that_names_the_way_out(arguments, message, capsys):
    with pytest.raises(SystemExit, match=r"^2$"):
        main(arguments.split())
    captured = capsys.readouterr()
    assert captured.out == "" or captured.out.startswith("Running M")
    assert captured.err.startswith("mtwrappers: error: ")
    assert message in captured.err
    assert captured.err.count("\n") == 1
    assert not any(Path("results").glob("*"))


def test_a_name_that_cannot_be_printed_is_refused(capsys):
    with pytest.raises(SystemExit, match=r"^2$"):
        main(["rollout", "MT10", "--name", "a\nb"])
    assert "the name of a policy must be printable, got 'a\\nb'" in capsys.readouterr().err


def test_what_is_forced_is_compared_and_says_so(capsys):
    assert main(["compare", "late.json", "early.json", "--force"]) == 0
    assert capsys.readouterr().out.startswith("FORCED, these results are not comparable: the e")
