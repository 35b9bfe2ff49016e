# skrl, Tianshou and PufferLib.
examples=tests/test_docstrings.py::test_each_example_runs_in_an_empty_namespace
"$bin/python" -m pytest --all -p no:cacheprovider -n auto --dist loadfile \
  tests/integrations/test_skrl.py tests/integrations/test_tianshou.py \
  tests/integrations/test_pufferlib.py "${examples}[mtwrappers.adapters.skrl]" \
  "${examples}[mtwrappers.adapters.tianshou]" "${examples}[mtwrappers.adapters.pufferlib]"
