"""The text form of kernels: names, attributes and operators as recipes print them."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping

from stages.plan.instructions import Kernel
from stages.plan.syntax import (
    NAME,
    TYPE,
    PlanTextError,
    escape_comment,
    print_name,
    read_name,
    read_type,
    unescape_comment,
)
from stages.recipe.graph import Attribute, Operator
from stages.recipe.kinds import Kind
from stages.tensors import TensorType

_VALUE = re.compile(rf"%({NAME})(?: : ({TYPE}))?")
_OPERAND = re.compile(rf"(?:%({NAME})|_)(?:, )?")
_HEAD = re.compile(rf"kernel (\d+) ({NAME}) \((.*)\) -> \((.*)\)$")
_RIGHT = re.compile(rf"([a-z_0-9]+)\(((?:(?:%{NAME}|_)(?:, )?)*)\)")
_COMMENT = re.compile(r"(?:  # (.*))?$")
_SCALAR = re.compile(
    r'"(?:[^"\\]|\\.)*"|b64"[A-Za-z0-9+/=]*"|[-+]?(?:inf|nan|[0-9][0-9.]*(?:e[-+]?[0-9]+)?)'
)
_KEY = re.compile(r"([A-Za-z_][A-Za-z_0-9]*)=")


def print_kernel(index: int, kernel: Kernel) -> Iterator[str]:
    """The lines of one kernel: its signature, then an operator a line."""
    parameters = ", ".join(_typed(name, kernel.types) for name in kernel.parameters)
    results = ", ".join(f"%{print_name(name)}" for name in kernel.results)
    yield f"kernel {index} {print_name(kernel.name)} ({parameters}) -> ({results})"
    made = {name for operator in kernel.operators for name in operator.outputs}
    for name in sorted(set(kernel.types) - made - set(kernel.parameters)):
        yield f"  type {_typed(name, kernel.types)}"
    for operator in kernel.operators:
        yield f"  {_print_operator(operator, kernel.types)}"


def _typed(name: str, types: Mapping[str, TensorType]) -> str:
    tensor = types.get(name)
    return f"%{print_name(name)}" + (f" : {tensor}" if tensor is not None else "")


def _print_operator(operator: Operator, types: Mapping[str, TensorType]) -> str:
    left = ", ".join(_typed(name, types) for name in operator.outputs)
    operands = ", ".join(f"%{print_name(name)}" if name else "_" for name in operator.inputs)
    pairs = sorted(operator.attributes.items())
    attributes = ", ".join(f"{key}={_print_attribute(value)}" for key, value in pairs)
    tail = f" {{{attributes}}}" if attributes else ""
    if operator.name:
        tail += f"  # {escape_comment(operator.name)}"
    return f"{left} = {operator.kind}({operands}){tail}"


def _print_attribute(value: Attribute) -> str:
    if isinstance(value, tuple):
        return f"[{','.join(_print_attribute(item) for item in value)}]"
    if isinstance(value, bytes):
        return f'b64"{base64.b64encode(value).decode("ascii")}"'
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return repr(float(value)) if isinstance(value, float) else str(int(value))


def read_kernel(lines: list[tuple[int, str]]) -> Kernel:
    """The kernel that `print_kernel` printed; each line comes with its number in the file.

    Raises:
        PlanTextError: a line isn't in the form.
    """
    number, head = lines[0]
    if (match := _HEAD.match(head)) is None:
        raise PlanTextError("this isn't the head of a kernel", number, head)
    types: dict[str, TensorType] = {}
    parameters = _read_values(match[3], types, number)
    results = _read_values(match[4], types, number)
    operators = []
    for at, line in lines[1:]:
        if line.startswith("  type "):
            _read_values(line[7:], types, at)
        else:
            operators.append(_read_operator(line.strip(" "), types, at))
    return Kernel(read_name(match[2]), parameters, results, tuple(operators), types)


def _read_values(text: str, types: dict[str, TensorType], number: int) -> tuple[str, ...]:
    names = []
    at = 0
    while at < len(text):
        if (match := _VALUE.match(text, at)) is None:
            raise PlanTextError("a value such as %x or %x : f16[1,8] was expected", number, text)
        name = read_name(match[1])
        if match[2]:
            types[name] = read_type(match[2])
        names.append(name)
        at = match.end() + (2 if text.startswith(", ", match.end()) else 0)
        if at == match.end() and at < len(text):
            raise PlanTextError("a comma was expected between values", number, text)
    return tuple(names)


def _read_operator(text: str, types: dict[str, TensorType], number: int) -> Operator:
    left_end = _end_of_values(text, number)
    outputs = _read_values(text[:left_end], types, number)
    right = _RIGHT.match(text, left_end + 3)
    if right is None:
        raise PlanTextError("an operator such as relu(%x) was expected", number, text)
    try:
        kind = Kind(right[1])
    except ValueError:
        raise PlanTextError(f"`{right[1]}` is no operator kind", number, text) from None
    inputs = tuple(read_name(match[1]) if match[1] else "" for match in _OPERAND.finditer(right[2]))
    attributes, end = _read_attributes(text, right.end(), number)
    comment = _COMMENT.match(text, end)
    if comment is None:
        raise PlanTextError("this operator line has something after its end", number, text)
    return Operator(unescape_comment(comment[1] or ""), kind, inputs, outputs, attributes)


def _end_of_values(text: str, number: int) -> int:
    at = 0
    while (match := _VALUE.match(text, at)) is not None:
        at = match.end()
        if not text.startswith(", ", at):
            break
        at += 2
    if not text.startswith(" = ", at):
        raise PlanTextError("an operator such as %y = relu(%x) was expected", number, text)
    return at


def _read_attributes(text: str, at: int, number: int) -> tuple[dict[str, Attribute], int]:
    attributes: dict[str, Attribute] = {}
    if not text.startswith(" {", at):
        return attributes, at
    at += 2
    while (match := _KEY.match(text, at)) is not None:
        attributes[match[1]], at = _read_attribute(text, match.end(), number)
        if text.startswith(", ", at):
            at += 2
    if not text.startswith("}", at):
        raise PlanTextError("the attributes of an operator end with }", number, text)
    return attributes, at + 1


def _read_attribute(text: str, at: int, number: int) -> tuple[Attribute, int]:
    if text.startswith("[", at):
        items: list[Attribute] = []
        at += 1
        while not text.startswith("]", at):
            item, at = _read_attribute(text, at, number)
            items.append(item)
            if text.startswith(",", at):
                at += 1
        return tuple(items), at + 1  # type: ignore[return-value]
    if (match := _SCALAR.match(text, at)) is None:
        raise PlanTextError(f"`{text[at : at + 20]}` is no attribute value", number, text)
    word = match[0]
    try:
        if word.startswith('"'):
            return json.loads(word), match.end()
        if word.startswith('b64"'):
            return base64.b64decode(word[4:-1], validate=True), match.end()
        if word.lstrip("+-").isdigit():
            return int(word), match.end()
        return float(word), match.end()
    except ValueError:
        raise PlanTextError(f"`{word}` is no attribute value", number, text) from None
