"""`dreamer new` writes studies that `dreamer plan` accepts, and `dreamer schema` says what a study
may hold."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dreamer_study.flows.commands.cli import main
from dreamer_study.flows.study.configuration import PRESETS
from dreamer_study.flows.study.loading import load_study, presets, read_yaml
from dreamer_study.flows.study.schema import study_schema
from tests.docs.test_own_architecture import write
from tests.flows.small_study import PROJECT

STUDIES = [*PROJECT.glob("flows/study/presets/*.yaml"), *PROJECT.glob("tests/studies/*.yaml")]
QUESTIONS = [
    {"id": n, "question": f"What is {n} plus {n}?", "answer": f"It is {2 * n}."} for n in range(20)
]


def errors(study: Any) -> list[str]:
    return [
        error.message
        for error in jsonschema.Draft202012Validator(study_schema()).iter_errors(study)
    ]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def written(name: str) -> dict[str, Any]:
    """The study that was written, which fits the schema beside it."""
    text = Path(name).read_text()
    assert text.startswith("# yaml-language-server: $schema=study.schema.json\n")
    study = read_yaml(name, text)
    schema = json.loads((Path(name).parent / "study.schema.json").read_text())
    jsonschema.validate(study, schema)
    return study


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.stem)
def test_every_study_fits_the_schema(path: Path) -> None:
    assert errors(read_yaml(path.stem, path.read_text())) == []


@pytest.mark.parametrize(
    "change",
    [
        {"nmae": "x"},
        {"data": {"sources": ["builtin"], "clean": {"tirm": True}}},
        {"data": {"sources": ["gsm9k"]}},
        {"data": {"sources": [{"name": "mine", "file": "a.jsonl"}]}},
        {"models": {"dreamer": {"hiden_size": 8}}},
        {"models": {"variants": [{"name": "X", "family": "LA", "training": {"tokens": 5}}]}},
        {"evaluation": {"benchmarks": [{"name": "b", "task": "x", "metrics": "acc"}]}},
    ],
)
def test_the_schema_refuses_what_loading_refuses(change: dict[str, Any]) -> None:
    right = {
        "data": {"sources": ["builtin"]},
        "training": {"tokens": 9},
        "evaluation": {"benchmarks": ["builtin"]},
    }
    assert errors({"name": "x", **right}) == []
    assert errors({"name": "x", **right, **change})


def test_the_schema_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(json.dumps(study_schema()))


@pytest.mark.slow
def test_json_lines_with_a_question_and_an_answer(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("qa.jsonl").write_text("".join(json.dumps(row) + "\n" for row in QUESTIONS))
    assert main(["new", "my.yaml", "--data", "qa.jsonl"]) == 0
    said = capsys.readouterr().out
    assert "20 rows" in said
    assert "{question: question, response: answer}" in said
    assert said.count("It is") == 3
    assert written("my.yaml")["training"]["loss_on"] == "responses"
    assert main(["plan", "my.yaml"]) == 0


@pytest.mark.slow
def test_a_table_with_other_names(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("data").mkdir()
    rows = "".join(f"{n};Wie viel ist {n} mal 3?;{3 * n}\n" for n in range(9))
    Path("data/rechnen.csv").write_text(f"nr;Die Aufgabe;order\n{rows}", encoding="utf-8")
    assert main(["new", "studies/my.yaml", "--data", "data/rechnen.csv"]) == 0
    (source,) = written("studies/my.yaml")["data"]["sources"]
    assert source == {
        "name": "rechnen",
        "files": [str(here / "data/rechnen.csv")],
        "question": '"Die Aufgabe"',
        "response": '"order"',
    }
    assert main(["plan", "studies/my.yaml"]) == 0


@pytest.mark.slow
def test_texts_are_one_source_and_a_conversation_another(here: Path) -> None:
    for n in range(3):
        Path(f"text-{n}.txt").write_text("Two and three are five. " * 9)
    turns = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]
    pq.write_table(pa.table({"messages": [turns]}), "chats.parquet")
    assert (
        main(["new", "my.yaml", "--data", *(f"text-{n}.txt" for n in range(3)), "chats.parquet"])
        == 0
    )
    texts, chats = written("my.yaml")["data"]["sources"]
    assert texts == {
        "name": "text-0",
        "files": ["text-0.txt", "text-1.txt", "text-2.txt"],
        "text": "text",
    }
    assert (chats["question"], chats["response"]) == ("asked(messages)", "answered(messages)")
    assert main(["plan", "my.yaml"]) == 0


TURNS = [{"role": "user", "content": "Who?"}, {"role": "assistant", "content": "Ada."}]
MORE = [{"role": "user", "content": "And?"}, {"role": "assistant", "content": "Grace."}]
ROWS = [{"question": "Who?", "answer": "Ada", "type": "name"}] * 2
PARTS = [{"type": "image_url", "image_url": "x"}, {"type": "text", "text": "Who?"}]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("row", "question", "shown"),
    [
        (
            {"instruction": "Add.", "input": "1, 2", "output": "3"},
            "concat_ws(chr(10), nullif(instruction, ''), nullif(input, ''))",
            "Add. 1, 2",
        ),
        (
            {"Body": "Ada has 2.", "Question": "How many?", "Answer": "2"},
            "concat_ws(chr(10), nullif(Body, ''), nullif(Question, ''))",
            "Ada has 2. How many?",
        ),
        ({"Question": "OTHER", "question": "Who?", "answer": "Ada"}, "question", "Who?"),
        ({"chat": TURNS}, "asked(chat)", "Who?"),
        ({"chat": json.dumps(TURNS)}, "asked(chat)", "Who?"),
        ({"chat": TURNS + MORE}, "asked(chat)", "Who? Ada. And?"),
        ({"chat": [{**TURNS[0], "content": PARTS}, TURNS[1]]}, "asked(chat)", "Who?"),
        ({"prompt": TURNS[:1], "completion": TURNS[1:]}, "said(prompt)", "Who?"),
        ({"prompt": TURNS + MORE[:1], "completion": MORE[1:]}, "said(prompt)", "Who? Ada. And?"),
        (
            {"prompt": json.dumps(TURNS[:1]), "completion": json.dumps(TURNS[1:])},
            "said(prompt)",
            "Who?",
        ),
        ({"prompt": TURNS[:1], "rejected": MORE[1:], "chosen": TURNS[1:]}, "said(prompt)", "Who?"),
        ({"prompt": TURNS[:1], "answer": "Ada."}, "said(prompt)", "Who?"),
        ({"prompt": "Who?", "messages": TURNS}, "asked(messages)", "Who?"),
        ({"prompt": "Who?", "rejected": MORE[1:], "chosen": TURNS[1:]}, "prompt", "Who?"),
        (
            {"instruction": "Who?", "context": "Ada wrote it.", "response": "Ada."},
            "concat_ws(chr(10), nullif(instruction, ''), nullif(context, ''))",
            "Who? Ada wrote it.",
        ),
        ({"Was?": "Who?", "thinking": "Hm, " * 9, "Antwort": "Ada."}, '"Was?"', "Who?"),
        ({"question": "Who?", "Zeile": "Er " * 9, "x": "Ada."}, "question", "Who?"),
    ],
)
def test_a_question_is_guessed_with_all_that_belongs_to_it(
    here: Path, capsys: pytest.CaptureFixture[str], row: dict[str, Any], question: str, shown: str
) -> None:
    Path("a.jsonl").write_text(json.dumps(row) + "\n")
    assert main(["new", "my.yaml", "--data", "a.jsonl"]) == 0
    (source,) = written("my.yaml")["data"]["sources"]
    assert source["question"] == question
    said = capsys.readouterr().out
    assert f"0 question {shown}" in said.replace("\ufffc ", "")
    if "prompt" in row:
        assert f"0 response {'Grace' if 'And?' in shown else 'Ada'}." in said
    assert ("a picture or another part" in said) == ("image_url" in json.dumps(row))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("names", "response", "answer"),
    [
        (("problem", "solution", "answer"), "solution", "answer"),
        (("question", "response", "final_answer"), "response", "final_answer"),
        (("Question", "Ground_Truth", "output"), "output", "Ground_Truth"),
        (("question", "answer", "final_answer"), "answer", "final_answer"),
        (("question", "answer"), "answer", None),
        (("Question", "question", "Answer", "answer"), "answer", None),
    ],
)
def test_a_short_answer_beside_a_response_is_guessed(
    here: Path, names: tuple[str, ...], response: str, answer: str | None
) -> None:
    Path("a.jsonl").write_text(json.dumps(dict.fromkeys(names, "What is 2?")) + "\n")
    assert main(["new", "my.yaml", "--data", "a.jsonl"]) == 0
    (source,) = written("my.yaml")["data"]["sources"]
    assert (source["response"], source.get("answer")) == (response, answer)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.json", '{"v": 1, "rows": [{"q": "a"}, {"q": "b"}]}', "its `rows` holds 2 records"),
        ("a.json", json.dumps({"v": 1, "data": ROWS}), "its `data` holds 2 records"),
        ("a.jsonl", json.dumps({"v": 1, "data": ROWS}), "its `data` holds 2 records"),
        ("a.json", json.dumps({"v": 1, "set": {"train": ROWS}}), "its `set.train` holds 2 records"),
        ("a.json", json.dumps({"q": ["a", "b"], "r": ["c", "d"]}), "columns are lists (q, r)"),
        ("a.json", json.dumps({"q": {"0": "a"}, "r": {"0": "b"}}), "columns are lists (q, r)"),
        ("a.json", json.dumps({"0": ROWS[0], "1": ROWS[1]}), "2 records by name"),
        ("a.jsonl", json.dumps({"question": "a", "answer": {"x": 1}}), "`answer.x`"),
        ("a.jsonl", json.dumps({"question": "a", "answers": ["b"]}), "`answers[1]`"),
        ("a.jsonl", json.dumps({"name": "a", "dialog": ["b", "c"]}), "`dialog` holds lists of"),
        ("a.csv", "q,a\nb, c,d\n", "each of its first 1 rows has another number of fields"),
        ("a.csv", "q,a,a\n1,2,3\n", "2 columns are named 'a'"),
        (
            "a.jsonl",
            '{"question": "Who?", "answer": " "}\n' * 2,
            "gives no response in the first 2",
        ),
        ("a.jsonl", json.dumps({"messages": TURNS[:1]}), "gives no question in the first 1"),
        ("a.csv", 'q,a\n"say \\"a\\", b",2\n', "line 2 is not CSV"),
    ],
)
def test_data_that_a_guess_would_misread_are_refused(
    here: Path, capsys: pytest.CaptureFixture[str], name: str, content: str, message: str
) -> None:
    Path(name).write_text(content)
    assert main(["new", "my.yaml", "--data", name]) == 2
    assert message in capsys.readouterr().err
    assert not Path("my.yaml").exists()


def test_one_pair_of_a_row_of_several_turns_is_printed_and_such_rows_are_counted(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chats = [TURNS, TURNS + MORE, TURNS + MORE[:1], TURNS[:1]]
    Path("a.jsonl").write_text("".join(json.dumps({"m": chat}) + "\n" for chat in chats))
    assert main(["new", "my.yaml", "--data", "a.jsonl"]) == 0
    said = capsys.readouterr().out
    assert "several turns: 2 of the first 4 rows" in said
    pair = """as in row 1:
    question Who?
             Ada.
             And?
    response Grace.
"""
    assert pair in said
    assert "no text where one is wanted: 1 of the first 4 rows (such as 3), left out" in said


def test_rows_that_a_guess_loses_are_counted(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answers = ["Ada", {"x": 1}, None, [1, 2], "Grace"]
    rows = [json.dumps({"question": "Who?", "answer": answer}) for answer in answers]
    Path("a.jsonl").write_text("\n".join([*rows[:4], "{broken", rows[4]]))
    assert main(["new", "my.yaml", "--data", "a.jsonl"]) == 0
    said = capsys.readouterr().out
    assert "an object or list where a text is wanted: 2 of the first 6 rows (such as 1)" in said
    assert "a row that is malformed: 1 of the first 6 rows (such as 4)" in said
    assert "no text where one is wanted: 1 of the first 6 rows (such as 2)" in said
    assert "2 response (empty)" in said
    assert "None" not in said


def test_a_module_that_no_study_in_the_folder_can_name_is_refused(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(here)
    Path("below").mkdir(exist_ok=True)
    assert main(["new", "below/my.yaml", "--module", "my_models.py"]) == 2
    assert "my_models.py is not in the study's folder" in capsys.readouterr().err
    assert not Path("below/my.yaml").exists()


@pytest.mark.slow
def test_classes_of_a_module_are_variants_and_are_not_run(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(here)
    assert main(["new", "my.yaml", "--module", "my_models.py"]) == 0
    *_, gpt, lstm = written("my.yaml")["models"]["variants"]
    assert (gpt["module"], gpt["match"]) == ("my_models.py:GPT", {"flops": "feed_forward"})
    assert lstm == {"name": "LSTM", "module": "my_models.py:LSTM", "config": {"hidden_size": 96}}
    assert "in FLOPs and parameters; a class of yours by `match`" in Path("my.yaml").read_text()
    assert main(["plan", "my.yaml", "--trust-code"]) == 0
    Path("my_models.py").write_text("raise SystemExit\nclass Other: ...\n")
    assert main(["new", "other.yaml", "--module", "my_models.py"]) == 2
    assert "must take vocabulary_size and sequence_length" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["my.yml", "--data", "none.jsonl"], "none.jsonl: there is no such file"),
        (["my.yml", "--data", "numbers.csv"], "no column of text; its columns are id, split"),
        (["my.yml", "--data", "empty.jsonl"], "empty.jsonl: no rows"),
        (["my.yml", "--module", "none.py"], "none.py: No such file"),
        (["my.txt"], "my.txt: a study file ends in .yaml"),
        (["there.yaml"], "there.yaml exists already"),
    ],
)
def test_what_is_wrong_is_one_line(
    here: Path, capsys: pytest.CaptureFixture[str], given: list[str], said: str
) -> None:
    Path("numbers.csv").write_text("id,split\n1,a\n")
    for name in ("empty.jsonl", "there.yaml"):
        Path(name).touch()
    assert main(["new", *given]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("dreamer: ")
    assert said in line
    assert not Path(given[0]).exists() or given[0] == "there.yaml"


@pytest.mark.slow
@pytest.mark.parametrize("preset", presets())
def test_a_preset_is_copied_with_its_comments(here: Path, preset: str) -> None:
    assert main(["new", "--from", preset, "my.yaml"]) == 0
    study = written("my.yaml")
    original = (PRESETS / f"{preset}.yaml").read_text()
    text = Path("my.yaml").read_text()
    assert text.partition("\n")[2] == original.replace(f"name: {preset}\n", "name: my\n")
    # the copy is the same study under another name
    assert study == {**read_yaml(preset, original), "name": "my"}
    copy = load_study("my.yaml")
    assert copy.folder == here / "runs" / "my"
    assert copy.training == load_study(preset).training
    for variant in copy.models.variants:
        assert all((here / file).is_file() for file in variant.code_files)


def test_a_copied_preset_overwrites_nothing(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("my_models.py").write_text("mine")
    for given, said in (
        (["--from", "control", "my.yaml"], "my_models.py exists already"),
        (
            ["--from", "demo", "my.yaml", "--data", "x.jsonl"],
            "leave out --data, --module and --atlas",
        ),
        (["--from", "demo", "my.txt"], "a study file ends in .yaml"),
    ):
        assert main(["new", *given]) == 2
        assert said in capsys.readouterr().err
    assert [path.name for path in here.iterdir()] == ["my_models.py"]
    assert Path("my_models.py").read_text() == "mine"


@pytest.mark.slow
def test_a_copy_that_runs_code_says_so(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["new", "--from", "control", "deep/my.yaml"]) == 0
    assert "`dreamer run deep/my.yaml --trust-code`" in capsys.readouterr().out
    assert main(["new", "--from", "demo", "deep/small.yaml"]) == 0
    assert "`dreamer run deep/small.yaml`" in capsys.readouterr().out
