"""Deduplication: what goes, what stays, what it gave way to, and that nothing but the documents
decides it."""

import gzip
import json
import random
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dreamer_study.pipeline.dedup.deduplicate import deduplicate
from dreamer_study.pipeline.dedup.settings import DedupSettings
from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.storage.documents import DocumentWriter
from tests.mirror import MIRROR, needs_mirror
from tests.pipeline.documents import read, table, write
from tests.pipeline.text.specification import ngram_ids

STORY = (
    "Natalia sold clips to {n} of her friends in April, and then she sold half as many clips in May. How many clips "
    "did Natalia sell altogether in April and May? Write down every step of the way before you give the answer."
)


def outcome(folder: Path) -> tuple[list[str], dict[str, tuple[str, str]]]:
    """Ids kept, in order; reason and cause of each id dropped."""
    dropped = {row["id"]: (row["reason"], row["because"]) for row in read(folder, "dropped")}
    return [row["id"] for row in read(folder)], dropped


def run(folder: Path, rows: list[tuple[str, str, str]], settings: DedupSettings | None = None):
    source = write(folder / "in", table(rows))
    results = deduplicate([source], folder / "out", settings or DedupSettings())
    return *outcome(folder / "out"), results


def reworded(draw: random.Random, text: str, edits: int) -> str:
    words = text.split()
    for place in draw.sample(
        [i for i, word in enumerate(words) if word.isalpha() and word.islower()], edits
    ):
        words[place] = "".join(draw.choice("abcdefgh") for _ in range(7))
    return " ".join(words)


@pytest.mark.slow
def test_exact_duplicates_in_any_case_and_spacing(tmp_path: Path) -> None:
    rows = [
        ("What is 2+2?", "4", "4"),
        ("what  is\n2 + 2 ?", " 4 ", "4"),
        ("What is 2-2?", "0", "0"),
        ("What is 22?", "4", ""),
        ("So many words?", "", ""),
        ("So many words", "", ""),
        ("So many?", "words", ""),
        ("", "", ""),
        (None, None, None),
        ("What is 2 2?", "4", ""),
        ("Two   Words,\nthen\t( 3 + 4 ) . ", "", ""),
        ("two words,then(3+4).", "", ""),
    ]
    kept, dropped, results = run(tmp_path, rows)
    assert kept == ["s/0", "s/2", "s/3", "s/4", "s/5", "s/6", "s/7", "s/9", "s/10"]
    causes = {"s/1": "s/0", "s/8": "s/7", "s/11": "s/10"}
    assert dropped == {copy: ("exact_duplicate", cause) for copy, cause in causes.items()}
    assert {(c["reason"], c["documents"]) for c in results["counts"]} == {
        ("kept", 9),
        ("exact_duplicate", 3),
    }


@pytest.mark.slow
def test_one_word_edits_go_and_other_problems_stay(tmp_path: Path) -> None:
    story = STORY.format(n=48)
    rows = [
        (story, "She sold 48 / 2 = 24 clips in May, and 48 + 24 = 72 clips in all.", "72"),
        (
            story.replace("altogether", "overall"),
            "She sold 48 / 2 = 24 clips in May, and 48 + 24 = 72 clips in all.",
            "72",
        ),
        (
            STORY.format(n=50),
            "She sold 50 / 2 = 25 clips in May, and 50 + 25 = 75 clips in all.",
            "75",
        ),
        (story, "She sold 48 / 2 = 24 clips in May, and 48 - 24 = 72 clips in all.", "72"),
        (
            story.replace("Natalia", "Weng"),
            "She sold 48 / 2 = 24 clips in May, and 48 + 24 = 72 clips in all.",
            "72",
        ),
        (
            story.replace("half", "twice"),
            "She sold 48 / 2 = 24 clips in May, and 48 + 24 = 72 clips in all.",
            "72",
        ),
        (story, "She sold 48 / 2 = 24 clips in May, and 48 + 24 = 72 clips in all of it.", "24"),
    ]
    kept, dropped, results = run(tmp_path, rows)
    assert dropped == {"s/1": ("near_duplicate", "s/0")} or dropped == {
        "s/0": ("near_duplicate", "s/1")
    }
    assert len(kept) == 6
    assert results["refused"]["signs"]
    assert results["refused"]["names"]
    assert results["refused"]["answers"]
    everything = replace(DedupSettings(), guards=())
    kept, _, _ = run(tmp_path / "unguarded", rows, everything)
    assert len(kept) <= 2


@pytest.mark.slow
def test_a_pair_right_at_the_threshold_is_a_near_duplicate(tmp_path: Path) -> None:
    common = "ada bob cid dot eve fay gus"
    settings = DedupSettings(words=1, threshold=0.7)
    # 7 of 10 words
    at = run(tmp_path / "at", [(f"{common} hal", "", ""), (f"{common} ivy jon", "", "")], settings)
    below = run(
        tmp_path / "below", [(f"{common} hal", "", ""), (f"{common} ivy jon kim", "", "")], settings
    )
    assert (len(at[1]), len(below[1])) == (1, 0)
    assert (at[2]["verified"], below[2]["verified"]) == (1, 0)


@pytest.mark.slow
def test_the_survivor_comes_first_by_source_then_answer_then_length_then_id(tmp_path: Path) -> None:
    text = STORY.format(n=4)
    first = write(tmp_path / "first", table([(text, "Seven.", "")], "z"))
    rows = [(text, "Seven. ", "7"), ("How so?", "So", ""), ("How so ?", "So", "So")]
    second = write(tmp_path / "second", table(rows, "a"))
    longer = write(
        tmp_path / "third", table([(text + " Thank you very much.", "Seven.", "7")], "b")
    )
    deduplicate([first, second, longer], tmp_path / "out", DedupSettings())
    kept, dropped = outcome(tmp_path / "out")
    assert kept == ["z/0", "a/2"]
    assert dropped == {
        "a/0": ("exact_duplicate", "z/0"),
        "a/1": ("exact_duplicate", "a/2"),
        "b/0": ("near_duplicate", "z/0"),
    }
    deduplicate([longer, second, first], tmp_path / "other", DedupSettings())
    assert outcome(tmp_path / "other")[0] == ["b/0", "a/2"]


@pytest.mark.slow
def test_a_cause_is_always_a_document_that_stayed(tmp_path: Path) -> None:
    text = STORY.format(n=8)
    rows = [
        (text, "The answer is 12 clips.", "12"),
        (text, "the answer is  12 clips.", ""),  # exact copy of the first
        (
            text.replace("altogether", "overall"),
            "The answer is 12 clips, all told, which is what was asked.",
            "12",
        ),
        (
            text,
            "Another way altogether of saying that a dozen and no more were sold in those weeks of spring",
            "12",
        ),
    ]
    settings = replace(DedupSettings(), threshold=0.6, responses_per_question=1)
    kept, dropped, _ = run(tmp_path, rows, settings)
    assert {reason for reason, _ in dropped.values()} == {"exact_duplicate", "near_duplicate"}
    assert all(because in kept for _, because in dropped.values())


@pytest.mark.slow
def test_cap_on_responses_per_question(tmp_path: Path) -> None:
    words = ["alpha", "beta", "gamma", "delta", "epsilon"]
    rows = [("How many are left?", f"{word} " * (3 + i), "") for i, word in enumerate(words)]
    rows += [
        ("how many ARE left ?", "none", "0"),
        ("", "a text", ""),
        ("", "another text", ""),
        ("Why?", "so", ""),
    ]
    kept, dropped, _ = run(tmp_path, rows, DedupSettings(responses_per_question=2))
    assert kept == ["s/4", "s/5", "s/6", "s/7", "s/8"]
    assert dropped == {f"s/{i}": ("too_many_responses", "s/5") for i in range(4)}
    assert len(run(tmp_path / "all", rows)[0]) == len(rows)


@pytest.mark.slow
def test_letters_of_short_rows_count_in_their_case(tmp_path: Path) -> None:
    long = [f"{name}(x)=2x is one of the functions that we draw" for name in "Ff"]
    rows = [
        "F(X) = 2X",
        "f(x)=2x",
        "f(x) = 2x",
        "What is F?",
        "what is  F ?",
        "AB=7",
        "ab=7",
        *long,
    ]
    assert run(tmp_path, [(text, "", "") for text in rows])[0] == [
        "s/0",
        "s/1",
        "s/3",
        "s/5",
        "s/6",
        "s/7",
    ]


def planted(draw: random.Random, documents: int = 400) -> list[tuple[str, str, str]]:
    vocabulary = [
        "".join(draw.choice("abcdefghij") for _ in range(draw.randint(2, 8))) for _ in range(800)
    ]
    rows = []
    for i in range(documents):
        text = " ".join(
            draw.choice(vocabulary) if draw.random() > 0.1 else str(draw.randrange(99))
            for _ in range(80)
        )
        rows.append((text, f"So the answer is {i}.", str(i)))
        for _ in range(draw.choice([0, 0, 1, 3])):
            rows.append(
                (reworded(draw, text, draw.randint(1, 4)), f"So the answer is {i}.", str(i))
            )
    draw.shuffle(rows)
    return rows


@pytest.mark.slow
def test_recall_and_precision_against_all_pairs(tmp_path: Path) -> None:
    rows = planted(random.Random(1))
    kept, dropped, results = run(tmp_path, rows)
    sets = [set(ngram_ids(f"{question}\n{response}", 5)) for question, response, _ in rows]
    numbers = [int(answer) for *_, answer in rows]
    alike = [
        (a, b)
        for a in range(len(rows))
        for b in range(a)
        if numbers[a] == numbers[b] and len(sets[a] & sets[b]) >= 0.7 * len(sets[a] | sets[b])
    ]
    places = {int(i.removeprefix("s/")) for i in kept}
    missed = [pair for pair in alike if places.issuperset(pair)]
    assert len(alike) > 250
    assert len(missed) <= 0.01 * len(alike)
    assert all(reason == "near_duplicate" for reason, _ in dropped.values())
    audit = pq.read_table(tmp_path / "out" / "near_duplicates.parquet").to_pylist()
    assert {row["id"]: row["because"] for row in audit} == {
        i: because for i, (_, because) in dropped.items()
    }
    for row in audit:
        a, b = (int(row[name].removeprefix("s/")) for name in ("id", "because"))
        assert numbers[a] == numbers[b]
        assert row["similarity"] == pytest.approx(len(sets[a] & sets[b]) / len(sets[a] | sets[b]))
    assert results["drifted"] == sum(row["similarity"] < 0.7 for row in audit)
    assert sum(int(size) * n for size, n in results["clusters"].items()) == len(dropped) + sum(
        results["clusters"].values()
    )


@pytest.mark.slow
def test_the_order_of_files_decides_nothing(tmp_path: Path) -> None:
    rows = planted(random.Random(2), 150)
    reference = run(tmp_path, rows)
    order = list(range(len(rows)))
    random.Random(3).shuffle(order)
    table = pa.concat_tables(
        pq.read_table(path) for path in sorted((tmp_path / "in" / "documents").glob("*"))
    )
    with DocumentWriter(tmp_path / "shuffled", shard_bytes=20_000) as writer:
        for start in range(0, len(order), 40):
            writer.keep(table.take(order[start : start + 40]))
    output = tmp_path / "other"
    deduplicate([tmp_path / "shuffled"], output, DedupSettings(), memory="200MB")
    kept, dropped = outcome(output)
    assert (sorted(kept), dropped) == (sorted(reference[0]), reference[1])
    assert not (output / "unfinished").exists()


@pytest.mark.slow
def test_a_hot_bucket_grows_linearly(tmp_path: Path) -> None:
    draw = random.Random(4)
    text = " ".join("".join(draw.choice("abcdefgh") for _ in range(5)) for _ in range(90))
    kept, dropped, results = run(tmp_path, [(reworded(draw, text, 1), "", "") for _ in range(3000)])
    assert len(kept) == 1
    assert len(dropped) == 2999
    assert results["candidates"] < 25 * 2 * 3000
    (cluster,) = results["large_clusters"]
    assert (cluster["dropped"], cluster["of"], cluster["because"]) == (2999, 3000, kept[0])
    assert cluster["example"] in dropped


@pytest.mark.slow
def test_labels_and_usual_instructions_keep_no_copy(tmp_path: Path) -> None:
    question = "Mia has 3 apples and buys 4 more at the market. How many apples does Mia have now?"
    forms = [
        "{}",
        "**{}**",
        "Question: {}",
        "1. {}",
        "<p>{}</p>",
        "{} Please reason step by step, and put your final answer within \\boxed{{}}.",
        "{}\n\nLet's think step by step.",
    ]
    rows = [(form.format(question), "She has 7.", "") for form in forms]
    rows.append((question.replace("apples", "plums"), "She has 7.", ""))
    assert run(tmp_path, rows)[0] in ([f"s/{at}", "s/7"] for at in range(7))


def vocabulary(draw: random.Random, size: int) -> list[str]:
    return ["".join(draw.choice("bcdfgaeiou") for _ in range(6)) for _ in range(size)]


@pytest.mark.slow
@pytest.mark.parametrize(("length", "step"), [(200, 22), (60, 7)])
def test_of_a_chain_only_what_resembles_the_survivor_goes(
    tmp_path: Path, length: int, step: int
) -> None:
    words = vocabulary(random.Random(6), length + 30 * step)
    texts = [" ".join(words[at * step : at * step + length]) for at in range(30)]
    _, dropped, results = run(tmp_path, [("", text, "") for text in texts])
    assert 14 <= len(dropped) <= 18
    sets = {f"s/{at}": set(ngram_ids(text, 5)) for at, text in enumerate(texts)}
    for name, (_, because) in dropped.items():
        common = len(sets[name] & sets[because])
        assert common >= 0.7 * len(sets[name] | sets[because])
    assert results["drifted"] == 0


@pytest.mark.slow
def test_what_takes_much_of_a_source_is_told_with_an_example(tmp_path: Path) -> None:
    draw = random.Random(7)
    words = vocabulary(draw, 3000)
    preamble = " ".join(draw.choices(words, k=150))
    behind = [(f"{preamble} {' '.join(draw.choices(words, k=9))}?", "Yes.", "") for _ in range(20)]
    alone = [(" ".join(draw.choices(words, k=60)), "No.", "") for _ in range(150)]
    few = [(f"{text} indeed", "No.", "") for text, *_ in alone[:1] * 3]
    assert run(tmp_path / "few", [*alone, *few])[2]["large_clusters"] == []
    *_, dropped, results = run(tmp_path / "many", [*alone, *behind])
    (cluster,) = results["large_clusters"]
    assert (cluster["dropped"], cluster["of"]) == (19, 170)
    assert dropped[cluster["example"]] == ("near_duplicate", cluster["because"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("45", r"\(45\)"),
        ("45", r"\[45\]"),
        ("45", "**45**"),
        ("0.25", r"\textbf{0.25}"),
        ("45", r"45\rm{ seconds}"),
        ("45", "forty-five"),
        ("1000", "10^3"),
        ("B", "(B)"),
    ],
)
def test_an_answer_in_another_form_keeps_no_copy(tmp_path: Path, ours: str, theirs: str) -> None:
    story = STORY.format(n=4)
    rows = [(story, "So it is.", ours), (story.replace("every", "each"), "So it is.", theirs)]
    assert len(run(tmp_path, rows)[1]) == 1
    assert len(run(tmp_path / "other", [rows[0], (*rows[1][:2], "46")])[1]) == 0


def test_nothing_to_do(tmp_path: Path) -> None:
    assert deduplicate([tmp_path / "nothing"], tmp_path / "out", DedupSettings())["counts"] == []
    assert deduplicate([], tmp_path / "out", DedupSettings())["counts"] == []


def test_input_that_cannot_be_read(tmp_path: Path) -> None:
    source = write(tmp_path / "in", table([("a question", "a response", "")] * 50))
    with pytest.raises(InputError, match="4GB"):
        deduplicate([source], tmp_path / "out", DedupSettings(), memory="much")
    assert not (tmp_path / "out").exists()
    path = next((source / "documents").glob("*.parquet"))
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(InputError, match=str(path)):
        deduplicate([source], tmp_path / "out", DedupSettings())


APPLES = "Mia has one apple and buys four more at the market for 20 cents. How many apples has Mia?"


@pytest.mark.slow
@pytest.mark.parametrize(
    "form",
    [
        APPLES.replace("one", "1").replace("four", "4").replace("20", "twenty"),
        f"**{APPLES}**",
        f"<p>{APPLES}</p>",
        f"1. {APPLES}",
        f"(5 points) {APPLES}",
        f"Question: {APPLES}",
        f"Hi! Can you help me with this? {APPLES}",
        f"### Instruction:\n{APPLES}",
        f"Here's a question for you - {APPLES}",
        f"{APPLES} (3 points)",
        f"{APPLES} Thanks!",
        f"{APPLES} Please reason step by step, and put your final answer within \\boxed{{}}.",
    ],
)
def test_one_problem_in_another_form_is_a_duplicate(tmp_path: Path, form: str) -> None:
    others = [APPLES.replace("one", "two"), f"3) {APPLES.replace('20', '30')}"]
    rows = [(question, "She has 5.", "") for question in (APPLES, form, *others)]
    _kept, dropped, _ = run(tmp_path, rows)
    assert len(dropped) == 1
    assert set(dropped) <= {"s/0", "s/1"}


@pytest.mark.slow
@needs_mirror
def test_real_problems_stay_and_their_edits_go(tmp_path: Path) -> None:

    with gzip.open(MIRROR / "openai/gsm8k/main/train.jsonl.gz", "rt") as file:
        problems = [json.loads(line) for line in file][:1500]
    draw = random.Random(5)
    rows = [(p["question"], *p["answer"].split("\n#### ")) for p in problems]
    copies = [(reworded(draw, q, 1), r, a) for q, r, a in rows if len(q.split()) > 40]
    swapped = [
        ("".join(str((int(c) + 3) % 10) if c.isdigit() else c for c in q), r, a)
        for q, r, a in rows
        if any(map(str.isdigit, q))
    ]
    _kept, dropped, _ = run(tmp_path, [*rows, *copies, *swapped])
    first, last = len(rows), len(rows) + len(copies)
    pairs = {tuple(sorted((int(i[2:]), int(because[2:])))) for i, (_, because) in dropped.items()}
    assert all(a < first <= b < last for a, b in pairs)  # nothing but an original and its copy
    # "percent" exchanged for another word makes another problem
    assert len(dropped) >= 0.975 * len(copies)


@pytest.mark.parametrize(
    "wrong",
    [
        {"threshold": 0.0},
        {"permutations": 0},
        {"guards": ("letters",)},
        {"responses_per_question": 0},
    ],
)
def test_settings_that_make_no_sense(wrong: dict) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        DedupSettings(**wrong)


@pytest.mark.slow
def test_with_remove_false_every_document_stays(tmp_path: Path) -> None:
    rows = [("What is 2+2?", "4", "4"), ("what is 2 + 2?", "4", "4"), ("What is 3?", "3", "3")]
    kept, dropped, results = run(tmp_path, rows, DedupSettings(responses_per_question=1))
    assert len(kept) == 2
    assert len(dropped) == 1
    keep = DedupSettings(remove=False, responses_per_question=1)
    kept, dropped, results = run(tmp_path / "kept", rows, keep)
    assert len(kept) == 3
    assert not dropped
    assert [row["reason"] for row in results["counts"]] == ["kept"]
