"""`dreamer dropped` and `dreamer preview`: what a person sees of a prepared study's data, and of one without any."""

from pathlib import Path

import pytest

from flows.commands.cli import main
from flows.plan import Plan
from flows.prepare import curation_counts, prepare_data
from flows.study.loading import load_study
from pipeline.storage.documents import KEPT
from tests.flows.by_hand import at_once
from tests.flows.small_study import TINY


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("study")
    plan = Plan(load_study(str(TINY), root=root))
    prepare_data(plan, at_once)
    rows = list(curation_counts(plan.data))
    assert all(row["tokens"] > 0 for row in rows)
    before = None
    for stage in ("clean", "deduplicate", "decontaminate", "tokens"):  # each takes in what the one before it kept
        counts = [row for row in rows if row["stage"] == stage]
        assert before in (None, sum(row["tokens"] for row in counts))
        before = sum(row["tokens"] for row in counts if row["reason"] == KEPT)
    assert before == plan.data.packed.results["tokens"]
    return root


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = main(arguments)
    output = capsys.readouterr()
    return status, output.out, output.err


def test_reasons_are_listed_with_an_example_of_each(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = said(capsys, "dropped", str(TINY), "--root", str(root))
    assert status == 0
    for words in ("exact_duplicate", "trace never closed", "contaminated", "── world/", "because   world", "question"):
        assert words in out
    assert out.count("── world/") == 5


def test_examples_of_one_reason(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("--reason", "trace never closed", "--stage", "traces", "--source", "world", "--limit", "2")
    status, out, _ = said(capsys, "dropped", str(TINY), "--root", str(root), *asked)
    assert status == 0
    assert out.count("dropped by traces: trace never closed") == 2
    assert "<think>" in out
    assert "exact_duplicate" not in out


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (("--reason", "exact_duplicat"), "nothing was dropped by reason 'exact_duplicat'; there is "),
        (("--stage", "cleaning"), "documents, traces"),
        (("--source", "gsm8k"), "there is world"),
        (("--stage", "traces", "--reason", "exact_duplicate"), "nothing was dropped by stage 'traces' and reason"),
    ],
)
def test_unknown_names_are_told_what_there_is(
    root: Path, capsys: pytest.CaptureFixture[str], asked: tuple[str, ...], words: str
) -> None:
    status, _, error = said(capsys, "dropped", str(TINY), "--root", str(root), *asked)
    assert status == 2
    assert words in error
    assert len(error.splitlines()) == 1


def test_a_preview_shows_rows_with_what_carries_loss(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = said(capsys, "preview", str(TINY), "--root", str(root), "--rows", "2")
    assert status == 0
    assert out.count("── row") == 2
    documents = [line for line in out.splitlines() if line.startswith("[")]
    assert documents
    assert out.count("<|end|>»") == len(documents)
    if load_study(TINY).training.loss_on == "all":
        assert "tokens] Q«uestion:" in out
    else:
        assert "Answer:« " in out
    again = said(capsys, "preview", str(TINY), "--root", str(root), "--rows", "2", "--seed", "1")
    assert again[1] != out


def test_a_preview_of_a_seed_that_the_study_has_not(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, _, error = said(capsys, "preview", str(TINY), "--root", str(root), "--seed", "9")
    assert (status, error.count("\n")) == (2, 1)
    assert "the seeds 0, 1" in error


@pytest.mark.parametrize("command", ["dropped", "preview"])
def test_a_study_without_data_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str) -> None:
    status, _, error = said(capsys, command, str(TINY), "--root", str(tmp_path))
    assert status == 2
    assert " yet; " in error
    assert f"`dreamer run {TINY} --root {tmp_path}`" in error
