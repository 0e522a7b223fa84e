"""Serve a report on this machine.

The page is written again when the results change, and open pages load again.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from secrets import token_urlsafe
from threading import Thread

from dreamer_study.pipeline.errors import InputError

# Seconds between two looks at the results file, and between two questions of an open page.
EVERY = 2
RELOAD = f"""<script>
(async () => {{
  const version = async () => (await fetch("version")).text();
  const shown = await version();
  setInterval(async () => (await version()) !== shown && location.reload(), {1000 * EVERY});
}})();
</script>
"""


def server(find: Callable[[str], Path | None], port: int = 0) -> ThreadingHTTPServer:
    """Make a server of the pages that `find` returns by name, on the loopback address.

    Port 0 takes a free one. The page `name` is at `/name/`, the page "" at `/`.
    """
    return ThreadingHTTPServer(("127.0.0.1", port), partial(_Handler, find))


def watch(
    database: Path,
    page: Path,
    drawn: int,
    write: Callable[[], object],
    say: Callable[[str], object],
) -> None:
    """Serve a page and call `write` whenever the results file has changed since `drawn`, until
    interrupted.

    The address has a name that nobody guesses: other users of the machine reach its port too.

    `drawn` is the time of the results file before the page was made, as of `refresh`.
    """
    name = token_urlsafe(16)
    with server({name: page}.get) as serving:
        Thread(target=serving.serve_forever, daemon=True).start()
        say(f"http://127.0.0.1:{serving.server_port}/{name}/")
        try:
            last_fault = ""
            while True:
                drawn, fault = refresh(database, drawn, write)
                if fault and fault != last_fault:
                    say(fault)
                last_fault = fault
                time.sleep(EVERY)
        finally:
            serving.shutdown()


def refresh(database: Path, drawn: int, write: Callable[[], object]) -> tuple[int, str]:
    """Call `write` if the results file has changed since the time `drawn`.

    Returns the new time, and what went wrong. Times are nanoseconds; the file's is taken before it
    is read, so that rows which enter meanwhile are drawn the next time. A file that cannot be read
    now is tried again later.
    """
    try:
        changed = database.stat().st_mtime_ns
        if changed <= drawn:
            return drawn, ""
        write()
    # a study is entering its rows, or makes the file anew
    except (InputError, FileNotFoundError) as error:
        return drawn, str(error)
    return changed, ""


class _Handler(BaseHTTPRequestHandler):
    """Answer `/name/` with a page.

    `/name/version` gets a text that changes when the page is written.
    """

    def __init__(self, find: Callable[[str], Path | None], *connection: object) -> None:
        self.find = find
        super().__init__(*connection)

    def do_GET(self) -> None:
        """Answer a browser of this machine.

        Another host's name in the address is refused (DNS rebinding).
        """
        if self.headers.get("Host", "").partition(":")[0] not in ("127.0.0.1", "localhost"):
            self.send_error(HTTPStatus.FORBIDDEN)
            return
        name, _, part = self.path.partition("?")[0].removeprefix("/").rpartition("/")
        page = self.find(name) if part in ("", "version") else None
        if page is None:
            self.send_error(HTTPStatus.NOT_FOUND)
        elif part:
            self._answer("text/plain", str(page.stat().st_mtime_ns))
        else:
            text = page.read_text(encoding="utf-8")
            self._answer("text/html; charset=utf-8", text.replace("</body>", f"{RELOAD}</body>"))

    def _answer(self, kind: str, text: str) -> None:
        body = text.encode()
        self.send_response(HTTPStatus.OK)
        for name, value in (
            ("Content-Type", kind),
            ("Content-Length", str(len(body))),
            ("Cache-Control", "no-store"),
        ):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words: object) -> None:
        """Say nothing of requests."""
