"""`dreamer sql`, `export` and `intervals`: query a results file, export it, compute intervals."""

from __future__ import annotations

import argparse
from contextlib import closing
from pathlib import Path

from dreamer_study.flows.commands.tables import print_csv, print_table
from dreamer_study.pipeline.errors import InputError
from dreamer_study.sql import export as tables
from dreamer_study.sql.results import ask, connect, query


def sql(options: argparse.Namespace) -> None:
    """Print the rows of a query as a table or as comma-separated values."""
    database, _ = find_results(options.study, options.root)
    table = query(database, options.query)
    if options.csv:
        print_csv(table)
    else:
        print_table(table)


def export(options: argparse.Namespace) -> None:
    """Write every table and view as a file, and print the paths; or a model for transformers."""
    if options.format == "hf":
        # with the plan of the study, for which tables need not wait
        from dreamer_study.flows.commands.publishing.model_folder import export_model

        export_model(options)
        return
    for name in ("model", "seed", "tokens"):
        if getattr(options, name) is not None:
            raise InputError(f"--{name} chooses the model of --format hf; leave it out of tables")
    database, _ = find_results(options.study, options.root)
    print(*tables.export(database, options.folder, format=options.format), sep="\n")


def replicates_of(database: Path, wanted: str | None) -> dict[str, int]:
    """Return how many resamples each study of a results file asks for, or the wanted one alone.

    Raises InputError if none of them has models.
    """
    by_study = ask(database, "replicates").set_index("study_id")["replicates"]
    chosen = {
        study: int(replicates) for study, replicates in by_study.items() if wanted in (None, study)
    }
    if not chosen:
        raise InputError(f"{database} holds no models of {wanted or 'any study'}")
    return chosen


def intervals(options: argparse.Namespace) -> None:
    """Compute the ratios, with intervals, of a study, or of every study of a results file."""
    database, wanted = find_results(options.study, options.root)
    chosen = replicates_of(database, wanted)
    # with scipy, for which a query need not wait
    from dreamer_study.sql.statistics.compute import compute_statistics

    with closing(connect(database)) as connection:
        for study, replicates in chosen.items():
            compute_statistics(connection, study, replicates=replicates)
    print(f"{database}: computed the ratios and intervals of {', '.join(chosen)}")


def has_place(name: str) -> bool:
    """Tell whether RESULTS is the path of a results file or of a folder.

    The name of a preset is not taken for a folder.
    """
    from dreamer_study.flows.study.loading import presets

    return name not in presets() and (Path(name).suffix == ".duckdb" or Path(name).is_dir())


def find_results(name: str, root: Path | str | None) -> tuple[Path, str | None]:
    """Find the results file of what RESULTS names: a study, a published folder, or the file itself.

    Returns also the study's id where the name is that of one study. Raises InputError where the
    file does not exist, and for a `root` beside a file or a folder, which have a place.
    """
    path = Path(name)
    if path.suffix == ".duckdb":
        if not path.exists():
            raise InputError(f"{name}: no such results file")
        if root is not None:
            raise InputError(
                f"{name} is a results file, which needs no --root; leave out --root {root}"
            )
        return path, None
    # takes longer to be imported than a query
    from dreamer_study.flows.study.loading import load_study, presets, refuse_other_root

    results = path / "results.duckdb"
    if name not in presets() and results.exists():
        refuse_other_root(path, root)
        return results, None
    study = load_study(name, root=root)
    if not study.database.exists():
        raise InputError(f"{study.database}: no results yet; `{study.run_command}` makes them")
    return study.database, study.study_id
