"""Guess the variants of a study from the classes of a module, whose code is not run."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dreamer_study.flows.commands.start.entries import path_from
from dreamer_study.pipeline.errors import InputError, nearest

# arguments that every study gives; a variant's `config` gives others
GIVEN = ("vocabulary_size", "sequence_length")
# names of a size that may be anything, so that it can be searched for equal FLOPs
WIDTHS = "^(?!.*(ratio|mult|factor|layer)).*(forward|intermediate|d_ff|ffn|mlp|n_inner)"
# sizes that are guessed, by words in a name: the first that is found
HIDDEN = "d_model|n_embd|hidden|width|embed|dim|^(?!.*kernel).*size"
SIZES = {WIDTHS: 192, "head": 4, "layer|depth": 4, HIDDEN: 96, "": 4}


def variants_of(
    named: str,
    folder: Path,
    guessed: Mapping[str, int] = SIZES,
    *,
    also_hidden: bool = False,
) -> list[dict[str, Any]]:
    """List the classes of a module that can be models, as variants of a study.

    `named` is the path of the module, or `FILE:CLASS` for one class. Sizes are `guessed` from the
    names of arguments. A width is searched for equal FLOPs; `also_hidden`: of a class without, its
    hidden size. The module's code is not run.
    """
    file, _, wanted = named.partition(".py:")
    module = Path(f"{file}.py" if wanted else named)
    if not module.resolve().is_relative_to(folder.resolve()):
        raise InputError(
            f"{module} is not in the study's folder {folder.resolve()} or below; put it there"
        )
    try:
        statements = ast.parse(module.read_bytes()).body
    except (SyntaxError, ValueError) as error:
        raise InputError(f"{module}: not Python: {error}") from None
    classes = [statement for statement in statements if isinstance(statement, ast.ClassDef)]
    if wanted:
        names = [kind.name for kind in classes]
        if wanted not in names:
            raise InputError(f"{module}: has no class {wanted!r}{nearest(wanted, names)}")
        classes = [kind for kind in classes if kind.name == wanted]
    variants = []
    for kind in classes:
        sizes = _sizes_asked_for(kind)
        if sizes is not None:
            config = _guess_sizes(sizes, guessed)
            variant = {
                "name": kind.name,
                "module": f"{path_from(module, folder)}:{kind.name}",
                "config": config,
            }
            searched = _searched(sizes, also_hidden=also_hidden)
            if searched:
                variant["match"] = {"flops": searched}
            variants.append(variant)
    if not variants:
        raise InputError(
            f"{module}: no class has an `__init__` that takes {' and '.join(GIVEN)} by name"
            " (docs/own-architecture.md)"
        )
    return variants


def _sizes_asked_for(kind: ast.ClassDef) -> list[str] | None:
    """List the arguments, besides GIVEN, that a study must give to a class.

    None for a class that does not take GIVEN, which can be no model.
    """
    for statement in kind.body:
        if isinstance(statement, ast.FunctionDef) and statement.name == "__init__":
            arguments = statement.args
            names = [argument.arg for argument in arguments.args]
            by_name_alone = [argument.arg for argument in arguments.kwonlyargs]
            if not {*GIVEN} <= {*names, *by_name_alone}:
                return None
            # without `self`, and without those that have a default
            needed = names[1 : len(names) - len(arguments.defaults)]
            defaults = zip(by_name_alone, arguments.kw_defaults, strict=True)
            needed += [name for name, default in defaults if default is None]
            return [name for name in needed if name not in GIVEN]
    return None


def _guess_sizes(sizes: Sequence[str], guessed: Mapping[str, int]) -> dict[str, int]:
    """Guess the value of each size by words in its name: the first that is found."""
    return {
        size: next(value for words, value in guessed.items() if re.search(words, size))
        for size in sizes
    }


def _searched(sizes: Sequence[str], *, also_hidden: bool) -> str | None:
    """Return the size that is searched for equal FLOPs; None for none."""
    widths = [size for size in sizes if re.search(WIDTHS, size)]
    if not widths and also_hidden:
        widths = [size for size in sizes if re.search(HIDDEN, size)]
    return widths[0] if widths else None
