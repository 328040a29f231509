"""Invariants of tensor maps."""

from __future__ import annotations

from ...layout.swizzle import SWIZZLE_BITS
from ..params import TensorMapParam


def map_faults(param: TensorMapParam) -> list[str]:
    """Return the faults of a tensor map's boxes."""
    spec = param.map
    ranks, unit, box = spec.RANKS, spec.UNIT_BYTES, spec.box
    if len(box) not in ranks or spec.swizzle not in SWIZZLE_BITS:
        return [f"a box needs {ranks[0]} to {ranks[-1]} dimensions and a known swizzle; got {box}, {spec.swizzle!r}"]
    counts = range(1, spec.MOST_BOX + 1)
    faults = [f"a box must have 1 to {counts[-1]} elements per dimension; got {n}" for n in box if n not in counts]
    row, bits = box[0] * spec.dtype.bytes, SWIZZLE_BITS[spec.swizzle]
    if row % unit:
        faults.append(f"a row of a box must be a multiple of {unit} bytes; got {row}")
    if bits and row > unit << bits:
        faults.append(f"a row of a box must fit in the {unit << bits} bytes of the swizzle; got {row}")
    if len(set(spec.axes)) != len(spec.axes) or any(axis < 0 for axis in spec.axes):
        faults.append(f"a tensor map must have distinct dimensions of {spec.of}, from 0; got {spec.axes}")
    if len(box) != max(len(spec.axes), ranks[0]):
        faults.append(f"a box of {box} doesn't fit the dimensions {spec.axes} of {spec.of}")
    apart = [share.coordinates for share in param.shares if len(share.coordinates) != len(box)]
    faults += [f"a share of a box needs {len(box)} coordinates; got {step}" for step in apart]
    return faults
