"""How a variant of a kernel is made: from the disk where it was kept there, else compiled.

```
signature, target, threads ─▶ CacheEntry ─ kept? ─▶ Compiled, whose derivation is made when somebody asks for it
                               └─ no: frontend ─▶ TileDraft ─ pipeline ─▶ Compiled, which is kept
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

#: reads a kernel's source into tile IR: build(signature, target, threads, debug)
Build = Callable[[Signature, Target, int, bool], "TileKernel"]


#: compiles tile IR that was verified
Compiler = Callable[["TileKernel", Signature, Target], "Compiled"]


class BuildRequest(NamedTuple):
    """What a variant is made for. debug: the checked build."""

    signature: Signature
    target: Target
    threads: int
    debug: bool


class TileDraft(NamedTuple):
    """A kernel's tile IR, which may still assume more overlaps than there are. ms: what it took."""

    tile: TileKernel
    ms: float


class VariantBuilder:
    """Makes the variants of one kernel; it keeps none of them.

    build: makes its tile IR. options: what its decorator was told that isn't in an order.
    """

    def __init__(self, source: KernelSource, captured: Captured, build: Build, options: Hashable) -> None:
        self._source = source
        self._captured = captured
        self._build = build
        self._shelf = KernelCache(source, options)

    def make(self, order: BuildRequest, draft: TileDraft | None = None, compiler: Compiler | None = None) -> Compiled:
        """The variant. draft: its tile IR, where that was needed before. compiler: else `pipeline.compile`."""
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
        """The arguments that the variant writes, and its tile IR where that had to be made."""
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
        """Whether what was made meanwhile belongs there: a captured value may have changed.

        captured: the values when the place was found.
        """
        # a function that is a compile-time value captures others
        passes_values = any(isinstance(kind, ConstexprType) for _, kind in order.signature.arguments)
        if not passes_values and self._captured.current() is captured:
            return True
        return place == self._shelf.place(*order)

    def _keep_plain(self, order: BuildRequest, compiled: Compiled) -> None:
        """Keeps a checked build in which nothing is checked as the plain one, too."""
        place = self._shelf.place(*order._replace(debug=False))
        if place is not None:
            place.keep(compiled.executable_to_keep)

    def _kept(self, place: CacheEntry, order: BuildRequest) -> Compiled | None:
        """The variant from the disk; None where it isn't there."""
        from ..compiled import Compiled

        began = time.perf_counter()
        executable = place.executable(order.signature)
        if executable is None:
            return None
        derive = partial(self._derivation, order, self._captured.number())
        timings = {"disk": 1e3 * (time.perf_counter() - began)}
        return Compiled(executable, timings, derive, assemble=machine_code, shelf=place)

    def _derivation(self, order: BuildRequest, captured: int) -> Derivation:
        """How a variant that came from the disk was made, by compiling it now."""
        self._check_unchanged(captured)
        derivation = self._compile(order, None, None).derivation
        self._check_unchanged(captured)
        return derivation

    def _check_unchanged(self, captured: int) -> None:
        """Raises LaunchError where a captured value has changed since a variant came from the disk."""
        if self._captured.number() != captured:
            changes = " and ".join(self._captured.changes(captured, self._captured.number()))
            raise LaunchError(
                f"{self._source.name} came from the disk, and what it captures has changed since: {changes}",
                hint="ask how it was made before that, or compile it again",
            )

    # What was remembered of the compiled kernels is forgotten, so that there is less to traverse. A compilation of the
    # matmul kernel took 8 % longer with the collector, and leaves nothing in cycles but its buffers, 59 objects.
    @gc_paused_until(forget)
    def _compile(self, order: BuildRequest, draft: TileDraft | None, compiler: Compiler | None) -> Compiled:
        # the compiler and llvmlite take 100 ms to import, so they wait until something is compiled
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
                "deeper than Python recurses",
                span=self._source.span(self._source.node),
                hint="give parts of it names of their own",
            ) from None
