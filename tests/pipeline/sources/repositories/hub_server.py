"""A small hub on this machine that speaks as much of the hub's protocol as its client asks for."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

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


@contextmanager
def serving(failing: Collection[str] = ()) -> Iterator[ThreadingHTTPServer]:
    """Serve the hub during the block; the first request for each of the `failing` files fails."""
    handler = type("ThisHub", (Hub,), {"requests": [], "failing": set(failing)})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def hub_variables(server: ThreadingHTTPServer, folder: Path) -> dict[str, str]:
    """The environment of a process whose hub this is; the hub's client reads it when imported."""
    return {
        "HF_ENDPOINT": f"http://127.0.0.1:{server.server_port}",
        "HF_HOME": str(folder / "home"),
        "HF_HUB_OFFLINE": "0",
    }
