"""Kernels on disk: another process finds them, and nothing but what it would have compiled itself."""

import ast
import gc
import importlib.util
import os
import shutil
import subprocess
import sys
import time
import warnings
import weakref
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import tilejit as tj
from tilejit import pipeline
from tilejit.errors import CacheWarning
from tilejit.frontend import kernel as frontend
from tilejit.runtime import disk, fingerprint, variant_builder
from tilejit.runtime.store import DiskStore, current

ROOT = Path(tj.__file__).parent.parent

SCALE = 3.0
OPTIONS = (2, 4)


@tj.function
def shifted(x, by):
    return x + by


@tj.kernel(threads=32)
def scale(A: tj.Tensor, B: tj.Tensor, by: tj.constexpr):
    lane = tj.lane_id()
    B[lane] = shifted(A[lane] * SCALE, by)


@tj.kernel(threads=32)
def reverse(A: tj.Tensor, B: tj.Tensor, by: tj.constexpr):
    lane = tj.lane_id()
    B[31 - lane] = shifted(A[lane], by)


@pytest.fixture(autouse=True)
def store(tmp_path, monkeypatch):
    """An empty cache that is on."""
    monkeypatch.setenv("TILEJIT_CACHE", "1")
    monkeypatch.setenv("TILEJIT_CACHE_DIR", str(tmp_path / "kept"))
    return current()


@pytest.fixture
def compiler(monkeypatch):
    """Counts what the frontend and the rest of the compiler do."""
    seen = {"read": 0, "compiled": 0}

    def counting(name, function):
        def counted(*args, **kwargs):
            seen[name] += 1
            return function(*args, **kwargs)

        return counted

    monkeypatch.setattr(frontend, "build", counting("read", frontend.build))
    monkeypatch.setattr(pipeline, "compile", counting("compiled", pipeline.compile))
    return seen


def fresh(kernel):
    """The kernel as another process has it."""
    return tj.Kernel(kernel.__wrapped__, kernel.options)


class Pair(NamedTuple):
    x: tj.Tensor
    by: tj.constexpr


class Other(NamedTuple):
    x: tj.Tensor
    by: tj.constexpr


@tj.kernel(threads=32)
def of_containers(P, Q):
    lane = tj.lane_id()
    P[0][lane] = shifted(Q.x[lane], Q.by)


def test_containers_are_found_by_their_structure(compiler):
    a = np.ones(32, np.float32)
    for values, count in (
        (((a.copy(),), Pair(a, 1)), 1), (((a.copy(),), Pair(a, 1)), 1), (((a,), Pair(a, 1)), 2),
        (((a,), Pair(a, 1)), 2), (((a.copy(),), Other(a, 1)), 3), (((a.copy(), 1), Pair(a, 1)), 4),
    ):
        fresh(of_containers)[1](*values)
        assert compiler["compiled"] == count


def result(kernel, by=1, dtype=np.float32):
    a = np.arange(32, dtype=dtype)
    b = np.zeros_like(a)
    with tj.use_device("sim"):
        fresh(kernel)[1](a, b, by)
    return b


def programs(store):
    return [entry.path for entry in store.entries() if entry.kind == "program"]


def module(folder, text, name="kernels"):
    """The module of a file with this text."""
    path = folder / f"{name}.py"
    path.write_text(text)
    # Python takes bytecode for up to date whose source had this size in this second
    path.with_name("__pycache__").exists() and shutil.rmtree(path.with_name("__pycache__"))
    loader = importlib.util.spec_from_file_location(f"{folder.name}_{name}", path)
    made = importlib.util.module_from_spec(loader)
    loader.loader.exec_module(made)
    return made


def test_what_one_process_compiled_no_other_reads_or_compiles(compiler, store):
    expected = np.arange(32, dtype=np.float32) * 3 + 1
    np.testing.assert_array_equal(result(scale), expected)
    assert compiler == {"read": 1, "compiled": 1} and len(programs(store)) >= 1
    np.testing.assert_array_equal(result(scale), expected)
    assert compiler == {"read": 1, "compiled": 1}


def test_a_process_that_finds_its_kernel_imports_neither_llvm_nor_the_compiler(store, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import sys\nimport numpy as np\nimport tilejit as tj\n"
        "@tj.kernel(threads=32)\ndef one(A: tj.Tensor):\n    A[tj.lane_id()] = 1\n"
        "a = np.zeros(32, np.float32)\none[1](a)\nassert (a == 1).all()\n"
        "print(*(m for m in ('llvmlite', 'tilejit.pipeline', 'tilejit.ir.nodes', 'tilejit.isa') if m in sys.modules))"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TILEJIT_DEVICE": "sim"}
    runs = [
        subprocess.run([sys.executable, str(script)], env=environment, capture_output=True, text=True, check=True)
        for _ in range(2)
    ]
    assert "llvmlite" in runs[0].stdout and runs[1].stdout.strip() == ""


def test_what_comes_from_the_disk_is_what_was_compiled(compiler):
    arguments = tj.spec((64, 8), tj.float32), tj.spec((64, 8), tj.float32), 2
    made, kept = (fresh(scale_rows).compile(*arguments, target="sm_90a") for _ in range(2))
    assert compiler["compiled"] == 1
    assert kept.executable == made.executable_to_keep and list(kept.timings) == ["disk"]
    assert not kept.is_derived and made.is_derived
    # the record of its compilation is recomputed on demand
    assert str(kept.explain()) == str(made.explain()) and compiler["compiled"] == 2
    assert (kept.tile_ir, kept.lane_ir, kept.llvm_ir) == (made.tile_ir, made.lane_ir, made.llvm_ir)
    assert kept.usage == made.usage and compiler["compiled"] == 2


def test_what_was_decided_is_kept_once_somebody_has_asked(compiler, monkeypatch):
    arguments = tj.spec((64, 8), tj.float32), tj.spec((64, 8), tj.float32), 2
    made, *kept = (fresh(scale_rows).compile(*arguments, target="sm_90a") for _ in range(3))
    explained = made.explain()
    assert compiler["compiled"] == 1 and len(explained.rows) == 3 and explained.notes
    for compiled in kept:
        assert compiled.explain() == explained and compiled.explain()._repr_html_() == explained._repr_html_()
        assert str(compiled.explain()) == str(explained)
    assert compiler["compiled"] == 1 and not any(compiled.is_derived for compiled in kept)


def test_a_process_that_explains_a_kernel_from_the_disk_imports_no_compiler(store, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import sys\nimport numpy as np\nimport tilejit as tj\n"
        "@tj.kernel(threads=32)\ndef one(A: tj.Tensor):\n    tj.cta.store(A[0:32], tj.cta.load(A[0:32]) + 1)\n"
        "a = np.zeros(32, np.float32)\none[1](a)\nassert (a == 1).all()\nprint(one.explain(a))\n"
        "compiler = ('llvmlite', 'tilejit.pipeline', 'tilejit.lower', 'tilejit.ir.nodes', 'tilejit.isa')\n"
        "seldom = ('ml_dtypes', 'fractions', 'difflib', 'html')\n"
        "print(*(m for m in (*compiler, *seldom) if m in sys.modules), file=sys.stderr)"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TILEJIT_DEVICE": "sim"}
    first, second = (
        subprocess.run([sys.executable, str(script)], env=environment, capture_output=True, text=True, check=True)
        for _ in range(2)
    )
    assert "script.py:6" in first.stdout and first.stdout == second.stdout
    assert "llvmlite" in first.stderr and second.stderr.strip() == ""


@tj.kernel(threads=32)
def scale_rows(A: tj.Tensor, B: tj.Tensor, by: tj.constexpr):
    x = tj.cta.load(A[0:64, 0:8])
    tj.cta.store(B[0:64, 0:8], x * by)


def test_how_a_kernel_was_made_cant_be_asked_when_what_it_captures_has_changed(monkeypatch):
    arguments = tj.spec((32,), tj.float32), tj.spec((32,), tj.float32), 1
    fresh(scale).compile(*arguments, target="sm_90a")
    kept = fresh(scale).compile(*arguments, target="sm_90a")
    monkeypatch.setitem(globals(), "SCALE", 4.0)
    with pytest.raises(tj.LaunchError, match=r"loaded from disk, .* changed since: SCALE 4.0, compiled with 3.0"):
        kept.explain()


def test_nor_where_it_changes_while_that_is_computed(monkeypatch):
    arguments = tj.spec((32,), tj.float32), tj.spec((32,), tj.float32), 1
    fresh(scale).compile(*arguments, target="sm_90a")
    kept = fresh(scale).compile(*arguments, target="sm_90a")
    build = frontend.build

    def changing(*args, **kwargs):
        monkeypatch.setitem(globals(), "SCALE", 4.0)
        return build(*args, **kwargs)

    monkeypatch.setattr(frontend, "build", changing)
    with pytest.raises(tj.LaunchError, match="changed since"):
        kept.explain()


def test_arrays_that_overlap_are_not_read_again_to_learn_what_is_written(compiler):
    def in_place(kernel):
        a = np.arange(32, dtype=np.float32)
        with tj.use_device("sim"):
            kernel[1](a, a, 0)
        return a

    expected = in_place(fresh(scale))
    assert compiler["compiled"] == 1
    before = dict(compiler)
    np.testing.assert_array_equal(in_place(fresh(scale)), expected)
    assert compiler == before


def test_each_captured_value_has_its_own_entry(compiler, monkeypatch):
    assert result(scale)[2] == 7
    for value, expected in ((4.0, 9), (3, 7), (np.float32(3), 7), (-0.0, 1), (0.0, 1)):
        monkeypatch.setitem(globals(), "SCALE", value)
        assert result(scale)[2] == expected, value
    assert compiler["compiled"] == 6
    monkeypatch.setitem(globals(), "SCALE", 3.0)
    assert result(scale)[2] == 7 and compiler["compiled"] == 6


@pytest.mark.parametrize(
    "first, second",
    [(1, 1.0), (1, True), (0.0, -0.0), ((1, 2), (1, 2.0)), (tj.float32, "float32"), (None, "None"), ("1", 1)],
    ids=repr,
)
def test_each_compile_time_value_has_its_own_entry(first, second, compiler):
    arguments = tj.spec((32,), tj.float32), tj.spec((32,), tj.float32)
    for value in (first, second, first, second):
        fresh(unused).compile(*arguments, value, target="sm_90a")
    assert compiler["compiled"] == 2


@tj.kernel(threads=32)
def unused(A: tj.Tensor, B: tj.Tensor, value: tj.constexpr):
    B[tj.lane_id()] = A[tj.lane_id()]


def test_a_function_as_a_compile_time_value_counts_by_its_text_and_what_it_captures(compiler, monkeypatch):
    arguments = tj.spec((32,), tj.float32), tj.spec((32,), tj.float32)
    for function in (scaled, shifted_by_one, scaled, shifted_by_one):
        fresh(applied).compile(*arguments, function, target="sm_90a")
    assert compiler["compiled"] == 2
    monkeypatch.setitem(globals(), "SCALE", 5.0)
    assert "0f40A00000" in fresh(applied).compile(*arguments, scaled, target="sm_90a").ptx
    assert compiler["compiled"] == 3


@tj.function
def scaled(x):
    return x * SCALE


@tj.function
def shifted_by_one(x):
    return x + 1


@tj.kernel(threads=32)
def applied(A: tj.Tensor, B: tj.Tensor, f: tj.constexpr):
    B[tj.lane_id()] = f(A[tj.lane_id()])


@pytest.mark.parametrize("value", [np.dtype("float32"), np.float32, np.array(2.0), np.float16(2), (1, None), 2 + 0j])
def test_captured_values_that_another_process_has_too(value, compiler, monkeypatch, store):
    @tj.kernel(threads=32)
    def k(A: tj.Tensor, B: tj.Tensor, by: tj.constexpr):
        if SCALE is not None:
            B[tj.lane_id()] = A[tj.lane_id()] + by

    monkeypatch.setitem(globals(), "SCALE", value)
    result(k)
    result(k)
    assert compiler["compiled"] == len(programs(store)) == 1


def test_a_value_that_only_this_process_has_is_not_kept(store):
    arguments = tj.spec((32,), tj.float32), tj.spec((32,), tj.float32)
    fresh(unused).compile(*arguments, object(), target="sm_90a")
    assert not programs(store)


def test_targets_threads_builds_and_options_have_their_own_entries(compiler):
    arguments = tj.spec((32,), tj.float32), tj.spec((32,), tj.float32), 1
    for kernel, options in (
        (scale, {"target": "sm_90a"}), (scale, {"target": "sm_80"}), (scale, {"target": "sm_90a", "threads": 64}),
        (tj.kernel(threads=32, debug=True)(scale.__wrapped__), {"target": "sm_90a"}),
        (tj.kernel(threads=32, max_registers=40)(scale.__wrapped__), {"target": "sm_90a"}),
        (tj.kernel(threads=32, cluster=(2,))(scale.__wrapped__), {"target": "sm_90a"}),
        (tj.kernel(threads=32, cooperative=True)(scale.__wrapped__), {"target": "sm_90a"}),
    ):
        before = compiler["compiled"]
        made, kept = (fresh(kernel).compile(*arguments, **options) for _ in range(2))
        assert compiler["compiled"] == before + 1, options
        assert made.executable_to_keep == kept.executable


def test_a_checked_build_without_checks_is_the_plain_one_too(compiler):
    arguments = tj.spec((32,), tj.float32), tj.spec((32,), tj.float32), 1

    @tj.kernel(threads=32, debug=True)
    def nothing_to_check(A: tj.Tensor, B: tj.Tensor, by: tj.constexpr):
        pass

    fresh(nothing_to_check).compile(*arguments, target="sm_90a")
    plain = tj.Kernel(nothing_to_check.__wrapped__, tj.kernel(threads=32)(nothing_to_check.__wrapped__).options)
    plain.compile(*arguments, target="sm_90a")
    assert compiler["compiled"] == 1


KERNELS = '''
import tilejit as tj

@tj.function
def helper(x):
    return x + 1

@tj.kernel(threads=32)
def kernel(A: tj.Tensor, B: tj.Tensor, n: tj.constexpr):
    lane = tj.lane_id()
    B[lane] = helper(A[lane + n])
'''


def message(kernel):
    """What an access out of bounds says."""
    a, b = np.zeros(32, np.float32), np.zeros(32, np.float32)
    with tj.use_device("sim"), pytest.raises(tj.OutOfBoundsError) as caught:
        kernel[1](a, b, 1)
    return str(caught.value)


@pytest.mark.parametrize("was, now", [("x + 1", "x + 2"), ("lane + n", "lane - n"), ("threads=32", "threads=64")])
def test_an_edited_kernel_or_helper_is_compiled(was, now, compiler, tmp_path):
    arguments = tj.spec((32,), tj.float32), tj.spec((32,), tj.float32), 0
    (tmp_path / "edited").mkdir()
    for text in (KERNELS, KERNELS.replace(was, now), KERNELS):
        module(tmp_path / "edited", text).kernel.compile(*arguments, target="sm_90a")
    assert compiler["compiled"] == 2


def test_a_kernel_that_has_moved_to_another_file_is_found_and_names_that_file(compiler, tmp_path):
    (tmp_path / "old").mkdir()
    (tmp_path / "new").mkdir()
    text = message(module(tmp_path / "old", KERNELS).kernel)
    again = message(module(tmp_path / "new", KERNELS).kernel)
    assert compiler["compiled"] == 1
    assert str(tmp_path / "old") in text and again == text.replace(str(tmp_path / "old"), str(tmp_path / "new"))
    # line information too
    arguments = tj.spec((32,), tj.float32), tj.spec((32,), tj.float32), 0
    old, new = (module(tmp_path / name, KERNELS).kernel.compile(*arguments, target="sm_90a") for name in ("old", "new"))
    assert compiler["compiled"] == 2 and f'"{tmp_path / "new" / "kernels.py"}"' in new.ptx
    assert new.ptx == old.ptx.replace(str(tmp_path / "old"), str(tmp_path / "new"))


def test_what_was_decided_about_a_kernel_names_the_file_in_which_it_is_now(compiler, tmp_path):
    arguments = tj.spec((32,), tj.float32), tj.spec((32,), tj.float32), 0
    (tmp_path / "other").mkdir()
    places = ((tmp_path, "old"), (tmp_path, "new"), (tmp_path / "other", "new"))
    texts = [str(module(folder, ROWS, name).kernel.explain(*arguments, target="sm_90a")) for folder, name in places]
    # the third is called as the second
    assert compiler["compiled"] == 2
    assert "old.py:6" in texts[0] and texts[1] == texts[2] == texts[0].replace("old.py", "new.py")


ROWS = """import tilejit as tj


@tj.kernel(threads=32)
def kernel(A: tj.Tensor, B: tj.Tensor, by: tj.constexpr):
    tj.cta.store(B[0:32], tj.cta.load(A[0:32]) * 2)
"""


def test_a_kernel_whose_helper_has_moved_to_a_file_of_its_own_is_compiled(compiler, tmp_path):
    arguments = tj.spec((32,), tj.float32), tj.spec((32,), tj.float32), 0
    both = module(tmp_path, KERNELS)
    both.kernel.compile(*arguments, target="sm_90a")
    alone = module(tmp_path, KERNELS, "helpers")
    parted = module(tmp_path, KERNELS, "parted")
    parted.helper = alone.helper
    parted.kernel.compile(*arguments, target="sm_90a")
    assert compiler["compiled"] == 2


def test_a_kernel_on_other_lines_is_compiled_because_its_lines_are_in_it(compiler, tmp_path):
    first = message(module(tmp_path, KERNELS, "first").kernel)
    second = message(module(tmp_path, "\n" + KERNELS, "second").kernel)
    assert compiler["compiled"] == 2 and "first.py:11" in first and "second.py:12" in second


def test_equal_texts_that_capture_different_values_are_distinguished(compiler, tmp_path):
    text = KERNELS.replace("x + 1", "x + OFFSET")
    kernels = [module(tmp_path, f"{text}\nOFFSET = {n}\n", f"captures{n}").kernel for n in (1, 2)]
    assert [result(kernel, 0)[0] for kernel in kernels] == [1, 2]
    assert compiler["compiled"] == 2


def test_another_tilejit_compiles_again(compiler, monkeypatch):
    result(scale)
    monkeypatch.setattr(disk, "fingerprint", lambda store: "another")
    result(scale)
    assert compiler["compiled"] == 2


def test_the_fingerprint_tells_every_edit_of_the_package(tmp_path):
    package = tmp_path / "tilejit"
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "tilejit", package, ignore=ignored)
    before = fingerprint.source_digest(package)
    assert before == fingerprint.source_digest(ROOT / "tilejit")
    for change in (
        lambda: (package / "codegen" / "writer.py").write_bytes((package / "codegen" / "writer.py").read_bytes()[:-1]),
        lambda: (package / "codegen" / "writer.py").rename(package / "codegen" / "writes.py"),
        lambda: (package / "lower" / "new.py").write_text(""),
        lambda: (package / "dtypes.py").unlink(),
    ):
        change()
        after = fingerprint.source_digest(package)
        assert after != before
        before = after
    assert str(np.__version__) in fingerprint.fingerprint(current())


@pytest.fixture
def settled(tmp_path, monkeypatch):
    """A package whose last change is long past, before it was imported; that of files from now on is, too."""
    package = tmp_path / "package"
    (package / "part").mkdir(parents=True)
    (package / "one.py").write_text("a = 1\n")
    (package / "part" / "two.py").write_text("b = 2\n")
    now = time.time()
    monkeypatch.setattr(fingerprint.time, "time", lambda: now + 3600)
    monkeypatch.setattr(fingerprint, "IMPORTED", now + 3600)
    return package


@pytest.mark.skipif(os.name == "nt", reason="on Windows the contents are read each time")
def test_what_a_package_holds_is_read_again_only_where_a_file_was_touched(store, settled, monkeypatch):
    read = []
    digest = fingerprint.source_digest
    monkeypatch.setattr(fingerprint, "source_digest", lambda package: read.append(package) or digest(package))
    first = fingerprint._kept_digest(settled, store)
    assert first == digest(settled) and fingerprint._kept_digest(settled, store) == first and len(read) == 1

    file = settled / "part" / "two.py"
    facts = file.stat()
    file.write_text("b = 3\n")
    # as an installer does that gives all files one time
    os.utime(file, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    assert (file.stat().st_size, file.stat().st_mtime_ns) == (facts.st_size, facts.st_mtime_ns)
    second = fingerprint._kept_digest(settled, store)
    assert second == digest(settled) != first and len(read) == 2

    (settled / "part" / "three.py").write_text("")
    third = fingerprint._kept_digest(settled, store)
    assert third == digest(settled) not in (first, second)
    (settled / "part" / "three.py").unlink()
    assert fingerprint._kept_digest(settled, store) == second


@pytest.mark.skipif(os.name == "nt", reason="on Windows the contents are read each time")
def test_what_was_changed_just_now_is_read_each_time(store, settled, monkeypatch):
    changed = settled.joinpath("one.py").stat().st_ctime
    for seconds in (0, 5, -5):
        monkeypatch.setattr(fingerprint.time, "time", lambda now=changed + seconds: now)
        fingerprint._kept_digest(settled, store)
        assert not list(store.entries())


@pytest.mark.skipif(os.name == "nt", reason="on Windows the contents are read each time")
def test_what_is_changed_while_it_is_read_is_not_kept(store, settled, monkeypatch):
    digest = fingerprint.source_digest

    def late(package):
        result = digest(package)
        (package / "one.py").write_text("a = 7, 8\n")
        return result

    monkeypatch.setattr(fingerprint, "source_digest", late)
    assert fingerprint._kept_digest(settled, store) is None
    assert not list(store.entries())


def quietly(function, *args):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CacheWarning)
        return function(*args)


@pytest.mark.parametrize("meanwhile", ["changed", "as it was"])
def test_what_an_upgraded_compiler_made_is_not_kept_where_the_fingerprint_was_taken_before(
    store, settled, monkeypatch, meanwhile
):
    # the kernel that is found imports no compiler, and the fingerprint stays what it is
    result(scale)
    kept = programs(store)
    changed = (settled / "one.py").stat().st_ctime
    monkeypatch.setattr(fingerprint, "_PACKAGE", settled)
    monkeypatch.setattr(fingerprint, "IMPORTED", changed + (-10 if meanwhile == "changed" else 10))
    # as where the compiler is imported now
    monkeypatch.setattr(fingerprint, "_parts", 0)
    quietly(result, reverse)
    assert (programs(store) == kept) == (meanwhile == "changed")


def test_what_was_imported_before_an_upgrade_is_not_kept(store, settled, monkeypatch, tmp_path):
    monkeypatch.setattr(fingerprint, "_PACKAGE", settled)
    assert fingerprint.is_as_imported(fingerprint.IMPORTED) and fingerprint.fingerprint(store) is not None
    later = time.time() - 3600
    monkeypatch.setattr(fingerprint, "IMPORTED", later - 1800)
    assert not fingerprint.is_as_imported(later - 1800)
    # what was kept before the upgrade is still read, and nothing is added
    assert fingerprint.fingerprint(store) is not None
    monkeypatch.setattr(fingerprint, "_parts", 0)
    assert not quietly(fingerprint.still_holds, DiskStore(tmp_path / "another"))
    fingerprint.fingerprint.cache_clear()
    with pytest.warns(CacheWarning, match="were changed or touched after this process imported them") as caught:
        assert list(result(scale)) == [3 * n + 1 for n in range(32)] == list(result(scale))
    assert len(caught) == 1 and caught[0].filename == __file__ and not programs(store)


@pytest.mark.skipif(os.name == "nt", reason="Python has the zip open")
def test_a_package_in_a_zip_launches_and_keeps_nothing(store, tmp_path):
    zipped = Path(shutil.make_archive(str(tmp_path / "zipped"), "zip", ROOT, "tilejit"))
    script = tmp_path / "script.py"
    script.write_text(
        "import numpy as np\nimport tilejit as tj\n"
        "@tj.kernel(threads=32)\ndef one(A: tj.Tensor):\n    A[tj.lane_id()] = 1\n"
        "a = np.zeros(32, np.float32)\none[1](a)\nassert (a == 1).all()\nprint(tj.__file__)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(zipped), "TILEJIT_DEVICE": "sim"}
    run = subprocess.run([sys.executable, str(script)], env=environment, capture_output=True, text=True, cwd=tmp_path)
    assert run.stdout.startswith(str(zipped)) and run.stderr == "" and not list(store.entries()), run.stderr


def test_the_fingerprint_is_of_the_package_its_libraries_and_the_interpreter(settled, tmp_path, monkeypatch):
    prints = []

    def tell():
        # each store is asked once
        prints.append(fingerprint.fingerprint(DiskStore(tmp_path / f"store{len(prints)}")))

    tell()
    tell()
    monkeypatch.setattr(fingerprint, "_PACKAGE", settled)
    tell()
    for name in ("llvmlite", "ml_dtypes"):
        find, package = fingerprint.find_spec, tmp_path / name
        package.mkdir()
        (package / "__init__.py").write_text("version = '98'")
        other = importlib.util.spec_from_file_location(name, package / "__init__.py")
        monkeypatch.setattr(
            fingerprint, "find_spec", lambda asked, name=name, other=other, find=find: (
                other if asked == name else find(asked)
            )
        )
        tell()
    monkeypatch.setattr(fingerprint.np, "__version__", "98.0")
    tell()
    monkeypatch.setattr(fingerprint.sys.implementation, "cache_tag", "python-98")
    tell()
    assert prints[0] == prints[1] and len(set(prints)) == len(prints) - 1 == 6


@pytest.mark.parametrize("name", ["llvmlite", "ml_dtypes"])
def test_the_fingerprint_tells_another_library(name, monkeypatch, tmp_path):
    before = fingerprint._library(name)
    package = tmp_path / name
    (package / "binding").mkdir(parents=True)
    (package / "__init__.py").write_text("version = '98'")
    monkeypatch.setattr(fingerprint, "find_spec", lambda name: importlib.util.spec_from_file_location(
        name, package / "__init__.py"
    ))
    prints = {before, fingerprint._library(name)}
    (package / "_version.py").write_text("version = '99'")
    prints.add(fingerprint._library(name))
    compiled = package / ("binding/libllvmlite.so" if name == "llvmlite" else "_ml_dtypes_ext.so")
    compiled.write_text("another library")
    prints.add(fingerprint._library(name))
    assert len(prints) == 4 and "none" not in prints


def test_what_a_kernel_was_before_it_changed_while_it_was_compiled_is_not_kept(monkeypatch, store):
    compile = pipeline.compile

    def changing(*args, **kwargs):
        monkeypatch.setitem(globals(), "SCALE", 5.0)
        return compile(*args, **kwargs)

    monkeypatch.setattr(pipeline, "compile", changing)
    changed = result(scale)
    (kept,) = programs(store)
    monkeypatch.setattr(pipeline, "compile", compile)
    assert (result(scale) == changed).all()
    monkeypatch.setitem(globals(), "SCALE", 3.0)
    assert (result(scale) != changed).any() and len(programs(store)) == 2


def test_nor_is_what_a_function_was_that_is_a_compile_time_value(monkeypatch, compiler):
    arguments = tj.spec((32,), tj.float32), tj.spec((32,), tj.float32), scaled
    build = frontend.build

    def changing(*args, **kwargs):
        monkeypatch.setitem(globals(), "SCALE", 5.0)
        return build(*args, **kwargs)

    monkeypatch.setattr(frontend, "build", changing)
    assert "0f40A00000" in fresh(applied).compile(*arguments, target="sm_90a").ptx
    monkeypatch.setattr(frontend, "build", build)
    monkeypatch.setitem(globals(), "SCALE", 3.0)
    assert "0f40400000" in fresh(applied).compile(*arguments, target="sm_90a").ptx
    assert compiler["compiled"] == 2


def test_altered_ptx_is_not_run(compiler, store):
    good = result(scale)
    for path in programs(store):
        content = path.read_bytes()
        assert content.count(b"0f40400000") >= 1
        # three becomes four: a change that a digest can't reveal is code of the file's author
        path.write_bytes(content.replace(b"0f40400000", b"0f40800000"))
    np.testing.assert_array_equal(result(scale), good)
    assert compiler["compiled"] == 2
    np.testing.assert_array_equal(result(scale), good)
    assert compiler["compiled"] == 2


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="Windows trusts the profile's folder")
def test_ptx_of_another_user_is_not_run(compiler, store, monkeypatch):
    good = result(scale)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    stranger = DiskStore(store.folder)
    monkeypatch.setattr(disk, "current", lambda: stranger)
    with pytest.warns(CacheWarning, match="belongs to another user: nothing is kept on disk") as caught:
        np.testing.assert_array_equal(result(scale), good)
        np.testing.assert_array_equal(result(scale), good)
    assert len(caught) == 1 and compiler["compiled"] == 3


def test_entries_that_have_changed_places_are_not_run(compiler, store):
    good = result(scale), result(reverse)
    one, other = sorted(programs(store))[:2]
    kept = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(kept)
    np.testing.assert_array_equal((result(scale), result(reverse)), good)
    assert compiler["compiled"] == 4


def test_where_nothing_can_be_written_kernels_run(compiler, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TILEJIT_CACHE_DIR", str(tmp_path / "file" / "kept"))
    with pytest.warns(CacheWarning, match="can't be written") as caught:
        assert result(scale)[0] == 1 and result(reverse)[31] == 1
    assert len(caught) == 1


def test_a_cache_that_is_off_leaves_nothing(compiler, store, monkeypatch):
    monkeypatch.setenv("TILEJIT_CACHE", "0")
    for _ in range(2):
        result(scale)
    assert compiler["compiled"] == 2 and not store.folder.exists()


def test_a_cache_that_is_too_small_for_anything_does_no_harm(compiler, monkeypatch):
    monkeypatch.setenv("TILEJIT_CACHE_MAXSIZE", "0")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            assert result(scale)[0] == 1
    assert compiler["compiled"] == 2


def test_a_launch_that_may_not_compile_may_not_find_its_kernel_on_disk_either():
    result(scale)
    a = np.zeros(32, np.float32)
    with tj.use_device("sim"), tj.no_recompile(), pytest.raises(tj.LaunchError, match="for the first time"):
        fresh(scale)[1](a, a.copy(), 1)


def test_a_dropped_kernel_that_came_from_the_disk_is_not_kept_alive():
    for _ in range(2):
        kernel = fresh(scale)
        kernel.compile(tj.spec((32,), tj.float32), tj.spec((32,), tj.float32), 1, target="sm_90a")
    kept = weakref.ref(kernel)
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        del kernel
        assert kept() is None
    finally:
        if was_enabled:
            gc.enable()


def test_nothing_that_reads_entries_can_run_what_they_hold():
    package = ROOT / "tilejit"
    files = [Path(module.__file__) for module in (disk, variant_builder, fingerprint)]
    files += [package / "runtime" / "store.py", package / "explanation.py"]
    files += [*(package / "executable").glob("*.py"), *(package / "tuning").glob("*.py")]
    for file in files:
        nodes = list(ast.walk(ast.parse(file.read_text(encoding="utf-8"))))
        imported = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
        imported |= {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module}
        callees = [node.func for node in nodes if isinstance(node, ast.Call)]
        called = {callee.id for callee in callees if isinstance(callee, ast.Name)}
        forbidden = {"pickle", "marshal", "shelve", "dill", "cloudpickle"}
        assert not {name.partition(".")[0] for name in imported} & forbidden, file
        assert not called & {"eval", "exec", "compile", "__import__"}, file


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked")
@pytest.mark.parametrize(
    "seconds",
    [
        pytest.param(3, id="for a moment", marks=pytest.mark.integration),
        pytest.param(60, id="for a minute", marks=pytest.mark.long),
    ],
)
def test_many_processes_that_are_killed_at_random_leave_a_sound_cache(seconds, tmp_path):
    folder = tmp_path / "attacked"
    folder.mkdir()
    command = [sys.executable, "-m", "tests.runtime.attack", str(folder / "kept"), str(seconds), "32"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=10 * seconds + 60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
