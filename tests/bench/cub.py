"""CUB as a peer of benchmarks, from a library that nvcc builds of `cub.cu` and `--cub` names:

    nvcc -arch=sm_90 -O3 -std=c++17 -shared -Xcompiler -fPIC -cudart static tests/bench/cub.cu -o libcub.so
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any


def launcher(torch: Any, library: str, function: str, source: Any, result: Any) -> Callable[[], Any]:
    """Return what calls a function of the library on two tensors, and returns the result."""
    call = getattr(ctypes.CDLL(library), function)
    pointer, size = ctypes.c_void_p, ctypes.c_size_t
    call.restype = size
    call.argtypes = [pointer, size, pointer, pointer, ctypes.c_uint64, pointer]
    stream = torch.cuda.current_stream().cuda_stream
    arguments = source.data_ptr(), result.data_ptr(), source.numel(), stream
    memory = torch.empty(call(None, 0, *arguments), device="cuda", dtype=torch.uint8)

    def launch() -> Any:
        assert call(memory.data_ptr(), memory.numel(), *arguments), f"CUB's {function} failed"
        return result

    return launch
