"""Evaluate checkpoints as they are asked for: `python -m model.evaluator`; imports and questions are made once.

A request is a line of JSON on standard input, {"job": path of a job file, "tokens": those of one of its checkpoints}.
The answer is a line on standard output: what `model.evaluate` says of the checkpoint. The process ends with its
standard input, or with the first evaluation that fails; exit status and words are then those of `model.evaluate`.
"""

from __future__ import annotations

import gc
import json
import os
import sys

from model.evaluate import evaluate, exit_status, prepare_process
from model.evaluation.job import read_job
from model.evaluation.questions import KeptQuestions


def main() -> int:
    """Answer requests until the standard input ends, and return the exit status."""
    prepare_process()
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what libraries print is no answer
    questions = KeptQuestions()

    def answer(line: str) -> None:
        request = json.loads(line)
        words = ["there already"]
        evaluate(read_job(request["job"]), only=request["tokens"], questions=questions, line=words.append)
        answers.write(words[-1] + "\n")

    for number, line in enumerate(sys.stdin):
        if status := exit_status(line.strip(), lambda: answer(line)):  # noqa: B023
            return status
        if number == 0:
            gc.collect()
            gc.freeze()  # else the collector of cycles looks through lm-eval and all questions again and again
    return 0


if __name__ == "__main__":
    sys.exit(main())
