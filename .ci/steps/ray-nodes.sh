# A cluster of several nodes on this machine, some of which are lost.
.ci/pytest-ray tests/vector/test_ray_nodes.py
