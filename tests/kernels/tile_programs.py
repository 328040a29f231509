"""Random programs on tiles as values: loads, expressions, loops, branches and stores, as users write them.

Each statement is tried on NumPy arrays while the program is drawn (`tests.reference.values`), so that shapes and types
fit; where they don't the statement is left out.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
from hypothesis import strategies as st

import tilejit as tj
from tests.reference import values
from tests.support.programs import source_of
from tilejit.dtypes import DTYPES, DType
from tilejit.frontend.language import Function
from tilejit.ops.gemm import accumulator_type
from tilejit.runtime.device import Device
from tilejit.scopes import SCOPES
from tilejit.testing import register_layouts

Array = np.ndarray

EXTENTS = (1, 2, 3, 4, 5, 7, 8, 11, 13, 16, 17, 24, 31, 32, 33, 48, 64, 67, 100, 128)
FLOATS = ("float32", "float32", "float32", "float16", "bfloat16", "float64")
INTEGERS = ("int32", "int32", "int8", "uint8", "int16", "uint16", "uint32", "int64", "uint64")
STORAGE = ("float8_e4m3fn", "float8_e5m2")

#: scope -> counts of threads
THREADS = {
    "cta": (32, 64, 128, 256, 48, 100, 96),
    "warp": (32, 32, 64),
    "warpgroup": (128, 256),
    "thread": (32,),
}

FUNCTIONS = (
    "exp", "exp2", "log", "log2", "sqrt", "rsqrt", "sin", "cos", "tanh", "erf", "sigmoid", "silu", "relu", "gelu",
    "reciprocal", "floor", "ceil", "round", "abs", "trunc", "sign", "isnan", "isinf", "isfinite",
)


@dataclass(frozen=True)
class Memory:
    """An array argument, drawn as numbers.

    order: dimensions from the innermost out. padding, steps: a dimension's, in the order of the dimensions.
    shift: elements from a multiple of 128 bytes. pinned: whether the kernel is written for this shape and row-major.
    """

    name: str
    dtype: DType
    shape: tuple[int, ...]
    order: tuple[int, ...]
    padding: tuple[int, ...]
    steps: tuple[int, ...]
    shift: int
    seed: int
    tame: bool
    pinned: bool = False

    @property
    def parameter(self) -> str:
        default = f" = tj.spec({self.shape}, tj.{self.dtype})" if self.pinned else ""
        return f"{self.name}: tj.Tensor{default}"

    def array(self) -> tuple[Array, Array]:
        """The array, and the bytes in which it lies."""
        strides, step, low, high = [0] * len(self.shape), 1, 0, 0
        for d in self.order:
            step *= abs(self.steps[d])
            strides[d] = step * (1 if self.steps[d] > 0 else -1)
            reach = strides[d] * max(self.shape[d] - 1, 0)
            low, high = low + min(reach, 0), high + max(reach, 0)
            step = step * max(self.shape[d], 1) + self.padding[d]
        size = self.dtype.bytes
        room = np.full((high - low + 1 + self.shift) * size + 256, 0xA5, np.uint8)
        start = -room.ctypes.data % 128 + (self.shift - low) * size
        array = np.ndarray(self.shape, self.dtype.numpy, room, start, tuple(s * size for s in strides))
        array[...] = some_values(np.random.default_rng(self.seed), self.shape, self.dtype, self.tame)
        return array, room


def some_values(random: np.random.Generator, shape: tuple[int, ...], dtype: DType, tame: bool) -> Array:
    """tame: small numbers of few bits, whose sums are exact; else special values and any bits among others."""
    if dtype.kind == "bool":
        return random.integers(0, 2, shape).astype(np.bool_)
    small = random.integers(0 if dtype.kind == "uint" else -8, 9, shape)
    plain = (small / 4 if dtype.is_float else small).astype(dtype.numpy)
    if tame:
        return plain
    bits = random.integers(0, 256, math.prod(shape) * dtype.bytes, dtype=np.uint8).view(dtype.numpy).reshape(shape)
    if dtype.is_float:
        info = ml_dtypes.finfo(dtype.numpy)
        listed = [0.0, -0.0, 1.0, math.nan, info.max, info.min, info.tiny, info.smallest_subnormal, math.inf, -math.inf]
        special = np.array(listed, np.float64).astype(dtype.numpy)
        plain = np.where(random.random(shape) < 0.5, random.standard_normal(shape).astype(dtype.numpy), plain)
    else:
        ends = np.iinfo(dtype.numpy)
        special = np.array([0, 1, ends.min, ends.max], dtype.numpy)
    kind = random.random(shape)
    strewn = np.where(kind < 0.08, special[random.integers(0, len(special), shape)], plain)
    return np.where(kind > 0.9, bits, strewn).astype(dtype.numpy)


@dataclass(frozen=True)
class Program:
    """A kernel's text, what it is launched with, and the layouts that it names."""

    text: str
    memories: tuple[Memory, ...]
    scalars: dict[str, np.generic]
    layouts: dict[str, Any]
    threads: int

    def __str__(self) -> str:
        lines = [self.text, f"threads={self.threads} {self.scalars}"]
        return "\n".join([*lines, *map(str, self.memories), *(f"{n} = {v}" for n, v in self.layouts.items())])

    def tensors(self) -> dict[str, values.Tensor]:
        """What each array holds afterwards."""
        function = source_of(self.text, **self.layouts)
        names = function.__globals__
        helpers = {name: value.source.function for name, value in names.items() if isinstance(value, Function)}
        names.update(helpers, tj=values.Language())
        tensors = {m.name: values.Tensor(m.array()[0]) for m in self.memories}
        with np.errstate(all="ignore"):
            function(**tensors, **self.scalars)
        return tensors

    def run(self, device: Device, target: str | None = None, schedule: int = 0) -> None:
        """The kernel against its meaning."""
        wanted = self.tensors()
        kernel = tj.kernel(threads=self.threads)(source_of(self.text, **self.layouts))
        held = {m.name: m.array() for m in self.memories}
        arguments: dict[str, Any] = {**{name: array for name, (array, _) in held.items()}, **self.scalars}
        if device.number < 0:
            tj.simulate(kernel, 1, target=target, schedule=schedule, **arguments)
        else:
            with tj.use_device("cuda"):
                kernel[1](**arguments)
                device.synchronize()
        for memory in self.memories:
            array, room = held[memory.name]
            compare(memory.name, array, wanted[memory.name])
            fresh, before = memory.array()
            start = array.ctypes.data - room.ctypes.data
            kept = np.ndarray(fresh.shape, np.dtype((np.void, fresh.itemsize)), before, start, fresh.strides)
            kept[...] = np.ndarray(fresh.shape, kept.dtype, room, start, fresh.strides)
            strangers = np.flatnonzero(room != before) if before.ctypes.data % 128 == room.ctypes.data % 128 else []
            assert len(strangers) == 0, f"{memory.name}: bytes {strangers[:8]} belong to no element"


def product(left: str, right: str, precision: str | None) -> str:
    """The text of a product."""
    return f"({left} @ {right})" if precision is None else f'tj.matmul({left}, {right}, precision="{precision}")'


def compare(name: str, got: Array, wanted: values.Tensor) -> None:
    """Raise AssertionError where `got` is further from what is wanted than a right result may be."""
    value, error = wanted.array, wanted.error
    same = bits_of(got) == bits_of(value)
    if wanted.dtype.is_float:
        with np.errstate(all="ignore"):
            same |= np.isnan(got) & np.isnan(value)
            same |= np.abs(got.astype(np.float64) - value.astype(np.float64)) <= np.where(error > 0, error, -1)
    same |= np.isinf(error)
    if same.all():
        return
    at = tuple(int(i) for i in np.argwhere(~same)[0])
    raise AssertionError(
        f"{name}{list(at)} is {got[at]!s}, expected {value[at]!s} within {error[at]:.3g}; "
        f"{(~same).sum()} of {got.size} differ"
    )


def bits_of(array: Array) -> Array:
    whole = np.ascontiguousarray(array)
    return whole.view(f"u{whole.itemsize}").reshape(array.shape)


@dataclass
class Drawn:
    """A program while it is drawn: the tiles so far by name, and what it needs."""

    draw: st.DrawFn
    scope: str
    threads: int
    most: int
    memories: list[Memory] = field(default_factory=list)
    tiles: dict[str, values.Tile] = field(default_factory=dict)
    layouts: dict[str, Any] = field(default_factory=dict)
    scalars: dict[str, np.generic] = field(default_factory=dict)
    count: int = 0
    given: set[str] = field(default_factory=set)
    #: the barrier after a store to shared memory, before the loads
    sync: str = "tj.cta_sync()"

    @property
    def is_once(self) -> bool:
        """True if one instance of the scope carries each operation out."""
        return self.scope == "cta" or self.threads == SCOPES[self.scope].threads(self.threads)

    def one(self, among: Any) -> Any:
        choices = list(among)
        # a strategy of objects has their addresses in its label: one seed would give other programs in each process
        return choices[self.draw(st.integers(0, len(choices) - 1))]

    def chance(self, one_in: int) -> bool:
        return self.draw(st.integers(0, one_in - 1)) == one_in - 1

    def name(self, kind: str = "x") -> str:
        self.count += 1
        return f"{kind}{self.count}"

    def names_in(self, text: str) -> dict[str, Any]:
        """The values of the names that a piece of the program may use, with fresh arrays for those that it mentions."""
        tensors = {m.name: values.Tensor(m.array()[0]) for m in self.memories if re.search(rf"\b{m.name}\b", text)}
        return {"tj": values.Language(), **tensors, **self.tiles, **self.scalars, **self.layouts}

    def value(self, text: str) -> Any:
        """The value of an expression, or None if it has no meaning."""
        try:
            with np.errstate(all="ignore"):
                made = eval(text, self.names_in(text))
        except values.Refused:
            return None
        fits = isinstance(made, values.Tile) and 0 < math.prod(made.shape) <= self.most and len(made.shape) <= 3
        return made if fits else None

    def dtype(self) -> DType:
        return DTYPES[self.one(self.one([FLOATS, FLOATS, INTEGERS, ("bool_",), STORAGE]))]

    def shape(self, rank: int | None = None) -> tuple[int, ...]:
        rank = self.one((1, 2, 2, 2, 3)) if rank is None else rank
        shape: list[int] = []
        for _ in range(rank):
            left = self.most // math.prod(shape)
            shape.append(self.one([n for n in EXTENTS if n <= left]))
        return tuple(self.draw(st.permutations(shape)))

    def memory(self, dtype: DType, shape: tuple[int, ...], kind: str) -> Memory:
        rank = len(shape)
        plain = not self.chance(2)
        draw = self.draw
        made = Memory(
            self.name(kind), dtype, shape,
            tuple(reversed(range(rank))) if plain else tuple(draw(st.permutations(range(rank)))),
            tuple(0 if plain else self.one((0, 0, 1, 4, 8)) for _ in shape),
            tuple(1 if plain else self.one((1, 1, 1, 2, -1)) for _ in shape),
            0 if plain else self.one((0, 1, 2, 3, 8)),
            draw(st.integers(0, 2**16)),
            not self.chance(3),
            plain and len(shape) > 1 and self.chance(2),
        )
        self.memories.append(made)
        return made

    def region(self, shape: tuple[int, ...], dtype: DType, kind: str) -> str:
        """A region of this shape of a new array."""
        items: list[str] = []
        extents: list[int] = []
        for n in shape:
            if self.chance(6):
                extents.append(self.one((1, 3)))
                items.append(self.one(("0", "n % 2")) if extents[-1] > 1 else "0")
            start = self.one((0, 0, 0, 0, 8, 1, 3, -2))
            # the last leaves nothing of the array
            past = self.one((0, 0, 0, 0, 0, 1, 1, 5, 5, -1, -1, -n // 2, -n // 2, -n - start))
            extents.append(max(start + n + past, 0))
            # a literal start that counts from the end is refused
            at = "n + " if self.chance(4) or start + n <= 0 else ""
            items.append(f"{at}{start} : {at}{start + n}")
        if not shape:
            extents, items = [3], ["1"]
        return f"{self.memory(dtype, tuple(extents), kind).name}[{', '.join(items)}]"

    def layout(self) -> tuple[str, tuple[int, ...]]:
        """The name of a given layout, and a shape that it has."""
        most = max(1, min(16, self.most // SCOPES[self.scope].threads(self.threads)))
        layout, shape = self.draw(
            register_layouts(self.scope, threads=self.threads, max_registers=most, rank=self.one((1, 2, 2)), gaps=False)
        )
        name = self.name("L")
        self.layouts[name] = layout
        return name, shape

    def literal(self, dtype: DType) -> str:
        if self.chance(4):
            return self.one(("n", "a"))
        if dtype.is_float:
            return self.one(("2", "0.5", "-1.25", "3", "0.0", "-tj.inf"))
        return self.one(("1", "2", "3", "7"))

    def operand(self, like: str | None = None) -> str:
        """A tile, or a part or a view of one; like: that broadcasts with this one."""
        text = self.one(self.tiles)
        tile = self.tiles[text]
        if like is not None:
            value = self.value(like)
            shape = () if value is None else value.shape
            fitting = [n for n, t in self.tiles.items() if broadcasts(t.shape, shape)]
            if fitting and not self.chance(4):
                text = self.one(fitting)
                tile = self.tiles[text]
        if self.chance(3):
            return text
        return self.viewed(text, tile) if self.chance(3) else text

    def viewed(self, text: str, tile: values.Tile) -> str:
        rank, shape = len(tile.shape), tile.shape
        ways = ["T", "none", "slice", "reshape", "sum", "permute", "bits"] if rank else ["none"]
        match self.one(ways):
            case "T":
                return f"{text}.T"
            case "permute":
                return f"{text}.permute({', '.join(map(str, self.draw(st.permutations(range(rank)))))})"
            case "none" if rank == 0:
                return f"{text}[None]"
            case "none":
                at = self.draw(st.integers(0, rank))
                items = [":"] * rank
                items.insert(at, "None")
                return f"{text}[{', '.join(items)}]"
            case "slice":
                items = []
                for n in shape:
                    low = self.draw(st.integers(0, n - 1))
                    items.append(self.one((":", ":", f"{low}:{self.draw(st.integers(low + 1, n))}", str(low))))
                if ":" not in "".join(items):
                    items[0] = ":"
                return f"{text}[{', '.join(items)}]"
            case "bits":
                numbers = [dtype for dtype in DTYPES.values() if dtype.kind != "bool"]
                return f"{text}.view(tj.{self.one([dtype for dtype in numbers if dtype.bits == tile.dtype.bits])})"
            case "reshape":
                return f"{text}.reshape({self.other_shape(math.prod(shape))})"
            case _:
                kind = self.one(("sum", "max", "min", "any"))
                return f"tj.{kind}({text}, axis={self.draw(st.integers(-rank, rank - 1))}, keepdims=True)"

    def other_shape(self, count: int) -> tuple[int, ...]:
        divisors = [d for d in range(1, count + 1) if count % d == 0]
        first = self.one(divisors)
        second = self.one([d for d in divisors if (count // first) % d == 0])
        return self.one([(count,), (first, count // first), (first, second, count // first // second)])

    def expression(self) -> str:
        match self.one(EXPRESSIONS):
            case "operator":
                left = self.operand()
                right = self.operand(left) if self.value(left) is not None and not self.chance(3) else None
                right = self.literal(self.one(self.tiles.values()).dtype) if right is None else right
                op = self.one(("+", "-", "*", "+", "-", "*", "/", "&", "|", "^"))
                return f"({left} {op} {right})" if not self.chance(4) else f"({right} {op} {left})"
            case "division":
                return f"({self.operand()} {self.one(('//', '%'))} {self.one(('2', '3', '7', '16', '5'))})"
            case "shift":
                return f"({self.operand()} {self.one(('<<', '>>'))} {self.one(('1', '3', '7'))})"
            case "compare":
                left = self.operand()
                return f"({left} {self.one(('<', '<=', '==', '!=', '>', '>='))} {self.other(left)})"
            case "where":
                left = self.operand()
                test = f"{left} {self.one(('<', '>='))} {self.other(left)}"
                bools = [n for n, t in self.tiles.items() if t.dtype.kind == "bool"]
                test = self.one(bools) if bools and self.chance(2) else test
                return f"tj.where({test}, {self.other(left)}, {self.operand(left)})"
            case "extreme":
                left = self.operand()
                return f"tj.{self.one(('maximum', 'minimum'))}({left}, {self.other(left)})"
            case "function":
                return f"tj.{self.one(FUNCTIONS)}({self.operand()})"
            case "fma":
                left = self.operand()
                return f"tj.fma({left}, {self.other(left)}, {self.other(left)})"
            case "ptx":
                left = self.operand()
                right, pure = self.other(left), self.one((None, False))
                inputs = ", ".join(f"{x}.astype(tj.int32)" if x in self.tiles else x for x in (left, right))
                return f'tj.ptx("xor.b32 $0, $1, $2;", out=tj.int32, inputs=({inputs}), pure={pure})'
            case "clamp":
                return f"tj.clamp({self.operand()}, 1, 5)"
            case "unary":
                return f"({self.one(('-', '~'))}{self.operand()})"
            case "cast":
                return f"{self.operand()}.astype(tj.{self.dtype()})"
            case "reduce":
                return self.reduction()
            case "broadcast":
                text = self.operand()
                value = self.value(text)
                shape = value.shape if value is not None else ()
                wider = (*self.one(((), (2,), (3, 1))), *(self.one((1, 2, 5)) if n == 1 else n for n in shape))
                return f"tj.broadcast_to({text}, {wider})"
            case "random":
                name, more = self.one((("random_bits", ""), ("rand", ""), ("randint", ", -7, 100")))
                return f"tj.{name}({self.one(('n', '11'))}, {self.operand()}{more})"
            case "scan":
                return self.scan()
            case "cat":
                left = self.operand()
                return f"tj.cat({left}, {self.other(left)}, {self.one((0, 1, -1))})"
            case "moved":
                return self.moved()
            case "sort":
                word, axis = self.one(("sort", "argsort", "sort")), self.one((-1, 0, 1))
                return f"tj.{word}({self.operand()}, axis={axis}, descending={self.chance(2)})"
            case "product":
                left, right = self.one(self.tiles), f"{self.one(self.tiles)}{self.one(('', '.T'))}"
                return product(left, right, self.precision(self.tiles[left].dtype))
            case "ternary":
                left = self.one(self.tiles)
                # two given layouts don't join
                twins = [n for n in self.twins(left) if n not in self.given] or [left]
                return f"({left} if n > 1 else {self.one(twins)})"
            case "uses":
                return f"({self.operand()} * {self.operand()})"
            case _:
                text = self.one(self.tiles)
                return self.viewed(text, self.tiles[text])

    def moved(self) -> str:
        """Elements of a tile at other places."""
        text = self.one(self.tiles)
        shape = self.tiles[text].shape
        if not shape:
            return text
        axis = self.draw(st.integers(0, len(shape) - 1))
        before, extent = [":"] * axis, shape[axis]
        ways = ("flip", "roll", "gather", "step", "histogram")
        match self.one(ways if self.scope == "thread" else (*ways, "part", "element")):
            case "flip":
                return f"tj.flip({text}, {axis})"
            case "roll":
                return f"tj.roll({text}, {self.one(('1', '-3', 'n', '40'))}, axis={axis - len(shape)})"
            case "gather":
                count = self.one((extent, 1, 3, 8))
                made = (*shape[:axis], count, *shape[axis + 1 :])
                along = self.draw(st.integers(0, len(shape) - 1))
                return f"tj.gather({text}, tj.{self.scope}.indices({made}, {along}) % {extent}, {axis})"
            case "step":
                step = self.one((2, 3, -1, -2))
                return f"{text}[{', '.join([*before, f'{self.draw(st.integers(0, extent - 1))}::{step}'])}]"
            case "part":
                taken = self.one((f"n % {extent}", f"n % {extent} : n % {extent} + 1"))
                return f"{text}[{', '.join([*before, taken])}]"
            case "element":
                return f"({text} * {text}[{', '.join(f'n % {n}' for n in shape)}])"
            case _:
                dtype = self.tiles[text].dtype
                mask = f", mask={text} != 1" if self.chance(3) else ""
                return f"tj.histogram({text if dtype.is_integer else f'{text}.astype(tj.int32)'}, {extent}{mask})"

    def other(self, like: str) -> str:
        value = self.value(like)
        if value is None or self.chance(3):
            return self.literal(DTYPES["int32"] if value is None else value.dtype)
        return self.operand(like)

    def twins(self, name: str) -> list[str]:
        """Tiles of the shape and type of one."""
        tile = self.tiles[name]
        return [n for n, t in self.tiles.items() if t.shape == tile.shape and t.dtype == tile.dtype]

    def reduction(self) -> str:
        text = self.operand()
        tile = self.value(text)
        name = self.one((
            "sum", "max", "min", "prod", "any", "all", "argmax", "argmin", "sum", "max", "mean", "var", "std",
        ))
        if tile is None:
            return f"tj.{name}({text})"
        rank = len(tile.shape)
        axis = ""
        if rank and not self.chance(4):
            axes = self.draw(st.lists(st.integers(0, rank - 1), min_size=1, max_size=rank, unique=True))
            axis = f", axis={axes[0] if len(axes) == 1 else tuple(axes)}"
        kept = ", keepdims=True" if self.chance(3) else ""
        grown = ", dtype=tj.float32" if name == "sum" and self.chance(6) else ""
        options = ""
        if name in ("sum", "max", "min", "prod") and self.chance(4):
            options = f", initial={self.one(('n', '1', '3', 'a'))}"
        if name in ("var", "std") and self.chance(2):
            options = ", ddof=1"
        return f"tj.{name}({text}{axis}{grown}{kept}{options})"

    def scan(self) -> str:
        text = self.operand()
        tile = self.value(text)
        rank = len(tile.shape) if tile is not None else 1
        axis = self.draw(st.integers(-rank, max(rank - 1, 0)))
        flags = "".join(f", {flag}=True" for flag in ("reverse", "exclusive") if self.chance(3))
        return f"tj.{self.one(('cumsum', 'cumsum', 'cummax', 'cummin', 'cumprod'))}({text}, {axis}{flags})"

    def assign(self, text: str) -> list[str]:
        value = self.value(text)
        if value is None:
            return []
        name = self.name()
        self.tiles[name] = value
        return [f"{name} = {text}"]

    def load(self) -> list[str]:
        dtype = self.dtype()
        laid_out, shape = self.layout() if self.chance(4) and self.scope != "thread" else ("", self.shape())
        options = f", layout={laid_out}" if laid_out else ""
        if self.chance(3):
            bools = [n for n, t in self.tiles.items() if t.dtype.kind == "bool" and inside(t.shape, shape)]
            axis = self.draw(st.integers(0, len(shape) - 1))
            index = f"tj.{self.scope}.indices({shape}, {axis}) {self.one(('<', '>', '!='))} {self.one(('n', '5'))}"
            options += f", mask={self.one(bools) if bools and self.chance(2) else index}"
        if self.chance(2):
            options += f", fill={self.one(('1', '2.5', '-tj.inf') if dtype.is_float else ('1', '0'))}"
        lines = self.assign(f"tj.{self.scope}.load({self.region(shape, dtype, 'T')}{options})")
        self.given |= {lines[0].split(" = ")[0]} if lines and laid_out else set()
        return lines

    def made(self) -> list[str]:
        dtype, shape = self.dtype(), self.shape()
        kind = self.one(("zeros", "full", "indices"))
        arguments = {
            "zeros": f"tj.{dtype}", "full": f"{self.one(('n', '1', 'a'))}, tj.{dtype}",
            "indices": f"{self.draw(st.integers(0, len(shape) - 1))}",
        }
        return self.assign(f"tj.{self.scope}.{kind}({shape}, {arguments[kind]})")

    def precision(self, dtype: DType) -> str | None:
        """That of a product of this type, or None."""
        return self.one(("tf32", "tf32x3", "ieee")) if dtype.name == "float32" else None

    def factors(self) -> list[str]:
        """A product of two tiles of memory, or a sum of products."""
        dtype = DTYPES[self.one(("float16", "bfloat16", "int8", "float16", "float32", "float32", "float64"))]
        precision = self.precision(dtype)
        m, n, k = self.one((16, 32, 64, *EXTENTS[:17])), self.one((8, 16, 64, *EXTENTS[:17])), self.one(EXTENTS[:17])
        batch = self.one(((), (), (2,), (3,), (2, 1))) if m * n <= 256 else ()
        if self.scope == "thread" or m * n * math.prod(batch) > self.most:
            return []
        a = self.region((*batch, m, k), dtype, "T")
        b = self.region((*(batch if self.chance(2) else batch[1:]), k, n), dtype, "T")
        load = f"tj.{self.scope}.load"
        right = f"{load}({b})"
        if self.chance(3):
            right = f"{load}({self.region((n, k), dtype, 'T')}).T"
        if self.chance(2):
            return self.assign(product(f"{load}({a})", right, precision))
        name = self.name()
        start = f"tj.{self.scope}.zeros({(*batch, m, n)}, tj.{accumulator_type(dtype)})"
        text = product(f"{load}({a})", right, precision)
        once, zero = self.value(text), self.value(start)
        if once is None or zero is None:
            return []
        accumulated = f"{name} += {text}" if self.chance(2) else f"{name} = {name} * 2 + {text}"
        lines = [f"{name} = {start}", f"for i{name} in range(n):", f"    {accumulated}"]
        return self.block(lines, [name])

    def block(self, lines: list[str], names: list[str]) -> list[str]:
        """Statements that leave these names, if they have a meaning."""
        text = "\n".join(lines)
        scope = self.names_in(text)
        try:
            with np.errstate(all="ignore"):
                exec(text, scope)
        except values.Refused:
            return []
        self.tiles.update({name: scope[name] for name in names})
        return lines

    def within(self, name: str, shape: tuple[int, ...], dtype: DType) -> str:
        """An expression of this shape and type, from others and the tile of this name."""
        for _ in range(3):
            text = self.expression()
            value = self.value(text)
            if value is None or name not in text:
                continue
            whole = text if value.shape == shape else f"({name} + {text})"
            # on the path that isn't taken no later check would see that the sum has no meaning
            if inside(value.shape, shape) and self.value(whole) is not None:
                return f"{whole}.astype(tj.{dtype})"
        return f"({name} {self.one('+-*')} 2).astype(tj.{dtype})"

    def loop(self) -> list[str]:
        old = self.one(n for n, t in self.tiles.items() if not t.dtype.is_fp8 and t.dtype.kind != "bool")
        tile = self.tiles[old]
        name, number = self.name(), self.name("i")
        before = dict(self.tiles)
        self.tiles = {**{n: t for n, t in self.tiles.items() if self.chance(2) or n == old}, name: tile}
        body = [f"{name} = {self.within(name, tile.shape, tile.dtype)}"]
        names = [name]
        head = [f"{name} = {old}"]
        if self.chance(2):
            beside = self.name("y")
            head.append(f"{beside} = {old}")
            self.tiles[beside] = tile
            swap = f"{name}, {beside} = {beside}, {name}"
            extra = f"{beside} = {self.within(beside, tile.shape, tile.dtype)}"
            body += [self.one((swap, extra))]
            names.append(beside)
        if self.chance(4):
            leaves = f"if {number} == 2:\n        {self.one(('break', 'continue'))}"
            body.insert(self.draw(st.integers(0, len(body))), leaves)
        self.tiles = before
        bounds = self.one(("range(n)", "range(3)", "tj.static_range(2)", "range(1, n)"))
        if "static" in bounds:
            body = [line for line in body if not line.startswith("if ")]
        return self.block([*head, f"for {number} in {bounds}:", *(f"    {line}" for line in body)], names)

    def branch(self) -> list[str]:
        old = self.one(n for n, t in self.tiles.items() if not t.dtype.is_fp8 and t.dtype.kind != "bool")
        tile = self.tiles[old]
        name = self.name()
        singles = [n for n, t in self.tiles.items() if t.shape == () and not t.error.any() and not t.dtype.is_fp8]
        test = self.one(("n > 1", "a < 0", f"tj.max({old}) > 1", *(f"{n} > 0" for n in singles)))
        before = dict(self.tiles)
        self.tiles[name] = tile
        arms = [self.within(name, tile.shape, tile.dtype) for _ in range(2)]
        self.tiles = before
        lines = [f"{name} = {old}", f"if {test}:", f"    {name} = {arms[0]}"]
        return self.block([*lines, "else:", f"    {name} = {arms[1]}"] if self.chance(2) else lines, [name])

    def split(self) -> list[str]:
        name = self.one(self.tiles)
        shape = self.tiles[name].shape
        places = [(axis, parts) for axis, n in enumerate(shape) for parts in (2, 3) if n % parts == 0]
        if not places:
            return []
        axis, parts = self.one(places)
        names = [self.name() for _ in range(parts)]
        return self.block([f"{', '.join(names)} = tj.split({name}, {parts}, axis={axis})"], names)

    def staged(self) -> list[str]:
        """Through shared memory."""
        name = self.one(self.tiles)
        tile = self.tiles[name]
        if not tile.shape or self.scope == "thread":
            return []
        buffer, result = self.name("s"), self.name()
        lines = [
            f"{buffer} = tj.alloc_shared({tile.shape}, tj.{tile.dtype})", f"tj.{self.scope}.store({buffer}, {name})",
            self.sync, f"{result} = tj.{self.scope}.load({buffer})",
        ]
        return self.block(lines, [result])

    def store(self, name: str) -> list[str]:
        tile = self.tiles[name]
        region = self.region(tile.shape, tile.dtype, "O")
        options = ""
        if tile.shape and self.chance(3):
            axis = self.draw(st.integers(0, len(tile.shape) - 1))
            index = f"tj.{self.scope}.indices({tile.shape}, {axis})"
            options = f", mask={index} {self.one(('<', '!='))} {self.one(('n', '4'))}"
        view = ""
        if len(tile.shape) == 2 and self.chance(5):
            self.memories.pop()
            region, view, options = self.region(tile.shape[::-1], tile.dtype, "O"), ".T", ""
        return [f"tj.{self.scope}.store({region}, {name}{view}{options})"]

    def update(self) -> list[str]:
        """A part of a tile added to memory, where one instance does so."""
        names = [n for n, t in self.tiles.items() if t.dtype.name in ("int32", "uint32", "int64", "uint64") and t.shape]
        if not names or not self.is_once or self.scope == "thread":
            return []
        name = self.one(names)
        text = self.viewed(name, self.tiles[name])
        part = self.value(text)
        if part is None or not part.shape or part.dtype != self.tiles[name].dtype:
            return []
        memory = self.memory(part.dtype, part.shape, "A").name
        box = ", ".join(f"0:{n}" for n in part.shape)
        mask = f", mask={text} > {self.literal(part.dtype)}" if self.chance(3) else ""
        return self.block([f"tj.atomic.add({memory}[{box}], {text}{mask})"], [])

    def statement(self) -> list[str]:
        ways: tuple[Callable[[], list[str]], ...] = (self.load, self.load, self.made, self.factors)
        if self.tiles:
            ways += (lambda: self.assign(self.expression()),) * 9
            ways += (self.split, self.staged, self.update, self.update)
        if any(not t.dtype.is_fp8 and t.dtype.kind != "bool" for t in self.tiles.values()):
            ways += (self.loop, self.branch)
        return self.one(ways)()

    def program(self, lines: list[str], before: Sequence[str] = ()) -> Program:
        """The kernel of these statements. before: lines that precede its definition."""
        body = [f"    {part}" for line in lines for part in line.splitlines()]
        inside = "\n".join(body)
        used = tuple(m for m in self.memories if re.search(rf"\b{m.name}\b", inside))
        parameters = [*(f"{name}: tj.{value.dtype}" for name, value in self.scalars.items())]
        parameters += [m.parameter for m in sorted(used, key=lambda m: m.pinned)]
        text = "\n".join([*before, f"def kernel({', '.join(parameters)}):", *body, ""])
        layouts = {n: v for n, v in self.layouts.items() if n in text}
        return Program(text, used, self.scalars, layouts, self.threads)


EXPRESSIONS = (
    "operator", "operator", "operator", "operator", "division", "shift", "compare", "where", "extreme", "function",
    "function", "fma", "clamp", "unary", "cast", "cast", "reduce", "reduce", "reduce", "scan", "cat", "product",
    "ternary", "broadcast", "random", "uses", "view", "view", "ptx", "moved",
    "moved", "sort",
)


def broadcasts(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    return all(x == y or 1 in (x, y) for x, y in zip(reversed(a), reversed(b), strict=False))


def inside(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    """Whether a tile of shape `a` broadcasts to `b` itself."""
    return len(a) <= len(b) and all(x in (1, y) for x, y in zip(reversed(a), reversed(b), strict=False))


@st.composite
def programs(draw: st.DrawFn, most_statements: int = 8) -> Program:
    """Any program of a few statements."""
    scope = draw(st.sampled_from(("cta", "cta", "cta", "warp", "warpgroup", "thread")))
    threads = draw(st.sampled_from(THREADS[scope]))
    most = 32 if scope == "thread" else draw(st.sampled_from((64, 300, 1200)))
    drawn = Drawn(draw, scope, threads, most)
    drawn.scalars = {"n": np.int32(draw(st.integers(0, 4))), "a": np.float32(draw(st.sampled_from((-1.5, 0.25, 3.0))))}
    lines: list[str] = []
    while not drawn.tiles:
        lines = drawn.load()
    for _ in range(draw(st.integers(1, most_statements))):
        lines += drawn.statement()
    names = list(drawn.tiles)
    for name in dict.fromkeys([names[-1], *draw(st.lists(st.sampled_from(names), max_size=2))]):
        lines += drawn.store(name)
    return drawn.program(lines)
