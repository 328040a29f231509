"""Replacements of parts of `torch.cuda`, by which programs choose a device, wait for it and measure time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import FunctionType, SimpleNamespace
from typing import Any
from unittest import mock

import torch

from ..target import Target
from .torch_memory import is_cuda

_GIB = 1 << 30
#: compute capability -> number of multiprocessors of a product that has it, and that product's name
#: source: the NVIDIA architecture white papers
_PRODUCTS = {
    75: (40, "T4"), 80: (108, "A100"), 86: (84, "A40"), 87: (16, "Orin"), 89: (142, "L40S"), 90: (132, "H100"),
    100: (148, "B200"), 103: (160, "B300"), 110: (20, "Thor"), 120: (188, "RTX PRO 6000"), 121: (48, "GB10"),
}


class Stream:
    """A stream. A launch on the simulator is complete when it returns, so that each stream is idle."""

    cuda_stream = 0
    device_index = 0
    priority = 0

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.device = torch.device("cuda", 0)
        self._entered: list[Any] = []

    def query(self) -> bool:
        return True

    def synchronize(self) -> None:
        pass

    def wait_event(self, event: Any) -> None:
        pass

    def wait_stream(self, stream: Any) -> None:
        pass

    def record_event(self, event: Event | None = None) -> Event:
        event = Event() if event is None else event
        event.record(self)
        return event

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class Event:
    """An event whose times are the number of thread instructions that launches had executed when it was recorded."""

    #: returns the number of instructions
    clock: Callable[[], float] = staticmethod(lambda: 0.0)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.time = 0.0

    def record(self, stream: Any = None) -> None:
        self.time = type(self).clock()

    def elapsed_time(self, end: Event) -> float:
        return end.time - self.time

    def query(self) -> bool:
        return True

    def synchronize(self) -> None:
        pass

    def wait(self, stream: Any = None) -> None:
        pass


class _DeviceContext:
    """A context manager that selects a device, of which there is one."""

    def __init__(self, device: Any = None) -> None:
        self.idx = 0

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass


class _Generator(torch.Generator):
    """A generator of the CPU that answers as one of the GPU."""

    def __new__(cls, device: Any = "cpu") -> Any:
        made = super().__new__(cls, device="cpu")
        made._is_on_gpu = is_cuda(device)
        return made

    def __init__(self, device: Any = "cpu") -> None:
        pass

    @property
    def device(self) -> torch.device:
        return torch.device("cuda", 0) if self._is_on_gpu else torch.device("cpu")


_AUTOCAST: Any = torch.autocast


class _Autocast(_AUTOCAST):
    """Autocast that applies to CPU tensors if it is asked for on CUDA; the operators are those of the CPU's lists."""

    def __init__(self, device_type: str, dtype: Any = None, enabled: bool = True, cache_enabled: Any = None) -> None:
        super().__init__(device_type, dtype, enabled, cache_enabled)
        dtype = dtype or torch.get_autocast_dtype(device_type)
        self._on_cpu = _AUTOCAST("cpu", dtype, enabled, cache_enabled) if device_type == "cuda" else None

    def __enter__(self) -> Any:
        if self._on_cpu is not None:
            self._on_cpu.__enter__()
        return super().__enter__()

    def __exit__(self, *raised: Any) -> Any:
        result = super().__exit__(*raised)
        if self._on_cpu is not None:
            self._on_cpu.__exit__(*raised)
        return result


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


def _nothing(*args: Any, **kwargs: Any) -> None:
    pass


@contextmanager
def cuda_is_there(target: Target, clock: Callable[[], float]) -> Iterator[None]:
    """Let `torch.cuda` answer as on a machine with one GPU. clock: the time that events record."""
    described = properties(target)
    capability = (described.major, described.minor)
    stream = Stream()
    counting = type("Event", (Event,), {"clock": staticmethod(clock)})
    zero: Callable[..., int] = lambda *_, **__: 0  # noqa: E731
    seeding = torch.manual_seed
    answers: dict[str, Any] = {
        "is_available": lambda: True, "is_initialized": lambda: True, "init": _nothing, "_lazy_init": _nothing,
        "device_count": lambda: 1, "current_device": lambda: 0, "set_device": _nothing,
        "device": _DeviceContext, "device_of": _DeviceContext, "_DeviceGuard": _DeviceContext,
        "get_device_properties": lambda *_: described, "get_device_name": lambda *_: described.name,
        "get_device_capability": lambda *_: capability, "get_arch_list": lambda: [f"sm_{target.number}"],
        "is_bf16_supported": lambda *_, **__: target.number >= 80, "is_tf32_supported": lambda: target.number >= 80,
        "can_device_access_peer": lambda *_: False, "synchronize": _nothing, "Stream": Stream, "Event": counting,
        "ExternalStream": Stream, "StreamContext": lambda s: s, "stream": lambda s: s or stream,
        "current_stream": lambda *_: stream, "default_stream": lambda *_: stream, "set_stream": _nothing,
        "is_current_stream_capturing": lambda: False, "empty_cache": _nothing, "ipc_collect": _nothing,
        "memory_allocated": zero, "max_memory_allocated": zero, "memory_reserved": zero, "max_memory_reserved": zero,
        "reset_peak_memory_stats": _nothing, "reset_max_memory_allocated": _nothing, "memory_stats": lambda *_: {},
        "mem_get_info": lambda *_: (described.total_memory, described.total_memory),
        # `torch.manual_seed` calls the second, and has seeded the generator
        "manual_seed": lambda seed: (seeding(seed), None)[1], "manual_seed_all": _nothing, "seed": _nothing,
        "seed_all": _nothing, "initial_seed": lambda: torch.initial_seed(),
        "get_rng_state": lambda *_: torch.get_rng_state(), "set_rng_state": lambda s, *_: torch.set_rng_state(s),
        "get_rng_state_all": lambda: [torch.get_rng_state()],
        "set_rng_state_all": lambda states: torch.set_rng_state(states[0]),
    }
    device = torch.device("cuda", 0)
    accelerator: dict[str, Any] = {
        "is_available": lambda: True, "device_count": lambda: 1, "current_accelerator": lambda *_, **__: device,
        "current_device_index": lambda: 0, "current_device_idx": lambda: 0, "set_device_index": _nothing,
        "set_device_idx": _nothing, "synchronize": _nothing, "current_stream": lambda *_: stream,
        "set_stream": _nothing, "empty_cache": _nothing,
    }
    with (
        mock.patch.multiple(torch.cuda, **_present(torch.cuda, answers)),
        mock.patch.multiple(torch.accelerator, **_present(torch.accelerator, accelerator)),
        mock.patch.object(torch, "Generator", _Generator),
        # torch checks the type of its argument before it asks the modes
        mock.patch.object(torch.Tensor, "record_stream", lambda tensor, stream: None),
        mock.patch.object(torch, "compile", _uncompiled),
        mock.patch.object(torch, "autocast", _Autocast),
        mock.patch.object(torch.amp, "autocast", _Autocast),
        mock.patch.object(torch.amp.autocast_mode, "autocast", _Autocast),
        mock.patch.object(torch.version, "cuda", "13.0"),
    ):
        yield


def _present(module: Any, answers: dict[str, Any]) -> dict[str, Any]:
    """Return the answers whose names a module has; each function is an object of its own, as torch._dynamo requires."""
    return {
        name: partial(value) if isinstance(value, FunctionType) else value
        for name, value in answers.items()
        if hasattr(module, name)
    }


def _uncompiled(model: Any = None, **kwargs: Any) -> Any:
    """Return a function as it is: a compiled one would not see the replacements."""
    return (lambda f: f) if model is None else model
