"""The public class of compiled kernels.

The modules that explain a compilation are imported only on demand.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from .callers import stack_level
from .dataclass import dataclass, field, replace
from .errors import PerformanceWarning, TilejitError, entry_point
from .executable import Executable, MachineCode, Usage
from .files import write_whole
from .html_tables import box, facts_table
from .ir.params import PointerParam, TensorMapParam
from .ir.types import Signature
from .source import Span
from .target import Target
from .wording import counted

if TYPE_CHECKING:
    from .explanation import Decisions, Explanation
    from .ir.analyses.pressure import Pressure
    from .ir.nodes import Kernel
    from .lower import Verdict
    from .lower.open import LayoutChoice


#: local memory up to this many bytes per thread isn't reported as spills: drivers round sizes up
_ROUNDED_BYTES = 16


class DecisionShelf(Protocol):
    """Persistent storage for the compiler's decisions about one kernel."""

    def decisions(self) -> Decisions | None: ...

    def keep_decisions(self, decisions: Decisions) -> None: ...


@dataclass(slots=True)
class Derivation:
    """The record of a compilation: the kernel at each level, and the decisions taken. The passes fill it in."""

    #: the kernel as the frontend built it, in which tiles may have no layouts yet
    open: Kernel
    #: the kernel with layouts, before dispatch
    tile: Kernel
    #: the input of code generation
    lane: Kernel
    llvm_ir: str = ""
    verdicts: tuple[Verdict[Any], ...] = ()
    #: name of a buffer in local memory -> location of an access with run-time indices that requires it to be there
    addressed: Mapping[str, Span | None] = field(default_factory=dict)
    layouts: tuple[LayoutChoice, ...] = ()
    #: register pressure of the local tiles; None if they would fit in registers even if all were live at once
    pressure: Pressure | None = None


@dataclass(slots=True, eq=False)
class Compiled:
    """A kernel compiled for one signature and target.

    timings: milliseconds per stage; a name with a dot, such as `codegen.emit`, is a part of another stage.

    Example:
        @tj.kernel(threads=32)
        def k(A: tj.Tensor) -> None:
            A[tj.thread_id()] = 1

        compiled = k.compile(tj.spec(32, tj.float32), target="sm_90a")
        print(compiled.ptx, compiled.explain())
    """

    executable: Executable
    timings: dict[str, float]
    #: the record of the compilation, or a function that recompiles to obtain it (for a kernel from the cache) or raises
    #: TilejitError (for one from a file)
    origin: Derivation | Callable[[], Derivation] = field(repr=False)
    #: as reported by the driver when it loaded the kernel, None before
    measured: Usage | None = field(default=None, repr=False)
    #: advisories of the driver's compiler; empty if it issued none or the driver had the kernel in its cache
    notes: tuple[str, ...] = field(default=(), repr=False)
    is_warned: bool = field(default=False, repr=False)
    #: compiles the kernel to machine code; None for a result of `pipeline.compile`
    assemble: Callable[[Executable], MachineCode] | None = field(default=None, repr=False)
    #: the kernel's entry in the cache, None if it has none
    shelf: DecisionShelf | None = field(default=None, repr=False)
    #: the compiler's decisions, None until they are first needed
    decided: Decisions | None = field(default=None, repr=False)

    def __repr__(self) -> str:
        return f"<compiled {self.name} for {self.target.name}, {counted(self.threads, 'thread')}>"

    def _repr_html_(self) -> str:
        facts = {
            "threads": self.threads,
            "registers": self.registers,
            "spilled bytes": self.spills,
            "shared bytes": self.shared_bytes,
            "occupancy": f"{self.occupancy:.0%}",
            "milliseconds": f"{self.milliseconds:.0f}",
        }
        return box(f"<b>{self.name}</b> for {self.target.name}", facts_table(facts))

    @property
    def milliseconds(self) -> float:
        """Milliseconds that it took to compile the kernel or read it from the cache; 0 if it was loaded from a file."""
        return sum(ms for stage, ms in self.timings.items() if "." not in stage)

    @property
    def is_derived(self) -> bool:
        """True if the record of the compilation is available without recompiling."""
        return isinstance(self.origin, Derivation)

    @property
    def derivation(self) -> Derivation:
        """The record of the compilation; recompiles a cached kernel. raises: TilejitError for a kernel from a file."""
        if not isinstance(self.origin, Derivation):
            self.origin = self.origin()
        return self.origin

    @property
    def name(self) -> str:
        return self.executable.name

    @property
    def target(self) -> Target:
        return self.executable.target

    @property
    def signature(self) -> Signature:
        return self.executable.signature

    @property
    def threads(self) -> int:
        """Threads per CTA."""
        return self.executable.threads

    @property
    def shared_bytes(self) -> int:
        """Bytes of shared memory per CTA."""
        return self.executable.shared_bytes

    @property
    def local_bytes(self) -> int:
        """Bytes of local memory per thread for the kernel's buffers, without register spills."""
        return self.executable.local_bytes

    @property
    def ptx(self) -> str:
        return self.executable.ptx

    @property
    def usage(self) -> Usage:
        """Registers and spills per thread; an estimate if no driver has compiled the kernel yet."""
        usage = self.measured or self.executable.usage
        if usage is None:
            from .codegen.limits import estimate

            usage = estimate(self.derivation.lane, self.derivation.pressure)
        return usage

    @property
    def lost_speed(self) -> tuple[str, ...]:
        """The advisories of the driver's compiler, and its spills; () if there are none or none are known."""
        spilled = self.measured.spill_bytes if self.measured is not None and "vprintf" not in self.ptx else 0
        spills = (f"{spilled} bytes of registers are spilled per thread",) if spilled > _ROUNDED_BYTES else ()
        return (*self.notes, *spills)

    def warn_of_lost_speed(self) -> None:
        """Issue a PerformanceWarning for `lost_speed`, once, unless this is a checked build."""
        if self.is_warned:
            return
        self.is_warned = True
        lost = () if self.executable.is_checked else self.lost_speed
        if lost:
            lines = "".join(f"\n  {each}" for each in lost)
            warnings.warn(
                f"{self.name} is slower than it could be, as the driver's compiler reports:{lines}\n"
                "help: issue products that overlap in one iteration, and wait for them before their accumulators are "
                "used; against spills, use smaller tiles or more threads",
                PerformanceWarning, stacklevel=stack_level(),
            )

    @property
    def executable_to_keep(self) -> Executable:
        """The executable with its usage, which can't be estimated from a saved executable alone."""
        return replace(self.executable, usage=self.usage)

    @property
    def registers(self) -> int:
        """Registers per thread; see `usage`."""
        return self.usage.registers

    @property
    def spills(self) -> int:
        """Bytes of local memory per thread for spilled registers; see `usage`."""
        return self.usage.spill_bytes

    @property
    def occupancy(self) -> float:
        """Resident warps per multiprocessor, relative to the maximum, given registers, shared memory and threads."""
        return self.target.multiprocessor.occupancy(self.threads, self.registers, self.shared_bytes)

    @property
    def verdicts(self) -> tuple[Verdict[Any], ...]:
        """The dispatcher's verdict on each tile operation."""
        return self.derivation.verdicts

    @property
    def open_ir(self) -> str:
        """The kernel before its tiles have layouts, as text."""
        return _text(self.derivation.open)

    @property
    def tile_ir(self) -> str:
        """The kernel with layouts, before dispatch, as text."""
        return _text(self.derivation.tile)

    @property
    def lane_ir(self) -> str:
        """The kernel after dispatch and all passes, as text: the input of code generation."""
        return _text(self.derivation.lane)

    @property
    def llvm_ir(self) -> str:
        return self.derivation.llvm_ir

    @property
    def decisions(self) -> Decisions:
        """The compiler's decisions, read from the kernel's cache entry, or else extracted from the record and kept."""
        if self.decided is None:
            self.decided = None if self.shelf is None else self.shelf.decisions()
        if self.decided is None:
            from .explain_data import decisions

            self.decided = decisions(self.derivation)
            if self.shelf is not None:
                self.shelf.keep_decisions(self.decided)
        return self.decided

    def explain(self) -> Explanation:
        """Return an explanation of the compiler's decisions, such as the choice of a variant for a tile operation."""
        from .executable.assembler import ptxas_notes
        from .executable.census import census
        from .explanation import Explanation

        params = self.executable.params
        written = [p.buffer.dtype for p in params if isinstance(p, PointerParam) and p.written]
        density = census(self.ptx, max(written, key=lambda dtype: dtype.bits, default=None))
        maps = tuple([p.map for p in params if isinstance(p, TensorMapParam)])
        # a driver that compiled the PTX has reported its notes already
        notes = self.lost_speed or ptxas_notes(self.ptx, self.target.name)
        return Explanation(self.name, self.target.name, self.decisions, density, maps, notes)

    @entry_point
    def save(self, path: str | Path) -> tuple[Path, ...]:
        """Write the kernel to one or several files, and return their paths.

        path: `k.ptx` or `k.cubin` for a file that `tj.load_compiled` reads, `k.h` for a C header with the kernel's
        parameters; any other name, such as `k`, writes the IR and PTX to `k.tile`, `k.lane`, `k.ll` and `k.ptx`.
        raises: TilejitError if a file can't be written, or if the IR is needed but the kernel was loaded from a file;
        DeviceError if the device in use can't compile the cubin.
        """
        from .executable.files import SUFFIXES, saved
        from .executable.header import c_header

        if not isinstance(path, (str, Path)) or not Path(path).name:
            raise TilejitError(f"{path!r} is not a file to save to", hint="pass a file's path, as a str or a Path")
        file = Path(path)
        if not file.parent.is_dir():
            raise TilejitError(
                f"{file.parent} is not a folder: {file.name} can't be saved in it",
                hint="create the folder first, or save to an existing one",
            )
        if file.suffix in SUFFIXES:
            return (_write(file, saved(self._measured(is_assembled=file.suffix == ".cubin"))),)
        if file.suffix == ".h":
            return (_write(file, c_header(self.executable).encode()),)
        texts = {".tile": self.tile_ir, ".lane": self.lane_ir, ".ll": self.llvm_ir}
        contents = {end: text.encode() for end, text in texts.items()}
        contents[".ptx"] = saved(self._measured(is_assembled=False))
        return tuple([_write(file.with_name(file.name + end), content) for end, content in contents.items()])

    def _measured(self, is_assembled: bool) -> Executable:
        code = self.executable.machine_code
        if is_assembled and code is None:
            assert self.assemble is not None, "results of pipeline.compile have no assembler"
            code = self.assemble(self.executable)
        return replace(self.executable_to_keep, machine_code=code if is_assembled else None)


def _text(kernel: Kernel) -> str:
    from .ir.text.printer import to_text

    return to_text(kernel)


def _write(file: Path, content: bytes) -> Path:
    try:
        write_whole(file, content)
    except OSError as error:
        raise TilejitError(
            f"{file} can't be written: {error.strerror}", hint="save to a writable location"
        ) from error
    return file
