"""The compiled variants of a kernel: lookup, compilation and `no_recompile`.

```
arguments ─ Call ─▶ Request ─ overlaps ─▶ Key ─ known? ─▶ CompiledVariant
                                           └─ no: compile, or refuse inside `no_recompile`
```
"""

from __future__ import annotations

import time
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, NamedTuple

from ..callers import call_site
from ..dataclass import dataclass, field
from ..errors import LaunchError, shown_file
from ..frontend import ParameterKind
from ..ir.types import Signature
from ..target import Target
from .captured import Captured
from .once import Once
from .signature import Call, describe, describe_one, freeze, signature
from .variant_builder import BuildRequest, Compiler, TileDraft, VariantBuilder

if TYPE_CHECKING:
    from ..compiled import Compiled

#: a phrase for messages, such as `by a bound launch`, if nothing may be compiled now, else None
_frozen: ContextVar[str | None] = ContextVar("tilejit_frozen", default=None)


@contextmanager
def without_compiling(where: str) -> Iterator[None]:
    """Within the context, make launches that would compile a new variant raise LaunchError. where: see `_frozen`."""
    token = _frozen.set(where)
    try:
        yield
    finally:
        _frozen.reset(token)


def refuse_compiling(what: str) -> None:
    """Raise LaunchError if nothing may be compiled now. what: the refused action, for the message."""
    where = _frozen.get()
    if where is not None:
        raise LaunchError(f"{what} {where}", hint="launch it with these arguments before that")


class Request(NamedTuple):
    """The inputs that determine a variant. debug: True for a checked build. options: see `Options.build_key`."""

    target: Target
    threads: int
    call: Call
    debug: bool
    options: tuple[Hashable, ...]


class Key(NamedTuple):
    """The key of a compiled variant. constexprs: values after `freeze`. captured: `CapturedValues.number`."""

    build: BuildRequest
    constexprs: tuple[Hashable, ...]
    captured: int

    def with_debug(self, debug: bool) -> Key:
        return self._replace(build=self.build._replace(debug=debug))


@dataclass(frozen=True, slots=True)
class CompiledVariant:
    """One compiled variant of a kernel, as `Kernel.signatures` lists it.

    debug: True if it was compiled as a checked build.
    made: start of its compilation or loading, in seconds since the epoch. call: `file:line` of the call that caused it.
    timings: ms per stage. captured: `CapturedValues.number`.
    """

    signature: Signature
    threads: int
    target: Target
    debug: bool
    made: float
    call: str
    timings: dict[str, float]
    compiled: Compiled = field(repr=False)
    captured: int = field(repr=False)

    def __repr__(self) -> str:
        return f"<variant ({describe(self.signature)}) for {self.target}, {self.threads} threads>"

    def __str__(self) -> str:
        when = time.strftime("%H:%M:%S", time.localtime(self.made))
        stages = ", ".join(f"{stage} {ms:.1f}" for stage, ms in self.timings.items())
        head = f"({describe(self.signature)}) for {self.target}, {self.threads} threads"
        file, _, line = self.call.rpartition(":")
        return f"{head}; made {when} by {shown_file(file)}:{line}; ms: {stages}"


class _Overtaken(Exception):
    """A captured value has changed during compilation."""


class VariantCache:
    """The compiled variants of one kernel by key. name: the kernel's name."""

    def __init__(self, name: str, captured: Captured, builder: VariantBuilder) -> None:
        self._name = name
        self._captured = captured
        self.builder = builder
        self._variants: Once[Key, CompiledVariant] = Once()
        # names of the arguments that the kernel may write; in these keys, all overlapping arrays have the overlap bit
        self._written: Once[Key, frozenset[str]] = Once()

    @property
    def all(self) -> tuple[CompiledVariant, ...]:
        """All compiled variants, oldest first, each once. A checked build that contains no checks has two keys."""
        return tuple({id(v): v for v in self._variants.values}.values())

    def variant(self, request: Request, compiler: Compiler | None = None) -> CompiledVariant:
        """Return the compiled variant for a request, compiled now if necessary.

        compiler: used instead of `pipeline.compile`.
        raises: LaunchError if `without_compiling` forbids compiling it, or an array doesn't match its parameter.
        """
        while True:
            # repeat if a captured value changed meanwhile
            with suppress(_Overtaken):
                return self._get(*self._key_and_draft(request), compiler)

    def _get(self, key: Key, draft: TileDraft | None, compiler: Compiler | None) -> CompiledVariant:
        return self._variants.get(
            key,
            lambda: self._plain_twin(key) or self._new(key, draft, compiler),
            lambda: self._refuse_recompilation(key),
        )

    def _new(self, key: Key, draft: TileDraft | None, compiler: Compiler | None) -> CompiledVariant:
        call, made = call_site(), time.time()
        typed, target, threads, debug, _ = key.build
        compiled = self.builder.make(key.build, draft, compiler)
        variant = CompiledVariant(
            typed, threads, target, debug, made, call, compiled.timings, compiled, key.captured
        )
        self._check_captured(key)
        if debug and not compiled.executable.is_checked:
            self._variants.put(key.with_debug(False), variant)
        return variant

    def _check_captured(self, key: Key) -> None:
        if self._captured.number() != key.captured:
            raise _Overtaken

    def _plain_twin(self, key: Key) -> CompiledVariant | None:
        """Return the plain build if it is known to equal the checked build for this key, else None."""
        plain = self._variants.peek(key.with_debug(False)) if key.build.debug else None
        if plain is None or not plain.compiled.is_derived:
            return None
        from .. import pipeline

        if pipeline.would_check(plain.compiled.derivation.tile):
            return None
        return plain

    def _key_and_draft(self, request: Request) -> tuple[Key, TileDraft | None]:
        """Return the request's key, and the kernel's tile IR if it had to be built for that.

        Overlapping arrays get the overlap bit only if one of them is written, which the tile IR determines. The IR is
        built at most once for each key in which all overlapping arrays have the bit.
        """
        overlaps = request.call.overlaps
        captured = self._captured.number()
        cautious = _key(request, overlaps, captured)
        if not overlaps:
            return cautious, None
        drafts: list[TileDraft | None] = [None]

        def read() -> frozenset[str]:
            names, drafts[0] = self.builder.written(cautious.build)
            self._check_captured(cautious)
            return names

        written = self._written.get(cautious, read)
        names = [p.name for p in request.call.parameters]
        pairs = [pair for pair in overlaps if names[pair[0]] in written or names[pair[1]] in written]
        return _key(request, pairs, captured), drafts[0]

    def _refuse_recompilation(self, key: Key) -> None:
        """Raise LaunchError inside `without_compiling`, unless the variant's other build, plain or checked, exists."""
        where, name, keys = _frozen.get(), self._name, self._variants.keys
        if where is None or key.with_debug(not key.build.debug) in keys:
            return
        if not keys:
            raise LaunchError(f"{name} would be compiled for the first time {where}", hint="launch it once before that")
        # a variant whose containers have other items differs in more than the containers
        similar = [old for old in keys if _names(old) == _names(key)] or keys
        nearest = min((_differences(old, key, self._captured) for old in similar), key=len)
        raise LaunchError(
            f"{name} would be compiled again {where}: {'; '.join(nearest)}",
            hint=f"launch or bind {name} this way before that, or pass arguments of a compiled signature",
        )


def _key(request: Request, overlapping: Sequence[tuple[int, int]], captured: int) -> Key:
    target, threads, call, debug, options = request
    constexprs = tuple(
        freeze(value, p.name)
        for p, value, kind in zip(call.parameters, call.flat, call.kinds, strict=True)
        if kind is ParameterKind.CONSTEXPR
    )
    build = BuildRequest(signature(call, target, overlapping), target, threads, debug, options)
    return Key(build, constexprs, captured)


def _names(key: Key) -> list[str]:
    return [name for name, _ in key.build.signature.arguments]


def _differences(old_key: Key, new_key: Key, captured: Captured) -> list[str]:
    old, new = old_key.build, new_key.build
    before = dict(old.signature.arguments)
    # where the structure of a container differs, its items have no counterparts
    differences = [
        f"{describe_one(name, now)} instead of {describe_one(name, before[name])}"
        for name, now in new.signature.arguments
        if name in before and before[name] != now
    ]
    if old_key.constexprs != new_key.constexprs and not differences:
        differences.append(f"constexprs {new_key.constexprs} instead of {old_key.constexprs}")
    if old.threads != new.threads:
        differences.append(f"threads {new.threads} instead of {old.threads}")
    if old.options != new.options:
        differences.append(f"options {new.options} instead of {old.options}")
    if old.target != new.target:
        differences.append(f"target {new.target} instead of {old.target}")
    if old_key.captured != new_key.captured:
        differences.append("captured " + " and ".join(captured.changes(old_key.captured, new_key.captured)))
    if old.debug != new.debug:
        differences.append(f"debug {new.debug} instead of {old.debug}")
    return differences
