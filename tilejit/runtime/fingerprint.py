"""What decides what a kernel becomes, besides the kernel: this package's own source, and what it is built on."""

from __future__ import annotations

import hashlib
import os
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import ml_dtypes
import numpy as np

__all__ = ["fingerprint", "source_digest"]

_PACKAGE = Path(__file__).parent.parent


@cache
def fingerprint() -> str:
    """Equal where equal kernels are compiled to equal PTX."""
    parts = (source_digest(_PACKAGE), _llvm(), np.__version__, ml_dtypes.__version__, sys.implementation.cache_tag)
    return " ".join(map(str, parts))


def source_digest(package: Path) -> str:
    """Of every Python file in a folder and those below; 400 files take 7 ms.

    Of their contents, because an installer may give the files of two versions equal times.
    """
    digest = hashlib.blake2b(digest_size=32)
    for folder, folders, files in os.walk(package):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for name in sorted(name for name in files if name.endswith(".py")):
            path = os.path.join(folder, name)
            with open(path, "rb") as file:
                content = file.read()
            digest.update(f"{os.path.relpath(path, package)} {len(content)}\n".encode())
            digest.update(content)
    return digest.hexdigest()


def _llvm() -> str:
    """The version of llvmlite, which brings its LLVM, and of the library file; importing it would take 60 ms."""
    spec = find_spec("llvmlite")
    if spec is None or spec.origin is None:
        return "none"
    package = Path(spec.origin).parent
    facts = [f"{file.name} {file.stat().st_size}" for file in sorted((package / "binding").glob("*llvmlite*"))]
    version = package / "_version.py"
    text = version.read_bytes() if version.is_file() else b""
    return f"{hashlib.blake2b(text, digest_size=16).hexdigest()} {' '.join(facts)}"
