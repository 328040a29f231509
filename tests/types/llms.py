"""The generator of llms.txt: the project on one page for language models, with links to its documents.

source: https://llmstxt.org, "Format"
"""

from __future__ import annotations

import argparse
import inspect
import re
import textwrap
from collections.abc import Iterator

import tilejit as tj
from tests.support.notebooks import GUIDE, ROOT, notebooks
from tests.types.reference import HOST, MODULES, _order
from tilejit.__main__ import _parser
from tilejit.commands.tools import TOOLS
from tilejit.frontend.language import Intrinsic
from tilejit.frontend.words import Namespace, intrinsics
from tilejit.layout.axes import Axis
from tilejit.ops.elementwise import ELEMENTWISE
from tilejit.ops.reduce import REDUCTIONS
from tilejit.ops.tile import CALLS
from tilejit.scopes import SCOPES

LLMS = GUIDE / "llms.txt"

#: document -> its contents
DOCUMENTS = {
    "reference.md": "every name with its parameters and an example, errors, environment variables, commands",
    "README.md": "list of the notebooks",
    "../../README.md": "introduction, installation, differences from Triton and Numba",
    "../../tilejit/layout/README.md": "layouts: notation and operations",
    "../../tilejit/simulator/README.md": "the simulator: what it checks and what it can miss",
    "../../tilejit/commands/schema.py": "the JSON of `--format json` and of the MCP server",
    "../../tilejit/sanitize/schema.py": "the JSON of `check`",
    "../../CONTRIBUTING.md": "set-up, map of the code, tests, style",
}


def llms() -> str:
    sections = (_start, _documents, _host, _words, _operations, _errors, _commands)
    return "\n".join(part for section in sections for part in section()).rstrip("\n") + "\n"


def _start() -> Iterator[str]:
    yield f"# tilejit\n\n> {first_sentence(tj.__doc__)}\n"
    yield (
        "Kernels are Python functions with `@tj.kernel`, launched by `kernel[grid](arrays)` on a GPU or, without one,\n"
        "on a simulator that reports races and other errors. Programs begin with `import tilejit as tj`.\n"
    )


def _documents() -> Iterator[str]:
    yield "## Documents\n"
    for path, contents in DOCUMENTS.items():
        yield f"- [{(GUIDE / path).resolve().relative_to(ROOT)}]({path}): {contents}"
    yield from (f"- [{path.name}]({path.name}): {_title(path.read_text(encoding='utf-8'))}" for path in notebooks())
    yield ""


def _title(notebook: str) -> str:
    found = re.search(r'"# ([^"\\]+)', notebook)
    assert found is not None, "a notebook begins with a heading"
    return found[1]


def _host() -> Iterator[str]:
    yield "## Names of tj\n"
    for heading, modules in HOST.items():
        names = sorted((name for module in modules for name in tj._PUBLIC[module]), key=_order)
        if heading == "Element types":
            yield f"- types: {', '.join(name for name in names if name != 'DType')}"
        axes = [name for name in names if isinstance(getattr(tj, name), Axis)]
        if axes:
            yield f"- axes of layouts: {', '.join(axes)}"
        for name in names:
            value = getattr(tj, name)
            if isinstance(value, float):
                yield f"- `tj.{name}`: the float"
            elif name not in axes and name not in tj._TYPES:
                yield f"- `tj.{name}`: {first_sentence(inspect.getdoc(value))}"
    yield from (f"- `{name}`: {contents}" for name, contents in MODULES.items())
    yield ""


def _words() -> Iterator[str]:
    yield "## Words of kernels\n"
    for name, word in intrinsics().items():
        if isinstance(word, Intrinsic) and name not in ELEMENTWISE and name not in REDUCTIONS:
            yield f"- `tj.{name}{word.__signature__}`: {first_sentence(word.meaning)}"
    fast = [name for name in ELEMENTWISE if name.startswith("fast_")]
    lists = {
        "functions of each element": [name for name in ELEMENTWISE if name not in fast],
        "approximate functions, under two names": [*(name.replace("_", ".", 1) for name in fast), *fast],
        "reductions": list(REDUCTIONS),
    }
    for title, names in lists.items():
        yield textwrap.fill(f"- {title}: {', '.join(names)}", 120, subsequent_indent="  ")
    for space in (word for word in intrinsics().values() if isinstance(word, Namespace) and word.name != "fast"):
        for name in dir(space):
            member = getattr(space, name)
            meaning = member.meaning if isinstance(member, Intrinsic) else inspect.getdoc(member)
            yield f"- `tj.{space.name}.{name}`: {first_sentence(meaning)}"
    yield ""


def _operations() -> Iterator[str]:
    yield f"## Operations on a scope\n\nScopes: {', '.join(f'`tj.{scope}`' for scope in SCOPES)}.\n"
    for name, call in CALLS.items():
        if name not in ELEMENTWISE and name not in REDUCTIONS:
            word = getattr(getattr(tj, str(call.scopes[-1])), name)
            yield f"- `tj.{word.name}{word.__signature__}`: {first_sentence(word.meaning)}"
    yield ""


def _errors() -> Iterator[str]:
    yield "## Errors and warnings\n"
    yield from (f"- `tj.{name}`: {first_sentence(getattr(tj, name).__doc__)}" for name in tj._PUBLIC["errors"])
    yield ""


def _commands() -> Iterator[str]:
    yield "## Commands: python -m tilejit\n"
    (commands,) = (a for a in _parser()._actions if isinstance(a, argparse._SubParsersAction))
    yield from (f"- `{action.dest}`: {action.help}" for action in commands._choices_actions)
    yield "\nTools of `python -m tilejit mcp`:\n"
    yield from (f"- `{name}`: {first_sentence(tool.description)}" for name, tool in TOOLS.items())


def first_sentence(doc: str | None) -> str:
    """Return the first sentence, or the first line if it doesn't end with a period."""
    paragraph = " ".join((doc or "").strip().split("\n\n")[0].split())
    assert paragraph, "a public name has a docstring"
    return re.split(r"(?<=\w[.)])\s(?=[A-Z])|\. (?=[A-Z])", paragraph)[0].removesuffix(".")
