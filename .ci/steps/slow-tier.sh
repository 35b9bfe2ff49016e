# The slow tier, but for the kills and the types, which have steps. Some of its files are long, so
# processes share them. A part of the seeds of the fuzz, and of the forgeries: all take twenty
# minutes more.
MTWRAPPERS_SEEDS=3 MTWRAPPERS_FORGERIES=6 "$bin/python" -m pytest -m slow -n auto --dist worksteal --durations=20 \
  --ignore=tests/vector/test_kills.py --ignore=tests/test_types.py
