"""The tools of the MCP server: each is a command of `python -m tilejit`, whose JSON is the tool's result."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..dataclass import dataclass

#: a JSON Schema
Schema = dict[str, Any]


def _string(description: str, **more: Any) -> Schema:
    return {"type": "string", "description": description, **more}


def _integer(description: str, minimum: int) -> Schema:
    return {"type": "integer", "minimum": minimum, "description": description}


#: a pattern of strings that the command line doesn't mistake for options
_PLAIN = "^[^-]"

#: argument of a tool -> the argument of the command, in which {} is the value or each element of a list, and the schema
#: of the value; None for those that determine the file and its kernel
_ARGUMENTS: dict[str, tuple[str | None, Schema]] = {
    "source": (None, _string("text of the program, or of the CUDA C++ or PTX file")),
    "file": (None, _string("path of a file to use instead of `source`", pattern=_PLAIN)),
    "language": (None, _string("of `source` (default: cuda)", enum=["cuda", "ptx"])),
    "kernel": (None, _string("name of a kernel, if the file has several", pattern=_PLAIN)),
    "layout": ("{}", _string(
        "Python expression with names of tilejit.layout, such as S[(8, 4, 2) : (4 @ laneid, 1 @ laneid, 1)]",
        pattern=_PLAIN,
    )),
    "specs": ("--spec={}", {
        "type": "array", "items": {"type": "string"},
        "description": "NAME=VALUE for each argument whose type or value isn't known: A=float32[1024, 64] for an "
        "array, n=int32 or n=7 for a scalar, N=64 for a compile-time value",
    }),
    "target": ("--target={}", _string("target architecture, such as sm_90a")),
    "threads": ("--threads={}", _integer("threads per CTA", 1)),
    "output": ("--{}", _string("the form (default: ptx)", enum=["ptx", "tile-ir", "lane-ir", "llvm"])),
    "run": ("--run", {"type": "boolean", "description": "run the program as __main__ and explain what it launches"}),
    "all": ("--all", {"type": "boolean", "description": "also list variants for operands in other memory spaces"}),
    "grid": ("--grid={}", _string("CTAs along each axis, such as 8 or 8,4")),
    "block": ("--block={}", _string("threads of a CTA along each axis, such as 256")),
    "arguments": ("--arg={}", {
        "type": "array", "items": {"type": "string"},
        "description": "each f32[1000] for random data, out:f32[1000] for an output, f32[256]=0 for one value, or "
        "i32:1000 for a scalar",
    }),
    "shared": ("--shared={}", _integer("bytes of dynamic shared memory", 0)),
    "arch": ("--arch={}", _string("architecture to compile CUDA C++ for (default: sm_90)")),
    "schedules": ("--schedules={}", _integer("number of thread orders to try", 1)),
    "checks": ("--checks={}", _string(
        "strict: shuffles, votes, matches and warp reductions don't order memory accesses", enum=["on", "strict"],
    )),
    "seed": ("--seed={}", _integer("of the random data", 0)),
    "shape": ("--shape={}", _string("extents of the tile, such as 8,8")),
}
_PROGRAM = ("source", "file", "kernel", "specs", "target", "threads")


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool. command: of the command line. arguments, required: names of its arguments."""

    description: str
    command: str
    arguments: tuple[str, ...]
    required: tuple[str, ...] = ()

    @property
    def schema(self) -> Schema:
        """The schema of its arguments."""
        properties = {name: _ARGUMENTS[name][1] for name in self.arguments}
        return {
            "type": "object", "properties": properties, "required": list(self.required), "additionalProperties": False,
        }


TOOLS = {
    "compile": Tool(
        "Compile kernels of a tilejit program and return their PTX, or another form. The program is run.", "explain",
        (*_PROGRAM, "output"),
    ),
    "explain": Tool(
        "Explain kernels of a tilejit program: the variant and instructions of each tile operation, the reasons "
        "against other variants, layouts, inserted instructions. The program is run.", "explain",
        (*_PROGRAM, "run", "all"),
    ),
    "check": Tool(
        "Run a kernel of CUDA C++ or PTX on a simulator and report races, accesses out of bounds, uninitialized reads, "
        "deadlocks and misuse of asynchronous copies. Without `kernel`, list the kernels and their parameters.",
        "check",
        (
            "source", "file", "language", "kernel", "grid", "block", "arguments", "shared", "arch", "schedules",
            "checks", "seed",
        ),
    ),
    "count": Tool(
        "Run a kernel of a tilejit program on a simulator with random data, and count instructions, bank conflicts and "
        "sectors of global memory for each source line. Scalars need values in `specs`.", "count",
        (*_PROGRAM, "grid"), ("grid",),
    ),
    "layouts": Tool(
        "List the place (thread, register, memory offset) of each element of a layout.", "layouts",
        ("layout", "shape"), ("layout",),
    ),
}


def fault_of(arguments: object, tool: Tool) -> str | None:
    """Return the first reason why the arguments of a call don't fit a tool, or None."""
    if not isinstance(arguments, dict):
        return "the arguments are not an object"
    for name, value in arguments.items():
        if name not in tool.arguments:
            return f"there is no argument {name!r}; the arguments are: {', '.join(tool.arguments)}"
        fault = _fault(value, _ARGUMENTS[name][1])
        if fault is not None:
            return f"{name} {fault}"
    if "source" in tool.arguments and ("source" in arguments) == ("file" in arguments):
        return "give either source or file"
    return next((f"{name} is missing" for name in tool.required if name not in arguments), None)


def _fault(value: object, schema: Schema) -> str | None:
    """Return the reason why a value doesn't conform to those parts of JSON Schema that `_ARGUMENTS` uses, or None."""
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
    if "output" in tool.arguments:
        arguments = {"output": "ptx", **arguments}
    places = [arguments[name] for name in ("file", "kernel") if name in arguments]
    if "source" in arguments:
        language = arguments.get("language", "cuda") if tool.command == "check" else "python"
        name = {"python": "program.py", "cuda": "kernels.cu", "ptx": "kernels.ptx"}[language]
        (folder / name).write_text(arguments["source"], encoding="utf-8")
        places.insert(0, name)
    if tool.command != "check":
        places = ["::".join(places)] if places else []
    options = [
        template.format(each)
        for template, value in ((_ARGUMENTS[name][0], value) for name, value in arguments.items())
        if template is not None and value is not False
        for each in (value if isinstance(value, list) else [value])
    ]
    return [tool.command, "--format=json", *places, *options]
