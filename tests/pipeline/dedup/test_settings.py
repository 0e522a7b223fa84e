"""Settings of deduplication: what makes no sense is refused."""

import pytest

from pipeline.dedup.settings import DedupSettings
from pipeline.errors import InputError


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"threshold": 0.0}, "threshold"),
        ({"bands": 30, "rows": 6}, "permutations"),
        ({"bands": 3}, "both"),
        ({"guards": ("letters",)}, "numbers, signs, names, answers"),
        ({"responses_per_question": 0}, "at least 1"),
    ],
)
def test_settings_that_make_no_sense(wrong: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        DedupSettings(**wrong)
