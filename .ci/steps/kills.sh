# Killed workers change nothing.
MTWRAPPERS_KILLS=4 "$bin/python" -m pytest --all -p no:cacheprovider -n auto tests/vector/test_kills.py
"$bin/python" -m benchmarks.soak --steps 6000
