"""The timeline of a program's start has what happens, when it happens, in which thread, and what it is part of."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.bench.timeline import Timeline, watch_driver

pytestmark = pytest.mark.integration

SCRIPT = Path(__file__).with_name("timeline.py")


class Clock:
    """Seconds that pass only when something takes them."""

    now = 0.0

    def __call__(self) -> float:
        return self.now

    def take(self, seconds: float) -> None:
        self.now += seconds


def shown(timeline: Timeline) -> list[list[str]]:
    """The events' columns: begin, own and all, thread, and what it is with its indentation."""
    _, *lines = timeline.lines(0.0)
    return [[*line[:26].split(), line[28:48].strip(), line[49:]] for line in lines if line[:8].strip()]


def test_the_own_time_of_an_event_excludes_its_parts() -> None:
    clock = Clock()
    timeline = Timeline(clock)
    inner = timeline.timed("import", "inner", lambda: clock.take(0.004))
    outer = timeline.timed("program", "outer", lambda: (clock.take(0.001), inner(), clock.take(0.002), inner()))
    outer()
    thread = threading.current_thread().name
    assert shown(timeline) == [
        ["0.0", "3.0", "11.0", thread, "program outer"],
        ["1.0", "4.0", "4.0", thread, "  import inner"],
        ["7.0", "4.0", "4.0", thread, "  import inner"],
    ]


def test_short_events_are_counted_and_their_parts_take_their_places() -> None:
    clock = Clock()
    timeline = Timeline(clock)
    part = timeline.timed("import", "part", lambda: clock.take(0.005))
    short = timeline.timed("import", "short", lambda: (clock.take(0.0005), part()))
    timeline.timed("program", "all", short)()
    assert [event for *_, event in shown(timeline)] == ["program all", "  import part"]
    assert [line.split() for line in timeline.lines(0.0) if "less" in line][0][:3] == ["0.5", "import:", "1"]


def test_an_event_that_raises_ends_and_is_no_part_of_the_next() -> None:
    timeline = Timeline(Clock())
    try:
        timeline.timed("program", "fails", lambda: 1 // 0)()
    except ZeroDivisionError:
        timeline.timed("program", "next", int)()
    assert [event for *_, event in shown(timeline)] == ["program fails", "program next"]


def test_calls_of_the_driver_are_in_their_thread_and_return_the_same() -> None:
    clock = Clock()
    timeline = Timeline(clock)
    driver = SimpleNamespace(cuInit=lambda flags: (clock.take(0.1), flags), cuEnum=3, other=int)
    watch_driver(timeline, driver)
    results: list[object] = []
    beside = threading.Thread(target=lambda: results.append(driver.cuInit(7)), name="beside")
    beside.start()
    beside.join()
    assert results == [(None, 7)] and driver.cuInit.__name__ == "<lambda>" and driver.cuEnum == 3
    assert shown(timeline) == [["0.0", "100.0", "100.0", "beside", "driver cuInit"]]


def test_a_program_on_the_simulator_shows_imports_stages_and_marks_in_order() -> None:
    environment = {**os.environ, "TILEJIT_CACHE": "1", "TILEJIT_DEVICE": "sim"}
    for options, compiles in (([], True), (["--cached"], False)):
        command = [sys.executable, SCRIPT, "tilejit_host", *options]
        ended = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        assert ended.returncode == 0, ended.stderr
        lines = ended.stdout.splitlines()
        events = [(float(line[:8]), line[49:].strip()) for line in lines[1:] if line[:8].strip()]
        assert [at for at, _ in events] == sorted(at for at, _ in events)
        names = [name for _, name in events]
        stages = ["compile frontend", "compile lower", "compile codegen", "compile emit", "compile llvm_emit"]
        wanted = ["import numpy", "mark imported", "mark decorated", "program call"]
        wanted += stages if compiles else ["compile disk, executable"]
        wanted += ["mark result"]
        places = [names.index(name) for name in wanted]
        assert places == sorted(places)
        assert compiles or not set(stages) & set(names)
        # a part of the call
        assert all(line[49:].startswith(" " * 4) for line in lines if line.endswith(wanted[4]))
        assert any(line[49:].startswith("  program call") for line in lines)
