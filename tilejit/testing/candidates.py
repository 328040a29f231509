"""How candidates run: kernels of tilejit on arrays of NumPy, and CUDA C++. Triton's are in `tilejit.sanitize`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol

import numpy as np

from ..dataclass import dataclass, field
from ..runtime.device import Watch, watching
from ..runtime.devices import use_device
from ..sanitize.for_cuda import compile_cuda, declared_parameters
from ..simulator import Device, DeviceArray, Finding
from .bans import Ban, JudgedArray, fill, judged, plain

Array = np.ndarray[Any, Any]


class Ran(NamedTuple):
    """The results of a call of a candidate, and the findings of its launches on the simulator."""

    results: Any
    findings: list[Finding]
    launches: int


class PreparedCandidate:
    """A candidate that `prepare` constructs, which is called in the context of the runner, before each call."""

    def prepare(self) -> None:
        raise NotImplementedError

    def __call__(self, *args: Any) -> Any:
        raise NotImplementedError


class Runner(Protocol):
    """Runs candidates on arrays of one library."""

    def session(self) -> Any:
        """Return the context in which all calls run."""

    def array(self, room: Array, view: Callable[[Any], Any]) -> Any:
        """Return an array of the library: `view` of a new copy of `room`."""

    def write(self, array: Any, values: Array) -> None: ...

    def read(self, array: Any) -> Array:
        """Return a copy of an array."""

    def poison(self, array: Any) -> None: ...

    def is_array(self, value: Any) -> bool: ...

    def address(self, array: Any) -> int: ...

    def run(self, candidate: Callable[..., Any], args: Sequence[Any], ban: Ban, schedule: int) -> Ran: ...


class NumpyRunner:
    """Runs functions that launch kernels of tilejit on arrays of NumPy."""

    def __init__(self, device: str) -> None:
        self.device = device

    @contextmanager
    def session(self) -> Iterator[None]:
        with use_device(self.device):
            yield

    def array(self, room: Array, view: Callable[[Any], Any]) -> Array:
        made: Array = view(judged(room))
        return made

    def write(self, array: Array, values: Array) -> None:
        plain(array)[...] = values

    def read(self, array: Any) -> Array:
        return np.array(np.asarray(array), order="C")

    def poison(self, array: Any) -> None:
        if isinstance(array, np.ndarray) and array.flags.writeable:
            fill(array)

    def address(self, array: Any) -> int:
        return int(np.asarray(array).__array_interface__["data"][0])

    def is_array(self, value: Any) -> bool:
        return isinstance(value, (np.ndarray, np.generic)) or hasattr(value, "__array_interface__")

    def run(self, candidate: Callable[..., Any], args: Sequence[Any], ban: Ban, schedule: int) -> Ran:
        watch = Watch(schedule)
        token = watching.set(watch)
        for x in args:
            while isinstance(x, JudgedArray):
                x.ban, x = ban, x.base
        try:
            with ban.active():
                results = candidate(*args)
        finally:
            watching.reset(token)
        return Ran(results, [f for report in watch.reports for f in report.findings], len(watch.reports))


class CudaLaunch(NamedTuple):
    """How a kernel is launched. args: arrays of the call and NumPy scalars, one for each parameter."""

    grid: tuple[int, ...]
    block: tuple[int, ...]
    args: tuple[Any, ...]
    shared_bytes: int = 0


@dataclass(slots=True)
class CudaCandidate:
    """A kernel of CUDA C++ that `judge` compiles by NVRTC; it writes to outputs.

    source: CUDA C++. kernel: the name of a kernel of it, also an instantiation such as `reduce<float, 4>`.
    launch: returns the launch for the inputs and outputs of a call, with which arguments it was called.
    arch: the architecture to compile for.

    ```python
    def launch(x, out):
        return CudaLaunch((-(-x.size // 128),), (128,), (x, out, np.int32(x.size)))

    judge(CudaCandidate(source, "relu", launch), lambda x: np.maximum(x, 0), draw, outputs="written")
    ```
    """

    source: str
    kernel: str
    launch: Callable[..., CudaLaunch]
    arch: str = "sm_90"
    compiled: list[tuple[str, str]] = field(default_factory=list, repr=False)

    def ptx(self) -> tuple[str, str]:
        """Return the kernel's PTX and its name there. raises: CudaSourceError if the source is rejected."""
        if not self.compiled:
            ptx, (name,) = compile_cuda(self.source, "candidate.cu", self.arch, [self.kernel])
            self.compiled.append((ptx, name))
        return self.compiled[0]


class CudaRunner(NumpyRunner):
    """Runs kernels of CUDA C++."""

    def __init__(self) -> None:
        super().__init__("sim")

    def run(self, candidate: Callable[..., Any], args: Sequence[Any], ban: Ban, schedule: int) -> Ran:
        assert isinstance(candidate, CudaCandidate)
        ptx, entry = candidate.ptx()
        with ban.active():
            data = candidate.launch(*args)
        device = Device()
        module = device.load(ptx)
        names = [x.name for x in declared_parameters(candidate.source, candidate.kernel, len(data.args))]
        placed: dict[int, tuple[DeviceArray, Array]] = {}
        values = []
        for index, value in enumerate(data.args):
            if isinstance(value, np.ndarray):
                name = names[index] if names else f"argument {index}"
                is_output = isinstance(value, JudgedArray) and value.is_output
                if id(value) not in placed:
                    copy = np.array(plain(value), order="C")
                    placed[id(value)] = device.place(copy, initialized=not is_output, name=name), value
                value = placed[id(value)][0]
            values.append(value)
        report = module.launch(
            entry, data.grid, data.block, values, shared_bytes=data.shared_bytes, on_finding="collect",
            schedule=schedule, write=lambda text: None,
        )
        for array, original in placed.values():
            plain(original)[...] = array.array
        return Ran(None, list(report.findings), 1)
