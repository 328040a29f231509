"""Array arguments of a launch, regardless of the library that owns them, and arrays in device memory.

An array is represented by a pointer and its `ArrayFacts`, which are cached by dtype, shape, strides and device. NumPy
functions receive a copy of a `DeviceArray` in host memory. For common attributes of NumPy, CuPy and torch arrays that a
`DeviceArray` lacks, the AttributeError names the replacement.
"""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TypeAlias

import numpy as np

from ..dataclass import dataclass
from ..dtypes import DTYPES, DType, from_numpy
from ..errors import LaunchError
from ..html_tables import box, facts_table, text_box
from ..wording import with_article

if TYPE_CHECKING:
    from .cuda_memory import CudaMemory
    from .simulated import SimulatedMemory

#: the memory of a `DeviceArray`
DeviceMemory: TypeAlias = "CudaMemory | SimulatedMemory"

#: the device number of arrays in the simulator's memory; CUDA devices are 0, 1, …; None is host memory
SIMULATOR = -1

#: the size in bytes above which a notebook omits an array's values, and the number of values above which it shows some
_SHOWN_BYTES = 1 << 20
_SHOWN_VALUES = 64

#: the largest alignment, in bytes, that a signature states
MAX_ALIGN = 32


def device_name(number: int | None) -> str:
    """Return the name of the device with this number, such as `cuda:0`; `sim`, or `host memory` for None."""
    if number is None:
        return "host memory"
    return "sim" if number == SIMULATOR else f"cuda:{number}"


@dataclass(frozen=True, slots=True)
class ArrayFacts:
    """The properties of an array that follow from its dtype, shape, strides and device."""

    dtype: DType
    shape: tuple[int, ...]
    #: in elements; those of an empty array may have been replaced by aligned ones
    strides: tuple[int, ...]
    #: the strides passed to kernels, in elements. All but unit_dim's are multiples of stride_align bytes. In any other
    #: dimension of extent 1 the stride is never used, so it is rounded up to a multiple of `MAX_ALIGN` bytes
    passed_strides: tuple[int, ...]
    #: CUDA ordinal, `SIMULATOR`, or None for host memory
    device: int | None
    unit_dim: int | None
    #: in bytes, the largest powers of two up to `MAX_ALIGN` that divide all passed strides except unit_dim's, and
    #: unit_dim's extent (1 without a unit_dim)
    stride_align: int
    extent_align: int
    #: offsets in bytes from the first element to the lowest byte, and to the end of the highest byte
    low_bytes: int
    high_bytes: int
    #: unique to this instance
    number: int
    #: the properties that a signature states, other than the alignments of address and strides
    key: tuple[Any, ...]

    @property
    def is_dense(self) -> bool:
        """True if the elements fill a contiguous range without overlapping, in some order of the dimensions."""
        dense = 1
        for stride, extent in sorted((abs(s), n) for s, n in zip(self.strides, self.shape, strict=True) if n > 1):
            if stride != dense:
                return False
            dense *= extent
        return True


class ArrayView(NamedTuple):
    """An array argument. host: its NumPy view, or None. producer: a stream whose work may still write it, or None."""

    pointer: int
    facts: ArrayFacts
    writable: bool
    owner: Any
    host: np.ndarray[Any, Any] | None = None
    producer: int | None = None

    @property
    def align(self) -> int:
        """The largest power of two that divides both the address and stride_align, in bytes."""
        together = self.pointer | self.facts.stride_align
        return together & -together

    @property
    def pointer_align(self) -> int:
        """The largest power of two up to `MAX_ALIGN` that divides the address, in bytes."""
        together = self.pointer | MAX_ALIGN
        return together & -together


#: an argument in the form that devices accept; None for a constexpr
Argument = ArrayView | bool | int | float | None


def is_host(argument: Argument) -> bool:
    return type(argument) is ArrayView and argument.facts.device is None


#: maximum number of entries in the cache of facts, and in the cache of readers by type
FACTS_LIMIT = 8192
#: the facts of arrays by dtype, shape, strides and, except for NumPy arrays, device
known_facts: dict[tuple[Any, ...], ArrayFacts] = {}
_numbers = itertools.count()


def facts_of(dtype: DType, shape: tuple[int, ...], strides: tuple[int, ...], device: int | None) -> ArrayFacts:
    """Return the facts of an array, which are cached. strides: in elements."""
    key = (dtype.name, shape, strides, device)
    found = known_facts.get(key)
    return found if found is not None else remember_facts(key, _new_facts(dtype, shape, strides, device))


def remember_facts(key: tuple[Any, ...], facts: ArrayFacts) -> ArrayFacts:
    """Cache the facts under a key, and return them."""
    if len(known_facts) >= FACTS_LIMIT:
        known_facts.clear()
    known_facts[key] = facts
    return facts


def _new_facts(dtype: DType, shape: tuple[int, ...], strides: tuple[int, ...], device: int | None) -> ArrayFacts:
    shape, strides = tuple(map(int, shape)), tuple(map(int, strides))
    item = dtype.bytes
    if 0 in shape and 1 not in strides:
        # an empty array's strides are never used, so choose aligned ones and a unit stride, as most arrays have
        strides = (*[MAX_ALIGN] * (len(shape) - 1), 1)
    units = [d for d, s in enumerate(strides) if s == 1]
    unit_dim = units[-1] if units else None
    whole = MAX_ALIGN // item
    passed = tuple([
        -(-s // whole) * whole if n == 1 and d != unit_dim else s
        for d, (n, s) in enumerate(zip(shape, strides, strict=True))
    ])
    others = MAX_ALIGN
    for d, stride in enumerate(passed):
        if d != unit_dim:
            others |= stride * item
    extent = MAX_ALIGN | shape[unit_dim] * item if unit_dim is not None else 1
    extent_align = extent & -extent
    ends = [] if 0 in shape else [(n - 1) * s for n, s in zip(shape, strides, strict=True)]
    high = (sum(e for e in ends if e > 0) + 1) * item if 0 not in shape else 0
    return ArrayFacts(
        dtype, shape, strides, passed, device, unit_dim, others & -others, extent_align,
        low_bytes=sum(e for e in ends if e < 0) * item, high_bytes=high, number=next(_numbers),
        key=(dtype.name, len(shape), unit_dim, extent_align),
    )


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the strides, in elements, of a dense row-major array."""
    strides = [1] * len(shape)
    for d in range(len(shape) - 2, -1, -1):
        strides[d] = strides[d + 1] * max(shape[d + 1], 1)
    return tuple(strides)


def unsupported(what: str) -> LaunchError:
    """Return the error for an array of an unsupported element type. what: a description of the type."""
    return LaunchError(f"an array of {what} can't be passed", hint=f"convert it to one of {', '.join(DTYPES)}")


def unreadable(value: Any, why: str | Exception) -> LaunchError:
    """Return the error for an array whose memory a kernel can't use, or whose library raised an error."""
    if isinstance(why, Exception):
        why = f"{type(why).__name__}: {str(why).partition(chr(10))[0]}"
    return LaunchError(
        f"{with_article(type(value).__name__)} can't be passed: {why}",
        hint="pass a dense array that owns memory, outside of transformations that trace or map functions",
    )


def is_immutable(value: Any) -> bool:
    """True for JAX arrays, which may share memory: kernels must not write them, even if their flags allow it."""
    jax = sys.modules.get("jax")
    return jax is not None and isinstance(value, jax.Array)


def view_of_memory(
    value: Any, pointer: int, facts: ArrayFacts, writable: bool, producer: int | None = None, owner: Any = None
) -> ArrayView:
    """Return the view of another library's array; raise LaunchError if it has elements but no memory."""
    if not pointer and facts.high_bytes:
        raise unreadable(value, "it has no memory")
    owner, host = value if owner is None else owner, None
    if facts.device is None:
        host = _host_array(pointer, facts, owner)
        host.flags.writeable = writable
    return ArrayView(pointer, facts, writable, owner, host, producer)


class _HostMemory:
    def __init__(self, pointer: int, size: int, owner: object) -> None:
        self.owner = owner
        self.__array_interface__ = {"data": (pointer, False), "shape": (size,), "typestr": "|u1", "version": 3}


def offset_in_base(view: ArrayView) -> int:
    """Return the offset in bytes of an array's lowest byte in the ultimate base of its NumPy view; 0 without a view."""
    root = view.host
    while root is not None and isinstance(root.base, np.ndarray):
        root = root.base
    lowest = view.pointer + view.facts.low_bytes
    return lowest - int(root.__array_interface__["data"][0]) if root is not None else 0


def host_bytes(pointer: int, facts: ArrayFacts, owner: object) -> np.ndarray[Any, Any]:
    """Return a view of the bytes of an array in host memory, from lowest to highest; the view keeps `owner` alive."""
    found: np.ndarray[Any, Any] = np.asarray(
        _HostMemory(pointer + facts.low_bytes, facts.high_bytes - facts.low_bytes, owner)
    )
    return found


def _host_array(pointer: int, facts: ArrayFacts, owner: object) -> np.ndarray[Any, Any]:
    if not facts.high_bytes:
        return np.empty(facts.shape, facts.dtype.numpy)
    return laid_out(host_bytes(pointer, facts, owner), facts)


def laid_out(memory: np.ndarray[Any, Any], facts: ArrayFacts) -> np.ndarray[Any, Any]:
    """Return the array with these facts whose bytes, from the lowest to the highest, are `memory`."""
    strides = tuple(s * facts.dtype.bytes for s in facts.strides)
    found: np.ndarray[Any, Any] = np.ndarray(facts.shape, facts.dtype.numpy, memory, -facts.low_bytes, strides)
    return found


#: attribute of another library's arrays -> its replacement
_INSTEAD = {
    **{name: f"a.numpy().{name}" for name in dir(np.ndarray) if not name.startswith("_")},
    **dict.fromkeys(
        ("bfloat16", "double", "float", "half", "int", "long", "type"), "tj.to_device(a.numpy().astype(...))"
    ),
    **dict.fromkeys(("get", "cpu", "asnumpy", "copy_to_host"), "a.numpy(), a copy in host memory"),
    **dict.fromkeys(("to", "cuda", "to_device"), "tj.to_device(a, 'cuda:1'), a copy on another device"),
    **dict.fromkeys(("clone", "copy"), "tj.to_device(a), another array with the same values"),
    **dict.fromkeys(("set", "copy_", "copy_to_device"), "a.copy_from(array)"),
    **dict.fromkeys(("fill", "fill_", "zero_"), "a.copy_from(np.full(a.shape, value, a.numpy().dtype))"),
    **dict.fromkeys(("detach", "contiguous", "requires_grad_"), "a, which is row-major and has no gradients"),
    **dict.fromkeys(("data_ptr", "data", "ptr"), "k[grid](a): kernels take the array itself"),
    "stride": "a.strides, in elements",
    "numel": "a.size",
    "dim": "a.ndim",
    "is_cuda": "a.device",
    "itemsize": "a.dtype.bytes",
    "element_size": "a.dtype.bytes",
    "block_until_ready": "tj.synchronize()",
}


class _Listing(type):
    """A metaclass that omits from `dir` and `help` the names whose access raises AttributeError."""

    def __dir__(cls) -> Iterable[str]:
        return [name for name in super().__dir__() if hasattr(cls, name)]


class _Missing:
    """A descriptor that raises an AttributeError with a hint. `__getattr__` would slow down every attribute access."""

    def __init__(self, name: str, instead: str) -> None:
        self._text = f"a DeviceArray has no {name!r}: write {instead}"

    def __get__(self, array: object, owner: type) -> NoReturn:
        raise AttributeError(self._text)


class DeviceArray(metaclass=_Listing):
    """A row-major array in device memory, made by `tj.to_device` or `tj.empty`.

    Its memory is released by `free`, or when it is garbage-collected.

    Example:
        with tj.use_device("sim"):
            a = tj.to_device(np.ones((4, 8), np.float32))
        assert a.shape == (4, 8) and (a.numpy() == 1).all()
    """

    __slots__ = ("shape", "dtype", "_facts", "_memory")

    def __init__(self, memory: DeviceMemory, dtype: DType, shape: tuple[int, ...]) -> None:
        self.shape = shape
        self.dtype = dtype
        self._memory: DeviceMemory | None = memory
        self._facts = facts_of(dtype, shape, row_major(shape), memory.device)

    @property
    def strides(self) -> tuple[int, ...]:
        """The distance between adjacent elements along each dimension, as a number of elements."""
        return self._facts.strides

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.bytes

    @property
    def device(self) -> str:
        """The name of the device: `cuda:0`, `sim`, …"""
        return device_name(self._facts.device)

    @property
    def memory(self) -> DeviceMemory:
        """The array's memory. raises: LaunchError if it was freed."""
        if self._memory is None:
            raise LaunchError(f"{self!r} was freed", hint="make another with tj.to_device or tj.empty")
        return self._memory

    def check(self) -> None:
        """Raise LaunchError if the array was freed."""
        _ = self.memory

    def view(self) -> ArrayView:
        # read the slot first, because the property is too slow to call for each array of each launch
        memory = self._memory or self.memory
        host = memory.host
        shaped = None if host is None else host.view(self.dtype.numpy).reshape(self.shape)
        return ArrayView(memory.pointer, self._facts, True, self, shaped)

    def numpy(self) -> np.ndarray[Any, Any]:
        """Wait for the device and return a copy in host memory; raise errors that the device reports."""
        out = np.empty(self.shape, self.dtype.numpy)
        self.memory.copy_out(out)
        return out

    def copy_from(self, array: Any) -> None:
        """Overwrite the contents with a NumPy array; raise LaunchError if its shape or dtype differs."""
        source = np.asarray(array)
        if source.shape != self.shape or from_numpy(source.dtype) != self.dtype:
            raise LaunchError(
                f"{source.dtype}{list(source.shape)} doesn't fit into {self!r}",
                hint="convert or reshape it first; tj.to_device(array) makes a new array",
            )
        self.memory.copy_in(np.ascontiguousarray(source))

    def free(self) -> None:
        """Release the memory now; later reads, writes and launches raise LaunchError."""
        memory, self._memory = self._memory, None
        if memory is not None:
            memory.free()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        """Return a copy of the values as a NumPy array; raise ValueError for copy=False."""
        if copy is False:
            raise ValueError("the values of a DeviceArray must be copied from its device: leave copy=False out")
        values = self.numpy()
        return values if dtype is None else values.astype(dtype, copy=False)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a DeviceArray without dimensions has no len(): use a.size")
        return self.shape[0]

    def __bool__(self) -> bool:
        """Return the truth value of the only element. raises: ValueError for several elements, as in NumPy."""
        return bool(self.numpy())

    def __eq__(self, other: object) -> Any:
        """Compare elements as NumPy does, and return an array of bools."""
        return self.numpy() == np.asarray(other)

    def __ne__(self, other: object) -> Any:
        return self.numpy() != np.asarray(other)

    # hash by identity, because the contents can change
    __hash__ = object.__hash__

    def __dir__(self) -> Iterable[str]:
        return [name for name in super().__dir__() if hasattr(self, name)]

    def __repr__(self) -> str:
        return f"DeviceArray({list(self.shape)}, {self.dtype.name}, {self.device!r})"

    def _repr_html_(self) -> str:
        facts = {"shape": list(self.shape), "type": self.dtype, "device": self.device, "bytes": f"{self.nbytes:,}"}
        if self._memory is None:
            return box("<b>DeviceArray</b>, freed", facts_table(facts))
        is_small = self.nbytes <= _SHOWN_BYTES
        values = np.array2string(self.numpy(), threshold=_SHOWN_VALUES, edgeitems=3) if is_small else "..."
        return box("<b>DeviceArray</b>", facts_table(facts), text_box(values))


for _name, _instead in _INSTEAD.items():
    if not hasattr(DeviceArray, _name):
        setattr(DeviceArray, _name, _Missing(_name, _instead))
