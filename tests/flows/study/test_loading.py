"""Load a study file: what it says, and what is refused in one line."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dreamer_study.flows.study.configuration import PRESETS, Study
from dreamer_study.flows.study.loading import load_study, presets
from dreamer_study.model.training.config import TrainingConfig
from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.sources.table import resolve_source
from tests.flows.by_hand import tiny, tiny_settings
from tests.flows.small_study import TINY


def changed(folder: Path, old: str, new: str) -> Study:
    """Load the tiny study with another text in it."""
    text = TINY.read_text()
    assert old in text
    (folder / "s.yaml").write_text(text.replace(old, new))
    return load_study(folder / "s.yaml")


@pytest.mark.parametrize("name", presets())
def test_every_preset_loads_and_training_accepts_it(name: str) -> None:
    study, training = load_study(name), load_study(name).training
    assert study.name == name
    config = TrainingConfig(**training.recipe(0))
    assert training.points[-1] == config.tokens == training.tokens
    assert (config.micro_batch_tokens or config.batch_tokens) % training.sequence_length == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            ("warmup_steps", "warmup_stepz"),
            "training: unknown key 'warmup_stepz'; did you mean 'warmup_steps'?",
        ),
        (
            ("documents: 1500", "documnets: 1500"),
            "unknown key 'documnets'; did you mean 'documents'",
        ),
        (("sources: [builtin]", "sources: [gsm8q]"), "gsm8k"),
        (("tokens: 24_000", "tokens: 0"), "training.tokens"),
        (
            ("name: tiny", "name: 'my study'"),
            "name is 'my study', but it must be letters, digits and (not first) . - _",
        ),
        (
            ("depths: [2]", "depths: [2]\n  variants: [{name: a, module: my.py}]"),
            "module is 'my.py', but it must be a class: <file>",
        ),
        (
            ("depths: [2]", "depths: [2]\n  variants: [{name: a, transformers: a/b}]"),
            "'a/b', but it must be a model type",
        ),
        (("loss_on: responses", "loss_on: all of it"), "training.loss_on"),
        (("name: tiny", "name: [tiny"), "not valid YAML"),
        (("name: tiny", f"name: {'[' * 5000}"), "not valid YAML"),
        (("depths: [2]", f"depths: [{'9' * 5000}]"), "not valid YAML"),
        (
            ("name: tiny", "name: tiny\nname: other"),
            "'name' is given twice, the second time in line",
        ),
        (("data:", "data:\n  like: demo"), "are those of demo; leave out tokenizer"),
        (("data:", "data:\n  deduplicate: false"), "data.deduplicate: false switches nothing"),
        (("data:", "data:\n  decontaminate: false"), "leave the key out for the defaults"),
        (("tokens: 24_000", "tokens: 24_000\n  tokens: 5"), "the key 'tokens' is given twice"),
        (("depths: [2]", "depths: [2]\n  variants: [LA, LA]"), "variant names must differ"),
        (("depths: [2]", "depths: [2, 2]"), "depths: these values must differ, got 2, 2"),
        (("seeds: [0, 1]", "seeds: [1, 1]"), "seeds: these values must differ, got 1, 1"),
        (
            ("seeds: [0, 1]", "seeds: [-1]"),
            "training.seeds.0 is -1, but it must be greater than or equal to 0",
        ),
        (
            ("checkpoints: 4", "checkpoints: 0"),
            "checkpoints is 0, but it must be a number from 1 to 10,000",
        ),
        (
            ("checkpoints: 4", "checkpoints: 1000000000000"),
            "checkpoints is 1000000000000, but it must be a number from 1 to 10,000",
        ),
        (("device: cpu", "device: tpu"), "training.device is 'tpu', but it must be 'auto'"),
        (
            ("device: cpu", "device: cpu\n  averaging: .inf"),
            "training.averaging is inf, but it must be a finite number",
        ),
        (
            ("device: cpu", "device: cpu\n  averaging: 0"),
            "evaluation.weights is 'both', but training.averaging is 0",
        ),
        (
            ("weights: both", "weights: mean"),
            "evaluation.weights is 'mean', but it must be 'averaged'",
        ),
        (
            ("device: cpu", "device: cpu\n  beta1: .nan"),
            "training.beta1 is nan, but it must be less than 1",
        ),
        (
            ("device: cpu", "device: cpu\n  clip: -1"),
            "training.clip is -1, but it must be greater than 0",
        ),
        (
            ("device: cpu", "device: cpu\n  micro_batch_tokens: -1"),
            "micro_batch_tokens is -1, but it must be greater",
        ),
        (("sources: [builtin]", "sources: [builtin]\n  validation: -1"), "data.validation"),
        (
            ("benchmarks: [builtin]", "benchmarks: [gsm8k, builtin, gsm8k]"),
            "names of benchmarks must differ",
        ),
        (
            ("  dreamer:\n", "  dreamer:\n    depth: 4\n"),
            "models.dreamer: models.depths sets depth",
        ),
        (
            (
                "  depths: [2]\n",
                "  variants: [{name: X, family: DR, overrides: {vocabulary_size: 8}}]\n",
            ),
            "models.variants.0: X: data.tokenizer sets vocabulary_size; leave vocabulary_size out of overrides",
        ),
        *(
            (
                ("  depths: [2]\n", f"  variants: [LA, {{name: X, family: DR, match: {match}}}]\n"),
                words,
            )
            for match, words in {
                "{flop: size}": "models.variants.1.match: unknown key 'flop'; did you mean 'flops'?",
                "size": "match is 'size', but it must be true, false, or name sizes, as {flops: ",
                "{flops: 3}": "models.variants.1.match: flops is 3, but it must be the name of a size",
                "{flops: size, parameters: size}": "flops and parameters both search size",
            }.items()
        ),
        (
            ("name: tiny", "name: tiny\nexpect: [{variant: DR, ratio_belw: 1}]"),
            "unknown key 'ratio_belw'; did you mean 'ratio_below'?",
        ),
        (
            ("name: tiny", "name: tiny\nexpect: [{variant: LA, ratio_below: 1}]"),
            "expect: LA is compared with itself",
        ),
        (
            ("name: tiny", "name: tiny\nexpect: [{variant: DR, ratio_below: 1, task: gsm8k}]"),
            "gsm8k is not a benchm",
        ),
        (
            (
                "benchmarks: [builtin]",
                "benchmarks: [{name: validation, task: gsm8k, repository: a/b, metric: acc}]",
            ),
            "'validation' is the name of the documents held out of training",
        ),
        (
            (
                "benchmarks: [builtin]",
                "benchmarks: [{name: world_text, task: gsm8k, repository: a/b, metric: acc}]",
            ),
            "'world_text' is the name of a built-in benchmark; give the benchmark another name",
        ),
        (
            (
                "sources: [builtin]",
                "sources: [builtin, {name: world, repository: a/b, question: q, response: r}]",
            ),
            "two sources have the name 'world'",
        ),
    ],
)
def test_bad_values_are_one_line(tmp_path: Path, change: tuple[str, str], said: str) -> None:
    with pytest.raises(InputError) as error:
        changed(tmp_path, *change)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("written", ["2.4e4", "24e3", "+.24e5", "24_000"])
def test_numbers_are_numbers(tmp_path: Path, written: str) -> None:
    assert changed(tmp_path, "tokens: 24_000", f"tokens: {written}").training.tokens == 24_000


def test_without_an_average_raw_weights_are_evaluated() -> None:
    assert (
        tiny(Path(), training={"averaging": 0}, evaluation={"weights": "raw"}).evaluation.weights
        == "raw"
    )


def test_every_seed_goes_to_the_end_unless_a_race_is_asked_for(tmp_path: Path) -> None:
    assert load_study(TINY).training.stop_at(2) == 6000
    assert load_study(TINY).training.stop_at(1) is None
    assert changed(tmp_path, "  screening: 0.25\n", "").training.stop_at(2) is None
    races = {name for name in presets() if load_study(name).training.stop_at(2)}
    assert races == {"paper-16", "paper-32", "paper-mini"}


def test_the_papers_sources_are_named_at_once(tmp_path: Path) -> None:
    sources = load_study("paper-16").data.sources
    assert (len(sources), sources[0], sources[-1]) == (15, "math", "nemotron-sft-math")
    mixed = changed(tmp_path, "sources: [builtin]", "sources: [builtin, paper]").data.sources
    assert mixed == ["builtin", *sources]
    with pytest.raises(InputError, match="two sources have the name 'gsm8k'"):
        changed(tmp_path, "sources: [builtin]", "sources: [paper, gsm8k]")


def test_identity_follows_what_decides_results(tmp_path: Path) -> None:
    study = load_study(TINY)
    assert study.study_id == load_study(TINY, root=tmp_path, mirror=tmp_path).study_id
    for change in ("remark: found beforehand", "tracking: wandb"):
        assert study.study_id == changed(tmp_path, "data:", f"{change}\ndata:").study_id
    for change in (
        ("24_000", "24_001"),
        ("weights: both", "weights: raw"),
        ("seeds:", "averaging: 9\n  seeds:"),
    ):
        assert changed(tmp_path, *change).study_id != study.study_id


@pytest.mark.parametrize("unset", [False, True], ids=["with every default", "as given"])
@pytest.mark.parametrize(
    "training",
    [{"seeds_until": {"high_over_low": 1.5}}, {"checkpoint_every": 6000}, {"tokens": 1000}, {}],
    ids=["seeds_until", "checkpoint_every", "short", "plain"],
)
def test_what_a_study_writes_of_itself_is_the_same_study(training: dict, unset: bool) -> None:
    content = tiny_settings(training=training)
    content["training"].pop("warmup_steps")
    study = load_study(content)
    assert load_study(study.model_dump(mode="json", exclude_unset=unset)).study_id == study.study_id


def test_a_mistake_in_seeds_until_is_told_at_its_place() -> None:
    for until in (
        {"most": 8},
        {"high_over_low": 1.5, "most": "many"},
        {"high_over_low": 1.5, "most": 40},
    ):
        with pytest.raises(InputError, match=r"training\.seeds_until"):
            load_study(tiny_settings(training={"seeds_until": until}))


@pytest.mark.parametrize("data", ["builtin", ["builtin"]])
def test_data_that_are_no_mapping_are_one_line_with_a_mirror_too(
    tmp_path: Path, data: object
) -> None:
    with pytest.raises(InputError, match="data"):
        load_study({"name": "s", "data": data}, mirror=tmp_path)


def test_checkpoints_by_number_or_by_list(tmp_path: Path) -> None:
    assert load_study(TINY).training.points == (6000, 12000, 18000, 24000)
    assert changed(
        tmp_path, "checkpoints: 4", "checkpoints: [9000, 100, 99999]"
    ).training.points == (100, 9000, 24000)


def test_a_study_file_is_a_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="is not the folder of a study"):
        load_study(tmp_path)
    for place in (tmp_path / "pipe", Path("/dev/zero"), "no-such-study"):
        with pytest.raises(InputError, match=r"is neither a preset .* nor a YAML file that exists"):
            load_study(place)


@pytest.mark.parametrize("root", ["", "a\0b"])
def test_a_root_that_is_no_name_is_refused(root: str) -> None:
    with pytest.raises(InputError, match=r"root: .* is no name"):
        load_study("demo", root=root)


@pytest.mark.parametrize("escape", ["ud800", "x1b", "x07", "x7f"])
def test_a_character_that_nothing_can_show_is_told_at_its_key(tmp_path: Path, escape: str) -> None:
    path = tmp_path / "study.yaml"
    path.write_text(f'{TINY.read_text()}\nremark: "a \\{escape}[31m"\n')
    with pytest.raises(InputError, match="remark: it holds ") as error:
        load_study(path)
    assert str(error.value).isprintable()


def test_a_tilde_is_the_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    study = load_study("demo", root="~/runs/demo", mirror="~/data")
    assert study.folder == tmp_path / "runs" / "demo"
    assert study.mirror == tmp_path / "data"
    with pytest.raises(InputError, match=r"root: .*~nobody-here/runs: there is no such user"):
        load_study("demo", root="~nobody-here/runs")


def test_only_the_models_that_come_with_a_preset_are_trusted(tmp_path: Path) -> None:
    assert [name for name in presets() if load_study(name).trusted] == ["control"]
    copy = tmp_path / "control.yaml"
    copy.write_text((PRESETS / "control.yaml").read_text())
    (tmp_path / "my_models.py").write_text((PRESETS / "my_models.py").read_text())
    assert not load_study(copy).trusted


@pytest.mark.parametrize(
    ("of_all", "own", "read"), [(None, None, None), (None, 5, 5), (9, 5, 5), (3, 5, 3)]
)
def test_the_fewer_rows_of_two_limits_are_read(
    of_all: int | None, own: int | None, read: int | None
) -> None:
    source = {"name": "mine", "files": "a.csv", "text": "t", "limit": own}
    data = tiny(Path(), data={"limit": of_all, "sources": [source]}).data
    assert data.limit_of(resolve_source(source)) == read
