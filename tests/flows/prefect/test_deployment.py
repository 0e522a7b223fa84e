"""The documented way through Prefect, with its real commands on loopback: server, pool, deploy,
worker, run."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import yaml
from prefect import Flow
from prefect.utilities.schema_tools.validation import ValidationError, validate

from dreamer_study.flows.commands.run_here import environment as process_environment
from dreamer_study.flows.full_study import full_study, report
from dreamer_study.flows.prefect.report_links import report_text, serving_reports
from dreamer_study.flows.prefect.server import await_server, own_server
from dreamer_study.flows.study.loading import load_changed, load_study, presets
from dreamer_study.pipeline.errors import InputError
from dreamer_study.sql.results import query
from tests.faults.processes import PREFECT, ask, started_for, trains
from tests.faults.processes import environment as clean_environment
from tests.flows.prepared import with_data, with_database
from tests.flows.small_study import PROJECT, TINY, small_study
from tests.waiting import until


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Return environment variables that give Prefect a home of its own and a server that ends with
    the tests."""
    home = {
        "PREFECT_HOME": str(with_database(tmp_path_factory.mktemp("prefect") / "home")),
        "NO_PROXY": "127.0.0.1,localhost",
    }
    with process_environment(home), own_server() as (server, address):
        await_server(server, address)
        yield clean_environment(**home, PREFECT_API_URL=address)


def prefect(
    environment: dict[str, str], *arguments: str, seconds: float = 300
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [PREFECT, *arguments],
        env=environment,
        cwd=PROJECT,
        capture_output=True,
        text=True,
        timeout=seconds,
    )


def flow_runs(environment: dict[str, str]) -> list[dict[str, Any]]:
    """All runs that the server knows, the first first."""
    return ask(environment["PREFECT_API_URL"], "flow_runs/filter", {"sort": "START_TIME_ASC"})


class Webhook:
    """A server on loopback that keeps what is posted."""

    def __init__(self) -> None:
        posted = self.posted = []

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                posted.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                self.send_response(200)
                self.end_headers()

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}/"
        Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture(scope="module")
def worker(environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A pool with a limit of one run, all deployments, and a worker; yields the worker's log."""
    for command in (
        ["work-pool", "create", "study", "--type", "process"],
        ["work-pool", "set-concurrency-limit", "study", "1"],
        ["--no-prompt", "deploy", "--all"],
    ):
        done = prefect(environment, *command)
        assert done.returncode == 0, done.stdout + done.stderr
    place = tmp_path_factory.mktemp("worker") / "log"
    with place.open("wb") as log:
        command = [PREFECT, "worker", "start", "--pool", "study"]
        process = subprocess.Popen(
            command, env=environment, cwd=PROJECT, stdout=log, stderr=log, start_new_session=True
        )
    try:
        yield place
    finally:
        # idle now; asked to end, Prefect's worker sometimes goes on waiting for an event of its own
        process.kill()
        process.wait()


@pytest.mark.parametrize("of", [full_study, report])
def test_the_form_offers_presets_or_a_file(of: Flow[..., object]) -> None:
    schema = of.parameters.model_dump()
    preset, file = schema["properties"]["study"]["anyOf"]
    assert preset["enum"] == presets()
    assert file["type"] == "string"
    assert not schema["definitions"], "a whole study is 18,286 pixels of form"
    assert all(schema["properties"][name].get("description") for name in schema["properties"])


def test_the_server_takes_names_and_changes_and_no_values_of_a_study() -> None:
    schema = full_study.parameters.model_dump_for_openapi()
    changes = {"training.tokens": 200000, "training.seeds": [0, 1]}
    for study in ("demo", "mine.yaml"):
        validate({"study": study, "overrides": changes}, schema, raise_on_error=True)
    for wrong in ({"study": yaml.safe_load(TINY.read_text())}, {"overrides": [1]}):
        with pytest.raises(ValidationError):
            validate(wrong, schema, raise_on_error=True)


def test_python_hands_a_study_over() -> None:
    study = load_study(TINY)
    assert full_study.validate_parameters({"study": study})["study"] is study


def test_changed_keys_are_a_study_of_their_own(tmp_path: Path) -> None:
    changes = {"training.tokens": 200000, "training.seeds": [3], "compute.per_gpu": 2}
    study = load_changed("demo", changes, root=tmp_path)
    values = (study.training.tokens, study.training.seeds, study.compute.per_gpu)
    assert values == (200000, [3], 2)
    assert study.name == "demo"
    written = load_study(tmp_path / "study.yaml")
    assert written.study_id == study.study_id != load_study("demo").study_id
    assert study.arguments == f"{tmp_path}/study.yaml --root {tmp_path}"


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"training.tokns": 1}, "demo: training: unknown key 'tokns'; did you mean 'tokens'?"),
        ({"trainin.tokens": 1}, "demo: unknown key 'trainin'; did you mean 'training'?"),
        (
            {"training.tokens.of": 1},
            "demo: training.tokens.of: tokens has no keys; give its whole value",
        ),
        ({"training.seeds": []}, "demo: training.seeds is [], but it must have at least 1 item"),
    ],
)
def test_a_change_that_no_study_has_is_one_line(changes: dict[str, object], line: str) -> None:
    with pytest.raises(InputError) as error:
        load_study("demo", changes=changes)
    assert str(error.value).startswith(line)
    assert "\n" not in str(error.value)


def test_a_preset_with_other_models_is_not_trusted(tmp_path: Path) -> None:
    assert load_study("control").trusted
    assert load_changed("control", {"training.seeds": [0, 1]}, root=tmp_path).trusted
    variants = load_study("control").model_dump()["models"]["variants"]
    assert not load_changed("control", {"models.variants": variants}, root=tmp_path).trusted
    assert not load_changed("control", {"evaluation.limit": 3}, root=tmp_path).trusted


def test_the_report_of_a_workers_run_is_a_path_and_a_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    study = load_study(TINY, root=tmp_path / "run")
    text = report_text(study)
    assert f"`{study.report.resolve()}`" in text
    assert f"`dreamer report {study.arguments} --watch`" in text
    with serving_reports() as address:
        assert report_text(study).startswith(f"[The report]({address}/tiny-")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["full-study", "full-study/full-study"])
def test_a_deployment_without_a_server_is_one_line(tmp_path: Path, name: str) -> None:
    address = "http://127.0.0.1:9/api"  # a port of no program that runs as a user
    variables = clean_environment(PREFECT_API_URL=address, PREFECT_HOME=str(tmp_path))
    ran = prefect(variables, "deployment", "run", name)
    assert ran.returncode == 1
    assert (
        ran.stdout + ran.stderr == f"no Prefect server answers at {address}; `make up` starts one\n"
    )


@pytest.mark.slow
def test_studies_of_two_deployments_run_one_after_the_other_and_a_failed_one_is_told(
    environment: dict[str, str], worker: Path, tmp_path: Path
) -> None:
    webhook = Webhook()
    (snippet,) = re.findall(
        r"```python\n(.*?)```", (PROJECT / "docs" / "deployments.md").read_text(), re.DOTALL
    )
    told = {**environment, "NOTIFY_URL": webhook.address}
    subprocess.run([sys.executable, "-c", snippet], env=told, cwd=PROJECT, check=True, timeout=120)
    study = small_study(tmp_path)
    changes = {"root": str(with_data(tmp_path / "run")), "training.tokens": 4000}
    parameters = json.dumps({"study": str(study), "overrides": changes})
    until_evaluated = json.dumps({"study": str(study), "overrides": changes, "until": "evaluate"})
    started = prefect(environment, "deployment", "run", "full-study", "--params", until_evaluated)
    assert started.returncode == 0, started.stdout + started.stderr
    nowhere = {"study": str(tmp_path / "nowhere.yaml")}
    nowhere = json.dumps(nowhere)
    started = prefect(environment, "deployment", "run", "full-study/demo", "--params", nowhere)
    assert started.returncode == 0, started.stdout + started.stderr
    until(lambda: webhook.posted, log=worker)
    (text,) = [posted["text"] for posted in webhook.posted]
    assert text.startswith("nowhere has failed: ")
    assert "neither a preset" in text
    assert "Traceback" not in worker.read_text()
    unknown = prefect(environment, "deployment", "run", "no-such-study")
    assert unknown.returncode == 1
    assert "not found" in unknown.stdout + unknown.stderr
    good, bad = flow_runs(environment)
    assert (good["name"], good["tags"], good["state_type"]) == ("tiny", ["tiny"], "COMPLETED")
    assert bad["state_type"] == "FAILED"
    assert bad["start_time"] >= good["end_time"]
    ran = load_study(tmp_path / "run" / "study.yaml")
    assert ran.study_id == load_study(study, changes=changes).study_id
    assert ran.training.tokens == 4000
    page = ran.report
    assert not page.exists()
    started = prefect(environment, "deployment", "run", "report", "--params", parameters, "--watch")
    assert started.returncode == 0, started.stdout + started.stderr
    assert page.exists()


@pytest.mark.slow
def test_a_killed_worker_ends_no_study(
    environment: dict[str, str], worker: Path, tmp_path: Path
) -> None:
    study = small_study(tmp_path, tokens=60_000, save_every_seconds=0)
    root = with_data(tmp_path / "run")
    parameters = json.dumps({"study": str(study), "root": str(root), "until": "train"})
    started = prefect(environment, "deployment", "run", "full-study", "--params", parameters)
    assert started.returncode == 0, started.stdout + started.stderr
    until(lambda: trains(root), log=worker)
    (killed,) = started_for(environment["PREFECT_HOME"], "worker start")
    os.kill(killed, signal.SIGKILL)
    ended = ("COMPLETED", "FAILED", "CRASHED", "CANCELLED")
    until(lambda: flow_runs(environment)[-1]["state_type"] in ended, log=worker, pause=2)
    state = flow_runs(environment)[-1]["state"]
    assert state["type"] == "COMPLETED", state["message"]
    assert query(root / "results.duckdb", "select count(*) as n from steps")["n"][0] > 0
