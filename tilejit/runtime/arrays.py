"""How the launch path sees an array, whoever owns it.

An array becomes a pointer and its `ArrayFacts`: what dtype, shape, strides and device alone say, computed once for each
combination and looked up afterwards. Attributes are read directly where an object has them (a torch tensor takes
0.7 us that way, `__cuda_array_interface__` 3.2, DLPack 5.3 on an H100 host).
"""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np

from ..dataclass import dataclass
from ..dtypes import DTYPES, DType, from_numpy
from ..errors import LaunchError
from ..html_tables import box, facts_table, text_box
from ..wording import with_article
from . import dlpack, interface
from .array_protocols import ArrayProtocols

#: the device of an array in the simulator's memory; CUDA devices are 0, 1, …; None is host memory
SIMULATOR = -1

#: what a notebook shows of an array on a device: values of arrays up to so many bytes, all of them or the outermost
_SHOWN_BYTES = 1 << 20
_SHOWN_VALUES = 64

#: bytes: the largest alignment that a signature tells
MAX_ALIGN = 32


def device_name(number: int | None) -> str:
    """`cuda:0`, `sim`, or `host memory`."""
    if number is None:
        return "host memory"
    return "sim" if number == SIMULATOR else f"cuda:{number}"


@dataclass(frozen=True, slots=True)
class ArrayFacts:
    """What dtype, shape, strides and device say of an array without its address.

    strides: elements. passed_strides: as kernels get them, which may take all but that of unit_dim for multiples of
    stride_align: along a dimension of one element nothing lies, so its stride is rounded up to `MAX_ALIGN`.
    device: CUDA ordinal, `SIMULATOR` or None for host memory.
    low_bytes, high_bytes: from the address of the first element to the lowest byte and past the highest.
    stride_align, extent_align: bytes, see `ArrayType`, up to `MAX_ALIGN`.
    number: another for each combination of all of the above. kind: another for each combination of dtype, rank,
    unit_dim and extent_align, a multiple of 64 so that an alignment can be added.
    """

    dtype: DType
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    passed_strides: tuple[int, ...]
    device: int | None
    unit_dim: int | None
    stride_align: int
    extent_align: int
    low_bytes: int
    high_bytes: int
    number: int
    kind: int

    @property
    def is_dense(self) -> bool:
        """Whether the elements fill all bytes between the lowest and the highest."""
        return self.high_bytes - self.low_bytes == math.prod(self.shape) * self.dtype.bytes


class ArrayView(NamedTuple):
    """An array argument: where it begins, what is known of it, who owns it.

    host: the array as NumPy sees it, where it lies in host memory.
    producer: the stream handle whose work the array's content waits for, where its owner tells.
    """

    pointer: int
    facts: ArrayFacts
    writable: bool
    owner: Any
    host: np.ndarray[Any, Any] | None = None
    producer: int | None = None

    @property
    def align(self) -> int:
        """Bytes: the largest power of two up to `MAX_ALIGN` that divides the address and the strides."""
        together = self.pointer | self.facts.stride_align
        return together & -together

    @property
    def pointer_align(self) -> int:
        """Bytes: the largest power of two up to `MAX_ALIGN` that divides the address."""
        together = self.pointer | MAX_ALIGN
        return together & -together


#: the view of a tuple of all its fields, in 0.1 us where the class takes 0.3
_quick_view: Callable[[tuple[Any, ...]], ArrayView] = partial(tuple.__new__, ArrayView)

#: an argument as the devices see it: constexprs are None
Argument = ArrayView | bool | int | float | None


_FACTS_LIMIT = 8192
_facts: dict[tuple[Any, ...], ArrayFacts] = {}
_kinds: dict[tuple[Any, ...], int] = {}
#: how an array of this type is read, once one was
readers: dict[type, Callable[[Any], ArrayView]] = {}
_numbers = itertools.count()


def facts_of(dtype: DType, shape: tuple[int, ...], strides: tuple[int, ...], device: int | None) -> ArrayFacts:
    """The facts of an array; strides in elements."""
    key = (dtype.name, shape, strides, device)
    found = _facts.get(key)
    return found if found is not None else _remember(key, _new_facts(dtype, shape, strides, device))


def _remember(key: tuple[Any, ...], facts: ArrayFacts) -> ArrayFacts:
    if len(_facts) >= _FACTS_LIMIT:
        _facts.clear()
    _facts[key] = facts
    return facts


def _new_facts(dtype: DType, shape: tuple[int, ...], strides: tuple[int, ...], device: int | None) -> ArrayFacts:
    shape, strides = tuple(map(int, shape)), tuple(map(int, strides))
    item = dtype.bytes
    if 0 in shape and 1 not in strides:
        # NumPy says 0 for all; nothing lies at them, so they may be what kernels are written for
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
    kind = _kinds.setdefault((dtype.name, len(shape), unit_dim, extent_align), 64 * (len(_kinds) + 1))
    return ArrayFacts(
        dtype, shape, strides, passed, device, unit_dim, others & -others, extent_align,
        low_bytes=sum(e for e in ends if e < 0) * item, high_bytes=high, number=next(_numbers), kind=kind,
    )


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides in elements of an array without gaps whose last dimension has stride 1."""
    strides = [1] * len(shape)
    for d in range(len(shape) - 2, -1, -1):
        strides[d] = strides[d + 1] * max(shape[d + 1], 1)
    return tuple(strides)


def is_array(value: object) -> bool:
    """Whether `view_of` can read it: an array rather than a scalar."""
    if type(value) in readers or isinstance(value, (ArrayView, DeviceArray, np.ndarray)):
        return True
    if isinstance(value, (np.generic, int, float)):
        return False
    # asking for the interface computes it, so it comes last
    return _has(value, "data_ptr") or _has(value, "__dlpack__") or _has(value, interface.NAME)


def _has(value: object, name: str) -> bool:
    try:
        return hasattr(value, name)
    except Exception:
        # the object's own code computes it, and may raise anything; reading it says what is wrong
        return True


def view_of(value: Any) -> ArrayView:
    """The array as the launch sees it.

    accepts: NumPy arrays; objects with `data_ptr`, `shape`, `stride`, `dtype` and `device`; `DeviceArray`;
    anything with `__cuda_array_interface__` or DLPack.
    raises: LaunchError for anything else, and for a dtype or strides that tilejit has no word for.
    """
    reader = readers.get(type(value))
    if reader is not None:
        return reader(value)
    if _has(value, "data_ptr"):
        return _remembered(value, _view_of_tensor)
    if isinstance(value, np.ndarray) and hasattr(value, "mask"):
        raise LaunchError("a masked array can't be passed", hint="pass the data and the mask as two arrays")
    if isinstance(value, np.ndarray):
        return _remembered(value, _view_of_numpy)
    found = interface.of(value)
    if found is not None:
        return _view_of_interface(value, found)
    if _has(value, "__dlpack__"):
        return _view_of_dlpack(value)
    if isinstance(value, DeviceArray):
        return _remembered(value, DeviceArray.view)
    if isinstance(value, ArrayView):
        return value
    if value is None:
        raise LaunchError(
            "None is not an array",
            hint="annotate a parameter that may be None `tj.Tensor | None`: then the kernel can ask whether it is",
        )
    raise LaunchError(
        f"{type(value).__name__} is not an array",
        hint="pass a NumPy array, a tensor of PyTorch, CuPy or JAX, or a tj.DeviceArray",
    )


def _remembered(value: Any, reader: Callable[[Any], ArrayView]) -> ArrayView:
    """The view, and the way to it for the next array of this type."""
    if len(readers) >= _FACTS_LIMIT:
        readers.clear()
    readers[type(value)] = reader
    return reader(value)


def _view_of_numpy(array: np.ndarray[Any, Any]) -> ArrayView:
    key = (array.dtype, array.shape, array.strides)
    facts = _facts.get(key) or _remember(key, numpy_facts(array.dtype, array.shape, array.strides, None))
    return ArrayView(array.ctypes.data, facts, array.flags.writeable, array, array)


def numpy_facts(
    dtype: np.dtype[Any], shape: tuple[int, ...], strides_bytes: tuple[int, ...], device: int | None
) -> ArrayFacts:
    """The facts of an array of NumPy's kind by its attributes."""
    if not dtype.isnative and dtype.isbuiltin == 0 and from_numpy(dtype.newbyteorder("=")) is not None:
        native = dtype.newbyteorder("=").name
        raise LaunchError(
            f"an array of dtype {dtype!r} can't be passed: its bytes are in the other order",
            hint=f"pass a.astype(np.{native})",
        )
    found = from_numpy(dtype) if dtype.isnative else None
    if found is None:
        raise LaunchError(f"an array of dtype {dtype!r} can't be passed", hint=f"one of {', '.join(DTYPES)}")
    if any(s % found.bytes for s in strides_bytes):
        raise LaunchError(
            f"an array has strides of {strides_bytes} bytes, no multiples of its {found.bytes}-byte elements",
            hint="pass a copy: np.ascontiguousarray(a)",
        )
    return facts_of(found, shape, tuple(s // found.bytes for s in strides_bytes), device)


def unreadable(value: Any, why: str | Exception) -> LaunchError:
    """The refusal of an array whose memory a kernel can't use, or whose own library raises an error."""
    if isinstance(why, Exception):
        why = f"{type(why).__name__}: {str(why).partition(chr(10))[0]}"
    return LaunchError(
        f"{with_article(type(value).__name__)} can't be passed: {why}",
        hint="pass a dense array that has memory of its own, outside of what traces or maps functions",
    )


def _refuse_bits(tensor: Any) -> None:
    """Refuse a torch tensor whose values differ from its memory by a sign."""
    if getattr(tensor, "is_neg", bool)():
        raise LaunchError(
            "a tensor has its negative bit set: its memory holds the negatives of its values",
            hint="pass a.resolve_neg(), a copy that holds the values",
        )
    if getattr(tensor, "is_conj", bool)():
        raise LaunchError(
            "a tensor has its conjugate bit set: its memory holds the conjugates of its values",
            hint="pass torch.view_as_real(a.resolve_conj()), the real and imaginary parts of a copy",
        )


def _view_of_tensor(tensor: Any) -> ArrayView:
    try:
        _refuse_bits(tensor)
        key = (tensor.dtype, tensor.shape, tensor.stride(), tensor.device)
        facts = _facts.get(key) or _remember(key, tensor_facts(*key))
        pointer = tensor.data_ptr()
    except LaunchError:
        raise
    except Exception as error:
        # the tensor's own library may raise anything
        raise unreadable(tensor, error) from error
    if not pointer and facts.high_bytes:
        raise unreadable(tensor, "it has no memory")
    if facts.device is not None:
        return _quick_view((pointer, facts, True, tensor, None, None))
    return ArrayView(pointer, facts, True, tensor, _host_array(pointer, facts, tensor))


def tensor_facts(dtype: Any, shape: Any, strides: Any, device: Any) -> ArrayFacts:
    """The facts of a tensor of PyTorch's kind by its attributes; strides in elements."""
    return facts_of(_dtype_of_name(str(dtype)), tuple(shape), tuple(strides), _ordinal(device))


def _dtype_of_name(text: str) -> DType:
    """`torch.float32` -> float32: by the name's last part, so that no framework need be imported."""
    name = text.rsplit(".", 1)[-1]
    found = DTYPES.get("bool_" if name == "bool" else name)
    if found is None:
        raise LaunchError(f"an array of dtype {text} can't be passed", hint=f"one of {', '.join(DTYPES)}")
    return found


def _ordinal(device: Any) -> int | None:
    """The CUDA ordinal of a tensor's `device`, None for host memory; ROCm, MPS and the rest are refused."""
    kind, _, index = str(device).partition(":")
    if kind == "cpu":
        return None
    if kind == "cuda":
        return int(index or 0)
    raise LaunchError(f"a tensor is on {device}", hint="tilejit launches on CUDA devices and on the simulator")


def _view_of_interface(value: Any, found: Any) -> ArrayView:
    pointer, read_only, dtype, shape, strides = interface.read(value, found)
    if dtype.kind == "V" or from_numpy(dtype) is None:
        # bfloat16 and fp8 have no typestr of their own: the object's own dtype says what they are
        dtype = np.dtype(getattr(value, "dtype", dtype))
    if found.get("mask") is not None:
        raise LaunchError("a masked array can't be passed", hint="pass the data and the mask as two arrays")
    ordinal = getattr(getattr(value, "device", None), "id", None)
    if not isinstance(ordinal, int):
        ordinal = _ordinal_at(pointer)
    facts = interface_facts(dtype, shape, strides, ordinal)
    if not pointer and facts.high_bytes:
        raise unreadable(value, "it has no memory")
    return ArrayView(pointer, facts, not (read_only or _is_immutable(value)), value, None, found.get("stream"))


def _ordinal_at(pointer: int) -> int:
    """The ordinal of the GPU in whose memory an address lies, by the driver; 0 if it does not know."""
    try:
        # cuda-python may be missing where no GPU is used
        from .cuda_driver import ordinal_at
    except ImportError:
        return 0
    return ordinal_at(pointer)


def _is_immutable(value: Any) -> bool:
    """True for JAX's arrays, which share memory because no one may write them; they do not say that themselves."""
    jax = sys.modules.get("jax")
    return jax is not None and isinstance(value, jax.Array)


def interface_facts(dtype: np.dtype[Any], shape: tuple[int, ...], strides_bytes: Any, ordinal: int) -> ArrayFacts:
    """The facts of an array by what its interface says; strides_bytes: None for row-major."""
    return numpy_facts(dtype, shape, tuple(strides_bytes or _row_major_bytes(shape, dtype.itemsize)), ordinal)


def _view_of_dlpack(value: Any) -> ArrayView:
    try:
        tensor = dlpack.read(value)
    except LaunchError:
        raise
    except Exception as error:
        # the array's own library may raise anything
        raise unreadable(value, error) from error
    strides = row_major(tensor.shape) if tensor.strides is None else tensor.strides
    facts = facts_of(tensor.dtype, tensor.shape, strides, tensor.device)
    if not tensor.pointer and facts.high_bytes:
        raise unreadable(value, "it has no memory")
    writable = tensor.writable and not _is_immutable(value)
    if tensor.device is not None:
        return ArrayView(tensor.pointer, facts, writable, tensor, None, dlpack.LEGACY_STREAM)
    host = _host_array(tensor.pointer, facts, tensor)
    host.flags.writeable = writable
    return ArrayView(tensor.pointer, facts, writable, tensor, host)


def _row_major_bytes(shape: Sequence[int], itemsize: int) -> tuple[int, ...]:
    return tuple(s * itemsize for s in row_major(shape))


class _HostMemory:
    """Host memory of another owner, as NumPy's array interface tells it."""

    def __init__(self, pointer: int, size: int, owner: object) -> None:
        self.owner = owner
        self.__array_interface__ = {"data": (pointer, False), "shape": (size,), "typestr": "|u1", "version": 3}


def offset_in_base(view: ArrayView) -> int:
    """Bytes from where an array in host memory was allocated, as far as NumPy knows, to the lowest that it reaches."""
    root = view.host
    while root is not None and isinstance(root.base, np.ndarray):
        root = root.base
    lowest = view.pointer + view.facts.low_bytes
    return lowest - int(root.__array_interface__["data"][0]) if root is not None else 0


def host_bytes(pointer: int, size: int, owner: object) -> np.ndarray[Any, Any]:
    """Someone else's host memory as bytes."""
    found: np.ndarray[Any, Any] = np.asarray(_HostMemory(pointer, size, owner))
    return found


def _host_array(pointer: int, facts: ArrayFacts, owner: object) -> np.ndarray[Any, Any]:
    """Someone else's host memory as a NumPy array."""
    size = facts.high_bytes - facts.low_bytes
    if size == 0:
        return np.empty(facts.shape, facts.dtype.numpy)
    memory = host_bytes(pointer + facts.low_bytes, size, owner)
    item = facts.dtype.bytes
    strides = tuple(s * item for s in facts.strides)
    found: np.ndarray[Any, Any] = np.ndarray(facts.shape, facts.dtype.numpy, memory, -facts.low_bytes, strides)
    return found


class DeviceMemory(Protocol):
    """Memory of a device that a `DeviceArray` owns."""

    @property
    def pointer(self) -> int: ...

    @property
    def device(self) -> int: ...

    @property
    def host(self) -> np.ndarray[Any, Any] | None: ...

    def copy_in(self, array: np.ndarray[Any, Any]) -> None: ...

    def copy_out(self, array: np.ndarray[Any, Any]) -> None: ...

    def free(self) -> None: ...


class DeviceArray(ArrayProtocols):
    """A row-major array in a device's memory, from `tj.to_device` or `tj.empty`.

    Its memory goes back when it is freed or no longer referred to.

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
        """Elements from one index to the next, for each dimension."""
        return self._facts.strides

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.bytes

    @property
    def device(self) -> str:
        """`cuda:0`, `sim`, …"""
        return device_name(self._facts.device)

    @property
    def memory(self) -> DeviceMemory:
        """What it owns; a LaunchError once it has been freed."""
        if self._memory is None:
            raise LaunchError(f"{self!r} was freed", hint="make another with tj.to_device or tj.empty")
        return self._memory

    def check(self) -> None:
        """Raises LaunchError once it has been freed."""
        _ = self.memory

    def view(self) -> ArrayView:
        """The array as the launch sees it."""
        # not `self.memory`: this runs for each array of each launch
        memory = self._memory or self.memory
        host = memory.host
        shaped = None if host is None else host.view(self.dtype.numpy).reshape(self.shape)
        return _quick_view((memory.pointer, self._facts, True, self, shaped, None))

    def numpy(self) -> np.ndarray[Any, Any]:
        """A copy in host memory; waits for what runs on the device and raises what it found."""
        out = np.empty(self.shape, self.dtype.numpy)
        self.memory.copy_out(out)
        return out

    def copy_from(self, array: Any) -> None:
        """Overwrites the content by that of a NumPy array of the same shape and dtype."""
        source = np.asarray(array)
        if source.shape != self.shape or from_numpy(source.dtype) != self.dtype:
            raise LaunchError(
                f"{source.dtype}{list(source.shape)} doesn't fit into {self!r}",
                hint="convert or reshape it first; tj.to_device(array) makes a new one as the array is",
            )
        self.memory.copy_in(np.ascontiguousarray(source))

    def free(self) -> None:
        """Gives the memory back now; a later use is a LaunchError."""
        memory, self._memory = self._memory, None
        if memory is not None:
            memory.free()

    def __repr__(self) -> str:
        return f"DeviceArray({list(self.shape)}, {self.dtype.name}, {self.device!r})"

    def _repr_html_(self) -> str:
        """Its facts and, of one that is copied in no time, its first and last values."""
        facts = {"shape": list(self.shape), "type": self.dtype, "device": self.device, "bytes": f"{self.nbytes:,}"}
        if self._memory is None:
            return box("<b>DeviceArray</b>, freed", facts_table(facts))
        is_small = self.nbytes <= _SHOWN_BYTES
        values = np.array2string(self.numpy(), threshold=_SHOWN_VALUES, edgeitems=3) if is_small else "..."
        return box("<b>DeviceArray</b>", facts_table(facts), text_box(values))
