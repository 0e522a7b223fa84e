"""Build parsers of subcommands whose help is folded at words, and refusals in one line."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import dreamer_study.flows.atlas
import dreamer_study.flows.study.presets
from dreamer_study.flows.progress.colour import FAILED, painted
from dreamer_study.flows.progress.folding import fold, reading_width, width_of
from dreamer_study.flows.progress.reports import QUIET, VERBOSE
from dreamer_study.pipeline.errors import nearest

COLUMN = 24  # at which the help of an option begins
# what the shell completes: files, folders, or presets and files (`completion.py` has the shells')
FILES = "files"
FOLDERS = "folders"
STUDIES = "studies"
Example = tuple[str, str]
"""A command that can be typed as it is, and what it is for."""


def preset_names() -> list[str]:
    """List the presets by their files, without loading what reads them."""
    folder = Path(dreamer_study.flows.study.presets.__path__[0])
    return sorted(file.stem for file in folder.glob("*.yaml"))


def world_names() -> list[str]:
    """List the worlds of the atlas by their folders, without loading what reads them."""
    folder = Path(dreamer_study.flows.atlas.__path__[0])
    return sorted(recipe.parent.name for recipe in folder.glob("worlds/*/recipe.yaml"))


class OneLine(argparse.ArgumentParser):
    """Refuse wrong arguments in one line, as all other bad input.

    The usage is in the help that the line names.
    """

    def error(self, message: str) -> NoReturn:
        if message.startswith("the following arguments are required: STUDY"):
            command = self.prog.removeprefix("dreamer ")
            presets = ", ".join(preset_names())
            message = (
                f"{command} needs a STUDY: a preset ({presets}), a study file or a study's folder"
            )
        self.exit(2, refusal(f"{message}; `{self.prog} --help` shows how"))

    def parse_known_args(self, *given: Any, **options: Any) -> tuple[argparse.Namespace, list[str]]:
        """Refuse an unknown option here, where the name of its subcommand is known."""
        options_known, unknown = super().parse_known_args(*given, **options)
        if unknown:
            known = re.findall(r"--([a-z-]+)", self.format_usage())
            meant = nearest(unknown[0].lstrip("-").partition("=")[0], known)
            self.error(f"unrecognized arguments: {' '.join(unknown)}{meant}")
        return options_known, unknown


def refusal(message: str) -> str:
    """Make the line, for standard error, with which the command refuses or fails."""
    begin = "dreamer:"
    folded = fold(f"{begin} {message}", width_of(sys.stderr), "  ")
    return f"{painted(begin, FAILED, sys.stderr)}{folded.removeprefix(begin)}\n"


class Commands:
    """The subcommands as they are added; `about` keeps what each does, for the help of them all.

    `complete` puts on each argument what the shell completes for the argument; texts are then not
    folded, as shells show them in a form of their own.
    """

    def __init__(
        self, top: argparse.ArgumentParser, complete: Callable[[str], Any] | None = None
    ) -> None:
        self.about: dict[str, str] = {}
        self.examples: dict[str, Sequence[Example]] = {}
        self.complete = complete
        self.width = None if complete else help_width()
        self._subparsers = top.add_subparsers(
            metavar="COMMAND", prog="dreamer", help=None if complete else argparse.SUPPRESS
        )

    def add(
        self,
        name: str,
        command: str,
        about: str,
        *,
        examples: Sequence[Example],
        more: str = "",
        **options: Any,
    ) -> Command:
        """Add a subcommand: `about` in one line, `more` in its own help, and its examples."""
        self.about[name] = about
        self.examples[name] = examples
        description = fold(f"{about} {more}".strip(), self.width)
        shown = [
            f"  {typed}\n{fold(f'      {use}', self.width, '      ')}" for typed, use in examples
        ]
        sub = self._subparsers.add_parser(
            name,
            help=about if self.complete else None,
            description=description,
            epilog="\n".join(["examples:", *shown]),
            formatter_class=formatter(self.width),
            **options,
        )
        sub.set_defaults(command=command, called=name)
        added = Command(sub, self)
        if "prefix_chars" not in options:  # a command whose arguments are not ours has none of ours
            add_verbosity(added.group("what is written besides the answer"))
        return added


class Command:
    """A subcommand, or a group of its options, to which options are added."""

    def __init__(self, parser: Any, commands: Commands) -> None:
        self._parser = parser
        self._commands = commands

    def option(self, *names: str, help: str, complete: str = "", **settings: Any) -> None:
        """Add an option, or an argument where the name has no dashes."""
        width = self._commands.width
        folded = fold(help, width - COLUMN if width else None)
        action = self._parser.add_argument(*names, help=folded, **settings)
        if complete and self._commands.complete:
            action.complete = self._commands.complete(complete)

    def flag(self, name: str, help: str) -> None:
        """Add an option without a value."""
        self.option(name, action="store_true", help=help)

    def file(self, name: str, help: str, **settings: Any) -> None:
        """Add an option or argument that is the path of a file, or of several by `nargs`."""
        self.option(name, metavar="FILE", type=Path, complete=FILES, help=help, **settings)

    def folder(self, name: str, help: str, **settings: Any) -> None:
        """Add an option or argument that is the path of a folder."""
        self.option(name, metavar="FOLDER", type=Path, complete=FOLDERS, help=help, **settings)

    def number(self, name: str, help: str, default: int | None = None) -> None:
        """Add an option that is a whole number."""
        self.option(name, type=int, metavar="N", default=default, help=help)

    def real(self, name: str, metavar: str, help: str) -> None:
        """Add an option that is a number, also with decimals."""
        self.option(name, type=float, metavar=metavar, help=help)

    def repeatable(self, name: str, metavar: str, help: str, **settings: Any) -> None:
        """Add an option that may be given several times."""
        self.option(name, metavar=metavar, action="append", default=[], help=help, **settings)

    def choice(self, name: str, choices: Sequence[str], help: str, **settings: Any) -> None:
        """Add an option that is one of some words."""
        self.option(name, choices=choices, help=help, **settings)

    def one_of(self) -> Command:
        """Add options of which at most one may be given."""
        return Command(self._parser.add_mutually_exclusive_group(), self._commands)

    def group(self, title: str) -> Command:
        """Add options that the help lists below a title."""
        return Command(self._parser.add_argument_group(title), self._commands)


def help_width() -> int:
    """Return the columns of a help text."""
    return reading_width() - 2


def formatter(width: int | None) -> Callable[..., argparse.HelpFormatter]:
    """Return the form of a help text, whose texts have been folded already."""
    return partial(
        argparse.RawTextHelpFormatter, width=width or help_width(), max_help_position=COLUMN
    )


def add_verbosity(to: Command) -> None:
    """Add -q and -v, which every command has."""
    how_much = to.one_of()
    for letter, name, help in (
        ("-q", QUIET, "write answers and errors only: no progress, no notes"),
        ("-v", VERBOSE, "write every report of progress, and where in the code an error arose"),
    ):
        how_much.option(
            letter,
            f"--{name}",
            dest="verbosity",
            action="store_const",
            const=name,
            default=argparse.SUPPRESS,
            help=help,
        )
