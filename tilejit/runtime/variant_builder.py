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
from .disk import CacheEntry, cache_entry

if TYPE_CHECKING:
    from ..compiled import Compiled, Derivation
    from ..ir.nodes import Kernel as TileKernel

#: translates a kernel's source to tile IR: build(signature, target, threads, debug, options)
Build = Callable[[Signature, Target, int, bool, tuple[Hashable, ...]], "TileKernel"]

#: compiles verified tile IR
Compiler = Callable[["TileKernel", Signature, Target], "Compiled"]


class BuildRequest(NamedTuple):
    """The inputs of a build. debug: True for a checked build. options: see `Options.build_key`."""

    signature: Signature
    target: Target
    threads: int
    debug: bool
    options: tuple[Hashable, ...]


class TileDraft(NamedTuple):
    """A kernel's tile IR, which may assume more overlaps than exist. ms: time to build it."""

    tile: TileKernel
    ms: float


class VariantBuilder:
    """Builds variants of a kernel. build: translates its source to tile IR."""

    def __init__(self, source: KernelSource, captured: Captured, build: Build) -> None:
        self._source = source
        self._captured = captured
        self._build = build

    def make(self, request: BuildRequest, draft: TileDraft | None = None, compiler: Compiler | None = None) -> Compiled:
        """Load or compile a variant. draft: its tile IR, if known. compiler: used instead of `pipeline.compile`."""
        captured = self._captured.current()
        entry = self._entry(request)
        compiled = None if entry is None else self._kept(entry, request)
        if compiled is None:
            compiled = self._compile(request, draft, compiler)
            if entry is not None and self._belongs(entry, request, captured):
                entry.keep(compiled.executable_to_keep)
                compiled.shelf = entry
                if request.debug and not compiled.executable.is_checked:
                    plain = self._entry(request._replace(debug=False))
                    if plain is not None:
                        plain.keep(compiled.executable_to_keep)
        return compiled

    def written(self, request: BuildRequest) -> tuple[frozenset[str], TileDraft | None]:
        """Return the names of the arguments that the variant may write, and its tile IR if it had to be built."""
        captured = self._captured.current()
        entry = self._entry(request)
        names = None if entry is None else entry.written()
        if names is not None:
            return names, None
        draft = self._draft(request)
        names = written_arguments(draft.tile.params)
        if entry is not None and self._belongs(entry, request, captured):
            entry.keep_written(names)
        return names, draft

    def _entry(self, request: BuildRequest) -> CacheEntry | None:
        signature, target, threads, debug, options = request
        return cache_entry(self._source, options, signature, target, threads, debug)

    def _belongs(self, entry: CacheEntry, request: BuildRequest, captured: CapturedValues) -> bool:
        """True if the entry is still the request's: no captured value has changed since `captured`, read before it."""
        # a function passed as a compile-time value may capture further values
        passes_values = any(isinstance(kind, ConstexprType) for _, kind in request.signature.arguments)
        if not passes_values and self._captured.current() is captured:
            return True
        return entry == self._entry(request)

    def _kept(self, entry: CacheEntry, request: BuildRequest) -> Compiled | None:
        from ..compiled import Compiled

        began = time.perf_counter()
        executable = entry.executable(request.signature)
        if executable is None:
            return None
        derive = partial(self._derivation, request, self._captured.number())
        timings = {"disk": 1e3 * (time.perf_counter() - began)}
        return Compiled(executable, timings, derive, assemble=machine_code, shelf=entry)

    def _derivation(self, request: BuildRequest, captured: int) -> Derivation:
        self._check_unchanged(captured)
        derivation = self._compile(request, None, None).derivation
        self._check_unchanged(captured)
        return derivation

    def _check_unchanged(self, captured: int) -> None:
        if self._captured.number() != captured:
            changes = " and ".join(self._captured.changes(captured, self._captured.number()))
            raise LaunchError(
                f"{self._source.name} was loaded from disk, and its captured values have changed since: {changes}",
                hint="inspect it before changing these values, or compile it again",
            )

    # The compiler's memo tables are cleared first: if they were nearly full of what was computed outside compilations,
    # they would be cleared in between, and equal expressions wouldn't be one object, so that the code would differ. The
    # collector is paused until they are cleared again, so that it has less to traverse. Without the pause, the matmul
    # kernel took 8 % longer to compile, although only its buffers, 59 objects, are in cycles.
    @gc_paused_until(forget)
    def _compile(self, request: BuildRequest, draft: TileDraft | None, compiler: Compiler | None) -> Compiled:
        # the compiler and llvmlite take 100 ms to import, so import them only to compile
        with importing:
            from .. import pipeline
            from ..frontend.kernel import with_overlaps

        with Progress(f"compiling {self._source.name}", 1 + len(pipeline.PASSES)):
            draft = draft or self._draft(request)
            tile = with_overlaps(draft.tile, request.signature)
            with self._recursion_named():
                if compiler is None:
                    compiled = pipeline.compile(tile, request.signature, request.target, sound=True)
                else:
                    compiled = compiler(tile, request.signature, request.target)
        compiled.timings = {"frontend": draft.ms, **compiled.timings}
        compiled.assemble = machine_code
        return compiled

    def _draft(self, request: BuildRequest) -> TileDraft:
        started = time.perf_counter()
        with self._recursion_named():
            tile = self._build(*request)
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
                hint="assign parts of it to variables, or split the chain",
            ) from None
