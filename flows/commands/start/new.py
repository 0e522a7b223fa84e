"""`dreamer new` and `dreamer schema`: write a study file after a look at the data."""

from __future__ import annotations

import argparse
import json
import re
import shlex
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from dreamer_study.flows.atlas.bundled import PREFIX, read_recipe
from dreamer_study.flows.atlas.table import read_atlas
from dreamer_study.flows.commands.start.entries import in_line, name_of
from dreamer_study.flows.commands.start.guess_source import files_with_equal_columns, look
from dreamer_study.flows.commands.start.guess_variants import HIDDEN, WIDTHS, variants_of
from dreamer_study.flows.commands.tables import console
from dreamer_study.flows.study.configuration import PRESETS
from dreamer_study.flows.study.loading import load_study
from dreamer_study.flows.study.models_section import VARIANTS
from dreamer_study.flows.study.schema import study_schema
from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.storage.files import write_text_atomically
from dreamer_study.reports.text.numbers import listed

# beside the study: the link in its first line holds wherever the folder goes
SCHEMA = "study.schema.json"
# Tokens of a training that is suggested: minutes on a CPU.
FEWEST_TOKENS = 24_000
MOST_TOKENS = 1_000_000
EPOCHS = 4  # more repetitions teach less
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
# Where your architecture stands among those of the atlas's world {world}: the same data, recipe and
# search of the learning rate, and equal FLOPs where `match` names a size. Nothing is trained but
# {own}.
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
    if options.atlas is not None:
        _place_in_atlas(options, path)
        return
    sources: list[dict[str, Any]] = []
    tokens_held = 0.0
    # The study is written first: a reader of the output, as `head`, may leave before its end.
    with console.capture() as looks:
        for number, files in enumerate(files_with_equal_columns(options.data)):
            source, tokens = look(files, folder, f"-{number}" if number else "")
            sources.append(source)
            tokens_held += tokens
    own_variants = variants_of(options.module, folder) if options.module else []
    _rename(own_variants, VARIANTS)

    has_text = any("text" in source for source in sources)
    content = STUDY.format(
        schema=SCHEMA,
        name=name_of(path.stem),
        sources=_lines(sources or ["builtin"]),
        documents=1000 if sources else 20_000,
        variants=_lines([*VARIANTS, *own_variants]),
        tokens=f"{_suggested_tokens(tokens_held):_}",
        held=f"; the data hold about {tokens_held:,.0f}" if tokens_held else "",
        loss_on="all" if has_text else "responses",
    )
    _write_study(path, content)
    sys.stdout.write(looks.get())
    _say_guessed(own_variants)
    _say_written(path, runs_code=bool(own_variants))


def _rename(own_variants: Sequence[dict[str, Any]], taken: Collection[str]) -> None:
    """Give own variants other names where the study has variants of these names."""
    for variant in own_variants:
        if variant["name"] in taken:
            variant["name"] += "-mine"


def _say_guessed(own_variants: Sequence[Mapping[str, Any]]) -> None:
    """Print what `dreamer new` has guessed from the argument names of each class."""
    for variant in own_variants:
        name = variant["name"]
        values = ", ".join(f"{field} {value}" for field, value in variant["config"].items())
        if values:
            console.print(f"{name}: guessed {values}; change them in the study file")
        if "match" not in variant:
            console.print(
                f"{name}: its FLOPs are not matched to the others'; match: {{flops: FIELD}} with a"
                " size of its config does that"
            )


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
    copied = re.sub(rf"(?m)^name: {re.escape(preset)}\b", f"name: {name_of(path.stem)}", text)
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
    world = options.atlas.removeprefix(PREFIX)
    recipe = read_recipe(world)
    shared = recipe["models"]
    (depth, *_) = shared["depths"]
    width = shared["dreamer"]["hidden_size"]
    sizes = {
        WIDTHS: 2 * width,
        "head": shared["dreamer"]["query_heads"],
        "layer|depth": depth,
        HIDDEN: width,
    }
    own_variants = variants_of(options.module, path.parent, sizes, like_the_others=True)
    measured = list(read_atlas(world).architectures["variant"])
    baseline_first = sorted(measured, key=lambda name: name != shared["baseline"])
    _rename(own_variants, measured)
    names = listed([variant["name"] for variant in own_variants])
    content = STUDY_OF_ATLAS.format(
        schema=SCHEMA,
        world=world,
        own=names,
        name=name_of(path.stem),
        models=_section({"models": shared}),
        variants=_lines(
            [{"name": name, "from": f"{PREFIX}{world}"} for name in baseline_first] + own_variants
        ),
        **{section: _section({section: recipe[section]}) for section in OF_ATLAS},
    )
    _write_study(path, content)
    _say_guessed(own_variants)
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
    try:
        load_study(path)  # which refuses what we should not have written
    except InputError:
        path.unlink()
        raise


def _suggested_tokens(tokens_held: float) -> int:
    """Suggest the tokens of a training: a few epochs, within minutes on a CPU."""
    if not tokens_held:
        return MOST_TOKENS
    return int(min(MOST_TOKENS, max(FEWEST_TOKENS, EPOCHS * tokens_held)))


def _lines(entries: Sequence[Any]) -> str:
    return "\n".join(f"    - {in_line(entry)}" for entry in entries)
