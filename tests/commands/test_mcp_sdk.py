"""The official SDK's client lists and calls every tool of the MCP server."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

import tilejit as tj
from tests.commands.programs import COPY, RACE_PTX
from tests.support.typed_data import conforming
from tilejit.commands import schema
from tilejit.commands.tools import TOOLS

pytestmark = pytest.mark.integration

#: the SDK has 30 dependencies, a web server and cryptography among them, so the extra `test` doesn't include it
sdk = pytest.importorskip("mcp", reason="the SDK is not installed: pip install mcp==2.3")
if not hasattr(sdk, "Client"):
    pytest.skip("the SDK is older than 2: pip install mcp==2.3", allow_module_level=True)
anyio = pytest.importorskip("anyio")

#: tool -> arguments, and the type of the result
CALLS: dict[str, tuple[dict[str, Any], Any]] = {
    "compile": ({"source": COPY}, schema.TextDocument),
    "explain": ({"source": COPY, "all": True}, schema.ExplanationDocument),
    "check": (
        {
            "source": RACE_PTX, "language": "ptx", "kernel": "shift", "grid": "1", "block": "256",
            "arguments": ["out:f32[256]"],
        },
        schema.Document,
    ),
    "count": ({"source": COPY, "grid": "1"}, schema.CountDocument),
    "layouts": ({"layout": "S[(4, 8) : (8, 1)]"}, schema.LayoutDocument),
}


def server() -> Any:
    environment = {"PYTHONPATH": str(Path(tj.__file__).parents[1]), "TILEJIT_DEVICE": "sim"}
    return sdk.StdioServerParameters(
        command=sys.executable, args=["-m", "tilejit", "mcp", "--timeout", "100"], env=environment
    )


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_every_tool_is_called(mode: str) -> None:
    async def session() -> None:
        async with sdk.Client(server(), mode=mode) as client:
            listed = (await client.list_tools()).tools
            assert [tool.name for tool in listed] == list(TOOLS) == list(CALLS)
            for name, (arguments, kind) in CALLS.items():
                result = await client.call_tool(name, arguments)
                assert not result.is_error, result.content
                assert conforming(result.structured_content, kind) == []
            failed = await client.call_tool("layouts", {"layout": "3"})
            assert failed.is_error and "3 is an int" in failed.content[0].text

    anyio.run(session)


def test_a_tool_that_does_not_exist_is_an_error_of_the_protocol() -> None:
    async def session() -> None:
        async with sdk.Client(server()) as client:
            with pytest.raises(sdk.MCPError, match="there is no tool 'run'"):
                await client.call_tool("run", {})

    anyio.run(session)


def test_schemas_of_arguments_are_valid() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    for name, tool in TOOLS.items():
        validator = jsonschema.validators.validator_for(tool.schema)
        validator.check_schema(tool.schema)
        assert not list(validator(tool.schema).iter_errors(CALLS[name][0]))
