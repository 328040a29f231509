"""Whole kernels of clusters with rings that several CTAs fill together: any rings, roles, boxes and loops.

Each ring has producers, warps that copy boxes from where a table says, and consumers, warps that write each step to a
place of their own. CTAs that share a ring's copies take equally many steps, of the same regions. Every role has a
branch of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st

import tilejit as tj
from tests.support.orders import Order, simulated
from tests.support.programs import source_of
from tilejit.dtypes import DType, bfloat16, float8_e5m2, float16, float32, float64, int8
from tilejit.layout.swizzle import SWIZZLE_BITS
from tilejit.runtime.device import Device

__all__ = ["ClusterProgram", "cluster_programs"]

Array = np.ndarray
Lines = list[str]

CLUSTERS = (
    (2,), (1, 2), (2, 2), (3,), (1, 3), (4,), (1, 4), (3, 2), (1, 1, 2), (2, 1, 2), (2, 2, 2), (8,), (4, 2), (5,), None,
)
#: of shared memory that programs take, less barriers and what lies between buffers
MOST_BYTES = 220_000
#: how roles are selected: by one branch after the other, by one chain of them, by leaving early
APART = ("flat", "chain", "return")


@dataclass(frozen=True)
class Brought:
    """What each step of a ring brings. box, shape: extents of the stage and of the argument.

    producer: the number of the warp that copies it. shared: for all CTAs along the ring's axis.
    """

    name: str
    dtype: DType
    mode: str | None
    box: tuple[int, ...]
    shape: tuple[int, ...]
    producer: int
    shared: bool

    @property
    def bytes(self) -> int:
        """Of a stage."""
        return prod(self.box) * self.dtype.bytes

    @property
    def unit(self) -> int:
        """Elements of which a region begins at a multiple."""
        return 16 // self.dtype.bytes

    def at(self, argument: Array, start: Array) -> Array:
        """A region, zeros where it is outside. start: in elements, in units along the last dimension."""
        begin = [*map(int, start[:-1]), int(start[-1]) * self.unit]
        picked, inside = argument, np.ones((), bool)
        for d, (first, count, extent) in enumerate(zip(begin, self.box, self.shape, strict=True)):
            index = np.arange(first, first + count)
            picked = picked.take(index.clip(0, extent - 1), d)
            inside = inside[..., None] & ((index >= 0) & (index < extent))
        return np.where(inside, picked, np.zeros((), self.dtype.numpy))


@dataclass(frozen=True)
class SharedRing:
    """axis: along which CTAs share it, or None. most: steps. even: each CTA takes `most`. lags: of each consumer."""

    name: str
    axis: int | None
    stages: int
    producers: int
    lags: tuple[bool, ...]
    most: int
    even: bool
    brings: tuple[Brought, ...]

    @property
    def allocated(self) -> Iterator[str]:
        multicast = "" if self.axis is None else f", multicast={self.axis}"
        counts = f"{self.stages}, producers={self.producers}, consumers={len(self.lags)}"
        yield f"{self.name} = tj.alloc_ring({counts}{multicast})"
        for b in self.brings:
            swizzle = "" if b.mode is None else f", swizzle={b.mode!r}"
            yield f"s{b.name} = tj.alloc_shared(({self.stages}, {_listed(b.box)}), tj.{b.dtype.name}{swizzle})"

    @property
    def roles(self) -> Iterator[Lines]:
        for producer in range(self.producers):
            yield self._steps(["t.acquire()", *self._loads(producer), "tj.warp.commit(t)"])
        for consumer, lags in enumerate(self.lags):
            stores = ["t.wait()", *self._stores(consumer)]
            if not lags:
                yield [*self._steps([*stores, "tj.bulk.wait_read(0)", "tj.warp.release(t)"]), "tj.bulk.wait(0)"]
                continue
            before = ["if i > 0:", f"    tj.warp.release({self.name}[i - 1])"]
            last = [f"if steps_{self.name} > 0:", f"    tj.warp.release({self.name}[steps_{self.name} - 1])"]
            stores += [f"tj.bulk.wait_read({len(self.brings)})", *before]
            yield [*self._steps(stores), "tj.bulk.wait_read(0)", *last, "tj.bulk.wait(0)"]

    def _steps(self, body: Lines) -> Lines:
        return [f"for i in range(steps_{self.name}):", *_inner([f"t = {self.name}[i]", *body])]

    def _loads(self, producer: int) -> Iterator[str]:
        for b in self.brings:
            if b.producer == producer:
                starts = [f"T{b.name}[cta, i, {d}]" for d in range(len(b.box))]
                starts[-1] += f" * {b.unit}"
                yield from (f"x{d} = {start}" for d, start in enumerate(starts))
                region = ", ".join(f"x{d} : x{d} + {count}" for d, count in enumerate(b.box))
                multicast = f", multicast={self.axis}" if b.shared else ""
                yield f"tj.warp.copy_async(s{b.name}[t.stage], A{b.name}[{region}], barrier=t{multicast})"

    def _stores(self, consumer: int) -> Iterator[str]:
        for b in self.brings:
            yield f"place = (cta * {len(self.lags)} + {consumer}) * {max(self.most, 1)} + i"
            region = ", ".join(f"0:{count}" for count in b.box)
            yield f"tj.warp.copy_async(O{b.name}[place, {region}], s{b.name}[t.stage])"


@dataclass(frozen=True)
class ClusterProgram:
    """times: of a cluster's extents, the grid's. apart: how roles are selected; order: which warps have which.

    idle: a warp more that does nothing. syncs: whether clusters synchronize at the start, at the end. seed: of numbers.
    """

    cluster: tuple[int, ...] | None
    times: tuple[int, int, int]
    rings: tuple[SharedRing, ...]
    apart: str
    order: tuple[int, ...]
    idle: bool
    syncs: tuple[bool, bool]
    seed: int

    @property
    def sizes(self) -> tuple[int, ...]:
        return (*(self.cluster or ()), 1, 1, 1)[:3]

    @property
    def grid(self) -> tuple[int, ...]:
        return tuple([size * times for size, times in zip(self.sizes, self.times, strict=True)])

    @property
    def text(self) -> str:
        _, y, z = self.grid
        names = [name for ring in self.rings for name in self._names(ring)]
        roles = [role for ring in self.rings for role in ring.roles]
        lines = [line for ring in self.rings for line in ring.allocated]
        lines += [f"cta = (tj.cta_id(0) * {y} + tj.cta_id(1)) * {z} + tj.cta_id(2)"]
        lines += [f"steps_{ring.name} = N{ring.name}[cta]" for ring in self.rings]
        lines += ["tj.cluster_sync()"] * self.syncs[0]
        for warp, number in enumerate(self.order):
            word = "elif" if warp and self.apart == "chain" else "if"
            leaves = ["return"] * (self.apart == "return")
            lines += [f"{word} tj.warp_id() == {warp}:", *_inner([*roles[number], *leaves])]
        lines += ["tj.cluster_sync()"] * (self.syncs[1] and self.apart != "return")
        return "\n".join([f"def k({', '.join(names)}):", *_inner(lines), ""])

    def _names(self, ring: SharedRing) -> Iterator[str]:
        yield f"N{ring.name}"
        for b in ring.brings:
            yield from (f"A{b.name}", f"T{b.name}", f"O{b.name}")

    @cached_property
    def data(self) -> tuple[Mapping[str, Array], Mapping[str, Array]]:
        """What the kernel gets, and what it must write, by name."""
        random = np.random.default_rng(self.seed)
        arrays, wanted = dict[str, Array](), dict[str, Array]()
        ctas = np.array(list(np.ndindex(self.grid)))
        for ring in self.rings:
            firsts = ctas.copy()
            if ring.axis is not None:
                firsts[:, ring.axis] -= firsts[:, ring.axis] % self.sizes[ring.axis]
            shared_by = np.ravel_multi_index(tuple(firsts.T), self.grid)
            steps = random.integers(ring.most if ring.even else 0, ring.most + 1, len(ctas))[shared_by].astype(np.int32)
            arrays[f"N{ring.name}"] = steps
            for b in ring.brings:
                argument = random.integers(1, 100, b.shape).astype(b.dtype.numpy)
                low, high = -np.array(b.box), np.array(b.shape) + 2
                starts = random.integers(low, high, (len(ctas), max(ring.most, 1), len(b.box)))
                starts[..., -1] //= b.unit
                starts = (starts[shared_by] if b.shared else starts).astype(np.int32)
                out = np.full((len(ctas), len(ring.lags), max(ring.most, 1), *b.box), 7, b.dtype.numpy)
                arrays |= {f"A{b.name}": argument, f"T{b.name}": starts, f"O{b.name}": out.reshape(-1, *b.box)}
                written = out.copy()
                for cta, count in enumerate(steps):
                    for step in range(count):
                        written[cta, :, step] = b.at(argument, starts[cta, step])
                wanted[f"O{b.name}"] = written.reshape(-1, *b.box)
        return arrays, wanted

    def runs(self, device: Device, order: Order) -> None:
        """Run it; what is left must be what NumPy says. order: on the simulator."""
        arrays, wanted = self.data
        given = {name: array.copy() for name, array in arrays.items()}
        threads = 32 * (len(self.order) + self.idle)
        kernel = tj.kernel(threads=threads, cluster=self.cluster, target="sm_90a")(source_of(self.text))
        with tj.use_device("cuda" if device.number >= 0 else "sim"), simulated(order):
            kernel[self.grid](**given)
        for name, array in wanted.items():
            np.testing.assert_array_equal(given[name].view(np.uint8), array.view(np.uint8), name)


def _inner(lines: Lines) -> Lines:
    return [f"    {line}" for line in lines]


def _listed(extents: tuple[int, ...]) -> str:
    return ", ".join(map(str, extents))


@st.composite
def brought(draw: st.DrawFn, name: str, ctas: int, stages: int, producer: int, *, shared: bool) -> Brought:
    """ctas: who share it. Its boxes begin where TMA has them begin, also the part that each CTA copies."""
    dtype = draw(st.sampled_from((float16, bfloat16, float32, float64, int8, float8_e5m2)))
    mode = draw(st.sampled_from((None, "32B", "64B", "128B")))
    blocks = draw(st.sampled_from((1, 1, 2, 3, ctas))) if mode else 1
    width = (draw(st.sampled_from((16, 32, 64))) if mode is None else 16 << SWIZZLE_BITS[mode]) * blocks // dtype.bytes
    by_rows = ctas if shared and blocks % ctas else 1
    rows = 8 * by_rows * draw(st.integers(1, 2))
    front = tuple(draw(st.lists(st.integers(1, 3), max_size=2))) if blocks == 1 else ()
    while front and prod(front) * rows * width * dtype.bytes * stages > 24_000:
        front = front[1:]
    box = (*front, rows, width)
    unit = 16 // dtype.bytes
    shape = [draw(st.integers(1, 2 * count + 2)) for count in box[:-1]]
    shape.append(unit * draw(st.integers(1, 2 * width // unit + 2)))
    return Brought(name, dtype, mode, box, tuple(shape), producer, shared)


@st.composite
def shared_rings(draw: st.DrawFn, name: str, along: Callable[[int | None], int]) -> SharedRing:
    """along: how many CTAs of the cluster lie along an axis."""
    axis = draw(st.sampled_from((0, 1, 2, None)))
    ctas, stages, producers = along(axis), draw(st.integers(1, 4)), draw(st.sampled_from((1, 1, 2)))
    brings: list[Brought] = []
    for producer in range(producers):
        for _ in range(draw(st.integers(1, 2))):
            # more than two CTAs are kept together by what they share
            shared = axis is not None and (ctas > 2 or draw(st.integers(0, 4)) > 0)
            brings.append(draw(brought(f"{name}_{len(brings)}", ctas, stages, producer, shared=shared)))
    lags = tuple(draw(st.lists(st.booleans() if stages > 1 else st.just(value=False), min_size=1, max_size=3)))
    return SharedRing(name, axis, stages, producers, lags, draw(st.integers(0, 6)), draw(st.booleans()), tuple(brings))


@st.composite
def cluster_programs(draw: st.DrawFn) -> ClusterProgram:
    """A kernel of a cluster of any shape, with up to three rings along its axes."""
    cluster = draw(st.sampled_from(CLUSTERS))
    sizes = (*(cluster or ()), 1, 1, 1)[:3]
    count = st.integers(1, 2 if prod(sizes) <= 4 else 1)
    times = draw(count), draw(count), draw(count)
    rings = [
        draw(shared_rings(f"r{number}", lambda axis: 1 if axis is None else sizes[axis]))
        for number in range(draw(st.sampled_from((1, 1, 2, 3))))
    ]
    assume(sum(ring.stages * b.bytes for ring in rings for b in ring.brings) <= MOST_BYTES)
    roles = sum(ring.producers + len(ring.lags) for ring in rings)
    options: dict[str, Any] = {
        "apart": draw(st.sampled_from(APART)), "order": tuple(draw(st.permutations(range(roles)))),
        "idle": draw(st.booleans()), "syncs": (draw(st.integers(0, 4)) == 0, draw(st.integers(0, 4)) == 0),
    }
    return ClusterProgram(cluster, times, tuple(rings), seed=draw(st.integers(0, 99)), **options)
