"""`python -m tilejit mcp`: a server of the Model Context Protocol (MCP) over standard input and output.

Code that a client sends is run, without a sandbox, as the user that started the server. Each call is a process of its
own, which is stopped after `--timeout` seconds; it and each process that it starts may use `--memory` MiB. Calls are
answered one after the other; notifications, among them that a call is canceled, are ignored.

source: Model Context Protocol specification, revision 2025-11-25: "Lifecycle", "Transports", "Tools"
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import IO, Any, NoReturn

from ..dataclass import dataclass
from ..errors import LaunchError
from .tools import TOOLS, Tool, command_line, fault_of

PROTOCOLS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")

# source: JSON-RPC 2.0, "Error object"
PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS = -32700, -32600, -32601, -32602

#: exit statuses of a command that printed JSON: `check` uses 1 for findings and 2 for an incomplete check
_GOOD = {"check": (0, 1, 2)}
#: the most bytes of a failed call's output, and of a result, that are returned
_MOST_SHOWN, _MOST_BYTES = 4000, 16 << 20
_EPILOG = """\
Many clients are configured by a file such as:
  {"mcpServers": {"tilejit": {"command": "python", "args": ["-m", "tilejit", "mcp", "--timeout", "120"]}}}
Code that a client sends is run, without a sandbox, as the user that started the server.
"""
_INSTRUCTIONS = (
    "Tools of tilejit, for GPU kernels on a machine without a GPU. Programs that are sent are run as the user that "
    "started this server."
)


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command `mcp`."""
    served = commands.add_parser(
        "mcp", help=f"serve the tools {', '.join(TOOLS)} to MCP clients over standard input and output; programs that "
        "a client sends are run as the user that started the server",
        epilog=_EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    served.add_argument("--timeout", metavar="SECONDS", default="60", help="time limit of a call (default: 60)")
    served.add_argument(
        "--memory", metavar="MIB", default="4096", help="memory limit of each process of a call (default: 4096)"
    )


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a call. memory: of each of its processes."""

    seconds: int
    memory_mib: int


class _RequestError(Exception):
    """A request that can't be answered. code: of JSON-RPC."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


def serve(timeout: str, memory: str, version: str) -> Iterator[str]:
    """Answer requests until standard input ends. version: that of tilejit. raises: LaunchError for invalid limits."""
    limits = Limits(_number("--timeout", timeout), _number("--memory", memory))
    if os.name != "posix":
        raise LaunchError("the MCP server needs a POSIX system", hint="run it on Linux or macOS")
    # stops the call that is running
    signal.signal(signal.SIGTERM, _exit)
    # sys.stdin is None if the process was started without a standard input
    for line in () if sys.stdin is None else sys.stdin.buffer:
        answer = answered(line, limits, version)
        if answer is not None:
            sys.stdout.write(json.dumps(answer) + "\n")
            sys.stdout.flush()
    yield from ()


def _exit(number: int, frame: FrameType | None) -> NoReturn:
    sys.exit(128 + number)


def _number(option: str, text: str) -> int:
    if not (text.isascii() and text.isdigit()) or not 0 < int(text) < 1 << 31:
        raise LaunchError(f"{option} {text} is not a positive integer", hint=f"write {option} 60")
    return int(text)


def answered(line: bytes, limits: Limits, version: str) -> dict[str, Any] | None:
    """Return the response to a message; None for a notification, a response or an empty line."""
    if not line.strip():
        return None
    key = None
    try:
        try:
            message = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise _RequestError(PARSE_ERROR, f"the line is not JSON: {error}") from None
        if not isinstance(message, dict):
            raise _RequestError(INVALID_REQUEST, "the message is not an object")
        if "method" not in message and ("result" in message or "error" in message):
            return None
        key = _key(message)
        method, params = message.get("method"), message.get("params", {})
        if message.get("jsonrpc") != "2.0" or not isinstance(method, str):
            raise _RequestError(INVALID_REQUEST, 'the message needs "jsonrpc": "2.0" and a method')
        if "id" not in message:
            return None
        if method not in _METHODS:
            raise _RequestError(METHOD_NOT_FOUND, f"there is no method {method}")
        if not isinstance(params, dict):
            raise _RequestError(INVALID_PARAMS, "params is not an object")
        return {"jsonrpc": "2.0", "id": key, "result": _METHODS[method](params, limits, version)}
    except _RequestError as error:
        return {"jsonrpc": "2.0", "id": key, "error": {"code": error.code, "message": str(error)}}


def _key(message: dict[str, Any]) -> str | int | None:
    key: object = message.get("id", 0)
    if isinstance(key, bool) or not isinstance(key, (str, int)):
        raise _RequestError(INVALID_REQUEST, "id is neither a string nor an integer")
    return key if "id" in message else None


def _initialize(params: dict[str, Any], limits: Limits, version: str) -> dict[str, Any]:
    wanted = params.get("protocolVersion")
    if not isinstance(wanted, str):
        raise _RequestError(INVALID_PARAMS, "protocolVersion is not a string")
    return {
        "protocolVersion": wanted if wanted in PROTOCOLS else PROTOCOLS[0], "capabilities": {"tools": {}},
        "serverInfo": {"name": "tilejit", "version": version}, "instructions": _INSTRUCTIONS,
    }


def _list(params: dict[str, Any], limits: Limits, version: str) -> dict[str, Any]:
    return {
        "tools": [
            {"name": name, "description": tool.description, "inputSchema": tool.schema} for name, tool in TOOLS.items()
        ]
    }


def _call(params: dict[str, Any], limits: Limits, version: str) -> dict[str, Any]:
    name, arguments = params.get("name"), params.get("arguments", {})
    if not isinstance(name, str):
        raise _RequestError(INVALID_PARAMS, "name is not a string")
    if name not in TOOLS:
        raise _RequestError(INVALID_PARAMS, f"there is no tool {name!r}; the tools are: {', '.join(TOOLS)}")
    # an error of the tool, which the model sees and can correct, not of the protocol
    fault = fault_of(arguments, TOOLS[name])
    if fault is not None:
        return _failed(fault)
    try:
        return _run(TOOLS[name], arguments, limits)
    except OSError as error:
        # such as a command line that is too long, or a full disk
        return _failed(f"the call can't be run: {error.strerror}")


#: MCP requires `ping`
_METHODS: dict[str, Callable[[dict[str, Any], Limits, str], dict[str, Any]]] = {
    "initialize": _initialize, "tools/list": _list, "tools/call": _call, "ping": lambda *_: {},
}


def _failed(text: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}], "isError": True}


def _run(tool: Tool, arguments: dict[str, Any], limits: Limits) -> dict[str, Any]:
    """Run the command of a tool in a process, and return the result of the call."""
    with (
        tempfile.TemporaryDirectory(prefix="tilejit-mcp-", ignore_cleanup_errors=True) as folder,
        tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err,
    ):
        line = command_line(tool, arguments, Path(folder))
        status = _ended(line, os.curdir if "file" in arguments else folder, out, err, limits)
        if status is None:
            return _failed(f"stopped after {limits.seconds} seconds, the limit that --timeout sets")
        if status in _GOOD.get(tool.command, (0,)):
            return _result(out)
        said = _end_of(err)
    killed = f"ended by signal {-status} ({signal.strsignal(-status)})" if status < 0 else ""
    if status < 0 or "MemoryError" in said:
        killed += f"{', ' if killed else ''}while --memory limited each process to {limits.memory_mib} MiB"
    return _failed("\n".join(filter(None, (said, killed))) or f"exit status {status}")


def _result(out: IO[bytes]) -> dict[str, Any]:
    """Return the JSON that a command printed, as data and as text."""
    out.seek(0)
    printed = out.read(_MOST_BYTES + 1)
    if len(printed) > _MOST_BYTES:
        return _failed(f"the result has more than {_MOST_BYTES:,} bytes")
    try:
        data = json.loads(printed)
    except (ValueError, RecursionError):
        data = None
    if not isinstance(data, dict):
        return _failed("the program ended the process, or wrote to its standard output after the result")
    return {"content": [{"type": "text", "text": json.dumps(data)}], "structuredContent": data}


def _end_of(err: IO[bytes]) -> str:
    size = err.seek(0, os.SEEK_END)
    err.seek(max(0, size - _MOST_SHOWN))
    return err.read().decode("utf-8", "replace").strip()


def _ended(line: list[str], folder: str, out: IO[bytes], err: IO[bytes], limits: Limits) -> int | None:
    """Run a command and return its exit status, or None if the time ran out. Its whole process group ends with it."""
    import resource

    size, most = limits.memory_mib << 20, resource.getrlimit(resource.RLIMIT_DATA)[1]
    if most != resource.RLIM_INFINITY:
        size = min(size, most)

    def limit() -> None:
        # private writable memory; not addresses that are only reserved, of which a GPU's driver uses a lot
        resource.setrlimit(resource.RLIMIT_DATA, (size, size))

    package = os.fspath(Path(__file__).parents[2])
    paths = os.pathsep.join(filter(None, (package, os.environ.get("PYTHONPATH"))))
    process = subprocess.Popen(
        [sys.executable, "-m", "tilejit", *line], cwd=folder, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
        env={**os.environ, "PYTHONPATH": paths}, start_new_session=True, preexec_fn=limit,
    )
    try:
        return process.wait(limits.seconds)
    except subprocess.TimeoutExpired:
        return None
    finally:
        # what the program has started ends, too
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
