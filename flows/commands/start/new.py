"""`dreamer new` and `dreamer schema`: write a study file after a look at the data."""

from __future__ import annotations

import argparse
import ast
import json
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from glob import escape
from pathlib import Path
from typing import Any

import pyarrow as pa
import yaml

from dreamer_study.flows.atlas.bundled import PREFIX, read_recipe
from dreamer_study.flows.atlas.table import read_atlas
from dreamer_study.flows.commands.tables import console
from dreamer_study.flows.estimates.benchmark_sizes import BYTES_PER_TOKEN
from dreamer_study.flows.progress.reports import printable
from dreamer_study.flows.study.configuration import PRESETS
from dreamer_study.flows.study.loading import load_study
from dreamer_study.flows.study.schema import study_schema
from dreamer_study.pipeline.errors import InputError, nearest
from dreamer_study.pipeline.sources.columns.conversations import has_several_questions, turns_of
from dreamer_study.pipeline.sources.columns.guess import guess_columns
from dreamer_study.pipeline.sources.columns.names import named_columns
from dreamer_study.pipeline.sources.columns.sql import bind, evaluate
from dreamer_study.pipeline.sources.files.blocks import Block
from dreamer_study.pipeline.sources.files.json_rows import JsonRows
from dreamer_study.pipeline.sources.files.json_values import OBJECT
from dreamer_study.pipeline.sources.files.readers import (
    Reader,
    check_not_all_malformed,
    open_rows,
)
from dreamer_study.pipeline.sources.files.text_files import kind_of_file
from dreamer_study.pipeline.storage.files import write_text_atomically
from dreamer_study.reports.text.numbers import counted, listed

# beside the study: the link in its first line holds wherever the folder goes
SCHEMA = "study.schema.json"
SHOWN_ROWS = 3
SHOWN_CHARACTERS = 90  # of a text
TURNS = re.compile(r"(?:asked|said)\((.+)\)")  # a guess that takes a question out of turns
# Tokens of a training that is suggested: minutes on a CPU.
FEWEST_TOKENS = 24_000
MOST_TOKENS = 1_000_000
EPOCHS = 4  # more repetitions teach less
# arguments that every study gives; a variant's `config` gives others
GIVEN = ("vocabulary_size", "sequence_length")
# names of a size that may be anything, so that it can be searched for equal FLOPs
WIDTHS = "forward|intermediate"
# sizes that are guessed, by words in a name: the first that is found
HIDDEN = "size|width|dim|hidden"
SIZES = {WIDTHS: 192, "head": 4, "layer|depth": 4, HIDDEN: 96, "": 4}
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

OF_ATLAS = ("data", "training", "evaluation")  # sections that a world's studies share
STUDY_OF_ATLAS = """\
# yaml-language-server: $schema={schema}
# Where {own} stands among the architectures of the atlas's world {world}: the same data, recipe and
# search of the learning rate, and equal FLOPs. Only {own} is trained.
name: {name}
{data}
{models}
  variants:
{variants}
{training}
{evaluation}
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
        if options.data or options.module or options.atlas:
            raise InputError(
                "--from copies a preset as it is; leave out --data, --module and --atlas, and edit"
                " the copy"
            )
        _copy_preset(options.preset, path)
        return
    if options.atlas:
        _place_in_atlas(options, path)
        return
    sources: list[dict[str, Any]] = []
    tokens_held = 0.0
    # The study is written first: a reader of the output, as `head`, may leave before its end.
    with console.capture() as looks:
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
    sys.stdout.write(looks.get())
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


def _place_in_atlas(options: argparse.Namespace, path: Path) -> None:
    """Write a study of your model beside all architectures of a world of the atlas."""
    if options.data or not options.module:
        raise InputError(
            "--atlas compares a model on the atlas's own data; give --module, and leave out --data"
        )
    world = options.atlas
    recipe = read_recipe(world)
    shared = recipe["models"]
    (depth, *_) = shared["depths"]
    width = shared["dreamer"]["hidden_size"]
    sizes = {
        WIDTHS: 2 * width,
        "head": shared["dreamer"]["query_heads"],
        "layer|depth": depth,
        HIDDEN: width,
        "": depth,
    }
    own_variants = _variants(options.module, path.parent, sizes, also_hidden=True)
    measured = list(read_atlas(world).architectures["variant"])
    baseline_first = sorted(measured, key=lambda name: name != shared["baseline"])
    for variant in own_variants:
        if variant["name"] in measured:
            variant["name"] += "-mine"
    names = listed([variant["name"] for variant in own_variants])
    content = STUDY_OF_ATLAS.format(
        schema=SCHEMA,
        world=world,
        own=names,
        name=_name(path.stem),
        models=_section({"models": shared}),
        variants=_lines(
            [{"name": name, "from": f"{PREFIX}{world}"} for name in baseline_first] + own_variants
        ),
        **{section: _section({section: recipe[section]}) for section in OF_ATLAS},
    )
    _write_study(path, content)
    _say_written(path, runs_code=True)


def _section(values: Mapping[str, Any]) -> str:
    """Write a section of a study file, small lists and mappings on one line."""
    text = yaml.safe_dump(
        values, default_flow_style=None, sort_keys=False, allow_unicode=True, width=100
    )
    return text.strip()


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
    path = files[0]
    reader = open_rows(path)
    columns = reader.schema.names
    twice = [name for name in dict.fromkeys(columns) if columns.count(name) > 1]
    if twice:
        raise InputError(f"{path}: {columns.count(twice[0])} columns are named {twice[0]!r}")
    guessed, block = _guess(path, reader)
    bound = [bind(text, block.table.schema) for text in guessed.values()]
    texts = [[str(text or "").strip() for text in row.values()] for row in _rows(bound, block)]
    for place, kind in enumerate(guessed):
        if kind != "answer" and not any(row[place] for row in texts):
            raise InputError(
                f"{path}: the guess {_in_line(guessed)} gives no {kind} in the first"
                f" {counted(len(texts), 'row')}; write the source into a study by hand"
            )
    rows = sum(open_rows(file).count() for file in files)
    characters = sum(len(text) for row in texts for text in row)
    tokens = rows / len(texts) * characters / BYTES_PER_TOKEN

    names = str(path)
    if len(files) > 1:
        names += f" and {len(files) - 1} more"
    held = counted(round(tokens), "token")
    console.print(f"{names}: {counted(rows, 'row')}, about {held}")
    console.print(f"  guessed from the columns {', '.join(columns)}: {_in_line(guessed)}")
    numbers = block.rows.to_pylist()
    for number, row in zip(numbers[:SHOWN_ROWS], texts, strict=False):
        for kind, text in zip(guessed, row, strict=True):
            console.print(f"  {number} {kind:<8} {_on_one_line(text)}")
    _print_several_turns(guessed, block)
    for line in _losses(guessed, texts, block):
        console.print(f"  {line}")
    source = {
        "name": _name(path.name.partition(".")[0]) + mark,
        "files": [escape(_path_from(file, folder)) for file in files],
        **guessed,
    }
    return source, tokens


def _guess(path: Path, reader: Reader) -> tuple[dict[str, str], Block]:
    """Guess the columns of a file; returns them, and its first rows of these columns."""
    block = _first_block(reader, reader.schema)
    hint = reader.hint if isinstance(reader, JsonRows) else ""
    if hint and kind_of_file(path.name) == "json":
        raise InputError(f"{path}: {hint}")
    try:
        guessed = guess_columns(block.table) if block else {}
    except InputError as error:
        raise InputError(f"{path}: {hint or error}") from None
    if hint and "response" not in guessed:
        raise InputError(f"{path}: {hint}")
    if not guessed:
        raise InputError(
            f"{path}: no rows, or no column of text; its columns are"
            f" {', '.join(reader.schema.names)}"
        )
    named = named_columns(guessed.values(), reader.schema)
    block = _first_block(open_rows(path), named)
    assert block is not None
    return guessed, block


def _first_block(reader: Reader, columns: pa.Schema) -> Block | None:
    """Read the first rows that are whole; None without any.

    Raises InputError for a table of which every first row is malformed.
    """
    for block in reader.blocks(columns):
        check_not_all_malformed(reader, block)
        if len(block.table):
            return block
    return None


def _rows(bound: Sequence[str], block: Block) -> list[dict[str, Any]]:
    return evaluate(bound, block.table).to_pylist()


def _on_one_line(text: str) -> str:
    """Shorten a text for a terminal."""
    return printable(" ".join(text.split())[:SHOWN_CHARACTERS]) or "(empty)"


def _losses(guessed: Mapping[str, str], texts: list[list[str]], block: Block) -> list[str]:
    """Say which of the first rows are left out, and why."""
    needed = [place for place, kind in enumerate(guessed) if kind != "answer"]
    empty = [
        number
        for number, row in zip(block.rows.to_pylist(), texts, strict=True)
        if not all(row[place] for place in needed)
    ]
    left_out = {
        "an object or list where a text is wanted": [row for row, _ in block.not_text],
        "a row that is malformed": [row for row, _ in block.malformed],
        "no text where one is wanted": empty,
    }
    read = len(texts) + len(block.not_text) + len(block.malformed)
    lines = [
        f"{what}: {len(rows):,} of the first {read:,} rows (such as {min(rows)}), left out"
        for what, rows in left_out.items()
        if rows
    ]
    objects = sum(OBJECT in text for row in texts for text in row)
    if objects:
        lines.append(f"{objects:,} texts hold a picture or another part that is no text: left out")
    return lines


def _print_several_turns(guessed: Mapping[str, str], block: Block) -> None:
    """Say how many rows have several turns, and print the pair that is made of the first one."""
    column = TURNS.fullmatch(guessed.get("question", ""))
    if column is None:
        return
    turns = _rows([f"to_json({column[1]}) ->> '$'"], block)
    conversations = [turns_of(str(row["0"] or "")) for row in turns]
    several = [place for place, row in enumerate(conversations) if has_several_questions(row)]
    if not several:
        return
    first = several[0]
    console.print(
        f"  several turns: {len(several):,} of the first {len(conversations):,} rows; the last"
        " response is learnt, and the question is all before it, as in row"
        f" {block.rows[first].as_py()}:"
    )
    bound = [bind(text, block.table.schema) for text in guessed.values()]
    pair = evaluate(bound, block.table.slice(first, 1)).to_pylist()[0]
    for kind, text in zip(guessed, pair.values(), strict=True):
        name = kind
        for turn in str(text or "").split("\n\n"):
            console.print(f"    {name:<8} {_on_one_line(turn)}")
            name = ""


def _variants(
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
                "module": f"{_path_from(module, folder)}:{kind.name}",
                "config": config,
            }
            searched = _searched(sizes, also_hidden=also_hidden)
            if searched:
                variant["match"] = {"flops": searched}
            variants.append(variant)
    if not variants:
        raise InputError(
            f"{module}: no class takes {' and '.join(GIVEN)} (docs/own-architecture.md)"
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
            if not {*GIVEN} <= {*names}:
                return None
            # without `self`, and without those that have a default
            needed = names[1 : len(names) - len(arguments.defaults)]
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


def _path_from(file: Path, folder: Path) -> str:
    """Write a path relative to a study's folder."""
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
