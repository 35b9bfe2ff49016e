# A sample of the episodes of the reference results, replayed.
"$bin/python" -m benchmarks.reference --verify --sample 0.01
