"""Drive a headless Chromium over its debugging protocol, and take the pictures of a report.

python -m tests.reports.browser runs/demo/report/index.html docs/images
"""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from websockets.sync.client import ClientConnection, connect

from tests.waiting import until

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
START = 60  # seconds
ARGUMENTS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--hide-scrollbars",
    "--remote-debugging-port=0",
)


class Browser:
    """One page of a running Chromium: commands, and the events that came meanwhile."""

    def __init__(self, connection: ClientConnection, downloads: Path) -> None:
        self.connection, self.downloads = connection, downloads
        self.events: list[dict[str, Any]] = []
        self.number = 0
        self.session: str | None = None
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.send("Target.attachToTarget", targetId=target, flatten=True)[
            "sessionId"
        ]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.send(f"{domain}.enable")
        self.send("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(downloads))

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command and wait for its result."""
        self.number += 1
        command = {"id": self.number, "method": method, "params": parameters}
        self.connection.send(
            json.dumps(command | ({"sessionId": self.session} if self.session else {}))
        )
        while True:
            message = json.loads(self.connection.recv(timeout=START))
            if message.get("id") != self.number:
                self.events.append(message)
            elif "error" in message:
                raise RuntimeError(f"{method}: {message['error']['message']}")
            else:
                return message["result"]

    def run(self, expression: str) -> Any:
        """Evaluate JavaScript, wait for a promise, and return the value."""
        result = self.send(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
        )
        if "exceptionDetails" in result:
            raise RuntimeError(
                result["exceptionDetails"].get("exception", {}).get("description", "failed")
            )
        return result["result"].get("value")

    def wait(self, expression: str, seconds: float = START) -> None:
        """Wait until JavaScript gives a true value."""
        end = time.monotonic() + seconds
        while not self.run(expression):
            if time.monotonic() > end:
                raise TimeoutError(expression)
            time.sleep(0.05)

    def size(self, width: int, height: int, *, phone: bool = False, ratio: float = 1) -> None:
        """Make the window so many CSS pixels large."""
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=ratio,
            mobile=phone,
        )

    def colours(self, scheme: str) -> None:
        """Prefer `light` or `dark` colours."""
        self.send(
            "Emulation.setEmulatedMedia",
            features=[{"name": "prefers-color-scheme", "value": scheme}],
        )

    def open(self, address: str) -> None:
        """Open a page, and wait until its drawings near the view are live."""
        self.events.clear()
        self.send("Page.navigate", url=address)
        self.wait(
            "document.readyState === 'complete' && !document.querySelector('.toolbar')?.hidden"
        )
        self.settle()

    def settle(self) -> None:
        """Wait until every figure near the view is drawn as chosen: the page learns in a frame what
        is near."""
        self.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        self.wait("document.documentElement.dataset.drawing === 'no'")

    def draw_all(self) -> None:
        """Unfold and scroll through the page, so that all figures are drawn."""
        self.run(
            "document.querySelectorAll('main details:not(.toolbar, .query)').forEach((one) => { one.open = true })"
        )
        for place in range(0, self.run("document.documentElement.scrollHeight"), 1200):
            self.run(f"window.scrollTo({{top: {place}, behavior: 'instant'}})")
            self.settle()

    def picture(self, path: Path, *, whole: bool = False) -> None:
        """Save what the window shows, or with `whole` the whole page, as PNG."""
        shown = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(shown["data"]))


@contextmanager
def browser() -> Iterator[Browser]:
    """Start Chromium and end it afterwards."""
    assert CHROMIUM
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        profile, downloads = Path(folder, "profile"), Path(folder, "downloads")
        downloads.mkdir()
        process = subprocess.Popen(
            [CHROMIUM, *ARGUMENTS, f"--user-data-dir={profile}"], stderr=subprocess.DEVNULL
        )
        try:
            told = profile / "DevToolsActivePort"  # with Chromium's port and address
            until(lambda: told.exists() and told.read_text().count("\n") == 1, process)
            port, path = told.read_text().split("\n")
            with connect(
                f"ws://127.0.0.1:{port}{path}", max_size=None, compression=None
            ) as connection:
                yield Browser(connection, downloads)
        finally:
            process.terminate()
            process.wait(timeout=START)


def take_pictures(page: Path, folder: Path) -> None:
    """Save the first screen, a light and a dark view of figures, and a phone."""
    folder.mkdir(parents=True, exist_ok=True)
    with browser() as one:
        one.size(1280, 800)
        one.colours("light")
        one.open(page.resolve().as_uri())
        one.picture(folder / "report-first-screen.png")
        for scheme in ("light", "dark"):
            one.colours(scheme)
            one.run("document.querySelector('#accuracy').scrollIntoView({behavior: 'instant'})")
            one.settle()
            one.picture(folder / f"report-{scheme}.png")
        one.colours("light")
        one.size(390, 844, phone=True, ratio=2)
        one.open(page.resolve().as_uri())
        one.picture(folder / "report-phone.png")


if __name__ == "__main__":
    take_pictures(Path(sys.argv[1]), Path(sys.argv[2]))
