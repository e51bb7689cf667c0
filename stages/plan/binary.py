"""The binary form of a plan: integer columns in a safetensors file, words in its metadata.

Each distinct region, form, word and contraction is held once and referred to by number; each
column takes the narrowest integer type that holds it. The header (kernels, buffers, bindings) is
the text form's. The same plan gives the same bytes on every machine.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Sequence
from io import BytesIO
from itertools import pairwise
from typing import Any, Generic, TypeVar

import numpy as np

from stages.errors import InputError, PackageError
from stages.plan.instructions import Contraction, Instruction, Opcode, Plan, Region
from stages.plan.syntax import Form, form_of, print_form, read_form
from stages.plan.tensor_file import read_tensors, write_tensors
from stages.plan.text import parse_header, print_header
from stages.tensors import Array, DType

_FORMAT = 1
_KEY = "plan"
_Item = TypeVar("_Item", bound=Hashable)


class _Table(Generic[_Item]):
    """Distinct items, numbered as they come."""

    def __init__(self) -> None:
        self._numbers: dict[_Item, int] = {}

    def number(self, item: _Item) -> int:
        return self._numbers.setdefault(item, len(self._numbers))

    @property
    def items(self) -> list[_Item]:
        return list(self._numbers)


def encode_plan(plan: Plan) -> bytes:
    """The binary form of a plan."""
    queues, groups, comments = _Table[str](), _Table[str](), _Table[str]()
    opcodes, memories = _Table[str](), _Table[str]()
    regions, forms = _Table[Region](), _Table[Form]()
    works = _Table[Contraction | None]()
    columns: dict[str, list[int]] = {}
    rows = plan.instructions
    columns["opcode"] = [opcodes.number(row.opcode.value) for row in rows]
    columns["queue"] = [queues.number(row.queue) for row in rows]
    columns["group"] = [groups.number(row.group) for row in rows]
    columns["comment"] = [comments.number(row.comment) for row in rows]
    columns["work"] = [works.number(row.contraction) for row in rows]
    columns["kernel"] = [row.kernel for row in rows]
    columns["event"] = [row.event for row in rows]
    columns["launch"] = [int(row.launch) for row in rows]
    columns["cycles"] = [row.cycles for row in rows]
    columns["read_count"] = [len(row.reads) for row in rows]
    columns["write_count"] = [len(row.writes) for row in rows]
    columns["reads"] = [regions.number(item) for row in rows for item in row.reads]
    columns["writes"] = [regions.number(item) for row in rows for item in row.writes]
    columns["region_memory"] = [memories.number(item.memory) for item in regions.items]
    columns["region_address"] = [item.address for item in regions.items]
    columns["region_form"] = [forms.number(form_of(item)) for item in regions.items]
    document = {
        "format": _FORMAT,
        "header": list(print_header(plan)),
        "opcodes": opcodes.items,
        "queues": queues.items,
        "groups": groups.items,
        "comments": comments.items,
        "memories": memories.items,
        "forms": [print_form(form) for form in forms.items],
        "works": [_work_row(work) for work in works.items],
    }
    metadata = {_KEY: json.dumps(document, ensure_ascii=False, sort_keys=True)}
    sink = BytesIO()
    write_tensors(sink, {name: _narrow(column) for name, column in columns.items()}, metadata)
    return sink.getvalue()


def _work_row(work: Contraction | None) -> list[int | str] | None:
    if work is None:
        return None
    return [work.m, work.n, work.k, work.groups, work.taps, work.dtype.value]


def _narrow(column: Sequence[int]) -> Array:
    """The column in the narrowest integer type that holds it."""
    low, high = min(column, default=0), max(column, default=0)
    kinds = (np.uint8, np.uint16, np.uint32, np.uint64)
    signed = (np.int8, np.int16, np.int32, np.int64)
    for kind in kinds if low >= 0 else signed:
        if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max:
            return np.array(column, kind)
    raise OverflowError(f"a plan's numbers fit in 64 bits; this column spans {low} to {high}")


def decode_plan(data: bytes, where: str) -> Plan:
    """The plan that `encode_plan` encoded; `where` names the file in errors.

    Raises:
        PackageError: the bytes aren't a plan.
    """
    file = read_tensors(np.frombuffer(data, np.uint8), where)
    try:
        document = json.loads(file.metadata[_KEY])
        if document["format"] != _FORMAT:
            raise ValueError(f"its format is {document['format']}; this program reads {_FORMAT}")
        columns = {name: tensor.tolist() for name, tensor in file.tensors.items()}
        header = parse_header(document["header"])
        instructions = tuple(_instructions(document, columns))
    except (InputError, KeyError, IndexError, TypeError, ValueError) as error:
        raise PackageError(
            f"this isn't the binary form of a plan: {error}",
            where=where,
            hint="compile the package again",
        ) from error
    return Plan(
        header.hardware,
        header.queues,
        header.kernels,
        header.buffers,
        header.inputs,
        header.outputs,
        header.constants,
        instructions,
    )


def _instructions(document: dict[str, Any], columns: dict[str, list[int]]) -> list[Instruction]:
    regions = _regions(document, columns)
    works = [_work(row) for row in document["works"]]
    opcodes = [Opcode(word) for word in document["opcodes"]]
    queues, groups, comments = document["queues"], document["groups"], document["comments"]
    rows = zip(
        [opcodes[number] for number in columns["opcode"]],
        [queues[number] for number in columns["queue"]],
        [groups[number] for number in columns["group"]],
        _cut([regions[number] for number in columns["reads"]], columns["read_count"]),
        _cut([regions[number] for number in columns["writes"]], columns["write_count"]),
        columns["kernel"],
        [works[number] for number in columns["work"]],
        columns["event"],
        [launch != 0 for launch in columns["launch"]],
        columns["cycles"],
        [comments[number] for number in columns["comment"]],
        strict=True,
    )
    return [Instruction(*row) for row in rows]


def _regions(document: dict[str, Any], columns: dict[str, list[int]]) -> list[Region]:
    forms = [read_form(text) for text in document["forms"]]
    memories = document["memories"]
    places = zip(
        columns["region_memory"], columns["region_address"], columns["region_form"], strict=True
    )
    return [Region(memories[memory], address, *forms[form]) for memory, address, form in places]


def _work(row: Sequence[Any] | None) -> Contraction | None:
    if row is None:
        return None
    m, n, k, groups, taps, dtype = row
    return Contraction(m, n, k, groups, taps, DType(dtype))


def _cut(items: Sequence[Region], counts: Iterable[int]) -> list[tuple[Region, ...]]:
    """The items in pieces of these counts."""
    ends = [0, *np.cumsum(np.fromiter(counts, np.int64)).tolist()]
    if ends[-1] != len(items):
        raise ValueError(f"{len(items)} regions are listed, {ends[-1]} are counted")
    return [tuple(items[start:stop]) for start, stop in pairwise(ends)]
