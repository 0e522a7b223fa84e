"""The order in which the SQL files are run, and whether their `-- needs:` lines are true."""

from __future__ import annotations

import re

import pytest

from sql.definitions import FOLDER, definitions, digest, needs, views

TEXTS = definitions()
BUILT = sorted(views())


def test_every_file_is_run_once_tables_first():
    files = [file.stem for file in FOLDER.rglob("*.sql") if file.parent.name != "queries"]
    assert sorted(TEXTS) == sorted({*files, "schema"} - {"catalog"})
    assert len(files) == len(set(files))
    assert set(list(TEXTS)[-len(BUILT) :]) == set(BUILT)


def test_another_text_gives_another_digest():
    assert digest(TEXTS) == digest(definitions())
    assert digest(TEXTS) != digest(TEXTS | {"funnel": TEXTS["funnel"] + "\n"})


@pytest.mark.parametrize("name", BUILT)
def test_a_file_needs_what_its_sql_names_and_nothing_else(name):
    code = re.sub(r"--.*", "", TEXTS[name])
    named = [*re.findall(r"\b(?:from|join) (?:internal\.)?(\w+)", code), *re.findall(r"\b(\w+)\(", code)]
    assert needs(TEXTS[name]) == sorted((set(named) & set(BUILT)) - {name})
    rows = "create or replace view" in code or " as table" in code
    assert TEXTS[name].startswith("-- One row: " if rows else "-- ")
