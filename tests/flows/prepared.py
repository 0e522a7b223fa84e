"""What most whole studies of tests begin with, made once for all tests of a process.

The data are those of every study of `small_study`; the tables of Prefect's database take ten seconds
to make.
"""

from __future__ import annotations

import shutil
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from dreamer_study.flows.commands.run_here import environment
from dreamer_study.flows.plan.study_plan import Plan
from dreamer_study.flows.prefect.server import await_server, own_server
from dreamer_study.flows.running.ceilings import measure_ceilings
from dreamer_study.flows.running.curation import prepare_data
from dreamer_study.flows.running.steps import Steps
from dreamer_study.flows.study.loading import load_study
from tests.flows.small_study import small_study

_folder = TemporaryDirectory(prefix="prepared-")  # removed when the process ends


def with_data(root: Path) -> Path:
    """Put the data and ceilings of `small_study` into the store of a new study; returns its
    root."""
    shutil.copytree(_store(), root / "store")
    return root


def with_database(home: Path) -> Path:
    """Make a home of Prefect whose database has its tables, and no row; returns it."""
    shutil.copytree(_home(), home)
    return home


def with_both(root: Path) -> Path:
    """Put both into the folder of a new study, where `dreamer run` looks for them."""
    with_database(with_data(root) / ".prefect")
    return root


@cache
def _store() -> Path:
    folder = Path(_folder.name)
    plan = Plan(load_study(small_study(folder), root=folder / "root"))
    prepare_data(plan, Steps())
    measure_ceilings(plan, Steps(), own=False, trust_code=False)
    return plan.study.store_folder


@cache
def _home() -> Path:
    home = Path(_folder.name) / "prefect"
    with environment({"PREFECT_HOME": str(home)}), own_server() as (server, address):
        await_server(server, address)
    return home
