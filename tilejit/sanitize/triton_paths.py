"""Paths of source files in PTX from Triton's cache: kernels of the same source share an entry, wherever they lie."""

from __future__ import annotations

import linecache
import os
import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import PurePath
from typing import Any

_FILE = re.compile(r'^(\s*\.file\s+(\d+)\s+)"(.*)"', re.MULTILINE)
#: of an instruction that isn't part of an inlined function
_OWN_LOC = re.compile(r"^\s*\.loc\s+(\d+)\s(?!.*inlined_at)", re.MULTILINE)


def path_of(source: Any) -> str | None:
    """Return the path of the file that defines the kernel of one of Triton's compilations, or None if unknown."""
    code = getattr(getattr(getattr(source, "fn", None), "fn", None), "__code__", None)
    return None if code is None else str(code.co_filename)


@lru_cache(maxsize=1024)
def with_path(ptx: str, path: str) -> str:
    """Return PTX whose kernel is defined in the file `path`, whatever path it recorded.

    If both paths end in the same way, paths of other files below the recorded folder change with it, where such a file
    exists.
    """
    files = {number: name for _, number, name in _FILE.findall(ptx)}
    loc = _OWN_LOC.search(ptx)
    recorded = None if loc is None else files.get(loc[1])
    if recorded is None or recorded == path:
        return ptx
    moved = _moved(files, recorded, path)
    return _FILE.sub(lambda match: f'{match[1]}"{moved[match[2]]}"', ptx)


def _moved(files: Mapping[str, str], recorded: str, path: str) -> dict[str, str]:
    old, new = list(PurePath(recorded).parts), list(PurePath(path).parts)
    while old and new and old[-1] == new[-1]:
        del old[-1], new[-1]
    has_moved = len(old) < len(PurePath(recorded).parts)
    moved = {}
    for number, name in files.items():
        parts = list(PurePath(name).parts)
        moved[number] = path if name == recorded else name
        if name != recorded and has_moved and parts[: len(old)] == old:
            there = str(PurePath(*new, *parts[len(old) :]))
            # the cells of notebooks are in linecache only
            if there in linecache.cache or os.path.exists(there):
                moved[number] = there
    return moved
