"""Find the models of a study that are far slower than the rest, before the study starts.

Some architectures have fast kernels for a GPU alone: on a core, equal FLOPs may take thirty times
as long. Where not all rates are known, a forward pass over one row of each small model says which
those are, and ten training steps of these alone say how slow. What was timed is kept in the store.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from dreamer_study.flows.estimates.measure import STEPS, kept_rates, measure_rates
from dreamer_study.flows.estimates.rates import Rates
from dreamer_study.flows.plan.model_plan import PlannedModel
from dreamer_study.flows.plan.preflight import phases
from dreamer_study.flows.plan.sizes import Kept
from dreamer_study.flows.study.configuration import Study
from dreamer_study.model.module_config import ModuleConfig
from dreamer_study.reports.text.numbers import counted, duration

FAR = 5.0  # times as long as the model in the middle
STEP_TO_PASS = 3  # backward takes twice as much as forward
LONGEST = 60.0  # seconds that a plan measures one model without being asked


def slow_warnings(
    study: Study,
    planned: Sequence[PlannedModel],
    rates: Rates,
    *,
    on_gpu: bool,
    trust_code: bool = False,
) -> list[str]:
    """Say of each model that is far slower than the rest how long its trainings take."""
    if not rates.unknown(planned):
        longer = _longer({name: 1 / rate for name, rate in rates.by_model.items()})
        slow = {name: rates.by_model[name] for name in longer}
        known_by = "its training takes"
    elif on_gpu:
        return []
    else:
        longer = _longer(_seconds_of_rows(study, planned, trust_code=trust_code))
        slow = _measured(study, planned, longer, trust_code=trust_code)
        known_by = f"over {STEPS} training steps, and its forward pass takes"
    trainings = [training for phase in phases(study, planned) for training in phase]
    warnings = []
    for model in planned:
        if model.model_id not in slow:
            continue
        rate = slow[model.model_id]
        own = [training for training in trainings if training.model is model]
        tokens = sum(training.tokens for training in own)
        from_start = sum(training.start == 0 for training in own)
        warnings.append(
            f"{model.name} is far slower than the rest: {rate:,.0f} tokens/s, {known_by} about"
            f" {longer[model.model_id]:.0f} times as long as that of the model in the middle; with"
            f" {counted(from_start, 'training')}, {tokens:,} tokens in all, that is"
            f" {duration(tokens / rate)} on one device"
        )
    return warnings


def _longer(seconds: Mapping[str, float]) -> dict[str, float]:
    """Name the models that take far longer than the one in the middle, and how many times."""
    if len(seconds) < 2:
        return {}
    middle = statistics.median_low(seconds.values())
    return {name: each / middle for name, each in seconds.items() if each > FAR * middle}


def _seconds_of_rows(
    study: Study, planned: Sequence[PlannedModel], *, trust_code: bool
) -> dict[str, float]:
    """Time a forward pass over a row of each model that is small enough, once for all plans.

    Nothing is timed where all are of the bundled family, whose models are about equally fast.
    """
    if not any(isinstance(model.config, ModuleConfig) for model in planned):
        return {}
    seconds = {}
    for model in planned:
        kept = Kept(study, {"row": model.config.to_dict()}, model.config)
        values = kept.read()
        if values is None:
            # imports torch
            from dreamer_study.model.architectures.count_flops import seconds_of_row

            of_row = seconds_of_row(model.config, code=study.place, trust_code=trust_code)
            values = {"seconds": of_row}
            kept.write(values)
        if values["seconds"] is not None:
            seconds[model.model_id] = values["seconds"]
    return seconds


def _measured(
    study: Study,
    planned: Sequence[PlannedModel],
    longer: Mapping[str, float],
    *,
    trust_code: bool,
) -> dict[str, float]:
    """Return the tokens per second of the slow models, measured now or in a plan before."""
    slow = [model for model in planned if model.model_id in longer]
    known = kept_rates(study, slow)
    to_measure = [model for model in slow if model.model_id not in known]
    if to_measure:
        known |= measure_rates(study, to_measure, trust_code=trust_code, at_most=LONGEST).by_model
    return known
