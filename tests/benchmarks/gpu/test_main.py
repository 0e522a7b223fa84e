import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[3]


def run(*arguments):
    command = [sys.executable, "-m", "benchmarks.gpu", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


def results(folder):
    return json.loads((folder / "results.json").read_text())["parts"]


@pytest.mark.slow
def test_a_part_runs_in_a_process_of_its_own_and_is_written_at_once(tmp_path):
    done = run("--tiny", "--isolate", "--parts", "facts", "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    assert results(tmp_path)["facts"]["status"] == "done"
    assert f"| torch | {torch.__version__} |" in (tmp_path / "results.md").read_text()


def test_what_there_is_no_time_for_is_said(tmp_path):
    done = run("--tiny", "--minutes", "0", "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    assert {part["status"] for part in results(tmp_path).values()} == {"not run: out of time"}


def test_a_part_that_does_not_exist_is_refused(tmp_path):
    done = run("--tiny", "--parts", "fact", "--out", tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("there is no part 'fact'; known are facts, smoke,")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_without_a_device_one_line_says_so(tmp_path):
    done = run("--out", tmp_path)
    assert done.returncode == 2
    assert done.stderr.strip() == "no CUDA device here; --tiny runs every part at toy sizes on a CPU"


@pytest.mark.slow
def test_every_part_runs_at_toy_sizes(tmp_path):
    done = run("--tiny", "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    parts = results(tmp_path)
    assert {part["status"] for part in parts.values()} == {"done"}
    assert all(part["rows"] for name, part in parts.items() if name != "clocks")
    assert all(row["holds"] for row in parts["smoke"]["rows"])
    for name in ("eager", "compiled", "other"):
        for variant in ("LA", "DR", "DR+DA"):
            assert all(row["tokens_per_second"] > 0 for row in parts[f"{name} {variant}"]["rows"])
    report = (tmp_path / "results.md").read_text()
    assert [line[3:] for line in report.splitlines() if line.startswith("## ")] == list(parts)
