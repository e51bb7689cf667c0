"""Reads the text form of recipes back; see `printer.py` for what it looks like."""

from __future__ import annotations

import re
from base64 import b64decode
from binascii import Error as Base64Error
from dataclasses import dataclass, field

from stages.errors import InputError
from stages.recipe.decisions import (
    Allocation,
    Cascade,
    Engine,
    Group,
    Lifetime,
    Recipe,
    Target,
    Tile,
)
from stages.recipe.graph import Attribute, Graph, Operator
from stages.recipe.kinds import Kind
from stages.recipe.printer import WORD
from stages.recipe.scanner import Scanner
from stages.tensors import DType, Layout, LayoutKind, TensorType

_NUMBER = re.compile(r"-?(?:inf|nan|\d+(?:\.\d*)?(?:[eE][-+]?\d+)?)(?![.\w])")
_LAYOUT = re.compile("|".join(sorted(LayoutKind, reverse=True)))
_LINES = "a line begins with recipe, note, cascade, input, const, value, group, output, % or #"


@dataclass(slots=True)
class _Draft:
    """A recipe while it is being read."""

    inputs: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    constants: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    cascades: list[Cascade] = field(default_factory=list)
    types: dict[str, TensorType] = field(default_factory=dict)
    layouts: dict[str, Layout] = field(default_factory=dict)
    allocations: dict[str, Allocation] = field(default_factory=dict)
    operators: list[Operator] = field(default_factory=list)
    groups: list[Group] = field(default_factory=list)
    members: list[list[str]] = field(default_factory=list)


def parse_recipe(text: str) -> Recipe:
    """The recipe that a text says. The result isn't verified: see `verify`.

    Raises:
        InputError: the text isn't a recipe; the error shows line, column and the line.
    """
    lines = [
        Scanner(line.rstrip("\r"), number)
        for number, line in enumerate(text.split("\n"), start=1)
        if line.strip() and not line.lstrip().startswith("#")
    ]
    if not lines:
        raise InputError(
            "the text holds no recipe",
            where="line 1, column 1",
            hint="begin with: recipe NAME for HARDWARE VERSION",
        )
    name, target = _header(lines[0])
    draft = _Draft()
    for line in lines[1:]:
        _read_line(line, draft)
    graph = Graph(
        name,
        tuple(draft.inputs),
        tuple(draft.outputs),
        tuple(draft.constants),
        draft.types,
        tuple(draft.operators),
    )
    groups = tuple(
        Group(group.name, tuple(members), group.engine, group.reason, group.tile)
        for group, members in zip(draft.groups, draft.members, strict=True)
    )
    return Recipe(
        graph,
        target,
        groups,
        draft.layouts,
        draft.allocations,
        tuple(draft.notes),
        tuple(draft.cascades),
    )


def _header(line: Scanner) -> tuple[str, Target]:
    hint = "begin with: recipe NAME for HARDWARE VERSION"
    line.literal("recipe", hint)
    name = line.name("the name of the graph")
    line.literal("for", hint)
    target = Target(line.name("the name of the hardware spec"), line.name("the spec's version"))
    line.end()
    return name, target


def _read_line(line: Scanner, draft: _Draft) -> None:
    if line.accept("note"):
        note = line.string()
        if note is None:
            line.fail("a note is missing here", "write the note in double quotes")
        draft.notes.append(note)
    elif line.accept("cascade"):
        draft.cascades.append(_cascade(line))
    elif line.accept("input"):
        draft.inputs.append(_value(line, draft))
    elif line.accept("const"):
        draft.constants.append(_value(line, draft))
    elif line.accept("value"):
        _value(line, draft)
    elif line.accept("output"):
        draft.outputs.append(_reference(line))
    elif line.accept("group"):
        _read_group(line, draft)
    else:
        _read_operator(line, draft)
    line.end()


def _reference(line: Scanner) -> str:
    name = line.value_name()
    if name is None:
        line.fail("a value is missing here", "write %name, or _ for an omitted operand")
    return name


def _value(line: Scanner, draft: _Draft) -> str:
    start = line.ahead()
    name = _reference(line)
    line.literal(":", "a value has a type: %name : f32[1,3]")
    if not line.accept("?"):
        type_ = TensorType(line.option(DType, "an element type"), line.integers("a shape"))
        if draft.types.setdefault(name, type_) != type_:
            line.fail(
                f"%{name} is {type_} here, and was {draft.types[name]} before",
                "give every value one type",
                start,
            )
    layout = line.match(_LAYOUT)
    if layout is not None:
        quantum = line.integer("the quantum of the layout") if line.accept("/") else 1
        draft.layouts[name] = Layout(LayoutKind(layout), quantum)
    if line.accept("at"):
        draft.allocations[name] = _allocation(line)
    return name


def _allocation(line: Scanner) -> Allocation:
    hint = "an allocation reads: at sram+0x0400 size 1024 scoped live [3,5)"
    memory = line.string()
    if memory is None:
        memory = line.expect(WORD, "the name of a memory", hint)
    sign = -1 if line.accept("-") else 1
    if sign == 1:
        line.literal("+", hint)
    offset = sign * line.hexadecimal("an offset")
    line.literal("size", hint)
    size = line.integer("a size in bytes")
    lifetime = line.option(Lifetime, "a lifetime class")
    line.literal("live", hint)
    line.literal("[", hint)
    start = line.integer("the first group of the live range")
    line.literal(",", hint)
    stop = line.integer("the end of the live range")
    line.literal(")", hint)
    return Allocation(memory, offset, size, lifetime, start, stop)


def _read_group(line: Scanner, draft: _Draft) -> None:
    name = line.name("the name of the group")
    line.literal("on", "a group reads: group NAME on ENGINE")
    engine = line.option(Engine, "an engine")
    tile = _tile(line) if line.accept("tile") else None
    reason = ""
    if line.accept("because"):
        text = line.string()
        if text is None:
            line.fail("the reason is missing here", "write the reason in double quotes")
        reason = text
    members = _names(line, "the name of an operator") if line.accept("of") else ()
    draft.groups.append(Group(name, (), engine, reason, tile))
    draft.members.append(list(members))


def _names(line: Scanner, what: str) -> tuple[str, ...]:
    if line.accept("()"):
        return ()
    names = [line.name(what)]
    while line.accept(","):
        names.append(line.name(what))
    return tuple(names)


def _cascade(line: Scanner) -> Cascade:
    hint = "a cascade reads: cascade axis 2 stripe 14 of conv_1, conv_2"
    line.literal("axis", hint)
    axis = line.integer("the axis of the stripes")
    line.literal("stripe", hint)
    stripe = line.integer("the extent of a stripe")
    line.literal("of", hint)
    return Cascade(_names(line, "the name of a group"), axis, stripe)


def _tile(line: Scanner) -> Tile:
    hint = "a tile reads: tile [1,16,12,96] reduce 27 order [1,2,3] slots 2"
    extents = line.integers("a tile")
    line.literal("reduce", hint)
    reduction = line.integer("the reduction of a step")
    line.literal("order", hint)
    order = line.integers("an order")
    line.literal("slots", hint)
    return Tile(extents, reduction, order, line.integer("the number of slots"))


def _read_operator(line: Scanner, draft: _Draft) -> None:
    is_member = line.line[0] in " \t"
    if is_member and not draft.groups:
        line.fail(
            "an indented operator belongs to the group above it, and there is none",
            "add a `group` line, or remove the indent",
        )
    outputs = _results(line, draft)
    line.literal("=", "an operator reads: %result : TYPE = kind(%operand, ...) {attribute=...}")
    kind = line.option(Kind, "an operator kind")
    inputs = _operands(line)
    attributes = _attributes(line)
    if line.accept("#"):
        name = line.name("the name of the operator")
    elif outputs:
        name = outputs[0]
    else:
        line.fail("an operator without results needs a name", "add `# name` at the end of the line")
    draft.operators.append(Operator(name, kind, inputs, outputs, attributes))
    if is_member:
        draft.members[-1].append(name)


def _results(line: Scanner, draft: _Draft) -> tuple[str, ...]:
    if line.accept("()"):
        return ()
    start = line.place
    if line.value_name() is None:
        line.fail("this line says nothing that a recipe holds", _LINES)
    line.place = start
    outputs = [_value(line, draft)]
    while line.accept(","):
        outputs.append(_value(line, draft))
    return tuple(outputs)


def _operands(line: Scanner) -> tuple[str, ...]:
    line.literal("(", "operands stand in parentheses")
    if line.accept(")"):
        return ()
    inputs = [_reference(line)]
    while not line.accept(")"):
        line.literal(",", "operands are parted by commas, and `)` ends them")
        inputs.append(_reference(line))
    return tuple(inputs)


def _attributes(line: Scanner) -> dict[str, Attribute]:
    attributes: dict[str, Attribute] = {}
    if not line.accept("{") or line.accept("}"):
        return attributes
    while True:
        start = line.ahead()
        key = line.name("the name of an attribute")
        if key in attributes:
            line.fail(f"attribute {key} is given twice", "keep one of them", start)
        line.literal("=", "an attribute reads: name=value")
        attributes[key] = _attribute(line)
        if line.accept("}"):
            return attributes
        line.literal(",", "attributes are parted by commas, and `}` ends them")


def _attribute(line: Scanner) -> Attribute:
    if not line.accept("["):
        return _single(line)
    items: list[int | float | str | bytes] = []
    if line.accept("]"):
        return ()
    while True:
        items.append(_single(line))
        if line.accept("]"):
            return tuple(items)  # type: ignore[return-value]  # verify refuses mixed lists
        line.literal(",", "items of a list are parted by commas, and `]` ends it")


def _single(line: Scanner) -> int | float | str | bytes:
    start = line.ahead()
    if line.accept("b64") and (text := line.string()) is not None:
        try:
            return b64decode(text, validate=True)
        except Base64Error:
            line.fail("this isn't base64", "bytes are written as base64 in double quotes", start)
    line.place = start
    text = line.string()
    if text is not None:
        return text
    number = line.match(_NUMBER)
    if number is not None:
        is_integer = number.lstrip("-").isdigit()
        return int(number) if is_integer else float(number)
    return line.expect(
        WORD, "the value of an attribute", "write a number, a word, a string or a list of them"
    )
