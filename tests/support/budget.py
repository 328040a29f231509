"""Print the lines of each folder of the package and the seconds of each tier, with their change since the last commit.

    python -m tests.support.budget default=231 integration=98

The seconds of each commit's last run are kept in `.benchmarks/seconds.json`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = "tilejit"
KEPT = ROOT / ".benchmarks" / "seconds.json"


def git(*arguments: str) -> str:
    """Return what git prints, "" if it fails."""
    run = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    return "" if run.returncode else run.stdout


def folder(path: str) -> str:
    return "/".join(path.split("/")[:-1][:2])


def lines() -> Counter[str]:
    """The lines per folder in the working tree."""
    count: Counter[str] = Counter()
    for path in sorted((ROOT / PACKAGE).rglob("*.py")):
        count[folder(path.relative_to(ROOT).as_posix())] += path.read_bytes().count(b"\n")
    return count


def changes(commit: str) -> Counter[str]:
    """The lines per folder that the working tree has more than a commit."""
    count: Counter[str] = Counter()
    for line in git("diff", "--numstat", "--no-renames", commit, "--", f"{PACKAGE}/*.py").splitlines():
        added, removed, path = line.split("\t")
        count[folder(path)] += int(added) - int(removed)
    return count


def last_commit() -> str:
    """The commit to compare with: HEAD if the package has changed since, else the one before HEAD."""
    return "HEAD" if git("status", "--porcelain", "--", PACKAGE).strip() else "HEAD~1"


def table(title: str, now: Mapping[str, int], change: Mapping[str, int]) -> str:
    """A row per key, with its change, and the total."""
    rows = [(name, now.get(name, 0), change.get(name, 0)) for name in sorted({*now, *change})]
    rows.append(("total", sum(now.values()), sum(change.values())))
    return "\n".join([title, *(f"  {name:24}{count:8,}{f'{by:+8,}' if by else ''}" for name, count, by in rows)])


def change_of_seconds(seconds: Mapping[str, int], commit: str) -> dict[str, int]:
    """The change since the last other commit whose seconds were kept; keep these."""
    kept = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    kept.pop(commit, None)
    before = list(kept.values())[-1] if kept else {}
    KEPT.parent.mkdir(exist_ok=True)
    KEPT.write_text(json.dumps({**kept, commit: dict(seconds)}))
    return {name: count - before[name] for name, count in seconds.items() if name in before}


def main(arguments: list[str]) -> None:
    seconds = {name: int(count) for name, _, count in (each.partition("=") for each in arguments)}
    commit = last_commit()
    print(table(f"lines of {PACKAGE}/, and their change since {commit}", lines(), changes(commit)))
    if seconds:
        head = git("rev-parse", "HEAD").strip()
        print(table("seconds, and their change since the last commit", seconds, change_of_seconds(seconds, head)))


if __name__ == "__main__":
    main(sys.argv[1:])
