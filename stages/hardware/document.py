"""A YAML document as plain data, with the line of every key and item.

A key path is a tuple of keys and indices; `path_text` prints it as `thermal.trips[0].celsius`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from stages.errors import HardwareSpecError
from stages.yaml_text import compose

KeyPath = tuple[str | int, ...]
Value = str | int | float | bool | None | list["Value"] | dict[str, "Value"]
_MAX_FILE_BYTES = 1_000_000


@dataclass(frozen=True, slots=True)
class Document:
    """What a file says, and on which line it says it."""

    path: Path
    content: bytes
    data: dict[str, Value]
    lines: Mapping[KeyPath, int]

    def line(self, key_path: KeyPath) -> int:
        """The line of a key, or of the nearest key that holds it where it's missing."""
        while key_path not in self.lines:
            key_path = key_path[:-1]
        return self.lines[key_path]

    def where(self, key_path: KeyPath) -> str:
        """`file:line` of a key."""
        return f"{self.path}:{self.line(key_path)}"

    def value(self, key_path: KeyPath) -> Value:
        """The value at a key path; None where there is none."""
        value: Value = self.data
        for key in key_path:
            if isinstance(value, dict) and isinstance(key, str):
                value = value.get(key)
            elif isinstance(value, list) and isinstance(key, int) and key < len(value):
                value = value[key]
            else:
                return None
        return value

    def leaves(self) -> Iterator[tuple[KeyPath, Value]]:
        """Every scalar with its key path, in the order of the file."""
        return _leaves((), self.data)


def path_text(key_path: KeyPath) -> str:
    """A key path as it is printed: `thermal.trips[0].celsius`."""
    text = ""
    for key in key_path:
        text += f"[{key}]" if isinstance(key, int) else f".{key}" if text else key
    return text


def read_document(path: Path) -> Document:
    """Read a YAML file whose top is a mapping.

    Raises:
        HardwareSpecError: no such file, not UTF-8, too large, not YAML, a duplicate key, an alias,
            a key that isn't text, or a top that isn't a mapping.
    """
    content = _read_bytes(path)
    try:
        loader, root = compose(content.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise HardwareSpecError(
            f"byte 0x{content[error.start]:02x} at offset {error.start} isn't UTF-8",
            where=str(path),
            hint="give a YAML text file; see docs/hardware-specs.md",
        ) from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise HardwareSpecError(
            f"not YAML: {error.problem}",
            where=f"{path}:{mark.line + 1}" if mark else str(path),
            hint="check indentation and quotes on this line and the one before",
        ) from error
    except (yaml.YAMLError, RecursionError) as error:
        raise HardwareSpecError(
            f"not YAML: {str(error).splitlines()[0]}",
            where=str(path),
            hint="start from one of the files in hardware_specs/",
        ) from error
    if not isinstance(root, yaml.MappingNode):
        raise HardwareSpecError(
            "a hardware spec is a mapping of keys, and this file isn't",
            where=str(path),
            hint="start from one of the files in hardware_specs/",
        )
    builder = _Builder(path, loader)
    data = builder.build((), root)
    assert isinstance(data, dict)
    return Document(path, content, data, builder.lines)


def _read_bytes(path: Path) -> bytes:
    """The file's bytes, in one read."""
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_FILE_BYTES + 1)
    except OSError as error:
        raise HardwareSpecError(
            f"can't read the hardware spec: {error.strerror or error}",
            where=str(path),
            hint="`recipe hardware list` names the specs that exist",
        ) from error
    if len(content) > _MAX_FILE_BYTES:
        raise HardwareSpecError(
            f"the file is larger than {_MAX_FILE_BYTES:,} bytes: it can't be a hardware spec",
            where=str(path),
        )
    return content


class _Builder:
    """Turns YAML nodes into data and notes the line of each."""

    def __init__(self, path: Path, loader: yaml.SafeLoader) -> None:
        self.path = path
        self.loader = loader
        self.lines: dict[KeyPath, int] = {(): 1}
        self._seen: set[int] = set()

    def build(self, key_path: KeyPath, node: yaml.Node) -> Value:
        """The value of a node."""
        self.lines.setdefault(key_path, node.start_mark.line + 1)
        if not isinstance(node, yaml.CollectionNode):
            return self._scalar(key_path, node)
        if id(node) in self._seen:
            raise self._refuse(node, f"{path_text(key_path)}: YAML aliases aren't allowed here")
        self._seen.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            return [self.build((*key_path, index), item) for index, item in enumerate(node.value)]
        return self._mapping(key_path, node)

    def _scalar(self, key_path: KeyPath, node: yaml.Node) -> Value:
        try:
            value = self.loader.construct_object(node)
        except (yaml.YAMLError, ValueError) as error:
            raise self._refuse(node, f"{path_text(key_path)}: can't read {node.value!r}") from error
        if value is None or isinstance(value, str | int | float | bool):
            return value
        return str(node.value)  # a date stays as it was written

    def _mapping(self, key_path: KeyPath, node: yaml.Node) -> dict[str, Value]:
        result: dict[str, Value] = {}
        for key_node, value_node in node.value:
            key = key_node.value
            if not isinstance(key_node, yaml.ScalarNode):
                raise self._refuse(key_node, f"{path_text(key_path) or 'top'}: a key must be text")
            inner = (*key_path, key)
            if key in result:
                first = self.lines[inner]
                raise self._refuse(
                    key_node,
                    f"{path_text(inner)}: duplicate key, first on line {first}",
                    "remove one of the two",
                )
            self.lines[inner] = key_node.start_mark.line + 1
            result[key] = self.build(inner, value_node)
        return result

    def _refuse(self, node: yaml.Node, problem: str, hint: str = "") -> HardwareSpecError:
        where = f"{self.path}:{node.start_mark.line + 1}"
        return HardwareSpecError(problem, where=where, hint=hint or "write the value out")


def _leaves(key_path: KeyPath, value: Value) -> Iterator[tuple[KeyPath, Value]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _leaves((*key_path, key), item)
    elif isinstance(value, list):
        for index, element in enumerate(value):
            yield from _leaves((*key_path, index), element)
    else:
        yield key_path, value
