# The README's command for the tests, as it stands there: the fast tier.
export PYTEST_ADDOPTS=--durations=20
bash -euo pipefail -c "$(.ci/readme 'tests')"
