"""`breakpoint()` on the simulator: the values of names where threads stopped, and the prompt that shows them."""

from __future__ import annotations

import ast
import json
import os
import sys
import textwrap
from bdb import BdbQuit
from cmd import Cmd
from collections import namedtuple
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ..dtypes import DTYPES
from ..ir.text.layout_text import layout_from_text
from ..scopes import CTA, SCOPES
from ..simulator.machine.lanes import enumeration
from ..simulator.machine.printf import Stop
from ..source import Span
from .arrays import ArrayView

Array = np.ndarray[Any, Any]


def stopped(stop: Stop, spans: Sequence[Span], arguments: Mapping[str, object]) -> None:
    """Call `sys.breakpointhook` where threads stopped; Python's own hook is replaced by a prompt on their values.

    Any other hook, PYTHONBREAKPOINT included, is called in frames that have the names of the first thread as locals,
    at their lines. Without a terminal, the values of the first thread are printed instead.
    spans: by column of a `.loc`. raises: bdb.BdbQuit, like pdb, if the user quits; arrays stay partly written.
    """
    hit = Hit(stop, spans, {k: a.host for k, a in arguments.items() if isinstance(a, ArrayView) and a.host is not None})
    # pytest replaces `pdb.set_trace`, which Python's hook calls
    pdb = getattr(sys.modules.get("pdb"), "set_trace", None)
    is_default = sys.breakpointhook is sys.__breakpointhook__ and (pdb is None or pdb.__module__ == "pdb")
    if not is_default or os.environ.get("PYTHONBREAKPOINT"):
        hit.call_hook()
        return
    with np.printoptions(threshold=64, edgeitems=3):
        if sys.stdin is not None and sys.stdin.isatty():
            Prompt(hit).cmdloop()
        else:
            for frame in range(len(hit.frames)):
                hit.frame = frame
                print(hit.header(), *hit.lines(), sep="\n")


class _Text(str):
    """A description of a value that isn't shown."""

    __repr__ = str.__str__


class Hit:
    """The names and values of a group of threads at a breakpoint. row: the index in the group of the thread to show.

    frame: the index of the function to show, 0 for the innermost one.
    """

    def __init__(self, stop: Stop, spans: Sequence[Span], tensors: Mapping[str, Array]) -> None:
        self.stop, self.lanes, self.tensors = stop, stop.lanes, tensors
        column, self.frames, self.operands = json.loads(stop.text)
        self.row = self.frame = end = 0
        for operand in self.operands:
            is_address = operand.get("space", "local") != "local"
            operand["type"] = np.dtype(np.int64) if is_address else np.dtype(DTYPES[operand["dtype"]].numpy)
            size = operand["type"].itemsize
            operand["at"] = -(-end // size) * size
            end = operand["at"] + operand["count"] * size
        span = spans[column - 1] if column else None
        self.spans: list[Span | None] = []
        for _ in self.frames:
            self.spans.append(span)
            span = span and span.caller
        self.threads, self.ctas = (self.lanes.full[name][stop.positions] for name in ("thread", "chunk_cta"))

    def header(self) -> str:
        span, row = self.spans[self.frame], self.row
        others = f" and {len(self.threads) - 1} more" if len(self.threads) > 1 else ""
        who = f"{self.lanes.describe_position(int(self.stop.positions[row]))}{others}"
        return f"> {span} in {self.frames[self.frame][0]}, {who}" + (f"\n-> {span.text.strip()}" if span else "")

    def names(self, frame: int) -> dict[str, Any]:
        return {name: self.value(described) for name, described in self.frames[frame][1].items()}

    def lines(self) -> Iterator[str]:
        for name, value in self.names(self.frame).items():
            described = self.frames[self.frame][1][name]
            if described[0] == "memory" and self.operands[described[1]].get("space") == "global":
                strides = tuple(n // value.itemsize for n in value.strides)
                yield f"{name} = {value.dtype} tensor of shape {value.shape}, strides {strides}"
            else:
                yield f"{name} = {shown(value)}"

    def held(self, number: int) -> Array:
        """Return what each thread of the group passed as a value: an array of threads by elements."""
        value = self.operands[number]
        size = value["type"].itemsize * value["count"]
        return np.ascontiguousarray(self.stop.values[:, value["at"] : value["at"] + size]).view(value["type"])

    def value(self, described: Any) -> Any:
        match described:
            case ["constant", text]:
                return _constant(text)
            case ["scalar", number]:
                return self.held(number)[self.row, 0]
            case ["items", names, items]:
                values = map(self.value, items)
                return namedtuple("Items", names, rename=True)(*values) if names else tuple(values)
            case ["dict", keys, items]:
                return dict(zip(map(_constant, keys), map(self.value, items), strict=True))
            case ["memory", number, *_] if "space" not in self.operands[number]:
                return _Text("in flight: an asynchronous operation fills it")
            case ["memory", number, shape, part]:
                memory = self.memory(self.operands[number], number, shape).view()
                memory.flags.writeable = False
                return memory[tuple([self._index(*each) for each in part])] if part else memory
        return _Text(described[1])

    def _index(self, start: Any, extent: Any) -> Any:
        first, count = [int(x if isinstance(x, int) else self.value(x)) for x in (start, extent or 0)]
        return first if extent is None else slice(first, first + count)

    def memory(self, operand: Mapping[str, Any], number: int, shape: Sequence[int]) -> Array:
        """Return a tensor, shared memory of the thread's CTA, or the tile of the thread's instance of a scope."""
        if operand["space"] == "global":
            return self.tensors[operand["name"]]
        layout, slots = layout_from_text(operand["layout"]), tuple(operand["slots"] or operand["shape"] or (1,))
        table = {name: np.atleast_2d(places) for name, places in layout.map_all(slots).items()}
        zeros = np.zeros((1, layout.size()), np.int64)
        place = sum([each for name, each in table.items() if name not in CTA.steps], zeros)
        if operand["space"] == "shared":
            elements = self._shared(operand, int(self.held(number)[self.row, 0]), place[0])
        else:
            thread = sum([each * CTA.steps[name] for name, each in table.items() if name in CTA.steps], zeros)
            scope = SCOPES[layout.scope[1] if layout.scope else "thread"]
            elements = self._gathered(self.held(number), scope.threads(self.lanes.threads), thread, place)
        inside = tuple(slice(extent) for extent in operand["shape"])
        return elements.reshape(slots)[inside].reshape(shape)

    def _shared(self, operand: Mapping[str, Any], address: int, offsets: Array) -> Array:
        region, dtype = self.stop.memory.find("shared", address), np.dtype(DTYPES[operand["dtype"]].numpy)
        assert region is not None, "the buffer is placed in shared memory"
        first = int(self.ctas[self.row]) * region.stride + address - region.base
        return region.memory[first : first + (int(offsets.max()) + 1) * dtype.itemsize].view(dtype)[offsets]

    def _gathered(self, held: Array, size: int, thread: Array, register: Array) -> Array:
        """Return the elements of a tile; those that only threads elsewhere hold are masked."""
        rows = np.full(self.lanes.threads + size, -1)
        here = np.flatnonzero(self.ctas == self.ctas[self.row])
        rows[self.threads[here]] = here
        first = int(self.threads[self.row]) // size * size
        owners, registers = np.broadcast_arrays(rows[first + thread], register)
        replica = (owners >= 0).argmax(0), np.arange(owners.shape[1])
        missing = owners[replica] < 0
        elements = held[owners[replica], registers[replica]]
        return np.ma.masked_array(elements, missing) if missing.any() else elements

    def call_hook(self) -> None:
        inner: Any = None
        for frame, (function, _) in enumerate(self.frames):
            span, call = self.spans[frame], "exec(*__inner__)" if inner else "breakpoint()"
            line, file = (span.line, span.file) if span else (1, "<kernel>")
            code = compile("\n" * (line - 1) + call, file, "exec").replace(co_name=function)
            inner = code, {"np": np, "__inner__": inner}, self.names(frame)
        exec(*inner)


def _constant(text: str) -> Any:
    """Return the value with this `repr`, or the text if it isn't a literal or a type."""
    for read in (ast.literal_eval, float, DTYPES.__getitem__):
        try:
            return read(text)
        except (ValueError, SyntaxError, KeyError):
            continue
    return _Text(text)


def shown(value: Any) -> str:
    if isinstance(value, np.ndarray) and value.ndim:
        return f"{value.dtype} of shape {value.shape}\n{textwrap.indent(str(value), '    ')}"
    return str(value) if isinstance(value, (np.generic, np.ndarray)) else repr(value)


class Prompt(Cmd):
    """The prompt at a breakpoint. Any input that isn't a command is an expression of the names in scope and `np`."""

    prompt = "(tilejit) "

    def __init__(self, hit: Hit) -> None:
        super().__init__()
        self.hit, self.intro = hit, hit.header()

    def emptyline(self) -> bool:
        return False

    def default(self, line: str) -> None:
        self.do_p(line)

    def do_p(self, line: str) -> None:
        """p EXPRESSION: print a value, even if its first word is a command."""
        try:
            print(shown(eval(line, {"np": np, **self.hit.names(self.hit.frame)})))
        except Exception as error:
            # an expression may raise anything
            print(f"*** {type(error).__name__}: {error}")

    def do_names(self, line: str) -> None:
        """names: print the names in scope. Masked elements of a tile belong to threads that are elsewhere."""
        print(*self.hit.lines(), sep="\n")

    def do_up(self, line: str) -> None:
        """up: go to the caller of this function."""
        self._go(1)

    def do_down(self, line: str) -> None:
        """down: go back to the function that this one calls."""
        self._go(-1)

    def _go(self, step: int) -> None:
        if 0 <= self.hit.frame + step < len(self.hit.frames):
            self.hit.frame += step
            print(self.hit.header())
        else:
            print("*** no function calls this one" if step > 0 else "*** the threads are in this function")

    def do_thread(self, line: str) -> None:
        """thread NUMBER [X [Y [Z]]]: go to another thread of this CTA, or of CTA (X, Y, Z)."""
        hit, words = self.hit, line.split()
        if not words or not all(word.isdecimal() for word in words) or len(words) > 4:
            print("*** thread takes the number of a thread and the index of a CTA")
            return
        thread, *cta = map(int, words)
        wanted = tuple([*cta, 0, 0][:3]) if cta else self._cta(hit.row)
        row = next((k for k in np.flatnonzero(hit.threads == thread).tolist() if self._cta(k) == wanted), None)
        if row is None:
            print(f"*** thread {thread} of CTA {wanted} isn't here")
        else:
            hit.row = row
            print(hit.header())

    def _cta(self, row: int) -> tuple[int, int, int]:
        return self.hit.lanes.cta_coordinates(self.hit.lanes.first + int(self.hit.ctas[row]))

    def do_threads(self, line: str) -> None:
        """threads: list the threads that are here, and where the others are."""
        hit = self.hit
        here = hit.threads[hit.ctas == hit.ctas[hit.row]]
        others = f", and {len(hit.threads) - len(here)} of other CTAs" if len(here) < len(hit.threads) else ""
        print(f"here: {enumeration(here.tolist())} of CTA {self._cta(hit.row)}{others}", *hit.stop.others(), sep="\n")

    def do_continue(self, line: str) -> bool:
        """continue, c: go on to the next breakpoint."""
        return True

    def do_quit(self, line: str) -> bool:
        """quit, q: end the launch by bdb.BdbQuit."""
        span = self.hit.spans[0]
        raise BdbQuit(f"quit at the breakpoint in {span}" if span else "quit at a breakpoint")

    do_c, do_q, do_EOF = do_continue, do_quit, do_quit
