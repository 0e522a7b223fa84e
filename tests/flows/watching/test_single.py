"""One process runs a study at a time; a second start says who does, or follows."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from flows.study.loading import load_study
from flows.watching.single import only_run, runs_elsewhere
from pipeline.errors import InputError
from tests.flows.small_study import PROJECT, TINY

HOLD = """
import sys, time
from flows.watching.single import only_run
from flows.study.loading import load_study
with only_run(load_study(sys.argv[1], root=sys.argv[2])):
    print("holds", flush=True)
    time.sleep(float(sys.argv[3]))
"""


def hold(root: Path, seconds: float, code: str = HOLD) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", code, str(TINY), str(root), str(seconds)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=PROJECT)
    assert process.stdout is not None
    assert process.stdout.readline() == "holds\n"
    return process


@pytest.mark.slow
def test_a_second_start_names_the_first_which_frees_the_study_when_killed(tmp_path: Path) -> None:
    study, first = load_study(TINY, root=tmp_path), hold(tmp_path, 900)
    words = rf"tiny is running already \(process {first.pid} on .*, since \d{{4}}-.*\); `dreamer status .*--watch"
    with pytest.raises(InputError, match=words), only_run(study):
        pass
    assert re.match(rf"process {first.pid} on ", runs_elsewhere(study))
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    assert runs_elsewhere(study) == ""
    with only_run(study), only_run(study):  # the flow enters what the command has entered
        pass
