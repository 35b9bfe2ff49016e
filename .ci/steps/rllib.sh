# RLlib.
.ci/pytest-ray tests/integrations/test_rllib.py
