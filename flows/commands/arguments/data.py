"""Options of the commands about data, and about what is stored."""

from __future__ import annotations

from dreamer_study.flows.commands.arguments.shared import add_json, add_study
from dreamer_study.flows.commands.help import STUDIES, Commands


def add_data(commands: Commands) -> None:
    """Add the commands about data."""
    sources = commands.add(
        "sources",
        "data.sources:sources",
        "List the sources and benchmarks that a study can name.",
        examples=[
            ("dreamer sources", "licences, access and tasks of all"),
            ("dreamer sources --check gsm8k", "the commit of a data set on the hub"),
        ],
    )
    sources.option(
        "--check",
        nargs="*",
        metavar="NAME",
        complete=STUDIES,
        help="print the commits on the hub of these sources, benchmarks or studies (default: all"
        " sources and benchmarks)",
    )
    download = commands.add(
        "download",
        "data.sources:download",
        "Fetch data sets from the hub into a folder, for `--mirror`.",
        examples=[
            ("dreamer download gsm8k mathqa --mirror data", "two data sets"),
            ("dreamer download paper-16 --mirror data", "all that a study names"),
        ],
    )
    download.option(
        "names",
        metavar="NAME",
        nargs="+",
        complete=STUDIES,
        help="a source, a benchmark, or a study: all that the study names",
    )
    download.folder("--mirror", "the folder to write to", required=True)
    _add_dropped(commands)
    preview = commands.add(
        "preview",
        "data.preview:preview",
        "Print the packed rows that training reads, decoded.",
        examples=[
            ("dreamer preview demo", "the first three rows"),
            ("dreamer preview runs/demo --rows 10 --seed 1", "ten rows in the order of a seed"),
        ],
    )
    add_study(preview)
    preview.number("--rows", "print this many rows (default 3)", default=3)
    preview.number(
        "--seed", "print the rows in the order of this seed (default: the study's first seed)"
    )


def _add_dropped(commands: Commands) -> None:
    dropped = commands.add(
        "dropped",
        "data.dropped:dropped",
        "Show documents that curation dropped, with reason and cause.",
        examples=[
            ("dreamer dropped demo --reason exact_duplicate", "one reason"),
            (
                "dreamer dropped demo --sample 50 --html audit.html",
                "a page with fifty removals beside their causes, to judge them one by one",
            ),
        ],
    )
    add_study(dropped)
    for name in ("stage", "source", "reason"):
        dropped.option(f"--{name}", metavar="NAME", help=f"show only documents of this {name}")
    dropped.option(
        "--grade",
        help="show only findings of this grade, also in documents that were kept",
    )
    dropped.option("--id", help="show only the document with this id")
    dropped.number("--sample", "show N documents drawn at random (default: one of each reason)")
    dropped.number("--seed", "the seed of the draw (default 0)", default=0)
    dropped.choice(
        "--format",
        ("text", "csv", "jsonl"),
        "the form of what is printed: text, csv or jsonl (default text)",
        default="text",
    )
    dropped.file("--html", "write a page on which the removals can be judged one by one")


def add_store(commands: Commands) -> None:
    """Add the commands about what is stored."""
    verify = commands.add(
        "verify",
        "store.verify:verify",
        "Check every file that a study has stored against its digest.",
        examples=[
            ("dreamer verify demo", "ends with 1 where something is damaged"),
            ("dreamer verify demo --repair", "remove what is damaged"),
        ],
    )
    add_study(verify)
    verify.flag("--repair", "remove what is damaged; the next run makes it again")
    add_json(verify)
    clean = commands.add(
        "clean",
        "store.clean:clean",
        "Show what a study has stored, and remove what nobody uses.",
        examples=[
            ("dreamer clean demo", "asks before it removes anything"),
            ("dreamer clean demo --yes", "removes without asking"),
        ],
    )
    add_study(clean)
    clean.flag("--yes", "remove without asking")
    completion = commands.add(
        "completion",
        "completion:completion",
        "Print a script that lets your shell complete commands.",
        more="Needs `pip install 'dreamer-study[completion]'`.",
        examples=[
            (
                "dreamer completion bash > ~/.local/share/bash-completion/completions/dreamer",
                "for bash, from the next shell on",
            ),
            ("dreamer completion zsh > ~/.zfunc/_dreamer", "for zsh, with ~/.zfunc in its fpath"),
        ],
    )
    completion.choice("shell", ("bash", "zsh", "fish", "tcsh"), "your shell")
