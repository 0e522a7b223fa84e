"""The `dreamer` command: run one subcommand, and turn errors and signals into one line and an exit
status."""

from __future__ import annotations

import errno
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib import import_module

from dreamer_study.flows.commands.parser import parser
from dreamer_study.flows.jobs import BAD_INPUT, Failed, Stopped
from dreamer_study.flows.progress.reports import end_now, printable
from dreamer_study.pipeline.errors import InputError

BAD_PLACES = (errno.EROFS, errno.ENAMETOOLONG)
BAD_PATHS = (
    FileExistsError,
    FileNotFoundError,
    IsADirectoryError,
    NotADirectoryError,
    PermissionError,
)

STOPPED = "dreamer: stopped; run the same command again to go on from here"
# seconds to end in after a signal; a run waits for its trainers to save their states
GRACE, LONG_GRACE = 3.0, 40.0
# Commands that do more than print; the others may be left by their reader (head, less).
WORKING = ("new", "run", "verify", "clean", "lm-eval", "download", "export", "publish", "intervals")


def _trust_no_modules_here() -> None:
    """Take no module from the current folder, in this process and all that it starts: its files may
    be anybody's."""
    os.environ["PYTHONSAFEPATH"] = "1"
    if not sys.flags.safe_path and sys.path and sys.path[0] in ("", os.getcwd()):
        del sys.path[0]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status (0 done, 1 failed, 2 bad input, 130 or 143 stopped
    by a signal)."""
    if arguments is None:
        _trust_no_modules_here()
    status = _run(list(sys.argv[1:] if arguments is None else arguments))
    # libraries have nothing to say after our one line, at the interpreter's end
    if arguments is None and status:
        end_now(status)
    return status


def _run(given: list[str]) -> int:
    """Run one subcommand with the signals that stop it taken care of; returns the exit status."""
    options = parser().parse_args(given)
    module, function = options.command.split(":")
    # a compiled library that is being imported answers an exception by a crash
    with handling(_end_at_once):
        command = getattr(import_module(f"dreamer_study.flows.commands.{module}"), function)
    signals: list[int] = []
    grace = LONG_GRACE if given[0] == "run" else GRACE
    with handling(partial(_note, signals, grace)):
        try:
            status = command(options) or 0
            sys.stdout.flush()
            return status
        except BaseException as error:
            if signals:  # DuckDB and Prefect answer a signal by errors of their own
                print(STOPPED, file=sys.stderr)
                return 128 + signals[0]
            return _status_of(error, only_prints=given[0] not in WORKING)


def _status_of(error: BaseException, *, only_prints: bool) -> int:
    """Print an error that a user can understand as one line; returns the exit status. Raises any
    other error.

    Where the reader of our output (head, less) has gone, a command that only prints has done all
    that it was asked for.
    """
    if isinstance(error, BrokenPipeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if only_prints:
            return 0
    # a view or query that is to read or write another file
    reaches = type(error).__name__ == "PermissionException"
    # in whatever query has met it
    if "duckdb" in type(error).__module__ and (reaches or "Corrupt" in str(error)):
        from dreamer_study.sql.connection import one_line

        error = InputError(one_line(error))
    if not isinstance(error, InputError | Failed | Stopped | OSError):
        raise error
    place = isinstance(error, OSError) and error.filename and error.strerror
    said = f"{error.filename}: {error.strerror}" if place else str(error)
    print(f"dreamer: {printable(said)}", file=sys.stderr)
    bad_place = isinstance(error, BAD_PATHS) or (
        isinstance(error, OSError) and error.errno in BAD_PLACES
    )
    return BAD_INPUT if bad_place or isinstance(error, InputError) else 1


@contextmanager
def handling(handler: Callable[[int, object], None]) -> Iterator[None]:
    """Let `handler` answer Ctrl-C and SIGTERM during the block."""
    before = {number: signal.signal(number, handler) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end_at_once(number: int, _: object) -> None:
    """End this process without a word of any library; children get SIGTERM from the system."""
    os.write(2, f"{STOPPED}\n".encode())
    os._exit(128 + number)


def _note(signals: list[int], grace: float, number: int, _: object) -> None:
    """Note a signal, and end what is being done by the exception that Python has for the signal.

    A library that does not listen, as DuckDB within some queries, is given `grace` seconds.
    """
    if not signals:
        last = threading.Timer(grace, _end_at_once, [number, None])
        last.daemon = True
        last.start()
    signals.append(number)
    raise KeyboardInterrupt if number == signal.SIGINT else SystemExit(128 + number)


if __name__ == "__main__":
    sys.exit(main())
