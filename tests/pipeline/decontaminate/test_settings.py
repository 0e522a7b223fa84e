"""Settings of decontamination: what makes no sense is refused."""

from dataclasses import replace

import pytest

from pipeline.decontaminate.settings import DecontaminationSettings
from pipeline.errors import InputError


def test_settings_that_make_no_sense() -> None:
    with pytest.raises(InputError, match="exact, overlap, solution, template"):
        DecontaminationSettings(remove=("some",))
    with pytest.raises(InputError, match="template_coverage"):
        DecontaminationSettings(template_coverage=0.0)
    with pytest.raises(InputError, match="shortest"):
        replace(DecontaminationSettings(), shortest=3)
