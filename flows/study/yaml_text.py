"""YAML as people write it by hand: plain values only, and what is surely a slip is an error."""

from __future__ import annotations

from typing import Any

import yaml

from pipeline.errors import InputError


class _Loader(yaml.SafeLoader):
    """A key that is given twice is an error, where YAML would let the last one win."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode) and key.value != "<<"]
        for key in keys:
            if keys.count(key) > 1:
                raise yaml.YAMLError(f"the key {key!r} is given twice, {str(node.start_mark).strip()}")
        return super().construct_mapping(node, deep)


def read_yaml(where: str, text: str | bytes) -> Any:
    """The values of a YAML text. Raises InputError, in one line that begins with `where`, if it is none."""
    try:
        return yaml.load(text, _Loader)
    except yaml.YAMLError as error:
        raise InputError(f"{where}: not valid YAML: {' '.join(str(error).split())}") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{where}: not UTF-8 text ({error})") from None
    except (ValueError, RecursionError) as error:  # a number of thousands of digits; nested without end
        raise InputError(f"{where}: not valid YAML: {error}") from None
