"""ptxas, where there is one: the assembler's word on emitted PTX."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sysconfig
import tempfile
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from tilejit import pipeline
from tilejit.codegen import Generated
from tilejit.compiled import Compiled
from tilejit.ir.nodes import Kernel
from tilejit.target import Target

CACHE = Path(tempfile.gettempdir()) / f"tilejit-ptxas-{os.getuid()}"


#: the first line of a checked build's PTX, as tests remember it
CHECKED = "// a checked build\n"


@lru_cache(maxsize=1)
def ptxas_path() -> Path | None:
    """ptxas of the nvidia-cuda-nvcc wheel, else the one on PATH, else None."""
    wheel = Path(sysconfig.get_paths()["purelib"]) / "nvidia" / "cu13" / "bin" / "ptxas"
    if wheel.exists():
        return wheel
    found = shutil.which("ptxas")
    return Path(found) if found else None


def ptxas_paths() -> list[Path]:
    """Return the installed ptxas and those that `TILEJIT_TEST_PTXAS` lists, which may be of other versions."""
    listed = [Path(name) for name in os.environ.get("TILEJIT_TEST_PTXAS", "").split(os.pathsep) if name]
    installed = ptxas_path()
    return listed if installed is None else [installed, *listed]


@lru_cache(maxsize=1)
def nvdisasm_path() -> Path | None:
    """Return nvdisasm of the nvidia-cuda-nvdisasm wheel, else the one on PATH, else None."""
    wheel = Path(sysconfig.get_paths()["purelib"]) / "nvidia" / "cu13" / "bin" / "nvdisasm"
    found = str(wheel) if wheel.exists() else shutil.which("nvdisasm")
    return Path(found) if found else None


def ptxas_accepts(ptx: str, target: str) -> None:
    """Fails with ptxas's words where it refuses `ptx` for `target`; skips the test where there is no ptxas."""
    if ptxas_path() is None:
        pytest.skip("no ptxas: install nvidia-cuda-nvcc")
    complaint = complaint_of(ptx, target)
    assert complaint is None, f"ptxas -arch={target}:\n{complaint}\n{_numbered(ptx)}"


def complaint_of(ptx: str, target: str) -> str | None:
    """What ptxas says against `ptx`, or None. Acceptance is remembered by content."""
    ptxas = ptxas_path()
    if ptxas is None:
        return None
    seen = _memo(ptx, target)
    if seen.exists():
        return None
    refusal = _assembled(ptx, target)
    if refusal is None:
        seen.touch()
    return refusal


def _memo(ptx: str, target: str) -> Path:
    """The file that exists where ptxas has accepted `ptx`."""
    CACHE.mkdir(exist_ok=True)
    return CACHE / hashlib.sha256(f"{ptxas_path()}\n{target}\n{ptx}".encode()).hexdigest()


def _assembled(ptx: str, target: str) -> str | None:
    """Runs ptxas; its words where it refuses.

    Without optimisation, which decides nothing of what it accepts, but whether asynchronous products go on meanwhile.
    """
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "kernel.ptx"
        source.write_text(ptx)
        level = [] if _ASYNCHRONOUS.search(ptx) else ["-O0"]
        command = [str(ptxas_path()), *level, f"-arch={target}", "-o", os.devnull, str(source)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    said = done.stderr + done.stdout
    # what is numbered so costs speed, or leaves instructions out; threads of a checked build may end anywhere
    is_slow = "(C75" in said and not ptx.startswith(CHECKED)
    return said if done.returncode != 0 or is_slow else None


#: instructions that ptxas may reorder or change
_ASYNCHRONOUS = re.compile("wgmma|setmaxnreg")


@dataclass(frozen=True)
class Usage:
    """What ptxas says of a kernel's memory outside registers, in bytes a thread."""

    stack_frame: int
    spill_stores: int
    spill_loads: int


def usage(ptx: str, target: str) -> Usage:
    """What the machine code of one kernel uses, optimised as a driver does it."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "kernel.ptx"
        source.write_text(ptx)
        command = [str(ptxas_path()), "-v", f"-arch={target}", "-o", os.devnull, str(source)]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    assert "(C75" not in said, said
    (numbers,) = re.findall(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", said)
    return Usage(*map(int, numbers))


def notes_of(ptx: str, target: str) -> list[str]:
    """Those of ptxas's lines that say that it changed asynchronous products; skips where there is no ptxas."""
    ptxas = ptxas_path()
    if ptxas is None:
        pytest.skip("no ptxas: install nvidia-cuda-nvcc")
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "kernel.ptx"
        source.write_text(ptx)
        command = [str(ptxas), "-v", f"-arch={target}", "-o", os.devnull, str(source)]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    return [line for line in said.splitlines() if "(C75" in line]


#: programs that one process of ptxas assembles: its start costs 15 ms, a small program 5
BATCH = 32

_HEAD = re.compile(r"\.version \S+\n\.target \S+\n\.address_size 64\n")


def joined(programs: Iterable[str]) -> str:
    """One module of programs with equal heads: entries, files and shared memory get the number of their program."""
    bodies: list[str] = []
    head = ""
    for number, ptx in enumerate(programs):
        start = _HEAD.search(ptx)
        assert start is not None and head in ("", start.group()), "programs of one module have one head"
        head, body = start.group(), ptx[start.end() :]
        body = re.sub(r"(\.entry )([\w$]+)", rf"\1\2_{number}", body)
        body = re.sub(r"^(\s*\.(?:file|loc)\s+)(\d+)", rf"\g<1>{number + 1}00\2", body, flags=re.MULTILINE)
        bodies.append(re.sub(r"\b(dynamic_shared|\$L__info_string)", rf"\1_{number}_", body))
    return head + "".join(bodies)


def local_memory_of(ptx: str, target: str) -> tuple[int, int]:
    """(bytes of a thread's stack frame, bytes of spilled stores) of one kernel; skips where there is no ptxas."""
    ptxas = ptxas_path()
    if ptxas is None:
        pytest.skip("no ptxas: install nvidia-cuda-nvcc")
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "kernel.ptx"
        source.write_text(ptx)
        command = [str(ptxas), f"-arch={target}", "-v", "-o", os.devnull, str(source)]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    (counts,) = re.findall(r"(\d+) bytes stack frame, (\d+) bytes spill stores", said)
    return int(counts[0]), int(counts[1])


def complaints(programs: Iterable[tuple[str, str, str]], workers: int = 4) -> list[str]:
    """Each refusal among (ptx, target, name)s, checked many at a time; what a module has is asked one by one."""
    listed = list(programs) if ptxas_path() is not None else []
    fresh = [(ptx, target) for ptx, target, _ in listed if not _memo(ptx, target).exists()]
    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(_remember, _batches(fresh)))
        refusals = list(pool.map(lambda p: complaint_of(p[0], p[1]), listed))
    return [f"{name} ({target}): {c}" for (_, target, name), c in zip(listed, refusals, strict=True) if c is not None]


def _batches(programs: Iterable[tuple[str, str]]) -> Iterator[tuple[str, list[str]]]:
    """Programs that can be one module, by target."""
    groups: dict[tuple[str, str], list[str]] = {}
    for ptx, target in programs:
        head = _HEAD.search(ptx)
        if head is not None:
            groups.setdefault((target, head.group()), []).append(ptx)
    for (target, _), group in groups.items():
        for first in range(0, len(group), BATCH):
            yield target, group[first : first + BATCH]


def _remember(batch: tuple[str, list[str]]) -> None:
    """Remembers the programs of a batch as accepted where their module is."""
    target, group = batch
    if _assembled(joined(group), target) is None:
        for ptx in group:
            _memo(ptx, target).touch()


#: names, of which ptxas takes any: registers by their kind
_NAMES = re.compile(r"(%[a-z]+)\d+|\$L_\w+|(?<=\.entry )\w+|\w+_param_\d+|//.*|shared\d+_[\w$]+")
#: opcodes whose constants may be any of their type; those of others (`bar.sync 1`) are part of what is taken
_ANY_CONSTANT = re.compile(
    r"\s*(?:@!?%\w+ )?(?:abs|add|and|bfe|bfi|cvt|div|fma|max|min|mad|mov|mul|neg|not|or|prmt|rem|selp|setp|shl|shr|slct"
    r"|ld|st|sub|xor)\.|\s*\.(?:b8|b32|b64|file|loc|reg)\b"
)
_NUMBER = re.compile(r"(?<![\w.])(?:0[fFdD][0-9A-Fa-f]+|-?0x[0-9A-Fa-f]+|-?\d+)(?![\w.])")
_OFFSET = re.compile(r"(?<=\+)-?\d+(?=\])")
_SHARED = re.compile(r"\.shared .*\[(\d+)\]")
#: bits of types and of offsets, past which a constant is refused
_BITS = (16, 31, 32, 63, 64, 1 << 30)


def forms(ptx: str) -> set[str]:
    """A program's lines as far as ptxas tells them apart: kinds of registers, bits of constants, shared KiB."""
    shared = sum(map(int, _SHARED.findall(ptx)))
    return {f"shared {-(-shared // 1024)}", *map(_form, ptx.splitlines())}


@lru_cache(maxsize=1 << 18)
def _form(line: str) -> str:
    line = _OFFSET.sub(_bits, _NAMES.sub(lambda m: m[1] or "", line))
    if _SHARED.search(line):
        return _NUMBER.sub("", line)
    return _NUMBER.sub(_bits, line) if _ANY_CONSTANT.match(line) else line


def _bits(number: re.Match[str]) -> str:
    digits = number[0]
    if digits[1:2] in ("f", "F", "d", "D"):
        return digits[:2]
    return f"b{next(bits for bits in _BITS if int(digits, 0).bit_length() <= bits)}"


def covering(programs: Iterable[tuple[str, str, str]]) -> Iterator[tuple[str, str, str]]:
    """Those among (ptx, target, name)s in which some form of line is the first for its target; the shortest first.

    What ptxas makes of asynchronous instructions depends on all that is around them: it is asked of each such program.

    Of a thousand programs that properties draw, ptxas reads nothing new in most, which costs it 10 ms each.
    """
    seen: set[tuple[str, str]] = set()
    for ptx, target, name in sorted(programs, key=lambda program: len(program[0])):
        lines = {(target, form) for form in forms(ptx)}
        if not lines <= seen or (_ASYNCHRONOUS.search(ptx) and not ptx.startswith(CHECKED)):
            seen |= lines
            yield ptx, target, name


@contextmanager
def without_notes() -> Iterator[None]:
    """Fails where the driver's compiler says of a kernel that is loaded meanwhile what costs speed.

    Not of checked builds, whose threads may end anywhere.
    """
    from tilejit.runtime.cuda_function import CudaFunction

    notes: list[str] = []
    original = CudaFunction.__init__

    def loaded(function: CudaFunction, device: Any, compiled: Compiled) -> None:
        original(function, device, compiled)
        if not function.asserts:
            notes.extend(f"{compiled.name}: {note}" for note in function.notes)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CudaFunction, "__init__", loaded)
        yield
    assert not notes, "\n".join(notes)


class EmittedPtx:
    """PTX that tests emitted, for one check at the end."""

    def __init__(self) -> None:
        self.programs: dict[tuple[str, str], str] = {}

    def add(self, ptx: str, target: str, name: str) -> None:
        """Remembers one program, unless it calls the simulator's `__breakpoint`; `name` says where it came from."""
        if "__breakpoint, (" in ptx:
            return
        self.programs.setdefault((ptx, target), name)

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Remembers what the pipeline generates meanwhile, by the test that runs."""
        original = pipeline.generate

        def generate(kernel: Kernel, target: Target) -> Generated:
            made = original(kernel, target)
            ptx = CHECKED + made.ptx if kernel.debug else made.ptx
            self.add(ptx, target.name, os.environ.get("PYTEST_CURRENT_TEST", "no test").rsplit(" ", 1)[0])
            return made

        pipeline.generate = generate
        try:
            yield
        finally:
            pipeline.generate = original

    def check(self, *, each: bool = False) -> None:
        """Fails with every refusal among programs that have each form of line; each: among all programs."""
        programs = [(ptx, target, name) for (ptx, target), name in self.programs.items()]
        refused = complaints(programs if each else covering(programs))
        assert not refused, "\n".join(refused)


def _numbered(ptx: str) -> str:
    return "\n".join(f"{n:4} {line}" for n, line in enumerate(ptx.splitlines(), 1))
