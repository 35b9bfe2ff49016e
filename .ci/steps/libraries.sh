# Stable-Baselines3, TorchRL, Minari, vla-eval and Gymnasium-Robotics. Of docstrings, those that need
# one of these.
examples=tests/test_docstrings.py::test_each_example_runs_in_an_empty_namespace
"$bin/python" -m pytest -p no:cacheprovider -n auto --dist loadfile tests/integrations tests/adapters \
  tests/export "${examples}[mtwrappers.adapters.sb3]" \
  "${examples}[mtwrappers.adapters.torchrl]"
