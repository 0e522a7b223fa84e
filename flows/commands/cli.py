"""The `dreamer` command: run one subcommand; errors and signals become one line and a status."""

from __future__ import annotations

import argparse
import codecs
import errno
import locale
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from importlib import import_module
from io import TextIOWrapper

from dreamer_study.flows.commands.help import refusal
from dreamer_study.flows.commands.parser import parse
from dreamer_study.flows.commands.unheard_signals import Watch
from dreamer_study.flows.jobs import BAD_INPUT, Failed, Stopped
from dreamer_study.flows.progress.reports import VERBOSE, end_now, printable, writing
from dreamer_study.model.processes import open_standard_streams, stopping_signals
from dreamer_study.pipeline.errors import (
    InputError,
    check_addresses,
    is_full_disk,
    is_short_of_memory,
    short_of_memory,
)

_UTF8 = "PYTHONUTF8"
BAD_PLACES = (errno.EROFS, errno.ENAMETOOLONG)
BAD_PATHS = (
    FileExistsError,
    FileNotFoundError,
    IsADirectoryError,
    NotADirectoryError,
    PermissionError,
)

STOPPED = "dreamer: stopped; run the same command again to continue from here"
# seconds to end in after a signal
GRACE = 3.0
LONG_GRACE = 40.0  # of a run, which waits for its trainers to save their states
ADDRESSES = 1e9  # bytes that every command reserves: below, libraries crash or try for ever
# Commands that do more than print; the others may be left by their reader (head, less).
WORKING = ("run", "verify", "clean", "lm-eval", "download", "export", "publish", "intervals")


def _trust_no_modules_here() -> None:
    """Take no module from the current folder, here and in child processes: it may be anybody's."""
    os.environ["PYTHONSAFEPATH"] = "1"
    if not sys.flags.safe_path and sys.path and sys.path[0] in ("", os.getcwd()):
        del sys.path[0]


def _speak_utf8() -> None:
    """Begin again in Python's UTF-8 mode where the locale has another encoding.

    Our files are UTF-8, and so are the texts of data, here and in child processes.
    """
    encoding = codecs.lookup(locale.getpreferredencoding(do_setlocale=False)).name
    if encoding != "utf-8" and os.environ.get(_UTF8) != "1":
        os.environ[_UTF8] = "1"
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
    for stream in (sys.stdout, sys.stderr):
        # PYTHONIOENCODING may ask for an encoding that lacks signs such as ≥
        if isinstance(stream, TextIOWrapper) and codecs.lookup(stream.encoding).name != "utf-8":
            stream.reconfigure(errors="replace")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command, and return the exit status.

    `EXIT_STATUSES` of the parser says what each means. Without `arguments` they are those of this
    process.
    """
    if arguments is not None:
        return _run(list(arguments))
    open_standard_streams()
    _speak_utf8()
    _trust_no_modules_here()
    status = _run(sys.argv[1:], Watch(_say_and_end, GRACE))
    if status:
        # libraries have nothing to say after our one line, at the interpreter's end
        end_now(status)
    return status


def _run(given: list[str], watch: Watch | None = None) -> int:
    """Run one subcommand with the signals that stop it taken care of; returns the exit status."""
    options = parse(given)
    if not options.command:
        return 0
    module, function = options.command.split(":")
    only_prints = options.called not in WORKING
    # a compiled library that is being imported answers an exception by a crash
    try:
        check_addresses(ADDRESSES, "dreamer")
        with handling(_end_at_once):
            command = getattr(import_module(f"dreamer_study.flows.commands.{module}"), function)
    except (InputError, ImportError, MemoryError, OSError, RuntimeError) as error:
        return _status_of(error, only_prints=only_prints)
    signals: list[int] = []
    if watch and options.called == "run":
        watch.set_grace(LONG_GRACE)
    with handling(partial(_note, signals)), writing(options.verbosity):
        try:
            with _output_of(options):
                status = command(options) or 0
            sys.stdout.flush()
            return status
        except BaseException as error:
            if signals:  # DuckDB and Prefect answer a signal by errors of their own
                print(STOPPED, file=sys.stderr)
                return 128 + signals[0]
            if options.verbosity == VERBOSE:
                traceback.print_exception(error)
            return _status_of(error, only_prints=only_prints)


def _output_of(options: argparse.Namespace) -> AbstractContextManager[None]:
    """Keep standard output for the document, where one is asked for."""
    if not getattr(options, "json", False):
        return nullcontext()
    from dreamer_study.flows.commands.documents import nothing_else_printed

    return nothing_else_printed()


def _status_of(error: BaseException, *, only_prints: bool) -> int:
    """Print an error that a user can understand as one line, and return the exit status.

    Raises any other error. Where the reader of our output (head, less) has gone, a command that
    only prints has done all that it was asked for.
    """
    if isinstance(error, BrokenPipeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if only_prints:
            return 0
    if _is_refused_by_duckdb(error):
        from dreamer_study.sql.results import with_file

        error = InputError(with_file(error))
    is_ours = isinstance(error, InputError | Failed | Stopped)
    has_no_memory = not is_ours and is_short_of_memory(error)
    if not (is_ours or has_no_memory or isinstance(error, OSError)):
        raise error
    message = short_of_memory(error) if has_no_memory else str(error)
    if not has_no_memory and isinstance(error, OSError) and error.filename and error.strerror:
        message = f"{error.filename}: {error.strerror}"
    if isinstance(error, OSError) and is_full_disk(error):
        message += "; make room, and run the same command again: what is finished is kept"
    sys.stderr.write(refusal(printable(message)))
    is_bad_path = isinstance(error, BAD_PATHS) or (
        isinstance(error, OSError) and error.errno in BAD_PLACES
    )
    return BAD_INPUT if is_bad_path or isinstance(error, InputError) else 1


def _is_refused_by_duckdb(error: BaseException) -> bool:
    """Tell whether DuckDB found a damaged file, or a view that is to read or write another file."""
    if "duckdb" not in type(error).__module__:
        return False
    reaches_elsewhere = type(error).__name__ == "PermissionException"
    return reaches_elsewhere or "Corrupt" in str(error)  # in whatever query has met it


@contextmanager
def handling(handler: Callable[[int, object], None]) -> Iterator[None]:
    """Let `handler` answer the signals that stop a command during the block."""
    before = {number: signal.signal(number, handler) for number in stopping_signals()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end_at_once(number: int, _: object) -> None:
    """End this process before any library can write, in Python's handler of a signal."""
    _say_and_end(number)


def _say_and_end(number: int) -> None:
    """Say that the command was stopped, and end it; the system sends SIGTERM to children."""
    os.write(2, f"{STOPPED}\n".encode())
    os._exit(128 + number)


def _note(signals: list[int], number: int, _: object) -> None:
    """Note a signal, and raise the exception that Python has for the signal.

    The `Watch` ends a library that ignores the exception, as DuckDB does in some queries.
    """
    signals.append(number)
    raise KeyboardInterrupt if number == signal.SIGINT else SystemExit(128 + number)


if __name__ == "__main__":
    sys.exit(main())
