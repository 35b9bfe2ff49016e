# Killed workers change nothing.
MTWRAPPERS_KILLS=6 "$bin/python" -m pytest --all -p no:cacheprovider -n auto tests/vector/test_kills.py
"$bin/python" -m benchmarks.soak --steps 10000
