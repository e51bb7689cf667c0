"""The numbers of a spec that a fit may move, by name.

A parameter's name is a key path of the spec (`driver.launch.tensor_core`), or the name of several
keys that take one value (`memory.ddr.bandwidth`: for reads and for writes). All are efficiencies,
overheads or bandwidths of the whole device: none belongs to one model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from stages import units
from stages.errors import HardwareSpecError, InputError
from stages.hardware.document import Document, KeyPath, Value, path_text
from stages.hardware.provenance import covering_key
from stages.hardware.spec import Mark
from stages.hardware.vocabulary import did_you_mean
from stages.units import Dimension

MOST_PARAMETERS = 6
COUNT = Dimension("count", "64", {"": Fraction(1)})
"""Of numbers that have no unit."""

_ALL = "100 %"
_WIDEST_FACTOR = 16
_LEAST_NS, _MOST_NS = 10, 10_000_000
_LEAST_PERMILLE, _MOST_PERMILLE = 10, 1000


@dataclass(frozen=True, slots=True)
class Parameter:
    """A number that a fit may move: `paths` all take its value, a whole number of the dimension's
    base units between `low` and `high`. The spec has `own` there; a search begins at `start`."""

    name: str
    paths: tuple[KeyPath, ...]
    dimension: Dimension
    own: int
    start: int
    low: int
    high: int

    def text(self, value: int) -> str:
        """A value for people: exact, in a readable unit."""
        return str(value) if self.dimension == COUNT else quantity_text(value, self.dimension)

    def yaml(self, value: int) -> str | int:
        """A value as the spec's YAML holds it: a count is a number, all else has a unit."""
        return value if self.dimension == COUNT else self.text(value)


@dataclass(frozen=True, slots=True)
class _Family:
    """Parameters of one form. `keys` are the key paths it sets, with `*` for a key that the spec
    has there; `default` is the value where the spec leaves the key out."""

    name: str
    keys: tuple[str, ...]
    dimension: Dimension
    default: str = ""


def _families() -> Iterator[_Family]:
    yield _Family("driver.submit", ("driver.submit",), units.DURATION)
    yield _Family("driver.float_io", ("driver.float_io",), units.DURATION)
    yield _Family("driver.launch", ("driver.launch.*",), units.DURATION)
    yield _Family("tensor_core.efficiency", ("tensor_core.efficiency.*",), units.SHARE, _ALL)
    bytes_ = ("tensor_core.efficiency.i8", "tensor_core.efficiency.u8")
    yield _Family("tensor_core.efficiency.int8", bytes_, units.SHARE, _ALL)
    yield _Family("vector.efficiency", ("vector.efficiency",), units.SHARE, _ALL)
    yield _Family("vector.startup", ("vector.startup",), units.CYCLES)
    yield _Family("tensor_core.fill", ("tensor_core.fill",), units.CYCLES)
    depthwise = "tensor_core.depthwise_macs_per_cycle"
    yield _Family(depthwise, (depthwise,), COUNT)
    yield _Family("dma.setup", ("dma.setup",), units.DURATION)
    yield _Family("dma.bandwidth", ("dma.bandwidth",), units.BANDWIDTH)
    for memory in ("ddr", "sram", "l2"):
        sides = (f"memory.{memory}.read_bandwidth", f"memory.{memory}.write_bandwidth")
        yield _Family(f"memory.{memory}.bandwidth", sides, units.BANDWIDTH)
        for side in sides:
            yield _Family(side, (side,), units.BANDWIDTH)
    for memory in ("ddr", "sram"):
        sides = (f"memory.{memory}.read_efficiency", f"memory.{memory}.write_efficiency")
        yield _Family(f"memory.{memory}.efficiency", sides, units.SHARE, _ALL)
        for side in sides:
            yield _Family(side, (side,), units.SHARE, _ALL)
    stream = "memory.weight_cache.read_bandwidth"
    yield _Family(stream, (stream,), units.BANDWIDTH)
    for key in ("host.sync", "host.call"):
        yield _Family(key, (key,), units.DURATION)
    yield _Family("host.link_bandwidth", ("host.link_bandwidth",), units.BANDWIDTH)


_USUAL = (
    "memory.ddr.bandwidth",
    "driver.launch",
    "driver.submit",
    "tensor_core.efficiency",
    "vector.efficiency",
)
"""What a fit moves in a spec that marks nothing as fitted."""


_EFFICIENCIES = ("tensor_core", "efficiency")
_RATES = ("tensor_core", "macs_per_cycle")
"""The types that an efficiency can be given for."""
_ARRAY_TYPE = ("tensor_core", "array_dtype")


def known_parameters(document: Document) -> Mapping[str, Parameter]:
    """Every parameter of a spec, by name."""
    found: dict[str, Parameter] = {}
    for family in _families():
        paths = tuple(_expand(family, document))
        if not paths:
            continue
        _add(found, family, family.name, paths, document)
        if any("*" in key for key in family.keys):
            for path in _each(family, paths, document):
                _add(found, family, path_text(path), (path,), document)
    return found


def _each(family: _Family, paths: tuple[KeyPath, ...], document: Document) -> tuple[KeyPath, ...]:
    """The keys that may be fitted one by one: of an efficiency, those of all types."""
    rates = document.value(_RATES)
    if family.dimension is not units.SHARE or not isinstance(rates, dict):
        return paths
    return tuple((*_EFFICIENCIES, name) for name in rates)


def _add(
    found: dict[str, Parameter],
    family: _Family,
    name: str,
    paths: tuple[KeyPath, ...],
    document: Document,
) -> None:
    values = {path: _value(document, path, family) for path in paths}
    if family.dimension is units.DURATION and any(values.values()):
        values = {path: value for path, value in values.items() if value}  # others have none
    own = max(1, round(sum(values.values()) / len(values)))
    low, high = _bounds(family.dimension, own)
    if family.dimension == COUNT:
        high = max(own, min(high, _peak(document)))
    found[name] = Parameter(name, tuple(values), family.dimension, own, own, low, high)


def _expand(family: _Family, document: Document) -> Iterator[KeyPath]:
    """The key paths that a family sets in this spec; none where it can't have them."""
    for key in family.keys:
        *outer, last = key.split(".")
        if last == "*":
            names = document.value(tuple(outer)) or document.value(_RATES)
            for name in names if isinstance(names, dict) else ():
                yield (*outer, name)
        elif tuple(outer) == _EFFICIENCIES:
            rates = document.value(_RATES)
            if isinstance(rates, dict) and {"i8", "u8"} <= set(rates):
                yield (*outer, last)
        elif document.value(tuple(outer)) is not None and (
            family.default or document.value((*outer, last)) is not None
        ):
            yield (*outer, last)


def _value(document: Document, path: KeyPath, family: _Family) -> int:
    value: Value = document.value(path)
    text = family.default if value is None else str(value)
    if family.dimension == COUNT:
        return value if isinstance(value, int) else 0
    try:
        return units.parse_quantity(text, family.dimension)
    except units.QuantityError as error:
        raise HardwareSpecError(
            f"{path_text(path)}: {error.problem}", where=document.where(path), hint=error.hint
        ) from error


def _bounds(dimension: Dimension, start: int) -> tuple[int, int]:
    """Within what a value is looked for: wide, but never beyond what a spec may say."""
    if dimension is units.SHARE:
        return _LEAST_PERMILLE, _MOST_PERMILLE
    if dimension is units.DURATION:
        return min(start, _LEAST_NS), max(start, _MOST_NS)
    return max(1, start // _WIDEST_FACTOR), max(2, start) * _WIDEST_FACTOR


def _peak(document: Document) -> int:
    """Multiply-accumulates a cycle that no mode of the array may pass."""
    rates, dtype = document.value(_RATES), document.value(_ARRAY_TYPE)
    rate = rates.get(str(dtype)) if isinstance(rates, dict) else None
    assert isinstance(rate, int), "a spec that was refused is not fitted"
    return rate


def choose_parameters(document: Document, names: Sequence[str]) -> tuple[Parameter, ...]:
    """The parameters with these names, or else the spec's usual ones, in the order of the table.

    Raises:
        InputError: an unknown name, one given twice, two that set one key, or more than six.
    """
    known = known_parameters(document)
    chosen = list(names) or _usual(document, known)
    for name in chosen:
        if name not in known:
            raise InputError(
                f"{name!r} is no parameter that can be fitted in {document.path.name}",
                where="--fit",
                hint=did_you_mean(name, known),
            )
    _refuse_overlaps([known[name] for name in chosen])
    if len(chosen) > MOST_PARAMETERS:
        raise InputError(
            f"{len(chosen)} parameters are too many, at most {MOST_PARAMETERS} are fitted: "
            f"{', '.join(chosen)}",
            where="--fit" if names else str(document.path),
            hint="name fewer with `--fit`: those that the measurements say most about",
        )
    return tuple(known[name] for name in known if name in chosen)


def _refuse_overlaps(chosen: Sequence[Parameter]) -> None:
    owners: dict[KeyPath, str] = {}
    for parameter in chosen:
        for path in parameter.paths:
            if path in owners:
                one, two = owners[path], parameter.name
                both = one if one == two else f"{one} and {two}"
                raise InputError(
                    f"{path_text(path)} would be fitted twice, by {both}",
                    where="--fit",
                    hint="name each number once",
                )
            owners[path] = parameter.name


def _usual(document: Document, known: Mapping[str, Parameter]) -> list[str]:
    """What the spec marks as fitted, several keys together where one name covers them all and they
    are equal; else the usual five. What is zero stays so."""
    sources = document.value(("sources",))
    marks = {
        key: entry.get("mark") if isinstance(entry, dict) else None
        for key, entry in (sources if isinstance(sources, dict) else {}).items()
    }
    chosen: list[str] = []
    covered: set[KeyPath] = set()
    for parameter in sorted(known.values(), key=lambda item: -len(item.paths)):
        fitted = all(
            document.value(path) is not None
            and marks.get(covering_key(path, marks) or "") == Mark.FITTED
            for path in parameter.paths
        )
        equal = len({_plain(document.value(path)) for path in parameter.paths}) == 1
        zero = parameter.dimension is units.DURATION and parameter.own <= 1
        if fitted and equal and not zero and covered.isdisjoint(parameter.paths):
            chosen.append(parameter.name)
            covered.update(parameter.paths)
    ordered = [name for name in known if name in chosen]
    return ordered or [name for name in _USUAL if name in known]


def _plain(value: Value) -> str:
    return str(value).replace(" ", "")


def quantity_text(value: int, dimension: Dimension) -> str:
    """A whole number of base units, exactly, in the largest decimal unit that it reaches."""
    decimal = [item for item in dimension.factors.items() if set(str(item[1])[1:]) <= {"0"}]
    unit, factor = max(
        (item for item in decimal if item[1] <= max(value, 1)), key=lambda item: item[1]
    )
    number = f"{Decimal(value) / int(factor):f}"
    return f"{number.rstrip('0').rstrip('.') if '.' in number else number} {unit}"
