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
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, NamedTuple

from .. import __version__
from ..errors import LaunchError
from ..sanitize.command import STATUS
from ..wording import cut
from .tools import TOOLS, Tool, command_line, fault_of

PROTOCOLS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")

# source: JSON-RPC 2.0, "Error object"
PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS = -32700, -32600, -32601, -32602

#: the most bytes of a failed call's output, and of a result, that are returned
_MOST_SHOWN, _MOST_BYTES = 4000, 16 << 20
_WARNING = "Programs that a client sends are run, without a sandbox, as the user that started the server."
_EPILOG = """\
Many clients are configured by a file such as:
  {"mcpServers": {"tilejit": {"command": "python", "args": ["-m", "tilejit", "mcp", "--timeout", "120"]}}}
""" + _WARNING


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


class Limits(NamedTuple):
    """The limits of a call. memory: of each of its processes."""

    seconds: int
    memory_mib: int


class _RequestError(Exception):
    """A request that can't be answered, with the code of JSON-RPC and a message."""


def serve(timeout: str, memory: str) -> Iterator[str]:
    """Answer requests until standard input ends; return no lines. raises: LaunchError for invalid limits."""
    limits = Limits(_number("--timeout", timeout), _number("--memory", memory))
    if os.name != "posix":
        raise LaunchError("the MCP server needs a POSIX system", hint="run it on Linux or macOS")
    for number in (signal.SIGTERM, signal.SIGHUP):
        # exit by an exception, which ends the call that is running
        signal.signal(number, lambda received, _: sys.exit(128 + received))
    # sys.stdin is None if the process was started without a standard input
    for line in () if sys.stdin is None else sys.stdin.buffer:
        answer = answered(line, limits) if line.strip() else None
        if answer is not None:
            print(json.dumps(answer), flush=True)
    return iter(())


def _number(option: str, text: str) -> int:
    # ten digits, because Python refuses to convert very many
    if not (text.isascii() and text.isdigit() and len(text) <= 10 and 0 < int(text) < 1 << 31):
        raise LaunchError(f"{option} {cut(text)} is not a positive integer", hint=f"write {option} 60")
    return int(text)


def answered(line: bytes, limits: Limits) -> dict[str, Any] | None:
    """Return the response to a message; None for a notification or a response."""
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
        if "id" in message and type(message["id"]) not in (str, int):
            raise _RequestError(INVALID_REQUEST, "id is neither a string nor an integer")
        key = message.get("id")
        if message.get("jsonrpc") != "2.0" or not isinstance(message.get("method"), str):
            raise _RequestError(INVALID_REQUEST, 'the message needs "jsonrpc": "2.0" and a method')
        if "id" not in message:
            return None
        return {"jsonrpc": "2.0", "id": key, "result": _result(message["method"], message.get("params", {}), limits)}
    except _RequestError as error:
        code, text = error.args
        return {"jsonrpc": "2.0", "id": key, "error": {"code": code, "message": text}}


def _result(method: str, params: object, limits: Limits) -> dict[str, Any]:
    if not isinstance(params, dict):
        raise _RequestError(INVALID_PARAMS, "params is not an object")
    match method:
        case "initialize":
            wanted = params.get("protocolVersion")
            if not isinstance(wanted, str):
                raise _RequestError(INVALID_PARAMS, "protocolVersion is not a string")
            return {
                "protocolVersion": wanted if wanted in PROTOCOLS else PROTOCOLS[0], "capabilities": {"tools": {}},
                "serverInfo": {"name": "tilejit", "version": __version__},
                "instructions": f"Tools of tilejit, for GPU kernels on a machine without a GPU. {_WARNING}",
            }
        case "tools/list":
            tools = TOOLS.items()
            return {"tools": [{"name": n, "description": t.description, "inputSchema": t.schema} for n, t in tools]}
        case "tools/call":
            name = params.get("name")
            if not isinstance(name, str):
                raise _RequestError(INVALID_PARAMS, "name is not a string")
            if name not in TOOLS:
                raise _RequestError(INVALID_PARAMS, f"there is no tool {name!r}; the tools are: {', '.join(TOOLS)}")
            try:
                outcome = _called(TOOLS[name], params.get("arguments", {}), limits)
            except OSError as error:
                # such as a command line that is too long, or a full disk
                outcome = f"the call can't be run: {error.strerror}"
            if isinstance(outcome, str):
                # an error of the tool, which the model sees and can correct, not of the protocol
                return {"content": [{"type": "text", "text": outcome}], "isError": True}
            return {"content": [{"type": "text", "text": json.dumps(outcome)}], "structuredContent": outcome}
        case "ping":
            # MCP requires it
            return {}
    raise _RequestError(METHOD_NOT_FOUND, f"there is no method {method}")


def _called(tool: Tool, arguments: Any, limits: Limits) -> dict[str, Any] | str:
    """Run the command of a tool in a process; return the JSON that it printed, or a description of the failure."""
    fault = fault_of(arguments, tool)
    if fault is not None:
        return fault
    with (
        tempfile.TemporaryDirectory(prefix="tilejit-mcp-", ignore_cleanup_errors=True) as folder,
        tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err,
    ):
        line = command_line(tool, arguments, Path(folder))
        status = _ended(line, os.curdir if "file" in arguments else folder, out, err, limits)
        out.seek(0)
        err.seek(max(0, err.seek(0, os.SEEK_END) - _MOST_SHOWN))
        printed, said = out.read(_MOST_BYTES + 1), err.read().decode("utf-8", "replace").strip()
    if status is None:
        return f"stopped after {limits.seconds} seconds, the limit that --timeout sets"
    if status in (STATUS.values() if tool.command == "check" else (0,)):
        return _parsed(printed)
    reasons = [said] if said else []
    if status < 0:
        reasons.append(f"ended by signal {-status} ({signal.strsignal(-status)})")
    if status < 0 or "MemoryError" in said:
        reasons.append(f"while --memory limited each process to {limits.memory_mib} MiB")
    return "\n".join(reasons) or f"exit status {status}"


def _parsed(printed: bytes) -> dict[str, Any] | str:
    if len(printed) > _MOST_BYTES:
        return f"the result has more than {_MOST_BYTES:,} bytes"
    with suppress(ValueError, RecursionError):
        data = json.loads(printed)
        if isinstance(data, dict):
            return data
    return "the program ended the process, or wrote to its standard output after the result"


def _ended(line: list[str], folder: str, out: IO[bytes], err: IO[bytes], limits: Limits) -> int | None:
    """Run a command and return its exit status, or None if the time ran out. Its whole process group ends with it."""
    import resource

    size, most = limits.memory_mib << 20, resource.getrlimit(resource.RLIMIT_DATA)[1]
    if most != resource.RLIM_INFINITY:
        size = min(size, most)
    package = os.fspath(Path(__file__).parents[2])
    paths = os.pathsep.join(filter(None, (package, os.environ.get("PYTHONPATH"))))
    process = subprocess.Popen(
        [sys.executable, "-m", "tilejit", *line], cwd=folder, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
        # each thread of OpenBLAS would allocate memory
        env={"OPENBLAS_NUM_THREADS": "1", **os.environ, "PYTHONPATH": paths}, start_new_session=True,
        # private writable memory; not addresses that are only reserved, of which a GPU's driver uses a lot
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (size, size)),
    )
    try:
        return process.wait(limits.seconds)
    except subprocess.TimeoutExpired:
        return None
    finally:
        # processes that the program has started end, too
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
