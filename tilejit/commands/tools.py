"""The tools of the MCP server: each is a command of `python -m tilejit`, whose JSON is the tool's result."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..dataclass import dataclass

#: JSON Schema of a tool's arguments
Schema = dict[str, Any]

#: the command line takes what begins with "-" for an option
_PLAIN = "^[^-]"
_TEXT: Schema = {"type": "string"}
_FILE: Schema = {"type": "string", "pattern": _PLAIN, "description": "path of a file to use instead of `source`"}
_GRID: Schema = {"type": "string", "description": "CTAs along each axis, such as 8 or 8,4"}
_PROGRAM: dict[str, Schema] = {
    "source": {"type": "string", "description": "text of a Python file with kernels of tilejit"}, "file": _FILE,
    "kernel": {
        "type": "string", "pattern": _PLAIN, "description": "name of a kernel; needed if there are several",
    },
    "specs": {
        "type": "array", "items": _TEXT,
        "description": "NAME=VALUE for each argument whose type or value isn't known: A=float32[1024, 64] for an "
        "array, n=int32 or n=7 for a scalar, N=64 for a compile-time value",
    },
    "target": {"type": "string", "description": "target architecture, such as sm_90a"},
    "threads": {"type": "integer", "minimum": 1, "description": "threads per CTA"},
}


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool. command: of the command line. properties, required: of its arguments."""

    description: str
    command: str
    properties: dict[str, Schema]
    required: tuple[str, ...] = ()

    @property
    def schema(self) -> Schema:
        return {
            "type": "object", "properties": self.properties, "required": list(self.required),
            "additionalProperties": False,
        }


TOOLS = {
    "compile": Tool(
        "Compile kernels of a tilejit program and return their PTX, or another form. The program is run.", "explain",
        {
            **_PROGRAM,
            "output": {
                "type": "string", "enum": ["ptx", "tile-ir", "lane-ir", "llvm"],
                "description": "the form (default: ptx)",
            },
        },
    ),
    "explain": Tool(
        "Explain kernels of a tilejit program: the variant and instructions of each tile operation, the reasons "
        "against other variants, layouts, inserted instructions. The program is run.", "explain",
        {
            **_PROGRAM,
            "run": {"type": "boolean", "description": "run the program as __main__ and explain what it launches"},
            "all": {"type": "boolean", "description": "also list variants for operands in other memory spaces"},
        },
    ),
    "check": Tool(
        "Run a kernel of CUDA C++ or PTX on a simulator and report races, accesses out of bounds, uninitialized reads, "
        "deadlocks and misuse of asynchronous copies. Without `kernel`, list the kernels and their parameters.",
        "check",
        {
            "source": {"type": "string", "description": "text of a CUDA C++ or PTX file"}, "file": _FILE,
            "language": {"type": "string", "enum": ["cuda", "ptx"], "description": "of `source` (default: cuda)"},
            "kernel": {"type": "string", "pattern": _PLAIN, "description": "name of the kernel"},
            "grid": _GRID, "block": {"type": "string", "description": "threads of a CTA along each axis, such as 256"},
            "arguments": {
                "type": "array", "items": _TEXT,
                "description": "each f32[1000] for random data, out:f32[1000] for an output, f32[256]=0 for one value, "
                "or i32:1000 for a scalar",
            },
            "shared": {"type": "integer", "minimum": 0, "description": "bytes of dynamic shared memory"},
            "arch": {"type": "string", "description": "architecture to compile CUDA C++ for (default: sm_90)"},
            "schedules": {"type": "integer", "minimum": 1, "description": "number of thread orders to try"},
            "checks": {"type": "string", "enum": ["on", "strict"]},
            "seed": {"type": "integer", "minimum": 0, "description": "of the random data"},
        },
    ),
    "count": Tool(
        "Run a kernel of a tilejit program on a simulator with random data, and count instructions, bank conflicts and "
        "sectors of global memory for each source line. Scalars need values in `specs`.", "count",
        {**_PROGRAM, "grid": _GRID}, ("grid",),
    ),
    "layouts": Tool(
        "List the place (thread, register, memory offset) of each element of a layout.", "layouts",
        {
            "layout": {
                "type": "string", "pattern": _PLAIN,
                "description": "Python expression with names of tilejit.layout, such as "
                "S[(8, 4, 2) : (4 @ laneid, 1 @ laneid, 1)]",
            },
            "shape": {"type": "string", "description": "extents of the tile, such as 8,8"},
        },
        ("layout",),
    ),
}

#: argument -> the option of the command line; {} is its value
_OPTIONS = {
    "specs": "--spec={}", "target": "--target={}", "threads": "--threads={}", "output": "--{}", "run": "--run",
    "all": "--all", "grid": "--grid={}", "block": "--block={}", "arguments": "--arg={}", "shared": "--shared={}",
    "arch": "--arch={}", "schedules": "--schedules={}", "checks": "--checks={}", "seed": "--seed={}",
    "shape": "--shape={}",
}


def fault_of(arguments: object, tool: Tool) -> str | None:
    """Return the first reason why the arguments of a call don't fit a tool, or None."""
    if not isinstance(arguments, dict):
        return "the arguments are not an object"
    for name, value in arguments.items():
        if name not in tool.properties:
            return f"there is no argument {name!r}; the arguments are: {', '.join(tool.properties)}"
        fault = _fault(value, tool.properties[name])
        if fault is not None:
            return f"{name} {fault}"
    missing = [name for name in tool.required if name not in arguments]
    if "source" in tool.properties and ("source" in arguments) == ("file" in arguments):
        return "give either source or file"
    return f"{missing[0]} is missing" if missing else None


def _fault(value: object, schema: Schema) -> str | None:
    """Return the reason why a value doesn't conform to those parts of JSON Schema that `TOOLS` uses, or None."""
    types = {"string": str, "integer": int, "boolean": bool, "array": list}
    kind = schema["type"]
    if not isinstance(value, types[kind]) or isinstance(value, bool) != (kind == "boolean"):
        return f"is not of type {kind}"
    if isinstance(value, list):
        faults = filter(None, (_fault(item, schema["items"]) for item in value))
        return next((f"has an element that {fault}" for fault in faults), None)
    if isinstance(value, str) and re.search("[\0\ud800-\udfff]", value):
        return "has a null character or half of a surrogate pair"
    if isinstance(value, int) and value < schema.get("minimum", value):
        return f"is less than {schema['minimum']}"
    if "enum" in schema and value not in schema["enum"]:
        return f"is not one of {', '.join(schema['enum'])}"
    if "pattern" in schema and re.search(schema["pattern"], str(value)) is None:
        return "is empty or begins with -"
    return None


def command_line(tool: Tool, arguments: Mapping[str, Any], folder: Path) -> list[str]:
    """Return the arguments of `python -m tilejit` for a call. `source`, if given, is written to a file in `folder`."""
    options = [f"--{arguments.get('output', 'ptx')}"] if "output" in tool.properties else []
    for name, value in arguments.items():
        if name not in _OPTIONS or name == "output" or value is False:
            continue
        options += [_OPTIONS[name].format(each) for each in (value if isinstance(value, list) else [value])]
    if tool.command == "layouts":
        places = [arguments["layout"]]
    else:
        file = arguments.get("file") or _written(arguments, tool, folder)
        kernel = [arguments["kernel"]] if "kernel" in arguments else []
        places = [file, *kernel] if tool.command == "check" else ["::".join([file, *kernel])]
    return [tool.command, *places, "--format=json", *options]


def _written(arguments: Mapping[str, Any], tool: Tool, folder: Path) -> str:
    name = "program.py"
    if tool.command == "check":
        name = "kernels.ptx" if arguments.get("language") == "ptx" else "kernels.cu"
    (folder / name).write_text(arguments["source"], encoding="utf-8")
    return name
