"""Train one run on several machines: `python -m model.node <run folder> --node 0 --nodes 2 --first host:port`.

The same command runs on every machine (node), each with its own number; node 0 listens at `--first`. All nodes see the
run folder and its data under the same path. torch's elastic agent starts the ranks of this machine, passes signals on,
and ends the ranks together; rank 0 is on node 0. Options behind `--` are those of `python -m model.train`.

`dreamer run` starts this command for a study with `training.nodes` above 1. Exit status: as of `python -m model.train`.
"""

from __future__ import annotations

import argparse
import logging
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from torch.distributed import DistError
from torch.distributed.elastic.multiprocessing.api import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from model.training.ranks.launch import bound_command
from pipeline.errors import InputError

JOIN_SECONDS = 600
"""Longest wait for the other nodes at the start."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m model.node", description="Train one run on several machines.")
    parser.add_argument("folder", type=Path, help="a folder with run.json, which all machines see")
    parser.add_argument("--node", type=int, required=True, help="the number of this machine, from 0")
    parser.add_argument("--nodes", type=int, required=True, help="how many machines train the run")
    parser.add_argument("--ranks", type=int, default=1, help="processes on each machine (default 1)")
    parser.add_argument("--first", required=True, metavar="HOST:PORT", help="where node 0 listens")
    parser.add_argument("options", nargs="*", help="behind --: options of python -m model.train")
    options = parser.parse_args(arguments)
    try:
        _check(options)
    except InputError as error:
        print(f"model.node: {error}", file=sys.stderr)
        return 2
    config = LaunchConfig(
        min_nodes=options.nodes,
        max_nodes=options.nodes,
        nproc_per_node=options.ranks,
        run_id=options.folder.name,
        rdzv_backend="static",  # which gives each node the rank it asks for
        rdzv_endpoint=options.first,
        rdzv_configs={"rank": options.node, "timeout": JOIN_SECONDS},
        max_restarts=0,
        monitor_interval=0.3,
    )
    logging.getLogger("torch.distributed.elastic").setLevel(logging.CRITICAL)  # what went wrong is said by a rank
    program, *rest = bound_command("model.train", str(options.folder), *options.options)
    try:
        elastic_launch(config, program)(*rest)
    except ChildFailedError as error:
        _, failure = error.get_first_failure()
        if failure.exitcode < 0:
            print(f"{options.folder}: a rank was killed by signal {-failure.exitcode}", file=sys.stderr)
        return failure.exitcode if failure.exitcode > 0 else 128 - failure.exitcode
    except SignalException as error:
        return 128 + error.sigval
    except DistError as error:
        reason = str(error).partition("\n")[0]
        print(f"{options.folder}: node {options.node} of {options.nodes} got no connection: {reason}", file=sys.stderr)
        return 1
    return 0


def _check(options: argparse.Namespace) -> None:
    """Raise InputError for numbers and places that no group of machines can have."""
    if not 0 <= options.node < options.nodes:
        raise InputError(f"--node is {options.node}, but of {options.nodes} machines it must be 0 to --nodes less one")
    if options.ranks < 1:
        raise InputError(f"--ranks is {options.ranks}, but it must be at least 1")
    _, _, port = options.first.rpartition(":")
    if not re.fullmatch(r"[\w.:-]+:\d{1,5}", options.first) or int(port) >= 2**16:
        raise InputError(f"--first is {options.first!r}, but it must be the host of node 0 and a port, as host:29500")


if __name__ == "__main__":
    sys.exit(main())
