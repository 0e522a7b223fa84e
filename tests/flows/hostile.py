"""Plant files that run code of their own where a program takes modules or settings from the current folder."""

from __future__ import annotations

from pathlib import Path

MODULES = ("ctypes", "glob", "safetensors", "torch", "model")


def plant(folder: Path) -> Path:
    """Plant modules, and settings of Prefect that name code; returns the file to which they write when they run."""
    ran = folder / "ran"
    for name in MODULES:
        (folder / f"{name}.py").write_text(f"open({str(ran)!r}, 'a').write('{name} ')\n")
    (folder / "prefect.toml").write_text('[logging]\nconfig_path = "logging.yml"\n')
    formatter = f'{{"()": os.system, command: "echo prefect.toml >> {ran}"}}'
    (folder / "logging.yml").write_text(f"version: 1\nformatters:\n  hostile: {formatter}\n")
    return ran
