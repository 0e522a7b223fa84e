"""Parse the arguments of `dreamer`: its subcommands with their options, in groups."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any

from dreamer_study import __version__
from dreamer_study.flows.commands.arguments.begin import add_begin
from dreamer_study.flows.commands.arguments.data import add_data, add_store
from dreamer_study.flows.commands.arguments.results import add_results
from dreamer_study.flows.commands.arguments.run import add_run
from dreamer_study.flows.commands.help import (
    Command,
    Commands,
    OneLine,
    add_verbosity,
    formatter,
    help_width,
    preset_names,
)
from dreamer_study.flows.progress.folding import fold
from dreamer_study.flows.progress.reports import NORMAL
from dreamer_study.pipeline.errors import nearest

DESCRIPTION = f"""\
How many training tokens does each architecture need to reach the same accuracy?

dreamer compares training curves that you have (`dreamer factors`), and runs studies from raw \
public data to a report: it prepares the data, matches the models in FLOPs and parameters, trains \
them on the same tokens, evaluates every checkpoint, and computes the ratios of tokens with their \
confidence intervals.

A STUDY is a preset's name ({", ".join(preset_names())}), the path of a study file (YAML), or the \
folder of a study (runs/demo)."""
EXIT_STATUSES = {
    "0": "done; of `factors --below`: the ratio is below",
    "1": "failed, or a check did not hold (a damaged file, a failed training, a missed effect)",
    "2": "bad input: a wrong option, file or value; one line says which",
    "3": "of `factors --below`: the ratio is above",
    "4": "of `factors --below`: not yet known",
    "130": "stopped by Ctrl-C",
    "143": "stopped by SIGTERM; 129 by SIGHUP, 138 by SIGUSR1",
}
# Every command, in the groups in which the help lists them; the documents have an example of each.
GROUPS = {
    "begin": ("factors", "new", "list", "schema"),
    "run a study": ("run", "plan", "status", "checkpoints"),
    "read the results": ("report", "atlas", "sql", "compare", "items", "lm-eval"),
    "hand results on": ("export", "publish", "intervals"),
    "look at data": ("sources", "download", "dropped", "preview"),
    "look after what is stored": ("verify", "clean"),
    "set up the shell": ("completion",),
}
HELP = "help"  # `dreamer help run` is `dreamer run --help`


def parse(given: Sequence[str]) -> argparse.Namespace:
    """Parse arguments; ends the process after a help text, or with 2 for what is refused.

    `command` names the function that runs a subcommand, `<room>.<module>:<name>`; it is "" where no
    subcommand was given, and then the help has been printed.
    """
    top, commands = _build()
    words = [word for word in given if not word.startswith("-")]
    if words and words[0] == HELP:
        given = [*words[1:2], "--help"]
        words = words[1:]
    if words and words[0] not in commands.about:
        top.error(f"there is no command {words[0]!r}{nearest(words[0], commands.about)}")
    options = top.parse_args(given)
    if not options.command:
        top.print_help()
    return options


def parser(complete: Callable[[str], Any] | None = None) -> argparse.ArgumentParser:
    """Build the parser of all subcommands; `complete` is for shells (`completion.py`)."""
    return _build(complete)[0]


def examples() -> dict[str, list[str]]:
    """Return the examples in the help of each command."""
    return {name: [typed for typed, _ in shown] for name, shown in _build()[1].examples.items()}


def _build(
    complete: Callable[[str], Any] | None = None,
) -> tuple[argparse.ArgumentParser, Commands]:
    """Build the parser of all subcommands.

    A command's module is imported only when the command runs: `dreamer --help` answers at once.
    """
    width = help_width()
    top = OneLine(
        prog="dreamer",
        usage="dreamer [-h] [-V] [-q | -v] COMMAND ...",
        description=fold(DESCRIPTION, width),
        formatter_class=formatter(width),
    )
    top.add_argument("-V", "--version", action="version", version=f"dreamer {__version__}")
    top.set_defaults(command="", called="", verbosity=NORMAL)
    commands = Commands(top, complete)
    add_verbosity(Command(top, commands))
    add_begin(commands)
    add_run(commands)
    add_results(commands)
    add_data(commands)
    add_store(commands)
    top.epilog = _epilog(commands, width)
    return top, commands


def _epilog(commands: Commands, width: int) -> str:
    """List the commands by groups, and the exit statuses."""
    listed = {
        f"{group}:": {name: commands.about[name] for name in names}
        for group, names in GROUPS.items()
    }
    listed["exit status:"] = EXIT_STATUSES
    paragraphs = []
    for title, entries in listed.items():
        lines = [fold(f"  {name:<11} {about}", width, " " * 14) for name, about in entries.items()]
        paragraphs.append("\n".join([title, *lines]))
    return "\n\n".join([*paragraphs, "`dreamer COMMAND --help` has options and examples."])
