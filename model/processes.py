"""Start child processes that are always ended: none outlives the process that has started it."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path

GRACE_SECONDS = 20.0  # between SIGTERM and SIGKILL
HOPELESS = 3
"""The exit status of a process that failed with good input, and would fail again: the disk is full,
memory was short twice, a loss is not finite, the model's own code fails."""
BAD_INPUT = "bad input: "
"""Begins the last line of a process that ends with status 2, as it was given bad input.

A status alone says little: code of the user's may end the process with any.
"""
TICK_SECONDS = 1.0

STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)
"""Signals that stop a command or a training, which saves its state.

A terminal that closes sends SIGHUP, and a scheduler of jobs SIGUSR1, some time before the end.
"""

TORCHRUN = (
    *("RANK", "LOCAL_RANK", "GROUP_RANK", "ROLE_RANK", "ROLE_NAME", "MASTER_ADDR", "MASTER_PORT"),
    *("WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_WORLD_SIZE", "ROLE_WORLD_SIZE"),
    *("TORCHELASTIC_RUN_ID", "TORCHELASTIC_USE_AGENT_STORE", "TORCHELASTIC_ERROR_FILE"),
)
"""Variables that tell a process which rank of which job it is.

Those of a surrounding job are not for its children.
"""

# PR_SET_PDEATHSIG (1) survives exec. The parent may have died before it was set: so its id is
# compared once more.
_BIND_TO_PARENT = """
import os, signal, sys
parent, ends_by = map(int, sys.argv[1:3])
if sys.platform == "linux":
    import ctypes
    ctypes.CDLL(None).prctl(1, ends_by)
    if os.getppid() != parent:
        sys.exit(1)
os.execv(sys.argv[3], sys.argv[3:])
"""


def bound_command(
    module: str, *arguments: str, ends_by: signal.Signals = signal.SIGTERM
) -> list[str]:
    """Return the command of a child that gets a signal when this process dies.

    The child is `python -P -m module arguments`. With -P no module is taken from the current
    folder, whose files may be anybody's. Linux sends the signal already when the thread that
    started the child ends: start children from a thread that outlives them.
    """
    bound = [sys.executable, "-P", "-c", _BIND_TO_PARENT, str(os.getpid()), str(int(ends_by))]
    return [*bound, sys.executable, "-P", "-m", module, *arguments]


def stopping_signals() -> tuple[signal.Signals, ...]:
    """Return the signals of STOPPING but SIGHUP where that is ignored, as `nohup` wants it."""
    ignored = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    return tuple(one for one in STOPPING if not (ignored and one == signal.SIGHUP))


def open_standard_streams() -> None:
    """Let nowhere take the place of standard streams that were closed (`2>&-`), as by some daemons.

    The next file that is opened would get the number of a closed one, and what libraries print.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            nowhere = os.open(os.devnull, os.O_RDWR)  # the lowest free number
            if nowhere != number:
                os.dup2(nowhere, number)
                os.close(nowhere)
            os.set_inheritable(number, True)
        if getattr(sys, name) is None:
            mode = "w" if number else "r"
            setattr(sys, name, os.fdopen(number, mode, closefd=False))


class Child:
    """A process `python -m module arguments` in a session of its own.

    Its output is appended to the file `log`. With `ranks` above 1 there are `ranks` processes,
    started by torchrun's agent. With `asked` the process reads lines from its standard input and
    answers on its standard output (`ask`).
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
        # without parents: a study whose folder was moved must not continue
        log.parent.mkdir(exist_ok=True)
        if ranks > 1:
            arguments = (str(ranks), module, *arguments)
            module = "dreamer_study.model.training.start_ranks"
        outside = {name: value for name, value in os.environ.items() if name not in TORCHRUN}
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                bound_command(module, *arguments),
                stdin=subprocess.PIPE if asked else subprocess.DEVNULL,
                stdout=subprocess.PIPE if asked else output,
                stderr=output,
                start_new_session=True,
                env={**outside, "OMP_NUM_THREADS": "1", **(environment or {})},
            )

    def poll(self) -> int | None:
        """Return None while the process runs, then its exit status."""
        return self._process.poll()

    def ask(self, line: str, tick: Callable[[], object] = lambda: None) -> str:
        """Send a line, wait for the answer and return it; "" where the process has ended instead.

        Calls `tick` every second meanwhile, and at the end.
        """
        child = self._process
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

    def wait(self, tick: Callable[[], object] = lambda: None) -> int:
        """Wait until the process has ended, and return its exit status.

        Calls `tick` every second meanwhile, and at the end.
        """
        status = self._process.poll()
        while status is None:
            tick()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(TICK_SECONDS)
            status = self._process.poll()
        tick()
        return status

    def finish(self) -> int:
        """Close the standard input of an asked process, wait for its end; return its status."""
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        return self._process.wait()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the process and all of its session."""
        # where all have ended; macOS refuses where one is a zombie
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)

    def kill(self) -> None:
        """Send SIGKILL to a process that still runs, and wait for its end."""
        if self._process.poll() is None:
            self.signal(signal.SIGKILL)
            self._process.wait()

    def last_line(self) -> str:
        """Return the final line of the log."""
        if not self.log.exists():
            return "no output"
        lines = self.log.read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else "no output"


def stop(children: Iterable[Child], grace: float = GRACE_SECONDS) -> None:
    """End processes: SIGTERM, a grace in which they save their states, then SIGKILL."""
    children = list(children)
    for child in children:
        child.signal(signal.SIGTERM)
    deadline = time.monotonic() + grace
    while time.monotonic() < deadline and any(child.poll() is None for child in children):
        time.sleep(0.05)
    for child in children:
        child.signal(signal.SIGKILL)
