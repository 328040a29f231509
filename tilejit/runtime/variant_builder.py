"""Builds variants of a kernel: loads them from disk, or compiles them.

```
signature, target, threads ─▶ CacheEntry ─ stored? ─▶ Compiled, whose derivation is recomputed on demand
                               └─ no: frontend ─▶ TileDraft ─ pipeline ─▶ Compiled, which is stored
```
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from ..errors import KernelSyntaxError, LaunchError
from ..forks import importing
from ..frontend import KernelSource
from ..gc_pause import gc_paused_until
from ..ir.params import written_arguments
from ..ir.types import ConstexprType, Signature
from ..progress import Progress
from ..remember import forget
from ..target import Target
from .captured import Captured, CapturedValues
from .devices import machine_code
from .disk import CacheEntry, KernelCache

if TYPE_CHECKING:
    from ..compile_record import Derivation
    from ..compiled import Compiled
    from ..ir.nodes import Kernel as TileKernel

#: translates a kernel's source to tile IR: build(signature, target, threads, debug)
Build = Callable[[Signature, Target, int, bool], "TileKernel"]


#: compiles verified tile IR
Compiler = Callable[["TileKernel", Signature, Target], "Compiled"]


class BuildRequest(NamedTuple):
    """The inputs of a build. debug: build the checked variant."""

    signature: Signature
    target: Target
    threads: int
    debug: bool


class TileDraft(NamedTuple):
    """A kernel's tile IR, which may still assume more overlaps than exist. ms: the time that it took."""

    tile: TileKernel
    ms: float


class VariantBuilder:
    """Builds the variants of one kernel; caches nothing in memory.

    build: translates its source to tile IR. options: arguments of its decorator that aren't in a request.
    """

    def __init__(self, source: KernelSource, captured: Captured, build: Build, options: Hashable) -> None:
        self._source = source
        self._captured = captured
        self._build = build
        self._shelf = KernelCache(source, options)

    def make(self, order: BuildRequest, draft: TileDraft | None = None, compiler: Compiler | None = None) -> Compiled:
        """Build a variant. draft: its tile IR, if already known. compiler: replaces `pipeline.compile`."""
        captured = self._captured.current()
        place = self._shelf.place(*order)
        compiled = None if place is None else self._kept(place, order)
        if compiled is None:
            compiled = self._compile(order, draft, compiler)
            if place is not None and self._belongs(place, order, captured):
                place.keep(compiled.executable_to_keep)
                compiled.shelf = place
                if order.debug and not compiled.executable.is_checked:
                    self._keep_plain(order, compiled)
        return compiled

    def written(self, order: BuildRequest) -> tuple[frozenset[str], TileDraft | None]:
        """Return the arguments that the variant writes, and its tile IR if it had to be built."""
        captured = self._captured.current()
        place = self._shelf.place(*order)
        names = None if place is None else place.written()
        if names is not None:
            return names, None
        draft = self._draft(order)
        names = written_arguments(draft.tile.params)
        if place is not None and self._belongs(place, order, captured):
            place.keep_written(names)
        return names, draft

    def _belongs(self, place: CacheEntry, order: BuildRequest, captured: CapturedValues) -> bool:
        """True if a result belongs to this entry, which it doesn't if a captured value has changed meanwhile.

        captured: the values when the entry was determined.
        """
        # a function passed as a compile-time value captures further values
        passes_values = any(isinstance(kind, ConstexprType) for _, kind in order.signature.arguments)
        if not passes_values and self._captured.current() is captured:
            return True
        return place == self._shelf.place(*order)

    def _keep_plain(self, order: BuildRequest, compiled: Compiled) -> None:
        """Store a checked build without any checks as the plain build, too."""
        place = self._shelf.place(*order._replace(debug=False))
        if place is not None:
            place.keep(compiled.executable_to_keep)

    def _kept(self, place: CacheEntry, order: BuildRequest) -> Compiled | None:
        from ..compiled import Compiled

        began = time.perf_counter()
        executable = place.executable(order.signature)
        if executable is None:
            return None
        derive = partial(self._derivation, order, self._captured.number())
        timings = {"disk": 1e3 * (time.perf_counter() - began)}
        return Compiled(executable, timings, derive, assemble=machine_code, shelf=place)

    def _derivation(self, order: BuildRequest, captured: int) -> Derivation:
        """Return the derivation of a variant that came from disk, by compiling it now."""
        self._check_unchanged(captured)
        derivation = self._compile(order, None, None).derivation
        self._check_unchanged(captured)
        return derivation

    def _check_unchanged(self, captured: int) -> None:
        """Raise LaunchError if a captured value has changed since a variant was loaded from disk."""
        if self._captured.number() != captured:
            changes = " and ".join(self._captured.changes(captured, self._captured.number()))
            raise LaunchError(
                f"{self._source.name} came from the disk, and what it captures has changed since: {changes}",
                hint="explain it before changing these values, or compile it again",
            )

    # Memo tables of the compiler are cleared first, so that the collector has less to traverse. With the collector, the
    # matmul kernel took 8 % longer to compile, although only its buffers, 59 objects, are in cycles.
    @gc_paused_until(forget)
    def _compile(self, order: BuildRequest, draft: TileDraft | None, compiler: Compiler | None) -> Compiled:
        # the compiler and llvmlite take 100 ms to import, so import them only to compile
        with importing:
            from .. import pipeline
            from ..frontend.ir_params import with_overlaps

        with Progress(f"compiling {self._source.name}", 1 + len(pipeline.PASSES)):
            draft = draft or self._draft(order)
            tile = with_overlaps(draft.tile, order.signature)
            with self._recursion_named():
                if compiler is None:
                    compiled = pipeline.compile(tile, order.signature, order.target, sound=True)
                else:
                    compiled = compiler(tile, order.signature, order.target)
        compiled.timings = {"frontend": draft.ms, **compiled.timings}
        compiled.assemble = machine_code
        return compiled

    def _draft(self, order: BuildRequest) -> TileDraft:
        started = time.perf_counter()
        with self._recursion_named():
            tile = self._build(*order)
        return TileDraft(tile, 1e3 * (time.perf_counter() - started))

    @contextmanager
    def _recursion_named(self) -> Iterator[None]:
        try:
            yield
        except RecursionError:
            raise KernelSyntaxError(
                f"{self._source.name} has an expression, an elif chain or a tuple of several hundred levels, "
                "beyond Python's recursion limit",
                span=self._source.span(self._source.node),
                hint="assign parts of it to variables",
            ) from None
