"""Tests of other packages that fail on the simulator, and why."""

#: test -> the reason
FAILING = {
    "fla/test_fla_recurrent.py::test_hgrn[chunk]":
        "a true race of fla-core 0.6.0, ops/hgrn/chunk.py: line 223 stores rows of dx, and in the next iteration line "
        "214 loads one of them in other threads, with no barrier between",
}
