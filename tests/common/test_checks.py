import numpy as np
import pytest

from mtwrappers.common.checks import check_flag


@pytest.mark.parametrize("value", [True, False, np.True_, np.False_])
def test_a_flag_is_a_bool(value):
    assert check_flag(value, "log") is bool(value)


@pytest.mark.parametrize("value", ["no", "false", "", 0, 1, None, np.ones(1, bool), [True], 0.0])
def test_what_would_count_as_true_or_false_is_no_flag(value):
    with pytest.raises(TypeError, match=r"^log must be True or False, got "):
        check_flag(value, "log")
