"""Without Meta-World the package works but for its own environments, and says what to install."""

import subprocess
import sys

ABSENT = """
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
    "gymnasium.make('mtwrappers/ML1-test-v0')",
    "gymnasium.make_vec('mtwrappers/CustomMT-v0')",
    "mtwrappers.MetaWorldSetTaskEnv('MT10')",
    "mtwrappers.MetaWorldSetTaskEnv()",
    "mtwrappers.metaworld.make_benchmark('ML10')",
)
CODE = f"""
import gymnasium
import mtwrappers.metaworld
from mtwrappers.cli import main
obs, _ = gymnasium.make('mtwrappers/MultiEnv-v0').reset(seed=0, options={{'task_state': 1}})
print(mtwrappers.MetaWorldSetTaskEnv.__name__, obs.shape)
for use in {USES!r}:
    try:
        exec(use)
    except gymnasium.error.DependencyNotInstalled as error:
        print(use, error, sep=': ')
for command in (['list'], ['rollout', 'MT1']):
    try:
        main(command)
    except SystemExit as error:
        print(error.code)
"""


def test_all_else_works_and_the_environments_and_commands_name_the_extra_to_install():
    command = [sys.executable, "-W", "error", "-c", ABSENT + CODE]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    uses = [f"{use}: {MESSAGE}" for use in USES]
    assert done.stdout.splitlines() == ["MetaWorldSetTaskEnv (8,)", *uses, "2", "2"]
    # The commands say it in one line.
    assert done.stderr == f"mtwrappers: error: {MESSAGE}\n" * 2
