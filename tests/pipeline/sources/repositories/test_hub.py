"""Which files are a split, cards, and fetching from a hub (a small server of our own speaking its
protocol)."""

import hashlib
import json
import os
import re
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml

from tests.flows.small_study import TINY

COMMIT = "740312add88f781978c0658806c59bc2815b9866"
CARD = """---
license: mit
dataset_info:
- config_name: main
  splits: [{name: train, num_examples: 99}]
configs:
- config_name: main
  data_files: [{split: train, path: main/train-*}, {split: test, path: main/test-*}]
- config_name: socratic
  data_files: [{split: train, path: socratic/train-*}]
---
# A card
"""
FILES = {
    "README.md": CARD.encode(),
    "main/train-00000-of-00002.jsonl": b'{"question": "a", "answer": "#### 1"}\n',
    "main/train-00001-of-00002.jsonl": b'{"question": "b", "answer": "#### 2"}\n',
    "main/test-00000-of-00001.jsonl": b'{"question": "c", "answer": "#### 3"}\n',
    "socratic/train-00000-of-00001.jsonl": b'{"question": "d", "answer": "#### 4"}\n',
    "gsm8k.py": b"raise SystemExit('a script of a data set was run')\n",
}


class Hub(BaseHTTPRequestHandler):
    """As much of the hub as its client asks for: a listing, files, a gated and a missing
    repository."""

    requests: list[str]  # what was asked, on the class that `hub` makes
    failing: set[str]  # the files of which the first request fails
    newest = COMMIT

    def do_GET(self):
        self.requests.append(f"{self.path} {self.headers.get('Authorization')}")
        listing = re.match(
            r"/api/datasets/(openai/gsm8k|gated/set)(/revision/(\w+))?(\?|$)", self.path
        )
        file = re.match(r"/datasets/(openai/gsm8k|gated/set)/resolve/(\w+)/(.+)$", self.path)
        if re.match(r"/api/datasets/openai/gsm8k/commits/", self.path):
            commits = [
                {
                    "id": COMMIT,
                    "title": "t",
                    "message": "",
                    "date": "2026-01-01T00:00:00.000Z",
                    "authors": [],
                }
            ]
            self.answer(json.dumps(commits).encode(), {"Content-Type": "application/json"})
        elif file and self.command == "GET" and file[3] in self.failing:
            self.failing.remove(file[3])
            self.answer(b"", {}, 503)
        elif listing and listing[3] in (None, "main", COMMIT):
            files = [
                {"rfilename": name, "size": len(body), "blobId": "0"}
                for name, body in FILES.items()
            ]
            commit = COMMIT if listing[3] == COMMIT else self.newest
            about = {
                "id": listing[1],
                "sha": commit,
                "private": False,
                "tags": [],
                "siblings": files,
            }
            self.answer(json.dumps(about).encode(), {"Content-Type": "application/json"})
        elif listing:
            self.answer(b"", {"X-Error-Code": "RevisionNotFound"}, 404)
        elif file and file[1] == "gated/set":
            self.answer(b"", {"X-Error-Code": "GatedRepo"}, 401)
        elif file and file[3] in FILES:
            body = FILES[file[3]]
            self.answer(
                body, {"ETag": f'"{hashlib.sha1(body).hexdigest()}"', "X-Repo-Commit": COMMIT}
            )
        else:
            self.answer(b"", {"X-Error-Code": "RepoNotFound"}, 404)

    do_HEAD = do_GET

    def answer(self, body, headers, status=200):
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def hub():
    handler = type("ThisHub", (Hub,), {"requests": [], "failing": set()})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


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
from dreamer_study.pipeline.sources.repositories.folders import download, found_or_fetched, resolved_revision
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
