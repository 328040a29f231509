"""Replacements of parts of `torch.cuda`, by which programs choose a device, wait for it and measure time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch

from ..target import Target
from .torch_memory import GPU, is_cuda

_GIB = 1 << 30
#: compute capability -> number of multiprocessors of a product that has it, and that product's name
#: source: the NVIDIA architecture white papers
_PRODUCTS = {
    75: (40, "T4"), 80: (108, "A100"), 86: (84, "A40"), 87: (16, "Orin"), 89: (142, "L40S"), 90: (132, "H100"),
    100: (148, "B200"), 103: (160, "B300"), 110: (20, "Thor"), 120: (188, "RTX PRO 6000"), 121: (48, "GB10"),
}
#: answers of functions in torch.cuda and torch.accelerator that are the same for all arguments
_ANSWERS: dict[str, Any] = {
    "is_available": True, "is_initialized": True, "device_count": 1, "current_device": 0, "current_device_index": 0,
    "current_device_idx": 0, "current_accelerator": GPU, "can_device_access_peer": False,
    "is_current_stream_capturing": False, "memory_allocated": 0, "max_memory_allocated": 0, "memory_reserved": 0,
    "max_memory_reserved": 0,
    **dict.fromkeys((
        "init", "_lazy_init", "set_device", "set_device_index", "set_device_idx", "synchronize", "set_stream",
        "empty_cache", "ipc_collect", "reset_peak_memory_stats", "reset_max_memory_allocated", "seed", "seed_all",
        # `torch.manual_seed` calls it, and has seeded the generator
        "manual_seed_all",
    )),
}


def _nothing(*args: Any, **kwargs: Any) -> None:
    pass


class _Idle:
    """A stream or an event. A launch on the simulator is complete when it returns, so that there is no work to await.
    """

    synchronize = wait = wait_event = wait_stream = _nothing

    def query(self) -> bool:
        return True


class Stream(_Idle):
    """A stream, which is always idle."""

    cuda_stream = device_index = priority = 0
    device = GPU
    __exit__ = _nothing

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def record_event(self, event: Event | None = None) -> Event:
        event = Event() if event is None else event
        event.record(self)
        return event

    def __enter__(self) -> Stream:
        return self


class Event(_Idle):
    """An event whose time is the result of `clock` when it was recorded."""

    clock: Callable[[], float] = staticmethod(lambda: 0.0)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.time = 0.0

    def record(self, stream: Any = None) -> None:
        self.time = self.clock()

    def elapsed_time(self, end: Event) -> float:
        return end.time - self.time


class _Generator(torch.Generator):
    """A generator of the CPU that answers as one of the GPU."""

    def __new__(cls, device: Any = "cpu") -> Any:
        made = super().__new__(cls, device="cpu")
        made.answer = GPU if is_cuda(device) else torch.device("cpu")
        return made

    def __init__(self, device: Any = "cpu") -> None:
        pass

    device = property(lambda self: self.answer)


def _autocast() -> dict[str, Any]:
    """Return methods of autocast by which one for CUDA applies to CPU tensors, with the CPU's lists of operators."""
    enter, leave = torch.autocast.__enter__, torch.autocast.__exit__

    def entered(autocast: Any) -> Any:
        if autocast.device == "cuda":
            autocast.on_cpu = torch.autocast("cpu", autocast.fast_dtype, autocast._enabled, autocast._cache_enabled)
            enter(autocast.on_cpu)
        return enter(autocast)

    def left(autocast: Any, *raised: Any) -> Any:
        result = leave(autocast, *raised)
        if autocast.device == "cuda":
            leave(autocast.on_cpu, *raised)
        return result

    return {"__enter__": entered, "__exit__": left}


def properties(target: Target) -> SimpleNamespace:
    """Return what `torch.cuda.get_device_properties` says of a GPU."""
    count, name = _PRODUCTS[target.number]
    unit = target.multiprocessor
    return SimpleNamespace(
        name=f"NVIDIA {name} (simulated)", major=target.number // 10, minor=target.number % 10,
        total_memory=80 * _GIB, multi_processor_count=count, warp_size=32,
        max_threads_per_multi_processor=32 * unit.warps, max_threads_per_block=1024, regs_per_multiprocessor=1 << 16,
        shared_memory_per_block=48 << 10, shared_memory_per_block_optin=target.shared_bytes,
        shared_memory_per_multiprocessor=unit.shared_bytes, L2_cache_size=50 << 20, is_integrated=0,
        is_multi_gpu_board=0, clock_rate=1_000_000, memory_clock_rate=1_000_000, memory_bus_width=5120,
        gcnArchName="", uuid="",
    )


@contextmanager
def cuda_is_there(target: Target, clock: Callable[[], float]) -> Iterator[None]:
    """Let `torch.cuda` answer as on a machine with one GPU. clock: the time that events record."""
    described = properties(target)
    stream = Stream()
    functions: dict[str, Any] = {
        **{name: partial(_constant, answer) for name, answer in _ANSWERS.items()},
        "get_device_properties": lambda *_: described, "get_device_name": lambda *_: described.name,
        "get_device_capability": lambda *_: (described.major, described.minor),
        "get_arch_list": lambda: [f"sm_{target.number}"], "is_bf16_supported": lambda *_, **__: target.number >= 80,
        "is_tf32_supported": lambda: target.number >= 80,
        "mem_get_info": lambda *_: (described.total_memory, described.total_memory), "memory_stats": lambda *_: {},
        "current_stream": lambda *_: stream, "default_stream": lambda *_: stream,
        "manual_seed": lambda seed: torch.manual_seed(seed), "initial_seed": lambda: torch.initial_seed(),
        "get_rng_state": lambda *_: torch.get_rng_state(), "set_rng_state": lambda s, *_: torch.set_rng_state(s),
        "get_rng_state_all": lambda: [torch.get_rng_state()],
        "set_rng_state_all": lambda states: torch.set_rng_state(states[0]),
        "Stream": Stream, "ExternalStream": Stream, "Event": Event,
        **dict.fromkeys(("device", "device_of", "_DeviceGuard", "stream", "StreamContext"), nullcontext),
    }
    with (
        mock.patch.multiple(torch.cuda, **_present(torch.cuda, functions)),
        mock.patch.multiple(torch.accelerator, **_present(torch.accelerator, functions)),
        mock.patch.object(Event, "clock", staticmethod(clock)),
        mock.patch.object(torch, "Generator", _Generator),
        # torch checks the type of its argument before it asks the modes
        mock.patch.object(torch.Tensor, "record_stream", lambda tensor, stream: None),
        mock.patch.object(torch, "compile", _uncompiled),
        mock.patch.multiple(torch.autocast, **_autocast()),
        mock.patch.object(torch.version, "cuda", "13.0"),
    ):
        yield


def _constant(answer: Any, *args: Any, **kwargs: Any) -> Any:
    return answer


def _present(module: Any, functions: dict[str, Any]) -> dict[str, Any]:
    """Return the functions whose names a module has."""
    return {name: function for name, function in functions.items() if hasattr(module, name)}


def _uncompiled(model: Any = None, **kwargs: Any) -> Any:
    """Return a function as it is: a compiled one would not see the replacements."""
    return (lambda f: f) if model is None else model
