"""The text form of instructions: one line each, in program order."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from stages.plan.instructions import (
    NO_EVENT,
    NO_KERNEL,
    Contraction,
    Instruction,
    Kernel,
    Opcode,
    Region,
)
from stages.plan.syntax import (
    NAME,
    PLACE,
    Form,
    PlanTextError,
    escape_comment,
    form_of,
    print_form,
    print_name,
    read_form,
    read_name,
    read_region,
    unescape_comment,
)
from stages.tensors import ROW_MAJOR, DType

_COMMENT = r"(?:  # (?P<comment>.*))?"
_STRIDES = r"(?: by \[[-0-9,]*\])?"
_REGIONS = r'\((?:[^()"]+|"(?:[^"\\]|\\.)*")*\)'
_COPY = re.compile(
    rf"({PLACE})({_STRIDES}) -> ({PLACE})({_STRIDES}), (\d+) B(?: ([^ #]+(?: (?!by |#)[^ #]+)?))?"
    rf"{_COMMENT}"
)
_EVENT = re.compile(rf"(-?\d+){_COMMENT}")
_LINE = re.compile(rf" *(?:\d+ +)?({NAME}) +([A-Z_]+)(?: (.*))?")
_GENERAL = re.compile(
    rf"(?:(?P<kernel>{NAME}@-?\d+) ?)?"
    rf"(?:(?P<reads>{_REGIONS}) -> (?P<writes>{_REGIONS}) ?)?"
    r"(?:m=(?P<m>-?\d+) n=(?P<n>-?\d+) k=(?P<k>-?\d+) groups=(?P<groups>-?\d+)"
    r" taps=(?P<taps>-?\d+) (?P<dtype>[a-z0-9]+) ?)?"
    r"(?:event (?P<event>-?\d+) ?)?(?P<launch>launch ?)?(?:(?P<cycles>-?\d+) cycles ?)?"
    r"(?: ?# (?P<comment>.*))?"
)
_SPLIT = re.compile(rf"{PLACE} (?:[^,\[\"]|\[[-0-9,]*\])+")
_OPCODES = {opcode.value: opcode for opcode in Opcode}
_EVENT_OPCODES = (Opcode.SIGNAL_EVENT, Opcode.WAIT_EVENT)


def print_program(
    instructions: Iterable[Instruction], kernels: Sequence[Kernel], queues: Iterable[str]
) -> Iterator[str]:
    """A line for each instruction, and one where the group changes.

    A line begins with the number by which rules name the instruction and with its queue.
    """
    width = max((len(print_name(queue)) for queue in queues), default=0)
    printer = _Printer(kernels)
    group = ""
    for index, instruction in enumerate(instructions):
        if instruction.group != group:
            group = instruction.group
            yield f"group {print_name(group)}"
        line = f"{index:>6} {print_name(instruction.queue):<{width}} {printer.line(instruction)}"
        if instruction.comment:
            line = f"{line}  # {escape_comment(instruction.comment)}"
        yield line


class _Printer:
    """Prints instructions; remembers the forms of regions, which repeat."""

    def __init__(self, kernels: Sequence[Kernel]) -> None:
        self._kernels = [f"{print_name(kernel.name)}@{i}" for i, kernel in enumerate(kernels)]
        self._forms: dict[Form, str] = {}
        self._strides: dict[Form, tuple[str, str, str]] = {}

    def line(self, instruction: Instruction) -> str:
        """The line without number, queue and comment."""
        opcode = instruction.opcode
        plain = instruction.kernel == NO_KERNEL and instruction.contraction is None
        plain = plain and not instruction.launch and not instruction.cycles
        if plain and opcode is Opcode.DMA_COPY and instruction.event == NO_EVENT:
            if (copy := self._copy(instruction)) is not None:
                return copy
        elif plain and opcode in _EVENT_OPCODES and not (instruction.reads or instruction.writes):
            return f"{opcode.value} {instruction.event}"
        return self._general(instruction)

    def _copy(self, instruction: Instruction) -> str | None:
        if len(instruction.reads) != 1 or len(instruction.writes) != 1:
            return None
        source, target = instruction.reads[0], instruction.writes[0]
        if (source.dtype, source.shape, source.layout) != (
            target.dtype,
            target.shape,
            target.layout,
        ):
            return None
        size, kind, source_strides = self._copy_form(source)
        target_strides = self._copy_form(target)[2]
        return (
            f"DMA_COPY {print_name(source.memory)}+{source.address:#06x}{source_strides} -> "
            f"{print_name(target.memory)}+{target.address:#06x}{target_strides}, {size} B{kind}"
        )

    def _copy_form(self, region: Region) -> tuple[str, str, str]:
        form = form_of(region)
        if (known := self._strides.get(form)) is None:
            kind, by, strides = print_form(form).partition(" by ")
            dense_bytes = region.dtype is DType.U8 and len(region.shape) == 1
            if dense_bytes and region.layout == ROW_MAJOR:
                kind = ""
            known = (str(region.size_bytes), f" {kind}" if kind else "", f"{by}{strides}")
            self._strides[form] = known
        return known

    def _region(self, region: Region) -> str:
        form = form_of(region)
        if (text := self._forms.get(form)) is None:
            text = self._forms[form] = print_form(form)
        return f"{print_name(region.memory)}+{region.address:#06x} {text}"

    def _general(self, instruction: Instruction) -> str:
        words = [instruction.opcode.value]
        if instruction.kernel != NO_KERNEL:
            known = 0 <= instruction.kernel < len(self._kernels)
            words.append(
                self._kernels[instruction.kernel] if known else f"unknown@{instruction.kernel}"
            )
        if instruction.reads or instruction.writes:
            reads = ", ".join(map(self._region, instruction.reads))
            writes = ", ".join(map(self._region, instruction.writes))
            words.append(f"({reads}) -> ({writes})")
        if (work := instruction.contraction) is not None:
            words.append(
                f"m={work.m} n={work.n} k={work.k} groups={work.groups} "
                f"taps={work.taps} {work.dtype.value}"
            )
        if instruction.event != NO_EVENT:
            words.append(f"event {instruction.event}")
        if instruction.launch:
            words.append("launch")
        if instruction.cycles:
            words.append(f"{instruction.cycles} cycles")
        return " ".join(words)


class ProgramReader:
    """Reads the lines that `print_program` printed, in order."""

    def __init__(self, kernels: Sequence[Kernel]) -> None:
        self._kernels = kernels
        self._group = ""
        self._regions: dict[str, Region] = {}
        self._forms: dict[tuple[str, str], Form] = {}

    def read(self, line: str, number: int) -> Instruction | None:
        """The instruction of a line; None for a line that names a group.

        Raises:
            PlanTextError: the line isn't in the form.
        """
        if line.startswith("group "):
            self._group = read_name(line[6:].rstrip(" "))
            return None
        match = _LINE.fullmatch(line)
        if match is None or match[2] not in _OPCODES:
            raise PlanTextError("an instruction was expected", number, line)
        try:
            return self._instruction(read_name(match[1]), _OPCODES[match[2]], match[3] or "")
        except ValueError as error:
            raise PlanTextError(str(error), number, line) from error

    def _instruction(self, queue: str, opcode: Opcode, rest: str) -> Instruction:
        if opcode is Opcode.DMA_COPY and (copy := _COPY.fullmatch(rest)) is not None:
            source, target = self._copy(copy)
            comment = unescape_comment(copy["comment"] or "")
            return Instruction(opcode, queue, self._group, (source,), (target,), comment=comment)
        if opcode in _EVENT_OPCODES and (match := _EVENT.fullmatch(rest)) is not None:
            comment = unescape_comment(match["comment"] or "")
            return Instruction(opcode, queue, self._group, event=int(match[1]), comment=comment)
        return self._general(queue, opcode, rest)

    def _copy(self, match: re.Match[str]) -> tuple[Region, Region]:
        (_, from_memory, from_address, from_strides) = match.group(1, 2, 3, 4)
        (_, to_memory, to_address, to_strides, size, kind) = match.group(5, 6, 7, 8, 9, 10)
        kind = kind or f"u8[{size}]"
        source = Region(
            read_name(from_memory), int(from_address, 16), *self._form(kind, from_strides)
        )
        target = Region(read_name(to_memory), int(to_address, 16), *self._form(kind, to_strides))
        if source.size_bytes != int(size):
            raise ValueError(f"{size} B isn't the size of {kind}, {source.size_bytes} B")
        return source, target

    def _form(self, kind: str, strides: str) -> Form:
        if (form := self._forms.get((kind, strides))) is None:
            form = self._forms[kind, strides] = read_form(kind + strides)
        return form

    def _general(self, queue: str, opcode: Opcode, rest: str) -> Instruction:
        match = _GENERAL.fullmatch(rest)
        if match is None:
            raise ValueError("this instruction isn't in the form")
        return Instruction(
            opcode,
            queue,
            self._group,
            self._read_regions(match["reads"]),
            self._read_regions(match["writes"]),
            self._kernel(match["kernel"]),
            _contraction(match),
            NO_EVENT if match["event"] is None else int(match["event"]),
            match["launch"] is not None,
            int(match["cycles"] or 0),
            unescape_comment(match["comment"] or ""),
        )

    def _kernel(self, text: str | None) -> int:
        if text is None:
            return NO_KERNEL
        name, _, index_text = text.rpartition("@")
        index = int(index_text)
        if 0 <= index < len(self._kernels) and self._kernels[index].name != read_name(name):
            raise ValueError(f"kernel {index} is {self._kernels[index].name}, not {name}")
        return index

    def _read_regions(self, text: str | None) -> tuple[Region, ...]:
        if text is None or text == "()":
            return ()
        inner = text[1:-1]
        parts = inner.split(", ") if '"' not in inner else _split_quoted(inner)
        return tuple(map(self._region, parts))

    def _region(self, text: str) -> Region:
        if (region := self._regions.get(text)) is None:
            region = self._regions[text] = read_region(text)
        return region


def _split_quoted(inner: str) -> list[str]:
    parts = [match[0] for match in _SPLIT.finditer(inner)]
    if ", ".join(parts) != inner:
        raise ValueError("these regions aren't in the form")
    return parts


def _contraction(match: re.Match[str]) -> Contraction | None:
    if match["m"] is None:
        return None
    m, n, k, groups, taps = (int(word) for word in match.group("m", "n", "k", "groups", "taps"))
    return Contraction(m, n, k, groups, taps, DType(match["dtype"]))
