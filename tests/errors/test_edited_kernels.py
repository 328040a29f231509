"""Kernels with tokens deleted, doubled, swapped or exchanged compile, or say why not: nothing else comes out."""

from __future__ import annotations

import io
import re
import tokenize
import warnings

from hypothesis import given, settings
from hypothesis import strategies as st

import tilejit as tj
from tests.support.marked import execute, kernel_text
from tests.support.profiles import times

ARGUMENTS = (tj.spec((64, 64), tj.float32), tj.spec((64, 64), tj.float32), tj.int32)

BODIES = [
    """
staged = tj.alloc_shared((8, 64), A.dtype)
x = tj.alloc_local((8, 64), tj.float32, layout=S[(8, 8, 8) : (8 @ tx, 1 @ tx, 1)])
tj.cta.copy(staged, A.tile((8, 64), (tj.cta_id(1), tj.cta_id(0))))
tj.cta_sync()
tj.cta.copy(x, staged)
tj.cta.fma(x, x, 2.0, 0.5)
tj.cta.copy(B.tile((8, 64), (tj.cta_id(1), 0)), x)
""",
    """
i = tj.cta_id(0) * 64 + tj.thread_id()
total = 0.0
for j in range(n):
    if A[i, j] < 0 or j % 3 == 1:
        continue
    total += A[i, j] if j > 2 else tj.sqrt(A[i, j])
B[i, 0] = total
""",
    """
row = tj.alloc_shared((64,), tj.float32)
row[tj.thread_id()] = A[n, tj.thread_id()]
tj.cta_sync()
step = 32
while step > 0:
    if tj.thread_id() < step:
        row[tj.thread_id()] += row[tj.thread_id() + step]
    tj.cta_sync()
    step //= 2
if tj.thread_id() == 0:
    B[n, 0] = row[0]
""",
    """
x = tj.cta.load(A[0:8, 0:64], fill=1)
y = tj.where(x > 0, tj.exp(-x), helper(x)).astype(tj.float16)
z = y.astype(tj.float32) + x[0:8, 0:64]
tj.cta.store(B.T[0:8, 0:64], z)
for k in tj.static_range(2, 5):
    tj.thread.copy(B[k, 0:4], A[0:4, k])
print(n, "of", B.shape[0])
assert n >= 0, "not negative"
""",
]

VALUES = [
    "0", "-1", "1.5", "'s'", "None", "A", "B", "n", "x", "tj", "tj.cta", "tj.warp", "tj.thread_id()", "A.shape",
    "S", "()", "(1, 2)", "laneid", "float", "True", "tj.float8_e5m2", "2**70", "64", "range", "print", "len",
    "helper", "A[0, 0]", "A[0:8, 0:64]", "(n > 0)", "tj.inf", "x[0]", "tj.alloc_shared((8,), tj.int8)", "f'{n}'",
    "-n",
]
OPERATORS = [
    "+", "-", "*", "/", "//", "%", "**", "&", "|", "^", "<<", ">>", "@", "<", "==", "!=", "and", "or", "in", "is",
]
LINES = [
    "x = 1", "x = A", "n = 1.5", "return", "pass", "tj.cta_sync()", "tj.warp_sync()", "A[0, 0] = n", "B = A",
    "i = n", "assert n", "x += 1", "x, y = n, 2", "print(n, x)", "A = B.T", "x = tj.alloc_local((8,), tj.float32)",
]
NAMED = re.compile(r"\s*([A-Za-z_]\w*|\d[\d.]*)$")


def words(body: str) -> list[str]:
    """The tokens of a body, each with the space before it, so that joining gives the body back."""
    found, line, column = [], 1, 0
    lines = body.splitlines(keepends=True)
    for token in tokenize.generate_tokens(io.StringIO(body).readline):
        if token.type in (tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER):
            continue
        if token.start[0] != line:
            line, column = token.start[0], 0
        found.append(lines[line - 1][column : token.start[1]] + token.string)
        column = token.end[1]
    return found


PIECES = [words(body.strip() + "\n") for body in BODIES]


def test_the_pieces_join_to_the_body():
    assert ["".join(pieces) for pieces in PIECES] == [body.strip() + "\n" for body in BODIES]


def edit_token(draw, pieces):
    """Delete, double, swap or exchange one token; often for one of its kind, so that Python still reads it."""
    at = draw(st.integers(0, len(pieces) - 1))
    kind = draw(st.sampled_from(["exchange", "exchange", "exchange", "delete", "double", "swap"]))
    if kind == "delete":
        del pieces[at]
    elif kind == "double":
        pieces.insert(at, pieces[at])
    elif kind == "swap":
        other = draw(st.integers(0, len(pieces) - 1))
        pieces[at], pieces[other] = pieces[other], pieces[at]
    elif NAMED.match(pieces[at]):
        pieces[at] = " " + draw(st.sampled_from(VALUES))
    elif pieces[at].strip() in OPERATORS:
        pieces[at] = f" {draw(st.sampled_from(OPERATORS))} "


def edit_line(draw, lines):
    """Delete, double, swap or insert a line."""
    at = draw(st.integers(0, len(lines) - 1))
    kind = draw(st.sampled_from(["delete", "double", "swap", "insert"]))
    if kind == "delete":
        del lines[at]
    elif kind == "double":
        lines.insert(at, lines[at])
    elif kind == "swap":
        other = draw(st.integers(0, len(lines) - 1))
        lines[at], lines[other] = lines[other], lines[at]
    else:
        indent = lines[at][: len(lines[at]) - len(lines[at].lstrip())]
        lines.insert(at, f"{indent}{draw(st.sampled_from(LINES))}\n")


@st.composite
def edited(draw):
    pieces = list(draw(st.sampled_from(PIECES)))
    for _ in range(draw(st.integers(0, 2))):
        edit_token(draw, pieces)
    lines = "".join(pieces).splitlines(keepends=True)
    for _ in range(draw(st.integers(0, 2))):
        edit_line(draw, lines)
    return "".join(lines)


def compiles(body: str) -> bool:
    """Whether a body compiles; anything but Python's own SyntaxError and a TilejitError propagates.

    Every TilejitError has a place and says what to do.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            namespace, _ = execute(kernel_text(body.strip("\n")))
            namespace["k"].compile(*ARGUMENTS, target="sm_90a")
        except SyntaxError:
            return False
        except tj.TilejitError as error:
            assert error.span is not None and error.hint, error
            return False
    return True


def test_the_bodies_compile_unedited():
    assert [compiles(body) for body in BODIES] == [True] * len(BODIES)


@given(edited())
@settings(max_examples=times(5))
def test_an_edited_kernel_compiles_or_says_why_not(body):
    compiles(body)
