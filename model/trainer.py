"""Train runs as they are asked for: `python -m model.trainer <folder>`; imports are made once.

A request is a line of JSON on standard input, {"arguments": those of `model.train`, "log": path of a file}. The
training's output is appended to the log, and the answer is a line on standard output: the exit status 0. The process
ends with its standard input, or without an answer by the first training with another exit status, which is then that of
the process. SIGTERM between two trainings ends the process at once. The argument, the folder of the study, only tells
who lists the processes of a machine what this one is for.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import sys

from model import train


def main() -> int:
    """Answer requests until the standard input ends, and return the exit status."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    gc.freeze()  # what is imported stays: the collector of cycles need not look through all of torch again and again
    for line in sys.stdin:
        request = json.loads(line)
        with open(request["log"], "ab") as log:
            os.dup2(log.fileno(), 1)
            os.dup2(log.fileno(), 2)
        if status := train.main(request["arguments"]):
            return status
        for number in (signal.SIGTERM, signal.SIGINT):  # which the training has caught to save its state
            signal.signal(number, signal.SIG_DFL)
        gc.collect()  # an idle process holds no model
        sys.stdout.flush()
        answers.write(f"{status}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
