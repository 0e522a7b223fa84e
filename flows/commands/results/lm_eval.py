"""`dreamer lm-eval`: run lm-eval's own command, which then knows the model `dreamer`."""

from __future__ import annotations

import argparse
import sys


def lm_eval(options: argparse.Namespace) -> None:
    """Hand all arguments to lm-eval's command, which then knows our models as `dreamer`."""
    from lm_eval.__main__ import cli_evaluate

    import dreamer_study.model.evaluation.lm_eval_model  # noqa: F401 - registers the model

    sys.argv = ["lm-eval", *options.arguments]
    cli_evaluate()
