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
USES = (
    "gymnasium.make('mtwrappers/MT10-v0')",
    "gymnasium.make('mtwrappers/ML1-test-v0')",
    "gymnasium.make('mtwrappers/CustomMT-v0')",
    "gymnasium.make_vec('mtwrappers/MT10-v0')",
    "mtwrappers.MetaWorldSetTaskEnv('MT10')",
    "mtwrappers.MetaWorldSetTaskEnv()",
    "mtwrappers.metaworld.make_benchmark('ML10')",
)
EXPECTED = ["MetaWorldSetTaskEnv 1 1 (8,)", *(f"{use}: {MESSAGE}" for use in USES), "2", "2"]
CODE = f"""
import functools
import gymnasium
import mtwrappers.metaworld
from gymnasium.error import DependencyNotInstalled
from mtwrappers import *
from mtwrappers.cli import main
make = functools.partial(gymnasium.make, 'CartPole-v1')
env = MultiEnvWrapper([make, make])
obs, info = env.reset(seed=0, options={{'task_state': 1}})
env.step(0)
other, _ = gymnasium.make('mtwrappers/MultiEnv-v0').reset(seed=0)
print(MetaWorldSetTaskEnv.__name__, obs['task_obs'], info['task_id'], other.shape)
for use in {USES!r}:
    try:
        exec(use)
    except DependencyNotInstalled as error:
        print(use, error, sep=': ')
for command in (['list'], ['rollout', 'MT1']):
    try:
        main(command)
    except SystemExit as error:
        print(error.code)
"""


@pytest.mark.parametrize("absent", [FROM_MODULES, FROM_FINDERS], ids=["metaworld", "mujoco-too"])
def test_all_else_works_and_the_environments_and_commands_name_the_extra_to_install(absent):
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", absent + CODE],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.splitlines() == EXPECTED
    # The commands say it in one line.
    assert done.stderr == f"mtwrappers: error: {MESSAGE}\n" * 2
