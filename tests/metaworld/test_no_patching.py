"""Fast classes change nothing for whoever uses bare Meta-World in the same process."""

import json

import pytest

from tests.fakes import run_python

CODE = """
import hashlib, json, sys
import metaworld, numpy as np
from metaworld.policies import ENV_POLICY_MAP
from mtwrappers.metaworld import fast_class, make_benchmark
NAMES = ("reach-v3", "push-v3", "drawer-open-v3", "hammer-v3")
TASKS = {n: make_benchmark("MT1", env_name=n, num_goals=1).train_tasks[0] for n in NAMES}

def run_all():
    "What bare Meta-World returns, as a digest for each class."
    digests = {}
    for name, task in TASKS.items():
        env, policy = metaworld.ALL_V3_ENVIRONMENTS[name](), ENV_POLICY_MAP[name]()
        digest = hashlib.sha256()
        env.set_task(task)
        for _ in range(2):
            obs, info = env.reset()
            for _ in range(25):
                obs, reward, *flags, info = env.step(policy.get_action(obs))
                digest.update(obs.tobytes())
                digest.update(np.array([reward, *flags, *info.values()], float).tobytes())
        digests[name] = digest.hexdigest()
    return digests

def use_fast():
    for name in metaworld.ALL_V3_ENVIRONMENTS:
        fast_class(name)
    for name, task in TASKS.items():
        for version in ("v1", "v2"):
            env = fast_class(name)(reward_function_version=version)
            env.set_task(task)
            for _ in range(3):
                env.reset()
                for _ in range(5):
                    env.step(np.ones(4, np.float32))
                env.model.body_mass[:] *= 2

PACKAGES = ("metaworld", "gymnasium", "scipy", "numpy", "mujoco", "math")
# What Python and the packages themselves write while they are used.
OWN = ("__warningregistry__", "__abstractmethods__", "_abc_impl", "__annotations__")

def walk():
    "Every attribute of the packages' modules and classes, and the code of functions, by its path."
    found, spaces = {}, {}
    for name in modules:
        spaces[name] = sys.modules[name]
        for value in vars(sys.modules[name]).values():
            if isinstance(value, type) and value.__module__.split(".")[0] in PACKAGES:
                spaces[f"{value.__module__}.{value.__qualname__}"] = value
    for path, space in spaces.items():
        for key, value in vars(space).items():
            if key not in OWN:
                function = value.fget if isinstance(value, property) else value
                now = value, *(getattr(function, n, None) for n in ("__code__", "__defaults__"))
                kept.append(now)  # so that no id is used again
                found[f"{path}.{key}"] = [*map(id, now)]
    return found

def changed(before, after):
    return [path for path in before.keys() | after if before.get(path) != after.get(path)]

kept = []
first = run_all()  # imports and caches what the packages import and cache when they are first used
import scipy.spatial.transform, metaworld.utils.reward_utils
modules = sorted(name for name in sys.modules if name.split(".")[0] in PACKAGES)
before = walk()
use_fast()
found = {"changed": changed(before, walk()), "size": len(before), "episodes": [first, run_all()]}
# Such changes would be found.
before = walk()
np.linalg.norm = lambda x: 0
metaworld.sawyer_xyz_env.SawyerXYZEnv.step = None
metaworld.utils.reward_utils.tolerance.__code__ = (lambda x: 0).__code__
print(json.dumps({**found, "patched": changed(before, walk())}))
"""
PATCHED = {
    "numpy.linalg.norm",
    "metaworld.sawyer_xyz_env.SawyerXYZEnv.step",
    "metaworld.utils.reward_utils.tolerance",
}


@pytest.mark.slow
def test_bare_meta_world_keeps_its_bits_and_nothing_in_its_packages_is_replaced_or_added():
    found = json.loads(run_python(CODE))
    before, after = found["episodes"]
    assert len(set(before.values())) == 4
    assert after == before
    assert found["size"] > 20_000
    assert found["changed"] == []
    assert set(found["patched"]) >= PATCHED
