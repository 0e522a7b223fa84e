"""`dreamer atlas` shows the table and the map; `dreamer new --atlas` writes a study beside them."""

from __future__ import annotations

import csv
import io
import re
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pandas as pd
import pytest

import dreamer_study
from dreamer_study.flows.atlas import bundled
from dreamer_study.flows.atlas.table import read_atlas, with_study
from dreamer_study.flows.commands.cli import main
from dreamer_study.flows.study.loading import load_study
from dreamer_study.sql.results import connect, query
from tests.docs.test_own_architecture import write
from tests.flows.atlas.made_up import family

pytestmark = pytest.mark.slow

ARCHITECTURES = ["LA", "DR", "Llama", "LSTM", "RWKV"]
SECONDS = 2.0
TIMED = """
import sys, time
from dreamer_study.flows.atlas import bundled
from pathlib import Path
bundled.WORLDS = Path(sys.argv[1])
from dreamer_study.flows.commands.cli import main
assert main(["atlas", "tiny"]) == 0
print(time.process_time(), *sorted({"torch", "altair", "scipy"} & {*sys.modules}))
"""


@pytest.fixture(autouse=True)
def in_package(worlds: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundled, "WORLDS", worlds)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


def test_the_table_ranks_all_architectures(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["atlas", "tiny"]) == 0
    head, *lines = capsys.readouterr().out.splitlines()
    assert head.split()[:3] == ["architecture", "expressions", "recall"]
    names = [line.split()[0] for line in lines[: len(ARCHITECTURES)]]
    learned_both = ["LA", "RWKV", "DR"]
    assert names == [*learned_both, "Llama", "LSTM"], "the lowest mean ratio first"
    assert lines[names.index("Llama")].split()[1] == "≥", "it never rose above chance"
    assert "not measured: Mamba: 1,000 tokens/s" in lines


def test_a_best_says_where_some_seeds_alone_have_learned(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert main(["atlas", "tiny"]) == 0
    lines = capsys.readouterr().out.splitlines()
    (of_dr,) = [line for line in lines if line.startswith("DR ")]
    assert re.search(r"\d % \(2 of 3\) +\d", of_dr)
    divided = [line.split()[0] for line in lines if re.search(r"\d % \(\d of 3\)", line)]
    assert divided == ["DR"]


def test_the_average_of_abilities_has_a_ratio_too(capsys: pytest.CaptureFixture[str]) -> None:
    frame = dreamer_study.atlas("tiny").set_index("variant")
    assert frame.loc["LA", "average_ratio"] == 1
    assert frame.loc["RWKV", "average_low"] < frame.loc["RWKV", "average_ratio"]
    learned = frame[["expressions_seeds_learned", "recall_seeds_learned"]]
    assert list(learned.loc["LA"]) == [3, 3]
    assert list(learned.loc["Llama"]) == [0, 3]


def test_the_values_have_their_origin(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["atlas", "tiny", "--csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    by_name = {row["variant"]: row for row in rows}
    llama = by_name["Llama"]
    assert (llama["expressions_bound"], llama["expressions_reached"]) == ("at least", "False")
    assert float(llama["recall_low"]) < float(llama["recall_ratio"]) < 1
    assert (llama["made"], llama["device"], llama["seeds"]) == ("2026-11-29", "cpu", "3")
    frame = dreamer_study.atlas("tiny")
    assert list(frame["variant"]) == [row["variant"] for row in rows]


def test_the_table_takes_less_than_two_seconds(worlds: Path) -> None:
    command = [sys.executable, "-c", TIMED, str(worlds)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    *_, last = done.stdout.splitlines()
    seconds, *loaded = last.split()
    assert float(seconds) < SECONDS
    assert loaded == []


@pytest.mark.parametrize("ending", ["svg", "png", "pdf"])
def test_the_map_is_written(ending: str) -> None:
    assert main(["atlas", "tiny", "--plot", f"map.{ending}"]) == 0
    content = Path(f"map.{ending}").read_bytes()
    if ending == "svg":
        assert all(f">{name}<" in content.decode() for name in ARCHITECTURES)
    assert len(content) > 1000


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["tinny"], "no world 'tinny'; did you mean 'tiny'"),
        (["tiny", "--plot", "map.gif"], "a map ends in .svg, .pdf or .png"),
        (["tiny", "--plot", "nowhere/map.svg"], "there is no folder nowhere"),
        (["tiny", "--plot", "folder.svg"], "folder.svg: this is a folder"),
        (["tiny", "--plot", "/proc/map.svg"], "dreamer: /proc/map.svg: "),
        (["tiny", "--root", "here"], "--root says where the study of --with is"),
        (["tiny", "--with", ""], "not the folder of a study"),
        ([""], "no world ''"),
        (["tiny", "--with", "demo", "--root", "nothing"], "no results yet"),
    ],
)
def test_bad_input_is_one_line(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("folder.svg").mkdir()
    assert main(["atlas", *arguments]) == 2
    assert words in " ".join(capsys.readouterr().err.split())


def placed(path: Path, world_of_la: str = "dense") -> Path:
    """Write a results file whose study took LA's rows from a study of the atlas, and trained DR."""
    family(path, ["LA", "DR"])
    rows = bundled.world_folder("tiny") / bundled.ARCHITECTURES
    (origin,) = {study for study in pd.read_csv(rows)["study"] if study.startswith(world_of_la)}
    with closing(connect(path)) as connection:
        connection.execute(
            "insert into origins by name select study_id, 'LA' as variant, ? as origin from studies",
            [origin],
        )
    return path


def change(path: Path, statement: str) -> None:
    with closing(connect(path)) as connection:
        connection.execute(statement)


def test_a_study_stands_beside_the_world_whose_baseline_it_took(
    capsys: pytest.CaptureFixture[str],
) -> None:
    placed(Path("mine.duckdb"))
    assert main(["atlas", "atlas/tiny", "--with", "mine.duckdb"]) == 0
    shown = capsys.readouterr().out
    assert "DR (yours) *" in shown
    assert "not complete" not in shown
    placed(Path("other.duckdb"), world_of_la="recurrent")
    assert main(["atlas", "tiny", "--with", "other.duckdb"]) == 2
    assert "is not compared with LA of the atlas's world tiny" in capsys.readouterr().err


def test_a_study_that_has_not_ended_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    path = placed(Path("mine.duckdb"))
    of_dr = "where model_id = 'DR-2'"
    change(path, f"update runs set status = 'training' {of_dr} and seed = 2")
    assert main(["atlas", "tiny", "--with", "mine.duckdb"]) == 0
    assert "not complete: 2 of 3 trainings have ended" in capsys.readouterr().out
    change(path, f"update runs set status = 'failed' {of_dr} and seed = 2")
    assert main(["atlas", "tiny", "--with", "mine.duckdb"]) == 0
    assert "not complete: 1 of 3 trainings failed" in capsys.readouterr().out
    (study_id,) = query(path, "select study_id from studies")["study_id"]
    own = with_study(read_atlas("tiny"), path, study_id).architectures.iloc[-1]
    assert (own["variant"], own["seeds"]) == ("DR (yours)", 2)
    change(path, f"delete from runs {of_dr}")
    for arguments in ([], ["--csv"], ["--plot", "map.svg"]):
        assert main(["atlas", "tiny", "--with", "mine.duckdb", *arguments]) == 0
    assert "not complete: no training has begun" in capsys.readouterr().out


def test_a_rate_that_was_not_searched_is_at_no_edge(capsys: pytest.CaptureFixture[str]) -> None:
    path = placed(Path("mine.duckdb"))
    change(path, "delete from tuning")
    assert main(["atlas", "tiny", "--with", "mine.duckdb"]) == 0
    assert "edge" not in capsys.readouterr().out


def test_a_study_beside_the_atlas_trains_your_model_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path)
    assert main(["new", "mine.yaml", "--module", "my_models.py:GPT", "--atlas", "tiny"]) == 0
    study = load_study("mine.yaml")
    assert study.models.compared_with == "LA"
    elsewhere = [variant.name for variant in study.models.elsewhere]
    assert elsewhere[0] == "LA"
    assert sorted(elsewhere) == sorted(ARCHITECTURES)
    (own,) = [variant for variant in study.models.variants if not variant.origin]
    assert (own.name, own.module) == ("GPT", "my_models.py:GPT")
    assert own.config == {"layers": 2, "hidden_size": 32, "heads": 2, "feed_forward": 64}
    assert own.match.fields == {"flops": "feed_forward"}
    assert study.training.batch_tokens == 512
    capsys.readouterr()
    assert main(["plan", "mine.yaml", "--trust-code"]) == 0
    said = capsys.readouterr().out
    assert "5 variants from atlas/tiny" in said
    assert "FLOPs to baseline" in said


def test_a_name_of_the_atlas_is_changed_and_a_class_without_a_width_is_matched(
    tmp_path: Path,
) -> None:
    write(tmp_path)
    assert main(["new", "mine.yaml", "--module", "my_models.py:LSTM", "--atlas", "tiny"]) == 0
    (own,) = [v for v in load_study("mine.yaml").models.variants if not v.origin]
    assert (own.name, own.match.fields) == ("LSTM-mine", {"flops": "hidden_size"})


MODELS = """
class Mixer:
    def __init__(
        self, *, vocabulary_size, sequence_length, mlp_ratio, d_model, d_ff, kernel_size, scale=1.0
    ):
        pass


class Größe:
    def __init__(self, vocabulary_size, sequence_length, layers):
        pass


class Child(Mixer):
    pass
"""


def test_sizes_are_guessed_by_the_usual_names(capsys: pytest.CaptureFixture[str]) -> None:
    Path("models.py").write_text(MODELS)
    command = ["new", "mine.yaml", "--atlas", "atlas/tiny", "--module"]
    assert main([*command, "models.py:Mixer"]) == 0
    (own,) = [v for v in load_study("mine.yaml").models.variants if not v.origin]
    assert own.config == {"mlp_ratio": 4, "d_model": 32, "d_ff": 64, "kernel_size": 4}
    assert own.match.fields == {"flops": "d_ff"}
    assert "d_model 32, d_ff 64, kernel_size 4" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "words"), [("Größe", "letters, digits"), ("Child", "no `__init__` of its own")]
)
def test_a_file_that_is_refused_does_not_stay(
    name: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("models.py").write_text(MODELS)
    assert main(["new", "mine.yaml", "--module", f"models.py:{name}", "--atlas", "tiny"]) == 2
    assert words in " ".join(capsys.readouterr().err.split())
    assert not Path("mine.yaml").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--atlas", "", "--module", "my_models.py:GPT"], "no world ''"),
        (["--atlas", "tiny"], "give --module"),
        (["--module", "my_models.py:GTP", "--atlas", "tiny"], "no class 'GTP'; did you mean 'GPT'"),
        (["--module", "my_models.py", "--atlas", "tny"], "did you mean 'tiny'"),
        (["--module", "my_models.py", "--atlas", "tiny", "--data", "a.csv"], "leave out --data"),
        (["--from", "demo", "--atlas", "tiny"], "leave out --data, --module and --atlas"),
    ],
)
def test_what_cannot_be_placed_is_refused(
    arguments: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path)
    assert main(["new", "mine.yaml", *arguments]) == 2
    assert words in " ".join(capsys.readouterr().err.split())
    assert not Path("mine.yaml").exists()
