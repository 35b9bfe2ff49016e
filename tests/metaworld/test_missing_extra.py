"""Without Meta-World the package works but for its own environments, and says what to install."""

import subprocess
import sys

import pytest

FROM_MODULES = "import sys; sys.modules['metaworld'] = None\n"
FROM_FINDERS = """
import sys
class NotInstalled:
    def find_spec(self, name, path=None, target=None):
        if name.partition('.')[0] in ('metaworld', 'mujoco'):
            raise ModuleNotFoundError(f'No module named {name!r}', name=name)
sys.meta_path.insert(0, NotInstalled())
"""
MESSAGE = (
    "'metaworld' is not installed; it comes with: pip install '.[metaworld]' in a clone of "
    "mtwrappers"
)


@pytest.fixture(params=[FROM_MODULES, FROM_FINDERS], ids=["no-metaworld", "no-metaworld-no-mujoco"])
def run(request):
    """Runs Python code in a process in which Meta-World cannot be imported."""

    def run_code(code):
        return subprocess.run(
            [sys.executable, "-W", "error", "-c", request.param + code],
            capture_output=True,
            text=True,
            check=False,
        )

    return run_code


def test_every_name_can_be_imported_and_other_environments_work(run):
    done = run(
        "import gymnasium, functools, mtwrappers\n"
        "from mtwrappers import *\n"
        "make = functools.partial(gymnasium.make, 'CartPole-v1')\n"
        "env = MultiEnvWrapper([make, make])\n"
        "obs, info = env.reset(seed=0, options={'task_state': 1})\n"
        "env.step(0)\n"
        "other, _ = gymnasium.make('mtwrappers/MultiEnv-v0').reset(seed=0)\n"
        "print(MetaWorldSetTaskEnv.__name__, obs['task_obs'], info['task_id'], other.shape)\n"
    )
    assert (done.stdout, done.stderr) == ("MetaWorldSetTaskEnv 1 1 (8,)\n", "")


def test_the_environments_of_meta_world_name_the_extra_to_install(run):
    uses = (
        "gymnasium.make('mtwrappers/MT10-v0')",
        "gymnasium.make('mtwrappers/ML1-test-v0')",
        "gymnasium.make('mtwrappers/CustomMT-v0')",
        "gymnasium.make_vec('mtwrappers/MT10-v0')",
        "mtwrappers.MetaWorldSetTaskEnv('MT10')",
        "mtwrappers.MetaWorldSetTaskEnv()",
        "mtwrappers.metaworld.make_benchmark('ML10')",
    )
    done = run(
        "import gymnasium, mtwrappers, mtwrappers.metaworld\n"
        "from gymnasium.error import DependencyNotInstalled\n"
        f"for use in {uses!r}:\n"
        "    try:\n"
        "        exec(use)\n"
        "    except DependencyNotInstalled as error:\n"
        "        print(use, error, sep=': ')\n"
    )
    assert done.stdout.splitlines() == [f"{use}: {MESSAGE}" for use in uses]
    assert done.stderr == ""


def test_the_command_line_names_an_extra_to_install_in_one_line(run):
    code = "from mtwrappers.cli import main\nfor command in {!r}:\n    try: main(command)\n"
    done = run(
        code.format([["list"], ["rollout", "MT1"]]) + "    except SystemExit as e: print(e.code)\n"
    )
    assert done.stdout == "2\n2\n"
    assert done.stderr == f"mtwrappers: error: {MESSAGE}\n" * 2
