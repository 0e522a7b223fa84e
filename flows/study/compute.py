"""The section `compute` of a study file."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, field_validator

from flows.study.section import Section


class Compute(Section):
    """Where trainings and evaluations run: as processes here, or as jobs of a cluster that sees the study's folder."""

    pool: Literal["local", "slurm"] = Field("local", description="processes of this machine, or jobs of SLURM")
    script: Path | None = Field(None, description="the batch script of a job, with #SBATCH lines (docs/scale.md)")

    @field_validator("script")
    @classmethod
    def _there(cls, script: Path | None) -> Path | None:
        if script and not script.is_file():
            raise ValueError(f"there is no file {script}")
        return script
