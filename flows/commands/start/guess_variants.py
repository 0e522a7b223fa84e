"""Guess the variants of a study from the classes of a module, whose code is not run."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dreamer_study.flows.commands.start.entries import path_from
from dreamer_study.pipeline.errors import InputError, nearest
from dreamer_study.reports.text.numbers import listed

# arguments that every study gives; a variant's `config` gives others
GIVEN = ("vocabulary_size", "sequence_length")
# names of a size that may be anything, so that it can be searched for equal FLOPs
WIDTHS = "^(?!.*(ratio|mult|factor|layer)).*(forward|intermediate|d_ff|ffn|mlp|n_inner)"
HIDDEN = "d_model|n_embd|hidden|width|embed|dim|^(?!.*kernel).*size"
# sizes that are guessed, by words in a name: the first that is found
SIZES = {WIDTHS: 192, "head": 4, "layer|depth": 4, HIDDEN: 96}
# names that surely are such sizes: of others, as head_size or state_size, a default stays
SURE = re.compile(
    r"(n_|num_)?(hidden_)?layers?|depth|(n_|num_)?(attention_)?heads?"
    r"|hidden_(size|dim)|d_model|n_embd|dim|embed(ding)?_(size|dim)|width"
)
# arguments that are no sizes
SWITCHES = {"drop": 0.0, "bias|^use_|^is_|^with_|causal|^tie": False}
OTHERS = 4  # what is guessed of an argument whose name says nothing

Guessed = int | float | bool


@dataclass(frozen=True)
class Argument:
    """An argument of a class: its name, and its default as Python, None where it has none.

    `needed` says that a study must give a value.
    """

    name: str
    default: Any
    needed: bool


def variants_of(
    named: str,
    folder: Path,
    sizes: Mapping[str, int] = SIZES,
    *,
    like_the_others: bool = False,
) -> list[dict[str, Any]]:
    """List the classes of a module that can be models, as variants of a study.

    `named` is the path of the module, or `FILE:CLASS` for one class. Values of arguments without a
    default are guessed from their names, `sizes` from words in a name. A width is searched for
    equal FLOPs. `like_the_others`: sizes with a default are guessed, too, so that the model is as
    large as those it is compared with; and of a class without a width its hidden size is searched.
    The module's code is not run. Raises InputError for a file that is no Python or lies elsewhere,
    and where no class can be a model.
    """
    file, _, wanted = named.partition(".py:")
    module = Path(f"{file}.py" if wanted else named)
    classes = _classes(module, folder, wanted)
    variants = []
    for kind in classes:
        arguments = _arguments(kind)
        if arguments is None or not {*GIVEN} <= {argument.name for argument in arguments}:
            continue
        own = [argument for argument in arguments if argument.name not in GIVEN]
        searched = _searched(own, also_hidden=like_the_others)
        config = {
            argument.name: _guess(argument, sizes, like_the_others=like_the_others)
            for argument in own
            if argument.needed
            or argument.name == searched
            or (like_the_others and _is_size(argument))
        }
        variant = {
            "name": kind.name,
            "module": f"{path_from(module, folder)}:{kind.name}",
            "config": config,
        }
        if searched:
            variant["match"] = {"flops": searched}
        variants.append(variant)
    if not variants:
        raise InputError(f"{module}: {_why_no_model(classes)} (docs/own-architecture.md)")
    return variants


def _classes(module: Path, folder: Path, wanted: str) -> list[ast.ClassDef]:
    """Read the classes of a module; of a class that is `wanted` by its name, this one."""
    if not module.resolve().is_relative_to(folder.resolve()):
        raise InputError(
            f"{module} is not in the study's folder {folder.resolve()} or below; put it there"
        )
    if module.is_dir() or module.suffix != ".py":
        raise InputError(
            f"{module}: name a Python file, or a class in one, such as my_models.py:GPT"
        )
    try:
        statements = ast.parse(module.read_bytes()).body
    except (SyntaxError, ValueError) as error:
        line = f":{error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        reason = error.msg if isinstance(error, SyntaxError) else str(error)
        raise InputError(f"{module}{line}: not Python: {reason}") from None
    for statement in statements:
        if isinstance(statement, ast.ImportFrom) and statement.level:
            raise InputError(
                f"{module}:{statement.lineno}: a study imports the file alone, without its package;"
                " import by the names of files in its folder, without a dot before them"
            )
    classes = [statement for statement in statements if isinstance(statement, ast.ClassDef)]
    names = [kind.name for kind in classes]
    if wanted and wanted not in names:
        has = f"; it has {listed(names)}" if names else ""
        raise InputError(f"{module}: has no class {wanted!r}{_nearest(wanted, names, has)}")
    return [kind for kind in classes if wanted in ("", kind.name)]


def _nearest(wanted: str, names: Sequence[str], otherwise: str) -> str:
    """Hint at the name that is meant, also where upper and lower case differ."""
    for name in names:
        if name.lower() == wanted.lower():
            return f"; did you mean {name!r}?"
    return nearest(wanted, names, otherwise)


def _why_no_model(classes: Sequence[ast.ClassDef]) -> str:
    """Say what is missing where no class can be a model."""
    needed = " and ".join(GIVEN)
    if len(classes) != 1:
        return f"no class has an `__init__` that takes {needed} by name"
    (kind,) = classes
    arguments = _arguments(kind)
    if arguments is None:
        return f"{kind.name} has no `__init__` of its own; it must take {needed} by name"
    takes = listed([argument.name for argument in arguments]) if arguments else "nothing"
    return f"the `__init__` of {kind.name} takes {takes}; it must take {needed} by name"


def _arguments(kind: ast.ClassDef) -> list[Argument] | None:
    """List the arguments of a class besides `self`; None for a class without `__init__`."""
    for statement in kind.body:
        if isinstance(statement, ast.FunctionDef) and statement.name == "__init__":
            given = statement.args
            by_place = [*given.posonlyargs, *given.args]
            without_default = [None] * (len(by_place) - len(given.defaults))
            of_places = zip(by_place, [*without_default, *given.defaults], strict=True)
            of_names = zip(given.kwonlyargs, given.kw_defaults, strict=True)
            return [
                Argument(argument.arg, _value(default), default is None)
                for argument, default in [*list(of_places)[1:], *of_names]
            ]
    return None


def _value(default: ast.expr | None) -> Any:
    """Return the value of a default that is written as a number or a word; None for others."""
    return default.value if isinstance(default, ast.Constant) else None


def _is_size(argument: Argument) -> bool:
    """Tell whether an argument is a size by its name, and by its default if it has one."""
    if argument.needed:
        return any(re.search(words, argument.name) for words in SIZES)
    is_sure = SURE.fullmatch(argument.name) or re.search(WIDTHS, argument.name)
    return bool(is_sure) and type(argument.default) is int


def _guess(argument: Argument, sizes: Mapping[str, int], *, like_the_others: bool) -> Guessed:
    """Guess the value of an argument by words in its name: the first that is found.

    A default stays, but for a size that is to be like those of the others.
    """
    if not argument.needed and not like_the_others:
        return argument.default
    values: dict[str, Guessed] = {**SWITCHES, **sizes}
    return next(
        (value for words, value in values.items() if re.search(words, argument.name)), OTHERS
    )


def _searched(arguments: Sequence[Argument], *, also_hidden: bool) -> str | None:
    """Return the size that is searched for equal FLOPs; None for none."""
    sizes = [argument.name for argument in arguments if _is_size(argument)]
    widths = [size for size in sizes if re.search(WIDTHS, size)]
    if not widths and also_hidden:
        widths = [size for size in sizes if re.search(HIDDEN, size)]
    return widths[0] if widths else None
