"""A study carried to a bare machine and back has the results of one that was run in one place."""

import os
import subprocess
import sys
from pathlib import Path

import duckdb
import pandas as pd
import pytest

from flows.carry import adopt, carry
from flows.cli import main
from flows.study import load_study
from pipeline.errors import InputError

PROJECT = Path(__file__).resolve().parents[2]
TINY = PROJECT / "tests" / "studies" / "tiny.yaml"


def factors(root: Path) -> pd.DataFrame:
    with duckdb.connect(str(root / "results.duckdb"), read_only=True) as connection:
        return connection.execute("SELECT * FROM data_efficiency ORDER BY ALL").df()


@pytest.mark.slow
def test_carried_and_adopted_equals_run_here(tmp_path: Path) -> None:
    study, folder = load_study(TINY, root=tmp_path / "carried"), tmp_path / "box"
    carry(study, folder)
    with pytest.raises(InputError, match="has not ended"):
        adopt(study, folder)
    # Of the packages, the machine there has what model/ may import.
    hidden = tmp_path / "hidden"
    for package in ("lm_eval", "prefect", "duckdb", "pydantic", "datasets"):
        (hidden / package).mkdir(parents=True)
        (hidden / package / "__init__.py").write_text(f"raise ImportError('{package} is not on this machine')\n")
    environment = {**os.environ, "PYTHONPATH": f"{hidden}:{PROJECT}", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "model.carried", str(folder), "--processes", "2"]
    for _ in range(2):  # the second time there is nothing left to do
        ran = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=500)
        assert ran.returncode == 0, ran.stdout + ran.stderr
    adopt(study, folder)
    assert main(["run", str(TINY), "--root", str(tmp_path / "here")]) == 0
    here = factors(tmp_path / "here")
    assert len(here)
    pd.testing.assert_frame_equal(factors(tmp_path / "carried"), here)


def test_a_folder_that_is_no_carried_study(tmp_path: Path) -> None:
    ran = subprocess.run([sys.executable, "-m", "model.carried", str(tmp_path)], capture_output=True, text=True)
    assert ran.returncode == 2
    assert "no carried study" in ran.stderr
    assert ran.stderr.count("\n") == 1
