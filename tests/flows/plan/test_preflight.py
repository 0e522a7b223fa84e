"""What is told of a study: before any work, and of the data that are there."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from dreamer_study.flows.commands.cli import main
from dreamer_study.flows.estimates.disk_space import data_bytes
from dreamer_study.flows.plan import preflight
from dreamer_study.flows.plan.model_plan import plan_models
from dreamer_study.flows.plan.preflight import (
    bytes_written,
    check_benchmarks,
    check_study,
    machine_memory,
    study_warnings,
)
from dreamer_study.flows.plan.study_plan import Plan
from dreamer_study.flows.running.curation import prepare_data
from dreamer_study.flows.running.curation_warnings import (
    check_kept,
    repetition,
    trace_warnings,
    unmarked,
    unmarked_warnings,
    warnings,
)
from dreamer_study.flows.running.steps import Steps
from dreamer_study.flows.study.loading import load_study
from dreamer_study.pipeline import errors
from dreamer_study.pipeline.benchmarks.table import BENCHMARKS
from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.sources.source import Source
from dreamer_study.pipeline.storage.store import Output
from tests.flows.by_hand import BENCHMARK, entry, study_file, tiny, write_own_rows
from tests.flows.small_study import TINY


def refusal(folder: Path, **sections: dict[str, Any]) -> str:
    with pytest.raises(InputError) as error:
        check_study(load_study(study_file(folder, **sections), root=folder / "run"))
    assert "\n" not in str(error.value)
    return str(error.value)


def test_the_tiny_study_may_start(tmp_path: Path) -> None:
    study = load_study(TINY, root=tmp_path)
    check_study(study)
    assert study_warnings(study) == []
    assert machine_memory() > 2**28


def test_a_scheduler_is_trusted_by_the_user_and_not_by_the_study_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = "tcp://127.0.0.1:9"
    study = load_study(study_file(tmp_path, compute={"cluster": cluster}), root=tmp_path)
    for trusted in (None, "tcp://127.0.0.1:8786"):
        if trusted:
            monkeypatch.setenv("DREAMER_CLUSTER", trusted)
        with pytest.raises(InputError, match=r"compute\.cluster: .* DREAMER_CLUSTER=tcp://127"):
            check_study(study)
    check_study(study, trust_code=True)
    monkeypatch.setenv("DREAMER_CLUSTER", cluster)
    check_study(study)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"question": "question"},
            'a.csv: question: Referenced column "question" not found; its columns are q, r',
        ),
        ({"delimiter": ","}, "its columns are q;r"),
        ({"response": "r::int"}, "Could not convert string 'two' to INT32"),
        ({"files": "data/*.csv"}, "source 'mine': no file"),
    ],
)
def test_a_source_that_does_not_fit_its_first_rows_is_told_before_the_world_is_written(
    tmp_path: Path, changes: dict[str, Any], words: str
) -> None:
    (tmp_path / "a.csv").write_text("q;r\nWhat is 1+1?;two\n")
    mine = {"name": "mine", "files": "a.csv", "question": "q", "response": "r"}
    assert words in refusal(tmp_path, data={"sources": ["builtin", mine | changes]})
    check_study(
        load_study(study_file(tmp_path, data={"sources": ["builtin", mine]}), root=tmp_path / "run")
    )


WRONG_SIZE = {"name": "B", "family": "DR", "overrides": {"experts": 0}}
TUNE = {"learning_rate": [1e-3, 2e-3], "seeds": [900], "tokens": 6000}


def test_a_learning_rate_beside_a_search_is_not_used_and_that_is_said(tmp_path: Path) -> None:
    assert study_warnings(tiny(tmp_path, training={"tune": TUNE, "learning_rate": 1e-3})) == [
        "training.learning_rate is not used: training.tune chooses one for each model without its own"
    ]
    assert study_warnings(load_study("gpu-small")) == []


def test_a_warm_up_that_never_ends_and_sizes_that_do_not_stay_are_said(tmp_path: Path) -> None:
    (short,) = study_warnings(tiny(tmp_path, training={"tokens": 4096, "warmup_steps": 8}))
    assert "warmup_steps is 8, and 8 steps are trained" in short
    sized = {"name": "X", "family": "DR", "overrides": {"experts": 8, "expert_size": 16}}
    (lost,) = study_warnings(tiny(tmp_path, models={"variants": ["LA", sized]}))
    assert "X: expert_size and experts of its overrides do not stay" in lost
    assert (
        study_warnings(tiny(tmp_path, models={"variants": ["LA", {**sized, "match": False}]})) == []
    )


def own(**training: Any) -> dict[str, Any]:
    """A variant as LA is, with settings of training of its own."""
    return {"models": {"variants": ["LA", {"name": "X", "family": "LA", "training": training}]}}


@pytest.mark.parametrize(
    ("sections", "words"),
    [
        ({"models": {"baseline": "GPT"}}, "baseline is 'GPT', but the variants are"),
        (
            {"models": {"variants": ["LA", {"name": "G", "module": "g.py:G", "match": True}]}},
            "match: {flops",
        ),
        (
            {"models": {"variants": ["LA", {"name": "G", "module": "g.py:G"}]}},
            "G is Python in g.py",
        ),
        (
            {"models": {"variants": ["LA", {"name": "..", "family": "DR"}]}},
            "variants.1.name is '..', but it must be letters",
        ),
        (
            {"training": {"sequence_length": 96}},
            "batch_tokens=512 must be a multiple of sequence_length=96",
        ),
        ({"training": {"sequence_length": 10**9}}, "training.sequence_length"),
        ({"data": {"memory": "0GB"}}, "data.memory: 0GB is too little"),
        (
            {"data": {"mirror": "/nowhere/at/all"}},
            "data.mirror: there is no folder /nowhere/at/all",
        ),
        ({"data": {"mirror": ""}}, "data.mirror: '' is no name"),
        (
            {"data": {"mirror": "s3://key:secret@bucket/data"}},
            "a mirror must be a folder; copy s3://... to this machine first",
        ),
        ({"data": {"world": {"documents": True}}}, "data.world: documents: true is no number"),
        ({"training": {"tokens": True}}, "training.tokens: true is no number"),
        (
            own(learning_rates=1e-3),
            "training: unknown key 'learning_rates'; did you mean 'learning_rate'?",
        ),
        (own(tokens=100), "training: unknown key 'tokens'"),
        (own(batch_tokens=1024), "training: unknown key 'batch_tokens'"),
        (own(beta1=7), "X: training.beta1 is 7, but it must be less than 1"),
        (
            own(learning_rate={"times": 0.5, "of": "X"}),
            "X: learning_rate must be a number, or {times: 0.25, of: NAME}",
        ),
        (
            own(learning_rate={"times": 0, "of": "LA"}),
            "X: training.learning_rate is 0, but it must be greater than 0",
        ),
        (own(averaging=0), "training.averaging is 0 and keeps no average"),
        (
            own(keep=3, learning_rate=2e-3),
            "X repeats LA, with the same architecture, recipe and seed 0",
        ),
        (
            {"training": {"tune": {**TUNE, "seeds": [0]}}},
            "training.tune.seeds: seed 0 also trains a model of the study",
        ),
        (
            {"training": {"tune": {**TUNE, "learning_rate": [1e-3, 1e-3]}}},
            "learning_rate: these values must differ",
        ),
        ({"training": {"tune": {**TUNE, "rates": []}}}, "training.tune: unknown key 'rates'"),
        ({"training": {"seeds": [1, True]}}, "training.seeds: true is no number"),
        (
            {"training": {"checkpoints": []}},
            "checkpoints is [], but it must be a number from 1 to 10,000",
        ),
        ({"training": {"checkpoints": [1000, 1000]}}, "checkpoints must differ"),
        (
            {"training": {"ranks": 10_000}},
            "training.ranks is 10000, but it must be less than or equal to 256",
        ),
        ({"training": {"warmup_steps": 10**6}}, "warmup_steps=1,000,000 is more than"),
        ({"evaluation": {"bootstrap_replicates": 10**6}}, "less than or equal to 100000"),
        ({"data": {"memory": "much"}}, "write it like 4GB"),
        ({"models": {"dreamer": {"hidden_size": 10**7}}}, "make models.dreamer smaller"),
        (
            {"models": {"dreamer": {"hiden_size": 64}}},
            "models.dreamer: model configuration: unknown key 'hiden_size'",
        ),
        (
            {"models": {"variants": ["LA", WRONG_SIZE]}},
            "models.variants: B: model configuration: experts is 0",
        ),
        ({"data": {"tokenizer": {"file": __file__}}}, "is no tokenizer.json"),
        ({"compute": {"cluster": "local"}}, "Dask is not installed"),
    ],
)
def test_one_line_says_what_cannot_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sections: dict[str, Any], words: str
) -> None:
    find = preflight.importlib.util.find_spec
    monkeypatch.setattr(
        preflight.importlib.util,
        "find_spec",
        lambda name: None if name == "distributed" else find(name),
    )
    said = refusal(tmp_path, **sections)
    assert words in said
    assert "secret" not in said


@pytest.mark.slow
@pytest.mark.parametrize(
    "task", [{"yaml": "m.yaml"}, {"task": "ifeval"}, {"task": "piqa", "overrides": {"class": 1}}]
)
def test_a_task_with_code_is_refused_unless_trusted(tmp_path: Path, task: dict[str, Any]) -> None:
    (tmp_path / "m.yaml").write_text("task: mine\ndoc_to_text: !function evil.prompt\n")
    sections = {
        "evaluation": {
            "benchmarks": [{"name": "mine", "repository": "me/mine", "metric": "acc", **task}]
        }
    }
    why = r"\.yaml: !function in line \d+ runs code|overrides: the key 'class' may run code"
    assert re.match(rf"benchmark 'mine': .*({why}); --trust-code", refusal(tmp_path, **sections))
    check_study(
        load_study(study_file(tmp_path, **sections), root=tmp_path / "run"), trust_code=True
    )


def test_a_metric_that_the_task_does_not_have_is_told_before_anything_is_trained(
    tmp_path: Path,
) -> None:
    (tmp_path / "m.yaml").write_text("include: base.yaml\ntask: m\n")
    (tmp_path / "base.yaml").write_text(
        "doc_to_text: x\nmetric_list: [{metric: acc}, {metric: acc_norm}]\n"
    )
    mine = {"name": "mine", "repository": "me/mine", "yaml": "m.yaml", "metric": "accuracy"}
    said = refusal(tmp_path, evaluation={"benchmarks": [mine]})
    assert "m.yaml has no metric 'accuracy'; it has acc, acc_norm" in said
    for better in (
        {"metric": "acc_norm"},
        {"overrides": {"metric_list": [{"metric": "exact_match"}]}},
    ):
        study = study_file(tmp_path, evaluation={"benchmarks": [mine | better]})
        check_study(load_study(study, root=tmp_path / "run"))
    for odd in ("metric_list: null", "metric_list: 3", "process_results: !function m.score"):
        (tmp_path / "m.yaml").write_text(f"include: base.yaml\ntask: m\n{odd}\n")
        study = study_file(tmp_path, evaluation={"benchmarks": [mine]})
        check_benchmarks(load_study(study, root=tmp_path / "run"), trust_code=True)


@pytest.mark.slow
def test_a_template_that_names_no_column_is_told_before_any_training(tmp_path: Path) -> None:
    write_own_rows(tmp_path / "mirror", "items", [{"q": "What is 1 and 1?", "a": "2"}])
    lines = [
        "task: b",
        "output_type: generate_until",
        "doc_to_text: '{{question}}'",
        "doc_to_target: '{{a}}'",
    ]
    (tmp_path / "b.yaml").write_text("\n".join([*lines, "metric_list: [{metric: exact_match}]"]))
    own = {**BENCHMARK, "task": None, "yaml": "b.yaml", "metric": "exact_match"}
    sections = {"data": {"mirror": str(tmp_path / "mirror")}, "evaluation": {"benchmarks": [own]}}
    assert "b.yaml ('question' is undefined)" in refusal(tmp_path, **sections)
    own["overrides"] = {"doc_to_text": "{{q}}"}
    check_study(load_study(study_file(tmp_path, **sections), root=tmp_path / "run"))
    own |= {
        "yaml": None,
        "task": "gsm8k",
        "overrides": {"doc_to_text": "{{nope}}", "doc_to_target": "{{a}}"},
    }
    assert "gsm8k.yaml ('nope' is undefined)" in refusal(tmp_path, **sections)


@pytest.mark.slow
def test_plain_tasks_and_the_table_need_no_trust(tmp_path: Path) -> None:
    tasks = {"arc_easy": "acc", "gsm8k_cot_zeroshot": "exact_match"}
    plain = [
        {"name": name, "task": name, "repository": "a/b", "metric": metric}
        for name, metric in tasks.items()
    ]
    check_study(
        load_study(
            study_file(tmp_path, evaluation={"benchmarks": [*BENCHMARKS, *plain]}),
            root=tmp_path / "run",
        )
    )
    for group in ("ai2_arc", "score_robustness_math"):  # a tag and a group: neither is a task
        sections = {"evaluation": {"benchmarks": [plain[0] | {"task": group}]}}
        assert f"lm-eval has no task '{group}'" in refusal(tmp_path, **sections)


def test_data_sets_without_a_revision_are_named_in_one_line(tmp_path: Path) -> None:
    own = {"repository": "a/b", "question": "q", "response": "r"}
    files = {"files": "a.csv", "question": "q", "response": "r"}
    sources = [
        "gsm8k",
        "orca-math",
        {"name": "mine", **own},
        {"name": "pinned", **own, "revision": "1234567"},
    ]
    study = study_file(tmp_path, data={"sources": [*sources, {"name": "table", **files}]})
    (notice,) = study_warnings(load_study(study, root=tmp_path / "run"))
    assert notice.startswith("no revision pins orca-math, mine: ")


def test_a_full_disk_and_a_folder_that_is_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "run").write_text("")
    assert "run is a file" in refusal(tmp_path)
    (tmp_path / "run").unlink()
    monkeypatch.setattr(preflight, "free_bytes", lambda _: 1)
    assert "of checkpoints and states, the data at least 0.0 GB, and 0.0 GB are free" in refusal(
        tmp_path
    )


@pytest.mark.parametrize(("screening", "written"), [(0, 40), (0.5, 10 + 3 * 5), (0.05, 10)])
def test_the_checkpoints_of_screened_seeds_are_counted(
    tmp_path: Path, screening: float, written: int
) -> None:
    settings = {"seeds": [0, 1, 2, 3], "checkpoints": 10, "screening": screening}
    study = load_study(study_file(tmp_path, training=settings))
    planned = plan_models(study, 300)
    assert bytes_written(study, planned)[0] == written * sum(
        4 * model.parameters for model in planned
    )


def curated(folder: Path, rows: list[dict[str, Any]], **fields: Any) -> tuple[Source, list[Output]]:
    """Curate one source; its first stages, which are made whatever becomes of the others."""
    write_own_rows(folder, "s", rows)
    data = {
        "sources": [entry("s", **fields)],
        "mirror": str(folder),
        "tokenizer": {"vocabulary_size": 300},
    }
    plan = Plan(tiny(folder / "run", data=data))
    with suppress(InputError):
        prepare_data(plan, Steps())
    (one,) = plan.data.sources
    return one.source, [one.documents, one.traces, one.clean]


@pytest.mark.slow
def test_nothing_kept_names_the_source_and_the_main_reason(tmp_path: Path) -> None:
    rows = [{"q": f"What is {i} and {i}?", "r": "It is right."} for i in range(9)] + [
        {"q": "What is this?", "r": ""}
    ]
    source, outputs = curated(tmp_path, rows, trace="closing")
    with pytest.raises(
        InputError,
        match=r"source 's': none of its 10 documents .*'traces' dropped 9 as 'trace never closed'",
    ):
        check_kept(source, outputs)


@pytest.mark.slow
def test_more_than_half_lost_for_one_reason_is_a_line(tmp_path: Path) -> None:
    rows = [
        {"q": f"What is {i} and {i}?", "r": "" if i % 3 else "<think>a</think>b"} for i in range(9)
    ]
    source, outputs = curated(tmp_path, rows, trace="paired")
    check_kept(source, outputs)
    assert warnings(outputs) == [
        "documents dropped 6 of the 9 documents of source 's' as 'empty response'"
    ]
    assert unmarked_warnings(outputs[1]) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("trace", "count"), [("paired", {"s": 6}), ("unmarked", {"s": 6}), ("none", {})]
)
def test_responses_kept_without_marks_are_counted_where_traces_are_declared(
    tmp_path: Path, trace: str, count: dict[str, int]
) -> None:
    rows = [
        {"q": f"What is {i} and {i}?", "r": "It is right." if i % 3 else "<think>a</think>b"}
        for i in range(9)
    ]
    outputs = curated(tmp_path, rows, trace=trace)[1]
    told = "source 's': 6 responses have no trace, though `trace` is 'paired'; they stay"
    assert unmarked(outputs[1]) == count
    warned = [told] if trace == "paired" else []
    assert unmarked_warnings(outputs[1]) == warned, "nobody expects marks of the others"
    assert warnings(outputs) == []


@pytest.mark.slow
def test_kept_responses_with_marks_are_a_line_that_names_the_most_frequent_mark(
    tmp_path: Path,
) -> None:
    responses = ["<plan>a</plan>It is right.", "<PLAN>b</PLAN>It is right.", "Say <|x1y|> here."]
    rows = [{"q": f"What is {i} and {i}?", "r": responses[i % 3]} for i in range(9)]
    outputs = curated(tmp_path, rows, trace="none")[1]
    (line,) = trace_warnings(outputs[1])
    assert line.startswith(
        "source 's': 9 kept responses hold what may be a mark of a trace ('<plan>' in 6); if"
    )
    assert "`trace_marks`" in line
    assert trace_warnings(curated(tmp_path / "b", [{"q": "What?", "r": "4 < 5"}])[1][1]) == []


@pytest.mark.slow
def test_marks_of_a_source_are_stripped_and_read_nothing_again(tmp_path: Path) -> None:
    rows = [{"q": f"What is {i} and {i}?", "r": "<plan>a</plan>It is right."} for i in range(9)]
    without = curated(tmp_path, rows)[1]
    outputs = curated(tmp_path, rows, trace_marks=["<plan>", "</plan>"])[1]
    assert trace_warnings(outputs[1]) == []
    assert outputs[1].results["traces"] == [{"source": "s", "kind": "stripped", "documents": 9}]
    assert outputs[0].key == without[0].key
    assert outputs[1].key != without[1].key


@pytest.mark.slow
def test_a_weight_changes_no_key_of_what_is_read(tmp_path: Path) -> None:
    rows = [{"q": f"What is {i}?", "r": "It is right."} for i in range(9)]
    assert curated(tmp_path, rows)[1] == curated(tmp_path, rows, weight=2.0)[1]


def test_data_that_are_read_too_often_are_told() -> None:
    assert repetition(4_000, 100) == repetition(0, 0) == []
    (line,) = repetition(41_000, 100)
    assert line.startswith("training reads its data 410.0 times over;")


@pytest.mark.slow
def test_few_data_are_told_when_they_are_there_and_in_the_plan(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = study_file(tmp_path, training={"tokens": 10_000_000})
    plan = ["plan", str(path), "--root", str(tmp_path / "run")]
    assert main(plan) == 0
    assert re.search(
        r"WARNING: training reads its data \d+\.\d times over", capsys.readouterr().out
    )
    prepare_data(Plan(load_study(path, root=tmp_path / "run")), Steps())
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "times over" in line]
    assert line.startswith("WARNING: training reads its data")
    assert main(plan) == 0
    assert line in capsys.readouterr().out


def test_the_bytes_of_the_data_count_too(tmp_path: Path) -> None:
    settings = {"data": {"sources": ["builtin"], "world": {"documents": 10**11}}}
    study = load_study(study_file(tmp_path, **settings), root=tmp_path / "run")
    with pytest.raises(InputError, match=r"the data at least 1\d,\d{3}\.\d GB"):
        check_study(study, data_bytes=data_bytes)
    items = {"data": {"sources": ["builtin"], "world": {"items": 10**11}}}
    study = load_study(study_file(tmp_path, **items), root=tmp_path / "run")
    with pytest.raises(InputError, match=r"the data at least 3,\d{3}\.\d GB"):
        check_study(study, data_bytes=data_bytes)


def test_what_is_stored_counts_as_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = load_study(study_file(tmp_path), root=tmp_path / "run")
    monkeypatch.setattr(preflight, "free_bytes", lambda _: 0)
    monkeypatch.setattr(preflight, "folder_size", lambda _: 10**12)
    check_study(study, data_bytes=data_bytes)


@pytest.mark.parametrize(("limit", "draws"), [(3e9, False), (60e9, True)])
def test_too_few_addresses_are_said_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: float, draws: bool
) -> None:
    study = load_study(study_file(tmp_path), root=tmp_path / "run")
    monkeypatch.setattr(errors, "memory_limit", lambda: int(limit))
    with pytest.raises(InputError, match="ulimit -v unlimited"):
        check_study(study, draws=draws)


def test_a_study_that_draws_nothing_needs_few_addresses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(errors, "memory_limit", lambda: int(60e9))
    check_study(load_study(study_file(tmp_path), root=tmp_path / "run"), draws=False)
