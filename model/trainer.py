"""Train runs as they are asked for: `python -m model.trainer <folder>`; imports are made once.

A request is a line of JSON on standard input, {"arguments": those of `model.train`, "log": path of a file}. The
training's output is appended to the log. The answer to a training that ends well is its exit status, 0, as a line on
standard output. The first training with another exit status ends the process with that status, and without an answer;
the end of the standard input ends the process with status 0, SIGTERM between two trainings at once. The argument, the
folder of the study, only tells who lists the processes of a machine what this one is for.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import sys

from model import train
from model.training.origins.provenance import source_digests


def main() -> int:
    """Answer requests until the standard input ends, and return the exit status."""
    answers, nowhere = os.fdopen(os.dup(1), "w", buffering=1), os.open(os.devnull, os.O_WRONLY)
    source_digests(train.__name__)  # of what has been imported, not of what the files may be later
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
        for number in (1, 2):  # the store keeps the log of a finished training as it is
            os.dup2(nowhere, number)
        answers.write(f"{status}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
