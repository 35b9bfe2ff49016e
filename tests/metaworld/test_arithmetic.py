"""How squares are added up: NumPy's way on this machine, and that of other machines."""

import math
import os
import sys
from fractions import Fraction

import numpy as np
import pytest

from mtwrappers.metaworld import arithmetic
from mtwrappers.metaworld.fast import helpers
from tests.fakes import run_python


def test_the_way_of_this_machine_is_known_and_is_that_of_norms():
    total = arithmetic.SUMS[arithmetic.arithmetic()]
    rng = np.random.default_rng(1)
    for n in range(1, arithmetic.MAX_LENGTH + 1):
        for x in rng.normal(size=(50, n)) * 10.0 ** rng.integers(-3, 3):
            assert math.sqrt(total(x)) == np.linalg.norm(x)


def test_the_two_ways_differ_in_last_bits_alone():
    rng = np.random.default_rng(1)
    pairs = [[total(x) for total in arithmetic.SUMS.values()] for x in rng.normal(size=(200, 3))]
    assert 0 < sum(one != other for one, other in pairs) < 100
    np.testing.assert_allclose(*np.transpose(pairs), rtol=1e-15)


def test_a_fused_product_is_rounded_once():
    a, c = 1 + 2.0**-30, -(1 + 2.0**-29)
    assert arithmetic._exactly(a, a, c) == 2.0**-60
    assert a * a + c == 0.0
    rng = np.random.default_rng(2)
    for a, b, c in rng.normal(size=(100, 3)).tolist():
        assert arithmetic._fma(a, b, c) == float(Fraction(a) * Fraction(b) + Fraction(c))
    assert math.isnan(arithmetic._exactly(math.nan, 1.0, 1.0))
    assert arithmetic._exactly(math.inf, 1.0, 1.0) == math.inf


def test_norms_of_fast_classes_take_the_way_that_is_set(monkeypatch):
    monkeypatch.setattr(helpers, "_sum", lambda x: 16.0)
    assert helpers.norm(np.ones(3)) == 4.0
    assert helpers.norm(np.ones(100)) == 10.0


@pytest.mark.skipif(sys.platform != "linux", reason="which kernels there are depends on the wheel")
def test_kernels_without_fused_sums_are_plain(monkeypatch):
    if os.uname().machine != "x86_64":
        pytest.skip("other kernels")
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Nehalem")
    code = "from mtwrappers.metaworld.arithmetic import arithmetic; print(arithmetic())"
    assert run_python(code) == "plain"
