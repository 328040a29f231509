"""A launch of Triton: its arguments as parameters of the PTX, and the names of its files."""

from __future__ import annotations

import linecache
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ..dataclass import dataclass
from ..errors import LaunchError
from ..simulator import DeviceArray, TensorMap

#: types of Triton's scalars -> their types in NumPy
_FLOATS: dict[str, Any] = {"fp16": np.float16, "fp32": np.float32, "f32": np.float32, "fp64": np.float64}
#: codes of swizzle modes in the metadata of descriptors, as in CUtensorMapSwizzle of the CUDA driver API
_SWIZZLES = ("none", "32B", "64B", "128B")
_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"([^"]*)"', re.MULTILINE)
_FIRST_LOCATION = re.compile(r"^\s*\.loc\s+(\d+)\s", re.MULTILINE)
_INTEGER = re.compile(r"[iu](\d+)")


@dataclass(frozen=True, slots=True)
class Argument:
    """One parameter of the PTX kernel. name: that of Triton's parameter, with a path if it is part of a tuple.

    type: Triton's type of the value, such as "i32" or "*fp16"; "tensormap" for a descriptor that TMA uses.
    box: for a descriptor, what Triton's metadata say of the box that TMA copies.
    """

    name: str
    type: str
    value: Any
    box: Mapping[str, Any] | None = None


def flatten(
    signature: Mapping[str, Any], values: Sequence[Any], boxes: Sequence[Mapping[str, Any]] | None
) -> Iterator[Argument]:
    """Yield the arguments of the PTX kernel for the values of all of Triton's parameters, in order.

    signature: parameter -> its type: a text, or a tuple of types. boxes: one per descriptor if TMA uses them, else
        None or empty: then a descriptor is passed as its pointer, extents and strides.
    """
    left = iter(boxes) if boxes else None
    for (name, type_), value in zip(signature.items(), values, strict=True):
        yield from _flat(str(name), type_, value, left)


def _flat(name: str, type_: Any, value: Any, boxes: Iterator[Mapping[str, Any]] | None) -> Iterator[Argument]:
    if isinstance(type_, tuple):
        fields = getattr(value, "_fields", range(len(type_)))
        for field, each, part in zip(fields, type_, value, strict=True):
            inner = f"{name}.{field}" if isinstance(field, str) else f"{name}[{field}]"
            yield from _flat(inner, each, part, boxes)
    elif type_.startswith("tensordesc"):
        strides = [Argument(name, "i64", stride) for stride in value.strides]
        if boxes is not None:
            yield Argument(name, "tensormap", value, next(boxes))
        else:
            yield Argument(name, "*" + type_.partition("<")[2].partition("[")[0], value.base)
            yield from (Argument(name, "i64", extent) for extent in value.shape)
            yield from strides
            yield Argument(name, "i1", value.padding == "nan")
            yield Argument(name, "i1", value.round_f32_to_tf32)
        yield from (Argument(name, "i32", extent) for extent in value.shape)
        yield from strides
    elif type_ != "constexpr":
        yield Argument(name, type_, value)


def scalar(argument: Argument) -> bytes:
    """Return the bytes of a scalar. raises: LaunchError if its type is unknown, or the value doesn't have it."""
    type_, value = argument.type, argument.value
    try:
        if type_ in _FLOATS:
            return bytes(np.array(float(value)).astype(_FLOATS[type_]).tobytes())
        if type_ == "bf16":
            # Triton's launcher truncates the float32
            return bytes(np.array(float(value)).astype("<f4").tobytes()[2:])
        found = _INTEGER.fullmatch(type_)
        if found is None:
            raise LaunchError(
                f"the type {type_} of the argument {argument.name} is not supported", hint="pass a number or a tensor"
            )
        size = max(int(found[1]) // 8, 1)
        return (int(value) & ((1 << 8 * size) - 1)).to_bytes(size, "little")
    except (TypeError, ValueError):
        raise LaunchError(
            f"the argument {argument.name} has the type {type_}, and {value!r} is not such a number",
            hint="pass a number",
        ) from None


def tensor_map(argument: Argument, array: DeviceArray) -> TensorMap:
    """Return the tensor map of a descriptor of a tensor in `array`.

    raises: LaunchError if the simulator doesn't support a feature of the descriptor.
    """
    value, box = argument.value, argument.box
    assert box is not None, "a descriptor that TMA uses"
    refused = {
        "padding='nan'": value.padding == "nan", "round_f32_to_tf32": value.round_f32_to_tf32,
        "im2col": box.get("is_im2col"), "padded fp4": box.get("fp4_padded"),
    }
    for feature, is_used in refused.items():
        if is_used:
            raise LaunchError(
                f"the descriptor {argument.name} uses {feature}, which the simulator doesn't support",
                hint="copy without it",
            )
    if value.strides[-1] != 1:
        raise LaunchError(
            f"the last dimension of the descriptor {argument.name} has the stride {value.strides[-1]}",
            hint="make it contiguous",
        )
    width = int(box["elem_size"])
    return TensorMap(
        array,
        dims=tuple(int(x) for x in reversed(value.shape)),
        strides=tuple(int(x) * width for x in reversed(value.strides[:-1])),
        box=tuple(int(x) for x in reversed(box["block_size"])),
        element_bytes=width,
        element_type=str(value.base.dtype).removeprefix("torch."),
        swizzle=_SWIZZLES[int(box["swizzle"])],
        offset_bytes=value.base.storage_offset() * value.base.element_size(),
    )


def with_file(ptx: str, file: str) -> str:
    """Return PTX whose kernel is in the file `file`; "" for an unknown one.

    Triton's cache doesn't know the names of files: the PTX may be that of a program elsewhere with the same text. Files
    of the other program's folder become those with the same name in the folder of `file`, if there are any.
    """
    files = dict(_FILE.findall(ptx))
    location = _FIRST_LOCATION.search(ptx)
    former = files.get(location[1]) if location is not None else None
    if former is None or file in ("", former):
        return ptx
    moved = {former: file}
    for path in files.values():
        here = os.path.join(os.path.dirname(file), os.path.basename(path))
        # linecache also has the cells of notebooks
        is_here = os.path.isfile(here) or here in linecache.cache
        if path != former and os.path.dirname(path) == os.path.dirname(former) and is_here:
            moved[path] = here
    return _FILE.sub(lambda found: found[0].replace(f'"{found[2]}"', f'"{moved.get(found[2], found[2])}"'), ptx)
