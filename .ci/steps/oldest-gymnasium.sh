# The oldest supported Gymnasium, in the environment of `package`.
"$work/package/bin/pip" install -q 'gymnasium==1.2.2'
"$work/package/bin/python" -m pytest -p no:cacheprovider -n auto --dist loadfile \
  tests/wrappers tests/testing tests/adapters \
  tests/metaworld/test_make.py tests/vector/test_contract.py \
  tests/integrations/test_gymnasium.py \
  tests/integrations/test_mixed_envs.py tests/integrations/test_metaworld_tools.py
