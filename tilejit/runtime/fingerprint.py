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

from .store import DiskStore

__all__ = ["fingerprint", "source_digest"]

_PACKAGE = Path(__file__).parent.parent

#: seconds after which a file that is written again has another time, on any file system
_TICK = 10

_COMPILED = (".so", ".pyd", ".dll", ".dylib")


@lru_cache(maxsize=8)
def fingerprint(store: DiskStore) -> str:
    """Equal where equal kernels are compiled to equal PTX. store: keeps what takes long to find out."""
    sources = _kept_digest(_PACKAGE, store)
    parts = (sources, _library("llvmlite"), _library("ml_dtypes"), np.__version__, sys.implementation.cache_tag)
    return " ".join(map(str, parts))


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


def _kept_digest(package: Path, store: DiskStore) -> str:
    """As `source_digest`, which is kept for files of these sizes and times: a quarter of the time.

    Of the times one is the system's own, when a file was last changed in any way, which nobody sets; Windows has none.
    """
    if os.name == "nt":
        return source_digest(package)
    state, latest = _state(package)
    key = f"source:{package} {state}"
    kept = store.get(key)
    if kept is not None:
        return kept.decode()
    digest = source_digest(package)
    if abs(time.time() - latest) > _TICK and _state(package)[0] == state:
        store.put(key, digest.encode())
    return digest


def _state(package: Path) -> tuple[str, float]:
    """A digest of the sizes and times of every Python file, and when the last of them was changed, in seconds."""
    lines, latest = [], 0.0
    for name, entry in _sources(package):
        facts = entry.stat()
        lines.append(f"{name} {facts.st_size} {facts.st_mtime_ns} {facts.st_ctime_ns} {facts.st_ino}")
        latest = max(latest, facts.st_ctime)
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
