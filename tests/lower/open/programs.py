"""Programs on open tiles that are drawn at random, with what they must compute."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from tests.lower.open.kernels import kernel, tensor, tile, whole
from tilejit.ir.nodes import Kernel

Array = np.ndarray
Shape = tuple[int, ...]

_BINARY: dict[str, Callable[[Array, Array], Array]] = {
    "add": np.add, "sub": np.subtract, "maximum": np.maximum, "minimum": np.minimum,
}


@dataclass
class Program:
    """Statements so far. values: what each tile holds. arrays: of the tensors. expected: of those that are written.

    converts: whether tiles may be wanted in two layouts: transposes, halves, rows beside columns.
    """

    draw: random.Random
    converts: bool
    values: dict[str, Array] = field(default_factory=dict)
    arrays: dict[str, Array] = field(default_factory=dict)
    expected: dict[str, Array] = field(default_factory=dict)
    params: list[str] = field(default_factory=list)
    tiles: list[str] = field(default_factory=list)
    body: list[str] = field(default_factory=list)

    def new(self, values: Array) -> str:
        """A fresh tile for values; its name."""
        name = f"t{len(self.values)}"
        self.tiles.append(tile(name, values.shape))
        self.values[name] = values.astype(np.float32)
        return name

    def load(self, shape: Shape) -> None:
        name = f"A{len(self.arrays)}"
        values = [self.draw.randint(-4, 4) for _ in range(int(np.prod(shape)))]
        self.arrays[name] = np.array(values, np.float32).reshape(shape)
        self.params.append(tensor(name, len(shape), "float32", 4, 1))
        self.body.append(f"cta.copy {whole(self.new(self.arrays[name]), shape)}, {whole(name, shape)}")

    def store(self, name: str) -> None:
        values, tensor_name = self.values[name], f"O{name}"
        self.arrays[tensor_name], self.expected[tensor_name] = np.zeros_like(values), values
        self.params.append(tensor(tensor_name, values.ndim, "float32", 4, 1))
        self.body.append(f"cta.copy {whole(tensor_name, values.shape)}, {whole(name, values.shape)}")

    def view(self, of: str, shape: Shape, dims: str) -> str:
        name = f"v{len(self.tiles)}"
        self.tiles.append(f"view {name}: local float32{list(shape)} open cta {dims} align 16 of {of}")
        return whole(name, shape)

    def operand(self, shape: Shape) -> tuple[str, Array]:
        """Something that broadcasts to a shape: a tile, a row, a column, a transpose."""
        found: list[tuple[str, str]] = []
        for name, values in self.values.items():
            if values.shape == shape or values.shape == shape[1:]:
                found.append((name, "itself"))
            if len(shape) == 2 and values.shape == shape[:1] and (self.converts or shape[0] != shape[1]):
                found.append((name, "column"))
            if self.converts and len(shape) == 2 and values.shape == shape[::-1]:
                found.append((name, "transpose"))
        name, how = self.draw.choice(found)
        values = self.values[name]
        if how == "column":
            return self.view(name, (shape[0], 1), "(0, None)"), values[:, None]
        if how == "transpose":
            return self.view(name, shape, "(1, 0)"), values.T
        return whole(name, values.shape), values

    def elementwise(self, shape: Shape) -> None:
        name = self.draw.choice(list(_BINARY))
        (a, x), (b, y) = self.operand(shape), self.operand(shape)
        made = self.new(np.broadcast_to(_BINARY[name](x, y), shape))
        self.body.append(f"cta.{name} {whole(made, shape)}, {a}, {b}")

    def matrix(self) -> tuple[str, Array]:
        return self.draw.choice([(name, values) for name, values in self.values.items() if values.ndim == 2])

    def reduce(self) -> None:
        (of, values), axis, name = self.matrix(), self.draw.choice([0, 1]), self.draw.choice(["sum", "max"])
        made = self.new(getattr(values, name)(axis=axis))
        self.body.append(f"cta.{name} {whole(made, self.values[made].shape)}, {whole(of, values.shape)}; axis=({axis})")

    def half(self) -> None:
        of, values = self.matrix()
        (rows, columns), start = values.shape, self.draw.choice([0, 1])
        width = max(1, columns // 2)
        start *= columns - width
        made = self.new(-values[:, start : start + width])
        self.body.append(f"cta.neg {whole(made, (rows, width))}, {of}[0 +: {rows}, {start} +: {width}]")

    def fill(self, shape: Shape) -> None:
        self.body.append(f"cta.fill {whole(self.new(np.full(shape, 2.0)), shape)}, 2.0")


def program(seed: int, *, converts: bool) -> tuple[Kernel, Program]:
    """A kernel, and what its arrays hold before and must hold afterwards."""
    draw = random.Random(seed)
    threads = draw.choice([16, 32, 64, 96, 100, 128])
    rows, columns = draw.choice([3, 5, 8, 16, 24, 32]), draw.choice([4, 7, 16, 20, 32, 48])
    if converts and draw.random() < 0.3:
        columns = rows
    made = Program(draw, converts)
    for shape in ((rows, columns), (rows, columns), (columns,), (rows,)):
        made.load(shape)
    for _ in range(draw.randint(2, 7)):
        kind = draw.random()
        if kind < 0.5:
            made.elementwise(draw.choice([(rows, columns)] * 3 + [(rows,), (columns,)]))
        elif kind < 0.75:
            made.reduce()
        elif kind < 0.85 or not converts:
            made.fill((rows, columns))
        else:
            made.half()
    for name in list(made.values)[-3:]:
        made.store(name)
    return kernel(threads, *made.params, *made.tiles, *made.body), made
