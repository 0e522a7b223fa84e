"""Options that several commands have, in the same words everywhere."""

from __future__ import annotations

from dreamer_study.flows.commands.help import FOLDERS, STUDIES, Command

A_STUDY = "a preset, a study file (YAML), or the folder of a study"
RESULTS = (
    "a preset, a study file, the folder of a study, a results file (.duckdb) or a published folder"
)


def add_study(to: Command, help: str = A_STUDY) -> None:
    """Add the argument STUDY, and the option where the study writes."""
    to.option("study", metavar="STUDY", complete=STUDIES, help=help)
    add_root(to, "the folder that the study writes to (default runs/<name>)")


def add_root(to: Command, help: str) -> None:
    to.option("--root", metavar="FOLDER", complete=FOLDERS, help=help)


def add_mirror(to: Command) -> None:
    to.option(
        "--mirror",
        metavar="FOLDER",
        complete=FOLDERS,
        help="take data sets from this folder, laid out as on the hub, before asking the hub; later"
        " commands remember the folder",
    )


def add_trust(to: Command) -> None:
    to.flag("--trust-code", "let the models and tasks of this study run their Python code")


def add_json(to: Command) -> None:
    to.flag(
        "--json", "print one JSON document on standard output (docs/command.md lists its fields)"
    )
