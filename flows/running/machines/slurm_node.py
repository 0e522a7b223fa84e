"""Become the process of a SLURM job on one of its machines.

`python -m flows.running.machines.slurm_node` is what the batch script of a job starts on each machine.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Sequence

from flows.running.private import compiled_libraries
from flows.running.processes import BAD_INPUT
from pipeline.errors import InputError

PORTS = range(20_000, 30_000)


def first_host(nodes: str) -> str:
    """Return the first host of a SLURM list of nodes. Example: `gpu[07-09,12],login` gives `gpu07`."""
    found = re.match(r"([^,\[]*)(?:\[(\d+)[^\]]*\]([^,]*))?", nodes)
    return "".join(part or "" for part in found.groups()) if found else ""


def main(arguments: Sequence[str] | None = None) -> None:
    """Become the process of a job on this machine: `python -m module`, or `python -m model.node` for several ranks.

    All nodes of the job meet at a port that follows from the job.
    """
    parser = argparse.ArgumentParser(
        prog="python -m flows.running.machines.slurm_node", description="Run a module in a job of SLURM."
    )
    parser.add_argument("module", help="model.train where several ranks train a run")
    parser.add_argument("--nodes", type=int, default=1, help="how many machines train the run")
    parser.add_argument("--ranks", type=int, default=1, help="processes on each machine")
    parser.add_argument("arguments", nargs="*", help="behind --: those of the module")
    options = parser.parse_args(arguments)
    try:
        os.environ.update(compiled_libraries())  # here: the folder is this machine's
    except InputError as error:
        print(error, file=sys.stderr)
        sys.exit(BAD_INPUT)
    if options.nodes == options.ranks == 1:
        os.execv(sys.executable, [sys.executable, "-m", options.module, *options.arguments])
    host = first_host(os.environ.get("SLURM_STEP_NODELIST", os.environ.get("SLURM_JOB_NODELIST", ""))) or "127.0.0.1"
    address = f"{host}:{PORTS[int(os.environ.get('SLURM_JOB_ID', '0')) % len(PORTS)]}"
    node = ["--node", os.environ.get("SLURM_NODEID", "0"), "--nodes", str(options.nodes), "--ranks", str(options.ranks)]
    run, *rest = options.arguments
    command = [sys.executable, "-m", "model.node", run, *node, "--first", address, "--", *rest]
    os.execv(sys.executable, command)


if __name__ == "__main__":
    main()
