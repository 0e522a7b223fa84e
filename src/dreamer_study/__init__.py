"""How many training tokens does each architecture need to reach the same accuracy?

    import dreamer_study

    measured = dreamer_study.factors("curves.csv")
    print(measured.answer)

The public names are those of `__all__`; docs/python.md describes them. Each is loaded when it is
first used, so that importing this package takes no time: every process of a study does.

The folders `pipeline`, `model`, `flows`, `sql` and `reports` stand at the top of the repository and
are imported below this name, since bare names such as `sql` and `model` collide with other
packages.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dreamer_study.flows.estimates.study_estimate import Estimate
    from dreamer_study.flows.jobs import Failed
    from dreamer_study.flows.python.atlas import atlas
    from dreamer_study.flows.python.comparing import compare, compare_sizes, compare_tokens
    from dreamer_study.flows.python.curves import factors
    from dreamer_study.flows.python.events import Note, Progress
    from dreamer_study.flows.python.loading import load
    from dreamer_study.flows.python.models import load_model
    from dreamer_study.flows.python.results import Results, results
    from dreamer_study.flows.python.studies import plan, run
    from dreamer_study.flows.study.configuration import Study
    from dreamer_study.pipeline.errors import InputError
    from dreamer_study.sql.statistics.comparison import Comparison
    from dreamer_study.sql.statistics.corpora import TokenComparison
    from dreamer_study.sql.statistics.sizes import SizeComparison

__version__ = "0.1.0"

__all__ = [
    "Comparison",
    "Estimate",
    "Failed",
    "InputError",
    "Note",
    "Progress",
    "Results",
    "SizeComparison",
    "Study",
    "TokenComparison",
    "atlas",
    "compare",
    "compare_sizes",
    "compare_tokens",
    "factors",
    "load",
    "load_model",
    "plan",
    "results",
    "run",
]

_MODULES = {
    "Comparison": "sql.statistics.comparison",
    "Estimate": "flows.estimates.study_estimate",
    "Failed": "flows.jobs",
    "InputError": "pipeline.errors",
    "Note": "flows.python.events",
    "Progress": "flows.python.events",
    "Results": "flows.python.results",
    "SizeComparison": "sql.statistics.sizes",
    "Study": "flows.study.configuration",
    "TokenComparison": "sql.statistics.corpora",
    "atlas": "flows.python.atlas",
    "compare": "flows.python.comparing",
    "compare_sizes": "flows.python.comparing",
    "compare_tokens": "flows.python.comparing",
    "factors": "flows.python.curves",
    "load": "flows.python.loading",
    "load_model": "flows.python.models",
    "plan": "flows.python.studies",
    "results": "flows.python.results",
    "run": "flows.python.studies",
}


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names, also those that are not loaded."""
    return sorted({*globals(), *__all__})
