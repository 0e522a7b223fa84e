"""The measurements of a GPU run at toy sizes on a CPU, each part in a process of its own."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from benchmarks.gpu import steps
from benchmarks.gpu.__main__ import PARTS, main
from tests.copies import exit_status

ROOT = Path(__file__).parents[3]


def run(*arguments):
    command = [sys.executable, "-m", "benchmarks.gpu", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


def measure(name, out):
    steps.TIMED_STEPS = 1
    main(["--tiny", "--child", name, "--out", out])


@pytest.mark.slow
def test_what_there_is_no_time_for_is_said(tmp_path):
    done = run("--tiny", "--minutes", "0", "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    report = (tmp_path / "results.md").read_text()
    assert report.count("(not run: out of time, 0 s)") == report.count("## ") > 5


@pytest.mark.slow
def test_a_part_that_crashes_is_said_and_the_others_run(tmp_path):
    # so that this part cannot write
    (tmp_path / "facts.jsonl").symlink_to(tmp_path / "nowhere" / "facts.jsonl")
    done = run("--tiny", "--parts", "facts", "attention", "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    assert "failed with status 1: see log.txt" in done.stdout
    assert "FileNotFoundError" in (tmp_path / "log.txt").read_text()
    assert "| causal rows |" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [["--tiny", "--parts", "fact"], []])
def test_what_cannot_run_is_refused_in_a_line(tmp_path, arguments):
    if not arguments and torch.cuda.is_available():
        pytest.skip("there is a CUDA device")
    done = run(*arguments, "--out", tmp_path)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1


@pytest.mark.slow
def test_every_part_runs_at_toy_sizes(tmp_path):
    for name in PARTS:
        assert exit_status(measure, name, str(tmp_path)) == 0, name
    assert all(path.stat().st_size for path in tmp_path.glob("*.jsonl"))
    assert len(list(tmp_path.glob("*.jsonl"))) == len(PARTS)
    for path in tmp_path.glob("steps-*.jsonl"):
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        assert all(row["tokens_per_second"] > 0 for row in rows if "variant" in row)
        assert {
            (row["compiled"], row["recomputed"], row["documents"])
            for row in rows
            if "variant" in row
        } == {
            (True, False, "whole rows"),
            (True, False, "packed"),
            (True, True, "whole rows"),
            (False, False, "whole rows"),
        }
        assert any("kernel" in row for row in rows)
