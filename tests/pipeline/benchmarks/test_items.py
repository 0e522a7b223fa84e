"""Items of benchmarks, and the table of what is known."""

import dataclasses
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dreamer_study.model.evaluation.lm_eval_definitions import build_task
from dreamer_study.model.evaluation.lm_eval_tasks import LmEvalTask
from dreamer_study.pipeline.benchmarks.items import benchmark_items, task_file, task_specifications
from dreamer_study.pipeline.benchmarks.table import BENCHMARKS, resolve_benchmark
from dreamer_study.pipeline.errors import InputError
from tests.mirror import MIRROR, needs_mirror
from tests.pipeline.documents import lines

OPENSTAX = {
    "name": "openstax",
    "repository": "openstax/algebra",
    "split": "validation",
    "text": "text",
}


def items(entry, folder):
    return benchmark_items(resolve_benchmark(entry), folder).to_pylist()


@pytest.fixture
def math(tmp_path):
    for subject in BENCHMARKS["math"].tasks:
        row = {
            "problem": f"Find {subject}.",
            "level": "Level 1",
            "type": subject,
            "solution": "It is $\\boxed{2}$.",
        }
        (tmp_path / subject).mkdir()
        pq.write_table(
            pa.Table.from_pylist([row] * 2), tmp_path / subject / "test-00000-of-00001.parquet"
        )
    return tmp_path


@pytest.mark.parametrize(
    ("name", "prefix"), [("math", "hendrycks_math"), ("math_verify", "minerva_math")]
)
def test_math_has_seven_leaves_under_two_names_and_boxed_answers(math, name, prefix):
    found = items(name, math)
    leaves = [f"{prefix}_algebra/0", f"{prefix}_algebra/1", f"{prefix}_counting_and_prob/0"]
    assert [item["id"] for item in found][:3] == leaves
    assert len(found) == 14
    assert {(item["benchmark"], item["answer"]) for item in found} == {(name, "2")}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["math", "math_verify"])
def test_lm_eval_builds_all_leaves_of_math(math, name):
    for specification in task_specifications(BENCHMARKS[name], math, math / "out"):
        task = build_task(specification, math / "cache")
        assert len(task.eval_docs) == 2
        assert specification["metric"] in task.aggregation()
        assert "Find" in task.doc_to_text(task.eval_docs[0])


@needs_mirror
@pytest.mark.parametrize(
    ("name", "count", "item"),
    [
        ("gsm8k", 1319, ("gsm8k/3", "James decides to run", "540")),
        (
            "mmlu_math",
            1064,
            ("mmlu_abstract_algebra/3", "Statement 1 | A factor group", "False, False"),
        ),
        ("mathqa", 1000, ("mathqa/3", "set a of 8 positive integers", "21")),
        (OPENSTAX, 138, ("openstax/3", "Gasoline costs have experienced", "")),
    ],
)
def test_real_items_have_the_ids_of_the_results(name, count, item):
    benchmark = resolve_benchmark(name)
    found = items(benchmark, MIRROR / benchmark.repository)
    assert len(found) == count
    assert len({row["id"] for row in found}) == count
    assert (found[3]["id"], found[3]["answer"]) == (item[0], item[2])
    assert found[3]["question"].startswith(item[1])


def test_items_of_further_splits_are_kept_out_of_training_where_they_are_there(tmp_path):
    row = {"Problem": "p", "options": "a ) 1 , b ) 2", "correct": "b", "Rationale": "1 + 1 = 2"}
    lines(tmp_path / "default" / "test.jsonl", [row])
    assert [item["id"] for item in items("mathqa", tmp_path)] == ["mathqa/0"]
    lines(tmp_path / "default" / "validation.jsonl", [row, row])
    found = items("mathqa", tmp_path)
    assert [item["id"] for item in found] == [
        "mathqa/0",
        "mathqa/validation/0",
        "mathqa/validation/1",
    ]
    assert {(item["answer"], item["options"], item["solution"]) for item in found} == {
        ("2", "1\n2", "1 + 1 = 2")
    }


CARD = "---\nconfigs:\n- config_name: main\n  data_files: [{split: test, path: [b/*, a/*]}]\n---\n"


@pytest.mark.parametrize(
    ("files", "card"),
    [(["main/test-2.jsonl", "main/test-10.jsonl"], ""), (["a/1.csv", "b/0.csv"], CARD)],
)
def test_lm_eval_gets_the_files_of_the_items_in_their_order(tmp_path, files, card):
    for number, name in enumerate(files):
        rows = [{"question": f"q{number} {i}", "answer": f"#### {i}"} for i in range(2)]
        lines(tmp_path / name, rows)
        if name.endswith(".csv"):
            (tmp_path / name).write_text(
                "question;answer\n" + "".join(f"{r['question']};{r['answer']}\n" for r in rows)
            )
    (tmp_path / "README.md").write_text(card)
    (specification,) = task_specifications(BENCHMARKS["gsm8k"], tmp_path, tmp_path / "out")
    named = specification["overrides"]["dataset_kwargs"]["data_files"]["test"]
    assert named == [str(tmp_path / name) for name in files]
    asked = [doc["question"] for doc in build_task(specification, tmp_path / "cache").eval_docs]
    assert (
        asked
        == [item["question"] for item in items("gsm8k", tmp_path)]
        == ["q0 0", "q0 1", "q1 0", "q1 1"]
    )


def test_a_users_task_by_name_and_by_file(tmp_path):
    folder = tmp_path / "mirror" / "me" / "mine"
    lines(folder / "default" / "validation.jsonl", [{"prompt": "1+1?", "target": "2"}] * 2)
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks" / "mine.yaml").write_text(
        "task: mine\noutput_type: generate_until\ntest_split: test\ndoc_to_text: '{{prompt}}'\n"
        "doc_to_target: '{{target}}'\nmetric_list: [{metric: exact_match, aggregation: mean, higher_is_better: true}]\n"
    )
    entry = {
        "name": "mine",
        "repository": "me/mine",
        "yaml": "tasks/mine.yaml",
        "split": "validation",
        "metric": "exact_match",
        "chance": 0,
        "answer": "target",
    }
    expected = {
        "id": "mine/1",
        "benchmark": "mine",
        "question": "1+1?",
        "answer": "2",
        "options": "",
        "solution": "",
    }
    assert items(entry, folder)[1] == expected
    (specification,) = task_specifications(
        resolve_benchmark(entry), folder, tmp_path / "out", beside=tmp_path
    )
    assert specification["yaml"] == str(tmp_path / "tasks" / "mine.yaml")
    assert len(build_task(specification, tmp_path / "cache").eval_docs) == 2
    named = entry | {"yaml": None, "task": "gsm8k_cot_zeroshot", "question": "prompt"}
    (specification,) = task_specifications(resolve_benchmark(named), folder, tmp_path / "out")
    assert (specification["task"], specification["yaml"]) == ("gsm8k_cot_zeroshot", None)
    with pytest.raises(InputError, match=r"no task file .*tasks/other\.yaml"):
        task_file(resolve_benchmark(entry | {"yaml": "tasks/other.yaml"}), tmp_path, None)


def test_a_task_file_lies_beside_the_study_and_not_among_data(tmp_path):
    study, mirror = tmp_path / "study", tmp_path / "study" / "data"
    mirror.mkdir(parents=True)
    for folder in (tmp_path, mirror):
        (folder / "mine.yaml").write_text("task: mine\n")
    (study / "link.yaml").symlink_to(tmp_path / "mine.yaml")
    refused = {
        "../mine.yaml": "not below",
        str(tmp_path / "mine.yaml"): "not below",
        "link.yaml": "not below",
        "data/mine.yaml": "among the data",
    }
    for name, words in refused.items():
        benchmark = resolve_benchmark(
            {"name": "mine", "repository": "me/mine", "yaml": name, "metric": "acc"}
        )
        with pytest.raises(InputError, match=words):
            task_file(benchmark, study, mirror)


def test_a_sample_of_texts_is_fixed_written_once_and_the_same_for_items_and_task(tmp_path):
    folder = tmp_path / "set"
    folder.mkdir()
    for number in range(3):
        rows = [
            {"instruction": f"i{n}", "output": f"text {number} {n}" if n else " "}
            for n in range(30)
        ]
        (folder / f"Maths-College-{number}-Final.json").write_text(json.dumps(rows))
    benchmark = dataclasses.replace(BENCHMARKS["maths-college"], rows=4)
    found = benchmark_items(benchmark, folder)
    assert len(found) == 4
    (specification,) = task_specifications(benchmark, folder, tmp_path / "out")
    task = build_task(specification, tmp_path / "cache")
    assert [task.doc_to_target(doc) for doc in task.eval_docs] == found["question"].to_pylist()
    (sample,) = (tmp_path / "out").glob("*.jsonl")
    before = sample.stat().st_mtime_ns
    assert task_specifications(benchmark, folder, tmp_path / "out") == [specification]
    assert sample.stat().st_mtime_ns == before
    sample.write_text(sample.read_text().replace("text 1", "text 7"))
    with pytest.raises(
        InputError, match=r"jsonl is not as it was written; remove .*\.json, and the next run"
    ):
        task_specifications(benchmark, folder, tmp_path / "out")


def test_a_template_of_columns_can_be_the_text(tmp_path):
    lines(tmp_path / "default" / "test.jsonl", [{"title": "T", "body": "b"}])
    benchmark = resolve_benchmark(
        {"name": "n", "repository": "a/b", "text": "concat(title, ': ', body)"}
    )
    assert benchmark.metric == "word_perplexity"
    (specification,) = task_specifications(benchmark, tmp_path, tmp_path / "out")
    task = build_task(specification, tmp_path / "cache")
    assert [task.doc_to_target(doc) for doc in task.eval_docs] == ["T: b"]


def test_a_benchmark_without_known_columns_asks_for_them(tmp_path):
    lines(tmp_path / "default" / "test.jsonl", [{"stem": "?"}])
    entry = {"name": "x", "repository": "a/b", "task": "t", "metric": "acc"}
    with pytest.raises(
        InputError, match="its columns are stem; name the benchmark's question and answer"
    ):
        items(entry, tmp_path)
    for damaged, fault in (('{"que', "fetch it again"), ("[\n", "row 1 is malformed")):
        (tmp_path / "default" / "test.jsonl").write_text('{"question": "a"}\n' + damaged)
        with pytest.raises(InputError, match=fault) as error:
            items(entry, tmp_path)
        assert str(error.value).count("test.jsonl") == 1
        assert "name the benchmark" not in str(error.value)


MINE = {"name": "x", "repository": "a/b"}


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (MINE | {"task": "t", "metrik": "acc"}, "unknown key 'metrik'; did you mean 'metric'"),
        (MINE | {"metric": "acc"}, "name lm-eval's task"),
        (MINE | {"task": "t"}, "metric must be given"),
        (MINE | {"task": "t", "metric": "acc", "chance": 25}, "but it must be a number from 0"),
        (MINE | {"task": "t", "tasks": {"c": "t"}}, "give either tasks or task"),
        (MINE | {"text": "t", "metric": "acc"}, "metric of a text must be one of"),
        (MINE | {"task": "t", "metric": "acc", "rows": 5}, "rows is for the perplexity"),
        (MINE | {"text": "t", "rows": 0}, "but it must be a whole number above 0"),
        (MINE | {"text": "t[", "rows": 1}, "'t\\[' is no SQL expression"),
        ({"name": "gsm8k", "metric": None}, "metric must be given"),
        ({"name": "mmlu_math", "configuration": "anatomy"}, "name the task of 'anatomy'"),
        (
            MINE | {"task": "t", "configurations": ["a", "b"], "metric": "acc"},
            "each configuration needs a task of its",
        ),
    ],
)
def test_a_bad_entry_is_refused_in_one_line(entry, message):
    with pytest.raises(InputError, match=message) as error:
        resolve_benchmark(entry)
    assert "\n" not in str(error.value)


def test_an_entry_with_a_name_of_the_table_changes_only_what_it_says():
    changed = resolve_benchmark({"name": "gsm8k", "filter": "strict-match"})
    assert changed == dataclasses.replace(BENCHMARKS["gsm8k"], filter="strict-match")
    for benchmark in BENCHMARKS.values():
        assert resolve_benchmark(json.loads(json.dumps(dataclasses.asdict(benchmark)))) == benchmark


def test_a_part_of_the_tables_benchmark_keeps_its_tasks_and_configurations():
    part = resolve_benchmark({"name": "math", "configurations": ["algebra", "geometry"]})
    assert part.tasks == {
        "algebra": "hendrycks_math_algebra",
        "geometry": "hendrycks_math_geometry",
    }
    assert resolve_benchmark({"name": "gsm8k", "task": "gsm8k_cot"}).tasks == {"main": "gsm8k_cot"}


def test_a_null_stands_for_the_default_of_a_field():
    changed = resolve_benchmark(
        {"name": "gsm8k", "revision": None, "filter": None, "repository": None, "task": None}
    )
    assert changed == dataclasses.replace(BENCHMARKS["gsm8k"], revision=None, filter="none")
    text = {"name": "x", "repository": "a/b", "text": "t"}
    assert resolve_benchmark(text | {"metric": None, "rows": None}) == resolve_benchmark(text)


def test_a_key_that_stands_twice_or_fits_by_case_alone_is_refused_as_in_a_source(tmp_path):
    entry = {"name": "x", "repository": "a/b", "task": "t", "metric": "acc"}
    path = tmp_path / "default" / "test.jsonl"
    lines(path, [{"Question": "OTHER", "question": "Who?"}])
    assert items(entry, tmp_path)[0]["question"] == "Who?"
    for row, fault in (
        ('{"question": "a", "question": "b"}', "row 0 holds 'question' twice"),
        ('{"Question": "a", "QUESTION": "b"}', "Question and QUESTION differ in case alone"),
        ('{"question": {"a": 1}}\n{"question": "b"}\n{"question": "c"}', "row 0 is malformed"),
    ):
        path.write_text(f"{row}\n")
        with pytest.raises(InputError, match=fault):
            items(entry, tmp_path)


def test_a_task_file_names_no_files_of_its_own(tmp_path):
    lines(tmp_path / "test.jsonl", [{"question": "1 + 1?", "answer": "2"}])
    lines(tmp_path / "other.jsonl", [{"question": "Other?", "answer": "2"}])
    (tmp_path / "sums.yaml").write_text(
        "task: sums\noutput_type: generate_until\ntest_split: test\n"
        "doc_to_text: '{{question}}'\ndoc_to_target: '{{answer}}'\n"
        "metric_list: [{metric: exact_match}]\n"
        "dataset_kwargs: {data_dir: 'http://127.0.0.1:9/', data_files: {test: other.jsonl}}\n"
    )
    entry = {"name": "sums", "task": "sums", "repository": "me/sums", "metric": "exact_match"}
    benchmark = resolve_benchmark({**entry, "yaml": "sums.yaml"})
    (specification,) = task_specifications(benchmark, tmp_path, tmp_path / "out", beside=tmp_path)
    task = build_task(specification, tmp_path / "cache")
    assert [item["question"] for item in task.eval_docs] == ["1 + 1?"]


@pytest.mark.parametrize(
    "template",
    ["{{ 'a' * 3000000000 }}", "{{ question|center(3000000000) }}", "{{ '%3000000000d' % 1 }}"],
)
def test_a_template_that_repeats_a_text_takes_bounded_memory(tmp_path, template):
    lines(tmp_path / "test.jsonl", [{"question": "1 + 1?", "answer": "2"}])
    (tmp_path / "sums.yaml").write_text(
        "task: sums\noutput_type: generate_until\ntest_split: test\n"
        "doc_to_text: '{{question}}'\ndoc_to_target: '{{answer}}'\n"
        "metric_list: [{metric: exact_match}]\n"
    )
    entry = {"name": "sums", "task": "sums", "repository": "me/sums", "metric": "exact_match"}
    overrides = {"doc_to_text": template}
    benchmark = resolve_benchmark({**entry, "yaml": "sums.yaml", "overrides": overrides})
    (specification,) = task_specifications(benchmark, tmp_path, tmp_path / "out", beside=tmp_path)
    with pytest.raises(InputError, match=r"prompts take more than 2 GB; does a template repeat"):
        LmEvalTask(specification, cache=tmp_path / "cache")
