"""Small programs of a few agents, the outcomes of all their interleavings, and their PTX.

An agent is a warp; its words are (name, variable, value):

    set     store a value                     add     add a value, without using the result
    take    add a value; output the old one   look    output the value
    until   wait for exactly a value          least   wait for at least a value
    swap    compare with 0, exchange for a value, output the old one
    arrive  arrive at the mbarrier            wait    wait for a phase of the mbarrier, by its parity
    sync    wait for all agents               ask     output 1 if a phase of a parity is complete, else 0

`outcomes` is independent of the simulator: it executes one word at a time, in all orders. `in_all_orders` asks the
simulator.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import pytest

from tests.simulator.ring_kernels import launch, module
from tilejit.errors import SimulationError
from tilejit.simulator.checks.findings import rule_of
from tilejit.simulator.checks.report import Report
from tilejit.simulator.orders import explorer
from tilejit.simulator.run_grid import GridRun

Word = tuple[str, int, int]
OUTPUT = ("take", "look", "swap", "ask")
VARIABLES = 3
#: (values of the variables, outputs of each agent) or "deadlock"
Outcome = tuple[tuple[int, ...], tuple[tuple[int, ...], ...]] | str


class Program(NamedTuple):
    """arrivals: that a phase of the mbarrier expects. strong: the suffixes of loads, stores and atomics."""

    agents: tuple[tuple[Word, ...], ...]
    arrivals: int
    strong: tuple[str, str, str] = ("acquire", "release", "acq_rel")


class State(NamedTuple):
    at: tuple[int, ...]
    variables: tuple[int, ...]
    outputs: tuple[tuple[int, ...], ...]
    #: the mbarrier's phase and the arrivals in it
    phase: int
    arrived: int


def step(program: Program, state: State, agent: int) -> State | None:
    """Return the state after an agent's next word; None if the agent is at its end or must wait."""
    if state.at[agent] == len(program.agents[agent]):
        return None
    name, variable, value = program.agents[agent][state.at[agent]]
    old = state.variables[variable]
    new, output, phase, arrived = old, None, state.phase, state.arrived
    if name == "sync":
        if any(at == len(words) or words[at][0] != "sync" for at, words in zip(state.at, program.agents, strict=True)):
            return None
        return state._replace(at=tuple(at + 1 for at in state.at))
    if name == "until" and old != value or name == "least" and old < value:
        return None
    if name == "wait" and (phase ^ value) & 1 == 0:
        return None
    if name == "arrive":
        arrived += 1
        if arrived == program.arrivals:
            phase, arrived = phase + 1, 0
    if name in ("set", "add", "take", "swap"):
        new = {"set": value, "add": old + value, "take": old + value, "swap": old or value}[name]
    if name in ("take", "look", "swap"):
        output = old
    if name == "ask":
        output = (phase ^ value) & 1
    at, variables, outputs = list(state.at), list(state.variables), list(state.outputs)
    at[agent] += 1
    variables[variable] = new
    outputs[agent] += () if output is None else (output,)
    return State(tuple(at), tuple(variables), tuple(outputs), phase, arrived)


def following(program: Program, state: State) -> list[State]:
    return [x for x in (step(program, state, agent) for agent in range(len(program.agents))) if x is not None]


def start(program: Program) -> State:
    count = len(program.agents)
    return State((0,) * count, (0,) * VARIABLES, ((),) * count, 0, 0)


def outcomes(program: Program, most: int = 100_000) -> set[Outcome] | None:
    """Return the outcomes of all interleavings; None if they have more than `most` states."""
    result: set[Outcome] = set()
    seen, work = {start(program)}, [start(program)]
    while work:
        state = work.pop()
        after = set(following(program, state))
        if not after:
            done = all(at == len(words) for at, words in zip(state.at, program.agents, strict=True))
            result.add((state.variables, state.outputs) if done else "deadlock")
        work.extend(after - seen)
        seen |= after
        if len(seen) > most:
            return None
    return result


def interleavings(program: Program, most: int) -> int:
    """Return the number of interleavings, or `most` if there are more. All agents synchronize in one step."""
    work, count = [start(program)], 0
    while work and count < most:
        after = set(following(program, work.pop()))
        count += not after
        work.extend(after)
    return count


START = """
mov.u32 %r1, %tid.x; mov.u32 %r2, sm; shr.u32 %r4, %r1, 5; and.b32 %r5, %r1, 31; setp.eq.u32 %p8, %r5, 0;
ld.param.u64 %x1, [flags]; ld.param.u64 %x2, [out]; mul.wide.u32 %x3, %r4, 64; add.u64 %x2, %x2, %x3;
setp.ne.u32 %p1, %r1, 0; @%p1 bra READY;
mbarrier.init.shared::cta.b64 [%r2], {arrivals}; fence.mbarrier_init.release.cluster;
READY: bar.sync 0;
"""
LOOP = "{name}: {load} %r10, {at}; setp.{relation}.u32 %p9, %r10, {value}; @%p9 bra {name};\n"
WAIT = "{name}: mbarrier.try_wait.parity.shared::cta.b64 %p9, [%r2], {value}; @!%p9 bra {name};\n"


def ptx(program: Program) -> str:
    load, store, update = (f"{x}.gpu.global" for x in program.strong)
    text = START.format(arrivals=program.arrivals)
    text += "".join(f"setp.eq.u32 %p2, %r4, {i}; @%p2 bra A{i};\n" for i in range(len(program.agents)))
    for i, words in enumerate(program.agents):
        text += f"A{i}:\n"
        outputs = 0
        for k, (name, variable, value) in enumerate(words):
            at, label = f"[%x1+{4 * variable}]", f"L{i}_{k}"
            text += {
                "set": f"@%p8 st.{store}.u32 {at}, {value};",
                "add": f"@%p8 red.{store}.add.u32 {at}, {value};",
                "take": f"@%p8 atom.{update}.add.u32 %r11, {at}, {value};",
                "look": f"@%p8 ld.{load}.u32 %r11, {at};",
                "swap": f"@%p8 atom.{update}.cas.b32 %r11, {at}, 0, {value};",
                "until": LOOP.format(name=label, load=f"ld.{load}.u32", at=at, relation="ne", value=value),
                "least": LOOP.format(name=label, load=f"ld.{load}.u32", at=at, relation="lt", value=value),
                "arrive": "@%p8 mbarrier.arrive.shared::cta.b64 _, [%r2];",
                "wait": WAIT.format(name=label, value=value & 1),
                "ask": f"mbarrier.test_wait.parity.shared::cta.b64 %p9, [%r2], {value & 1}; selp.u32 %r11, 1, 0, %p9;",
                "sync": "bar.sync 0;",
            }[name] + "\n"
            if name in OUTPUT:
                text += f"@%p8 st.global.u32 [%x2+{4 * outputs}], %r11;\n"
                outputs += 1
            text += "bar.warp.sync -1;\n"
        text += "bra END;\n"
    return module(text + "END: ret;", ".param .u64 flags, .param .u64 out")


@contextmanager
def every_outcome(program: Program, out: np.ndarray, variables: np.ndarray) -> Iterator[set[Outcome]]:
    """Let the search go on after findings; list the outcomes of the orders."""
    found: set[Outcome] = set()
    counts = [sum(name in OUTPUT for name, _, _ in words) for words in program.agents]

    class Collecting(explorer.Explorer):
        stops, collects = False, True

        def once(self, collect: bool = False) -> tuple[SimulationError | None, GridRun]:
            error, launch = super().once(collect)
            outputs = tuple(tuple(row[:n]) for row, n in zip(out.tolist(), counts, strict=True))
            found.add(rule_of(error) if error is not None else (tuple(variables.tolist()), outputs))
            return error, launch

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(explorer, "Explorer", Collecting)
        yield found


def in_all_orders(program: Program, limit: int = 10_000) -> tuple[Report, set[Outcome]]:
    """Return the report of a program in all orders, and the outcomes of these orders."""
    variables, out = np.zeros(VARIABLES, "u4"), np.zeros((len(program.agents), 16), "u4")
    with every_outcome(program, out, variables) as found:
        report = launch(
            ptx(program), variables, out, block=32 * len(program.agents), on_finding="collect", orders="all",
            limit=limit)
    return report, found


NAMES = ("set", "add", "take", "look", "until", "least", "swap", "arrive", "wait", "ask")


def drawn(seed: int, most: int = 2000) -> tuple[Program, set[Outcome]]:
    """Draw a program of at most `most` interleavings, of which one ends; return it with its outcomes."""
    random = np.random.default_rng(seed)
    while True:
        program = draw(random)
        if interleavings(program, most + 1) <= most:
            ends = outcomes(program)
            if ends is not None and ends != {"deadlock"}:
                return program, ends


#: the words of an agent, by style: anything; without outputs; those that write, and those that wait and look
STYLES: dict[str, tuple[str, ...]] = {
    "any": NAMES, "silent": tuple(x for x in NAMES if x not in OUTPUT), "writes": ("set", "set", "add"),
    "waits": ("until", "least", "look"),
}


def draw(random: np.random.Generator) -> Program:
    """Draw a program of two to four agents, with one to five words each, and perhaps one barrier."""
    one, others = [("any", "any"), ("silent", "silent"), ("writes", "waits"), ("any", "waits")][random.integers(4)]
    variables = int(random.integers(1, VARIABLES + 1))
    syncs = int(random.integers(3) == 0)
    agents = []
    for i in range(int(random.integers(2, 5))):
        names = [str(random.choice(STYLES[others if i else one])) for _ in range(int(random.integers(1, 6)))]
        words = [(name, int(random.integers(variables)), int(random.integers(1, 3))) for name in names]
        waits = 0
        for k, (name, _, _) in enumerate(words):
            if name == "wait":
                words[k] = name, 0, waits
                waits += 1
        if syncs:
            words.insert(int(random.integers(len(words) + 1)), ("sync", 0, 0))
        agents.append(tuple(words))
    strong = ("relaxed",) * 3 if random.integers(4) == 0 else ("acquire", "release", "acq_rel")
    return Program(tuple(agents), int(random.integers(1, 3)), strong)
