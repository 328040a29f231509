"""`python -m tilejit check`: runs a kernel of a PTX or CUDA C++ file on the simulator, or lists the kernels.

The exit status is 0 if the kernel is clean, 1 if it has errors, 2 if something was not checked, 3 for bad input.
"""

from __future__ import annotations

import argparse
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from ..errors import LaunchError

if TYPE_CHECKING:
    from .schema import Verdict

#: verdict -> exit status
STATUS: dict[Verdict, int] = {"clean": 0, "findings": 1, "incomplete": 2}
BAD_INPUT = 3

_EPILOG = """\
each --arg is one of:
  f32[1000], NAME:f32[10,20]  random data: standard normal floats, integers 0 to 99
  f32[256]=0                  one value
  out:f32[1000]               an output: reading an element before the kernel has written it is an error
  i32:1000, f32:1.5, u64:0xff a scalar
  bytes:0a00ff00              the bytes of a structure
  FILE.npy                    a copy of an array, in C order
types: i8 i16 i32 i64 u8 u16 u32 u64 f16 bf16 f32 f64 f8e4m3 f8e5m2 b8

exit status: 0 clean, 1 errors found, 2 something was not checked, 3 bad input
"""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command `check`."""
    checked = commands.add_parser(
        "check", help="run a kernel of a PTX or CUDA C++ file on the simulator with all checks, or list the kernels",
        epilog=_EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    checked.add_argument("file", metavar="FILE", help="NAME.ptx, or NAME.cu, which NVRTC compiles")
    checked.add_argument("kernel", metavar="KERNEL", nargs="?", help="its name, or in C++ such as 'reduce<float, 4>'")
    checked.add_argument("--grid", metavar="X[,Y[,Z]]", help="CTAs along each axis")
    checked.add_argument("--block", metavar="X[,Y[,Z]]", help="threads of a CTA along each axis")
    checked.add_argument(
        "--arg", dest="arguments", action="append", default=[], metavar="ARG", help="an argument; repeat it for each"
    )
    checked.add_argument("--shared", metavar="BYTES", default="0", help="size of dynamic shared memory")
    checked.add_argument("--arch", metavar="sm_90", help="architecture to compile CUDA C++ for (default: sm_90)")
    checked.add_argument(
        "--schedules", metavar="N", default="1", help="number of thread orders to try, on the same data (default: 1)"
    )
    checked.add_argument(
        "--checks", choices=("on", "strict"), default="on",
        help="strict: shuffles, votes, matches and warp reductions don't order memory accesses",
    )
    checked.add_argument(
        "--format", dest="style", choices=("text", "json", "sarif"), default="text",
        help="text, JSON as tilejit/sanitize/schema.py describes it, or SARIF 2.1.0 (default: text)",
    )
    checked.add_argument("--seed", metavar="N", default="0", help="of the random data (default: 0)")


def check(
    version: str, file: str, kernel: str | None, arch: str | None, style: str, **options: Any
) -> Generator[str, None, int]:
    """Yield the lines of a report, and return the exit status. The parameters are the options of the command.

    raises: TilejitError for bad input.
    """
    # these take 0.2 s to import, which the other commands needn't
    from . import checking, report, sarif

    if kernel is not None:
        data = report.document([checking.checked(file, kernel, arch, **options)], version)
        if style == "text":
            yield from report.as_text(data)
        else:
            yield report.as_json(data) if style == "json" else sarif.as_sarif(data)
        return STATUS[data["verdict"]]
    if options["grid"] or options["block"] or options["arguments"]:
        raise LaunchError("--grid, --block and --arg require a kernel", hint=f"write {file} KERNEL, or only {file}")
    if style == "sarif":
        raise LaunchError("a list of kernels is not SARIF", hint="name a kernel, or pass --format json")
    listed = checking.listing(file, arch, version)
    yield from checking.as_text(listed) if style == "text" else (report.as_json(listed),)
    return STATUS[listed["verdict"]]
