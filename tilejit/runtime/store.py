"""Bytes on disk by key, for many processes at once: a key gives what was put there, whole, or nothing.

```
FOLDER/<digest of the key>.<kind of the key>        an entry: mark, digest, key, payload
FOLDER/….tmp                                        an entry that is being written
```
An entry is written beside its place and renamed, so that no reader sees half of one and nobody waits for a lock. It
carries a digest of its key and payload, which guards against damage; permissions guard against others: only a folder
and files of this user that no other may write are read. On Windows the rights of the profile's folder are trusted.
Nothing goes wrong for want of the disk: what can't be read isn't there, and what can't be written is a warning.
"""

from __future__ import annotations

import hashlib
import os
import stat
import time
import warnings
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

__all__ = ["DEFAULT_LIMIT", "CacheWarning", "Entry", "DiskStore", "current"]

#: bytes that the cache takes unless `TILEJIT_CACHE_MAXSIZE` says otherwise: some 10,000 kernels
DEFAULT_LIMIT = 512 * 2**20

_MARK = b"tilejit entry 1\n"
_DIGEST_BYTES = 32
_TEMPORARY = ".tmp"

#: seconds after which nobody is still writing a file, and by which clocks of one machine don't differ
_ABANDONED, _SKEW = 3600, 24 * 3600

#: seconds for which an entry's time of use may be wrong, so that reading seldom writes
_RECENT = 60

_BINARY = getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
#: a link may lead to a file of others, and opening a pipe waits for its writer
_READING = os.O_RDONLY | _BINARY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_WRITING = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY


class CacheWarning(UserWarning):
    """Kernels are compiled again because what was compiled can't be kept on disk."""


class Entry(NamedTuple):
    """A file of the store. kind: what its key says in front of the colon. used: seconds since the epoch."""

    path: Path
    kind: str
    size_bytes: int
    used: float


class _Foreign(Exception):
    """A file or folder that others may have written."""


class DiskStore:
    """Bytes by key in one folder, which is made when something is put there.

    A key is text, `kind:anything`. limit_bytes: past it, what was used longest ago goes.
    """

    def __init__(self, folder: Path, limit_bytes: int = DEFAULT_LIMIT) -> None:
        self.folder = folder
        self.limit_bytes = limit_bytes
        # None until the folder was looked at
        self._is_trusted: bool | None = None
        self._is_writable = True
        self._is_quiet = False
        self._unswept = 0

    def get(self, key: str) -> bytes | None:
        """What was put under this key, or None. What is damaged is removed."""
        if not self._trusts_folder():
            return None
        path = self._path(key)
        try:
            content, used = _read(path)
        except _Foreign as foreign:
            self._warn(f"{foreign}: it is not used")
            return None
        except OSError:
            return None
        payload = _payload(content, key)
        if payload is None:
            _remove(path)
        elif abs(time.time() - used) > _RECENT:
            with suppress(OSError):
                os.utime(path)
        return payload

    def put(self, key: str, payload: bytes) -> None:
        """Keeps the payload under this key, in place of what was there; where it can't, warns once."""
        if not self._is_writable or not self._trusts_folder(make=True):
            return
        path, name = self._path(key), key.encode()
        temporary = path.with_name(f"{path.name}.{os.getpid()}-{os.urandom(4).hex()}{_TEMPORARY}")
        head = b"%d\n%b" % (len(name), name)
        try:
            with os.fdopen(os.open(temporary, _WRITING, 0o600), "wb") as file:
                file.write(b"".join((_MARK, _digest(head, payload), head, payload)))
            os.replace(temporary, path)
        except OSError as error:
            _remove(temporary)
            self._cannot_write(error)
            return
        except BaseException:
            # an interrupt, too, leaves no part of a file
            _remove(temporary)
            raise
        self._unswept += len(payload)
        # each process writes little, so one entry in 16 pays for looking at all of them
        if self._unswept > self.limit_bytes // 32 or path.name[0] == "0":
            self.sweep()

    def entries(self) -> Iterator[Entry]:
        """Every entry that is there, in no order."""
        return (entry for entry in self._files() if entry.path.suffix != _TEMPORARY)

    def clear(self) -> int:
        """Removes every entry, and what was left behind while one was written; returns how many entries went."""
        removed = [entry for entry in self._files() if _remove(entry.path)]
        return sum(entry.path.suffix != _TEMPORARY for entry in removed)

    def verify(self) -> list[str]:
        """Removes the entries that would never be used, and says of each why."""
        problems = []
        for entry in self.entries():
            try:
                content, _ = _read(entry.path)
                key = _key(content)
                problem = None if key is not None and self._path(key) == entry.path else "damaged"
            except _Foreign as foreign:
                problem = str(foreign)
            except FileNotFoundError:
                continue
            except OSError as error:
                problem = error.strerror or str(error)
            if problem is not None:
                _remove(entry.path)
                problems.append(f"{entry.path.name}: {problem}")
        return problems

    def sweep(self) -> None:
        """Removes what was used longest ago where all takes more than the limit, and what nobody goes on writing."""
        self._unswept = 0
        now, total, entries = time.time(), 0, []
        for entry in self._files():
            if entry.path.suffix == _TEMPORARY:
                if abs(now - entry.used) > _ABANDONED:
                    _remove(entry.path)
                continue
            total += entry.size_bytes
            # a time that has yet to come says nothing
            entries.append((entry.used if entry.used < now + _SKEW else 0.0, entry))
        if total <= self.limit_bytes:
            return
        for _, entry in sorted(entries):
            if total <= self.limit_bytes * 9 // 10:
                return
            _remove(entry.path)
            total -= entry.size_bytes

    def _files(self) -> Iterator[Entry]:
        try:
            listed = list(os.scandir(self.folder))
        except OSError:
            return
        for file in listed:
            # others remove files too
            with suppress(OSError):
                facts = file.stat(follow_symlinks=False)
                path = Path(file.path)
                digest, _, kind = file.name.partition(".")
                *middle, end = kind.split(".")
                if end and len(digest) == 2 * _DIGEST_BYTES and len(middle) == (2 if end == "tmp" else 0):
                    yield Entry(path, end, facts.st_size, facts.st_mtime)

    def _path(self, key: str) -> Path:
        name = hashlib.blake2b(key.encode(), digest_size=_DIGEST_BYTES).hexdigest()
        return self.folder / f"{name}.{key.partition(':')[0]}"

    def _trusts_folder(self, make: bool = False) -> bool:
        """Whether the folder is there, and no other may write into it."""
        if self._is_trusted is None:
            try:
                if make:
                    self.folder.parent.mkdir(parents=True, exist_ok=True)
                    self.folder.mkdir(mode=0o700, exist_ok=True)
                _check_owner(os.stat(self.folder), self.folder, stat.S_ISDIR)
            except FileNotFoundError:
                return False
            except _Foreign as foreign:
                self._is_trusted = False
                self._warn(f"{foreign}: nothing is kept on disk")
            except OSError as error:
                self._is_trusted = False
                self._cannot_write(error)
            else:
                self._is_trusted = True
        return bool(self._is_trusted)

    def _cannot_write(self, error: OSError) -> None:
        if isinstance(error, FileNotFoundError):
            # somebody removed the folder
            self._is_trusted = None
            return
        if os.name == "nt" and isinstance(error, PermissionError) and self.folder.is_dir():
            # another process reads the entry, which is the same
            return
        self._is_writable = False
        self._warn(f"{self.folder} can't be written ({error.strerror}): what is compiled now is not kept on disk")

    def _warn(self, message: str) -> None:
        if not self._is_quiet:
            self._is_quiet = True
            hint = "TILEJIT_CACHE_DIR names another folder, TILEJIT_CACHE=0 turns the cache off"
            warnings.warn(f"{message}\nhelp: {hint}", CacheWarning, stacklevel=2)


def current() -> DiskStore | None:
    """The store that the environment asks for; None where TILEJIT_CACHE=0 does."""
    environment = os.environ
    if environment.get("TILEJIT_CACHE") == "0":
        return None
    return _store(environment.get("TILEJIT_CACHE_DIR") or None, environment.get("TILEJIT_CACHE_MAXSIZE") or None)


@lru_cache(maxsize=8)
def _store(folder: str | None, limit: str | None) -> DiskStore | None:
    if folder is None:
        try:
            # it takes 5 ms to import
            import platformdirs
        except ImportError:
            warnings.warn("platformdirs isn't installed: nothing is kept on disk", CacheWarning, stacklevel=2)
            return None
        folder = platformdirs.user_cache_dir("tilejit", appauthor=False)
    # a program may change to another directory
    path = Path(folder).expanduser().absolute()
    if limit is None or limit.isdecimal():
        return DiskStore(path, DEFAULT_LIMIT if limit is None else int(limit))
    warnings.warn(f"TILEJIT_CACHE_MAXSIZE={limit!r} is no number of bytes", CacheWarning, stacklevel=2)
    return DiskStore(path)


def _read(path: Path) -> tuple[bytes, float]:
    """A file's content and time of use.

    raises: _Foreign for one that others may have written.
    """
    with os.fdopen(os.open(path, _READING), "rb") as file:
        facts = os.fstat(file.fileno())
        _check_owner(facts, path, stat.S_ISREG)
        return file.read(), facts.st_mtime


def _check_owner(facts: os.stat_result, path: Path, is_right_kind: object) -> None:
    assert callable(is_right_kind)
    if not is_right_kind(facts.st_mode):
        raise _Foreign(f"{path} is something else than tilejit makes")
    if not hasattr(os, "geteuid"):
        return
    if facts.st_uid != os.geteuid():
        raise _Foreign(f"{path} belongs to another user")
    if facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise _Foreign(f"{path} can be written by others")


def _payload(content: bytes, key: str) -> bytes | None:
    """What an entry holds for a key; None where it is damaged, or stands in another's place."""
    name = key.encode()
    head = b"%d\n%b" % (len(name), name)
    start = len(_MARK) + _DIGEST_BYTES
    if content[: len(_MARK)] != _MARK or content[start : start + len(head)] != head:
        return None
    payload = content[start + len(head) :]
    return payload if content[len(_MARK) : start] == _digest(head, payload) else None


def _key(content: bytes) -> str | None:
    """The key of an entry, None of one that is damaged."""
    length, _, rest = content[len(_MARK) + _DIGEST_BYTES :].partition(b"\n")
    if not length.isdigit():
        return None
    try:
        key = rest[: int(length)].decode()
    except ValueError:
        return None
    return None if _payload(content, key) is None else key


def _digest(head: bytes, payload: bytes) -> bytes:
    digest = hashlib.blake2b(head, digest_size=_DIGEST_BYTES)
    digest.update(payload)
    return digest.digest()


def _remove(path: Path) -> bool:
    try:
        path.unlink()
    except OSError:
        return False
    return True
