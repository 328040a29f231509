"""For tests of kernels and layouts: hypothesis strategies, and `check`, which runs a kernel against NumPy.

Needs hypothesis, which `pip install tilejit[test]` brings.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .dtypes import DTYPES, DType, from_numpy
from .layout import Axis, Iter, Swizzle, TileLayout, m

try:
    from hypothesis import assume
    from hypothesis import strategies as st
except ImportError as missing:
    raise ImportError("tilejit.testing needs hypothesis; install it: pip install hypothesis") from missing

if TYPE_CHECKING:
    from .jit import Kernel

__all__ = [
    "AXIS_FAMILIES", "arrays", "assert_equal", "check", "dense_layouts", "dtypes", "iters", "layouts",
    "memory_layouts", "regions_of", "register_layouts", "shapes_of", "swizzles", "ulps",
]  # fmt: skip

Array = np.ndarray[Any, Any]

#: what `check` takes as expected: by name, or the last argument or arguments
Expected = Mapping[str, Any] | Sequence[Any] | Array

# ---- layouts ----------------------------------------------------------------------------------------------------

#: sets of axes that may meet in one layout
AXIS_FAMILIES: tuple[tuple[str, ...], ...] = (
    ("m",),
    ("m", "laneid"),
    ("m", "laneid", "warpid"),
    ("m", "laneid", "wid_in_wg"),
    ("m", "laneid", "wid_in_wg", "wgid"),
    ("m", "tid_in_wg", "wgid"),
    ("m", "wid_in_wg", "wgid"),
    ("m", "tx"),
    ("TLane", "TCol"),
)

_EXTENTS = st.sampled_from((1, 2, 2, 3, 4, 4, 5, 6, 8))


@st.composite
def swizzles(draw: st.DrawFn) -> Swizzle:
    """Any swizzle of at most a few thousand elements a period."""
    bits = draw(st.integers(0, 3))
    return Swizzle(bits, draw(st.integers(0, 4)), draw(st.integers(bits, bits + 2)), draw(st.booleans()))


@st.composite
def iters(
    draw: st.DrawFn, axes: Sequence[str], *, least: int = 1, most: int = 5, max_size: int = 256, stride: int = 40
) -> tuple[Iter, ...]:
    """Iterators with any strides, negative ones and 0 among them."""
    run: list[Iter] = []
    room = max_size
    for _ in range(draw(st.integers(least, most))):
        extent = min(draw(_EXTENTS), room)
        room //= extent
        run.append(Iter(extent, draw(st.integers(-stride // 4, stride)), Axis(draw(st.sampled_from(axes)))))
    return tuple(run)


@st.composite
def layouts(draw: st.DrawFn, *, swizzled: bool = True, replicated: bool = True, max_size: int = 256) -> TileLayout:
    """Any layout whose thread axes nest: several axes, replicas, offsets, a swizzle."""
    axes = draw(st.sampled_from(AXIS_FAMILIES))
    shard = draw(iters(axes, max_size=max_size))
    replica = draw(iters(axes, least=0, most=2, max_size=8)) if replicated else ()
    offset = draw(st.dictionaries(st.sampled_from(axes), st.integers(-5, 70), max_size=len(axes)))
    swizzle = draw(st.none() | swizzles()) if swizzled and "m" in axes else None
    layout = TileLayout(shard, replica, tuple((Axis(a), v) for a, v in offset.items()), swizzle)
    used = {a.name for a in layout.axes()}
    # laneid and wgid alone leave a gap.
    assume("wid_in_wg" in used or not {"laneid", "wgid"} <= used)
    return layout


@st.composite
def dense_layouts(draw: st.DrawFn, *, thread_bits: int = 5, most_register_bits: int = 3) -> TileLayout:
    """One element for each lane and register of a warp, in any order of power-of-two digits."""
    register_bits = draw(st.integers(0, most_register_bits))
    places = [(1 << k, "laneid") for k in range(thread_bits)] + [(1 << k, "m") for k in range(register_bits)]
    return TileLayout.from_iters([(2, stride, axis) for stride, axis in draw(st.permutations(places))])


@st.composite
def memory_layouts(
    draw: st.DrawFn, *, rank: int = 2, max_extent: int = 16
) -> tuple[TileLayout, tuple[int, ...]]:
    """A dense memory layout whose dimensions are cut into digits that lie in any order, and its shape."""
    digits: list[int] = []
    shape: list[int] = []
    for _ in range(rank):
        own = draw(st.lists(st.sampled_from((1, 2, 2, 3, 4, 8)), min_size=1, max_size=3))
        while math.prod(own) > max_extent:
            own.pop()
        digits += own or [1]
        shape.append(math.prod(own))
    order = draw(st.permutations(range(len(digits))))
    strides, step = [0] * len(digits), 1
    for k in order:
        strides[k], step = step, step * digits[k]
    run = tuple(Iter(extent, stride, m) for extent, stride in zip(digits, strides, strict=True))
    return TileLayout(run), tuple(shape)


#: scope -> the ways to name its threads, nearest axis first: (axis, how many steps it has, or None for the rest)
_CHAINS: dict[str, tuple[tuple[tuple[str, int | None], ...], ...]] = {
    "thread": ((),),
    "warp": ((("laneid", 32),),),
    "warpgroup": ((("tid_in_wg", 128),), (("laneid", 32), ("wid_in_wg", 4))),
    "cta": (
        (("tx", None),),
        (("laneid", 32), ("warpid", None)),
        (("tid_in_wg", 128), ("wgid", None)),
        (("laneid", 32), ("wid_in_wg", 4), ("wgid", None)),
    ),
}


@st.composite
def register_layouts(
    draw: st.DrawFn,
    scope: str,
    *,
    threads: int = 128,
    max_registers: int = 16,
    rank: int = 2,
    replicas: bool = True,
    gaps: bool = True,
) -> tuple[TileLayout, tuple[int, ...]]:
    """A local tile that exactly the threads of a scope own, each a part as large as the others', and its shape.

    threads: of the CTA, for scope "cta". replicas: some threads may hold what others hold. gaps: a thread's
    registers may lie apart.
    """
    among: list[tuple[int, int, str]] = []
    for axis, extent in draw(st.sampled_from(_chains(scope, threads))):
        among += [(e, s, axis) for e, s in _steps(draw(_factors(extent)), 1)]
    count = draw(st.sampled_from([n for n in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32) if n <= max_registers]))
    # a gap before the first register digit spreads all of them
    spread = draw(st.sampled_from((1, 1, 1, 2, 3))) if gaps else 1
    own = _steps(draw(st.permutations(draw(_factors(count)))), spread, draw(st.booleans()) if gaps else False)
    shared = set(draw(st.lists(st.integers(0, len(among) - 1), max_size=2))) if replicas and among else set()
    replica = [among[k] for k in sorted(shared)]
    shard = [place for k, place in enumerate(among) if k not in shared] + [(e, s, "m") for e, s in own]
    shard = draw(st.permutations(shard)) or [(1, 1, "m")]
    layout = TileLayout.from_iters(shard, replica)
    return layout, _joined(draw, [e for e, _, _ in shard], rank)


def _chains(scope: str, threads: int) -> list[list[tuple[str, int]]]:
    """The chains of axes that count exactly the threads of a scope."""
    total = {"thread": 1, "warp": 32, "warpgroup": 128, "cta": threads}[scope]
    found = []
    for chain in _CHAINS[scope]:
        fixed = math.prod(n for _, n in chain if n is not None)
        if total % fixed == 0:
            found.append([(axis, total // fixed if n is None else n) for axis, n in chain])
    return found


@st.composite
def _factors(draw: st.DrawFn, number: int) -> list[int]:
    """Numbers above 1 whose product is `number`."""
    found = []
    while number > 1:
        divisors = [d for d in range(2, number + 1) if number % d == 0]
        found.append(draw(st.sampled_from(divisors)))
        number //= found[-1]
    return found


def _steps(extents: Sequence[int], first: int, widened: bool = False) -> list[tuple[int, int]]:
    """(extent, stride) of digits, the first of them the nearest; `widened` leaves a hole behind each."""
    found, step = [], first
    for extent in extents:
        found.append((extent, step))
        step *= extent
        step += first if widened else 0
    return found


def _joined(draw: st.DrawFn, extents: Sequence[int], rank: int) -> tuple[int, ...]:
    """A shape of `rank` dimensions, each the product of some neighbours among `extents`."""
    cuts = sorted(draw(st.lists(st.integers(0, len(extents)), min_size=rank - 1, max_size=rank - 1)))
    ends = [0, *cuts, len(extents)]
    return tuple(math.prod(extents[a:b]) for a, b in zip(ends, ends[1:], strict=False))


@st.composite
def shapes_of(draw: st.DrawFn, layout: TileLayout) -> tuple[int, ...]:
    """A shape that `layout` groups to: its extents split, and neighbours joined."""
    factors: list[int] = []
    for extent in layout.shape:
        by = draw(st.sampled_from([d for d in range(1, extent + 1) if extent % d == 0]))
        factors += [extent // by, by]
    shape = [1]
    for n in factors:
        if draw(st.booleans()):
            shape.append(n)
        else:
            shape[-1] *= n
    return tuple(shape)


@st.composite
def regions_of(draw: st.DrawFn, shape: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """A window inside `shape`: (start, extent) a dimension."""
    region = []
    for full in shape:
        extent = draw(st.integers(1, full))
        region.append((draw(st.integers(0, full - extent)), extent))
    return tuple(region)


# ---- types and arrays -------------------------------------------------------------------------------------------


def dtypes(*, kinds: Sequence[str] = ("bool", "int", "uint", "float"), fp8: bool = True) -> st.SearchStrategy[DType]:
    """Any element type of these kinds. fp8: the two float8 too, which can only be moved and cast."""
    return st.sampled_from([t for t in DTYPES.values() if t.kind in kinds and (fp8 or not t.is_fp8)])


@st.composite
def arrays(
    draw: st.DrawFn, shape: Sequence[int], dtype: DType, *, strided: bool = False, misaligned: bool = False
) -> Array:
    """An array of random bits, small numbers and special values: zeros, infinities, NaNs, the ends of the range.

    strided: its strides may be permuted, padded, negative or, where it repeats itself, 0.
    misaligned: it may begin at any element, instead of at a multiple of 128 bytes.
    """
    strides, low, span = draw(_strides(tuple(shape))) if strided else (_row_major(shape), 0, math.prod(shape))
    shift = draw(st.integers(0, 16)) if misaligned else 0
    room = np.zeros((span + shift) * dtype.bytes + 128, np.uint8)
    start = -room.ctypes.data % 128 + (shift + low) * dtype.bytes
    array: Array = np.ndarray(tuple(shape), dtype.numpy, room, start, tuple(s * dtype.bytes for s in strides))
    seed, tame = draw(st.tuples(st.integers(0, 2**32 - 1), st.booleans()))
    array[...] = _values(np.random.default_rng(seed), math.prod(shape), dtype, tame).reshape(array.shape)
    return array


@st.composite
def _strides(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[list[int], int, int]:
    """Strides in elements, how many elements the first lies behind the lowest, and elements from end to end."""
    strides, step = [0] * len(shape), 1
    for d in draw(st.permutations(range(len(shape)))):
        if draw(st.integers(0, 7)) == 0:
            continue
        step *= draw(st.sampled_from((1, 1, 1, 2, 3)))
        strides[d] = step * draw(st.sampled_from((1, 1, -1)))
        step = step * shape[d] + draw(st.sampled_from((0, 0, 1, 4, 8)))
    reach = [max(n - 1, 0) * s for n, s in zip(shape, strides, strict=True)]
    low = -sum(r for r in reach if r < 0)
    return strides, low, low + sum(r for r in reach if r > 0) + 1


def _row_major(shape: Sequence[int]) -> list[int]:
    return [math.prod(shape[d + 1 :]) for d in range(len(shape))]


def _values(random: np.random.Generator, count: int, dtype: DType, tame: bool) -> Array:
    """tame: small numbers, else any bits; special values are strewn among both."""
    if dtype.kind == "bool":
        return random.integers(0, 2, count).astype(np.bool_)
    if tame:
        low = 0 if dtype.kind == "uint" else -8
        drawn = random.integers(low, 9, count)
        values = (drawn / 4 if dtype.is_float else drawn).astype(dtype.numpy)
    else:
        values = random.integers(0, 256, count * dtype.bytes, dtype=np.uint8).view(dtype.numpy)
    special = _special(dtype)
    strewn = random.random(count) < 0.1
    return np.where(strewn, special[random.integers(0, len(special), count)], values).astype(dtype.numpy)


def _special(dtype: DType) -> Array:
    if not dtype.is_float:
        ends = np.iinfo(dtype.numpy)
        return np.array([0, 1, ends.min, ends.max], dtype.numpy)
    import ml_dtypes

    info = ml_dtypes.finfo(dtype.numpy)  # type: ignore[no-untyped-call]
    listed = [0.0, -0.0, 1.0, -1.0, math.nan, info.max, info.min, info.tiny, info.smallest_subnormal]
    if dtype.name != "float8_e4m3fn":
        listed += [math.inf, -math.inf]
    return np.array(listed, np.float64).astype(dtype.numpy)


# ---- comparison -------------------------------------------------------------------------------------------------


def check(
    kernel: Kernel,
    grid: Any,
    *args: Any,
    expected: Expected | Callable[..., Expected | None],
    rtol: float = 0,
    atol: float = 0,
    target: str | None = None,
    device: str = "sim",
    threads: int | None = None,
    **constexprs: Any,
) -> None:
    """Runs `kernel` on copies of the NumPy arrays in `args`, and compares what it leaves in them.

    The copies have the arrays' strides and alignment. On the simulator all checks are on.
    expected: what the arrays must hold: a mapping by parameter name, one array for the last array argument, or a
    sequence for the last ones; every other array must be unchanged. Or a function of copies of `args`, which returns
    one of these, or changes its arguments and returns None.
    rtol, atol: as in `numpy.isclose`. Both 0: bit for bit, but for NaNs, which all are equal.
    device: "sim", or "cuda" and the like. target: the architecture to compile for.
    raises: AssertionError that names the first element that differs; `SimulationError`s.
    """
    copies = [_copy(a) if isinstance(a, np.ndarray) else (a, None) for a in args]
    given = [array for array, _ in copies]
    names = [p.name for p in kernel.parameters[: len(args)]]
    wanted = _wanted(expected, args, names)
    before = [None if room is None else room.copy() for _, room in copies]
    _launch(kernel, grid, given, constexprs, target, device, threads)
    for name, array, (copy, room), old in zip(names, args, copies, before, strict=True):
        if isinstance(array, np.ndarray) and room is not None and old is not None:
            assert_equal(name, copy, wanted[name], rtol, atol)
            _same_between(name, copy, room, old)


def _launch(
    kernel: Kernel,
    grid: Any,
    args: Sequence[Any],
    constexprs: Mapping[str, Any],
    target: str | None,
    device: str,
    threads: int | None,
) -> None:
    # layouts are tested without a device
    from .jit import simulate
    from .runtime.devices import synchronize, use_device

    kind, _, architecture = device.partition(":")
    if kind == "sim":
        simulate(kernel, grid, *args, target=target or architecture or None, threads=threads, **constexprs)
        return
    if target is not None:
        raise ValueError("target= is for the simulator; a GPU runs what it is")
    sizes = (grid,) if isinstance(grid, int) else grid
    with use_device(device):
        launcher = kernel[sizes] if threads is None else kernel[sizes, threads]
        launcher(*args, **constexprs)
        synchronize()


def _wanted(
    expected: Expected | Callable[..., Expected | None], args: Sequence[Any], names: Sequence[str]
) -> dict[str, Any]:
    """What each array must hold, by name."""
    found = dict(zip(names, args, strict=True))
    if callable(expected):
        copies = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
        answer = expected(*copies)
        if answer is None:
            return dict(zip(names, copies, strict=True))
        expected = answer
    if isinstance(expected, Mapping):
        strangers = [name for name in expected if name not in found]
        if strangers:
            raise ValueError(f"expected names {strangers[0]}; the arguments are {', '.join(names)}")
        return {**found, **expected}
    values = [expected] if isinstance(expected, np.ndarray) else list(expected)
    outputs = [n for n, a in found.items() if isinstance(a, np.ndarray)]
    if len(values) > len(outputs):
        raise ValueError(f"{len(values)} arrays are expected; the call has {len(outputs)}")
    return {**found, **dict(zip(outputs[len(outputs) - len(values) :], values, strict=True))}


def _copy(array: Array) -> tuple[Array, Array]:
    """A copy with the same strides and alignment, and the bytes in which it lies."""
    reach = [(n - 1) * s for n, s in zip(array.shape, array.strides, strict=True)] if array.size else []
    low = -sum(r for r in reach if r < 0)
    size = low + sum(r for r in reach if r > 0) + array.itemsize
    room = np.full(size + 256, 0xA5, np.uint8)
    start = low + (array.ctypes.data - low - room.ctypes.data) % 128
    copy: Array = np.ndarray(array.shape, array.dtype, room, start, array.strides)
    copy[...] = array
    return copy, room


def _same_between(name: str, copy: Array, room: Array, before: Array) -> None:
    """Raise AssertionError where bytes changed that belong to no element."""
    start = copy.ctypes.data - room.ctypes.data
    over: Array = np.ndarray(copy.shape, np.dtype((np.void, copy.itemsize)), before, start, copy.strides)
    over[...] = np.ndarray(copy.shape, over.dtype, room, start, copy.strides)
    changed = np.flatnonzero(room != before)
    if changed.size:
        raise AssertionError(f"{name}: {changed.size} bytes changed that belong to none of its elements")


def assert_equal(name: str, got: Array, expected: Any, rtol: float = 0, atol: float = 0, ulp: int = 0) -> None:
    """Raise AssertionError where `got` isn't `expected`: index, both values, their distance, how many more.

    rtol, atol: as in `numpy.isclose`. ulp: how many units in the last place floats may differ. All 0: bit for bit,
    but for NaNs, which all are equal.
    """
    wanted = np.asarray(expected)
    if wanted.dtype != got.dtype:
        raise AssertionError(f"{name} is of {got.dtype}; expected is of {wanted.dtype}: cast it")
    if wanted.shape != got.shape:
        raise AssertionError(f"{name} has shape {got.shape}; expected has {wanted.shape}")
    wrong = ~_agree(got, wanted, rtol, atol, ulp)
    if not wrong.any():
        return
    at = tuple(int(i) for i in np.argwhere(wrong)[0])
    apart = f", {int(ulps(got[at], wanted[at]))} ulp apart" if _is_float(got) else ""
    others = int(wrong.sum()) - 1
    more = f"; {others} more of {got.size} differ" if others else f"; the other {got.size - 1} agree"
    raise AssertionError(f"{name}{list(at)} is {got[at]!s}, expected {wanted[at]!s}{apart}{more}")


def _agree(got: Array, wanted: Array, rtol: float, atol: float, ulp: int) -> Array:
    same = _bits(got) == _bits(wanted)
    if not _is_float(got):
        return np.asarray(same | np.isclose(got, wanted, rtol, atol) if rtol or atol else same)
    with np.errstate(all="ignore"):
        same |= np.isnan(got) & np.isnan(wanted)
        if rtol or atol:
            same |= np.isclose(got.astype(np.float64), wanted.astype(np.float64), rtol, atol)
        if ulp:
            same |= ulps(got, wanted) <= ulp
    return np.asarray(same)


def _is_float(array: Array) -> bool:
    dtype = from_numpy(array.dtype)
    return dtype is not None and dtype.is_float


def _bits(array: Any) -> Array:
    whole = np.ascontiguousarray(array)
    return np.asarray(whole.view(f"u{whole.itemsize}").reshape(np.shape(array)))


def ulps(a: Any, b: Any) -> Array:
    """How many representable values lie between two floats of one type; 0 of two NaNs, a lot of one."""
    one, other = (_ordered(np.asarray(x)) for x in (a, b))
    apart = np.where(one > other, one - other, other - one)
    nans = np.isnan(np.asarray(a)).astype(int) + np.isnan(np.asarray(b))
    return np.asarray(np.where(nans == 1, np.iinfo(np.int64).max, np.where(nans == 2, 0, apart)))


def _ordered(values: Array) -> Array:
    """Floats as whole numbers in their order; both zeros are 0."""
    bits = _bits(values)
    sign = bits >> (8 * values.itemsize - 1)
    magnitude = (bits & (np.iinfo(bits.dtype).max >> 1)).astype(np.int64)
    return np.asarray(np.where(sign == 1, -magnitude, magnitude))
