"""Keys of artifacts: valid for Prefect whatever a model is called, and different for different things."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st
from prefect.client.schemas.actions import ArtifactCreate

from flows.running.artifacts import artifact_key

names = st.text(min_size=1, max_size=12)


@given(names, names)
def test_every_key_is_one_that_prefect_accepts(study: str, key: str) -> None:
    made = artifact_key(study, key)
    assert re.fullmatch("[a-z0-9]+(-[a-z0-9]+)*", made)
    assert ArtifactCreate(key=made).key == made


def test_keys_can_be_read_and_tell_names_apart() -> None:
    assert artifact_key("mini", "train DR+DA-4 seed 0") == "mini-train-dr-plus-da-4-seed-0"
    assert artifact_key("étude", "clean Übung").startswith("etude-clean-ubung-")
    alike = ["clean Übung", "clean Ubung", "clean übung", "clean ubung_", "clean ubung."]
    assert len({artifact_key("s", name) for name in alike}) >= 4  # letters differ in case alone: one key
