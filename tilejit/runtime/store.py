"""An on-disk key-value store that many processes can use concurrently.

```
FOLDER/tilejit-<digest of the key>.<kind of the key>    an entry: mark, digest, key, payload
FOLDER/tilejit-….tmp                                    an entry that is being written
```
An entry is written to a temporary file and renamed, so that readers never see partial entries and no locks are needed.
A digest of key and payload detects damage. To guard against other users, only folders and files that belong to this
user and that no other user can write are read; on Windows the user profile's permissions are trusted.
Disk problems never cause errors: unreadable entries count as missing, and failed writes cause at most a warning.
"""

from __future__ import annotations

import hashlib
import os
import stat
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from enum import Enum
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from ..callers import stack_level
from ..errors import CacheWarning
from ..files import write_and_rename

#: the size limit in bytes without `TILEJIT_CACHE_MAXSIZE`, enough for some 10,000 kernels
DEFAULT_LIMIT = 512 * 2**20

_MARK = b"tilejit entry 1\n"
_DIGEST_BYTES = 32
#: prefix of file names, because the user may choose a folder that contains other files
_PREFIX = "tilejit-"
_TEMPORARY = ".tmp"

#: error handler for keys, which contain file names: Python decodes names that aren't UTF-8 to surrogates
_SURROGATES = "surrogatepass"

#: seconds after which a temporary file counts as abandoned, and by which a file system's clock may differ from ours
_ABANDONED, _SKEW = 3600, 24 * 3600

#: seconds by which an entry's recorded time of use may lag, so that most reads don't update it
_RECENT = 60

#: on average, at least one in this many writes sweeps the store, which takes 30 us per entry
_SWEEP_EVERY = 64

#: don't follow symbolic links, which may lead to other users' files, and don't block when a pipe is opened
_READING = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)

_HINT = "set TILEJIT_CACHE_DIR to another folder, or TILEJIT_CACHE=0 to turn the cache off"
_SETTING_HINT = "correct or unset this environment variable"


class EntryKind(Enum):
    """A kind of cache entry. Its value describes the contents."""

    PROGRAM = "a compiled kernel: its PTX, and everything else that a launch needs"
    DECISIONS = "the compiler's decisions, which explain shows"
    WRITTEN = "the arguments that a kernel writes, for launches with overlapping arrays"
    TUNING = "the time that a kernel takes in each configuration"
    SOURCE = "a digest of this package's own files, by their sizes and times"

    @property
    def label(self) -> str:
        """The prefix of keys and the suffix of file names."""
        return self.name.lower()

    def key(self, of: str) -> str:
        return f"{self.label}:{of}"


class Entry(NamedTuple):
    """A file of the store. kind: the suffix of its name. used: time of its last use, in seconds since the epoch."""

    path: Path
    kind: str
    size_bytes: int
    used: float


class Unsound(NamedTuple):
    """An unusable entry. is_removed: False if it is another user's or can't be removed."""

    name: str
    problem: str
    is_removed: bool


class _Foreign(Exception):
    """A file or folder is of the wrong kind, or other users may have written it."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(f"{path} {problem}")
        self.problem = problem


class DiskStore:
    """Payloads in a folder, by key (`kind:anything`).

    When their total size exceeds `limit_bytes`, a sweep evicts the least recently used ones.
    """

    def __init__(self, folder: Path, limit_bytes: int = DEFAULT_LIMIT) -> None:
        self.folder = folder
        self.limit_bytes = limit_bytes
        # None until the folder is checked
        self._is_trusted: bool | None = None
        self._is_writable = True
        self._is_quiet = False
        self._unswept = 0

    def get(self, key: str) -> bytes | None:
        """Return the payload of a key, or None. A damaged entry is removed."""
        if not self._trusts_folder():
            return None
        path = self._path(key)
        try:
            content, used = _read(path)
        except _Foreign as foreign:
            self.warn(f"{foreign}: it is not used")
            return None
        except OSError:
            return None
        payload = _payload(content, key)
        if payload is None:
            _remove(path)
        elif abs(time.time() - used) > _RECENT:
            # entries on a read-only file system can still be used
            with suppress(OSError):
                os.utime(path)
        return payload

    def put(self, key: str, payload: bytes) -> None:
        """Store the payload under a key, replacing an earlier one; a failure causes at most a warning."""
        if not self._is_writable or not self._trusts_folder(make=True):
            return
        path, head = self._path(key), _head(key)
        random = os.urandom(4)
        temporary = path.with_name(f"{path.name}.{os.getpid()}-{random.hex()}{_TEMPORARY}")
        try:
            write_and_rename(temporary, path, b"".join((_MARK, _digest(head, payload), head, payload)), 0o600)
        except OSError as error:
            # on Windows a file that another process reads can't be replaced, but it is an entry of the same key
            if os.name != "nt" or not isinstance(error, PermissionError) or not path.exists():
                self._cannot_write(error)
            return
        self._unswept += len(payload)
        # most processes write too little to exceed the first threshold, so some writes, chosen at random, sweep, too
        if self._unswept > self.limit_bytes // 32 or random[0] % _SWEEP_EVERY == 0:
            self.sweep()

    def entries(self) -> Iterator[Entry]:
        return (entry for entry in self._files() if entry.path.suffix != _TEMPORARY)

    def clear(self) -> int:
        """Remove this user's entries and temporary files; return the number of entries removed."""
        removed = [entry for entry in self._files() if _is_own(entry.path) and _remove(entry.path)]
        return sum(entry.path.suffix != _TEMPORARY for entry in removed)

    def verify(self) -> list[Unsound]:
        """Return the unusable entries, after removing those that belong to this user, if possible."""
        found = []
        for entry in self.entries():
            try:
                content, _ = _read(entry.path)
                key = _key(content)
                problem = None if key is not None and self._path(key) == entry.path else "damaged"
            except _Foreign as foreign:
                problem = foreign.problem
            except FileNotFoundError:
                continue
            except OSError as error:
                problem = error.strerror or str(error)
            if problem is not None:
                found.append(Unsound(entry.path.name, problem, _is_own(entry.path) and _remove(entry.path)))
        return found

    def problem(self) -> str | None:
        """Return the reason why the folder isn't used; None if it is used or would be created."""
        try:
            _check(os.stat(self.folder), self.folder, stat.S_ISDIR)
        except FileNotFoundError:
            return None
        except _Foreign as foreign:
            return str(foreign)
        except OSError as error:
            return f"{self.folder} can't be read ({error.strerror})"
        return None

    @property
    def is_writable(self) -> bool:
        """True if this user may add entries, or create the folder."""
        there = (folder for folder in (self.folder, *self.folder.parents) if os.path.exists(folder))
        return os.access(next(there, self.folder), os.W_OK)

    def sweep(self) -> None:
        """Remove abandoned temporary files and, above the size limit, the least recently used entries."""
        self._unswept = 0
        now, total, entries = time.time(), 0, []
        for entry in self._files():
            if entry.path.suffix == _TEMPORARY:
                if abs(now - entry.used) > _ABANDONED:
                    _remove(entry.path)
                continue
            total += entry.size_bytes
            # a time in the future is meaningless, so such an entry is evicted first
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
            # other processes may remove files concurrently
            with suppress(OSError):
                facts = file.stat(follow_symlinks=False)
                path = Path(file.path)
                digest, _, kind = file.name.partition(".")
                *middle, end = kind.split(".")
                is_named = digest.startswith(_PREFIX) and len(digest) == len(_PREFIX) + 2 * _DIGEST_BYTES
                if is_named and end and len(middle) == (2 if end == "tmp" else 0):
                    yield Entry(path, end, facts.st_size, facts.st_mtime)

    def _path(self, key: str) -> Path:
        name = hashlib.blake2b(_head(key), digest_size=_DIGEST_BYTES).hexdigest()
        return self.folder / f"{_PREFIX}{name}.{key.partition(':')[0]}"

    def _trusts_folder(self, make: bool = False) -> bool:
        if self._is_trusted is None:
            try:
                if make:
                    self._make_folder()
                _check(os.stat(self.folder), self.folder, stat.S_ISDIR)
            except FileNotFoundError:
                return False
            except _Foreign as foreign:
                self._is_trusted = False
                self.warn(f"{foreign}: nothing is kept on disk")
            except OSError as error:
                self._is_trusted = False
                self._cannot_write(error)
            else:
                self._is_trusted = True
        return bool(self._is_trusted)

    def _make_folder(self) -> None:
        try:
            self.folder.parent.mkdir(parents=True, exist_ok=True)
            self.folder.mkdir(mode=0o700, exist_ok=True)
        except FileExistsError:
            # the path or its parent is not a folder, which the caller reports
            return
        except FileNotFoundError as error:
            # raised by /proc, for example, in which no folder can be created
            self._give_up(error)

    def _cannot_write(self, error: OSError) -> None:
        if isinstance(error, FileNotFoundError):
            # the folder was removed
            self._is_trusted = None
        else:
            self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        self._is_writable = False
        self.warn(f"{self.folder} can't be written ({error.strerror}): compiled kernels are not kept on disk")

    def warn(self, message: str, hint: str = _HINT) -> None:
        if not self._is_quiet:
            self._is_quiet = True
            _warn(f"{message}\nhelp: {hint}")


class Asked(NamedTuple):
    """The store that the environment selects. problem: the reason why there is none, or an invalid setting."""

    store: DiskStore | None
    problem: str | None = None

    @property
    def unused(self) -> str | None:
        """The reason why nothing is kept on disk, or None."""
        return self.problem if self.store is None else self.store.problem()


def current() -> DiskStore | None:
    """Return the store that the environment selects, or None; warn if a setting is invalid or there is no folder."""
    if os.environ.get("TILEJIT_CACHE") == "0":
        return None
    store, problem = asked()
    if problem is not None:
        hint = _SETTING_HINT if problem.startswith("TILEJIT_CACHE") else _HINT
        _tell(problem if store is not None else f"{problem}: nothing is kept on disk", hint)
    return store


def asked() -> Asked:
    """Return the store that the environment selects, or the problem, without a warning."""
    environment = os.environ
    switch = environment.get("TILEJIT_CACHE") or "1"
    if switch != "1":
        return Asked(None, "TILEJIT_CACHE=0" if switch == "0" else f"TILEJIT_CACHE={switch!r} is not one of 0, 1")
    return _store(environment.get("TILEJIT_CACHE_DIR") or None, environment.get("TILEJIT_CACHE_MAXSIZE") or None)


@lru_cache(maxsize=8)
def _store(folder: str | None, limit: str | None) -> Asked:
    if folder is None:
        try:
            # takes 5 ms to import
            import platformdirs
        except ImportError:
            return Asked(None, "platformdirs isn't installed")
        folder = platformdirs.user_cache_dir("tilejit", appauthor=False)
    try:
        # absolute, because the program may change the current directory
        path = Path(folder).expanduser().absolute()
    except (RuntimeError, OSError) as error:
        # the user has no home directory, or the current directory was removed
        return Asked(None, f"{folder} can't be resolved to a folder ({error})")
    if limit is None or limit.isdecimal():
        return Asked(DiskStore(path, DEFAULT_LIMIT if limit is None else int(limit)))
    return Asked(
        DiskStore(path), f"TILEJIT_CACHE_MAXSIZE={limit!r} is not a number of bytes: at most {DEFAULT_LIMIT:,} are kept"
    )


@lru_cache(maxsize=8)
def _tell(problem: str, hint: str) -> None:
    _warn(f"{problem}\nhelp: {hint}")


def _warn(message: str) -> None:
    warnings.warn(message, CacheWarning, stacklevel=stack_level())


def _read(path: Path) -> tuple[bytes, float]:
    """Return a file's contents and time of use; raise _Foreign if it isn't a regular file or others may write it."""
    opened = os.open(path, _READING)
    try:
        facts = os.fstat(opened)
        _check(facts, path, stat.S_ISREG)
    except BaseException:
        # `os.fdopen` refuses folders, so check before it, and close the file after any error, even an interrupt
        os.close(opened)
        raise
    with os.fdopen(opened, "rb") as file:
        return file.read(), facts.st_mtime


def _check(facts: os.stat_result, path: Path, is_right_kind: Callable[[int], bool]) -> None:
    """Raise _Foreign for the wrong kind of file and, except on Windows, if others own it or can write it."""
    if not is_right_kind(facts.st_mode):
        raise _Foreign(path, f"is not a {'folder' if is_right_kind is stat.S_ISDIR else 'file'}")
    if not hasattr(os, "geteuid"):
        return
    if facts.st_uid != os.geteuid():
        raise _Foreign(path, "belongs to another user")
    if facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise _Foreign(path, "can be written by others")


def _is_own(path: Path) -> bool:
    if not hasattr(os, "geteuid"):
        return True
    try:
        return os.lstat(path).st_uid == os.geteuid()
    except OSError:
        return False


def _payload(content: bytes, key: str) -> bytes | None:
    head = _head(key)
    start = len(_MARK) + _DIGEST_BYTES
    if content[: len(_MARK)] != _MARK or content[start : start + len(head)] != head:
        return None
    payload = content[start + len(head) :]
    return payload if content[len(_MARK) : start] == _digest(head, payload) else None


def _key(content: bytes) -> str | None:
    length, _, rest = content[len(_MARK) + _DIGEST_BYTES :].partition(b"\n")
    if not length.isdigit():
        return None
    try:
        key = rest[: int(length)].decode("utf-8", _SURROGATES)
    except ValueError:
        return None
    return None if _payload(content, key) is None else key


def _head(key: str) -> bytes:
    name = key.encode("utf-8", _SURROGATES)
    return b"%d\n%b" % (len(name), name)


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
