"""Start, watch and stop child processes: the ranks of one command, as `torchrun` would start them.

Every child has a session of its own and, on Linux, gets SIGTERM when the process that started it dies. Linux sends this
signal already when the thread that started the child ends: start children from a thread that outlives them.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path

GRACE_SECONDS = 20.0
"""Time between SIGTERM and SIGKILL, and for ranks to notice that another has failed."""

TICK_SECONDS = 1.0

TORCHRUN = (
    *("RANK", "LOCAL_RANK", "GROUP_RANK", "ROLE_RANK", "ROLE_NAME", "MASTER_ADDR", "MASTER_PORT"),
    *("WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_WORLD_SIZE", "ROLE_WORLD_SIZE"),
    *("TORCHELASTIC_RUN_ID", "TORCHELASTIC_USE_AGENT_STORE", "TORCHELASTIC_ERROR_FILE"),
)
"""Variables that tell a process which rank of which job it is: those of a surrounding job are not for its children."""

# PR_SET_PDEATHSIG (1) survives exec; the parent may have died before it was set, hence the second look.
_BIND_TO_PARENT = """
import os, signal, sys
parent = int(sys.argv[1])
if sys.platform == "linux":
    import ctypes
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)
    if os.getppid() != parent:
        sys.exit(1)
os.execv(sys.argv[2], sys.argv[2:])
"""


def rank_environments(count: int) -> list[dict[str, str]]:
    """Return the environment variables of `count` ranks on this machine, by torchrun's names; none for one alone."""
    if count == 1:
        return [{}]
    common = {
        "WORLD_SIZE": str(count),
        "LOCAL_WORLD_SIZE": str(count),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
    }
    return [{"RANK": str(rank), "LOCAL_RANK": str(rank), **common} for rank in range(count)]


def free_port() -> int:
    """Find a TCP port that was free a moment ago."""
    with socket.create_server(("", 0)) as server:
        return server.getsockname()[1]


def bound_command(module: str, *arguments: str) -> list[str]:
    """Return the command for `python -P -m module arguments` in a child that gets SIGTERM when this process dies.

    With -P no module is taken from the current folder, whose files may be anybody's.

    On Linux also when the thread that starts the child ends.
    """
    bound = [sys.executable, "-P", "-c", _BIND_TO_PARENT, str(os.getpid())]
    return [*bound, sys.executable, "-P", "-m", module, *arguments]


class ProcessGroup:
    """The processes (ranks) of one `python -m module arguments`; their output is appended to the file `log`.

    With `asked`, a single process reads lines from its standard input and answers on its standard output (`ask`).
    """

    def __init__(
        self,
        module: str,
        *arguments: str,
        log: Path,
        environment: Mapping[str, str] | None = None,
        ranks: int = 1,
        asked: bool = False,
    ) -> None:
        self.log = log
        self._children: list[subprocess.Popen[bytes]] = []
        self._failed: tuple[int, float] | None = None  # the status of the rank that failed first, and when it was seen
        log.parent.mkdir(exist_ok=True)  # none above: a study whose folder was moved must not go on
        command = bound_command(module, *arguments)
        outside = {name: value for name, value in os.environ.items() if name not in TORCHRUN}
        inherited = {**outside, "OMP_NUM_THREADS": "1", **(environment or {})}
        try:
            with log.open("ab") as output:
                for variables in rank_environments(ranks):
                    child = subprocess.Popen(
                        command,
                        stdin=subprocess.PIPE if asked else subprocess.DEVNULL,
                        stdout=subprocess.PIPE if asked else output,
                        stderr=output,
                        start_new_session=True,
                        env={**inherited, **variables},
                    )
                    self._children.append(child)
        except BaseException:
            self.kill()
            raise

    def poll(self) -> int | None:
        """Return None while ranks run, then the exit status: 0, or that of the rank that failed first.

        Where a rank has failed, the others are killed if they do not end within GRACE_SECONDS.
        """
        statuses = [child.poll() for child in self._children]
        if self._failed is None and any(statuses):
            self._failed = min(filter(None, statuses)), time.monotonic()  # one that was killed explains the others
        if None in statuses:
            if self._failed is None or time.monotonic() - self._failed[1] < GRACE_SECONDS:
                return None
            self.kill()
        return self._failed[0] if self._failed else 0

    def ask(self, line: str, tick: Callable[[], object] = lambda: None) -> str:
        """Send a line, wait for the answer and return it; "" where the process has ended instead.

        Calls `tick` every second meanwhile, and at the end.
        """
        (child,) = self._children
        try:
            child.stdin.write(line.encode() + b"\n")
            child.stdin.flush()
        except BrokenPipeError:
            return ""
        answered = select.poll()
        answered.register(child.stdout, select.POLLIN)
        tick()
        while not answered.poll(1000 * TICK_SECONDS):
            tick()
        tick()
        return child.stdout.readline().decode().rstrip("\n")

    def wait(self, seconds: float) -> None:
        """Wait until one of the ranks that `poll` last saw running has ended, `seconds` at most."""
        if not (living := [child.pid for child in self._children if child.returncode is None]):
            return
        try:
            with ExitStack() as opened:
                ends = select.poll()
                for process in living:
                    number = os.pidfd_open(process)
                    opened.callback(os.close, number)
                    ends.register(number, select.POLLIN)
                ends.poll(1000 * seconds)
        except (AttributeError, OSError):  # not Linux, or one that does not allow this
            time.sleep(min(seconds, 0.3))

    def finish(self) -> int:
        """Close the standard input of a process that is asked, wait for its end, and return its exit status."""
        (child,) = self._children
        with suppress(BrokenPipeError):
            child.stdin.close()
        return child.wait()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to every rank and all that the rank has started."""
        for child in self._children:
            with suppress(ProcessLookupError):  # all of them have ended
                os.killpg(child.pid, number)

    def kill(self) -> None:
        """Send SIGKILL to the ranks that still run, and wait for their end."""
        for child in self._children:
            if child.poll() is None:
                with suppress(ProcessLookupError):
                    os.killpg(child.pid, signal.SIGKILL)
                child.wait()

    def last_line(self) -> str:
        """Return the final line of the log."""
        lines = self.log.read_text(errors="replace").strip().splitlines() if self.log.exists() else []
        return lines[-1] if lines else "no output"


def stop(groups: Iterable[ProcessGroup], grace: float = GRACE_SECONDS) -> None:
    """End groups of processes: SIGTERM, a grace in which they save their states, SIGKILL to what is left of them."""
    groups = list(groups)
    for group in groups:
        group.signal(signal.SIGTERM)
    deadline = time.monotonic() + grace
    while time.monotonic() < deadline and any(group.poll() is None for group in groups):
        time.sleep(0.05)
    for group in groups:
        group.signal(signal.SIGKILL)
