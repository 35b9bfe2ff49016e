# Executors on Ray.
.ci/pytest-ray tests/vector/test_ray.py
