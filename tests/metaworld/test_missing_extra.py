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


def test_every_name_can_be_imported(run):
    done = run("import mtwrappers\nfrom mtwrappers import *\nprint(MetaWorldSetTaskEnv.__name__)")
    assert (done.stdout, done.stderr) == ("MetaWorldSetTaskEnv\n", "")


def test_multi_env_wrapper_works(run):
    done = run(
        "import gymnasium, functools, mtwrappers\n"
        "make = functools.partial(gymnasium.make, 'CartPole-v1')\n"
        "env = mtwrappers.MultiEnvWrapper([make, make])\n"
        "obs, info = env.reset(seed=0, options={'task_state': 1})\n"
        "env.step(0)\n"
        "print(obs['task_obs'], info['task_id'])\n"
    )
    assert (done.stdout, done.stderr) == ("1 1\n", "")


def test_the_registered_id_of_any_environments_works(run):
    done = run(
        "import gymnasium, mtwrappers\n"
        "obs, info = gymnasium.make('mtwrappers/MultiEnv-v0').reset(seed=0)\n"
        "print(obs.shape)\n"
    )
    assert (done.stdout, done.stderr) == ("(8,)\n", "")


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
    message = (
        "'metaworld' is not installed; it comes with: pip install '.[metaworld]' in a clone of "
        "mtwrappers"
    )
    assert done.stdout.splitlines() == [f"{use}: {message}" for use in uses]
    assert done.stderr == ""


@pytest.mark.parametrize("command", [["list"], ["rollout", "MT1"]])
def test_the_command_line_names_an_extra_to_install_in_one_line(run, command):
    done = run(f"from mtwrappers.cli import main\nmain({command!r})\n")
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == (
        "mtwrappers: error: 'metaworld' is not installed; it comes with: "
        "pip install '.[metaworld]' in a clone of mtwrappers\n"
    )
