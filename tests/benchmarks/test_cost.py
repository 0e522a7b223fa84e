import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_cost_against_size_is_a_table_and_a_plot(tmp_path):
    plot = tmp_path / "cost.svg"
    sizes = ["--depth", "1", "2", "--experts", "4", "--context", "32", "--batch-tokens", "256", "--rounds", "2"]
    command = [sys.executable, "benchmarks/cost.py", *sizes, "--plot", str(plot)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    rows = [
        [cell.strip() for cell in line.split("|")[1:-1]] for line in done.stdout.splitlines() if " tokens/s" not in line
    ]
    rows = [row for row in rows if len(row) == 7 and row[1].isdigit()]
    assert [row[:2] for row in rows[::3]] == [["depth", "1"], ["depth", "2"], ["experts", "4"], ["context", "32"]]
    assert [row[2] for row in rows[:3]] == ["LA", "DR", "DR+DA"]
    assert all(float(row[3].replace(",", "")) > 0 for row in rows)
    assert plot.read_text().startswith("<svg")
