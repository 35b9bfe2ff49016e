"""Fast classes change nothing for whoever uses bare Meta-World in the same process."""

import json

from tests.fakes import run_python

CODE = """
import hashlib, json
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

def contents():
    "What the modules and the classes of Meta-World consist of, and what NumPy computes with."
    import metaworld.sawyer_xyz_env as base, metaworld.utils.reward_utils as rewards
    spaces = [np.linalg, rewards, base, base.SawyerXYZEnv, *metaworld.ALL_V3_ENVIRONMENTS.values()]
    return [{k: v for k, v in vars(space).items() if k != "_abc_impl"} for space in spaces]

first, before = run_all(), contents()
for name in metaworld.ALL_V3_ENVIRONMENTS:
    fast_class(name)
for name, task in TASKS.items():
    env = fast_class(name)()
    env.set_task(task)
    for _ in range(3):
        env.reset()
        for _ in range(5):
            env.step(np.ones(4, np.float32))
        env.model.body_mass[:] *= 2
print(json.dumps([first, run_all(), before == contents()]))
"""


def test_bare_meta_world_keeps_its_bits_and_nothing_of_it_is_replaced():
    before, after, same = json.loads(run_python(CODE))
    assert len(set(before.values())) == 4
    assert after == before
    assert same
