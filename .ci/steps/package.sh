# The source archive and the wheel that is built from it, as a release publishes them; in an
# environment of their own, without the source tree.
"$bin/python" -m build --outdir "$work/dist" . >/dev/null
"$bin/twine" check --strict "$work"/dist/*
wheel=$(ls "$work"/dist/*.whl)
mkdir "$work/sdist"
tar -x -z -C "$work/sdist" --strip-components 1 -f "$work"/dist/*.tar.gz
python3 -m venv "$work/package"
installed=$work/package/bin

# Meta-World and DeepMind Control ask for one version of mujoco (a dry run), in any order.
for extras in metaworld,dm-control dm-control; do
  "$installed/pip" install -q --dry-run --report "$work/resolved.json" "${wheel}[$extras]"
  python3 -c '
import json, sys
with open(sys.argv[1]) as report:
    packages = [entry["metadata"] for entry in json.load(report)["install"]]
versions = {package["name"].lower(): package["version"] for package in packages}
assert versions["mujoco"] == "3.3.0", versions
print(sys.argv[2], "resolves to mujoco", versions["mujoco"])' "$work/resolved.json" "$extras"
done

"$installed/pip" install -q "${wheel}[metaworld]"
(cd "$work" && "$installed/python" -W error -c '
import gymnasium, mtwrappers
from mtwrappers.evaluation import reference

env = gymnasium.make("mtwrappers/MT10-v0")
obs, info = env.reset(seed=0)
assert obs in env.observation_space and "task_name" in info, info
print("the wheel makes", env.spec.id)
[name] = reference("experts/metaworld-3.1-MT10")
print("the wheel has the result", name)')

# LeRobot goes by the name in the metadata, which must keep its underscores.
"$bin/python" -m build --wheel --outdir "$work/plugin" plugins/lerobot_env_mtwrappers >/dev/null
"$installed/pip" install -q --no-deps --ignore-requires-python "$work"/plugin/*.whl
(cd "$work" && "$installed/python" -W error -c '
import importlib.metadata, importlib.util

names = [package.metadata["Name"] for package in importlib.metadata.distributions()]
assert "lerobot_env_mtwrappers" in names, names
assert importlib.util.find_spec("lerobot_env_mtwrappers") is not None
print("LeRobot finds lerobot_env_mtwrappers")')

# The tests that the source archive has pass with what it installs.
"$installed/pip" uninstall -q -y mtwrappers lerobot_env_mtwrappers
"$installed/pip" install -q "$work/sdist[test]"
(cd "$work/sdist" && "$installed/python" -m pytest -p no:cacheprovider \
  tests/test_package.py tests/test_versions.py tests/common tests/core tests/state tests/wrappers)
