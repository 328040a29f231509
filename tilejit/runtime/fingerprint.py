"""What decides what a kernel becomes, besides the kernel: this package's own source, and what it is built on."""

from __future__ import annotations

import hashlib
import os
import sys
import time
from collections.abc import Iterator
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from .entry_kinds import EntryKind
from .store import DiskStore

__all__ = ["IMPORTED", "fingerprint", "is_as_imported", "source_digest", "still_holds"]

_PACKAGE = Path(__file__).parent.parent

#: when this process began to import the package, in seconds since the epoch
IMPORTED: float = vars(sys.modules[__name__.partition(".")[0]])["_IMPORTED"]

#: seconds after which a file that is written again has another time, on any file system
_TICK = 10

#: how many modules of the package had been imported when its files were last found as they were at the beginning
_parts = 0

_PREFIX = __name__.partition(".")[0] + "."

_COMPILED = (".so", ".pyd", ".dll", ".dylib")


@lru_cache(maxsize=8)
def fingerprint(store: DiskStore) -> str | None:
    """Equal where equal kernels are compiled to equal PTX. store: keeps what takes long to find out.

    None where nobody can tell: the files have changed since they were imported, or are in no folder but in a zip.
    """
    try:
        sources = _kept_digest(_PACKAGE, store)
        libraries = _library("llvmlite"), _library("ml_dtypes")
    except OSError:
        return None
    if sources is None:
        _tell_of_change(store)
        return None
    return " ".join(map(str, (sources, *libraries, np.__version__, sys.implementation.cache_tag)))


def still_holds(store: DiskStore) -> bool:
    """Whether the fingerprint is that of what compiled just now: parts of the compiler are imported when it is needed.

    It looks at the files again where more of the package was imported since it last did.
    """
    global _parts
    parts = len([name for name in tuple(sys.modules) if name.startswith(_PREFIX)])
    if parts == _parts:
        return True
    if not is_as_imported(IMPORTED):
        _tell_of_change(store)
        return False
    _parts = parts
    return True


def _tell_of_change(store: DiskStore) -> None:
    # making or removing a link to a file changes its time, too
    store.warn(
        "tilejit's files were changed, or touched, after this process imported them: it keeps nothing on disk",
        hint="start Python again, which then imports what is installed now",
    )


def is_as_imported(imported: float) -> bool:
    """Whether the package's files are those that a process imported then, in seconds since the epoch."""
    try:
        _, latest = _state(_PACKAGE)
    except NotADirectoryError:
        # a zip, of which there is nothing to be told
        return True
    except OSError:
        # it is being replaced
        return False
    return latest <= imported


def source_digest(package: Path) -> str:
    """Of every Python file in a folder and those below; 530 files take 5 to 15 ms.

    Of their contents, because an installer may give the files of two versions equal times.
    """
    digest = hashlib.blake2b(digest_size=32)
    for name, entry in _sources(package):
        with open(entry, "rb") as file:
            content = file.read()
        digest.update(f"{name} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()


def _kept_digest(package: Path, store: DiskStore) -> str | None:
    """As `source_digest`, which is kept for files of these sizes and times: a quarter of the time.

    Of the times one is the system's own, when a file was last changed in any way, which nobody sets; Windows has none.
    None where files have changed since they were imported.
    """
    state, latest = _state(package)
    if latest > IMPORTED:
        return None
    key = EntryKind.SOURCE.key(f"{package} {state}")
    kept = None if os.name == "nt" else store.get(key)
    if kept is not None:
        return kept.decode()
    digest = source_digest(package)
    if _state(package)[0] != state:
        return None
    if os.name != "nt" and abs(time.time() - latest) > _TICK:
        store.put(key, digest.encode())
    return digest


def _state(package: Path) -> tuple[str, float]:
    """A digest of the sizes and times of every Python file, and when the last of them was changed, in seconds."""
    lines, latest = [], 0.0
    for name, entry in _sources(package):
        facts = entry.stat()
        lines.append(f"{name} {facts.st_size} {facts.st_mtime_ns} {facts.st_ctime_ns} {facts.st_ino}")
        # on Windows the former is when it was made
        latest = max(latest, facts.st_ctime, facts.st_mtime if os.name == "nt" else 0.0)
    return hashlib.blake2b("\n".join(lines).encode(), digest_size=32).hexdigest(), latest


def _sources(folder: str | Path, prefix: str = "") -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Every Python file in a folder and those below, in an order of their own: its name from there, with `/`."""
    with os.scandir(folder) as listed:
        entries = sorted(listed, key=lambda entry: entry.name)
    for entry in entries:
        if entry.name.endswith(".py"):
            yield prefix + entry.name, entry
        elif entry.name != "__pycache__" and entry.is_dir():
            yield from _sources(entry.path, f"{prefix}{entry.name}/")


def _library(name: str) -> str:
    """What tells a version of a library: where it is written, and the sizes of its compiled files.

    Importing llvmlite would take 60 ms, ml_dtypes 9.
    """
    spec = find_spec(name)
    if spec is None or spec.origin is None:
        return "none"
    package = Path(spec.origin).parent
    # llvmlite has its own in a folder
    files = sorted(file for folder in (package, package / "binding") for file in folder.glob("*.*"))
    facts = [f"{file.name} {file.stat().st_size}" for file in files if file.suffix in _COMPILED]
    text = b"".join([file.read_bytes() for file in files if file.name in ("__init__.py", "_version.py")])
    return f"{hashlib.blake2b(text, digest_size=16).hexdigest()} {' '.join(facts)}"
