"""Say what is wrong with the fields of a model before the model is built."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from inspect import Parameter, signature
from pathlib import Path

from dreamer_study.model.architectures.code import load_class
from dreamer_study.model.matching import check_start
from dreamer_study.model.module_config import TRANSFORMERS, Architecture, ModuleConfig
from dreamer_study.pipeline.errors import InputError, nearest

LONGEST = 200  # characters of what a library says


def wrong_fields(
    config: Architecture,
    searched: Collection[str] = (),
    *,
    code: Path | None = None,
    trust_code: bool = False,
) -> list[str]:
    """List what is wrong with the fields of a model, and with those that are to be searched.

    A file of code is imported, with `trust_code` only; no model is built.
    """
    wrong = []
    values = config.to_dict()
    if isinstance(config, ModuleConfig):
        values = config.config
        try:
            wrong += _of_module(config, code, trust_code=trust_code)
        except InputError as error:  # of the type or the class itself
            return [str(error)]
    for field in searched:
        unknown = _unknown_size(config, field, code, trust_code=trust_code)
        try:
            check_start(values, field)
        except InputError as error:
            wrong.append(unknown or str(error))
    return wrong


def _unknown_size(
    config: Architecture, field: str, code: Path | None, *, trust_code: bool
) -> str | None:
    """Say that a model has no size of the name that is to be searched; None if it may have one."""
    if "." in field:
        return (
            f"match: {field}: a field inside another one cannot be searched; name a size of its own"
        )
    if not isinstance(config, ModuleConfig):
        sizes = config.to_dict()
        is_known = field in sizes
        return None if is_known else f"match: there is no size {field}{nearest(field, sizes)}"
    alone = dataclasses.replace(config, config={field: config.config.get(field, 1)})
    wrong = _of_module(alone, code, trust_code=trust_code)
    named = [words for words in wrong if f" has no field {field}" in words]
    return f"match: {named[0]}" if named else None


def _of_module(config: ModuleConfig, code: Path | None, *, trust_code: bool) -> list[str]:
    """List what is wrong with the fields of a class, or of a type of transformers."""
    kind = load_class(config, code, trust_code=trust_code)
    file, _, name = config.module.rpartition(":")
    sizes = {"vocabulary_size": config.vocabulary_size, "sequence_length": config.sequence_length}
    if file == TRANSFORMERS:
        from dreamer_study.model.architectures.transformers_model import (
            configuration,
            unknown_fields,
        )

        unknown = unknown_fields(name, config.config)
        if unknown:
            return unknown
        try:
            configuration(name, **sizes, values=config.config)
        except Exception as error:  # of the library's own checks
            reason = " ".join(str(error).split())
            return [f"{config.module}: {reason[:LONGEST]}"]
        return []
    try:
        takes = signature(kind)
    except ValueError:  # a class that does not say what it takes
        return []
    of_any_name = any(each.kind is Parameter.VAR_KEYWORD for each in takes.parameters.values())
    known = ", ".join(takes.parameters)
    unknown = [
        f"{config.module} has no field {field}{nearest(field, takes.parameters)}; it takes {known}"
        for field in config.config
        if field not in takes.parameters and not of_any_name
    ]
    if unknown:
        return unknown
    try:
        takes.bind(**sizes, **config.config)
    except TypeError as error:
        return [f"{config.module}: {error}; it takes {known}"]
    return []
