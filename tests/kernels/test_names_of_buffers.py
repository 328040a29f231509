"""Names that are one buffer on one path and another on the other: read as Python reads them, or refused."""

from __future__ import annotations

import random

import numpy as np
import pytest

import tilejit as tj
from tests.support.programs import source_of
from tilejit.errors import KernelTypeError

#: the buffers of a program by how its names are given them, with their shapes
WHOLE = {"r": (4,), "s": (4,), "t": (4,)}
ROWS: dict[str, tuple[int, ...]] = {"u": (2, 4), "v": (2, 4), "x": (6,)}
PLACES = {
    "whole": ("r", "s", "t"),
    "rows": ("u[0]", "u[1]", "u[n % 2]", "u[C[0] % 2]", "v[0]", "v[C[1] % 2]"),
    "parts": ("r[0:4]", "t", "x[2:6]", "x[n % 3 : n % 3 + 4]", "u[1]", "u[n % 2]"),
    "rows of one": ("u[0]", "u[1]", "u[n % 2]", "u[C[0] % 2]"),
}
MADE = {"local": "tj.alloc_local({}, tj.int32)", "shared": "tj.alloc_shared({}, tj.int32)", "global": "{}"}

HELPERS = """    def first(a, b, c, x):
        if x > 2:
            return a
        if x > 0:
            return b
        return c
    def last(a, b, x):
        y = a
        for j in range(x % 4):
            if j == 2:
                return b
            y = b if j < 1 else y
        return y
"""


class Program:
    """A random program whose names q and p are given buffers and rows of buffers.

    writes: it writes through buffers and names after these were given.
    """

    def __init__(self, seed: int, space: str, places: str, *, writes: bool) -> None:
        self.random, self.space, self.writes = random.Random(seed), space, writes
        self.places = PLACES[places]
        buffers = {place[0] for place in self.places}
        self.shapes = {name: shape for name, shape in (WHOLE | ROWS).items() if name in buffers}
        self.lines: list[str] = []
        self.loops = 0
        self.reads = 0
        for name in "qp":
            self.emit(1, f"{name} = {self.random.choice(self.places)}")
        self.block(1, 5)
        self.make_read(1)

    @property
    def text(self) -> str:
        head = [f"def k(out, C, n, {', '.join(f'{name}0' for name in self.shapes)}):\n", HELPERS]
        for name, shape in self.shapes.items():
            made = MADE[self.space].format(f"{name}0" if self.space == "global" else shape)
            head.append(f"    {name} = {made}\n")
            if self.space != "global":
                head += [f"    {name}[{at}] = {name}0[{at}]\n" for at in _indices(shape)]
        return "".join([*head, "    o = 0\n", *self.lines])

    def emit(self, depth: int, line: str) -> None:
        self.lines.append("    " * depth + line + "\n")

    def block(self, depth: int, most: int) -> None:
        for _ in range(self.random.randint(1, most)):
            kinds = ["give", "give", "read", "choose", "swap", "helper"]
            kinds += ["if", "if", "loop", "while"] if depth < 4 else []
            kinds += ["leave"] if self.loops else []
            kinds += ["write"] if self.writes else []
            getattr(self, f"make_{self.random.choice(kinds)}")(depth)

    def name(self) -> str:
        return self.random.choice("qp")

    def place(self) -> str:
        return self.random.choice([*self.places, "q", "p"])

    def condition(self) -> str:
        return f"C[{self.random.randrange(8)}] > {self.random.randrange(3)}"

    def make_read(self, depth: int) -> None:
        for name in "qp":
            self.emit(depth, f"out[o] = out[o] * 3 + {name}[{self.random.choice(['0', '1', 'n % 4', '3'])}]")
        self.emit(depth, "o = (o + 1) % 16")

    def make_give(self, depth: int) -> None:
        self.emit(depth, f"{self.name()} = {self.place()}")

    def make_choose(self, depth: int) -> None:
        self.emit(depth, f"{self.name()} = {self.place()} if {self.condition()} else {self.place()}")

    def make_swap(self, depth: int) -> None:
        self.emit(depth, "q, p = p, q")

    def make_helper(self, depth: int) -> None:
        values = [self.place() for _ in range(3)]
        which = f"C[{self.random.randrange(8)}]"
        call = f"first({', '.join(values)}, {which})"
        self.emit(depth, f"{self.name()} = {self.random.choice([call, f'last({values[0]}, {values[1]}, {which})'])}")

    def make_if(self, depth: int) -> None:
        self.emit(depth, f"if {self.condition()}:")
        self.block(depth + 1, 2)
        if self.random.random() < 0.5:
            self.emit(depth, "else:")
            self.block(depth + 1, 2)

    def make_loop(self, depth: int) -> None:
        self.emit(depth, f"for i{depth} in range(n % 4):")
        self.body(depth + 1)

    def make_while(self, depth: int) -> None:
        self.emit(depth, f"w{depth} = n")
        self.emit(depth, f"while w{depth} > 0:")
        self.emit(depth + 1, f"w{depth} = w{depth} - 2")
        self.body(depth + 1)

    def body(self, depth: int) -> None:
        self.loops += 1
        self.block(depth, 3)
        self.loops -= 1

    def make_leave(self, depth: int) -> None:
        self.emit(depth, f"if {self.condition()}:")
        self.emit(depth + 1, self.random.choice(["break", "continue"]))

    def make_write(self, depth: int) -> None:
        buffers = [f"{name}[{self.random.choice(list(_indices(shape)))}]" for name, shape in self.shapes.items()]
        buffers += [f"{name}[{self.random.randrange(4)}]" for name in "qp"]
        self.emit(depth, f"{self.random.choice(buffers)} = o + {self.random.randrange(50)}")


def _indices(shape: tuple[int, ...]) -> list[str]:
    return [", ".join(map(str, at)) for at in np.ndindex(*shape)]


class _InPython:
    """What a program's text calls, as NumPy has it."""

    int32 = np.int32

    @staticmethod
    def alloc(shape: tuple[int, ...], dtype: type) -> np.ndarray:
        return np.zeros(shape, dtype)

    alloc_local = alloc_shared = alloc


def arguments(program: Program) -> list[np.ndarray | int]:
    numbers = np.random.default_rng(program.random.randrange(1 << 30))
    buffers = [numbers.integers(0, 100, shape, np.int32) for shape in program.shapes.values()]
    return [np.zeros(16, np.int32), numbers.integers(0, 4, 8, np.int32), int(numbers.integers(0, 8)), *buffers]


def runs_as_in_python(program: Program) -> bool:
    """Whether the program is taken; AssertionError where it then does something else than Python does."""
    given = arguments(program)
    expected = [a.copy() if isinstance(a, np.ndarray) else a for a in given]
    source_of(program.text, tj=_InPython)(*expected)
    try:
        with tj.use_device("sim"):
            tj.kernel(threads=1)(source_of(program.text))[1](*given)
    except KernelTypeError as error:
        assert "path" in str(error) and "line " in str(error), f"{program.text}\n{error}"
        assert "one buffer with a stage dimension, as in s[k % 2]" in error.hint, f"{program.text}\n{error}"
        return False
    for got, want in zip(given, expected, strict=True):
        np.testing.assert_array_equal(got, want, program.text)
    return True


ONE_BUFFER = [("local", "rows of one"), ("shared", "rows of one"), ("global", "rows of one")]
SEVERAL = [
    ("local", "whole"), ("local", "parts"), ("shared", "whole"), ("shared", "rows"), ("global", "whole"),
    ("global", "rows"),
]


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(("space", "places"), SEVERAL + ONE_BUFFER)
def test_names_that_are_only_read_show_what_python_shows(space: str, places: str, seed: int) -> None:
    assert runs_as_in_python(Program(seed, space, places, writes=False))


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(("space", "places"), ONE_BUFFER)
def test_rows_of_one_buffer_can_be_written(space: str, places: str, seed: int) -> None:
    assert runs_as_in_python(Program(seed, space, places, writes=True))


@pytest.mark.parametrize(("space", "places"), SEVERAL)
def test_what_is_written_shows_what_python_shows_or_is_refused(space: str, places: str) -> None:
    taken = [runs_as_in_python(Program(seed, space, places, writes=True)) for seed in range(8, 14)]
    assert any(taken) and not all(taken)


@tj.kernel(threads=32)
def tiles_of_tensors(OUT, A, B, n):
    q = A if n > 0 else B
    tj.cta.store(OUT[0:4, 0:8], tj.cta.load(q[0:4, 0:8]))
    tj.cta.copy(OUT[4:8, 0:4], q.T[6:10, 0:4])
    if tj.thread_id() == 0:
        OUT[8, 0] = q.shape[1]
        OUT[8, 1] = q.strides[0]
        OUT[8, 2] = q[7, n]


@pytest.mark.parametrize("n", [0, 1])
def test_tiles_are_read_from_the_tensor_that_a_name_is(n: int) -> None:
    a, b = np.arange(64, dtype=np.float32).reshape(8, 8), -np.arange(96, dtype=np.float32).reshape(8, 12)
    b = np.asfortranarray(b)
    out, expected, q = np.zeros((9, 8), np.float32), np.zeros((9, 8), np.float32), a if n else b
    with tj.use_device("sim"):
        tiles_of_tensors[1](out, a, b, n)
    expected[:4] = q[:4, :8]
    expected[4 : 4 + q.shape[1] - 6 if n else 8, :4] = q.T[6:10, :4]
    expected[8, :3] = q.shape[1], q.strides[0] // 4, q[7, n]
    np.testing.assert_array_equal(out, expected)


@tj.kernel(threads=32)
def tiles_of_shared_buffers(OUT, A, n):
    s = tj.alloc_shared((4, 8), A.dtype)
    t = tj.alloc_shared((4, 8), A.dtype)
    tj.cta.copy(s, A[0:4, 0:8])
    tj.cta.copy(t, A[4:8, 0:8])
    tj.cta_sync()
    q = s
    for i in range(n):
        q = t if i % 2 == 0 else s
    tj.cta.store(OUT[0:4, 0:8], tj.cta.load(q) + tj.cta.load(s))
    tj.cta.copy(OUT[4:8, 0:4], q[:, 4:8])
    tj.cta.copy(OUT[4:8, 4:8], q.T[0:4, 0:4])
    tj.cta.copy(OUT[8:10, 0:4], q.view((8, 4))[2:4, :])


@pytest.mark.parametrize("n", [0, 1, 2])
def test_tiles_are_read_from_the_shared_buffer_that_a_name_is(n: int) -> None:
    a = np.arange(64, dtype=np.float32).reshape(8, 8)
    out, expected = np.zeros((10, 8), np.float32), np.zeros((10, 8), np.float32)
    with tj.use_device("sim"):
        tiles_of_shared_buffers[1](out, a, n)
    q = a[4:] if n % 2 else a[:4]
    expected[:4] = q + a[:4]
    expected[4:8, :4], expected[4:8, 4:8] = q[:, 4:], q.T[:4, :4]
    expected[8:, :4] = q.reshape(8, 4)[2:4]
    np.testing.assert_array_equal(out, expected)


@tj.kernel(threads=32)
def two_stages(OUT, A, n):
    stages = tj.alloc_shared((2, 8), A.dtype)
    i = tj.thread_id()
    now, after = stages[0], stages[1]
    if i < 8:
        now[i] = 0
    tj.cta_sync()
    for k in range(n):
        if i < 8:
            after[i] = now[7 - i] + A[k, i]
        tj.cta_sync()
        now, after = after, now
    if i < 8:
        OUT[i] = now[i]


@tj.function
def first_row(A, least):
    for i in range(8):
        if A[i, 0] >= least:
            return A[i, :]
    return A[0, :]


@tj.kernel(threads=32)
def row_of_a_helper(A: tj.Tensor = tj.spec((8, 8), tj.float32), least: tj.float32 = 0):  # noqa: B008
    row = first_row(A, least)
    tj.cta_sync()
    if tj.thread_id() < 8:
        row[tj.thread_id()] = -1


def test_rows_of_one_buffer_change_places() -> None:
    a, out, now = np.random.default_rng(0).random((5, 8), np.float32), np.zeros(8, np.float32), np.zeros(8, np.float32)
    with tj.use_device("sim"):
        two_stages[1](out, a, 5)
    for row in a:
        now = now[::-1] + row
    np.testing.assert_array_equal(out, now)


@pytest.mark.parametrize(("least", "row"), [(20, 3), (0, 0), (1000, 0)])
def test_a_helper_returns_the_row_that_it_came_to(least: float, row: int) -> None:
    a = np.arange(64, dtype=np.float32).reshape(8, 8)
    expected = a.copy()
    expected[row] = -1
    with tj.use_device("sim"):
        row_of_a_helper[1](a, least)
    np.testing.assert_array_equal(a, expected)


def refused(text: str, error: type[tj.TilejitError] = KernelTypeError) -> tj.TilejitError:
    """The error of a kernel on OUT, A, B and n that begins with two shared buffers; `# here` marks its line."""
    head = ["def k(OUT, A, B, n):", "s = tj.alloc_shared((8,), tj.float32)", "t = tj.alloc_shared((8,), tj.float32)"]
    lines = [*head, *text.split("\n")]
    with tj.use_device("sim"), pytest.raises(error) as caught:
        kernel = tj.kernel(threads=32)(source_of("\n    ".join(lines) + "\n"))
        kernel[1](*(np.zeros((8, 8), np.float32) for _ in range(3)), 1)
    assert "# here" in lines[caught.value.span.line - 1], caught.value
    return caught.value


@pytest.mark.parametrize("use", [
    "tj.cta.fill(q, 1)", "q[0] = 1", "tj.atomic.add(q[0], 1)", "tj.cta.copy(q[0:4], s[0:4])",
    "tj.store_release(q[0], 1)", "tj.cta.store(q, tj.cta.zeros((8,), tj.float32))", "(q, 1)[0][0] = 1",
    "q.view((4, 2))[0, 0] = 1",
])
def test_a_name_of_two_buffers_is_not_written(use: str) -> None:
    for given in ("q = s if n > 0 else t\n", "q = s\nif n > 0:\n    q = t\n"):
        error = refused(f"{given}{use}  # here")
        assert "q is s (line 2) on one path, t (line 3) on another" in error.message or (
            "q is t (line 3) on one path, s (line 2) on another" in error.message
        )
    error = refused(f"q = s\nfor i in range(n):\n    {use}  # here\n    q = t")
    assert "q is s (line 2) on one path, t (line 3) on another" in error.message


def test_it_is_not_read_once_a_buffer_is_written() -> None:
    error = refused("q = s if n > 0 else t\nt[0] = 1\nOUT[0, 0] = q[0]  # here")
    assert "line 5 writes t before q is read here" in error.message
    error = refused("q = A if n > 0 else B\nB[0, 0] = 1\nOUT[0, 0] = q[0, 0]  # here")
    assert "line 5 writes B before q is read here" in error.message


def test_a_buffer_of_each_iteration_is_not_taken_for_the_previous_one() -> None:
    refused("q = s\nfor i in range(n):\n    u = tj.alloc_shared((8,), tj.float32)\n    u[0] = i\n"
            "    OUT[0, 0] = q[0]  # here\n    q = u")


@pytest.mark.parametrize(("other", "what"), [
    ("tj.alloc_shared((8,), tj.float16)", "float16"),
    ("tj.alloc_shared((4,), tj.float32)", "of shape (4)"),
    ("tj.alloc_shared((8,), tj.float32, layout=tj.S[(8,) : (2,)])", "layout S[8 : 2]"),
    ("tj.alloc_local((8,), tj.float32)", "a local tile"),
    ("tj.cta.load(A[0, 0:8])", "a local tile"),
    ("A[0, 0:8]", "a global region"),
    ("3", "the constant 3"),
])
def test_places_that_differ_in_more_are_refused_with_both_lines(other: str, what: str) -> None:
    error = refused(f"q = s\nif n > 0:\n    q = {other}\nOUT[0, 0] = q[0]  # here")
    assert what in error.message and "line 6" in error.message and "line 4" in error.message


def test_threads_that_chose_otherwise_don_t_load_together() -> None:
    error = refused("q = s if tj.lane_id() < 16 else t  # here\nx = tj.cta.load(q)", tj.DispatchError)
    assert "isn't uniform across the cta" in error.message


@tj.kernel(threads=1)
def tuples_that_leave_a_loop(OUT, n):
    x = 0
    while True:
        if n < 5:
            pair = (x, 1)
            x = x + 5
            break
        if n < 10:
            pair = (x, 2)
            x = x + 50
            break
        x = x + 1
        n = n - 1
    OUT[0] = pair[0]
    OUT[1] = pair[1]
    OUT[2] = x


@pytest.mark.parametrize(("n", "expected"), [(3, (0, 1, 5)), (7, (0, 2, 50)), (12, (3, 2, 53))])
def test_a_tuple_that_leaves_a_loop_keeps_what_it_held(n: int, expected: tuple[int, ...]) -> None:
    out = np.zeros(3, np.int32)
    with tj.use_device("sim"):
        tuples_that_leave_a_loop[1](out, n)
    assert tuple(out) == expected
