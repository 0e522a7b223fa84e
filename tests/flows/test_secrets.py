"""Secrets of the environment reach nothing that a study writes, and files beside the study run no
code."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from dreamer_study.sql.export import export
from tests.faults.processes import DREAMER, environment, plant
from tests.flows.prepared import with_both
from tests.flows.small_study import small_study

PLANTED = {
    "HF_TOKEN": "hf_plantedhubtoken",
    "HUGGING_FACE_HUB_TOKEN": "hf_plantedoldtoken",
    "AWS_SECRET_ACCESS_KEY": "planted/cloud/secret",
    "OPENAI_API_KEY": "sk-plantedservicekey",
    "WANDB_API_KEY": "plantedtrackerkey",
}


def contents(folder: Path) -> dict[Path, bytes]:
    """The bytes of every file; of Parquet, which is compressed, the values."""
    found = {}
    for path in folder.rglob("*"):
        if path.is_file():
            parquet = path.suffix == ".parquet"
            found[path] = (
                str(pq.read_table(path).to_pylist()).encode() if parquet else path.read_bytes()
            )
    return found


@pytest.mark.slow
def test_no_planted_token_is_written_and_no_planted_code_runs(tmp_path: Path) -> None:
    root = with_both(tmp_path / "run")
    here = tmp_path / "here"
    here.mkdir()
    study, hostile = small_study(here), plant(here)
    for name in ("prefect.toml", "logging.yml"):  # a folder that others may have filled
        (root / ".prefect" / name).write_text((here / name).read_text())
    command = [DREAMER, "run", str(study), "--root", str(root)]
    ran = subprocess.run(command, cwd=here, env=environment(**PLANTED), capture_output=True)
    assert ran.returncode == 0, ran.stderr
    assert not hostile.exists(), hostile.read_text()
    export(root / "results.duckdb", root / "exported", format="csv")
    written = {**contents(root), Path("output"): ran.stdout + ran.stderr}
    names = " ".join(map(str, written))
    logs = ("store/runs/", "log.txt", ".progress.json")
    for part in (
        ".prefect/prefect.db",
        "manifest.json",
        *logs,
        "steps.csv",
        "exported/studies.csv",
        "report",
    ):
        assert part in names
    leaks = [
        (path, name)
        for path, content in written.items()
        for name in PLANTED
        if PLANTED[name].encode() in content
    ]
    assert leaks == []
