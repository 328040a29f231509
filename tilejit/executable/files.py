"""Executables as files: PTX with the record in a comment, or a cubin with PTX and record appended.

```
x.ptx     the PTX                             x.cubin   the cubin
          // tilejit DIGEST RECORD                      the PTX, RECORD
                                                        tilejit DIGEST SIZES   of cubin, PTX, RECORD, in bytes
```
Other tools accept both: the record is a comment, or follows the end of the ELF file.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from keyword import iskeyword
from pathlib import Path
from typing import Any

from ..dataclass import replace
from ..errors import LaunchError, TilejitError
from ..ir.types import ArgumentType, ContainerType, Signature
from ..wording import shown
from .encoding import FORMAT, decoded, encoded, executable_from_json, executable_to_json
from .record import Executable, MachineCode

#: suffixes of files that contain an executable
SUFFIXES = (".ptx", ".cubin")

_MARK = b"tilejit "
_COMMENT = b"\n// " + _MARK
#: exceptions that a forged record can cause; it may have a valid digest, which anyone can compute
_FORGERY_ERRORS = (
    ArithmeticError, AssertionError, AttributeError, LookupError, RecursionError, TypeError, ValueError, TilejitError,
)
#: an upper bound on the size of a cubin's footer
_FOOTER_BYTES = 256


def check_names(names: Sequence[str]) -> None:
    """Raise LaunchError unless all names are distinct, assignable in Python and in NFKC form."""
    for name in names:
        # Python refuses to assign to `__debug__`, although it is not a keyword
        is_plain = isinstance(name, str) and name.isidentifier() and not iskeyword(name) and name != "__debug__"
        if not is_plain or not _is_normal(name) or names.count(name) > 1:
            raise LaunchError(f"{shown(name)} can't be used as a name", hint="use distinct identifiers")


def _is_normal(name: str) -> bool:
    """True if the name equals its NFKC form, to which Python normalizes identifiers."""
    if name.isascii():
        return True
    from unicodedata import normalize

    return normalize("NFKC", name) == name


def saved(executable: Executable) -> bytes:
    """Return the contents of the executable's file: a cubin if it has machine code, else PTX."""
    record = {**executable_to_json(executable), "signature": encoded(executable.signature.arguments)}
    if executable.machine_code is not None:
        record["capability"] = executable.machine_code.capability
    # JSON escapes non-ASCII characters and newlines, so the record is one line
    text, ptx = json.dumps(record, separators=(",", ":")).encode(), executable.ptx.encode()
    if executable.machine_code is None:
        return ptx + _COMMENT + _digest(ptx, text) + b" " + text + b"\n"
    parts = executable.machine_code.image, ptx, text
    footer = b" ".join([_digest(*parts), *(str(len(part)).encode() for part in parts)])
    return b"".join(parts) + b"\n" + _MARK + footer + b"\n"


def read_executable(path: Path) -> Executable:
    """Read a file that `saved` wrote; raise LaunchError if it is missing, modified, foreign or in another format."""
    try:
        content = path.read_bytes()
    except OSError as error:
        reason = error.strerror
        raise LaunchError(f"{path} can't be read: {reason}", hint="pass a file that compiled.save wrote") from None
    if not content.endswith(b"\n"):
        raise _foreign(path)
    digest, *rest = _of_ptx(content, path) if path.suffix == ".ptx" else _of_cubin(content, path)
    if digest != _digest(*rest):
        raise LaunchError(f"{path} was damaged or edited after it was saved", hint="save it again from its kernel")
    image, ptx, text = rest if len(rest) == 3 else (b"", *rest)
    try:
        record: dict[str, Any] = json.loads(text)
        if record["format"] == FORMAT:
            return _executable(record, ptx, image)
    except _FORGERY_ERRORS as error:
        raise LaunchError(
            f"{path} has a record that tilejit didn't write: {error or type(error).__name__}",
            hint="pass a file that compiled.save wrote",
        ) from None
    raise LaunchError(
        f"{path} was saved by another version of tilejit, in format {record['format']}; this one reads {FORMAT}",
        hint="save it again from its kernel",
    )


def _executable(record: dict[str, Any], ptx: bytes, image: bytes) -> Executable:
    """Decode a record; raise any of `_FORGERY_ERRORS` if it is forged."""
    signature = Signature(decoded(record["signature"]))
    check_names(signature.fold(_checked))
    check_names([record["name"]])
    # PTX names may contain dollar signs
    check_names([record["entry"].replace("$", "_")])
    executable = executable_from_json(record, signature, ptx.decode())
    if not image:
        return executable
    return replace(executable, machine_code=MachineCode(image, record["capability"]))


def _checked(name: str, kind: ArgumentType, items: list[str]) -> str:
    """Return an argument's name; raise LaunchError unless its items are named as its type says."""
    if isinstance(kind, ContainerType):
        expected = [f"[{k}]" for k in range(len(items))] if kind.is_tuple else [s for s in kind.items if s[:1] == "."]
        if items != [name + suffix for suffix in expected] or list(kind.items) != expected:
            raise LaunchError(f"{shown(name)} has items of other names", hint="use distinct identifiers")
        if not kind.is_tuple:
            check_names([suffix[1:] for suffix in expected])
    return name


def _of_ptx(content: bytes, path: Path) -> tuple[bytes, ...]:
    ptx, mark, comment = content.rpartition(_COMMENT)
    digest, _, text = comment.removesuffix(b"\n").partition(b" ")
    if not mark or not text:
        raise _foreign(path)
    return digest, ptx, text


def _of_cubin(content: bytes, path: Path) -> tuple[bytes, ...]:
    _, mark, footer = content[-_FOOTER_BYTES:].rpartition(b"\n" + _MARK)
    digest, _, listed = footer.partition(b" ")
    sizes = listed.split()
    if not mark or len(sizes) != 3 or not all(size.isdigit() for size in sizes):
        raise _foreign(path)
    cubin, ptx, text = map(int, sizes)
    return digest, content[:cubin], content[cubin : cubin + ptx], content[cubin + ptx : cubin + ptx + text]


def _foreign(path: Path) -> LaunchError:
    return LaunchError(
        f"{path} contains no kernel saved by tilejit",
        hint="pass a file that compiled.save wrote, such as k.ptx or k.cubin",
    )


def _digest(*parts: bytes) -> bytes:
    digest = hashlib.blake2b(digest_size=32)
    for part in parts:
        # The sizes are hashed, too, so that moving bytes from one part to the next changes the digest.
        digest.update(b"%d:" % len(part))
        digest.update(part)
    return digest.hexdigest().encode()
