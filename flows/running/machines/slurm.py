"""Jobs of SLURM in the place of child processes: submitted, followed, and ended by SLURM's commands.

The job runs on a machine that sees the study's folder under this path. Its batch script is the user's, or SCRIPT: it
starts the command that it is given on every node of the job, and writes the exit status, by which a study knows the
end of the job also where SLURM keeps no accounts. That command is `python -m flows.running.machines.slurm_node`.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from flows.running.processes import follow, wait_unless_stopping
from flows.study.configuration import Study
from pipeline.errors import InputError
from pipeline.storage.files import write_text_atomically

SCRIPT = """#!/bin/bash
#SBATCH --signal=TERM@90
srun "$@"
echo $? > "$DREAMER_STATUS"
"""
IN_JOB = "flows.running.machines.slurm_node"
POLL_SECONDS = 5.0
STATUS_SECONDS = 60.0  # for a status to appear on a network file system, after the job has left the queue
GONE = "Invalid job id"
UNKNOWN = "UNKNOWN"  # SLURM does not answer: the job may wait or run
QUEUED = ("PENDING", "CONFIGURING")  # states of a job whose command has not begun


def run_job(
    study: Study,
    module: str,
    arguments: Sequence[str],
    *,
    log: Path,
    tick: Callable[[], None] = lambda: None,
    environment: Mapping[str, str] | None = None,
    ranks: int = 1,
    nodes: int = 1,
) -> None:
    """Run `python -m module arguments` as a job to its end; stops, and raises, as `run_module` does.

    The job asks for `ranks` GPUs on each of `nodes` machines, unless the study trains on CPUs. `tick` is not called
    while the job waits in the queue.
    """
    wait_unless_stopping(0)
    job = Job(
        module,
        arguments,
        log=log,
        name=f"{study.name}-{module.rpartition('.')[2]}",
        script=study.compute.script,
        environment=environment or {},
        ranks=ranks,
        nodes=nodes,
        gpus=study.training.device != "cpu",
    )

    def tick_unless_queued() -> None:
        if not job.queued:
            tick()

    follow(job, f"{module} {' '.join(arguments)}", tick_unless_queued)


class Job:
    """One job: `python -m module arguments` by `ranks` processes on each of `nodes` machines; output goes to `log`.

    A note beside the log holds the command, from before the job is submitted, and the job's number, once SLURM has
    told it. A job with this command that a killed study has left in the queue is followed; one with another command is
    ended first. SLURM finds a job whose number is not in the note by its name, which belongs to this log alone. Raises
    InputError where SLURM refuses the job.
    """

    def __init__(
        self,
        module: str,
        arguments: Sequence[str],
        *,
        log: Path,
        name: str,
        script: Path | None = None,
        environment: Mapping[str, str],
        ranks: int = 1,
        nodes: int = 1,
        gpus: bool = True,
    ) -> None:
        self.log = log
        self._note, self._status = log.with_suffix(".job"), log.with_suffix(".status").absolute()
        self._looked, self._gone, self._seen = 0.0, 0.0, QUEUED[0]
        place = ["--nodes", str(nodes), "--ranks", str(ranks)]
        self._command = [sys.executable, "-m", IN_JOB, *place, module, "--", *arguments]
        self._name = f"{name}-{hashlib.blake2b(bytes(log.absolute()), digest_size=6).hexdigest()}"
        self.number = self._left()
        if not self.number:
            asked = ["--nodes", str(nodes), "--ntasks-per-node", "1"]
            asked += ["--gpus-per-node", str(ranks)] if gpus else []
            self._submit(name, asked, script, environment)
        self._write_note()

    def _left(self) -> str:
        """Return the number of the job that an earlier study left in the queue; "" where there is none."""
        try:
            note = json.loads(self._note.read_text())
        except (FileNotFoundError, ValueError):
            return ""
        self.number = note["job"] or _number(self._name)
        if not self.number or self._status.exists() or not self._state():
            return ""
        if note["command"] == self._command:
            return self.number
        self.signal(signal.SIGTERM)
        while self._state():
            wait_unless_stopping(POLL_SECONDS)
        return ""

    def _submit(self, name: str, asked: list[str], script: Path | None, environment: Mapping[str, str]) -> None:
        """Submit the job, with options that say which machines are asked for."""
        self._status.unlink(missing_ok=True)
        self.log.parent.mkdir(parents=True, exist_ok=True)
        if script is None:
            script = self.log.with_suffix(".sh")
            write_text_atomically(script, SCRIPT)
        self._write_note()  # without a number: a study that is killed now leaves a job that is found by its name
        files = ["--output", str(self.log.absolute()), "--open-mode", "append", "--chdir", os.getcwd()]
        variables = {**os.environ, "OMP_NUM_THREADS": "1", **environment, "DREAMER_STATUS": str(self._status)}
        command = ["sbatch", "--parsable", "--job-name", self._name, *files, *asked, str(script), *self._command]
        submitted = _slurm(command, variables)
        if submitted.returncode:
            raise InputError(f"SLURM refuses the job {name!r}: {submitted.stderr.strip()}")
        self.number = submitted.stdout.strip().partition(";")[0]

    def _write_note(self) -> None:
        write_text_atomically(self._note, json.dumps({"job": self.number, "command": self._command}))

    def poll(self) -> int | None:
        """Return None while the job waits or runs, then its exit status; 1 where the job was ended without one."""
        if self._status.exists() and (text := self._status.read_text().strip()):
            return int(text)
        now = time.monotonic()
        if now - self._looked >= POLL_SECONDS:
            self._looked, state = now, self._state()
            self._seen = self._seen if state == UNKNOWN else state
            self._gone = 0.0 if state else self._gone or now
        return 1 if self._gone and now - self._gone >= STATUS_SECONDS else None

    def wait(self, seconds: float) -> None:
        """Sleep so many seconds, also where the job ends earlier: SLURM is not asked meanwhile."""
        time.sleep(seconds)

    @property
    def queued(self) -> bool:
        """Tell whether the job waited for its machines when `poll` last looked."""
        return self._seen in QUEUED and not self._status.exists()

    def signal(self, number: signal.Signals) -> None:
        """Let SLURM end the job: SIGTERM to its processes, and SIGKILL where they do not end; SIGKILL at once."""
        _slurm(["scancel", *(["--signal=KILL", "--full"] if number == signal.SIGKILL else []), self.number])

    def kill(self) -> None:
        """End the job unless it has ended."""
        if self.poll() is None:
            self.signal(signal.SIGTERM)

    def last_line(self) -> str:
        """Return the final line of the log; for a job without an exit status what SLURM says of the job."""
        lines = self.log.read_text(errors="replace").strip().splitlines() if self.log.exists() else []
        line = lines[-1] if lines else "no output"
        if self._status.exists():
            return line
        told = _slurm(["sacct", "--noheader", "--allocations", "--parsable2", "--format=State", "--jobs", self.number])
        state = told.stdout.strip() or "of unknown state"
        return f"job {self.number} ended without an exit status ({state}); its last line was: {line}"

    def _state(self) -> str:
        """Ask SLURM for the state of the job; "" when the job has left the queue."""
        told = _slurm(["squeue", "--noheader", "--format=%T", "--jobs", self.number])
        if told.returncode and GONE not in told.stderr:
            return UNKNOWN
        return told.stdout.strip()


def _number(name: str) -> str:
    """Ask SLURM for the number of the job with this name; "" where none is in the queue."""
    told = _slurm(["squeue", "--noheader", "--format=%i", "--user", str(os.getuid()), "--name", name])
    if told.returncode:
        raise InputError(f"SLURM does not tell whether the job {name!r} is in the queue: {told.stderr.strip()}")
    return told.stdout.strip()


def _slurm(command: Sequence[str], environment: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run one of SLURM's commands, which Ctrl-C does not reach. Raises InputError where a needed one is not there."""
    options = {"capture_output": True, "text": True, "check": False, "start_new_session": True}
    try:
        return subprocess.run(command, env=environment, **options)
    except FileNotFoundError:
        if command[0] == "sacct":
            return subprocess.CompletedProcess(command, 1, "", "")
        raise InputError(f"compute.pool is slurm, but this machine has no command {command[0]!r}") from None
