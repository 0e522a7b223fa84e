"""Do one job after another in one process, so that imports are made once.

`python -m dreamer_study.model.worker dreamer_study.model.train <folder>`

A request is a line of JSON on standard input:

    {"arguments": ["/home/ada/runs/demo/store/runs/LA-2-s0-e035352e"],
     "log": "/home/ada/runs/demo/store/runs/LA-2-s0-e035352e/log.txt"}

"arguments" are those of the program. The program's output is appended to the log. The answer to a
job that ends well is its exit status, 0, as a line on standard output. The first job with another
exit status ends the process with that status, and without an answer; the end of the standard input
ends the process with status 0. SIGTERM between two jobs ends it at once. The last argument, the
folder of the study, is not read: it shows in a list of processes what this one is for.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
from importlib import import_module

import torch

from dreamer_study.model.processes import stopping_signals

PROGRAMS = ("dreamer_study.model.train", "dreamer_study.model.evaluate")


def main() -> int:
    """Answer requests until the standard input ends, and return the exit status."""
    if len(sys.argv) < 2 or sys.argv[1] not in PROGRAMS:
        print(
            f"usage: python -m dreamer_study.model.worker {'|'.join(PROGRAMS)} [<folder>]",
            file=sys.stderr,
        )
        return 2
    answers = os.fdopen(os.dup(1), "w", buffering=1)  # the standard output becomes a log below
    nowhere = os.open(os.devnull, os.O_WRONLY)
    program = import_module(sys.argv[1])
    program.prepare_staying()
    # what is imported stays: the collector of cycles need not look through torch again and again
    gc.freeze()
    for number, line in enumerate(sys.stdin):
        request = json.loads(line)
        with open(request["log"], "ab") as log:
            os.dup2(log.fileno(), 1)
            os.dup2(log.fileno(), 2)
        status = program.main(request["arguments"])
        if status:
            return status
        # a training has caught these signals to save its state
        for signalled in stopping_signals():
            signal.signal(signalled, signal.SIG_DFL)
        gc.collect()  # an idle process holds no model
        if torch.cuda.is_initialized():
            torch.cuda.empty_cache()
        if number == 0:
            # what the first job has left, such as tasks with their questions, stays too
            gc.freeze()
        sys.stdout.flush()
        sys.stderr.flush()
        for stream in (1, 2):  # the log of a finished job stays as it is
            os.dup2(nowhere, stream)
        answers.write(f"{status}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
