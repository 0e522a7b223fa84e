"""`dreamer new` and `dreamer schema`: write a study file after a look at the data, and the schema
of study files."""

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

import yaml

from dreamer_study.flows.commands.planning.benchmark_sizes import BYTES_PER_TOKEN
from dreamer_study.flows.commands.tables import printable
from dreamer_study.flows.study.loading import load_study
from dreamer_study.flows.study.schema import study_schema
from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.sources.columns.guess import guess_columns
from dreamer_study.pipeline.sources.columns.sql import bind, evaluate
from dreamer_study.pipeline.sources.files.readers import open_rows
from dreamer_study.pipeline.storage.files import write_text_atomically

# beside the study: the link in its first line holds wherever the folder goes
SCHEMA = "study.schema.json"
SHOWN, WIDTH = 3, 90  # rows, characters of a text
# tokens of a training: minutes on a CPU; more repetitions teach less
FEWEST, MOST, EPOCHS = 24_000, 1_000_000, 4
# arguments that every study gives; a variant's `config` gives others
GIVEN = ("vocabulary_size", "sequence_length")
# a size that may be anything, so that it can be searched for equal FLOPs
WIDTHS = "forward|intermediate"
# by words in a name
SIZES = {WIDTHS: 192, "head": 4, "layer|depth": 4, "size|width|dim|hidden": 96, "": 4}
STUDY = """\
# yaml-language-server: $schema={schema}
# `dreamer plan` says what this takes. Whatever is left out has a default, which an editor shows from the schema.
name: {name}
data:
  sources: # question, response and text are columns, or SQL of columns
{sources}
  world: {{documents: {documents}, items: 100}} # of `builtin`, as a source and as a benchmark
  tokenizer: {{vocabulary_size: 1024}} # trained on these data
models: # matched to the first (or `baseline`) in FLOPs and parameters, a class of yours where it says `match`
  depths: [4]
  variants:
{variants}
  dreamer: {{hidden_size: 96, query_heads: 4, key_value_heads: 2, head_size: 24, depth_heads: 1, depth_head_size: 24,
    experts: 4, active_experts: 2, expert_size: 96, routing_size: 32, expert_bias_rate: 0.03}}
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
  benchmarks: [builtin] # stands in for your own, or for one that `dreamer sources` lists
"""


def schema(options: argparse.Namespace) -> None:
    """Print the JSON schema of a study file."""
    print(json.dumps(study_schema(), indent=1))


def new(options: argparse.Namespace) -> None:
    """Write a study file of these data and this module; print three rows of the data, and what was
    guessed.

    Raises InputError for a study file that is there already, data that cannot be read or hold no
    text, and a module without a class that can be a model.
    """
    path, folder = options.file, options.file.parent
    if path.suffix not in (".yaml", ".yml") or path.exists():
        raise InputError(
            f"{path}: {'it is there already' if path.exists() else 'a study file ends in .yaml'}"
        )
    alike: dict[tuple[str, ...], list[Path]] = {}
    for file in options.data:
        alike.setdefault(tuple(open_rows(file).schema.names), []).append(file)
    sources, held = [], 0.0
    for number, files in enumerate(alike.values()):
        source, tokens = _look(files, folder, f"-{number}" if number else "")
        sources, held = [*sources, source], held + tokens
    own = _variants(options.module, folder) if options.module else []
    content = STUDY.format(
        schema=SCHEMA,
        name=_name(path.stem),
        sources=_lines(sources or ["builtin"]),
        documents=1000 if sources else 20_000,
        variants=_lines(["LA", "DR", "DR+DA", *own]),
        tokens=f"{int(min(MOST, max(FEWEST, EPOCHS * held))) if held else MOST:_}",
        held=f"; the data hold about {held:,.0f}" if held else "",
        loss_on="all" if any("text" in source for source in sources) else "responses",
    )
    folder.mkdir(parents=True, exist_ok=True)
    write_text_atomically(folder / SCHEMA, json.dumps(study_schema(), indent=1))
    write_text_atomically(path, content)
    load_study(path)
    given = shlex.join([str(path), *["--trust-code"] * bool(own)])
    print(
        f"{path}: written; `dreamer plan {given}` says what it takes, `dreamer run {given}`"
        " starts it"
    )


def _look(files: Sequence[Path], folder: Path, mark: str) -> tuple[dict[str, Any], float]:
    """Look at files with the same columns: the entry of their source, and an estimate of their
    tokens."""
    reader = open_rows(files[0])
    names = reader.schema.names
    table = next((block.table for block in reader.blocks(names) if len(block.table)), None)
    if not (guessed := guess_columns(table) if table else {}):
        raise InputError(
            f"{files[0]}: no rows, or no column of text; its columns are {', '.join(names)}"
        )
    texts = evaluate([bind(text, reader.schema) for text in guessed.values()], table).to_pylist()
    rows = sum(open_rows(file).count() for file in files)
    tokens = (
        rows
        / len(texts)
        * sum(len(str(text)) for row in texts for text in row.values())
        / BYTES_PER_TOKEN
    )
    print(
        f"{files[0]}{f' and {len(files) - 1} more' * (len(files) > 1)}: {rows:,} rows, about"
        f" {tokens:,.0f} tokens"
    )
    print(f"  of the columns {', '.join(names)} taken by a guess: {_in_line(guessed)}")
    for number, row in enumerate(texts[:SHOWN]):
        for kind, text in zip(guessed, row.values(), strict=True):
            print(f"  {number} {kind:<8} {printable(' '.join(str(text).split())[:WIDTH])}")
    name = _name(files[0].name.partition(".")[0]) + mark
    return {
        "name": name,
        "files": [escape(_place(file, folder)) for file in files],
        **guessed,
    }, tokens


def _variants(module: Path, folder: Path) -> list[dict[str, Any]]:
    """List the classes of a module that can be models, with sizes guessed from the names; its code
    is not run."""
    if not module.resolve().is_relative_to(folder.resolve()):
        raise InputError(
            f"{module} is not in the study's folder {folder.resolve()} or below; put it there"
        )
    try:
        classes = [
            kind for kind in ast.parse(module.read_bytes()).body if isinstance(kind, ast.ClassDef)
        ]
    except (SyntaxError, ValueError) as error:
        raise InputError(f"{module}: not Python: {error}") from None
    found = []
    for kind in classes:
        made = next(
            (
                one.args
                for one in kind.body
                if isinstance(one, ast.FunctionDef) and one.name == "__init__"
            ),
            None,
        )
        names = [one.arg for one in made.args] if made else []
        if made and {*GIVEN} <= {*names}:
            sizes = [
                name for name in names[1 : len(names) - len(made.defaults)] if name not in GIVEN
            ]
            config = {
                name: next(n for words, n in SIZES.items() if re.search(words, name))
                for name in sizes
            }
            matched = [{"flops": name} for name in sizes if re.search(WIDTHS, name)][:1]
            entry = {
                "name": kind.name,
                "module": f"{_place(module, folder)}:{kind.name}",
                "config": config,
            }
            found.append({**entry, "match": matched[0]} if matched else entry)
    if not found:
        raise InputError(
            f"{module}: no class takes {' and '.join(GIVEN)} (docs/own-architecture.md)"
        )
    return found


def _place(file: Path, folder: Path) -> str:
    """Write a path as a study in a folder names it."""
    file, folder = file.resolve(), folder.resolve()
    return str(file.relative_to(folder) if file.is_relative_to(folder) else file)


def _name(stem: str) -> str:
    return re.sub(r"^[^A-Za-z0-9]+|[^\w.-]+", "", stem, flags=re.ASCII) or "mine"


def _in_line(value: Any) -> str:
    text = yaml.safe_dump(
        value, default_flow_style=True, sort_keys=False, allow_unicode=True, width=10_000
    )
    return text.removesuffix("...\n").strip()


def _lines(entries: Sequence[Any]) -> str:
    return "\n".join(f"    - {_in_line(entry)}" for entry in entries)
