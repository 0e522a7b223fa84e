"""Serve a report on this machine, write the page again when the results change, and let open pages load again."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

from pipeline.errors import InputError

EVERY = 2  # seconds between two looks at the results file, and between two questions of an open page
RELOAD = f"""<script>
(async () => {{
  const version = async () => (await fetch("/version")).text();
  const shown = await version();
  setInterval(async () => (await version()) !== shown && location.reload(), {1000 * EVERY});
}})();
</script>
"""


def server(page: Path, port: int = 0) -> ThreadingHTTPServer:
    """Make a server of one page on the loopback address; port 0 takes a free one."""
    return ThreadingHTTPServer(("127.0.0.1", port), partial(_Handler, page))


def watch(database: Path, page: Path, write: Callable[[], object], say: Callable[[str], object]) -> None:
    """Serve a page and call `write` whenever the results file is newer than the page, until interrupted."""
    with server(page) as serving:
        Thread(target=serving.serve_forever, daemon=True).start()
        say(f"http://127.0.0.1:{serving.server_port}")
        try:
            drawn, said = page.stat().st_mtime_ns, ""
            while True:
                drawn, words = refresh(database, drawn, write)
                if words and words != said:
                    say(words)
                said = words
                time.sleep(EVERY)
        finally:
            serving.shutdown()


def refresh(database: Path, drawn: int, write: Callable[[], object]) -> tuple[int, str]:
    """Call `write` if the results file has changed since the time `drawn`; returns the new time, and what went wrong.

    Times are in nanoseconds, that of the file before it is read: rows that enter meanwhile are drawn the next time. A
    file that cannot be read now is tried again later.
    """
    try:
        changed = database.stat().st_mtime_ns
        if changed <= drawn:
            return drawn, ""
        write()
    except (InputError, FileNotFoundError) as error:  # a study is entering its rows, or makes the file anew
        return drawn, str(error)
    return changed, ""


class _Handler(BaseHTTPRequestHandler):
    """Answer `/` with the page and `/version` with what changes when the page is written."""

    def __init__(self, page: Path, *connection: object) -> None:
        self.page = page
        super().__init__(*connection)

    def do_GET(self) -> None:
        """Answer a browser of this machine; another host's name in the address is refused (DNS rebinding)."""
        if self.headers.get("Host", "").partition(":")[0] not in ("127.0.0.1", "localhost"):
            self.send_error(HTTPStatus.FORBIDDEN)
        elif self.path == "/version":
            self._answer("text/plain", str(self.page.stat().st_mtime_ns))
        elif self.path == "/":
            text = self.page.read_text(encoding="utf-8")
            self._answer("text/html; charset=utf-8", text.replace("</body>", f"{RELOAD}</body>"))
        else:
            self.send_error(HTTPStatus.NOT_FOUND)

    def _answer(self, kind: str, text: str) -> None:
        body = text.encode()
        self.send_response(HTTPStatus.OK)
        for name, value in (("Content-Type", kind), ("Content-Length", str(len(body))), ("Cache-Control", "no-store")):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words: object) -> None:
        """Say nothing of requests."""
