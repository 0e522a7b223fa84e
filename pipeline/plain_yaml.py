"""Load YAML of somebody else: plain values, no more of them than a file of this size can mean."""

from __future__ import annotations

from typing import Any

import yaml

MOST_VALUES = 100_000  # of a file, those of aliases counted each time
DEEPEST = 100  # lists and mappings in one another


class Bounded:
    """A loader's part that refuses texts which unfold to more than they show.

    Aliases (`*name`) repeat a value: a kilobyte of them can stand for more values than a memory
    holds, or for a value that holds itself. Code in C that walks such values hears no signal.
    """

    def get_single_node(self) -> yaml.Node | None:
        """Compose the text. Raises YAMLError where its values are too many, or too deep."""
        try:
            node = super().get_single_node()  # type: ignore[misc]
        except RecursionError:
            raise yaml.YAMLError("lists or mappings are nested too deeply") from None
        if node is not None and _count(node, {}, 0) > MOST_VALUES:
            raise yaml.YAMLError(f"it has more than {MOST_VALUES:,} values, aliases unfolded")
        return node


class PlainLoader(Bounded, yaml.SafeLoader):
    """Load plain values, bounded in number and depth."""


def load_plain(text: str | bytes) -> Any:
    """Load plain values. Raises YAMLError for any other text."""
    return yaml.load(text, PlainLoader)


def _count(node: yaml.Node, known: dict[int, int], depth: int) -> int:
    """Count the values of a node, those of aliases each time; `known` has counts by node."""
    if id(node) in known:
        return known[id(node)]
    if depth > DEEPEST:  # also where a value holds itself
        raise yaml.YAMLError(f"lists or mappings are nested more than {DEEPEST} deep")
    children: list[yaml.Node] = []
    if isinstance(node, yaml.SequenceNode):
        children = node.value
    elif isinstance(node, yaml.MappingNode):
        children = [part for pair in node.value for part in pair]
    count = 1 + sum(_count(child, known, depth + 1) for child in children)
    known[id(node)] = count
    return count
