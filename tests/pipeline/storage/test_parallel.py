"""Stages' parts in other processes."""

import os

import pytest

from pipeline.errors import InputError
from pipeline.storage.parallel import workers


def test_a_process_that_is_killed_is_one_clear_line():
    """As the system does where memory runs out."""
    with pytest.raises(InputError, match="one of 2 processes of a data stage was killed"), workers(2) as run:
        list(run(os._exit, [(9,), (9,)]))
