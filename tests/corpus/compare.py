"""Compiles the corpus and says where tile IR or PTX isn't what is stored: `python -m tests.corpus.compare`.

Exit status 1 where something differs. README.md has the rest.
"""

from __future__ import annotations

import argparse
import difflib
import multiprocessing
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

from . import store
from .compiling import TARGETS, Outcome, from_source, from_tile_ir
from .store import Expected, Program

STAGES = ("source", "tile-ir", "both")

#: what LLVM writes only where it knows source lines
LINES = re.compile(r"\s*(\.loc\b|\.file\b|\$L__(tmp|func_begin|func_end)\d+:|\.section\s+\.debug_)")


@dataclass(frozen=True)
class Difference:
    """what: the part that differs, and from where it was compiled."""

    program: str
    target: str
    what: str
    stored: str
    found: str

    def __str__(self) -> str:
        before, after = self.stored.splitlines(), self.found.splitlines()
        diff = difflib.unified_diff(before, after, f"{self.program} stored", "this tree", lineterm="", n=2)
        return "\n".join([f"{self.program} for {self.target}: {self.what}", *diff])


def compiled(program: Program, target: str) -> Outcome:
    """The program compiled from its source, or from its tile IR where it has none."""
    if program.source:
        return from_source(program.source, program.kernel, program.call, target)
    return from_tile_ir(program.tile, target)


def outcomes(program: Program) -> Expected:
    """What the program compiles to, from both stages."""
    return {target: _outcome(program, target) for target in TARGETS}


def _outcome(program: Program, target: str) -> Outcome:
    made = compiled(program, target)
    if not made.tile:
        return made
    alone = from_tile_ir(made.tile, target)
    text = alone.refusal or alone.ptx
    return made if text == without_lines(made.ptx) else replace(made, from_tile=text)


def differences(program: Program, stored: Expected, stage: str = "both") -> list[Difference]:
    """Where this tree and the corpus disagree about a program."""
    found: list[Difference] = []
    for target in TARGETS:
        if stage != "tile-ir" or not program.source:
            found += _from_start(program, target, stored[target])
        if stage != "source" and program.source and stored[target].tile:
            made = from_tile_ir(stored[target].tile, target)
            wanted = stored[target].from_tile or without_lines(stored[target].ptx)
            found += _different(program, target, "PTX differs (from tile IR)", wanted, made.refusal or made.ptx)
    return found


def _from_start(program: Program, target: str, stored: Outcome) -> list[Difference]:
    way = "from source" if program.source else "from tile IR"
    made = compiled(program, target)
    if made.refusal or stored.refusal:
        what = f"refusal differs ({way})"
        return _different(program, target, what, stored.refusal or "accepted", made.refusal or "accepted")
    return [
        *_different(program, target, "tile IR differs", stored.tile, made.tile),
        *_different(program, target, f"PTX differs ({way})", stored.ptx, made.ptx),
    ]


def _different(program: Program, target: str, what: str, stored: str, found: str) -> list[Difference]:
    return [] if stored == found else [Difference(program.name, target, what, stored, found)]


def without_lines(ptx: str) -> str:
    """PTX without its references to source lines, which tile IR as text doesn't have."""
    return "".join(line for line in ptx.splitlines(keepends=True) if not LINES.match(line))


def _compared(work: tuple[Program, Expected, str]) -> list[Difference]:
    return differences(*work)


def _blessed(program: Program) -> tuple[str, Expected]:
    return program.name, outcomes(program)


def chosen(only: str, sample: int | None) -> list[Program]:
    """The programs whose names contain `only`, or `sample` of them, evenly spaced."""
    every = [p for kind in store.kinds() for p in store.programs(kind) if only in p.name]
    return every if sample is None else store.spaced(every, sample)


def compare(selected: list[Program], stage: str, jobs: int, shown: int) -> int:
    """Compares, prints, and returns how many differences there are."""
    stored = {name: e for kind in sorted({p.kind for p in selected}) for name, e in store.expected(kind).items()}
    counts: Counter[str] = Counter()
    programs: set[str] = set()
    with multiprocessing.Pool(jobs) as pool:
        work = ((p, stored[p.name], stage) for p in selected)
        for found in progress(pool.imap(_compared, work, chunksize=8), len(selected)):
            for difference in found:
                programs.add(difference.program)
                counts[difference.what] += 1
                if sum(counts.values()) <= shown:
                    print(f"\n{difference}", flush=True)
    listed = ", ".join(f"{n} × {what}" for what, n in sorted(counts.items())) or "no differences"
    print(f"{len(selected)} programs for {', '.join(TARGETS)}: {listed}")
    if programs:
        names = sorted(programs)
        print(f"{len(names)} programs differ: {' '.join(names[:20])}{' …' if len(names) > 20 else ''}")
    return sum(counts.values())


def bless(selected: list[Program], jobs: int) -> None:
    """Stores what the selected programs compile to now."""
    with multiprocessing.Pool(jobs) as pool:
        made = dict(progress(pool.imap(_blessed, selected, chunksize=8), len(selected)))
    for kind in sorted({p.kind for p in selected}):
        known = {p.name for p in store.programs(kind)}
        path = store.DATA / f"{kind}.expected.xz"
        before = store.expected(kind) if path.exists() else {}
        merged = {**before, **made}
        store.write_expected(kind, {name: merged[name] for name in sorted(known & merged.keys())})
    print(f"stored {len(made)} programs")


def progress(results: Iterator[store.T], total: int) -> Iterator[store.T]:
    """The results, while a line on standard error says how many there were."""
    began = shown = time.monotonic()
    for number, result in enumerate(results, 1):
        yield result
        now = time.monotonic()
        if now - shown > 2 or number == total:
            shown = now
            print(f"\r{number}/{total}, {now - began:.0f} s", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", default="", metavar="SUBSTRING", help="programs whose names contain this")
    parser.add_argument("--sample", type=int, metavar="N", help="N programs, evenly spaced")
    parser.add_argument("--stage", choices=STAGES, default="source", help="where compilation starts")
    parser.add_argument("--show", type=int, default=5, metavar="N", help="differences to print in full")
    parser.add_argument("--bless", action="store_true", help="store what this tree makes")
    given = parser.parse_args()
    selected = chosen(given.only, given.sample)
    if given.bless:
        bless(selected, given.jobs)
        return 0
    return 1 if compare(selected, given.stage, given.jobs, given.show) else 0


if __name__ == "__main__":
    sys.exit(main())
