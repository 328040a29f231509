"""Kernel source: read at decoration, checked against the code, placed with carets."""

from __future__ import annotations

import ast
import linecache
import os
from pathlib import Path
from typing import Any

import pytest

import tilejit as tj
from tests.support.programs import source_of
from tilejit.errors import KernelSyntaxError
from tilejit.frontend import KernelSource


def imported(path: Path, name: str = "k") -> Any:
    scope: dict[str, Any] = {"tj": tj}
    exec(compile(path.read_text(), str(path), "exec"), scope)
    return scope[name]


def test_source_of_a_function_in_a_file_is_its_own_text() -> None:
    def kernel(A, n):
        # a comment
        A[0] = n

    source = KernelSource.of(kernel)
    assert source.name == "kernel"
    assert source.text.strip().splitlines()[1].strip() == "# a comment"


def test_a_function_with_an_assert_is_known_though_pytest_rewrote_it() -> None:
    def kernel(A, n):
        assert n > 0, "positive"
        A[0] = n

    assert KernelSource.of(kernel).name == "kernel"


def test_an_edited_file_is_an_error_and_never_another_functions_text(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("def k(A):\n    A[0] = 1\n")
    old = imported(file)
    file.write_text("def k(A):\n    A[0] = 2\n")
    os.utime(file, (1, 1))
    with pytest.raises(KernelSyntaxError, match="differs from the compiled function") as error:
        KernelSource.of(old)
    assert "import it again" in str(error.value)


def test_a_line_inserted_above_is_an_edit(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("def k(A):\n    A[0] = 1\n")
    old = imported(file)
    file.write_text("def other(A):\n    A[0] = 5\n\ndef k(A):\n    A[0] = 1\n")
    os.utime(file, (1, 1))
    with pytest.raises(KernelSyntaxError, match="differs from the compiled function"):
        KernelSource.of(old)


def test_a_file_that_is_no_longer_python_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("def k(A):\n    A[0] = 1\n")
    old = imported(file)
    file.write_text("def k(A:\n")
    os.utime(file, (1, 1))
    with pytest.raises(KernelSyntaxError, match="is no longer valid Python"):
        KernelSource.of(old)


def test_a_constant_that_differs_only_in_its_sign_or_type_is_an_edit(tmp_path: Path) -> None:
    for before, after in (("0.0", "-0.0"), ("1", "1.0"), ("1", "True")):
        file = tmp_path / "mine.py"
        file.write_text(f"def k(A):\n    A[0] = {before}\n")
        old = imported(file)
        file.write_text(f"def k(A):\n    A[0] = {after}\n")
        os.utime(file, (1, 1))
        linecache.clearcache()
        with pytest.raises(KernelSyntaxError):
            KernelSource.of(old)


def test_without_a_source_the_error_says_where_to_put_it() -> None:
    scope: dict[str, Any] = {}
    exec("def k(A):\n    A[0] = 1\n", scope)
    with pytest.raises(KernelSyntaxError, match="not available") as error:
        KernelSource.of(scope["k"])
    assert "linecache" in str(error.value)


def test_lambdas_async_functions_and_objects_are_refused() -> None:
    async def kernel(A):
        A[0] = 1

    for wrong, message in ((lambda A: A, "lambda"), (kernel, "async"), (len, "not a Python function")):
        with pytest.raises(KernelSyntaxError, match=message):
            KernelSource.of(wrong)


def test_text_in_linecache_is_found_and_two_functions_are_distinguished() -> None:
    first = source_of("def k(A):\n    A[0] = 1\n")
    second = source_of("x = 1\n\ndef k(A):\n    A[0] = 2\n")
    assert "= 1" in KernelSource.of(first).text
    assert "= 2" in KernelSource.of(second).text


def test_a_decorated_function_is_found_by_its_first_decorator() -> None:
    kernel = source_of(
        "def same(f):\n    return f\n\ndef other(n):\n"
        "    return same\n\n@same\n@other(\n  3)\ndef k(A):\n    A[0] = 7\n"
    )
    assert KernelSource.of(kernel).text.startswith("@same")


def test_columns_are_characters_where_the_line_is_not_ascii() -> None:
    source = KernelSource.of(source_of("def k(A):\n    A['漢字é'] = foo\n"))
    name = next(n for n in ast.walk(source.node) if isinstance(n, ast.Name) and n.id == "foo")
    span = source.span(name)
    assert span.text[span.column : span.end_column] == "foo"
    # each of the two wide characters takes two columns
    assert span.render().splitlines()[-1].index("^") == len("    A['漢字é'] = ") + 2


def test_future_annotations_and_closures_compile_to_the_same_code() -> None:
    kernel = source_of(
        "from __future__ import annotations\ndef make(n):\n    def k(A: tj.Tensor, m: tj.int32):\n"
        "        A[0] = n + m\n    return k\nk = make(3)\n"
    )
    source = KernelSource.of(kernel)
    assert source.lookup("n") == (True, 3)
    assert source.lookup("nowhere") == (False, None)


def test_references_are_what_a_function_reads_from_outside() -> None:
    source = KernelSource.of(
        source_of(
            "def k(A, n):\n    x = n + LIMIT\n    def inner(y):\n"
            "        return x + y + tj.inf\n    A[0] = inner(len(A.shape))\n"
        )
    )
    assert source.references == (("LIMIT",), ("tj", "inf"), ("len",))
