"""Fast classes change nothing for whoever uses bare Meta-World in the same process."""

import json

from tests.fakes import run_python

PLAY = """
import hashlib, json, sys, warnings
import gymnasium, metaworld, mujoco, numpy as np, scipy
import gymnasium.envs.mujoco.mujoco_env
from metaworld.policies import ENV_POLICY_MAP

def play():
    "What bare Meta-World returns, as a digest for each class."
    digests = {}
    for name in ("reach-v3", "push-v3", "drawer-open-v3", "hammer-v3"):
        np.random.seed(0)
        cls = metaworld.ALL_V3_ENVIRONMENTS[name]
        task = metaworld._encode_task(name, {
            "rand_vec": VECTORS[name], "env_cls": cls, "partially_observable": False})
        env, digest = cls(), hashlib.sha256()
        policy = ENV_POLICY_MAP[name]()
        for _ in range(2):
            env.set_task(task)
            obs, info = env.reset()
            for _ in range(25):
                digest.update(obs.tobytes())
                obs, reward, *flags, info = env.step(policy.get_action(obs))
                digest.update(repr((float(reward), flags, sorted(info))).encode())
                digest.update(np.array([float(v) for v in info.values()]).tobytes())
        digests[name] = digest.hexdigest()
    return digests
"""

FAST = """
from mtwrappers.metaworld import fast_class, make_benchmark
made = {name: make_benchmark("MT1", env_name=name, num_goals=1).train_tasks[0]
        for name in ("reach-v3", "push-v3", "drawer-open-v3", "hammer-v3")}
import pickle
VECTORS = {name: pickle.loads(task.data)["rand_vec"] for name, task in made.items()}
def use_fast():
    for name, cls in metaworld.ALL_V3_ENVIRONMENTS.items():
        fast_class(cls)
    for name, task in made.items():
        for version in ("v1", "v2"):
            env = fast_class(name)(reward_function_version=version)
            for _ in range(3):
                env.set_task(task)
                env.reset()
                for _ in range(10):
                    env.step(np.ones(4, np.float32))
            env.model.body_mass[:] *= 2
            env.reset()
            env.close()
"""

WALK = """
PACKAGES = ("metaworld", "gymnasium", "scipy", "numpy", "mujoco", "math")
# What Python and the packages themselves write while they are used.
OWN = ("__warningregistry__", "__abstractmethods__", "_abc_impl", "__annotations__")

def walk():
    "Every attribute of the packages' modules and classes, by its path; objects stay alive."
    found, seen = {}, set()
    def enter(path, space):
        for key, value in list(vars(space).items()):
            if key in OWN:
                continue
            found[path, key] = value
            if isinstance(value, type) and id(value) not in seen:
                if value.__module__.split(".")[0] in PACKAGES:
                    seen.add(id(value))
                    enter(f"{value.__module__}.{value.__qualname__}", value)
    for name, module in sorted(sys.modules.items()):
        if name.split(".")[0] in PACKAGES and module is not None:
            enter(name, module)
    for path in list(found):
        value = found[path]
        # What a function does is in its code, its names and its defaults.
        if hasattr(value, "__code__"):
            found[*path, "code"] = value.__code__
            found[*path, "globals"] = value.__globals__
            found[*path, "closure"] = tuple(
                id(cell.cell_contents) for cell in value.__closure__ or ())
            found[*path, "defaults"] = (value.__defaults__, value.__kwdefaults__)
        if isinstance(value, property):
            found[*path, "code"] = getattr(value.fget, "__code__", None)
    return found

def compare(before, after):
    "The paths that are gone or hold another object."
    def differ(path):
        if path not in after:
            return True
        if path[-1] in ("closure", "defaults"):
            return before[path] != after[path]
        return before[path] is not after[path]
    return [".".join(map(str, path)) for path in before if differ(path)]
"""


# What fast classes change in the packages' modules, and what bare Meta-World returns beside them.
COMPARE = """
play()  # imports and caches what the packages import and cache when they are first used
before = walk()
use_fast()
after = walk()
found = {
    "digests": play(),
    "changed": compare(before, after),
    "added": sorted({p[0] + "." + str(p[1]) for p in after.keys() - before.keys()
                     if p[0] in {q[0] for q in before}}),
    "size": len(before),
}
"""
# Such changes would be found.
PATCH = """
import scipy.spatial.transform, metaworld.utils.reward_utils
before = walk()
np.linalg.norm = lambda x: 0
metaworld.sawyer_xyz_env.SawyerXYZEnv.step = None
metaworld.utils.reward_utils.tolerance.__code__ = (lambda x: 0).__code__
scipy.spatial.transform.Rotation = None
print(json.dumps({**found, "patched": compare(before, walk())}))
"""
PATCHED = {
    "numpy.linalg.norm",
    "metaworld.sawyer_xyz_env.SawyerXYZEnv.step",
    "metaworld.utils.reward_utils.tolerance.code",
    "scipy.spatial.transform.Rotation",
}


def test_bare_meta_world_gives_the_bits_of_a_fresh_process_and_nothing_is_replaced_or_added():
    """The latter of all attributes of the packages' modules and of their classes."""
    code = PLAY + FAST.partition("def use_fast")[0] + "\nprint(json.dumps(play()))"
    fresh, mixed = (
        json.loads(run_python(each)) for each in (code, PLAY + FAST + WALK + COMPARE + PATCH)
    )
    assert len(set(fresh.values())) == 4
    assert mixed["digests"] == fresh
    assert mixed["size"] > 20_000
    assert mixed["changed"] == mixed["added"] == []
    assert set(mixed["patched"]) >= PATCHED
