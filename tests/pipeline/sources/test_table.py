"""Every source of the table reads a file of the real one's container and schema; entries are checked when resolved."""

import csv
import dataclasses
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.errors import InputError
from pipeline.sources.repositories.folders import source_files
from pipeline.sources.repositories.splits import find_split
from pipeline.sources.source import notices
from pipeline.sources.stage import read_source
from pipeline.sources.table import SOURCES, resolve_source
from pipeline.storage.documents import read_documents

TEXT_PAIR = pa.list_(pa.struct([("content", pa.string()), ("role", pa.string())]))
TURNS = pa.list_(pa.struct([("from", pa.string()), ("value", pa.string())]))
PREFIX = "Return your final response within \\boxed{}. "


def write(path, rows, **types):
    """Rows as a file of the kind its name says; `types` are the Arrow types of Parquet columns that are not strings."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        schema = pa.schema([(name, types.get(name, pa.string())) for name in rows[0]])
        pq.write_table(pa.Table.from_pylist(rows, schema), path)
    elif path.suffix == ".csv":
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows(rows)
    elif path.suffix == ".json":
        path.write_text(json.dumps(rows, indent=1))
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def read(name, folder, tmp_path):
    """Kept documents as (id, question, response, answer), and dropped ones as (row, reason)."""
    source = resolve_source(name)
    read_source(source, source_files(source, folder), tmp_path / "out")
    kept = [d for batch in read_documents(tmp_path / "out") for d in batch.to_pylist()]
    dropped = [d for batch in read_documents(tmp_path / "out", kind="dropped") for d in batch.to_pylist()]
    assert {d["source"] for d in kept} <= {source.name}
    texts = [(d["id"], d["question"], d["response"], d["answer"]) for d in kept]
    return texts, [(d["row"], d["reason"]) for d in dropped]


def test_math_reads_all_seven_subjects_and_takes_the_last_box(tmp_path):
    for name in SOURCES["math"].configurations:
        row = {"problem": f"Find {name}.", "level": "Level 5", "type": name, "solution": "So \\boxed{\\frac{1}{2}}."}
        write(tmp_path / name / "train-00000-of-00001.parquet", [row])
        write(tmp_path / name / "test-00000-of-00001.parquet", [row | {"problem": "never read"}])
    kept, dropped = read("math", tmp_path, tmp_path)
    assert [question for _, question, _, _ in kept] == [f"Find {n}." for n in SOURCES["math"].configurations]
    assert {answer for *_, answer in kept} == {"\\frac{1}{2}"}
    assert [identity for identity, *_ in kept] == [f"math@0bd4da3/{i}" for i in range(7)]
    assert not dropped


def test_openr1_keeps_every_generation_that_its_flags_call_correct(tmp_path):
    def row(problem, generations, verified, judged, complete):
        return {
            "problem": problem,
            "solution": "human",
            "answer": "4",
            "generations": generations,
            "correctness_math_verify": verified,
            "correctness_llama": judged,
            "is_reasoning_complete": complete,
            "messages": [{"content": "m", "role": "user"}],
        }

    rows = [
        row(
            "two right", ["<think>a</think>4", "<think>b</think>5", "c"], [True, False, True], None, [True, True, True]
        ),
        row("judged by the model", ["d", "e"], [False, False], [False, True], [True, True]),
        row("flags too short", ["f", "g"], [False], None, [True]),
        row("not complete", ["h"], [True], None, [False]),
        row("no generations", None, None, None, None),
    ]
    flags = pa.list_(pa.bool_())
    write(
        tmp_path / "OpenR1-Math-220k-default" / "train-00000-of-00001.parquet",
        rows,
        generations=pa.list_(pa.string()),
        correctness_math_verify=flags,
        correctness_llama=flags,
        is_reasoning_complete=flags,
        messages=TEXT_PAIR,
    )
    kept, dropped = read("curatedthoughts-openr1", tmp_path, tmp_path)
    assert kept == [
        ("curatedthoughts-openr1/0.0", "two right", "<think>a</think>4", "4"),
        ("curatedthoughts-openr1/0.2", "two right", "c", "4"),
        ("curatedthoughts-openr1/1.1", "judged by the model", "e", "4"),
    ]
    assert sorted(dropped) == [(2, "no correct generation"), (3, "no correct generation"), (4, "empty response")]


def test_openr1_accepts_a_flag_column_of_nulls(tmp_path):
    row = {
        "problem": "q",
        "answer": "1",
        "generations": ["g"],
        "correctness_math_verify": [True],
        "correctness_llama": None,
        "is_reasoning_complete": [True],
    }
    flags = pa.list_(pa.bool_())
    write(
        tmp_path / "OpenR1-Math-220k-default" / "train-0.parquet",
        [row],
        generations=pa.list_(pa.string()),
        correctness_math_verify=flags,
        correctness_llama=pa.null(),
        is_reasoning_complete=flags,
    )
    kept, _ = read("curatedthoughts-openr1", tmp_path, tmp_path)
    assert kept == [("curatedthoughts-openr1/0.0", "q", "g", "1")]


def test_openthoughts_math_takes_the_conversation_of_correct_rows_and_not_the_short_solution(tmp_path):
    trace = "<|begin_of_thought|>\n\nhm\n\n<|end_of_thought|>\n\n<|begin_of_solution|>\n\n4\n\n<|end_of_solution|>"
    row = {
        "source": "aops",
        "problem": "2+2?",
        "solution": "It is \\boxed{4}.",
        "messages": [{"content": "short", "role": "assistant"}],
        "system": "Think!",
        "conversations": [{"from": "user", "value": PREFIX + "2+2?"}, {"from": "assistant", "value": trace}],
        "generated_token_count": 7,
        "correct": True,
    }
    wrong = row | {"problem": "wrong", "correct": False}
    unknown = row | {"problem": "unknown", "correct": None}
    write(
        tmp_path / "OpenThoughts-114k-math-default" / "train-0.parquet",
        [row, wrong, unknown],
        messages=TEXT_PAIR,
        conversations=TURNS,
        generated_token_count=pa.int64(),
        correct=pa.bool_(),
    )
    kept, dropped = read("curatedthoughts-openthoughts", tmp_path, tmp_path)
    assert kept == [("curatedthoughts-openthoughts/0", "2+2?", trace, "4")]
    assert dropped == [(1, "filtered by correct"), (2, "filtered by correct")]


def test_orca_math(tmp_path):
    write(tmp_path / "data" / "train-00000-of-00001.parquet", [{"question": "How many?", "answer": "There are 3."}])
    kept, _ = read("orca-math", tmp_path, tmp_path)
    assert kept == [("orca-math/0", "How many?", "There are 3.", "")]


def test_mathinstruct_is_one_json_array_at_the_top(tmp_path):
    rows = [
        {"source": "data/CoT/gsm_train.json", "instruction": "How many?", "output": "1 + 2 = 3. The answer is 3."},
        {"source": "data/PoT/mathqa.json", "instruction": "Write a program.", "output": "print(3)"},
    ]
    write(tmp_path / "MathInstruct.json", rows)
    kept, _ = read("mathinstruct", tmp_path, tmp_path)
    assert [(response, answer) for _, _, response, answer in kept] == [("1 + 2 = 3. The answer is 3.", "3")]
    whole = resolve_source({"name": "mathinstruct", "where": {}})
    result = read_source(whole, find_split(tmp_path, "default", "train"), tmp_path / "whole")
    assert {(c["reason"], c["documents"]) for c in result["counts"]} == {("kept", 2)}


def test_gsm8k_pins_its_revision_in_the_ids_and_notes_can_be_cut_out(tmp_path):
    row = {"question": "How far?", "answer": "He runs 2*600 = <<2*600=1200>>1200 m.\n#### 1,200"}
    write(tmp_path / "main" / "train.jsonl", [row])
    kept, _ = read("gsm8k", tmp_path, tmp_path)
    assert kept == [("gsm8k@740312ad/0", "How far?", row["answer"], "1200")]
    plain = resolve_source({"name": "gsm8k", "remove_response": ["<<[^<>]*>>", r"\n#### .*$"]})
    read_source(plain, find_split(tmp_path, "main", "train"), tmp_path / "plain")
    assert next(read_documents(tmp_path / "plain"))["response"].to_pylist() == ["He runs 2*600 = 1200 m."]


@pytest.mark.parametrize("header", ["hints/solutions", "hints", "solution"])
def test_amps_khan_is_csv_with_hints_as_a_list_or_as_text(tmp_path, header):
    rows = [
        {"problem": "4, 10, ?", header: str(["Add\n6.", "It's 16"])},
        {"problem": "5, 11, ?", header: '["Add 6.", "17"]'},
        {"problem": "plain, with comma", header: "Simply 18"},
        {"problem": "broken", header: "['Add 6."},
        {"problem": "empty", header: "[]"},
    ]
    write(tmp_path / "combine_amps_khan.csv", rows)
    kept, dropped = read("amps-khan", tmp_path, tmp_path)
    assert [(response, answer) for _, _, response, answer in kept] == [
        ("Add\n6.\nIt's 16", "It's 16"),
        ("Add 6.\n17", "17"),
        ("Simply 18", "Simply 18"),
        ("['Add 6.", "['Add 6."),
    ]
    assert dropped == [(4, "empty response")]


def test_amps_khan_with_other_columns_names_both_lists(tmp_path):
    write(tmp_path / "combine_amps_khan.csv", [{"exercise": "1", "steps": "2"}])
    with pytest.raises(
        InputError, match=r"problem \| question; wanted are problem, question, hints/solutions.*exercise"
    ):
        read("amps-khan", tmp_path, tmp_path)


def test_openthoughts2_strips_the_prompt_prefix(tmp_path):
    turns = [
        {"from": "user", "value": PREFIX + "What is 2+2?"},
        {"from": "assistant", "value": "<think>\nhm\n</think>\n\n\\boxed{4}"},
    ]
    rows = [
        {"conversations": turns, "source": None},
        {"conversations": turns[:1], "source": "glaive"},
        {"conversations": None, "source": "x"},
    ]
    write(tmp_path / "data" / "train-00000-of-00038.parquet", rows, conversations=TURNS)
    kept, dropped = read("openthoughts2", tmp_path, tmp_path)
    assert kept == [("openthoughts2/0", "What is 2+2?", "<think>\nhm\n</think>\n\n\\boxed{4}", "4")]
    assert sorted(dropped) == [(1, "empty response"), (2, "empty question")]


def test_numinamath_without_or_with_an_empty_box_has_no_answer(tmp_path):
    solutions = ["So \\boxed{3}.", "Proved. \\boxed{}", "No box."]
    rows = [{"source": "s", "problem": f"P{i}", "solution": s, "messages": []} for i, s in enumerate(solutions)]
    write(tmp_path / "data" / "train-00000-of-00005.parquet", rows, messages=TEXT_PAIR)
    write(tmp_path / "data" / "test-00000-of-00001.parquet", rows[:1], messages=TEXT_PAIR)
    kept, _ = read("numinamath-cot", tmp_path, tmp_path)
    assert [answer for *_, answer in kept] == ["3", "", ""]


def test_natural_reasoning_is_json_lines_with_nested_responses(tmp_path):
    rows = [
        {"question": "Why?", "reference_answer": None, "responses": [{"response": "So.", "response_model": "L"}]},
        {"question": "How?", "reference_answer": "Thus", "responses": []},
    ]
    write(tmp_path / "full.jsonl", rows)
    kept, dropped = read("natural-reasoning", tmp_path, tmp_path)
    assert kept == [("natural-reasoning/0", "Why?", "So.", "")]
    assert dropped == [(1, "empty response")]
    assert any("non-commercial" in notice for notice in notices(SOURCES["natural-reasoning"]))


def test_openmathinstruct_reads_train_and_not_its_overlapping_subsets(tmp_path):
    row = {"problem": "P", "generated_solution": "S", "expected_answer": "45", "problem_source": "math"}
    for name in ("train-00000-of-00002", "train-00001-of-00002", "train_1M-00000-of-00001"):
        write(tmp_path / "data" / f"{name}.parquet", [row | {"problem": name}])
    kept, _ = read("openmathinstruct-2", tmp_path, tmp_path)
    assert [question for _, question, _, _ in kept] == ["train-00000-of-00002", "train-00001-of-00002"]


def test_openmathreasoning_reads_the_split_cot_and_leaves_rows_without_a_solution(tmp_path):
    row = {
        "expected_answer": "5",
        "problem": "P",
        "generated_solution": "<think>a</think>\\boxed{5}",
        "inference_mode": "cot",
        "pass_rate_72b_tir": "n/a",
        "used_in_kaggle": True,
    }
    rows = [row, row | {"generated_solution": "n/a", "inference_mode": "n/a"}]
    write(tmp_path / "data" / "cot-00000-of-00144.parquet", rows, used_in_kaggle=pa.bool_())
    write(tmp_path / "data" / "tir-00000-of-00072.parquet", rows, used_in_kaggle=pa.bool_())
    kept, dropped = read("openmathreasoning", tmp_path, tmp_path)
    assert kept == [("openmathreasoning/0", "P", "<think>a</think>\\boxed{5}", "5")]
    assert dropped == [(1, "filtered by inference_mode")]


def test_deepmath_makes_a_document_of_each_of_its_three_solutions(tmp_path):
    row = {"question": "Q", "final_answer": "\\infty", "difficulty": 5.5, "topic": "T"}
    row |= {f"r1_solution_{i}": f"reasoning {i}</think>answer {i}" for i in (1, 2, 3)}
    write(
        tmp_path / "data" / "train-00000-of-00010.parquet",
        [row, row | {"r1_solution_2": None}],
        difficulty=pa.float64(),
    )
    kept, dropped = read("deepmath-103k", tmp_path, tmp_path)
    assert [identity for identity, *_ in sorted(kept)] == [
        "deepmath-103k@0406dc9/0.0",
        "deepmath-103k@0406dc9/0.1",
        "deepmath-103k@0406dc9/0.2",
        "deepmath-103k@0406dc9/1.0",
        "deepmath-103k@0406dc9/1.2",
    ]
    assert {answer for *_, answer in kept} == {"\\infty"}
    assert dropped == [(1, "empty response")]


def test_ibivibiv_math_instruct_joins_its_input_and_unwraps_byte_strings(tmp_path):
    rows = [
        {"instruction": "Add.", "output": "3", "input": "1 and 2"},
        {"instruction": "What is f'(x)?", "output": "f'", "input": ""},
        {"instruction": "b'(x) is the derivative of b(x). What is b'(1)?", "output": "2", "input": None},
        {"instruction": "b'Let x = 1.\\n'", "output": "b'1\\n'", "input": None},
    ]
    write(tmp_path / "data" / "train-00000-of-00021.parquet", rows)
    kept, _ = read("math-instruct", tmp_path, tmp_path)
    assert [(question, response) for _, question, response, _ in kept] == [
        ("Add.\n1 and 2", "3"),
        ("What is f'(x)?", "f'"),
        ("b'(x) is the derivative of b(x). What is b'(1)?", "2"),
        ("Let x = 1.", "1"),
    ]


def test_nemotron_is_plain_text_in_a_folder_of_numbered_parts(tmp_path):
    metadata = pa.struct([("category", pa.string()), ("models_used", pa.string())])
    for part in (10, 2):
        row = {"id": str(part), "text": f"part {part}", "metadata": {"category": "m", "models_used": "x"}}
        write(tmp_path / "Nemotron-SFT-MATH" / f"part_{part}.parquet", [row], metadata=metadata)
        write(tmp_path / "Nemotron-SFT-Code" / f"part_{part}.parquet", [row | {"text": "code"}], metadata=metadata)
    kept, _ = read("nemotron-sft-math", tmp_path, tmp_path)
    assert [(question, response) for _, question, response, _ in kept] == [("", "part 2"), ("", "part 10")]
    assert any("gated" in notice for notice in notices(SOURCES["nemotron-sft-math"]))


@pytest.mark.parametrize("lines", [True, False])
def test_maths_college_may_be_arrays_or_lines_and_never_trains(tmp_path, lines):
    for number in range(2):
        rows = [{"instruction": f"Teach {number}.", "output": "A chapter."}]
        path = tmp_path / f"Maths-College-{number}-Final.json"
        path.write_text(json.dumps(rows[0]) + "\n" if lines else json.dumps(rows))
    kept, _ = read("maths-college", tmp_path, tmp_path)
    assert [question for _, question, _, _ in kept] == ["Teach 0.", "Teach 1."]
    assert SOURCES["maths-college"].use == "validation"
    assert {source.name for source in SOURCES.values() if source.use != "train"} == {"maths-college"}


def test_the_table_names_the_papers_repositories_once_each_but_for_the_two_curated_configurations():
    repositories = [source.repository for source in SOURCES.values()]
    assert len(set(repositories)) == 15
    assert {r for r in repositories if repositories.count(r) > 1} == {"bethgelab/CuratedThoughts"}
    assert {s.name for s in SOURCES.values() if s.gated} == {"nemotron-sft-math"}
    assert {s.name for s in SOURCES.values() if s.non_commercial} == {"natural-reasoning"}


def test_every_source_survives_being_stored_as_json():
    for source in SOURCES.values():
        assert resolve_source(json.loads(json.dumps(dataclasses.asdict(source)))) == source


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("gsm8", r"no source 'gsm8'; did you mean 'gsm8k'\?"),
        ({"name": "x", "repository": "a/b", "question": "q", "respones": "r"}, "'respones'; did you mean 'response"),
        ({"repository": "a/b", "question": "q", "response": "r"}, "name must be given"),
        ({"name": "x", "repository": "ab", "question": "q", "response": "r"}, "not of the form owner/name"),
        ({"name": "x", "repository": "../..", "question": "q", "response": "r"}, "not of the form owner/name"),
        ({"name": "../x", "repository": "a/b", "question": "q", "response": "r"}, "letters, digits"),
        ({"name": "x", "repository": "a/b", "question": "q"}, "give either text, or question"),
        ({"name": "x", "repository": "a/b", "text": "t", "question": "q"}, "give either text, or question"),
        ({"name": "x", "repository": "a/b", "text": "t", "use": "tain"}, "use is 'tain'; it must be one of train"),
        ({"name": "x", "repository": "a/b", "text": "t", "limit": 0}, "limit must be a whole number"),
        ({"name": "x", "repository": "a/b", "text": "t", "remove_response": "("}, "not a regular expression"),
        ({"name": "x", "repository": "a/b", "text": "{a"}, "a brace without its partner"),
        ({"name": "x", "repository": "a/b", "text": "a[b]"}, "not a column or a path"),
        ({"name": "x", "repository": "a/b", "text": "t", "answer": "boxd(t)"}, "did you mean 'boxed'"),
        ({"name": "x", "repository": "a/b", "text": "t", "keep_if": "flag"}, r"keep_if needs a response with \[\*\]"),
        ({"name": "gsm8k", "gated": "yes"}, "gated must be true or false"),
        ({"name": "gsm8k", "revision": "main"}, "revision 'main' is no commit .* tags move, so give the commit"),
        ({"name": "gsm8k", "revision": "v1.0"}, "revision 'v1.0' is no commit"),
    ],
)
def test_a_bad_entry_is_refused_in_one_line(entry, message):
    with pytest.raises(InputError, match=message) as error:
        resolve_source(entry)
    assert "\n" not in str(error.value)


def test_an_entry_with_a_name_of_the_table_changes_only_what_it_says():
    changed = resolve_source({"name": "openmathinstruct-2", "split": "train_1M", "limit": 1000})
    assert dataclasses.replace(changed, split="train", limit=None) == SOURCES["openmathinstruct-2"]
    assert resolve_source({"name": "gsm8k", "revision": None, "repository": None}).prefix == "gsm8k"


def test_no_source_is_named_like_a_path():
    assert all(Path(name).name == name for name in SOURCES)
