"""The command line: `python -m tilejit doctor | explain FILE[::KERNEL] | compile FILE[::KERNEL] -o OUT | …`."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial

from . import __version__
from .commands import mcp
from .commands.counting import count
from .commands.explaining import compile_ahead, explain
from .commands.layouts import layouts
from .commands.reports import READ_ONLY, doctor, simulator
from .environment import VARIABLES
from .errors import TilejitError
from .ops.elementwise import ELEMENTWISE
from .runtime import store
from .runtime.store import EntryKind
from .sanitize import command as check_command
from .sanitize import running

#: option -> the attribute of `Compiled` that it prints instead of the explanation
_TEXTS = {"--ptx": "ptx", "--tile-ir": "tile_ir", "--lane-ir": "lane_ir", "--llvm": "llvm_ir"}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status. raises: SystemExit for `--help`, `--version` and invalid options."""
    for stream in (sys.stdout, sys.stderr):
        # the output may contain characters that the terminal's encoding lacks
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    arguments = list(sys.argv[1:] if argv is None else argv)
    # `check` reports results with 1 and 2, the statuses of errors and invalid options elsewhere
    failed = check_command.BAD_INPUT if arguments[:1] == ["check"] else 1
    try:
        options = vars(_parser().parse_args(arguments))
    except SystemExit as ended:
        raise SystemExit(failed if ended.code and failed != 1 else ended.code) from None
    status = 0
    try:
        status = _printed(_COMMANDS[options.pop("command")](**options))
        print(end="", flush=True)
    except TilejitError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return failed
    except KeyboardInterrupt:
        # 128 + SIGINT, as a shell reports it
        return 130
    except BrokenPipeError:
        _discard_output()
    except OSError as error:
        _discard_output()
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return failed
    return status


def _printed(lines: Iterator[str]) -> int:
    """Print lines, and return the exit status: the value that a generator returns, if any, else 0."""
    while True:
        try:
            print(next(lines))
        except StopIteration as ended:
            return int(ended.value or 0)
        except BrokenPipeError:
            # the reader closed the pipe, as `head` does; the exit status follows from all lines
            _discard_output()


def _discard_output() -> None:
    """Replace a standard output that fails, because the interpreter flushes it at exit, which would fail again."""
    # sys.stdout is None if the process was started without a standard output, as by `>&-`
    with suppress(AttributeError, OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _parser() -> argparse.ArgumentParser:
    listed = "".join(f"\n  {v.name:<22} {v.values}: {v.meaning}; else {v.unset}" for v in VARIABLES)
    parser = argparse.ArgumentParser(
        prog="python -m tilejit", description=sys.modules["tilejit"].__doc__,
        epilog=f"environment variables:{listed}", formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"tilejit {__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    reported = commands.add_parser("doctor", help="report devices, driver, versions, and which device is used and why")
    _add_format(reported)
    explained = commands.add_parser("explain", help="show the variant of each tile operation and why others declined")
    explained.add_argument("place", metavar="FILE[::KERNEL]")
    _add_signature(explained)
    explained.add_argument("--run", action="store_true", help="run FILE as a program and explain what it launches")
    explained.add_argument(
        "--all", dest="shows_all", action="store_true",
        help="also list the variants for operands in other memory spaces",
    )
    texts = explained.add_mutually_exclusive_group()
    for option, attribute in _TEXTS.items():
        texts.add_argument(
            option, dest="text", action="store_const", const=attribute, help="print this instead of the explanation"
        )
    _add_format(explained)
    compiled = commands.add_parser("compile", help="compile a kernel ahead of time, for tilejit.load_compiled or C")
    compiled.add_argument("place", metavar="FILE[::KERNEL]")
    _add_signature(compiled)
    compiled.add_argument(
        "-o", "--output", dest="outputs", action="append", required=True, metavar="OUT",
        help="k.ptx, k.cubin or k.h; any other name writes OUT.tile, OUT.lane, OUT.ll and OUT.ptx; may be repeated",
    )
    counted = commands.add_parser(
        "count", help="run a kernel on the simulator, on random arrays, and count instructions and memory traffic; "
        "each scalar needs a value",
    )
    counted.add_argument("place", metavar="FILE[::KERNEL]")
    counted.add_argument("--grid", metavar="X[,Y[,Z]]", required=True, help="CTAs along each axis")
    _add_signature(counted)
    _add_format(counted)
    placed = commands.add_parser("layouts", help="list the place of each element of a layout")
    placed.add_argument(
        "expression", metavar="LAYOUT", help="a Python expression with names of tilejit.layout: 'S[(4, 8) : (8, 1)]'"
    )
    placed.add_argument("--shape", metavar="M,N", help="extents of the tile (default: those of the layout)")
    _add_format(placed)
    commands.add_parser("operations", help="list the elementwise operations: operands, meaning, accuracy")
    known = commands.add_parser(
        "simulator", help="list the PTX instructions that the simulator knows, and how exact each is"
    )
    _add_format(known)
    cached = commands.add_parser("cache", help="report on, clear or verify the cache of compiled kernels on disk")
    cached.add_argument("action", nargs="?", choices=tuple(_CACHE_ACTIONS), default="info")
    check_command.add_parser(commands)
    running.add_parser(commands)
    mcp.add_parser(commands)
    return parser


def _add_format(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--format", dest="style", choices=("text", "json"), default="text",
        help="text, or JSON as tilejit/commands/schema.py describes it (default: text)",
    )


def _add_signature(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--spec", dest="specs", action="append", default=[], metavar="NAME=VALUE",
        help="the type or value of an argument: A=float32[1024, 64] for an array, A=float32[64, 1024]:(1, 64) for one "
        "with strides in elements, n=int32 for a scalar, n=7 for a scalar that selects a tuned configuration, N=64 "
        "for a compile-time or tuned value; parameters whose type or value follows from their annotation or default "
        "may be omitted",
    )
    command.add_argument("--target", help="target architecture, such as sm_100a")
    command.add_argument("--threads", type=int, help="threads per CTA")


def operations() -> Iterator[str]:
    """Yield a line for each elementwise operation: its operands, its meaning and, if there is one, its error bound."""
    for name, op in ELEMENTWISE.items():
        error = ""
        if op.accuracy is not None:
            error = "; within {:g} ulp in float32, {:g} in float64".format(*op.accuracy.ulp)
        elif op.approximation is not None:
            error = f"; within {op.approximation}"
        call = f"{name}({', '.join(op.operands)})"
        yield f"{call:<26} {op.meaning}{error}"


def cache_info() -> Iterator[str]:
    """Yield a report on the cache on disk: its location, its size limit and its contents, or why it is off."""
    kept, problem = asked = store.asked()
    if kept is None or asked.unused is not None:
        yield f"The cache on disk is off: {asked.unused}."
        yield "Compiled kernels are kept in the memory of the process that compiled them."
    else:
        meanings = {kind.label: kind.value for kind in EntryKind}
        sizes: dict[str, list[int]] = {}
        for entry in kept.entries():
            sizes.setdefault(entry.kind, []).append(entry.size_bytes)
        total = sum(map(sum, sizes.values()))
        if problem is not None:
            yield f"{problem}."
        end = "." if kept.is_writable else f"{READ_ONLY}."
        yield f"Compiled kernels are kept in {kept.folder}: {total:,} of at most {kept.limit_bytes:,} bytes{end}"
        for kind, each in sorted(sizes.items()):
            meaning = f": {meanings[kind]}" if kind in meanings else ""
            yield f"{kind:<10} {_entries(len(each)):>13}, {sum(each):,} bytes{meaning}"
    yield "The CUDA driver has its own cache of code compiled from PTX; CUDA_CACHE_DISABLE=1 turns it off."


def cache_clear() -> Iterator[str]:
    """Remove this user's entries from the folder of the cache on disk, if the settings select one; yield a report."""
    kept, problem = store.asked()
    if kept is None:
        yield f"The cache on disk is off, so nothing was removed: {problem}."
        return
    count = kept.clear()
    yield f"{_entries(count)} {'was' if count == 1 else 'were'} removed from {kept.folder}."


def cache_verify() -> Iterator[str]:
    """Remove this user's unusable entries from the cache on disk, if possible, and yield a report."""
    kept, _ = asked = store.asked()
    if kept is None or asked.unused is not None:
        yield f"The cache on disk is off, so nothing was verified: {asked.unused}."
        return
    unsound = kept.verify()
    yield from (f"{'removed' if each.is_removed else 'left'} {each.name}: {each.problem}" for each in unsound)
    count = sum(1 for _ in kept.entries()) - sum(not each.is_removed for each in unsound)
    yield f"{_entries(count)} {'is' if count == 1 else 'are'} sound in {kept.folder}."


def _entries(count: int) -> str:
    return f"{count:,} {'entry' if count == 1 else 'entries'}"


_CACHE_ACTIONS = {"info": cache_info, "clear": cache_clear, "verify": cache_verify}


#: command -> the function that returns the lines of its output, called with the command's options
_COMMANDS: dict[str, Callable[..., Iterator[str]]] = {
    "doctor": doctor, "explain": explain, "compile": compile_ahead, "count": count, "layouts": layouts,
    "operations": operations, "simulator": simulator, "cache": lambda action: _CACHE_ACTIONS[action](),
    "run": partial(running.run, version=__version__),
    "check": partial(check_command.check, version=__version__), "mcp": mcp.serve,
}


if __name__ == "__main__":
    sys.exit(main())
