"""Damage a study's files as bad disks, copies and hands do; decides whether damage ever gives other
numbers in silence.

    python -m benchmarks.damage folder [--seed 0] [--after train evaluate]

A small study is run stage by stage. After each stage one file of every kind gets a flipped bit,
with its size and time kept, in a copy of the study, and `dreamer run` continues to the end. It must
end with the tables of the calm study, or with one line and another status; then what the line says
and `dreamer run` must give those tables. Results are thinned, edited and replaced by older ones as
well.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path

import duckdb

from benchmarks.soak import STUDY, read_tables

STAGES = ("prepare", "train", "evaluate", "report")
# what tells files of one kind apart
NAMES = re.compile(r"[0-9a-f]{16}|-[0-9a-f]{8}/|\d{5,}|(LA|DR)-2-s\d")
# written anew, and read for no result
PASSING = re.compile(r"\.lock$|log\.txt$|progress\.json$|/studies/|^\.")
STATEMENTS = (
    "DELETE FROM items WHERE rowid = 3",
    "DELETE FROM evaluations WHERE tokens = (SELECT min(tokens) FROM evaluations)",
    "UPDATE evaluations SET value = value + 0.125",
    "UPDATE steps SET loss = loss + 1 WHERE step = 3",
    "UPDATE computed_ratios SET ratio = 2",
    "UPDATE curation SET documents = documents + 1",
    "INSERT INTO models BY NAME SELECT study_id, 'X-2' AS model_id FROM studies",
)


def dreamer(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a command of `dreamer`."""
    command = [sys.executable, "-m", "dreamer_study.flows.commands.cli", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=600)


def kinds_of(root: Path) -> dict[str, list[Path]]:
    """List the files of a study by their kind: the path without keys, numbers and models."""
    found: dict[str, list[Path]] = defaultdict(list)
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if path.is_file() and path.stat().st_size and not PASSING.search(name):
            found[NAMES.sub("*", name)].append(path)
    return found


def flip(path: Path, chance: random.Random) -> None:
    """Change one bit of a file, and keep the file's size and time."""
    before, content = path.stat(), bytearray(path.read_bytes())
    content[chance.randrange(len(content))] ^= 1 << chance.randrange(7)
    path.write_bytes(content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def change(statement: str, root: Path) -> None:
    """Change the results of a study by SQL."""
    with duckdb.connect(str(root / "results.duckdb")) as connection:
        connection.execute(statement)


def ends_well(study: Path, root: Path, calm: Path) -> tuple[bool, str]:
    """Go on with a damaged study. Returns whether that was well, and how it ended, in words."""
    expected = read_tables(calm)

    def same() -> bool:
        found = read_tables(root)
        return all(table.equals(found[name]) for name, table in expected.items())

    command = ("run", study, "--root", root, "--plain")
    ended = dreamer(*command)
    if ended.returncode == 0:
        return (True, "harmless, or made again") if same() else (False, "OTHER NUMBERS, status 0")
    last = (ended.stderr.splitlines() or [""])[-1]
    if not last.startswith("dreamer: ") or "Traceback" in ended.stderr:
        return False, f"NOT ONE LINE: {last}"
    if "remove the study's results.duckdb" in last:
        (root / "results.duckdb").unlink()
    dreamer("verify", study, "--root", root, "--repair")
    again = dreamer(*command)
    if again.returncode or not same():
        return False, f"NOT MENDED: {(again.stderr.splitlines() or [''])[-1]} (first: {last})"
    return True, f"refused: {last.removeprefix('dreamer: ')[-110:]}"


def main() -> int:
    """Damage every kind of file; returns 1 where any damage gave other numbers, more than a line,
    or was not mended."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="a new folder for the studies")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--after", nargs="+", choices=STAGES, default=STAGES, help="stages whose files are damaged"
    )
    options = parser.parse_args()
    folder, chance, wrong, number = options.folder.resolve(), random.Random(options.seed), 0, 0
    folder.mkdir(parents=True)
    os.environ["OMP_NUM_THREADS"] = "1"
    study, known = folder / "soak.yaml", set[str]()
    study.write_text(STUDY)
    stages = [folder / stage for stage in STAGES]
    for before, root in zip([None, *stages], stages, strict=False):
        if before:
            shutil.copytree(before, root)
        dreamer("run", study, "--root", root, "--plain", "--until", root.name)
    cases: list[tuple[Path, str, Callable[[Path], object]]] = []
    for root in stages:
        for kind, paths in kinds_of(root).items():
            if kind not in known or root == stages[-1]:
                known.add(kind)
                place = chance.choice(paths).relative_to(root)
                cases.append((root, kind, lambda copy, place=place: flip(copy / place, chance)))
    cases += [(stages[-1], statement, partial(change, statement)) for statement in STATEMENTS]
    older = stages[-2] / "results.duckdb"
    cases.append(
        (stages[-1], "older results", lambda copy: shutil.copy(older, copy / "results.duckdb"))
    )
    chosen = [case for case in cases if case[0].name in options.after]
    for root, kind, damaging in chosen:
        number += 1
        copy = folder / f"copy{number}"
        shutil.copytree(root, copy)
        damaging(copy)
        well, words = ends_well(study, copy, stages[-1])
        wrong += not well
        print(f"{root.name:9} {kind:70} {words}", flush=True)
        shutil.rmtree(copy)
    print(f"{number} damages, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
