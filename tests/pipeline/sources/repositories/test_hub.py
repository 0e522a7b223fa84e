"""Which files are a split, cards, and fetching from a hub (a small server of our own speaking its
protocol)."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.flows.small_study import TINY
from tests.pipeline.sources.repositories.hub_server import COMMIT, serving


@pytest.fixture
def hub():
    with serving() as server:
        yield server


def run(program, tmp_path, port, **environment):
    """A program in a process of its own, since the hub client reads its address when it is
    imported."""
    hub = {
        "HF_ENDPOINT": f"http://127.0.0.1:{port}",
        "HF_HOME": str(tmp_path / "home"),
        "HF_HUB_OFFLINE": "0",
    }
    command = [sys.executable, "-c", PRELUDE + program]
    return subprocess.run(
        command, env=os.environ | hub | environment, cwd=tmp_path, capture_output=True, text=True
    )


PRELUDE = """
from dreamer_study.pipeline.benchmarks.table import resolve_benchmark
from dreamer_study.pipeline.sources.repositories.folders import download, found_or_fetched, resolved_revision, source_files
from dreamer_study.pipeline.sources.repositories.splits import find_split
from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.sources.table import resolve_source
def attempt(mirror=None, splits=("train",), **options):
    fields = {"name": "s", "repository": "openai/gsm8k", "configuration": "main", "text": "answer"}
    source = resolve_source(fields | {key: options.pop(key) for key in {"repository", "revision"} & options.keys()})
    try:
        return found_or_fetched(source, splits, mirror=mirror, cache="cache", **options)
    except InputError as error:
        print(error)
"""


@pytest.mark.slow
def test_a_downloaded_mirror_is_read_by_us_and_by_the_datasets_library(tmp_path, hub):
    program = """
download([resolve_source("gsm8k"), resolve_benchmark("gsm8k")], "mirror", progress=print)
download([resolve_source({"name": "s", "repository": "openai/gsm8k", "configuration": "socratic", "text": "answer"})],
         "mirror")
folder = attempt(mirror="mirror")
print([path.name for path in find_split(folder, "main", "train")])
import datasets
for configuration, split in (("main", "train"), ("main", "test"), ("socratic", "train")):
    print(datasets.load_dataset(str(folder), configuration, cache_dir="arrow")[split]["question"][:])
"""
    result = run(program, tmp_path, hub.server_port, HF_TOKEN="hf_verysecret")
    assert result.returncode == 0, result.stderr
    said = result.stdout.splitlines()
    names = "['train-00000-of-00002.jsonl', 'train-00001-of-00002.jsonl']"
    assert said[-4:] == [names, "['a', 'b']", "['c']", "['d']"]
    assert float(said[2].split()[0]) == 1.0
    assert not list(tmp_path.rglob("*.py"))
    written = "".join(
        path.read_text() for path in (tmp_path / "mirror").rglob("*") if path.is_file()
    )
    assert "verysecret" not in result.stdout + result.stderr + written
    record = json.loads((tmp_path / "mirror/openai/gsm8k/.download.json").read_text())
    assert (record["revision"], len(record["parts"])) == (COMMIT, 3)
    card = (tmp_path / "mirror/openai/gsm8k/README.md").read_text()
    assert "license: mit" in card
    assert card.endswith("# A card\n")


@pytest.mark.slow
def test_what_is_cached_is_not_asked_for_again_and_half_a_split_is_none(tmp_path, hub):
    program = f"""
print(attempt(revision="{COMMIT}"))
print(attempt(revision="{COMMIT}"))
"""
    result = run(program, tmp_path, hub.server_port)
    assert result.stdout.splitlines() == [f"cache/openai/gsm8k@{COMMIT[:12]}"] * 2
    asked = len(hub.RequestHandlerClass.requests)
    assert run(program, tmp_path, hub.server_port, HF_HUB_OFFLINE="1").stdout == result.stdout
    assert len(hub.RequestHandlerClass.requests) == asked
    record = tmp_path / f"cache/openai/gsm8k@{COMMIT[:12]}/.download.json"
    # as a killed download leaves it
    record.write_text(json.dumps(json.loads(record.read_text()) | {"parts": []}))
    assert "HF_HUB_OFFLINE" in run(program, tmp_path, hub.server_port, HF_HUB_OFFLINE="1").stdout


@pytest.mark.slow
def test_the_rest_of_a_set_is_fetched_at_the_commit_that_is_here(tmp_path, hub):
    run("attempt()", tmp_path, hub.server_port)
    hub.RequestHandlerClass.newest = "f" * 40
    result = run(
        """print(resolved_revision(attempt(splits=("test",))))""", tmp_path, hub.server_port
    )
    assert result.stdout.splitlines() == [COMMIT], result.stderr


@pytest.mark.slow
def test_the_beginning_of_a_commit_pins_it_and_a_moments_failure_is_no_end(tmp_path, hub):
    hub.RequestHandlerClass.failing.add("main/train-00001-of-00002.jsonl")
    program = f"""
assert attempt(revision="{COMMIT[:7]}") is None  # another call fetches the rest
folder = attempt(revision="{COMMIT[:7]}", progress=lambda done, words: print(round(done, 2), words))
print(resolved_revision(folder), len(find_split(folder, "main", "train")))
"""
    result = run(program, tmp_path, hub.server_port)
    assert result.stdout.splitlines()[-1] == f"{COMMIT} 2", result.stderr
    assert "1.0 openai/gsm8k/main/train" in result.stdout
    assert not hub.RequestHandlerClass.failing


@pytest.mark.slow
def test_patterns_beside_a_repository_are_fetched_and_recorded(tmp_path, hub):
    program = """
import sys
fields = {"name": "s", "repository": "openai/gsm8k", "text": "answer"}
entry = resolve_source(fields | {"files": ["main/*-0000[1]-*.jsonl", "socratic/*"]})
for mirror in ("mirror", "mirror"):
    download([entry], mirror)
    folder = found_or_fetched(entry, ("train",), mirror=mirror, cache="cache")
    print([path.name for path in source_files(entry, folder)], "datasets" in sys.modules)
    attempt(mirror=mirror, splits=("dev",))
attempt(mirror="mirror", splits=("train",))
"""
    result = run(program, tmp_path, hub.server_port)
    assert result.returncode == 0, result.stderr
    names = "['train-00001-of-00002.jsonl', 'train-00000-of-00001.jsonl']"
    said = result.stdout.splitlines()
    assert [line for line in said if line.startswith("[")] == [f"{names} True"] * 2
    assert len(list((tmp_path / "mirror").rglob("*.jsonl"))) == 2
    record = json.loads((tmp_path / "mirror/openai/gsm8k/.download.json").read_text())
    assert record["parts"][0]["patterns"] == ["main/*-0000[1]-*.jsonl", "socratic/*"]


@pytest.mark.slow
def test_a_check_prints_the_pins(tmp_path, hub):
    study = yaml.safe_load(TINY.read_text())
    sets = {"own": "openai/gsm8k", "gone": "openai/gsm9k"}
    study["data"]["sources"] += [
        "gsm8k",
        *({"name": n, "repository": r, "text": "a"} for n, r in sets.items()),
    ]
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(study))
    program = """
from dreamer_study.flows.commands.cli import main
print(main(["sources", "--check", "study.yaml"]))
"""
    result = run(program, tmp_path, hub.server_port)
    assert result.stdout.splitlines()[-2:] == [f"- {{name: own, revision: {COMMIT}}}", "0"], (
        result.stderr
    )
    assert "there is no such data set" in result.stdout


@pytest.mark.slow
def test_what_cannot_be_had_is_said_in_one_line(tmp_path, hub):
    program = """
attempt(mirror="none", repository="openai/gsm9k")
attempt(mirror="none", repository="gated/set")
attempt(mirror="none", revision="1234567")
attempt(mirror="none", splits=("dev",))
"""
    result = run(program, tmp_path, hub.server_port)
    missing, gated, revision, split = result.stdout.splitlines()
    assert "there is no such data set on the hub" in missing
    assert (
        "gated: accept its terms at https://huggingface.co/datasets/gated/set and set HF_TOKEN"
        in gated
    )
    assert "it has no revision '1234567'" in revision
    assert (
        "has no split 'dev' of configuration 'main'; it has main/train, main/test, socratic/train"
        in split
    )
    assert all(
        "none/" in line and "`dreamer download " in line
        for line in (missing, gated, revision, split)
    )


@pytest.mark.slow
@pytest.mark.parametrize("environment", [{}, {"HF_HUB_OFFLINE": "1"}])
def test_without_a_network_it_fails_within_seconds(tmp_path, environment):
    program = """
import time
slept = []
time.sleep = slept.append
for revision in (None, "7403126"):
    attempt(**({"revision": revision} if revision else {}))
assert sum(slept) < 1  # not the hub client's own attempts, which take half a minute
"""
    result = run(program, tmp_path, 9, **environment)
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert len(lines) == 2
    assert all(re.search(r"the hub (cannot be reached|may not be asked)", line) for line in lines)
    assert not Path(tmp_path / "cache").exists()
