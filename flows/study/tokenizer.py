"""The section `data.tokenizer` of a study file."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field, model_validator

from flows.study.section import Section


class Tokenizer(Section):
    """The tokenizer: trained on the study's own documents, fetched from the hub, or a local tokenizer.json."""

    vocabulary_size: int | None = Field(
        None, ge=260, description="train a byte-level BPE tokenizer of at most this size"
    )
    hub: str | None = Field(None, description="the tokenizer of a model on the hub, by its id")
    revision: str | None = Field(None, description="the commit of that model's repository")
    file: Path | None = Field(None, description="a tokenizer.json")

    @model_validator(mode="after")
    def _one_origin(self) -> Tokenizer:
        if (self.hub is None) == (self.file is None) and not (self.hub is None and self.vocabulary_size):
            raise ValueError("give one of 'vocabulary_size' (train one), 'hub' (an id) or 'file' (a tokenizer.json)")
        if self.file and not self.file.is_file():
            raise ValueError(f"there is no tokenizer file {self.file}")
        return self
