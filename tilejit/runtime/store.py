"""Bytes on disk by key, for many processes at once: a key gives what was put there, whole, or nothing.

```
FOLDER/tilejit-<digest of the key>.<kind of the key>    an entry: mark, digest, key, payload
FOLDER/tilejit-….tmp                                    an entry that is being written
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
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from ..callers import stack_level
from ..errors import CacheWarning

__all__ = ["DEFAULT_LIMIT", "Asked", "DiskStore", "Entry", "Unsound", "asked", "current"]

#: bytes that the cache takes unless `TILEJIT_CACHE_MAXSIZE` says otherwise: some 10,000 kernels
DEFAULT_LIMIT = 512 * 2**20

_MARK = b"tilejit entry 1\n"
_DIGEST_BYTES = 32
#: of the names of files, because somebody may name a folder in which there are others
_PREFIX = "tilejit-"
_TEMPORARY = ".tmp"

#: names of files that aren't UTF-8 have them, and keys may hold such names
_SURROGATES = "surrogatepass"

#: seconds after which nobody is still writing a file, and by which clocks of one machine don't differ
_ABANDONED, _SKEW = 3600, 24 * 3600

#: seconds for which an entry's time of use may be wrong, so that reading seldom writes
_RECENT = 60

#: writings of which one, on average, looks at all entries: 30 us for each that is there
_SWEEP_EVERY = 64

_BINARY = getattr(os, "O_BINARY", 0)
#: a link may lead to a file of others, and opening a pipe waits for its writer
_READING = os.O_RDONLY | _BINARY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_WRITING = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY

_HINT = "TILEJIT_CACHE_DIR names another folder, TILEJIT_CACHE=0 turns the cache off"


class Entry(NamedTuple):
    """A file of the store. kind: what its key says in front of the colon. used: seconds since the epoch."""

    path: Path
    kind: str
    size_bytes: int
    used: float


class Unsound(NamedTuple):
    """An entry that would never be used. is_removed: else it is another user's, or can't be removed."""

    name: str
    problem: str
    is_removed: bool


class _Foreign(Exception):
    """A file or folder that others may have written."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(f"{path} {problem}")
        self.problem = problem


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
            self.warn(f"{foreign}: it is not used")
            return None
        except OSError:
            return None
        payload = _payload(content, key)
        if payload is None:
            _remove(path)
        elif abs(time.time() - used) > _RECENT:
            # what can't be written can be read
            with suppress(OSError):
                os.utime(path)
        return payload

    def put(self, key: str, payload: bytes) -> None:
        """Keeps the payload under this key, in place of what was there; where it can't, warns once."""
        if not self._is_writable or not self._trusts_folder(make=True):
            return
        path, head = self._path(key), _head(key)
        random = os.urandom(4)
        temporary = path.with_name(f"{path.name}.{os.getpid()}-{random.hex()}{_TEMPORARY}")
        try:
            with os.fdopen(os.open(temporary, _WRITING, 0o600), "wb") as file:
                file.write(b"".join((_MARK, _digest(head, payload), head, payload)))
            os.replace(temporary, path)
        except OSError as error:
            _remove(temporary)
            # on Windows nobody replaces what another process reads, and that is the same entry
            if os.name != "nt" or not isinstance(error, PermissionError) or not path.exists():
                self._cannot_write(error)
            return
        except BaseException:
            # an interrupt, too, leaves no part of a file
            _remove(temporary)
            raise
        self._unswept += len(payload)
        # most processes write little
        if self._unswept > self.limit_bytes // 32 or random[0] % _SWEEP_EVERY == 0:
            self.sweep()

    def entries(self) -> Iterator[Entry]:
        """Every entry that is there, in no order."""
        return (entry for entry in self._files() if entry.path.suffix != _TEMPORARY)

    def clear(self) -> int:
        """Removes this user's entries, and what was left of writing them; returns how many entries went."""
        removed = [entry for entry in self._files() if _is_own(entry.path) and _remove(entry.path)]
        return sum(entry.path.suffix != _TEMPORARY for entry in removed)

    def verify(self) -> list[Unsound]:
        """The entries that are never used; those of this user are removed."""
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
        """Why the folder isn't used; None where it is, or would be made."""
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
        """Whether this user has the right to add entries, or to make the folder."""
        there = (folder for folder in (self.folder, *self.folder.parents) if os.path.exists(folder))
        return os.access(next(there, self.folder), os.W_OK)

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
                is_named = digest.startswith(_PREFIX) and len(digest) == len(_PREFIX) + 2 * _DIGEST_BYTES
                if is_named and end and len(middle) == (2 if end == "tmp" else 0):
                    yield Entry(path, end, facts.st_size, facts.st_mtime)

    def _path(self, key: str) -> Path:
        name = hashlib.blake2b(_head(key), digest_size=_DIGEST_BYTES).hexdigest()
        return self.folder / f"{_PREFIX}{name}.{key.partition(':')[0]}"

    def _trusts_folder(self, make: bool = False) -> bool:
        """Whether the folder is there, and no other may write into it."""
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
            # something else is there, and is told of
            return
        except FileNotFoundError as error:
            # so /proc says that it takes no folders
            self._give_up(error)

    def _cannot_write(self, error: OSError) -> None:
        if isinstance(error, FileNotFoundError):
            # somebody removed the folder
            self._is_trusted = None
        else:
            self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        self._is_writable = False
        self.warn(f"{self.folder} can't be written ({error.strerror}): what is compiled now is not kept on disk")

    def warn(self, message: str, hint: str = _HINT) -> None:
        """Says, once, why something isn't kept or read."""
        if not self._is_quiet:
            self._is_quiet = True
            _warn(f"{message}\nhelp: {hint}")


class Asked(NamedTuple):
    """What the environment asks for. problem: why there is no store, or what else can't be as it was asked for."""

    store: DiskStore | None
    problem: str | None = None

    @property
    def unused(self) -> str | None:
        """Why nothing is kept on disk; None where something is."""
        return self.problem if self.store is None else self.store.problem()


def current() -> DiskStore | None:
    """The store that the environment asks for; None where it asks for none, and with a warning where it can't be."""
    if os.environ.get("TILEJIT_CACHE") == "0":
        return None
    store, problem = asked()
    if problem is not None:
        _tell(problem if store is not None else f"{problem}: nothing is kept on disk")
    return store


def asked() -> Asked:
    """What the environment asks for, without a warning."""
    environment = os.environ
    switch = environment.get("TILEJIT_CACHE") or "1"
    if switch != "1":
        return Asked(None, "TILEJIT_CACHE=0" if switch == "0" else f"TILEJIT_CACHE={switch!r} is not one of 0, 1")
    return _store(environment.get("TILEJIT_CACHE_DIR") or None, environment.get("TILEJIT_CACHE_MAXSIZE") or None)


@lru_cache(maxsize=8)
def _store(folder: str | None, limit: str | None) -> Asked:
    if folder is None:
        try:
            # it takes 5 ms to import
            import platformdirs
        except ImportError:
            return Asked(None, "platformdirs isn't installed")
        folder = platformdirs.user_cache_dir("tilejit", appauthor=False)
    try:
        # a program may change to another directory
        path = Path(folder).expanduser().absolute()
    except (RuntimeError, OSError) as error:
        # nobody has that home, or the directory in which the program runs was removed
        return Asked(None, f"{folder} is no folder that can be found ({error})")
    if limit is None or limit.isdecimal():
        return Asked(DiskStore(path, DEFAULT_LIMIT if limit is None else int(limit)))
    return Asked(
        DiskStore(path), f"TILEJIT_CACHE_MAXSIZE={limit!r} is no number of bytes: at most {DEFAULT_LIMIT:,} are kept"
    )


@lru_cache(maxsize=8)
def _tell(problem: str) -> None:
    """Warns, once."""
    _warn(f"{problem}\nhelp: {_HINT}")


def _warn(message: str) -> None:
    """A warning at the line of the user's that led here."""
    warnings.warn(message, CacheWarning, stacklevel=stack_level())


def _read(path: Path) -> tuple[bytes, float]:
    """A file's content and time of use.

    raises: _Foreign for one that others may have written.
    """
    opened = os.open(path, _READING)
    try:
        facts = os.fstat(opened)
        _check(facts, path, stat.S_ISREG)
    except BaseException:
        # an interrupt, too; a file object, which would close it, refuses to be made of a folder
        os.close(opened)
        raise
    with os.fdopen(opened, "rb") as file:
        return file.read(), facts.st_mtime


def _check(facts: os.stat_result, path: Path, is_right_kind: Callable[[int], bool]) -> None:
    """Raises _Foreign for what isn't of this kind, or what others may have written."""
    if not is_right_kind(facts.st_mode):
        raise _Foreign(path, f"is no {'folder' if is_right_kind is stat.S_ISDIR else 'file'}")
    if not hasattr(os, "geteuid"):
        return
    if facts.st_uid != os.geteuid():
        raise _Foreign(path, "belongs to another user")
    if facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise _Foreign(path, "can be written by others")


def _is_own(path: Path) -> bool:
    """Whether a file is this user's; on Windows all that are in the profile's folder."""
    if not hasattr(os, "geteuid"):
        return True
    try:
        return os.lstat(path).st_uid == os.geteuid()
    except OSError:
        return False


def _payload(content: bytes, key: str) -> bytes | None:
    """What an entry holds for a key; None where it is damaged, or stands in another's place."""
    head = _head(key)
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
        key = rest[: int(length)].decode("utf-8", _SURROGATES)
    except ValueError:
        return None
    return None if _payload(content, key) is None else key


def _head(key: str) -> bytes:
    """The key as it stands in an entry, behind its length."""
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
