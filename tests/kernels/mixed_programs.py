"""Random programs that mix what `tile_programs` keeps apart.

One program has several scopes that pass tiles on through shared memory, roles of one warp, user functions, tiles
that join through nested control flow, reductions by user functions, gathers, scatters, masked atomics, host helpers,
and 64-bit data near the ends of its type that is used as index, loop bound and region start.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.kernels.tile_programs import INTEGERS, Drawn, Program
from tests.reference import values
from tilejit.dtypes import DTYPES, DType

#: name -> type and values of a scalar parameter
SCALARS: dict[str, tuple[type[np.generic], tuple[int, ...]]] = {
    "m": (np.int64, (0, 1, -1, 7, 2**31, -(2**31) - 1, 2**63 - 1, 2**63 - 2, -(2**63), 3 - 2**63)),
    "u": (np.uint32, (0, 1, 5, 255, 2**31, 2**32 - 1, 2**32 - 2)),
    "w": (np.uint64, (0, 3, 2**32, 2**63, 2**64 - 1, 2**64 - 5)),
    "b": (np.int8, (0, 1, -1, 100, 127, -128)),
}

#: combining functions that are associative on integers of any type, some of them not commutative
COMBINES = {
    "added": ("x, y", "x + y"),
    "greatest": ("x, y", "tj.maximum(x, y)"),
    "last": ("x, y", "y"),
    "mixed": ("x, y", "x ^ y"),
    "composed": ("f, g", "(g[0] * f[0], g[0] * f[1] + g[1])"),
}

#: scope -> counts of threads with which every scope of a program has whole instances
THREADS = {("cta", "warp"): (32, 64, 96, 128), ("cta", "warp", "warpgroup"): (128, 256), ("cta", "thread"): (32, 48)}


@dataclass
class Mixed(Drawn):
    """A mixed program while it is drawn.

    Attributes:
        shared: buffers of shared memory that are written, by name.
        outer: tiles of the other scopes.
        helpers: the source of each user function, in an order in which they may call each other.
        in_role: True inside a branch that one warp takes.
    """

    shared: dict[str, values.Tensor] = field(default_factory=dict)
    outer: dict[str, dict[str, values.Tile]] = field(default_factory=dict)
    helpers: dict[str, str] = field(default_factory=dict)
    in_role: bool = False

    @property
    def is_once(self) -> bool:
        return self.in_role or super().is_once

    def names_in(self, text: str) -> dict[str, Any]:
        names = super().names_in(text) | self.shared
        if any(name in text for name in self.helpers):
            exec("\n".join(self.helpers.values()), names)
        return names

    def dtype(self) -> DType:
        return DTYPES[self.one(INTEGERS)] if self.chance(2) else super().dtype()

    def integer(self, depth: int = 2) -> str:
        """A run-time integer of one of the scalars' types."""
        name = self.one([*SCALARS, "n"])
        if depth == 0:
            return name
        inner = self.integer(depth - 1)
        # a literal takes the type of the other operand, which Python's `max` of a literal would not
        return self.one((
            f"({inner} + 1)", f"({inner} * 3)", f"({inner} // 5)", f"({inner} % 7)", f"({inner} - 2)",
            f"min({inner}, {inner} + 1)", f"max({inner}, {inner} - 1)", f"tj.cdiv({inner}, {self.one((1, 2, 7, 64))})",
            f"tj.tile_order({inner} % 12, (4, 3), group=2)[{self.one((0, 1))}]", f"divmod({inner}, 3)[1]",
            f"({inner} << 1)", f"({inner} >> 3)", f"({inner} if {inner} + 1 > {inner} else {inner} // 3)",
        ))

    def small(self, most: int) -> str:
        """A run-time integer from 0 to most - 1 that data decides."""
        # the literal has to fit the narrowest type
        return f"{self.integer()} % {min(most, 100)}"

    def literal(self, dtype: DType) -> str:
        if dtype.is_integer and self.chance(5):
            return self.one(("m", "u", "b"))
        return super().literal(dtype)

    def operand(self, like: str | None = None) -> str:
        text = super().operand(like)
        return f"({text} + {self.integer(1)})" if self.chance(12) else text

    def region_at(self) -> list[str]:
        """A load from a start that data decides."""
        start = self.name("p")
        count = self.one((4, 8, 32))
        dtype = self.dtype()
        memory = self.memory(dtype, (count + self.one((0, 2, 5)),), "T").name
        name = self.name()
        lines = [f"{start} = {self.small(6)}", f"{name} = tj.{self.scope}.load({memory}[{start} : {start} + {count}])"]
        return self.block(lines, [name])

    def helper(self) -> list[str]:
        """A call of a user function that returns early, loops, or calls another."""
        old = self.one(self.arithmetic())
        other = self.one(self.twins(old))
        name = self.name("f")
        op, second = self.one("+-*"), self.one("+-*")
        dtype = self.tiles[old].dtype
        body = [f"z = (x {op} y).astype(x.dtype)" if self.chance(2) else f"z = tj.where(x < y, x, y {op} x)"]
        if self.chance(2):
            body += [f"if k {self.one(('> 1', '< 0', '% 2 == 0'))}:", f"    return x {second} y"]
        if self.chance(2):
            body += ["for i in range(k):", f"    z = (z {second} {self.one(('x', 'y', '2'))}).astype(x.dtype)"]
        earlier = [f for f in self.helpers if f.startswith("f")]
        ends = f"return {self.one(earlier)}(z, y, k)" if earlier and self.chance(2) else "return z"
        lines = ["@tj.function", f"def {name}(x, y, k):", *(f"    {line}" for line in [*body, ends])]
        self.helpers[name] = "\n".join(lines)
        call = f"{name}({old}, {other}, {self.one(('n', self.small(4)))}).astype(tj.{dtype})"
        made = self.assign(call)
        if not made:
            del self.helpers[name]
        return made

    def arithmetic(self) -> list[str]:
        """Tiles that arithmetic works on."""
        return [n for n, t in self.tiles.items() if not t.dtype.is_fp8 and t.dtype.kind != "bool"]

    def joins(self) -> list[str]:
        """Nested loops and branches that carry two or three tiles, which may be left and swapped."""
        old = self.one(self.arithmetic())
        tile = self.tiles[old]
        names = [self.name("j") for _ in range(self.one((2, 3)))]
        before = dict(self.tiles)
        self.tiles.update(dict.fromkeys(names, tile))
        twins = self.twins(old)
        head = [f"{name} = {self.one([t for t in twins if t not in names])}" for name in names]
        body = self.nest(self.one((1, 2, 3)), names, tile, "")
        self.tiles = before
        return self.block([*head, *body], names)

    def nest(self, depth: int, names: list[str], tile: values.Tile, leaves: str) -> list[str]:
        lines: list[str] = []
        for _ in range(self.one((1, 2))):
            lines += self.step(depth, names, tile, leaves)
        return lines

    def step(self, depth: int, names: list[str], tile: values.Tile, leaves: str) -> list[str]:
        kind = self.one(("assign", "assign", "swap", *(("if", "for", "while", "static") if depth else ())))
        inner_leaves = "loop" if kind in ("for", "while") else "" if kind == "static" else leaves
        first, second = self.one(names), self.one(names)
        if kind == "assign":
            return [f"{first} = {self.within(first, tile.shape, tile.dtype)}"]
        if kind == "swap":
            return [f"{first}, {second} = {second}, {first}"]
        body = [f"    {line}" for line in self.nest(depth - 1, names, tile, inner_leaves)]
        if inner_leaves == "loop" and self.chance(3):
            body += [f"    if {self.small(3)} == 1:", f"        {self.one(('break', 'continue'))}"]
        index = self.name("i")
        if kind == "if":
            lines = [f"if {self.condition()}:", *body]
            if self.chance(2):
                lines += ["else:", *(f"    {line}" for line in self.nest(depth - 1, names, tile, leaves))]
            return lines
        if kind == "while":
            return [f"{index} = 0", f"while {index} < {self.small(3)}:", f"    {index} += 1", *body]
        bounds = self.one((f"range({self.small(3)})", "range(2)", "range(2, 0, -1)", f"range({self.small(4)}, 5, 2)"))
        return [f"for {index} in {'tj.static_range(2)' if kind == 'static' else bounds}:", *body]

    def condition(self) -> str:
        text = self.integer(1)
        return self.one(("n > 1", "a < 0", f"{text} + 1 > {text}", f"{self.small(3)} == 1", f"{text} * 3 % 3 == 0"))

    def user_reduction(self) -> list[str]:
        names = [n for n, t in self.tiles.items() if t.dtype.is_integer and t.shape and not t.error.any()]
        if not names:
            return []
        name = self.one(names)
        function = self.one(COMBINES)
        parameters, result = COMBINES[function]
        self.helpers[function] = f"@tj.function\ndef {function}({parameters}):\n    return {result}"
        axis = self.draw(st.integers(0, len(self.tiles[name].shape) - 1))
        kept = self.one(("", ", keepdims=True"))
        if function != "composed":
            return self.assign(f"tj.reduce({name}, {axis}, {function}{kept})")
        twin = self.one([n for n in self.twins(name) if n in names])
        made = [self.name(), self.name()]
        return self.block([f"{', '.join(made)} = tj.reduce(({name}, {twin}), {axis}, {function}{kept})"], made)

    def vector(self) -> tuple[list[str], str]:
        """A tile of integers along one axis, and the statements that make it."""
        names = [n for n, t in self.tiles.items() if t.dtype.is_integer and len(t.shape) == 1 and not t.error.any()]
        if names and self.chance(2):
            return [], self.one(names)
        dtype = DTYPES[self.one(INTEGERS)]
        lines = self.assign(f"tj.{self.scope}.load({self.region(self.shape(1), dtype, 'T')})")
        return lines, lines[0].split(" = ")[0]

    def rows(self, index: str) -> tuple[str, str, int]:
        """The text of an index of rows and of its mask, and the number of rows."""
        count = self.one((1, 3, 8, 13, 64))
        if self.chance(2):
            return f"({index} % {count})", "", count
        wider = f"({index} % {count + 3})"
        return wider, f"({wider} < {count})", count

    def gather(self) -> list[str]:
        lines, vector = self.vector()
        index, mask, count = self.rows(vector)
        shape = self.tiles[vector].shape
        others = (self.one((1, 2, 4, 5)),) if self.chance(2) and math.prod(shape) * 5 <= self.most else ()
        memory = self.memory(self.dtype(), (count, *others), "T").name
        units, columns = ("[:, None]", f"[:, 0:{others[0]}]") if others else ("", "")
        options = f", mask={mask}{units}" if mask else ""
        if options and self.chance(2):
            options += ", fill=1"
        return lines + self.assign(f"tj.{self.scope}.load({memory}.at({index}){columns}{options})")

    def scatter(self) -> list[str]:
        """A store to rows in another order, no row twice."""
        names = [n for n, t in self.tiles.items() if len(t.shape) in (1, 2) and math.gcd(t.shape[0], 5) == 1]
        if not names:
            return []
        name = self.one(names)
        tile = self.tiles[name]
        count = tile.shape[0]
        memory = self.memory(tile.dtype, (count, *tile.shape[1:]), "O").name
        index = f"((tj.{self.scope}.indices(({count},), 0) * 5 + {self.small(count)}) % {count})"
        units, columns = ("", "") if len(tile.shape) == 1 else ("[:, None]", f"[:, 0:{tile.shape[1]}]")
        mask = f", mask=tj.{self.scope}.indices(({count},), 0){units} != {self.one((0, 2))}" if self.chance(2) else ""
        return self.block([f"tj.{self.scope}.store({memory}.at({index}){columns}, {name}{mask})"], [])

    def scattered_update(self) -> list[str]:
        """Masked atomics on rows that may coincide."""
        if not self.is_once or self.scope == "thread":
            return []
        lines, vector = self.vector()
        index, mask, count = self.rows(vector)
        shape = self.tiles[vector].shape
        name = self.one([n for n, t in self.tiles.items() if t.shape == shape and t.dtype.is_integer])
        dtype = DTYPES[self.one(("int32", "uint32", "int64", "uint64", "int16", "uint16"))]
        memory = self.memory(dtype, (count,), "A").name
        options = f", mask={mask}" if mask else ""
        update = f"tj.atomic.{self.one(values.ATOMICS)}({memory}.at({index}), {name}.astype(tj.{dtype}){options})"
        return lines + self.block([update], [])

    def pieces(self) -> list[str]:
        """Two tiles joined, split the same or another way, and in another shape."""
        first = self.one([n for n, t in self.tiles.items() if t.shape] or [""])
        if not first or 2 * self.tiles[first].value.size > self.most:
            return []
        shape = self.tiles[first].shape
        axis = self.draw(st.integers(-len(shape), len(shape) - 1))
        whole, parts = self.name(), [self.name(), self.name()]
        other = self.draw(st.integers(-len(shape), len(shape) - 1))
        lines = [f"{whole} = tj.cat({first}, {self.one(self.twins(first))}, {axis})"]
        if (2 if other % len(shape) == axis % len(shape) else 1) * shape[other] % 2:
            other = axis
        lines += [f"{', '.join(parts)} = tj.split({whole}, 2, axis={other})"]
        reshaped = self.name()
        lines += [f"{reshaped} = {whole}.reshape({self.other_shape(2 * math.prod(shape))})"]
        return self.block(lines, [whole, *parts, reshaped])

    def hand_over(self) -> list[str]:
        """A tile stored to shared memory for the other scopes."""
        names = [n for n, t in self.tiles.items() if t.shape]
        if not names or self.scope == "thread" or self.in_role:
            return []
        name, buffer = self.one(names), self.name("S")
        tile = self.tiles[name]
        lines = [
            f"{buffer} = tj.alloc_shared({tile.shape}, tj.{tile.dtype})", f"tj.{self.scope}.store({buffer}, {name})",
            "tj.cta_sync()",
        ]
        scope = self.names_in("\n".join(lines))
        exec("\n".join(lines), scope)
        self.shared[buffer] = scope[buffer]
        return lines

    def taken_over(self) -> list[str]:
        """A tile that another scope has stored."""
        buffers = [n for n, t in self.shared.items() if math.prod(t.shape) <= self.most]
        return self.assign(f"tj.{self.scope}.load({self.one(buffers)})") if buffers else []

    def statement(self) -> list[str]:
        ways: tuple[Callable[[], list[str]], ...] = (super().statement, super().statement, super().statement)
        ways += (self.region_at, self.taken_over, self.gather, self.scatter, self.hand_over)
        ways += (self.scattered_update, self.scattered_update, self.user_reduction, self.user_reduction, self.pieces)
        if self.arithmetic():
            ways += (self.helper, self.helper, self.joins, self.joins)
        # a statement without a meaning is drawn again
        return self.one(ways)() or self.one(ways)() or self.one(ways)()

    def section(self, scope: str) -> list[str]:
        """Statements of one scope, which goes on with its own tiles."""
        self.outer[self.scope] = self.tiles
        self.scope, self.tiles = scope, self.outer.get(scope, {})
        lines: list[str] = []
        while not self.tiles:
            lines += self.load()
        for _ in range(self.draw(st.integers(1, 4))):
            lines += self.statement()
        return lines

    def role(self) -> list[str]:
        """A section that one warp carries out; its tiles end with it."""
        before, self.in_role, self.sync = dict(self.tiles), True, "tj.warp_sync()"
        self.outer[self.scope], self.tiles = self.tiles, {}
        scope, self.scope = self.scope, "warp"
        kept = self.outer.pop("warp", {})
        lines = [*self.section("warp"), *self.stores()]
        self.outer["warp"], self.in_role, self.sync = kept, False, "tj.cta_sync()"
        self.scope, self.tiles = scope, before
        number = self.draw(st.integers(0, self.threads // 32 - 1))
        return [f"if tj.warp_id() == {number}:", *(f"    {part}" for line in lines for part in line.splitlines())]

    def stores(self) -> list[str]:
        names = list(self.tiles)
        chosen = dict.fromkeys([names[-1], self.one(names)])
        return [line for name in chosen for line in self.store(name)]


@st.composite
def programs(draw: st.DrawFn) -> Program:
    """Any mixed program of up to five sections."""
    scopes = draw(st.sampled_from(tuple(THREADS)))
    threads = draw(st.sampled_from(THREADS[scopes]))
    most = 32 if "thread" in scopes else draw(st.sampled_from((64, 200, 600)))
    drawn = Mixed(draw, scopes[0], threads, most)
    drawn.scalars = {"n": np.int32(draw(st.integers(0, 4))), "a": np.float32(draw(st.sampled_from((-1.5, 0.25))))}
    drawn.scalars |= {name: kind(draw(st.sampled_from(ends))) for name, (kind, ends) in SCALARS.items()}
    lines: list[str] = []
    for _ in range(draw(st.integers(1, 5))):
        if "warp" in scopes and threads % 32 == 0 and drawn.chance(4):
            lines += drawn.role()
        else:
            lines += drawn.section(drawn.one(scopes))
            lines += drawn.stores() if drawn.chance(2) else []
    lines += drawn.stores() if drawn.tiles else []
    return drawn.program(lines, list(drawn.helpers.values()))
