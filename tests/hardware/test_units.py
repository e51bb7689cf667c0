"""Quantities: exact values, and a refusal for whatever isn't one."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stages import units
from stages.units import (
    BANDWIDTH,
    CYCLES,
    DIMENSIONS,
    DURATION,
    ENERGY,
    FREQUENCY,
    HEAT_CAPACITY,
    POWER,
    SHARE,
    SIZE,
    TEMPERATURE,
    TEMPERATURE_STEP,
    THERMAL_RESISTANCE,
    VOLTAGE,
    Dimension,
    QuantityError,
    format_bandwidth,
    format_bytes,
    format_cycles,
    format_frequency,
    format_ns,
    parse_quantity,
)


@pytest.mark.parametrize(
    ("text", "dimension", "value"),
    [
        ("1 MiB", SIZE, 1_048_576),
        ("384 KiB", SIZE, 393_216),
        ("1 kB", SIZE, 1000),
        ("0.5 KiB", SIZE, 512),
        ("0 B", SIZE, 0),
        ("12.8 GB/s", BANDWIDTH, 12_800_000_000),
        ("1 GiB/s", BANDWIDTH, 1_073_741_824),
        ("85 degC", TEMPERATURE, 85_000),
        ("-20 degC", TEMPERATURE, -20_000),
        ("0.25 °C", TEMPERATURE, 250),
        ("2 K", TEMPERATURE_STEP, 2000),
        ("1 GHz", FREQUENCY, 1_000_000_000),
        ("312.5 MHz", FREQUENCY, 312_500_000),
        ("20 ms", DURATION, 20_000_000),
        ("500 ns", DURATION, 500),
        ("3 µs", DURATION, 3000),
        ("1e3 us", DURATION, 1_000_000),
        ("2100 mW", POWER, 2100),
        ("0.4 pJ", ENERGY, 400),
        ("850 mV", VOLTAGE, 850),
        ("1.5 K/W", THERMAL_RESISTANCE, 1500),
        ("0.02 J/K", HEAT_CAPACITY, 20),
        ("1 cycle", CYCLES, 1),
        ("  7cycles ", CYCLES, 7),
        ("85 %", SHARE, 850),
        ("12.5%", SHARE, 125),
        ("7 permille", SHARE, 7),
    ],
)
def test_reads_exactly(text: str, dimension: Dimension, value: int) -> None:
    assert parse_quantity(text, dimension) == value


SIZE_HINT = "write a size such as `384 KiB` (units: B, kB, MB, GB, KiB, MiB, GiB)"


@pytest.mark.parametrize(
    ("text", "dimension", "problem", "hint"),
    [
        ("1 GB/s", SIZE, "'1 GB/s' is a bandwidth, not a size", SIZE_HINT),
        ("1 pJ", SIZE, "'1 pJ' is an energy, not a size", SIZE_HINT),
        ("1 parsec", SIZE, "'1 parsec' has an unknown unit, 'parsec'", SIZE_HINT),
        ("1 kib", SIZE, "'1 kib' has an unknown unit, 'kib'", SIZE_HINT),
        ("1", SIZE, "'1' has no unit", SIZE_HINT),
        ("-1 KiB", SIZE, "'-1 KiB' is negative", SIZE_HINT),
        ("nan KiB", SIZE, "'nan KiB' isn't a finite number with one unit", SIZE_HINT),
        ("inf KiB", SIZE, "'inf KiB' isn't a finite number with one unit", SIZE_HINT),
        ("1 KiB KiB", SIZE, "'1 KiB KiB' isn't a finite number with one unit", SIZE_HINT),
        ("", SIZE, "'' isn't a finite number with one unit", SIZE_HINT),
        ("1,5 KiB", SIZE, "'1,5 KiB' isn't a finite number with one unit", SIZE_HINT),
        ("1 KB", SIZE, "'1 KB' has an ambiguous unit", "`kB` is 1000 bytes, `KiB` is 1024"),
        (
            "0.3 B",
            SIZE,
            "'0.3 B' isn't a whole number of B",
            "round it to a multiple of 1 B",
        ),
        (
            "1.5 ns",
            DURATION,
            "'1.5 ns' isn't a whole number of ns",
            "round it to a multiple of 1 ns",
        ),
        ("1e30 B", SIZE, "'1e30 B' is more than 64 bits can hold", "check the prefix"),
        (
            "-300 degC",
            TEMPERATURE,
            "'-300 degC' is below absolute zero",
            "write a temperature such as `85 degC` (units: mdegC, degC)",
        ),
    ],
)
def test_refuses(text: str, dimension: Dimension, problem: str, hint: str) -> None:
    with pytest.raises(QuantityError) as caught:
        parse_quantity(text, dimension)
    assert caught.value.problem == problem
    assert caught.value.hint == hint
    assert str(caught.value) == f"{problem}\nhint: {hint}"


def test_a_huge_exponent_is_no_number() -> None:
    with pytest.raises(QuantityError, match="isn't a finite number"):
        parse_quantity("1e999999999 B", SIZE)


def test_every_example_is_of_its_own_dimension() -> None:
    for dimension in DIMENSIONS:
        assert parse_quantity(dimension.example, dimension) > 0
        assert parse_quantity(f"1 {dimension.base}", dimension) == 1


@given(
    st.sampled_from(DIMENSIONS),
    st.integers(0, 10**6),
    st.integers(0, 3),
    st.data(),
)
def test_value_is_number_times_factor_or_refused(
    dimension: Dimension, digits: int, decimals: int, data: st.DataObject
) -> None:
    unit = data.draw(st.sampled_from(sorted(dimension.factors)))
    number = Fraction(digits, 10**decimals)
    text = f"{digits // 10**decimals}.{digits % 10**decimals:0{decimals}d}" if decimals else digits
    exact = number * dimension.factors[unit]
    if exact.denominator == 1:
        assert parse_quantity(f"{text} {unit}", dimension) == exact
    else:
        with pytest.raises(QuantityError, match="whole number"):
            parse_quantity(f"{text} {unit}", dimension)


@given(st.text(max_size=12))
def test_any_text_is_read_or_refused(text: str) -> None:
    for dimension in DIMENSIONS:
        try:
            value = parse_quantity(text, dimension)
        except QuantityError:
            continue
        assert dimension.lowest <= value < 2**63


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        (format_bytes(0), "0 B"),
        (format_bytes(17), "17 B"),
        (format_bytes(1023), "1,023 B"),
        (format_bytes(384 * 1024), "384 KiB"),
        (format_bytes(3 * 512 * 1024), "1.5 MiB"),
        (format_bytes(2560 * 1024 + 1), "2.5 MiB"),
        (format_bytes(5 * 1024**4), "5,120 GiB"),
        (format_ns(850), "850 ns"),
        (format_ns(12_345), "12.3 us"),
        (format_ns(4_567_890), "4.57 ms"),
        (format_ns(999_999), "1 ms"),
        (format_ns(-1500), "-1.5 us"),
        (format_ns(61_000_000_000), "61 s"),
        (format_cycles(1), "1 cycle"),
        (format_cycles(1_234_567), "1,234,567 cycles"),
        (format_frequency(1_000_000_000), "1 GHz"),
        (format_frequency(312_500_000), "313 MHz"),
        (format_frequency(1_590_000_000), "1.59 GHz"),
        (format_bandwidth(12_800_000_000), "12.8 GB/s"),
        (format_bandwidth(8_140_000_000_000), "8.14 TB/s"),
    ],
)
def test_prints(printed: str, expected: str) -> None:
    assert printed == expected


@given(st.integers(0, 2**62))
def test_printed_sizes_stay_within_half_a_percent(size_bytes: int) -> None:
    number, unit = format_bytes(size_bytes).split(" ")
    printed = Fraction(number.replace(",", "")) * units.SIZE.factors[unit]
    assert abs(printed - size_bytes) * 200 <= size_bytes
