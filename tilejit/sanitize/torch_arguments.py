"""The arguments of a launch of Triton: from the program's values to the simulator's, and the names of arrays."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from ..errors import LaunchError
from ..simulator import DeviceArray, TensorMap
from .torch_memory import TorchMemory

#: types of Triton's scalars -> their types in NumPy
_FLOATS: dict[str, Any] = {"fp16": np.float16, "fp32": np.float32, "f32": np.float32, "fp64": np.float64}
#: codes of swizzle modes in the metadata of descriptors, as in CUtensorMapSwizzle of the CUDA driver API
_SWIZZLES = ("none", "32B", "64B", "128B")
_INTEGER = re.compile(r"[iu](\d+)")


class Arguments:
    """The arguments of one launch.

    boxes: what Triton's metadata say of the box that TMA copies, for each descriptor. Without boxes, a descriptor is
        passed as its pointer, extents and strides.
    """

    def __init__(self, memory: TorchMemory, boxes: Sequence[Mapping[str, Any]] | None) -> None:
        self.memory = memory
        self.boxes = iter(boxes) if boxes else None
        #: array, type, width, shape and offset of a part of it -> the names of parameters that point to the part
        self.names: dict[tuple[Any, ...], list[str]] = {}

    def flat(self, name: str, type_: Any, value: Any) -> Iterator[Any]:
        """Yield the simulator's arguments for one of Triton's: several for a tuple or a descriptor, else one.

        type_: as in Triton's signatures: a text, or a tuple of types.
        """
        if isinstance(type_, tuple):
            fields = getattr(value, "_fields", range(len(type_)))
            for field, each, part in zip(fields, type_, value, strict=True):
                yield from self.flat(f"{name}.{field}" if isinstance(field, str) else f"{name}[{field}]", each, part)
        elif type_.startswith("tensordesc"):
            strides = [scalar(name, "i64", stride) for stride in value.strides]
            if self.boxes is not None:
                yield self.tensor_map(name, value, next(self.boxes))
            else:
                yield self.address(name, value.base)
                yield from (scalar(name, "i64", extent) for extent in value.shape)
                yield from strides
                yield scalar(name, "i1", value.padding == "nan")
                yield scalar(name, "i1", value.round_f32_to_tf32)
            yield from (scalar(name, "i32", extent) for extent in value.shape)
            yield from strides
        elif type_.startswith("*"):
            yield self.address(name, value)
        elif type_ != "constexpr":
            yield scalar(name, type_, value)

    def address(self, name: str, value: Any) -> bytes:
        """Return the address that a pointer argument has on the simulated GPU."""
        # triton.TensorWrapper has the tensor in `base`
        tensor = getattr(value, "base", value)
        if isinstance(tensor, torch.Tensor):
            self.place(name, tensor)
            address = self.memory.address(tensor)
        elif value is None or isinstance(value, int):
            address = value or 0
        else:
            address = value.data_ptr()
        return (address & ((1 << 64) - 1)).to_bytes(8, "little")

    def place(self, name: str, tensor: torch.Tensor) -> DeviceArray | None:
        """Place a tensor, and note that messages name it, its type and, if its elements are contiguous, its shape."""
        array = self.memory.place(tensor)
        if array is not None:
            width = tensor.element_size()
            first = tensor.storage_offset() * width
            # else the elements from the first of the tensor on
            shape = tuple(tensor.shape) if tensor.is_contiguous() else ((array.memory.size - first) // width,)
            self.names.setdefault((array, _type_name(tensor), width, shape, first), []).append(name)
        return array

    def tensor_map(self, name: str, value: Any, box: Mapping[str, Any]) -> TensorMap:
        """Return the tensor map of a descriptor. raises: LaunchError if the simulator doesn't support its features."""
        refused = {
            "padding='nan'": value.padding == "nan", "round_f32_to_tf32": value.round_f32_to_tf32,
            "im2col": box.get("is_im2col"), "padded fp4": box.get("fp4_padded"),
        }
        for feature, is_used in refused.items():
            if is_used:
                raise LaunchError(
                    f"the descriptor {name} uses {feature}, which the simulator doesn't support",
                    hint="copy without it",
                )
        if value.strides[-1] != 1:
            raise LaunchError(
                f"the last dimension of the descriptor {name} has the stride {value.strides[-1]}",
                hint="make it contiguous",
            )
        array = self.place(name, value.base)
        if array is None:
            raise LaunchError(
                f"the descriptor {name} is one of an empty tensor", hint="don't launch the kernel for it"
            )
        width = int(box["elem_size"])
        return TensorMap(
            array,
            dims=tuple(int(x) for x in reversed(value.shape)),
            strides=tuple(int(x) * width for x in reversed(value.strides[:-1])),
            box=tuple(int(x) for x in reversed(box["block_size"])),
            element_bytes=width,
            element_type=_type_name(value.base),
            swizzle=_SWIZZLES[int(box["swizzle"])],
            offset_bytes=value.base.storage_offset() * value.base.element_size(),
        )

    @contextmanager
    def labelled(self) -> Iterator[None]:
        """Let messages name the arrays by the parameters until the context ends."""
        for (array, *part), names in self.names.items():
            array.label(" = ".join(dict.fromkeys(names)), *part)
        try:
            yield
        finally:
            for array, *_ in self.names:
                array.unlabel()


def scalar(name: str, type_: str, value: Any) -> bytes:
    """Return the bytes of a scalar. raises: LaunchError if its type is unknown, or the value doesn't have it."""
    integer = _INTEGER.fullmatch(type_)
    try:
        if integer is not None:
            size = max(int(integer[1]) // 8, 1)
            return (int(value) & ((1 << 8 * size) - 1)).to_bytes(size, "little")
        if type_ in _FLOATS:
            return np.array(float(value)).astype(_FLOATS[type_]).tobytes()
        if type_ == "bf16":
            # Triton's launcher truncates the float32
            return np.array(float(value)).astype("<f4").tobytes()[2:]
    except (TypeError, ValueError):
        raise LaunchError(
            f"the argument {name} has the type {type_}, and {value!r} is not such a number", hint="pass a number"
        ) from None
    raise LaunchError(f"the type {type_} of the argument {name} is not supported", hint="pass a number or a tensor")


def _type_name(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")
