"""The GPU, for tests that compare the simulator with one."""

import numpy as np
import pytest


def ok(result):
    """The values of a driver call's result; an error is an assertion."""
    assert result[0].value == 0, result[0]
    return result[1] if len(result) == 2 else result[1:]


@pytest.fixture(scope="module")
def gpu():
    """A function that runs a kernel text on the GPU over host arrays, in place."""
    from cuda.bindings import driver

    ok(driver.cuInit(0))
    device = ok(driver.cuDeviceGet(0))
    context = ok(driver.cuDevicePrimaryCtxRetain(device))
    ok(driver.cuCtxSetCurrent(context))

    def run(text, arrays, grid, block):
        module = ok(driver.cuModuleLoadData(text.encode() + b"\0"))
        function = ok(driver.cuModuleGetFunction(module, b"k"))
        places = [ok(driver.cuMemAlloc(max(x.nbytes, 1))) for x in arrays]
        for place, x in zip(places, arrays, strict=True):
            ok(driver.cuMemcpyHtoD(place, x.ctypes.data, x.nbytes))
        values = [np.array([int(p)], np.uint64) for p in places]
        table = np.array([v.ctypes.data for v in values], np.uint64)
        ok(driver.cuLaunchKernel(function, grid, 1, 1, block, 1, 1, 0, 0, table.ctypes.data, 0))
        ok(driver.cuCtxSynchronize())
        for place, x in zip(places, arrays, strict=True):
            ok(driver.cuMemcpyDtoH(x.ctypes.data, place, x.nbytes))
            ok(driver.cuMemFree(place))
        ok(driver.cuModuleUnload(module))

    yield run
    driver.cuDevicePrimaryCtxRelease(device)
