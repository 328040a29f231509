"""The search through the orders of a launch's events: depth first, each order from the launch's start.

Orders that differ only in exchanges of neighbouring events that don't conflict are equivalent. Where two conflicting
events aren't ordered, the search also tries the second one first (source sets), and it leaves out what it has tried
(sleep sets).

source: Flanagan, Godefroid, "Dynamic partial-order reduction for model checking software", POPL 2005; Abdulla et al.,
"Source Sets: A Foundation for Optimal Dynamic Partial Order Reduction", JACM 2017.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal

from ...dataclass import dataclass, field
from ...errors import SimulationError
from ..checks.findings import rule_of
from .answer import OpenPair, Orders
from .events import Agent, Event, Race, Use, independent, initials
from .ordered_machine import Option, OrderedMachine, Reordered
from .story import story
from .wait_loops import Place, WaitLoops

if TYPE_CHECKING:
    from ..checks.findings import Findings
    from ..checks.report import Report
    from ..run_grid import GridRun

#: the maximum number of runs that shorten the story of a finding
SHORTENING_RUNS = 150
#: agents and the numbers of their events, in turn
Choices = list[tuple[Agent, int]]


class Pruned(Exception):
    """An equivalent order has been run."""


@dataclass(slots=True)
class Node:
    """A choice. done: the agents that have been tried, with what their events used. asleep: those needn't be tried."""

    chosen: Agent
    asleep: dict[Agent, list[Use]]
    enabled: tuple[Agent, ...]
    done: dict[Agent, list[Use]] = field(default_factory=dict)
    todo: list[Agent] = field(default_factory=list)
    event: Event | None = None


class Explorer:
    """A `Director`. start: begins a launch; the argument is whether its findings are collected."""

    #: False to continue after a finding
    stops = True
    #: True to collect the findings of each order
    collects = False

    def __init__(self, start: Callable[[Explorer, bool], GridRun]) -> None:
        self.start = start
        self.ordered: set[Place] = set()
        self.stack: list[Node] = []
        self.script: Choices | None = None
        self.explored = 0
        #: hash of the output → the first order that leaves it
        self.outputs: dict[bytes, Choices] = {}
        self.errors: list[str] = []
        self.pairs: set[tuple[int, int]] = set()
        self.reasons: set[str] = set()
        self.machine: OrderedMachine | None = None
        self.first: Choices = []
        self.loops: WaitLoops
        self.read: dict[int, bool] = {}

    def once(self, collect: bool = False) -> tuple[SimulationError | None, GridRun]:
        """Run the launch in one order; return its error, if it ends with one."""
        self.machine = None
        launch = self.start(self, collect)
        if not self.explored:
            self.loops = WaitLoops(launch.program)
        try:
            launch.run()
        except SimulationError as error:
            return error, launch
        return None, launch

    def machine_class(self, *args: object) -> OrderedMachine:
        self.machine = OrderedMachine(self, *args)
        return self.machine

    def events(self) -> list[Event]:
        return self.machine.events if self.machine is not None else []

    def is_read(self, pc: int) -> bool:
        """True if the result of an atomic may be read."""
        if pc not in self.read:
            flow = self.loops.control_flow
            self.read[pc] = any(flow.is_read(block, block.pcs.index(pc)) for block in flow.blocks if pc in block.pcs)
        return self.read[pc]

    # choices

    def choose(self, machine: OrderedMachine, options: dict[Agent, Option]) -> Agent:
        if self.script is not None:
            return self.follow(machine, options, self.script)
        depth = len(machine.events)
        if depth < len(self.stack):
            return self.stack[depth].chosen
        asleep: dict[Agent, list[Use]] = {}
        if depth:
            last = self.stack[-1]
            assert last.event is not None, "the event before this choice has happened"
            uses = last.event.uses
            tried = {**last.asleep, **last.done}
            asleep = {x: y for x, y in tried.items() if x != last.chosen and independent(y, uses)}
        awake = [x for x in options if x not in asleep]
        if not awake:
            machine.note_pending()
            raise Pruned
        self.stack.append(Node(default(machine, awake, options), asleep, tuple(options)))
        return self.stack[-1].chosen

    def follow(self, machine: OrderedMachine, options: dict[Agent, Option], script: Choices) -> Agent:
        """Return the next agent of a script that isn't blocked; after its end, the default."""
        while script:
            agent, times = script[0]
            script[:1] = [(agent, times - 1)] if times > 1 and agent in options else []
            if agent in options:
                return agent
        return default(machine, list(options), options)

    def happened(self, machine: OrderedMachine, event: Event) -> None:
        if self.script is None:
            self.stack[event.index].event = event

    # the search

    def search(self, limit: int, seconds: float | None) -> SimulationError | None:
        """Run all orders, or up to a finding or a limit; return the finding. Afterwards, `left` tells what is open."""
        end = None if seconds is None else time.monotonic() + seconds
        while True:
            error: SimulationError | None = None
            try:
                error, launch = self.once(self.collects)
            except Pruned:
                pass
            except Reordered:
                self.stack.clear()
                continue
            else:
                self.explored += 1
                self.first = self.first or runs(self.events())
                if error is None:
                    self.outputs.setdefault(launch.digest(), runs(self.events()))
                else:
                    self.errors.append(rule_of(error))
            machine = self.machine
            self.reasons |= machine.reasons if machine is not None else set()
            for race in machine.races if machine is not None else ():
                self.propose(race, machine.events if machine is not None else [])
            if error is not None and self.stops:
                return error
            is_late = self.explored >= limit or (end is not None and time.monotonic() > end)
            if not self.go_back(is_late) or is_late:
                return None

    def propose(self, race: Race, events: Sequence[Event]) -> None:
        """Let the second event of a race come before the first one, after all events that needn't follow that one."""
        node = self.stack[race.first]
        between = sum(1 << x.index for x in events[race.first + 1 : race.second] if not x.past >> race.first & 1)
        begin = initials(events, between)
        if not race.past & between:
            begin.append(race.agent)
        if race.second < len(events):
            pcs = events[race.first].pc, events[race.second].pc
            self.pairs.add((min(pcs), max(pcs)))
        tried = {node.chosen, *node.done, *node.todo, *node.asleep}
        if not tried.isdisjoint(begin):
            return
        ready = [x for x in begin if x in node.enabled]
        if ready:
            node.todo.append(ready[0])
        elif between or not race.waits:
            node.todo.extend(x for x in node.enabled if x not in tried)

    def go_back(self, is_late: bool) -> bool:
        """Choose the next order; return False if there is none. is_late: only tell whether there is one."""
        while self.stack:
            node = self.stack[-1]
            assert node.event is not None, "each choice leads to an event"
            node.done[node.chosen] = node.event.uses
            node.todo = [x for x in node.todo if x not in node.done and x not in node.asleep]
            if node.todo:
                if not is_late:
                    node.chosen = node.todo.pop(0)
                return True
            self.stack.pop()
        return False

    def left(self) -> int:
        """Return the number of choices that haven't been tried."""
        return sum(len([x for x in node.todo if x not in node.done and x not in node.asleep]) for node in self.stack)

    # stories

    def fails(self, script: Choices, rule: str) -> SimulationError | None:
        """Return the error of a run by a script if it is of a rule."""
        self.script = [*script]
        error, _ = self.once()
        return error if error is not None and rule_of(error) == rule else None

    def shortened(self, script: Choices, rule: str) -> Choices:
        """Leave out choices, without which there is an error of the same rule in fewer turns (delta debugging)."""
        best, cost = script, (len(script), sum(n for _, n in script))
        size, left = max(1, len(best) // 2), SHORTENING_RUNS
        while size and left:
            at, before = 0, best
            while at < len(best) and left:
                left -= 1
                found = self.fails(best[:at] + best[at + size :], rule)
                now = runs(self.events())
                if found is not None and (len(now), sum(n for _, n in now)) < cost:
                    best, cost = now, (len(now), sum(n for _, n in now))
                else:
                    at += size
            size = size if best is not before and size < len(best) else size // 2
        return best


def default(machine: OrderedMachine, awake: list[Agent], options: dict[Agent, Option]) -> Agent:
    """Let the last warp go on unless it goes back; then the next warp; signals only if no warp can go on."""
    warps = sorted((x for x in awake if "." not in x), key=int)
    if not warps:
        return awake[0]
    last = machine.events[-1] if machine.events else None
    if last is None:
        return warps[0]
    option = options.get(last.agent)
    if last.agent in warps and isinstance(option, tuple) and machine.first_pc(option[0]) > last.pc:
        return last.agent
    number = int(last.agent.partition(".")[0])
    return next((x for x in warps if int(x) > number), warps[0])


def runs(events: Sequence[Event]) -> Choices:
    """Return the agents of events, with the number of events that each has in a row."""
    result: Choices = []
    for event in events:
        if result and result[-1][0] == event.agent:
            result[-1] = event.agent, result[-1][1] + 1
        else:
            result.append((event.agent, 1))
    return result


def examine(
    start: Callable[[Explorer, bool], GridRun], orders: str | int, limit: int, seconds: float | None, collect: bool
) -> Report:
    """Run a launch in all orders ("all"), in some (a number), or in the one that `Orders.choices` tells ("replay:…").

    Return the report of the first order or, if there is a finding, of the shortest order found with it; raise the
    error unless findings are collected.
    """
    explorer = Explorer(start)
    replay = orders.removeprefix("replay:") if isinstance(orders, str) and orders != "all" else None
    error, script = None, parsed(replay or "")
    if replay is None:
        error = explorer.search(limit if orders == "all" else int(orders), seconds)
        script = explorer.first
    left = explorer.left()
    if error is not None:
        script = explorer.shortened(runs(explorer.events()), rule_of(error))
    explorer.script = [*script]
    error, launch = explorer.once(collect)
    machine = explorer.machine
    launch.note_writes()
    if error is not None and collect:
        launch.end(error)
    explorer.reasons |= reasons_of(launch)
    found = error is not None or any(x.level == "error" for x in launch.findings.collected.values())
    rows = story(machine) if (found or replay is not None) and machine is not None else ()
    verdict: Literal["clean", "finding", "incomplete"]
    verdict = "finding" if found else "incomplete" if left or explorer.reasons or replay is not None else "clean"
    answer = Orders(
        verdict, max(explorer.explored, 1), max(explorer.explored, 1) + left, launch.grid, launch.shapes(),
        max(len(explorer.outputs), 1), pairs(explorer.pairs, launch.findings), rows, shown(script),
        shown([*explorer.outputs.values()][1]) if len(explorer.outputs) > 1 else "", tuple(sorted(explorer.reasons)),
    )
    if error is not None and not collect:
        if rows:
            error.message += "\n" + answer.narrative()
        raise error
    report = launch.report()
    report.orders = answer
    return report


def pairs(pcs: set[tuple[int, int]], findings: Findings) -> tuple[OpenPair, ...]:
    found: dict[tuple[object, object], OpenPair] = {}
    for first, second in sorted(pcs):
        one, other = findings.place(first), findings.place(second)
        assert one is not None and other is not None, "a place is None only for None"
        found.setdefault((findings.line(one), findings.line(other)), OpenPair(one, other))
    return tuple(found.values())


def reasons_of(launch: GridRun) -> set[str]:
    """Return what isn't examined of a launch."""
    body = launch.program.function.body
    found = {
        "the arrivals of copies at mbarriers": any(x.root == "cp" and ".mbarrier.arrive" in x.suffix for x in body),
        "the number of pending arrivals of an mbarrier": any(
            x.root == "mbarrier" and x.suffix.startswith(".pending_count") for x in body),
        "the time": any(operand.startswith(("%clock", "%globaltimer")) for x in body for operand in x.operands),
        "which of several different values is stored last": any(
            x.rule == "replicas" for x in launch.findings.collected.values()),
    }
    return {reason for reason, holds in found.items() if holds}


def shown(script: Choices) -> str:
    return " ".join(f"{agent}*{times}" if times > 1 else agent for agent, times in script)


def parsed(text: str) -> Choices:
    """Return the choices that `shown` has written."""
    found: Choices = []
    for word in text.split():
        agent, _, times = word.partition("*")
        found.append((agent, int(times or 1)))
    return found
