"""YAML by libyaml where PyYAML was built with it: seven times as fast. What that refuses is read
once more by PyYAML's own parser, whose messages are the ones that users see everywhere."""

from __future__ import annotations

from typing import Any

import yaml

_FAST: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def compose(text: str) -> tuple[yaml.SafeLoader, yaml.Node | None]:
    """The top node of a text (None where it is empty), and a loader that makes values of nodes.

    Raises:
        YAMLError: it isn't YAML.
    """
    try:
        loader = _FAST(text)
        return loader, loader.get_single_node()
    except yaml.YAMLError:
        loader = yaml.SafeLoader(text)
        return loader, loader.get_single_node()


def load(text: str) -> Any:
    """What a text says.

    Raises:
        YAMLError: it isn't YAML.
    """
    loader, root = compose(text)
    return None if root is None else loader.construct_document(root)
