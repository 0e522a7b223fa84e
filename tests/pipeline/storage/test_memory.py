"""Amounts of memory as users write them."""

import pytest

from pipeline.errors import InputError
from pipeline.storage.memory import memory_bytes


def test_amounts_in_powers_of_1000_and_1024() -> None:
    assert memory_bytes("1.5GB") == 1_500_000_000
    assert memory_bytes("2 MiB") == 2 * 2**20
    with pytest.raises(InputError, match="4GB"):
        memory_bytes("much")
