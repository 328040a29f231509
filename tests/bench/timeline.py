"""What a program does until its first results, and when: imports, calls of the driver, stages of compilations.

Run: `python tests/bench/timeline.py PROGRAM [--cached]`, a program of `start_programs.py`; `quickstart` and
`tilejit_host` need no GPU. It runs in a fresh process, with caches that are empty, or with --cached those that another
run has left; Python's own bytecode is always there. A line for each event, in the order in which they begin, indented
by what they are part of: milliseconds since the process was started, what it took without and with its parts, its
thread. Watching costs a few milliseconds.
"""

# what watches is imported before what is watched: as little as can be
from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from importlib.machinery import ExtensionFileLoader, SourceFileLoader
from typing import Any

#: milliseconds below which an event has no line
LEAST = {"import": 1.0, "driver": 0.05, "compile": 0.05}


class Event:
    """Something that took time, in seconds. inside: of its parts that it took."""

    __slots__ = ("began", "ended", "inside", "kind", "name", "parent", "thread")

    def __init__(self, kind: str, name: str, thread: str, parent: Event | None, began: float) -> None:
        self.kind, self.name, self.thread, self.parent, self.began = kind, name, thread, parent, began
        self.ended, self.inside = began, 0.0

    @property
    def own_ms(self) -> float:
        return 1e3 * (self.ended - self.began - self.inside)

    @property
    def is_listed(self) -> bool:
        """Whether it takes long enough."""
        return self.own_ms >= LEAST.get(self.kind, 0.0)

    @property
    def depth(self) -> int:
        """The number of listed events that it is a part of."""
        return 0 if self.parent is None else self.parent.depth + self.parent.is_listed


class Timeline:
    """The events so far. clock: seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.events: list[Event] = []
        self._threads = threading.local()

    def begin(self, kind: str, name: str) -> Event:
        parent: Event | None = getattr(self._threads, "open", None)
        event = Event(kind, name, threading.current_thread().name, parent, self.clock())
        self._threads.open = event
        self.events.append(event)
        return event

    def end(self, event: Event) -> None:
        event.ended = self.clock()
        self._threads.open = event.parent
        if event.parent is not None:
            event.parent.inside += event.ended - event.began

    def timed(
        self, kind: str, named: str | Callable[..., str], function: Callable[..., Any],
        after: Callable[..., None] | None = None,
    ) -> Callable[..., Any]:
        """The function, whose calls are events. named: or what gives a call's name. after: is called after each."""

        def run(*args: Any, **kwargs: Any) -> Any:
            event = self.begin(kind, named if isinstance(named, str) else named(*args))
            try:
                result = function(*args, **kwargs)
            finally:
                self.end(event)
            if after is not None:
                after(event, *args)
            return result

        run.__name__ = getattr(function, "__name__", "run")
        return run

    def lines(self, start: float) -> Iterator[str]:
        """The timeline; what is too short is counted at its end. start: when the process was started."""
        yield f"{'at ms':>8}{'own':>9}{'all':>9}  {'thread':20} event"
        for event in sorted(self.events, key=lambda event: event.began):
            if event.is_listed:
                at, took = 1e3 * (event.began - start), 1e3 * (event.ended - event.began)
                what = f"{'  ' * event.depth}{event.kind} {event.name}"
                yield f"{at:8.1f}{event.own_ms:9.1f}{took:9.1f}  {event.thread:20} {what}"
        for kind, least in LEAST.items():
            times = [event.own_ms for event in self.events if event.kind == kind and not event.is_listed]
            yield f"{'':8}{sum(times):9.1f}{'':9}  {kind}: {len(times)} of less than {least:g} ms each"


def watch(timeline: Timeline) -> None:
    """Makes events of imports, of calls of the driver, and of what compiles."""
    after = {
        "cuda.bindings.driver": watch_driver, "tilejit.pipeline": watch_passes,
        "tilejit.frontend.kernel": watch_frontend, "tilejit.runtime.disk": watch_disk,
    }

    def imported(event: Event, loader: Any, module: Any) -> None:
        if module.__name__ in after:
            after[module.__name__](timeline, module)

    for loader in (SourceFileLoader, ExtensionFileLoader):
        name: Callable[..., str] = lambda loader, module: module.__name__  # noqa: E731
        loader.exec_module = timeline.timed("import", name, loader.exec_module, imported)  # type: ignore[method-assign]
    loads: Callable[..., str] = lambda loader, spec: f"{spec.name}, its library"  # noqa: E731
    ExtensionFileLoader.create_module = timeline.timed(  # type: ignore[method-assign]
        "import", loads, ExtensionFileLoader.create_module
    )


def watch_driver(timeline: Timeline, driver: Any) -> None:
    for name in [name for name in dir(driver) if name.startswith("cu") and callable(getattr(driver, name))]:
        setattr(driver, name, timeline.timed("driver", name, getattr(driver, name)))


def watch_passes(timeline: Timeline, pipeline: Any) -> None:
    from tilejit.dataclass import replace

    def parts(event: Event, kernel: Any, results: Any) -> None:
        """Of code generation, as it says how long they took: the first at its begin, LLVM's at its end.

        In between LLVM is imported.
        """
        (first, ms), *others = results.generated.timings.items()
        ends = {first: event.began + ms / 1e3}
        last = event.ended
        for stage, ms in reversed(others):
            ends[stage] = last
            last -= ms / 1e3
        for stage, end in ends.items():
            part = Event("compile", stage, event.thread, event, end - results.generated.timings[stage] / 1e3)
            part.ended = end
            event.inside += end - part.began
            timeline.events.append(part)

    pipeline.PASSES = tuple(
        replace(step, run=timeline.timed("compile", step.name, step.run, parts if step.name == "codegen" else None))
        for step in pipeline.PASSES
    )
    pipeline.compile = timeline.timed("compile", lambda kernel, *_: f"tile IR of {kernel.name}", pipeline.compile)


def watch_frontend(timeline: Timeline, frontend: Any) -> None:
    frontend.build = timeline.timed("compile", "frontend", frontend.build)


def watch_disk(timeline: Timeline, disk: Any) -> None:
    for name in ("executable", "keep"):
        made = timeline.timed("compile", f"disk, {name}", getattr(disk.CacheEntry, name))
        setattr(disk.CacheEntry, name, made)


def inside(program: str, start: float) -> None:
    """Runs a program here, and prints its timeline."""
    timeline = Timeline()
    threading.current_thread().name = "main"
    python = Event("program", "that begins: Python", "main", None, start)
    python.ended = timeline.clock()
    timeline.events.append(python)
    watch(timeline)
    import start_programs as programs  # type: ignore[import-not-found]

    marked = programs.mark

    def mark(name: str) -> None:
        marked(name)
        timeline.end(timeline.begin("mark", name))

    programs.mark, programs.took = mark, timeline.timed("program", lambda name, act: name, programs.took)
    shown = sys.stdout
    # what the program prints isn't part of it
    sys.stdout = sys.stderr
    timeline.timed("program", program, programs.PROGRAMS[program])()
    print(*timeline.lines(start), sep="\n", file=shown)


def main() -> None:
    import argparse
    import subprocess
    import tempfile
    from pathlib import Path

    from bench_start import CACHES, TREE  # type: ignore[import-not-found]
    from start_programs import PROGRAMS

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", choices=tuple(PROGRAMS))
    parser.add_argument("--cached", action="store_true", help="with the caches that another run has left")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        variables = {**os.environ, "PYTHONPATH": str(TREE)}
        variables.pop("PYTHONDONTWRITEBYTECODE", None)
        variables.setdefault("PYTHONPYCACHEPREFIX", str(Path(tempfile.gettempdir(), "bench_start_bytecode")))
        # the first run leaves bytecode, and caches
        for caches in ("first", "first" if options.cached else "second"):
            variables |= {name: str(Path(folder, caches, name)) for name in CACHES}
            command = [sys.executable, __file__, options.program, "--inside", repr(time.monotonic())]
            ended = subprocess.run(command, cwd=TREE, env=variables, capture_output=True, text=True)
            if ended.returncode:
                raise SystemExit(ended.stderr)
        print(ended.stdout, end="")


if __name__ == "__main__":
    if sys.argv[2:3] == ["--inside"]:
        inside(sys.argv[1], float(sys.argv[3]))
    else:
        main()
