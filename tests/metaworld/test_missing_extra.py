"""Without Meta-World the package works but for its own environments, and says what to install."""

import subprocess
import sys

from tests.cli.fakes import SHIPPED

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
obs, _ = gymnasium.make('mtwrappers/MultiEnv-v0').reset(seed=0, options={{'task_state': 1}})
print(mtwrappers.MetaWorldSetTaskEnv.__name__, obs.shape)
for use in {USES!r}:
    try:
        exec(use)
    except gymnasium.error.DependencyNotInstalled as error:
        print(use, error, sep=': ')
"""


def run_without_metaworld(code):
    command = [sys.executable, "-W", "error", "-c", ABSENT + code]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_all_else_works_and_the_environments_name_the_extra_to_install():
    done = run_without_metaworld(CODE)
    uses = [f"{use}: {MESSAGE}" for use in USES]
    assert done.stdout.splitlines() == ["MetaWorldSetTaskEnv (8,)", *uses]
    assert done.stderr == ""


def test_list_shows_the_ids_of_extras_that_are_not_installed_without_their_sizes():
    done = run_without_metaworld("from mtwrappers.cli import main; main(['list'])")
    lines = done.stdout.splitlines()
    assert "with pip install '.[metaworld]', which is not installed" in lines
    assert "with pip install '.[mujoco]', which is not installed" in lines
    assert "without an extra" in lines
    assert {"mtwrappers/MT10-v0", "mtwrappers/AntDir-v0"} <= {*lines}
    assert [line.split()[1:3] for line in lines if "MultiEnv" in line] == [["2", "-"]]


UNKNOWN = "unknown benchmark 'Slider-v0'; choose from MT1, MT10, "
METAWORLD = str(SHIPPED / "random/metaworld-3.1-MT10")
COMMANDS = {
    "verify own": "cannot verify own: it does not say how to make its environments",
    "verify nope": "cannot read nope: No such file or directory",
    "verify text": "cannot verify text: expected an evaluation in JSON",
    f"verify {METAWORLD}": MESSAGE,
    "rollout Slider-v0": UNKNOWN,
    "rollout MT1O": "unknown benchmark 'MT1O'; did you mean 'MT1' or 'MT10'?",
    "rollout MT1": MESSAGE,
}
RUN_COMMANDS = """
import gymnasium, mtwrappers, os
from mtwrappers.cli import main
os.chdir({folder!r})
envs = mtwrappers.as_vector(2 * [lambda: gymnasium.wrappers.TimeLimit(
    mtwrappers.PointGoalEnv(), 2)])
envs.set_tasks(mtwrappers.PointGoalEnv().sample_tasks(2))
result = mtwrappers.evaluate(lambda obs: obs, envs, episodes_per_task=1, evidence='own.npz')
result.save('own')
for command in {commands!r}:
    try:
        main([*command.split()])
    except SystemExit as error:
        assert error.code == 2
"""


def test_commands_read_their_arguments_before_they_need_it(tmp_path):
    """Each says in one line what is wrong."""
    (tmp_path / "text").write_text("text")
    done = run_without_metaworld(RUN_COMMANDS.format(folder=str(tmp_path), commands=[*COMMANDS]))
    lines = done.stderr.splitlines()
    for line, message in zip(lines, COMMANDS.values(), strict=True):
        assert line.startswith(f"mtwrappers: error: {message}")
    [unknown] = [line for line in lines if UNKNOWN in line]
    assert unknown.endswith("use mtwrappers.evaluate (docs/guides/own-environments.md)")
