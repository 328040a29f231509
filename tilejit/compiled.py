"""A compiled kernel as users see it: what a launch needs, and how it was made.

Only who asks how it was made imports what that takes.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from .compile_record import Derivation
from .dataclass import dataclass, field, replace
from .errors import TilejitError, entry_point
from .executable import Executable, MachineCode
from .files import write_whole
from .html_tables import box, facts_table
from .ir.params import PointerParam
from .ir.types import Signature
from .register_usage import Measurement, Usage
from .target import Target
from .wording import counted

if TYPE_CHECKING:
    from .explanation import Decisions, Explanation
    from .ir.nodes import Kernel
    from .lower import Verdict

__all__ = ["Compiled", "DecisionShelf"]


class DecisionShelf(Protocol):
    """Keeps what the compiler decided about one kernel."""

    def decisions(self) -> Decisions | None: ...

    def keep_decisions(self, decisions: Decisions) -> None: ...


@dataclass(slots=True, eq=False)
class Compiled:
    """A kernel compiled for one signature and target.

    executable: what a launch needs. timings: milliseconds by stage. made: how it was made, or what finds out by
    compiling it, where it came from the disk. measurement: what a driver said that has loaded it.
    assemble: gives the machine code that a driver makes of it. shelf: where it is kept on disk, None where it isn't.
    decided: what the compiler decided, None until somebody asks.

    Example:
        @tj.kernel(threads=32)
        def k(A: tj.Tensor) -> None:
            A[tj.thread_id()] = 1

        compiled = k.compile(tj.spec(32, tj.float32), target="sm_90a")
        print(compiled.ptx, compiled.explain())
    """

    executable: Executable
    timings: dict[str, float]
    made: Derivation | Callable[[], Derivation] = field(repr=False)
    measurement: Measurement = field(default_factory=Measurement, repr=False)
    assemble: Callable[[Executable], MachineCode] | None = field(default=None, repr=False)
    shelf: DecisionShelf | None = field(default=None, repr=False)
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
        """What compiling it took, or reading it from the disk."""
        return sum(ms for stage, ms in self.timings.items() if "." not in stage)

    @property
    def is_derived(self) -> bool:
        """Whether it is known how it was made."""
        return isinstance(self.made, Derivation)

    @property
    def derivation(self) -> Derivation:
        """How it was made."""
        if not isinstance(self.made, Derivation):
            self.made = self.made()
        return self.made

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
        """Of a CTA."""
        return self.executable.threads

    @property
    def shared_bytes(self) -> int:
        """Shared memory of a CTA."""
        return self.executable.shared_bytes

    @property
    def local_bytes(self) -> int:
        """Local memory that a thread's buffers take, without what ptxas spills."""
        return self.executable.local_bytes

    @property
    def ptx(self) -> str:
        return self.executable.ptx

    @property
    def usage(self) -> Usage:
        """What a thread needs: an estimate until a driver has loaded the kernel."""
        usage = self.measurement.usage or self.executable.usage
        if usage is None:
            from .codegen.register_estimate import estimate

            usage = estimate(self.derivation.lane, self.derivation.pressure)
        return usage

    @property
    def executable_to_keep(self) -> Executable:
        """What a launch needs, with the usage, which who has only that couldn't estimate."""
        return replace(self.executable, usage=self.usage)

    @property
    def registers(self) -> int:
        """Registers of a thread; see `usage`."""
        return self.usage.registers

    @property
    def spills(self) -> int:
        """Bytes of a thread's local memory for what its registers can't hold; see `usage`."""
        return self.usage.spill_bytes

    @property
    def occupancy(self) -> float:
        """The share of a multiprocessor's warps that can run at once, by registers, shared memory and threads."""
        return self.target.multiprocessor.occupancy(self.threads, self.registers, self.shared_bytes)

    @property
    def verdicts(self) -> tuple[Verdict[Any], ...]:
        """Which variant each tile operation got."""
        return self.derivation.verdicts

    @property
    def open_ir(self) -> str:
        """The kernel before its tiles have layouts, as text."""
        return _text(self.derivation.open)

    @property
    def tile_ir(self) -> str:
        """The kernel before dispatch, as text."""
        return _text(self.derivation.tile)

    @property
    def lane_ir(self) -> str:
        """The kernel after dispatch and all passes, as text: what code generation gets."""
        return _text(self.derivation.lane)

    @property
    def llvm_ir(self) -> str:
        return self.derivation.llvm_ir

    @property
    def decisions(self) -> Decisions:
        """What the compiler decided; of a kernel from the disk that is known where anybody has asked before."""
        if self.decided is None:
            self.decided = None if self.shelf is None else self.shelf.decisions()
        if self.decided is None:
            from .explain_data import decisions

            self.decided = decisions(self.derivation)
            if self.shelf is not None:
                self.shelf.keep_decisions(self.decided)
        return self.decided

    def explain(self) -> Explanation:
        """Which variant each tile operation got, and why not another."""
        from .executable.assembler import ptxas_notes
        from .executable.census import census
        from .explanation import Density, Explanation, map_lines

        params = self.executable.params
        written = [p.buffer.dtype for p in params if isinstance(p, PointerParam) and p.written]
        density = Density(census(self.ptx), max(written, key=lambda dtype: dtype.bits, default=None))
        # a driver that has compiled the kernel itself has reported already
        notes = self.measurement.notes or ptxas_notes(self.ptx, self.target.name)
        return Explanation(self.name, self.target.name, self.decisions, density, map_lines(params), notes)

    @entry_point
    def save(self, path: str | Path) -> tuple[Path, ...]:
        """Writes it to a file, or to several; returns them.

        path: `k.ptx` or `k.cubin` for one file that `tj.load_compiled` takes, `k.h` for a C header with its arguments;
        any other, such as `k`, for the texts k.tile, k.lane and k.ll beside k.ptx.
        raises: TilejitError where they can't be written there, DeviceError for a cubin where no GPU is in use.
        """
        from .executable.files import SUFFIXES, saved
        from .executable.header import c_header

        if not isinstance(path, (str, Path)) or not Path(path).name:
            raise TilejitError(f"{path!r} is no file to save to", hint="give the path of a file, as text or as a Path")
        file = Path(path)
        if not file.parent.is_dir():
            raise TilejitError(
                f"{file.parent} is no folder: {file.name} can't be saved in it", hint="make the folder first"
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
        """What a launch needs, with what it takes, and with machine code only where that is asked for."""
        code = self.executable.machine_code
        if is_assembled and code is None:
            assert self.assemble is not None, "machine code of what pipeline.compile made"
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
            f"{file} can't be written: {error.strerror}", hint="save to a place that can be written"
        ) from error
    return file
