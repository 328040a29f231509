"""The on-disk kernel cache.

```
program:     kernel source, captured values, signature, target, threads, build, options, compiler ─▶ PTX and its record
decisions:   as for program, and the names of the source files ─▶ the decisions that `explain` shows
written:     as for program, with all overlapping arrays marked ─▶ names of the arguments that the kernel writes
tuning:      as for program, with all configurations, and the device ─▶ the time of each configuration
source:      sizes and times of the compiler's files ─▶ the digest of their contents
```
The global and closure names that a kernel reads are known when its decorator runs, so the key contains their values.

Machine code is cached by the driver. Code from its linker (`cuLink`) is relocatable and slower: the matmul example uses
254 registers instead of 240, and takes 45.7 µs instead of 38.5 (H100, 2048³). With both caches, the first launch of
the example takes 22 to 33 ms.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

from ..dataclass import dataclass, field
from ..errors import shown_file
from ..executable import Executable
from ..executable.encoding import decoded, encoded, executable_from_json, executable_to_json, moved_ptx
from ..frontend import KernelSource, captures, functions, token
from ..frontend.language import LanguageName
from ..ir.types import ConstexprType, Signature
from ..target import Target
from .fingerprint import fingerprint, still_holds
from .store import DiskStore, EntryKind, current

if TYPE_CHECKING:
    from ..explanation import Decisions


class _NoKey(Exception):
    """A part of a key has no representation that other processes share."""


def cache_entry(
    source: KernelSource, options: Hashable, typed: Signature, target: Target, threads: int, debug: bool
) -> CacheEntry | None:
    """Return the entry of one variant; None if the cache can't be used or the key can't be encoded.

    options: further arguments of the kernel's decorator that affect compilation.
    """
    store = current()
    if store is None:
        return None
    compiler = fingerprint(store)
    if compiler is None:
        return None
    values = [kind.value for _, kind in typed.arguments if isinstance(kind, ConstexprType)]
    sources = functions(source, values)
    files = [each.file for each in sources]
    # PTX contains the line numbers of functions; file names in it are replaced when it is read
    places = tuple([(each.function.__code__.co_firstlineno, files.index(each.file)) for each in sources])
    try:
        arguments = tuple([
            (name, (kind.type_name, token(kind.value)) if isinstance(kind, ConstexprType) else kind)
            for name, kind in typed.arguments
        ])
        parts = (compiler, source.text, captures(source), places, arguments, target.name, threads, debug, options)
        text = json.dumps(encoded(parts, _encoded))
    except _NoKey:
        return None
    digest = hashlib.blake2b(text.encode(), digest_size=32).hexdigest()
    return CacheEntry(store, digest, tuple(files))


@dataclass(frozen=True, slots=True)
class CacheEntry:
    """The entry of one variant. files: the source file of the kernel and of each helper."""

    store: DiskStore = field(compare=False)
    digest: str
    files: tuple[str, ...]

    def put(self, key: str, payload: bytes) -> None:
        if still_holds(self.store):
            self.store.put(key, payload)

    def executable(self, typed: Signature) -> Executable | None:
        """Return the stored executable, adapted to the current names of its source files; None if it isn't stored."""
        payload = self.store.get(EntryKind.PROGRAM.key(self.digest))
        if payload is None:
            return None
        record, _, ptx = payload.partition(b"\n")
        parts: dict[str, Any] = json.loads(record)
        places = {number: self.files[n] for n, number in enumerate(parts["sources"]) if number is not None}
        files = [places.get(number, file) for number, file in enumerate(parts["files"])]
        return executable_from_json(parts, typed, moved_ptx(ptx.decode(), parts["files"], files), files)

    def keep(self, executable: Executable) -> None:
        record = executable_to_json(executable)
        numbers = {file: number for number, file in enumerate(record["files"])}
        record["sources"] = [numbers.get(file) for file in self.files]
        text = json.dumps(record, separators=(",", ":")).encode()
        self.put(EntryKind.PROGRAM.key(self.digest), text + b"\n" + executable.ptx.encode())

    def decisions(self) -> Decisions | None:
        from ..explanation import RECORDS

        payload = self.store.get(self._decisions)
        found: Decisions | None = None if payload is None else decoded(json.loads(payload), classes=RECORDS)
        return found

    def keep_decisions(self, decisions: Decisions) -> None:
        from ..explanation import RECORDS

        self.put(self._decisions, json.dumps(encoded(decisions, classes=RECORDS), separators=(",", ":")).encode())

    @property
    def _decisions(self) -> str:
        names = [os.path.basename(shown_file(file)) for file in self.files]
        return EntryKind.DECISIONS.key(f"{self.digest} {json.dumps(names)}")

    def written(self) -> frozenset[str] | None:
        payload = self.store.get(EntryKind.WRITTEN.key(self.digest))
        return None if payload is None else frozenset(json.loads(payload))

    def keep_written(self, names: frozenset[str]) -> None:
        self.put(EntryKind.WRITTEN.key(self.digest), json.dumps(sorted(names)).encode())


def _is_importable(cls: type) -> bool:
    found: Any = sys.modules.get(cls.__module__)
    for name in cls.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is cls


def _encoded(part: Any) -> Any:
    """Encode a part of a key that `encoded` doesn't; raise _NoKey if other processes can't encode it equally."""
    if isinstance(part, LanguageName):
        return {type(part).__name__: repr(part)}
    if isinstance(part, type) and _is_importable(part):
        return {"class": [part.__module__, part.__qualname__]}
    # named tuples among the options
    if isinstance(part, tuple):
        return encoded(tuple(part), _encoded)
    raise _NoKey
