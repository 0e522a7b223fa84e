"""`dreamer completion`: print a script by which a shell completes commands, options and studies.

The script holds all that can be completed, so that completing starts no Python.
"""

from __future__ import annotations

import argparse
from typing import Any

from dreamer_study.flows.commands.help import FILES, STUDIES, preset_names
from dreamer_study.flows.commands.parser import parser
from dreamer_study.pipeline.errors import InputError


def completion(options: argparse.Namespace) -> None:
    """Print the script for a shell. Raises InputError where the package for scripts is missing."""
    try:
        import shtab
    except ImportError:
        raise InputError(
            "completion needs the package shtab: `pip install 'dreamer-study[completion]'`"
        ) from None

    def complete(what: str) -> Any:
        if what == STUDIES:
            return _presets_and_files()
        return shtab.FILE if what == FILES else shtab.DIRECTORY

    print(shtab.complete(parser(complete), shell=options.shell))


def _presets_and_files() -> dict[str, Any]:
    """Return how each shell completes presets, files and folders."""
    presets = " ".join(preset_names())
    return {
        "bash": "_dreamer_studies",
        "zsh": f"_alternative 'presets:preset:({presets})' 'files:file:_files'",
        "fish": f"(printf '%s\\n' {presets}; __fish_complete_path (commandline -ct))",
        "tcsh": "f",
        "preamble": {
            "bash": (
                "# $1 is the word to complete\n"
                "_dreamer_studies() {\n"
                f'  compgen -W "{presets}" -- "$1"\n'
                '  _shtab_compgen_files "$1"\n'
                "}\n"
            )
        },
    }
