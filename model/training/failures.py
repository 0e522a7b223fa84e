"""Name the error of a training that has failed."""

from __future__ import annotations


class TrainingFailed(RuntimeError):
    """The training has failed, with good input; the text is one line."""
