"""The MCP server: each tool, bad requests, limits, and what is left after a call."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import tilejit as tj
from tests.commands.programs import COPY, LAUNCHED, RACE_PTX, VARIED
from tests.support.typed_data import conforming
from tilejit.__main__ import main
from tilejit.commands import mcp, schema
from tilejit.commands.tools import TOOLS, fault_of

ROOT = Path(tj.__file__).parents[1]
LAYOUT = "S[(4, 8) : (8, 1)]"

pytestmark = pytest.mark.skipif(os.name != "posix", reason="the server needs a POSIX system")


class Client:
    """A client that waits for each response."""

    def __init__(self, folder: Path, *options: str) -> None:
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "TILEJIT_DEVICE": "sim"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tilejit", "mcp", *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, cwd=folder, env=environment,
        )
        self.ids = 0

    def write(self, text: str | bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write((text if isinstance(text, bytes) else text.encode()) + b"\n")
        self.process.stdin.flush()

    def read(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        response: dict[str, Any] = json.loads(self.process.stdout.readline())
        assert response["jsonrpc"] == "2.0"
        return response

    def request(self, method: str, **params: Any) -> dict[str, Any]:
        self.ids += 1
        self.write(json.dumps({"jsonrpc": "2.0", "id": self.ids, "method": method, "params": params}))
        response = self.read()
        assert response["id"] == self.ids
        return response

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        result: dict[str, Any] = self.request("tools/call", name=tool, arguments=arguments)["result"]
        return result

    def data(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The data of a call that succeeds."""
        result = self.call(tool, **arguments)
        assert "isError" not in result, result
        data: dict[str, Any] = result["structuredContent"]
        assert json.loads(result["content"][0]["text"]) == data
        return data

    def failure(self, tool: str, **arguments: Any) -> str:
        """The text of a call that fails."""
        result = self.call(tool, **arguments)
        assert result["isError"] and "structuredContent" not in result
        return str(result["content"][0]["text"])

    def end(self) -> int:
        _, said = self.process.communicate(timeout=20)
        assert b"Traceback" not in said
        return self.process.returncode


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """A client of a server that must survive every test of this file."""
    client = Client(tmp_path_factory.mktemp("served"))
    yield client
    assert client.end() == 0


def test_a_session_begins_with_the_version_that_the_client_asks_for(client: Client) -> None:
    for asked, served in (*((version, version) for version in mcp.PROTOCOLS), ("2099-01-01", mcp.PROTOCOLS[0])):
        result = client.request("initialize", protocolVersion=asked, capabilities={}, clientInfo={})["result"]
        assert result["protocolVersion"] == served
        assert result["serverInfo"] == {"name": "tilejit", "version": tj.__version__}
        assert result["capabilities"] == {"tools": {}} and "as the user" in result["instructions"]


def test_notifications_and_responses_are_not_answered(client: Client) -> None:
    client.write('{"jsonrpc": "2.0", "method": "notifications/initialized"}')
    client.write('{"jsonrpc": "2.0", "method": "tools/call", "params": {"name": "layouts"}}')
    client.write('{"jsonrpc": "2.0", "id": 99, "result": {}}')
    client.write("")
    assert client.request("ping")["result"] == {}


def test_tools_are_listed_with_schemas(client: Client) -> None:
    tools = client.request("tools/list")["result"]["tools"]
    assert [tool["name"] for tool in tools] == list(TOOLS) == ["compile", "explain", "check", "count", "layouts"]
    for tool in tools:
        assert tool["description"] and tool["inputSchema"]["type"] == "object"
        assert set(tool["inputSchema"]["required"]) <= set(tool["inputSchema"]["properties"])
        assert fault_of({}, TOOLS[tool["name"]]) is not None


def test_compile_returns_ptx_or_another_form(client: Client) -> None:
    data = client.data("compile", source=COPY)
    assert conforming(data, schema.TextDocument) == []
    (kernel,) = data["kernels"]
    assert kernel["kind"] == "ptx" and ".target sm_90a" in kernel["text"] and kernel["shared_bytes"] == 1024
    (kernel,) = client.data("compile", source=VARIED, kernel="apart", output="tile-ir", target="sm_80")["kernels"]
    assert (kernel["kernel"], kernel["kind"], kernel["target"]) == ("apart", "tile_ir", "sm_80")


def test_explain_returns_the_data_of_the_command(
    client: Client, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILEJIT_DEVICE", "sim")
    path = tmp_path / "program.py"
    path.write_text(VARIED, encoding="utf-8")
    main(["explain", f"{path}::apart", "--all", "--spec", "n=int64", "--format", "json"])
    expected = json.loads(capsys.readouterr().out)
    assert client.data("explain", source=VARIED, kernel="apart", all=True, specs=["n=int64"]) == expected
    assert client.data("explain", file=str(path), kernel="apart", all=True, specs=["n=int64"]) == expected


def test_explain_can_run_a_program(client: Client) -> None:
    assert "the arguments of store in program.py are unknown" in client.failure("explain", source=LAUNCHED)
    (kernel,) = client.data("explain", source=LAUNCHED, run=True)["kernels"]
    assert [each["line"] for each in kernel["elements"]] == ["program.py:7"]


def test_check_finds_a_race_and_lists_kernels(client: Client) -> None:
    data = client.data("check", source=RACE_PTX, language="ptx", kernel="shift", grid="1", block="256",
                       arguments=["out:f32[256]"])
    assert conforming(data, schema.Document) == [] and data["verdict"] == "findings"
    assert {finding["rule"] for kernel in data["kernels"] for finding in kernel["findings"]} == {"race"}
    listed = client.data("check", source=RACE_PTX, language="ptx")
    assert conforming(listed, schema.Listing) == []
    assert [kernel["kernel"] for kernel in listed["kernels"]] == ["shift"]
    failure = client.failure("check", source=RACE_PTX, language="ptx", kernel="shift", grid="1", block="256")
    assert "shift takes 1 argument, got 0" in failure


def test_count_and_layouts_return_numbers(client: Client) -> None:
    data = client.data("count", source=COPY, grid="2")
    assert conforming(data, schema.CountDocument) == []
    assert data["instructions"] == sum(each["times"] for each in data["by_instruction"]) and data["grid"] == [2, 1, 1]
    data = client.data("layouts", layout=LAYOUT, shape="32")
    assert conforming(data, schema.LayoutDocument) == []
    assert data["axes"] == [{"axis": "m", "copies": [list(range(32))]}]


@pytest.mark.parametrize(
    ("line", "code", "key"),
    [
        ("{", mcp.PARSE_ERROR, None),
        (b"\xff\xfe", mcp.PARSE_ERROR, None),
        ("[" * 100_000, mcp.PARSE_ERROR, None),
        ("[]", mcp.INVALID_REQUEST, None),
        ('[{"jsonrpc": "2.0", "id": 1, "method": "ping"}]', mcp.INVALID_REQUEST, None),
        ('{"id": 5, "method": "ping"}', mcp.INVALID_REQUEST, 5),
        ('{"jsonrpc": "2.0", "id": 5}', mcp.INVALID_REQUEST, 5),
        ('{"jsonrpc": "2.0", "id": 5, "method": 7}', mcp.INVALID_REQUEST, 5),
        ('{"jsonrpc": "2.0", "id": null, "method": "ping"}', mcp.INVALID_REQUEST, None),
        ('{"jsonrpc": "2.0", "id": [1], "method": "ping"}', mcp.INVALID_REQUEST, None),
        ('{"jsonrpc": "2.0", "id": true, "method": "ping"}', mcp.INVALID_REQUEST, None),
        ('{"jsonrpc": "2.0", "id": "a", "method": "resources/list"}', mcp.METHOD_NOT_FOUND, "a"),
        ('{"jsonrpc": "2.0", "id": 6, "method": "server/discover"}', mcp.METHOD_NOT_FOUND, 6),
        ('{"jsonrpc": "2.0", "id": 6, "method": "tools/list", "params": [1]}', mcp.INVALID_PARAMS, 6),
        ('{"jsonrpc": "2.0", "id": 6, "method": "initialize"}', mcp.INVALID_PARAMS, 6),
        ('{"jsonrpc": "2.0", "id": 6, "method": "tools/call", "params": {"name": "rm"}}', mcp.INVALID_PARAMS, 6),
        ('{"jsonrpc": "2.0", "id": 6, "method": "tools/call", "params": {"name": ["check"]}}', mcp.INVALID_PARAMS, 6),
    ],
)
def test_bad_requests_are_errors_of_the_protocol(
    client: Client, line: str | bytes, code: int, key: str | int | None
) -> None:
    client.write(line)
    response = client.read()
    assert (response["error"]["code"], response["id"]) == (code, key) and response["error"]["message"]
    assert client.request("ping")["result"] == {}


@pytest.mark.parametrize(
    ("tool", "arguments", "message"),
    [
        ("layouts", {}, "layout is missing"),
        ("layouts", {"layout": 3}, "layout is not of type string"),
        ("layouts", {"layout": ""}, "layout is empty or begins with -"),
        ("layouts", {"layout": "--help"}, "layout is empty or begins with -"),
        ("layouts", {"layout": LAYOUT, "form": "x"}, "there is no argument 'form'"),
        ("layouts", {"layout": "S[\0]"}, "has a null character"),
        ("layouts", {"layout": "S[\ud800]"}, "half of a surrogate pair"),
        ("layouts", {"layout": "x" * 200_000}, "the call can't be run: Argument list too long"),
        ("layouts", {"layout": "3"}, "3 is an int"),
        ("layouts", {"layout": "exit(7)"}, "exit status 7"),
        ("layouts", {"layout": "exit()"}, "ended the process"),
        ("compile", {}, "give either source or file"),
        ("compile", {"source": "", "file": "k.py"}, "give either source or file"),
        ("compile", {"source": COPY, "output": "sass"}, "output is not one of ptx, tile-ir, lane-ir, llvm"),
        ("compile", {"source": COPY, "threads": 0}, "threads is less than 1"),
        ("compile", {"source": COPY, "threads": True}, "threads is not of type integer"),
        ("compile", {"source": COPY, "specs": ["n=1", 2]}, "specs has an element that is not of type string"),
        ("compile", {"source": COPY, "kernel": "-h"}, "kernel is empty or begins with -"),
        ("compile", {"source": COPY, "kernel": "missing"}, "program.py has no kernel 'missing'"),
        ("compile", {"source": "x ="}, "program.py raised SyntaxError"),
        ("compile", {"source": "raise ValueError('odd')"}, "program.py raised ValueError at line 1: odd"),
        ("compile", {"source": "import os; os._exit(0)"}, "ended the process"),
        ("compile", {"source": "import os; os.abort()"}, "ended by signal 6 (Aborted)"),
        ("compile", {"source": "import os; os.kill(os.getpid(), 40)"}, "ended by signal 40 ("),
        (
            "compile", {"source": "import atexit, os\natexit.register(os.write, 1, b'done')\n" + COPY},
            "wrote to its standard output after the result",
        ),
        ("compile", {"source": "print('x' * 10_000)\nraise ValueError('odd')"}, "raised ValueError at line 2: odd"),
        ("compile", {"file": "missing.py"}, "no such file: missing.py"),
        ("explain", {"source": COPY, "all": "yes"}, "all is not of type boolean"),
        ("count", {"source": COPY, "grid": "1,2,3,4"}, "--grid 1,2,3,4 is not one to three integers"),
        ("check", {"source": "nonsense", "language": "ptx"}, "kernels.ptx is not PTX"),
        ("check", {"source": RACE_PTX, "language": "hip"}, "language is not one of cuda, ptx"),
    ],
)
def test_bad_arguments_are_errors_of_the_tool(
    client: Client, tool: str, arguments: dict[str, Any], message: str
) -> None:
    assert message in client.failure(tool, **arguments)


def answer(line: bytes) -> dict[str, Any] | None:
    return mcp.answered(line, mcp.Limits(60, 4096))


def json_values() -> st.SearchStrategy[Any]:
    words = st.sampled_from(["2.0", "ping", "tools/call", "tools/list", "initialize", "check", "count", "layouts"])
    leaves = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3) | words
    keys = st.sampled_from(["jsonrpc", "id", "method", "params", "name", "arguments", "protocolVersion", "layout"])
    return st.recursive(
        leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=6), max_leaves=12
    )


@given(st.fixed_dictionaries(
    {"jsonrpc": st.just("2.0") | json_values()}, optional={
        "id": st.integers() | json_values(),
        "method": st.sampled_from(["ping", "tools/list", "tools/call", "initialize"]) | json_values(),
        "params": json_values()
        | st.fixed_dictionaries({"name": st.sampled_from(list(TOOLS)), "arguments": json_values()}),
    },
))
def test_no_message_ends_the_server(message: dict[str, Any]) -> None:
    # a call with a layout starts a process
    assume('"layout"' not in json.dumps(message.get("params")))
    response = answer(json.dumps(message).encode())
    assert response is None or ("result" in response) != ("error" in response)
    assert response is None or json.loads(json.dumps(response)) == response


@given(st.binary())
def test_no_line_ends_the_server(line: bytes) -> None:
    response = answer(line)
    assert response is None or response["error"]["code"] in (mcp.PARSE_ERROR, mcp.INVALID_REQUEST)


def test_nesting_of_any_depth_is_answered() -> None:
    for depth in range(900, 1100):
        nested = "[" * depth + "]" * depth
        line = f'{{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {{"name": {nested}}}}}'
        response = answer(line.encode())
        assert response is not None and response["error"]["code"] in (mcp.PARSE_ERROR, mcp.INVALID_PARAMS)


def test_arguments_that_are_no_object_are_an_error_of_the_tool(client: Client) -> None:
    result = client.request("tools/call", name="layouts", arguments=[LAYOUT])["result"]
    assert result["isError"] and result["content"][0]["text"] == "the arguments are not an object"


def test_a_full_disk_is_an_error_of_the_tool(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(**_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    for name in ("TemporaryDirectory", "TemporaryFile"):
        with monkeypatch.context() as patch:
            patch.setattr(tempfile, name, full)
            params = {"name": "layouts", "arguments": {"layout": LAYOUT}}
            request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
            response = answer(json.dumps(request).encode())
        assert response is not None and response["result"]["isError"]
        assert "No space left" in response["result"]["content"][0]["text"]


def test_a_program_does_not_see_the_input_of_the_server(client: Client) -> None:
    assert "program.py raised EOFError at line 1" in client.failure("compile", source="input()")


def test_a_call_ends_when_its_time_is_over_with_all_that_it_started(tmp_path: Path) -> None:
    client = Client(tmp_path, "--timeout", "3")
    started = tmp_path / "started"
    source = (
        "import pathlib, subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"pathlib.Path({str(started)!r}).write_text(str(child.pid))\n"
        "time.sleep(600)\n"
    )
    assert client.failure("explain", source=source) == "stopped after 3 seconds, the limit that --timeout sets"
    assert_ended(int(started.read_text()))
    assert client.data("layouts", layout=LAYOUT)["shape"] == [4, 8]
    assert client.end() == 0


def assert_ended(pid: int) -> None:
    """A killed process is gone once init has waited for it."""
    end = time.monotonic() + 10
    while time.monotonic() < end:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return
        if state in "ZX":
            return
        time.sleep(0.01)
    raise AssertionError(f"process {pid} is still there")


@pytest.mark.skipif(sys.platform != "linux", reason="other systems don't limit memory that is mapped")
def test_a_call_that_needs_too_much_memory_fails_and_says_why(tmp_path: Path) -> None:
    client = Client(tmp_path, "--memory", "512")
    failure = client.failure("explain", source="import numpy as np\nx = np.ones(700 << 20, np.uint8)\n")
    assert "MemoryError" in failure and "while --memory limited each process to 512 MiB" in failure
    assert client.data("compile", source=COPY)["kernels"]
    assert client.end() == 0


@pytest.mark.skipif(sys.platform != "linux", reason="asks /proc for processes")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_server_that_is_terminated_ends_its_call(tmp_path: Path, number: signal.Signals) -> None:
    client = Client(tmp_path)
    started = tmp_path / "started"
    source = f"import os, pathlib, time\npathlib.Path({str(started)!r}).write_text(str(os.getpid()))\ntime.sleep(600)\n"
    request = {"name": "explain", "arguments": {"source": source}}
    client.write(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": request}))
    end = time.monotonic() + 30
    while not (started.exists() and started.read_text()) and time.monotonic() < end:
        time.sleep(0.01)
    client.process.send_signal(number)
    assert client.end() == 128 + number
    assert_ended(int(started.read_text()))


@pytest.mark.parametrize(
    ("option", "value"), [
        ("--timeout", "0"), ("--timeout", "1.5"), ("--memory", "-1"), ("--memory", "x"), ("--timeout", "9" * 5000),
    ],
)
def test_limits_are_positive_integers(capsys: pytest.CaptureFixture[str], option: str, value: str) -> None:
    assert main(["mcp", f"{option}={value}"]) == 1
    shown = value if len(value) < 60 else f"{value[:60]}…"
    assert f"{option} {shown} is not a positive integer" in capsys.readouterr().err
