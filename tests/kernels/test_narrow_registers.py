"""Elements that share a 32-bit register, where only some of them are ever written."""

from __future__ import annotations

import numpy as np

from tests.kernels.test_property_elementwise import Computation
from tests.support.operands import Operand
from tilejit.runtime import devices


def test_a_loop_that_writes_one_of_two_bytes_computes_with_no_register_that_nothing_wrote(monkeypatch):
    monkeypatch.setattr("tests.kernels.test_property_elementwise.event", lambda *_: None)
    data = {
        "scope": "global", "dtype": "bool_", "shape": [3, 1], "region": [(0, 3), (-1, 2)], "strides": [1, 4],
        "unit_dim": 0, "align": 2, "extent_align": 1, "origin": 0, "storage": 3,
    }
    destination = Operand("dst", data, 1)
    held = {"dst": np.zeros(3, np.uint8)}
    Computation("bitwise_not", "thread", destination, [np.True_], held).run(devices.named("sim"), "sm_75")
