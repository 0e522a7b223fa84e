"""`dreamer new` and `dreamer schema`: write a study file after a look at the data."""

from __future__ import annotations

import argparse
import ast
import json
import re
import shlex
from collections.abc import Sequence
from glob import escape
from pathlib import Path
from typing import Any

import pyarrow as pa
import yaml

from dreamer_study.flows.commands.tables import console
from dreamer_study.flows.estimates.benchmark_sizes import BYTES_PER_TOKEN
from dreamer_study.flows.study.configuration import PRESETS
from dreamer_study.flows.study.loading import load_study
from dreamer_study.flows.study.schema import study_schema
from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.sources.columns.guess import guess_columns
from dreamer_study.pipeline.sources.columns.names import named_columns
from dreamer_study.pipeline.sources.columns.sql import bind, evaluate
from dreamer_study.pipeline.sources.files.json_rows import JsonRows
from dreamer_study.pipeline.sources.files.json_values import OBJECT
from dreamer_study.pipeline.sources.files.readers import Reader, open_rows
from dreamer_study.pipeline.storage.files import write_text_atomically
from dreamer_study.reports.text.numbers import counted

# beside the study: the link in its first line holds wherever the folder goes
SCHEMA = "study.schema.json"
SHOWN_ROWS = 3
SHOWN_CHARACTERS = 90  # of a text
# Tokens of a training that is suggested: minutes on a CPU.
FEWEST_TOKENS = 24_000
MOST_TOKENS = 1_000_000
EPOCHS = 4  # more repetitions teach less
# arguments that every study gives; a variant's `config` gives others
GIVEN = ("vocabulary_size", "sequence_length")
# names of a size that may be anything, so that it can be searched for equal FLOPs
WIDTHS = "forward|intermediate"
# sizes that are guessed, by words in a name: the first that is found
SIZES = {WIDTHS: 192, "head": 4, "layer|depth": 4, "size|width|dim|hidden": 96, "": 4}
SCHEMA_LINE = "# yaml-language-server: $schema={schema}"
STUDY = """\
# yaml-language-server: $schema={schema}
# `dreamer plan` says what this takes. Whatever is left out has a default: an editor shows it.
name: {name}
data:
  sources: # question, response and text are columns, or SQL of columns
{sources}
  world: {{documents: {documents}, items: 100}} # of `builtin`, as a source and as a benchmark
  tokenizer: {{vocabulary_size: 1024}} # trained on these data
models: # matched to the first (or `baseline`) in FLOPs and parameters; a class of yours by `match`
  depths: [4]
  variants:
{variants}
  dreamer: {{hidden_size: 96, query_heads: 4, key_value_heads: 2, head_size: 24, depth_heads: 1,
    depth_head_size: 24, experts: 4, active_experts: 2, expert_size: 96, routing_size: 32,
    expert_bias_rate: 0.03}}
training:
  tokens: {tokens} # of each model{held}
  batch_tokens: 1024
  sequence_length: 256 # longer documents are cut
  loss_on: {loss_on} # all, responses or answers
  learning_rate: 1.0e-3 # `tune` chooses one for each variant
  warmup_steps: 20
  checkpoints: 8
  seeds: [0, 1, 2] # more make intervals narrower
evaluation: # besides, the loss on documents held out of these data
  benchmarks: [builtin] # replace it by your own, or for one that `dreamer sources` lists
"""


def schema(options: argparse.Namespace) -> None:
    """Print the JSON schema of a study file."""
    print(json.dumps(study_schema(), indent=1))


def new(options: argparse.Namespace) -> None:
    """Write a study file of these data and this module, and print what was guessed.

    Three rows of the data are printed with the guess. Raises InputError for a study file that is
    there already, data that cannot be read or hold no text, and a module without a class that can
    be a model.
    """
    path: Path = options.file
    folder = path.parent
    if path.suffix not in (".yaml", ".yml"):
        raise InputError(f"{path}: a study file ends in .yaml")
    if path.exists():
        raise InputError(f"{path} exists already; name a new file, or remove this one")
    if options.preset:
        if options.data or options.module:
            raise InputError(
                "--from copies a preset as it is; leave out --data and --module, and edit the copy"
            )
        _copy_preset(options.preset, path)
        return
    sources: list[dict[str, Any]] = []
    tokens_held = 0.0
    for number, files in enumerate(_files_with_equal_columns(options.data)):
        source, tokens = _look(files, folder, f"-{number}" if number else "")
        sources.append(source)
        tokens_held += tokens
    own_variants = _variants(options.module, folder) if options.module else []

    has_text = any("text" in source for source in sources)
    content = STUDY.format(
        schema=SCHEMA,
        name=_name(path.stem),
        sources=_lines(sources or ["builtin"]),
        documents=1000 if sources else 20_000,
        variants=_lines(["LA", "DR", "DR+DA", *own_variants]),
        tokens=f"{_suggested_tokens(tokens_held):_}",
        held=f"; the data hold about {tokens_held:,.0f}" if tokens_held else "",
        loss_on="all" if has_text else "responses",
    )
    _write_study(path, content)
    _say_written(path, runs_code=bool(own_variants))


def _say_written(path: Path, *, runs_code: bool) -> None:
    arguments = [str(path)]
    if runs_code:
        arguments.append("--trust-code")
    study = shlex.join(arguments)
    console.print(
        f"{path}: written; `dreamer plan {study}` shows what the study needs, `dreamer run {study}`"
        " runs it"
    )


def _copy_preset(preset: str, path: Path) -> None:
    """Copy a preset with its comments, under the name of the new file, and the code it names.

    Under the preset's own name the study would write into the preset's folder.
    """
    text = (PRESETS / f"{preset}.yaml").read_text(encoding="utf-8")
    # the name is at the start of a line; a comment behind the name is kept
    copied = re.sub(rf"(?m)^name: {re.escape(preset)}\b", f"name: {_name(path.stem)}", text)
    variants = load_study(preset).models.variants
    modules = sorted({file for variant in variants for file in variant.code_files})
    targets = {PRESETS / module: path.parent / module for module in modules}
    for target in targets.values():
        if target.exists():
            raise InputError(f"{target} exists already, and {preset} brings a file of this name")
    path.parent.mkdir(parents=True, exist_ok=True)
    for source, target in targets.items():
        write_text_atomically(target, source.read_text(encoding="utf-8"))
    _write_study(path, f"{SCHEMA_LINE.format(schema=SCHEMA)}\n{copied}")
    _say_written(path, runs_code=bool(modules))


def _write_study(path: Path, content: str) -> None:
    """Write a study file, and beside it the schema with which an editor checks the file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text_atomically(path.parent / SCHEMA, json.dumps(study_schema(), indent=1))
    write_text_atomically(path, content)
    load_study(path)  # which refuses what we should not have written


def _files_with_equal_columns(files: Sequence[Path]) -> list[list[Path]]:
    """Group files by their columns: each group is one source."""
    by_columns: dict[tuple[str, ...], list[Path]] = {}
    for file in files:
        by_columns.setdefault(tuple(open_rows(file).schema.names), []).append(file)
    return list(by_columns.values())


def _suggested_tokens(tokens_held: float) -> int:
    """Suggest the tokens of a training: a few epochs, within minutes on a CPU."""
    if not tokens_held:
        return MOST_TOKENS
    return int(min(MOST_TOKENS, max(FEWEST_TOKENS, EPOCHS * tokens_held)))


def _look(files: Sequence[Path], folder: Path, mark: str) -> tuple[dict[str, Any], float]:
    """Look at files with the same columns.

    Returns the entry of their source, and an estimate of their tokens. `mark` makes the name of the
    source differ from those of other files.
    """
    reader = open_rows(files[0])
    if isinstance(reader, JsonRows) and reader.hint:
        raise InputError(f"{files[0]}: {reader.hint}")
    columns = reader.schema.names
    twice = [name for name in dict.fromkeys(columns) if columns.count(name) > 1]
    if twice:
        raise InputError(f"{files[0]}: {columns.count(twice[0])} columns are named {twice[0]!r}")
    table = _first_block(reader, reader.schema)
    guessed = guess_columns(table) if table else {}
    if not guessed:
        raise InputError(
            f"{files[0]}: no rows, or no column of text; its columns are {', '.join(columns)}"
        )
    named = named_columns(guessed.values(), reader.schema)
    table = _first_block(open_rows(files[0]), named)
    texts = evaluate([bind(text, named) for text in guessed.values()], table).to_pylist()
    by_kind = zip(*(row.values() for row in texts), strict=True)
    for kind, values in zip(guessed, by_kind, strict=True):
        if kind != "answer" and not any(str(text).strip() for text in values if text is not None):
            raise InputError(
                f"{files[0]}: the guess {_in_line(guessed)} gives no {kind} in the first"
                f" {counted(len(texts), 'row')}; write the source into a study by hand"
            )
    objects = sum(OBJECT in str(text) for row in texts for text in row.values())
    rows = sum(open_rows(file).count() for file in files)
    characters = sum(len(str(text)) for row in texts for text in row.values())
    tokens = rows / len(texts) * characters / BYTES_PER_TOKEN

    names = str(files[0])
    if len(files) > 1:
        names += f" and {len(files) - 1} more"
    held = counted(round(tokens), "token")
    console.print(f"{names}: {counted(rows, 'row')}, about {held}")
    console.print(f"  guessed from the columns {', '.join(columns)}: {_in_line(guessed)}")
    for number, row in enumerate(texts[:SHOWN_ROWS]):
        for kind, text in zip(guessed, row.values(), strict=True):
            on_one_line = " ".join(str(text).split())
            console.print(f"  {number} {kind:<8} {on_one_line[:SHOWN_CHARACTERS]}")
    if objects:
        console.print(
            f"  {counted(objects, 'text')} with a picture or another part that is no text, which is"
            " left out"
        )
    source = {
        "name": _name(files[0].name.partition(".")[0]) + mark,
        "files": [escape(_path_from(file, folder)) for file in files],
        **guessed,
    }
    return source, tokens


def _first_block(reader: Reader, columns: pa.Schema) -> pa.Table | None:
    """Read the first rows that are whole; None without any."""
    blocks = (block.table for block in reader.blocks(columns))
    return next((table for table in blocks if len(table)), None)


def _variants(module: Path, folder: Path) -> list[dict[str, Any]]:
    """List the classes of a module that can be models, as variants of a study.

    Sizes are guessed from the names of arguments. The module's code is not run.
    """
    if not module.resolve().is_relative_to(folder.resolve()):
        raise InputError(
            f"{module} is not in the study's folder {folder.resolve()} or below; put it there"
        )
    try:
        statements = ast.parse(module.read_bytes()).body
    except (SyntaxError, ValueError) as error:
        raise InputError(f"{module}: not Python: {error}") from None
    classes = [statement for statement in statements if isinstance(statement, ast.ClassDef)]
    variants = []
    for kind in classes:
        sizes = _sizes_asked_for(kind)
        if sizes is not None:
            variants.append(_variant(f"{_path_from(module, folder)}:{kind.name}", kind.name, sizes))
    if not variants:
        raise InputError(
            f"{module}: no class takes {' and '.join(GIVEN)} (docs/own-architecture.md)"
        )
    return variants


def _sizes_asked_for(kind: ast.ClassDef) -> list[str] | None:
    """List the arguments of a class that a study must give, besides GIVEN.

    None for a class that does not take GIVEN, which can be no model.
    """
    for statement in kind.body:
        if isinstance(statement, ast.FunctionDef) and statement.name == "__init__":
            arguments = statement.args
            names = [argument.arg for argument in arguments.args]
            if not {*GIVEN} <= {*names}:
                return None
            # without `self`, and without those that have a default
            needed = names[1 : len(names) - len(arguments.defaults)]
            return [name for name in needed if name not in GIVEN]
    return None


def _variant(module: str, name: str, sizes: list[str]) -> dict[str, Any]:
    config = {
        size: next(value for words, value in SIZES.items() if re.search(words, size))
        for size in sizes
    }
    variant: dict[str, Any] = {"name": name, "module": module, "config": config}
    widths = [size for size in sizes if re.search(WIDTHS, size)]
    if widths:
        variant["match"] = {"flops": widths[0]}
    return variant


def _path_from(file: Path, folder: Path) -> str:
    """Write a path as a study in a folder names it."""
    file = file.resolve()
    folder = folder.resolve()
    if file.is_relative_to(folder):
        return str(file.relative_to(folder))
    return str(file)


def _name(stem: str) -> str:
    return re.sub(r"^[^A-Za-z0-9]+|[^\w.-]+", "", stem, flags=re.ASCII) or "mine"


def _in_line(value: Any) -> str:
    text = yaml.safe_dump(
        value, default_flow_style=True, sort_keys=False, allow_unicode=True, width=10_000
    )
    return text.removesuffix("...\n").strip()


def _lines(entries: Sequence[Any]) -> str:
    return "\n".join(f"    - {_in_line(entry)}" for entry in entries)
