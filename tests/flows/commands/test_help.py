"""The help of the command, its refusals of arguments, and what -q and -v write."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from dreamer_study.flows.commands import cli
from dreamer_study.flows.commands.cli import main
from dreamer_study.flows.commands.help import preset_names
from dreamer_study.flows.commands.parser import EXIT_STATUSES, GROUPS, examples, parse, parser
from dreamer_study.flows.progress import reports
from dreamer_study.flows.progress.folding import fold
from dreamer_study.flows.study.loading import presets
from dreamer_study.pipeline.errors import InputError
from tests.flows.small_study import PROJECT

COMMANDS = [name for names in GROUPS.values() for name in names]
OURS = [name for name in COMMANDS if name != "lm-eval"]  # whose help is not another program's


def help_of(capsys: pytest.CaptureFixture[str], *given: str) -> str:
    """Return a help text, which ends with status 0."""
    capsys.readouterr()
    with pytest.raises(SystemExit, match="0"):
        main([*given, "--help"])
    return capsys.readouterr().out


def refusal(capsys: pytest.CaptureFixture[str], *given: str) -> str:
    """Return the one line with which arguments are refused."""
    capsys.readouterr()
    with pytest.raises(SystemExit, match="2"):
        main(list(given))
    (line,) = capsys.readouterr().err.splitlines()
    return line


def test_the_bare_command_prints_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    whole = help_of(capsys)
    assert main([]) == 0
    assert capsys.readouterr().out == whole
    assert whole.startswith("usage: dreamer")


def test_curves_that_one_has_come_first(capsys: pytest.CaptureFixture[str]) -> None:
    assert COMMANDS[0] == "factors"
    whole = help_of(capsys)
    places = [whole.index(f"\n  {name} ") for name in COMMANDS]
    assert places == sorted(places)


def test_every_preset_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert preset_names() == presets()
    whole = " ".join(help_of(capsys).split())
    assert f"a preset's name ({', '.join(presets())})" in whole


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_has_two_examples_that_can_be_parsed(name: str) -> None:
    typed = examples()[name]
    assert len(typed) >= 2
    for example in typed:
        program, *given = shlex.split(example.partition(" > ")[0])
        assert program == "dreamer"
        assert given[0] == name
        assert parse(given).called == name


@pytest.mark.parametrize("name", OURS)
def test_examples_are_shown_whole(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    lines = help_of(capsys, name).splitlines()
    assert [f"  {typed}" for typed in examples()[name]] == [
        line for line in lines if line.startswith("  dreamer ")
    ]


@pytest.mark.parametrize("name", ["", *OURS])
def test_help_is_folded_at_words(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    given = [name] if name else []
    words = {}
    for columns in (80, 60, 200):
        monkeypatch.setenv("COLUMNS", str(columns))
        text = help_of(capsys, *given)
        words[columns] = text.split()
        for line in text.splitlines():
            # a command that is to be typed stays whole
            assert len(line) <= min(columns, 100) or line.startswith("  dreamer "), line
    assert words[80] == words[60] == words[200]


def test_a_command_in_backticks_is_folded_as_one_word() -> None:
    text = "so `dreamer run demo --root a` makes them"
    assert fold(text, 29) == "so\n`dreamer run demo --root a`\nmakes them"
    assert fold("x" * 30, 10) == "x" * 30
    assert fold(text, None) == text


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("rn demo", "there is no command 'rn'; did you mean 'run'?"),
        ("stauts", "there is no command 'stauts'; did you mean 'status'?"),
        ("-q factor example", "there is no command 'factor'; did you mean 'factors'?"),
        ("help vrify", "there is no command 'vrify'; did you mean 'verify'?"),
        ("qqqq", "there is no command 'qqqq'; `dreamer --help` shows how"),
        ("plan demo --mesure", "--mesure; did you mean 'measure'?; `dreamer plan --help`"),
    ],
)
def test_a_misspelt_word_is_answered_by_the_one_that_was_meant(
    given: str, meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert meant in refusal(capsys, *given.split())


@pytest.mark.parametrize(
    "command",
    ["run", "plan", "status", "verify", "report", "checkpoints", "dropped", "preview", "clean"],
)
def test_no_study_is_chosen_for_the_user(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    line = refusal(capsys, command)
    assert line.startswith(f"dreamer: {command} needs a STUDY: a preset ({', '.join(presets())})")


def test_help_of_a_command_can_be_asked_for_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    wanted = help_of(capsys, "run")
    with pytest.raises(SystemExit, match="0"):
        main(["help", "run"])
    assert capsys.readouterr().out == wanted
    with pytest.raises(SystemExit, match="0"):
        main(["help"])
    assert capsys.readouterr().out == help_of(capsys)


def test_exit_statuses_are_in_the_help_and_on_the_page(capsys: pytest.CaptureFixture[str]) -> None:
    end = help_of(capsys).partition("exit status:")[2]
    page = (PROJECT / "docs" / "command.md").read_text()
    for status in EXIT_STATUSES:
        assert f"\n  {status} " in end
        assert f"| {status} |" in page or f"{status}, " in page or f", {status} |" in page


@pytest.fixture
def talking(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every command report progress, write a note and an answer, and then be refused."""

    def command(_: object) -> None:
        with reports.listening(reports.Lines()):
            for step in range(3):
                reports.report("train", 0.01 * step, f"step {step}")
        reports.write_line("note: something")
        print("the answer")
        raise InputError("too bad")

    class Module:
        plan = staticmethod(command)

    monkeypatch.setattr(cli, "import_module", lambda name: Module)
    clock = iter(range(100))
    monkeypatch.setattr(reports.time, "monotonic", lambda: float(next(clock)))


@pytest.mark.parametrize(
    ("given", "lines", "said", "unsaid"),
    [
        (["plan", "demo"], 3, ["train", "note: something"], ["Traceback"]),
        (["plan", "demo", "-q"], 1, [], ["train", "note", "Traceback"]),
        (["--quiet", "plan", "demo"], 1, [], ["train", "note", "Traceback"]),
        (["plan", "demo", "-v"], None, ["step 0", "step 1", "step 2", "Traceback"], []),
        (["-v", "plan", "demo"], None, ["step 0", "step 1", "step 2", "Traceback"], []),
    ],
)
def test_quiet_and_verbose(
    given: list[str],
    lines: int | None,
    said: list[str],
    unsaid: list[str],
    talking: None,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(given) == 2
    answer, written = capsys.readouterr()
    assert answer == "the answer\n"
    assert written.endswith("dreamer: too bad\n")
    assert lines is None or len(written.splitlines()) == lines
    assert all(word in written for word in said)
    assert not any(word in written for word in unsaid)
    # the next command of this process is as talkative as any
    assert not reports.is_quiet()


def test_quiet_or_verbose(capsys: pytest.CaptureFixture[str]) -> None:
    assert "not allowed with" in refusal(capsys, "plan", "demo", "-q", "-v")


def completed(script: Path, *words: str) -> list[str]:
    """Return what bash completes the last word to; without any program on the way."""
    asked = " ".join(shlex.quote(word) for word in words)
    program = f"""
        source {shlex.quote(str(script))}
        COMP_WORDS=({asked})
        COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
        PATH=
        _shtab_dreamer
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    ran = subprocess.run(
        ["bash", "-c", program], capture_output=True, text=True, check=True, cwd=script.parent
    )
    return ran.stdout.split()


def test_bash_completes_commands_options_presets_and_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["completion", "bash"]) == 0
    script = tmp_path / "dreamer.bash"
    script.write_text(capsys.readouterr().out)
    (tmp_path / "demo-mine.yaml").touch()
    assert completed(script, "dreamer", "sta") == ["status"]
    assert completed(script, "dreamer", "plan", "--meas") == ["--measure"]
    assert set(completed(script, "dreamer", "run", "demo")) == {"demo", "demo-mine.yaml"}
    assert completed(script, "dreamer", "run", "--until", "tr") == ["train"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "tcsh"])
def test_a_script_of_each_shell_holds_every_command(
    shell: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert [name for name in COMMANDS if name not in script] == []


def test_completion_without_its_package_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert main(["completion", "bash"]) == 2
    assert "pip install 'dreamer-study[completion]'" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize(
    "given", [["--help"], ["completion", "bash"], ["list"], ["run"], ["plan", "--help"]]
)
def test_what_must_answer_at_once_loads_no_torch(given: list[str], tmp_path: Path) -> None:
    program = (
        "import sys; from dreamer_study.flows.commands.cli import main\n"
        "try: main(sys.argv[1:])\n"
        "except SystemExit: pass\n"
        "heavy = {'torch', 'prefect', 'altair', 'lm_eval'} & {*sys.modules}\n"
        "sys.exit(f'loaded {heavy}' if heavy else 0)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program, *given], capture_output=True, text=True, cwd=tmp_path
    )
    assert ran.returncode == 0, ran.stderr


def test_every_command_is_described_in_one_line() -> None:
    listed = parser().epilog or ""
    for name in COMMANDS:
        (about,) = [line for line in listed.splitlines() if line.startswith(f"  {name} ")]
        assert about
