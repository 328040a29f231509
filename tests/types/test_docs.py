"""Every public name has a docstring, and what it gives as an example works."""

from __future__ import annotations

import contextlib
import inspect
import io
import pydoc
import re
import runpy
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import tilejit as tj
from tests.support.notebooks import GUIDE, notebooks, program, prose
from tilejit.frontend.foreign import NOT_YET
from tilejit.frontend.language import Intrinsic
from tilejit.frontend.words import LAYOUTS, Namespace, ScopeNamespace, intrinsics
from tilejit.ops.tile import TILE_OPERATIONS
from tilejit.scopes import SCOPES

pytestmark = pytest.mark.integration

ROOT = Path(tj.__file__).parent.parent

PRELUDE = "import numpy as np\nimport tilejit as tj\nfrom tilejit import S, laneid\n\n"

#: public name -> why its docstring has no example
WITHOUT = {
    "inf": "it is a float, and has a float's docstring",
    "nan": "as inf",
    "MisalignedError": "PTX of other compilers causes it: tests/simulator/test_checks.py",
    "DivergenceError": "as above: kernels that would are refused when they are compiled",
    "UnsupportedInstructionError": "as above",
    "DeviceCheckError": "it needs a GPU: tests/runtime/test_cuda.py",
    "DeviceAssertionError": "as above",
    "PerformanceWarning": "it needs a GPU: tests/runtime/test_cuda_driver.py",
    "CacheWarning": "it needs a folder that can't be written: tests/runtime/test_store.py",
}


def example_of(value: object) -> str:
    """The text after `Example:` in a docstring."""
    return textwrap.dedent((inspect.getdoc(value) or "").partition("Example:\n")[2])


def run(text: str, folder: Path) -> None:
    file = folder / "example.py"
    file.write_text(PRELUDE + text, encoding="utf-8")
    with contextlib.redirect_stdout(io.StringIO()):
        runpy.run_path(str(file))


def test_every_public_name_has_an_example() -> None:
    without = {name for name in tj.__all__ if not example_of(getattr(tj, name))}
    assert without == set(WITHOUT)


def test_every_example_of_a_public_name_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEJIT_DEVICE", "sim")
    # of equal docstrings, as of types and axes, one
    values = {example_of(getattr(tj, name)): getattr(tj, name) for name in tj.__all__ if name not in WITHOUT}
    for text, value in values.items():
        is_error = isinstance(value, type) and issubclass(value, Exception)
        try:
            catching = pytest.warns if is_error and issubclass(value, Warning) else pytest.raises
            with catching(value) if is_error else contextlib.nullcontext():
                run(text, tmp_path)
        except Exception as error:
            error.add_note(f"the example of {value}") if hasattr(error, "add_note") else None
            raise


def words() -> Iterator[Intrinsic]:
    """Each call that exists in kernels; of those on scopes, each on each."""
    for word in intrinsics().values():
        if isinstance(word, Intrinsic):
            yield word
        elif isinstance(word, Namespace):
            yield from (member for member in word.members.values() if isinstance(member, Intrinsic))
        else:
            yield from (getattr(word, name) for name in word.operations)


WORDS = {word.name: word for word in words()}

#: the factors of products
FACTORS = """    a = tj.warp.load(F[0:16, 0:16], layout=tj.mma.layout_a((16, 16), tj.float16))
    b = tj.warp.load(F[0:16, 0:8], layout=tj.mma.layout_b((16, 8), tj.float16))
"""


def kernel_of(word: Intrinsic, name: str) -> str:
    """A kernel with its example, which has A and H, 128 × 8 of float32 and int32."""
    given = FACTORS if word.__name__ == "gemm" else ""
    lines = textwrap.indent(word.example, "    ")
    return f"@tj.kernel(threads=128, cooperative=True)\ndef {name}(A, H, F):\n{given}{lines}\n\n"


def integers(word: Intrinsic) -> bool:
    """Whether A has integers in its example: it is an operation on bits, which converts nothing."""
    operation = TILE_OPERATIONS.get(word.__name__)
    elementwise = None if operation is None or "." not in word.name else operation.elementwise
    return elementwise is not None and not elementwise.takes_floats


@pytest.mark.parametrize("step", (4, pytest.param(1, marks=pytest.mark.long)))
def test_every_example_of_a_call_works(step: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On scopes it is compiled, as `tests/ops/test_tile.py` runs those of the records; everything else runs."""
    monkeypatch.setenv("TILEJIT_DEVICE", "sim:sm_100a")
    on_scopes = [word for word in WORDS.values() if word.name.partition(".")[0] in SCOPES]
    left_out = {word.name for number, word in enumerate(on_scopes) if number % step}
    names = {f"k{number}": word for number, word in enumerate(WORDS.values()) if word.name not in left_out}
    text = "".join(kernel_of(word, name) for name, word in names.items())
    file = tmp_path / "examples.py"
    file.write_text(PRELUDE + text, encoding="utf-8")
    kernels = runpy.run_path(str(file))
    for name, word in names.items():
        of_a = np.int32 if integers(word) else np.float32
        arrays = np.ones((128, 8), of_a), np.ones((128, 8), np.int32), np.ones((16, 16), np.float16)
        is_of_a_warpgroup = "wgmma" in word.example
        monkeypatch.setenv("TILEJIT_DEVICE", "sim:sm_90a" if is_of_a_warpgroup else "sim:sm_100a")
        try:
            if word.name.partition(".")[0] in SCOPES or is_of_a_warpgroup:
                kernels[name].compile(*arrays)
            else:
                kernels[name][1](*arrays)
        except tj.TilejitError as error:
            raise AssertionError(f"the example of {word}: {error}") from error


def test_every_call_has_a_signature_a_docstring_and_an_example_of_two_lines() -> None:
    for word in WORDS.values():
        signature = inspect.signature(word)
        assert tuple(signature.parameters) == word.names
        signature.bind(*[0] * word.required)
        assert word.__doc__.startswith(f"tj.{word.name}{signature}\n\n{word.meaning}"), word
        assert len(word.example.splitlines()) == 2, f"{word} has no example of two lines"
        # where it has registers of certain threads, it is called on those
        has_registers = word.name.partition(".")[0] in SCOPES and re.search("layout|alloc_(local|ring)", word.example)
        called = rf"\w+\.{word.__name__}" if has_registers else re.escape(word.name)
        assert re.search(rf"\btj\.{called}\(", word.example), f"the example of {word} doesn't call it"


def test_every_group_of_words_lists_them_and_has_an_example() -> None:
    for group in intrinsics().values():
        if isinstance(group, (Namespace, ScopeNamespace)):
            text = pydoc.render_doc(group, renderer=pydoc.plaintext)
            assert repr(group) in example_of(group), group
            assert all(re.search(rf"\b{name}\b", text) for name in dir(group)), group


def _named(function: Callable[..., object]) -> str:
    return f"{function.__module__.rpartition('.')[2]}.{function.__name__}"


@pytest.mark.parametrize("function", [f for functions in LAYOUTS.values() for f in functions], ids=_named)
def test_every_function_for_layouts_has_an_example_that_works(
    function: Callable[..., object], tmp_path: Path
) -> None:
    assert "apply" in example_of(function)
    run(example_of(function), tmp_path)


def test_help_teaches() -> None:
    for word in (tj.cta.copy, tj.exp, tj.atomic.add, tj.warp.load):
        assert word.example.splitlines()[1] in pydoc.render_doc(word, renderer=pydoc.plaintext)


def test_dir_lists_what_there_is_and_nothing_else() -> None:
    public = {name for name in dir(tj) if not name.startswith("__")}
    assert public == {*tj.__all__, *intrinsics()}
    assert not public & set(NOT_YET)
    assert all(getattr(tj, name) is not None for name in public)
    for space in (w for w in intrinsics().values() if isinstance(w, (Namespace, ScopeNamespace))):
        assert all(getattr(space, name) is not None for name in dir(space))


#: `tj.name`, but not `tj.alloc_...`
MENTIONED = r"\btj\.([A-Za-z_]\w*)(?!\w|\.\.\.|[<{*])"


def mentioned() -> Iterator[tuple[str, str]]:
    """(file, name) of every `tj.<name>` in what users read: pages, examples, docstrings, messages."""
    for notebook in notebooks():
        text = notebook.read_text(encoding="utf-8")
        for name in re.findall(MENTIONED, prose(text) + program(text)):
            yield notebook.name, name
    pages = (ROOT / "README.md", ROOT / "CHANGELOG.md", *GUIDE.glob("*.md"), *(ROOT / "examples").glob("*.py"))
    for file in (*pages, *(ROOT / "tilejit").rglob("*.py")):
        for name in re.findall(MENTIONED, file.read_text(encoding="utf-8")):
            yield file.name, name


def test_every_name_that_a_text_mentions_exists() -> None:
    missing = {f"{place}: tj.{name}" for place, name in mentioned() if name not in NOT_YET and not hasattr(tj, name)}
    assert not missing, f"{sorted(missing)}: in no module of tilejit._PUBLIC, and no word of the language"
