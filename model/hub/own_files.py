"""Prepare the files of a user's class for transformers, which imports them from one flat package.

transformers copies the files that a model's code imports by relative imports, out of one folder.
So a file `lib/blocks.py` becomes `lib_blocks.py`, and `from lib.blocks import Block` becomes
`from .lib_blocks import Block`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath

from dreamer_study.pipeline.errors import InputError

TAKEN = frozenset(
    {"own_class", "modeling_own_class", "configuration_own_class", "causal_language_model"}
)
"""Modules that are in every such folder."""

OWN_CLASS = '''"""The class of this model, {name} of {file}, and the files that it needs."""

{imports}
'''


def flat_files(folder: Path, module: str, files: Iterable[str]) -> dict[str, str]:
    """Return the text of each Python file by its new name, with `own_class.py`, which names the
    class.

    `module` is <file>:<class>. Raises InputError for an import that cannot be written anew.
    """
    file, _, kind = module.rpartition(":")
    sources = [name for name in files if name.endswith(".py")]
    flat = _flat_names(sources)
    # As the class is loaded: from its own folder, and from that of all files.
    modules = {}
    for name in sources:
        for above in (PurePosixPath(), PurePosixPath(file).parent):
            if PurePosixPath(name).is_relative_to(above):
                modules[_dotted(PurePosixPath(name).relative_to(above))] = flat[name]
    texts = {}
    for name in sources:
        text = (folder / name).read_text(encoding="utf-8")
        package = list(PurePosixPath(name).parent.parts)
        texts[f"{flat[name]}.py"] = _flat_imports(text, name, package, modules)
    imports = [f"from .{flat[file]} import {kind} as OwnClass"]
    for name in sources:
        if name != file:  # so that transformers takes the file along
            imports.append(f"from .{flat[name]} import __name__ as _  # noqa")
    texts["own_class.py"] = OWN_CLASS.format(name=kind, file=file, imports="\n".join(imports))
    return texts


def _flat_names(sources: list[str]) -> dict[str, str]:
    """Choose the name of each file's module in the flat package."""
    flat: dict[str, str] = {}
    used = set(TAKEN)
    for name in sources:
        new = re.sub(r"\W", "_", name.removesuffix(".py"), flags=re.ASCII)
        if new[0].isdigit():
            new = f"_{new}"
        while new in used:
            new += "_"
        used.add(new)
        flat[name] = new
    return flat


def _dotted(path: PurePosixPath) -> str:
    """Return the name by which a file is imported."""
    parts = path.with_suffix("").parts
    if parts[-1] == "__init__":
        parts = parts[:-1]
    return ".".join(parts)


def _flat_imports(text: str, name: str, package: list[str], modules: Mapping[str, str]) -> str:
    """Write the imports of the user's own files anew, wherever they stand in a file."""
    lines = text.splitlines(keepends=True)
    nodes = [
        node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    for node in sorted(nodes, key=lambda node: (node.lineno, node.col_offset), reverse=True):
        if isinstance(node, ast.Import):
            new = _import(node, name, modules)
        else:
            new = _import_from(node, package, modules)
        if not new:
            continue
        # Columns count bytes.
        first = lines[node.lineno - 1].encode()[: node.col_offset].decode()
        last = lines[node.end_lineno - 1].encode()[node.end_col_offset :].decode()
        lines[node.lineno - 1 : node.end_lineno] = [first + "; ".join(new) + last]
    return "".join(lines)


def _import(node: ast.Import, name: str, modules: Mapping[str, str]) -> list[str]:
    """Write `import a, b as c` anew; nothing where it imports no file of the user's."""
    if not any(alias.name in modules for alias in node.names):
        return []
    new = []
    for alias in node.names:
        if alias.name not in modules:
            new.append(ast.unparse(ast.Import([alias])))
        elif "." in alias.name and not alias.asname:
            raise InputError(
                f"{name}:{node.lineno}: `import {alias.name}` cannot be written for a flat folder;"
                f" write `import {alias.name} as` a name of its own"
            )
        else:
            new.append(f"from . import {modules[alias.name]} as {alias.asname or alias.name}")
    return new


def _import_from(node: ast.ImportFrom, package: list[str], modules: Mapping[str, str]) -> list[str]:
    """Write `from a import b` anew; nothing where it imports no file of the user's."""
    above = package[: len(package) - node.level + 1] if node.level else []
    source = ".".join([*above, *filter(None, [node.module])])
    new = []
    from_file = []
    elsewhere = []
    for alias in node.names:
        full = f"{source}.{alias.name}".removeprefix(".")
        if full in modules:
            new.append(f"from . import {modules[full]} as {alias.asname or alias.name}")
        elif source in modules:
            from_file.append(alias)
        else:
            elsewhere.append(alias)
    if from_file:
        new.append(ast.unparse(ast.ImportFrom(modules[source], from_file, 1)))
    if new and elsewhere:
        new.append(ast.unparse(ast.ImportFrom(node.module, elsewhere, node.level)))
    return new
