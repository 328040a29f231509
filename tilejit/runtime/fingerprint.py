"""A fingerprint of the compiler: of this package's source, the libraries that affect compilation, and Python."""

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

from .store import DiskStore, EntryKind

_PACKAGE = Path(__file__).parent.parent

#: when this process began to import the package, in seconds since the epoch
IMPORTED: float = vars(sys.modules[__name__.partition(".")[0]])["_IMPORTED"]

#: an upper bound on the resolution of file times, in seconds
_TICK = 10

#: the number of the package's modules that were imported when its files were last found unchanged
_parts = 0

_PREFIX = __name__.partition(".")[0] + "."

_COMPILED = (".so", ".pyd", ".dll", ".dylib")


@lru_cache(maxsize=8)
def fingerprint(store: DiskStore) -> str | None:
    """Return a string that identifies the compiler: if two strings are equal, equal kernels compile to equal PTX.

    store: caches the digest of the sources.
    returns: None if files have changed since they were imported, or can't be read, as in a zip file.
    """
    try:
        sources = _kept_digest(_PACKAGE, store)
        libraries = _library("llvmlite"), _library("ml_dtypes")
    except OSError:
        return None
    if sources is None:
        _warn_of_change(store)
        return None
    return " ".join(map(str, (sources, *libraries, np.__version__, sys.implementation.cache_tag)))


def still_holds(store: DiskStore) -> bool:
    """True if the compiler's files are as imported; warn if not. They are rechecked only after further imports."""
    global _parts
    parts = len([name for name in tuple(sys.modules) if name.startswith(_PREFIX)])
    if parts == _parts:
        return True
    if not is_as_imported(IMPORTED):
        _warn_of_change(store)
        return False
    _parts = parts
    return True


def _warn_of_change(store: DiskStore) -> None:
    # adding or removing a hard link also updates a file's change time
    store.warn(
        "tilejit's files were changed or touched after this process imported them: nothing is kept on disk",
        hint="restart Python, which then imports the installed version",
    )


def is_as_imported(imported: float) -> bool:
    """True if no file of the package changed after `imported` (seconds since the epoch), or the package is zipped."""
    try:
        _, latest = _state(_PACKAGE)
    except NotADirectoryError:
        # changes to a zip file can't be detected
        return True
    except OSError:
        # files disappear while the package is being replaced
        return False
    return latest <= imported


def source_digest(package: Path) -> str:
    """Return a digest of all Python files below a folder; some 430 files take 5 to 15 ms.

    It covers contents, because an installer may give the files of two versions equal times.
    """
    digest = hashlib.blake2b(digest_size=32)
    for name, entry in _sources(package):
        with open(entry, "rb") as file:
            content = file.read()
        digest.update(f"{name} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()


def _kept_digest(package: Path, store: DiskStore) -> str | None:
    """Return `source_digest`, cached under the files' sizes and times: a lookup takes a quarter of the time.

    One of the times is the inode's change time, which users can't set; Windows lacks it, so nothing is cached there.
    returns: None if files have changed since they were imported, or while they were read.
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
    lines, latest = [], 0.0
    for name, entry in _sources(package):
        facts = entry.stat()
        lines.append(f"{name} {facts.st_size} {facts.st_mtime_ns} {facts.st_ctime_ns} {facts.st_ino}")
        # on Windows, st_ctime is the creation time
        latest = max(latest, facts.st_ctime, facts.st_mtime if os.name == "nt" else 0.0)
    return hashlib.blake2b("\n".join(lines).encode(), digest_size=32).hexdigest(), latest


def _sources(folder: str | Path, prefix: str = "") -> Iterator[tuple[str, os.DirEntry[str]]]:
    with os.scandir(folder) as listed:
        entries = sorted(listed, key=lambda entry: entry.name)
    for entry in entries:
        if entry.name.endswith(".py"):
            yield prefix + entry.name, entry
        elif entry.name != "__pycache__" and entry.is_dir():
            yield from _sources(entry.path, f"{prefix}{entry.name}/")


def _library(name: str) -> str:
    """Return a digest of a library's version files and its binaries' sizes. Importing llvmlite would take 60 ms."""
    spec = find_spec(name)
    if spec is None or spec.origin is None:
        return "none"
    package = Path(spec.origin).parent
    # llvmlite's binaries are in a subfolder
    files = sorted(file for folder in (package, package / "binding") for file in folder.glob("*.*"))
    facts = [f"{file.name} {file.stat().st_size}" for file in files if file.suffix in _COMPILED]
    text = b"".join([file.read_bytes() for file in files if file.name in ("__init__.py", "_version.py")])
    return f"{hashlib.blake2b(text, digest_size=16).hexdigest()} {' '.join(facts)}"
