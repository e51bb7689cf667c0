"""Quantities with units, read exactly and printed for people.

`parse_quantity("12.8 GB/s", BANDWIDTH)` is `12_800_000_000`. Arithmetic is on fractions, never on
floats, so what is written is what is used; a value that isn't a whole number of base units is
refused rather than rounded. `kB` is 1000 bytes, `KiB` 1024.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

_NUMBER = r"[+-]?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,2})?"
_QUANTITY = re.compile(rf"\s*({_NUMBER})\s*([A-Za-zµμ°%][A-Za-zµμ°/]*)?\s*")
_LARGEST = 2**63 - 1


class QuantityError(ValueError):
    """A text isn't the quantity that is needed there: `problem` says why, `hint` is the cure."""

    def __init__(self, problem: str, hint: str) -> None:
        super().__init__(problem, hint)
        self.problem = problem
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.problem}\nhint: {self.hint}"


@dataclass(frozen=True, slots=True)
class Dimension:
    """A kind of quantity: `factors` tells how many base units one of each unit is.

    The first unit is the base. `lowest` is the smallest value allowed, in base units.
    """

    name: str
    example: str
    factors: Mapping[str, Fraction]
    lowest: int = 0
    aliases: Mapping[str, str] = field(default_factory=dict)

    @property
    def base(self) -> str:
        """The unit that parsed values are counted in."""
        return next(iter(self.factors))

    @property
    def hint(self) -> str:
        """How to write such a quantity."""
        units = ", ".join(self.factors)
        return f"write {self.with_article} such as `{self.example}` (units: {units})"

    @property
    def with_article(self) -> str:
        """`a size`, `an energy`."""
        return f"{'an' if self.name[0] in 'aeiou' else 'a'} {self.name}"


def _decimal(base: str, prefixes: str) -> dict[str, Fraction]:
    """The base unit, then prefixed ones: each letter of `prefixes` is 1000 times the one before."""
    return {base: Fraction(1)} | {
        prefix + base: Fraction(1000) ** power for power, prefix in enumerate(prefixes, start=1)
    }


def _ladder(*units: str) -> dict[str, Fraction]:
    """Units that are each 1000 times the one before."""
    return {unit: Fraction(1000) ** power for power, unit in enumerate(units)}


def _binary(base: str) -> dict[str, Fraction]:
    return {f"{p}i{base}": Fraction(1024) ** power for power, p in enumerate("KMG", start=1)}


SIZE = Dimension("size", "384 KiB", _decimal("B", "kMG") | _binary("B"))
BANDWIDTH = Dimension("bandwidth", "12.8 GB/s", _decimal("B/s", "kMGT") | _binary("B/s"))
FREQUENCY = Dimension("frequency", "1 GHz", _decimal("Hz", "kMG"))
DURATION = Dimension(
    "duration", "500 ns", _ladder("ns", "us", "ms", "s"), aliases={"µs": "us", "μs": "us"}
)
CYCLES = Dimension("number of cycles", "32 cycles", {"cycles": Fraction(1)}, 0, {"cycle": "cycles"})
TEMPERATURE = Dimension(
    "temperature",
    "85 degC",
    {"mdegC": Fraction(1), "degC": Fraction(1000)},
    -273_150,
    {"°C": "degC"},
)
TEMPERATURE_STEP = Dimension("temperature difference", "2 K", _ladder("mK", "K"))
POWER = Dimension("power", "2100 mW", _ladder("mW", "W"))
VOLTAGE = Dimension("voltage", "800 mV", _ladder("mV", "V"))
ENERGY = Dimension("energy", "0.4 pJ", _ladder("fJ", "pJ", "nJ"))
ENERGY_PER_BYTE = Dimension("energy per byte", "20 pJ/B", _ladder("fJ/B", "pJ/B", "nJ/B"))
THERMAL_RESISTANCE = Dimension("thermal resistance", "8 K/W", _ladder("mK/W", "K/W"))
HEAT_CAPACITY = Dimension("heat capacity", "0.5 J/K", _ladder("mJ/K", "J/K"))
SPEED = Dimension("speed", "2 m/s", _ladder("mm/s", "m/s"))
ARITHMETIC_RATE = Dimension("arithmetic rate", "20 GFLOP/s", _decimal("FLOP/s", "kMGT"))
SHARE = Dimension("share", "85 %", {"permille": Fraction(1), "%": Fraction(10)})

DIMENSIONS = (
    SIZE,
    BANDWIDTH,
    FREQUENCY,
    DURATION,
    CYCLES,
    TEMPERATURE,
    TEMPERATURE_STEP,
    POWER,
    VOLTAGE,
    ENERGY,
    ENERGY_PER_BYTE,
    THERMAL_RESISTANCE,
    HEAT_CAPACITY,
    SPEED,
    ARITHMETIC_RATE,
    SHARE,
)
_AMBIGUOUS = {"KB": "`kB` is 1000 bytes, `KiB` is 1024", "KB/s": "`kB/s` or `KiB/s`"}


def parse_quantity(text: str, dimension: Dimension) -> int:
    """Read a quantity as a whole number of the dimension's base units.

    Raises:
        QuantityError: not a number, no unit, a unit of another kind, below the lowest value,
            not a whole number of base units, or too large for 64 bits.
    """
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise QuantityError(f"{text!r} isn't a finite number with one unit", dimension.hint)
    number, unit = match.groups()
    if unit is None:
        raise QuantityError(f"{text!r} has no unit", dimension.hint)
    factor = dimension.factors.get(dimension.aliases.get(unit, unit))
    if factor is None:
        raise _wrong_unit(text, unit, dimension)
    value = Fraction(number) * factor
    if value < dimension.lowest:
        problem = "negative" if dimension.lowest == 0 else "below absolute zero"
        raise QuantityError(f"{text!r} is {problem}", dimension.hint)
    if value.denominator != 1:
        problem = f"{text!r} isn't a whole number of {dimension.base}"
        raise QuantityError(problem, f"round it to a multiple of 1 {dimension.base}")
    if value > _LARGEST:
        raise QuantityError(f"{text!r} is more than 64 bits can hold", "check the prefix")
    return value.numerator


def _wrong_unit(text: str, unit: str, dimension: Dimension) -> QuantityError:
    """The error for a unit that isn't one of the dimension's."""
    if unit in _AMBIGUOUS:
        return QuantityError(f"{text!r} has an ambiguous unit", _AMBIGUOUS[unit])
    for other in DIMENSIONS:
        if unit in other.factors or unit in other.aliases:
            problem = f"{text!r} is {other.with_article}, not {dimension.with_article}"
            return QuantityError(problem, dimension.hint)
    return QuantityError(f"{text!r} has an unknown unit, {unit!r}", dimension.hint)


def ceil_div(dividend: int, divisor: int) -> int:
    """The quotient rounded up, exactly."""
    return -(-dividend // divisor)


def format_bytes(size_bytes: int) -> str:
    """Bytes in the largest binary unit that leaves at least one: `384 KiB`, `1.5 MiB`, `17 B`."""
    return _scaled(size_bytes, (("GiB", 1024**3), ("MiB", 1024**2), ("KiB", 1024), ("B", 1)))


def format_ns(duration_ns: int) -> str:
    """Nanoseconds for people: `850 ns`, `12.3 us`, `4.57 ms`, `1.2 s`."""
    return _scaled(duration_ns, (("s", 10**9), ("ms", 10**6), ("us", 10**3), ("ns", 1)))


def format_cycles(cycles: int) -> str:
    """Cycles with digit groups: `1,234,567 cycles`."""
    return f"{cycles:,} cycle{'' if cycles == 1 else 's'}"


def format_frequency(frequency_hz: int) -> str:
    """Hertz for people: `1 GHz`, `1.59 GHz`, `313 MHz`."""
    return _scaled(frequency_hz, (("GHz", 10**9), ("MHz", 10**6), ("kHz", 10**3), ("Hz", 1)))


def format_bandwidth(bytes_per_second: int) -> str:
    """Bytes per second for people, in decimal units as data sheets print them: `12.8 GB/s`."""
    steps = (("TB/s", 10**12), ("GB/s", 10**9), ("MB/s", 10**6), ("kB/s", 10**3), ("B/s", 1))
    return _scaled(bytes_per_second, steps)


def _scaled(value: int, steps: tuple[tuple[str, int], ...]) -> str:
    """The value in the largest unit that it reaches, exact or to three significant digits."""
    magnitude, sign = abs(value), "-" if value < 0 else ""
    for unit, factor in steps:
        text = _three_digits(magnitude, factor)
        if magnitude >= factor or text == "1":
            return f"{sign}{text} {unit}"
    return f"{sign}{magnitude} {steps[-1][0]}"


def _three_digits(magnitude: int, factor: int) -> str:
    """The quotient as a decimal: whole where it is whole, rounded half up elsewhere."""
    whole, rest = divmod(magnitude, factor)
    if rest == 0:
        return f"{whole:,}"
    decimals = max(0, 3 - len(str(whole))) if whole else 3
    scaled = (magnitude * 10**decimals * 2 + factor) // (factor * 2)
    digits, fraction = divmod(scaled, 10**decimals)
    tail = f".{fraction:0{decimals}d}".rstrip("0").rstrip(".") if decimals else ""
    return f"{digits:,}{tail}"
