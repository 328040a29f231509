"""`python -m tilejit`, and what importing the package costs."""

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import tilejit as tj
from tests.commands.programs import RACE_PTX
from tilejit import isa
from tilejit.__main__ import main
from tilejit.dataclass import replace
from tilejit.environment import VARIABLES
from tilejit.runtime.store import DiskStore

PINNED = """
import tilejit as tj

@tj.kernel(threads=32)
def copy(A: tj.Tensor = tj.spec((32, 8), tj.float32), B: tj.Tensor = tj.spec((32, 8), tj.float32)):
    smem = tj.alloc_shared((32, 8), A.dtype)
    tj.warp.copy(smem, A[0:32, 0:8])
    tj.cta_sync()
    tj.warp.copy(B[0:32, 0:8], smem)
"""

LAUNCHED = """
import numpy as np
import tilejit as tj

@tj.kernel(threads=32)
def store(A: tj.Tensor, n: tj.constexpr):
    A[tj.thread_id()] = n

def main():
    store[1](np.zeros(32, np.float32), 3)

if __name__ == "__main__":
    main()
"""


@pytest.fixture
def cache(monkeypatch, tmp_path):
    """The folder of a cache that is on."""
    monkeypatch.setenv("TILEJIT_CACHE", "1")
    monkeypatch.setenv("TILEJIT_CACHE_DIR", str(tmp_path / "kept"))
    return tmp_path / "kept"


@pytest.fixture(autouse=True)
def simulator(monkeypatch):
    monkeypatch.setenv("TILEJIT_DEVICE", "sim")


@pytest.fixture
def run(capsys):
    def run(*argv):
        status = main([str(a) for a in argv])
        shown = capsys.readouterr()
        return status, shown.out, shown.err

    return run


@pytest.fixture
def file(tmp_path):
    def write(text, name="kernels.py"):
        path = tmp_path / name
        path.write_text(textwrap.dedent(text), encoding="utf-8")
        return path

    return write


def test_version_is_the_package_s(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"tilejit {tj.__version__}\n"


def test_help_lists_the_environment_variables(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    text = capsys.readouterr().out
    assert all(f"{variable.name} " in text for variable in VARIABLES)


def test_doctor_says_what_will_be_used_and_why(run):
    status, out, _ = run("doctor")
    assert status == 0
    assert "will be used   sim, compiling for sm_90a, because TILEJIT_DEVICE=sim" in out
    for package in ("numpy", "llvmlite", "GPUs", "simulator"):
        assert package in out


def test_doctor_tells_of_an_llvm_that_compiles_nothing(run, monkeypatch):
    import llvmlite.binding as llvm

    monkeypatch.setattr(llvm, "llvm_version_info", (20, 1, 8))
    status, out, _ = run("doctor")
    assert status == 0
    assert "compiler       unusable: the installed llvmlite has LLVM 20.1.8" in out


def test_doctor_says_where_kernels_are_kept(run, cache, monkeypatch):
    assert f"kernels        cached in {cache}\n" in run("doctor")[1]
    monkeypatch.setenv("TILEJIT_CACHE", "0")
    assert "kernels        not cached on disk: TILEJIT_CACHE=0\n" in run("doctor")[1]
    monkeypatch.setenv("TILEJIT_CACHE", "no")
    assert "kernels        not cached on disk: TILEJIT_CACHE='no' is not one of 0, 1\n" in run("doctor")[1]


def test_doctor_tells_of_a_device_that_is_not_there(run, monkeypatch):
    monkeypatch.setenv("TILEJIT_DEVICE", "sim:sm_1")
    status, out, _ = run("doctor")
    assert status == 0
    assert "will be used   no device: unknown target 'sm_1'" in out


def test_doctor_tells_of_checks_that_are_neither_on_nor_off(run, monkeypatch):
    monkeypatch.setenv("TILEJIT_SIM_CHECKS", "maybe")
    status, out, _ = run("doctor")
    assert status == 0
    assert "checks are undetermined: TILEJIT_SIM_CHECKS='maybe' is not one of 0, 1, strict" in out


@pytest.mark.parametrize("action", [[], ["info"], ["clear"], ["verify"]])
def test_cache_says_that_it_is_off_and_why(run, action, monkeypatch):
    for value, reason in (("0", "TILEJIT_CACHE=0"), ("no", "TILEJIT_CACHE='no' is not one of 0, 1")):
        monkeypatch.setenv("TILEJIT_CACHE", value)
        status, out, err = run("cache", *action)
        assert status == 0 and not err and out.startswith("The cache on disk is off") and f": {reason}.\n" in out


ALIASED = """
import numpy as np
import tilejit as tj

@tj.autotune(configs=[tj.Config({"N": 1}), tj.Config({"N": 2})], key=[])
@tj.kernel(threads=32)
def add(A: tj.Tensor, B: tj.Tensor, N: tj.constexpr):
    B[tj.thread_id()] = A[tj.thread_id()] + N

a = np.zeros(32, np.float32)
add[1](a, a)
"""


def kinds_kept(folder):
    """kind -> the sizes of its entries"""
    found = {}
    for path in folder.iterdir():
        found.setdefault(path.suffix[1:], []).append(path.stat().st_size)
    return found


def test_cache_says_what_is_kept_and_where(run, file, cache):
    assert run("cache")[1].startswith(f"Compiled kernels are kept in {cache}: 0 of at most 536,870,912 bytes.\n")
    run("explain", file(PINNED))
    run("explain", file(LAUNCHED), "--run")
    run("explain", file(ALIASED), "--run")
    DiskStore(cache).put("source:of a package", b"digest")
    DiskStore(cache).put("later:of another version", b"something")
    kept = kinds_kept(cache)
    assert {"program", "decisions", "written", "tuning", "source"} | {"later"} == set(kept)
    _, out, _ = run("cache", "info")
    assert f"{sum(map(sum, kept.values())):,} of at most" in out
    for kind, sizes in kept.items():
        count = "1 entry" if len(sizes) == 1 else f"{len(sizes)} entries"
        line = rf"^{kind} +{count}, {sum(sizes):,} bytes{'' if kind == 'later' else ': .*a.*'}$"
        assert re.search(line, out, re.MULTILINE), (line, out)
    assert len(kept["program"]) >= 2


def test_cache_removes_what_is_damaged_and_then_everything(run, file, cache):
    run("explain", file(PINNED))
    run("explain", file(PINNED), "--target", "sm_80")
    entries = sorted(cache.iterdir())
    assert run("cache", "verify")[1] == f"{len(entries)} entries are sound in {cache}.\n"
    damaged, sound = entries[:-1], entries[-1]
    for path in damaged:
        path.write_bytes(path.read_bytes()[:-1])
    status, out, _ = run("cache", "verify")
    *removed, last = out.splitlines()
    assert status == 0 and sorted(removed) == [f"removed {path.name}: damaged" for path in damaged]
    assert last == f"1 entry is sound in {cache}." and list(cache.iterdir()) == [sound]
    assert run("cache", "clear")[1] == f"1 entry was removed from {cache}.\n"
    assert not list(cache.iterdir()) and run("cache", "clear")[1].startswith("0 entries were removed")


@pytest.mark.skipif(os.name == "nt", reason="Windows trusts the profile's folder")
def test_an_unused_cache_is_reported(run, cache):
    DiskStore(cache).put("program:one", b"payload")
    cache.chmod(0o777)
    reason = f"{cache} can be written by others"
    assert run("cache")[1].startswith(f"The cache on disk is off: {reason}.\n")
    assert run("cache", "verify")[1] == f"The cache on disk is off, so nothing was verified: {reason}.\n"
    assert f"kernels        not cached on disk: {reason}\n" in run("doctor")[1]
    assert run("cache", "clear")[1] == f"1 entry was removed from {cache}.\n"


def test_a_file_where_the_cache_should_be_is_reported(run, cache):
    cache.write_text("")
    reason = f"{cache} is not a folder"
    assert run("cache")[1].startswith(f"The cache on disk is off: {reason}.\n")
    assert run("cache", "verify")[1] == f"The cache on disk is off, so nothing was verified: {reason}.\n"
    assert f"kernels        not cached on disk: {reason}\n" in run("doctor")[1]


@pytest.mark.skipif(os.name == "nt", reason="folders have no such right there")
def test_a_cache_that_cannot_be_written_is_reported(run, cache, monkeypatch):
    DiskStore(cache).put("program:one", b"payload")
    # root may write to it all the same
    monkeypatch.setattr(DiskStore, "is_writable", False)
    reason = "which is not writable: new kernels are not cached"
    assert f"kernels        cached in {cache}, {reason}\n" in run("doctor")[1]
    assert f"bytes, {reason}.\n" in run("cache")[1]


def test_a_size_that_is_no_number_is_reported(run, cache, monkeypatch):
    monkeypatch.setenv("TILEJIT_CACHE_MAXSIZE", "1 GB")
    _, out, err = run("cache")
    assert out.startswith("TILEJIT_CACHE_MAXSIZE='1 GB' is not a number of bytes") and not err
    _, out, err = run("doctor")
    assert "TILEJIT_CACHE_MAXSIZE='1 GB' is not a number of bytes" in out and not err


def test_cache_leaves_what_belongs_to_another_user(run, cache):
    if not hasattr(os, "geteuid") or os.geteuid():
        pytest.skip("only root can give a file to somebody")
    for n in range(2):
        DiskStore(cache).put(f"program:{n}", b"payload")
    foreign, own = cache.iterdir()
    os.chown(foreign, 65534, 65534)
    left = f"left {foreign.name}: belongs to another user\n1 entry is sound in {cache}.\n"
    assert run("cache", "verify")[1] == left and {*cache.iterdir()} == {foreign, own}


UNPINNED = """
import tilejit as tj

@tj.kernel(threads=64)
def scaled(A: tj.Tensor, B: tj.Tensor, n, s: tj.float16, K: tj.constexpr, L: tj.constexpr = None):
    i = tj.cta_id(0) * 64 + tj.thread_id()
    if i < n:
        B[i, 0] = A[i] * s + K

@tj.kernel
def other(A: tj.Tensor):
    pass
"""

SPECS = ("--spec", "A=float32[128]", "--spec", "B = float32[128, 2] : (1, 128)", "--spec", "n=int64", "--spec", "K=3")


def test_compile_writes_what_another_process_launches(run, file, tmp_path):
    ptx, header = str(tmp_path / "k.ptx"), str(tmp_path / "k.h")
    place = f"{file(UNPINNED)}::scaled"
    status, out, _ = run("compile", place, *SPECS, "--target", "sm_80", "--threads", "128", "-o", ptx, "-o", header)
    assert status == 0 and out.splitlines() == [ptx, header]
    kernel = tj.load_compiled(ptx)
    executable = kernel.compiled.executable
    assert (executable.target.name, executable.threads, executable.name) == ("sm_80", 128, "scaled")
    a, b = np.arange(128, dtype=np.float32), np.zeros((2, 128), np.float32).T
    kernel[1](a, b, 100, 0.5)
    np.testing.assert_array_equal(b[:, 0], np.where(np.arange(128) < 100, a * 0.5 + 3, 0))
    assert "SCALED_THREADS 128" in Path(header).read_text()


def test_compile_needs_no_kernel_name_where_there_is_one_and_no_spec_where_all_is_pinned(run, file, tmp_path):
    status, out, _ = run("compile", file(PINNED), "-o", str(tmp_path / "k"))
    assert status == 0
    assert sorted(Path(line).name for line in out.splitlines()) == ["k.lane", "k.ll", "k.ptx", "k.tile"]


@pytest.mark.parametrize(
    ("place", "specs", "message"),
    [
        ("", (), "has 2 kernels\nhelp: write .*::KERNEL, one of: scaled, other"),
        ("::missing", (), "has no kernel 'missing'"),
        ("::scaled", ("--spec", "C=int32"), "scaled has no parameter 'C'"),
        ("::scaled", ("--spec", "A"), "--spec 'A' has no value"),
        ("::scaled", ("--spec", "K=no literal"), "--spec K=no literal is neither a dtype nor a Python literal"),
        ("::scaled", ("--spec", "A=float33[3]"), "'float33' is not an element type"),
        ("::scaled", ("--spec", "A=float32[3]:(1, 2)"), "2 strides .* describe shape"),
        ("::scaled", ("--spec", "A=float32[3]"), "scaled is missing B, n, K"),
        ("::scaled", ("--spec", "A=float32[64 64]"), r"A=float32\[64 64\]: extents and strides are integers"),
        ("::scaled", ("--spec", "A=float32[64]:(-)"), "extents and strides are integers with commas between them"),
    ],
)
def test_compile_says_what_is_wrong_with_its_arguments(run, file, tmp_path, place, specs, message):
    status, _, err = run("compile", f"{file(UNPINNED)}{place}", *specs, "-o", str(tmp_path / "k.ptx"))
    assert status == 1 and re.search(message, err), err
    assert not (tmp_path / "k.ptx").exists()


def test_explain_compiles_a_pinned_kernel(run, file):
    status, out, _ = run("explain", f"{file(PINNED)}::copy", "--target", "sm_100a")
    assert status == 0
    assert out.startswith("copy for sm_100a: 2 tile operations")
    assert "kernels.py:7" in out and "gmem_smem" in out


@pytest.mark.parametrize(
    ("option", "text"),
    [("--ptx", ".target sm_80"), ("--tile-ir", "copy"), ("--lane-ir", "global"), ("--llvm", "ptx_kernel")],
)
def test_explain_prints_each_text(run, file, option, text):
    status, out, _ = run("explain", file(PINNED), "--target", "sm_80", option)
    assert status == 0 and text in out


def test_explain_takes_what_a_program_launched(run, file):
    path = file(LAUNCHED)
    status, out, _ = run("explain", path, "--run", "--ptx")
    assert status == 0 and ".target sm_90a" in out
    status, out, _ = run("explain", path, "--run", "--ptx", "--target", "sm_75")
    assert status == 0 and ".target sm_75" in out


@pytest.mark.parametrize(
    ("end", "said"),
    [("sys.exit()", ""), ("sys.exit(0)", ""), ("exit(3)", "ended with 3"), ("sys.exit('no')", "ended with 'no'")],
)
def test_explain_takes_what_a_program_launched_before_it_ended_itself(run, file, end, said):
    status, out, err = run("explain", file(f"import sys\n{LAUNCHED}    {end}\n"), "--run")
    assert status == 0 and out.startswith("store for sm_90a") and "script.py:" not in err
    assert (said in err) if said else not err


def test_a_program_that_ends_before_it_has_kernels_is_reported(run, file):
    status, _, err = run("explain", file("import sys\nsys.exit(1)\n"), "--run")
    assert status == 1 and "ended with 1" in err and "has no kernels" in err


def test_explain_compiles_for_the_arguments_that_it_is_given(run, file):
    place = f"{file(UNPINNED)}::scaled"
    status, out, _ = run("explain", place, *SPECS, "--threads", "96", "--ptx", "--target", "sm_80")
    assert status == 0 and ".maxntid 96" in out and ".target sm_80" in out
    status, out, _ = run("explain", file(LAUNCHED), "--spec", "A=float32[32]", "--spec", "n=3")
    assert status == 0 and out.startswith("store for sm_90a")
    status, _, err = run("explain", file(UNPINNED), *SPECS)
    assert status == 1 and "has 2 kernels" in err


def test_explain_says_what_to_add_where_nothing_tells_the_arguments(run, file):
    status, _, error = run("explain", file(LAUNCHED))
    assert status == 1
    assert "the arguments of store in" in error and all(w in error for w in ("--spec", "tj.spec", "--run"))
    status, _, error = run("explain", file(UNPINNED), "--run")
    assert status == 1 and "launch the kernel in the file" in error and "--run" not in error


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        (PINNED, "::other", "has no kernel 'other'"),
        ("x = 1\n", "", "has no kernels"),
        (None, "", "no such file"),
    ],
)
def test_explain_says_what_is_missing(run, file, tmp_path, text, place, message):
    path = tmp_path / "absent.py" if text is None else file(text)
    status, _, error = run("explain", f"{path}{place}")
    assert status == 1 and message in error


def test_an_unknown_target_is_an_error_in_words(run, file):
    status, _, error = run("explain", file(PINNED), "--target", "sm_1")
    assert status == 1 and error.startswith("DeviceError: unknown target 'sm_1'")


def python(code):
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_importing_loads_neither_llvm_nor_cuda():
    heavy = python(
        """
        import sys
        import tilejit as tj
        print(tj.S, tj.cdiv(5, 2), tj.exp, tj.kernel)
        print(sorted({"llvmlite", "cuda", "torch", "cupy"} & {m.split(".")[0] for m in sys.modules}))
        """
    )
    assert heavy.splitlines()[-1] == "[]"


def test_importing_takes_less_time_than_importing_numpy():
    clock = """
        from time import process_time
        began = process_time()
        import numpy
        between = process_time()
        import tilejit
        print((process_time() - between) / (between - began))
        """
    assert min(float(python(clock)) for _ in range(3)) < 1


def test_it_works_where_cuda_python_is_not_installed():
    shown = python(
        """
        import os, sys
        os.environ.pop("TILEJIT_DEVICE", None)
        sys.modules["cuda"] = None
        import numpy as np
        import tilejit as tj
        print(tj.device())
        from tilejit.runtime import devices
        print(devices.cuda_problem())
        try:
            with tj.use_device("cuda"):
                pass
        except tj.DeviceError as error:
            print(error)
        """
    )
    assert shown.splitlines()[0] == "sim"
    assert "isn't installed" in shown.splitlines()[1]
    assert "no device cuda:0" in shown


def test_public_names_exist_and_are_listed():
    import tilejit as tj
    from tilejit.frontend.foreign import NOT_YET

    for name in tj.__all__:
        assert getattr(tj, name) is not None
    assert {"kernel", "exp", "warp", "cta_id", "float8_e5m2", "S"} <= set(dir(tj))
    assert not NOT_YET.keys() & set(dir(tj))
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        tj.nonsense  # noqa: B018


@pytest.mark.parametrize(
    ("text", "words"),
    [("x = (", "raised SyntaxError"), ("x = 1\nraise ValueError('no')", "raised ValueError at line 2: no"),
     # Python 3.10 raises a ValueError
     ("\0", "raised ")],
)
def test_explain_of_a_file_that_python_cannot_import_says_why_in_a_sentence(tmp_path, capsys, text, words):
    file = tmp_path / "broken.py"
    file.write_text(text)
    assert main(["explain", str(file)]) == 1
    shown = capsys.readouterr().err
    assert words in shown and "Traceback" not in shown


@pytest.mark.parametrize(("specs", "types"), [((), "n: int32"), (("--spec", "n=int64"), "n: int64")])
def test_an_int_of_which_nothing_is_said_is_an_int32(run, file, specs, types):
    text = "import tilejit as tj\n@tj.kernel(threads=32)\ndef k(A: tj.Tensor, n: int, a: float):\n    A[n] = a\n"
    status, out, _ = run("explain", file(text), "--tile-ir", "--spec", "A=float32[32]", *specs)
    assert status == 0 and types in out and "a: float32" in out


#: values of arguments that are none, or that Python's own readers stumble over
ODD = [
    "", "-" * 6000 + "1", "(" * 300 + ")" * 300, "9" * 5000, f"float32[{'9' * 5000}]", f"float32[{'9' * 30}]",
    "float32[-1]", "float32[32]:(0)", "float32[32]:(1, 2)", "float32[1,2", "foo[3]", "barrier[3]", "{[]}", "{[]: 1}",
    "-'a'", "1j", "...", "b'x'",
    "x\0y", "\udc80", "lambda: 1", "'" + "a" * 10000 + "'", "float32[\N{SUPERSCRIPT TWO}]", "None", "1e999",
]


@pytest.mark.parametrize("value", ODD, ids=range(len(ODD)))
@pytest.mark.parametrize("name", ["A", "n"])
@pytest.mark.parametrize("command", ["explain", "compile"])
def test_an_odd_value_is_taken_or_refused_in_words(run, tmp_path, command, name, value):
    (tmp_path / "f.py").write_text(LAUNCHED)
    given = {"A": "float32[32]", "n": "3", name: value}
    options = ["-o", str(tmp_path / "k.ptx")] if command == "compile" else []
    specs = [f"--spec={name}={text}" for name, text in given.items()]
    status, _, said = run(command, str(tmp_path / "f.py"), *specs, *options)
    assert status in (0, 1) and len(said) < 4000 and "Traceback" not in said


def test_simulator_lists_the_instructions_and_how_exact_each_is(run):
    status, out, _ = run("simulator")
    assert status == 0
    assert re.search(r"^\(lop3|fns\)\.b32 +exact$", out, re.MULTILINE)
    assert re.search(r"^discard\{\.global\}\.L2 +approximate: .*; not checked for races$", out, re.MULTILINE)
    # the compiler emits nothing that the simulator refuses
    assert "unknown to the simulator" not in out


def test_simulator_lists_what_the_compiler_emits_and_it_does_not_know(run, monkeypatch):
    text = "{ .reg .b32 a; mov.b32 a, 1; @$p novel.b32 a; }"
    monkeypatch.setitem(isa.ROWS, "new", replace(isa.ROWS["mov.b64"], name="new", text=text))
    status, out, _ = run("simulator")
    assert status == 0 and re.search(r"^novel\.b32 +unsupported$", out, re.MULTILINE)


@pytest.mark.parametrize("output", ["/dev/full", "closed"])
@pytest.mark.parametrize("command", ["operations", "doctor"])
def test_output_that_cannot_be_written_is_reported(command, output, tmp_path):
    if output != "closed" and not os.path.exists(output):
        pytest.skip(f"no {output}")
    redirected = ">&-" if output == "closed" else f"> {output}"
    line = f"{sys.executable} -m tilejit {command} {redirected}"
    environment = {**os.environ, "TILEJIT_DEVICE": "sim"}
    ended = subprocess.run(["sh", "-c", line], capture_output=True, text=True, env=environment)
    assert "Traceback" not in ended.stderr and "Exception" not in ended.stderr, ended.stderr
    assert ended.returncode == (0 if output == "closed" else 1)
    assert output == "closed" or "No space left" in ended.stderr


@pytest.mark.skipif(os.name == "nt", reason="needs a shell with pipes")
def test_the_exit_status_of_a_check_does_not_depend_on_the_reader_of_its_output(tmp_path):
    (tmp_path / "race.ptx").write_text(RACE_PTX, encoding="utf-8")
    check = f"{sys.executable} -m tilejit check race.ptx shift --grid 1 --block 256 --arg out:f32[256] --format json"
    # the output exceeds a buffer, so it is written before the last line, too
    line = f"({check} --schedules 40; echo $? > status) | true"
    environment = {**os.environ, "PYTHONPATH": str(Path(tj.__file__).parents[1])}
    ended = subprocess.run(["sh", "-c", line], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert (tmp_path / "status").read_text() == "1\n" and not ended.stderr


@pytest.mark.skipif(os.name == "nt", reason="needs a shell that closes streams")
def test_a_program_runs_without_a_standard_error(file):
    line = f"{sys.executable} -m tilejit explain {file(PINNED)} 2>&-"
    ended = subprocess.run(["sh", "-c", line], capture_output=True, text=True)
    assert ended.returncode == 0 and ended.stdout.startswith("copy for "), ended.stdout


def test_letters_that_the_output_lacks_are_escaped():
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "TILEJIT_DEVICE": "sim"}
    command = [sys.executable, "-m", "tilejit", "operations"]
    ended = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert ended.returncode == 0 and ended.stdout.isascii(), ended.stderr
