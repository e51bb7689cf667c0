"""What a wrong spec is told: the problem with its value, file and line, and the cure."""

import re
from pathlib import Path

import pytest

from stages.errors import HardwareSpecError, Outcome
from stages.hardware.load import find_spec, load_spec, spec_names
from tests.hardware.refusal_cases import CASES
from tests.hardware.specs import SPECS, line_of, write_edited


def with_lines(text: str, path: Path) -> str:
    """The text with `<fragment>` replaced by the number of the line that holds it."""
    return re.sub(r"line <(.+?)>", lambda found: f"line {line_of(path, found[1])}", text)


@pytest.mark.parametrize("name", CASES)
def test_refusal(name: str, tmp_path: Path) -> None:
    old, new, problem, fragment, hint = CASES[name]
    edits = [(old, new)]
    if name == "transfer below alignment":
        edits.append(("alignment: 1 B", "alignment: 2 B"))
    path = write_edited(tmp_path, *edits)
    with pytest.raises(HardwareSpecError) as caught:
        load_spec(path)
    error = caught.value
    assert error.problem == with_lines(problem, path)
    assert error.where == f"{path}:{line_of(path, fragment)}"
    assert error.hint == with_lines(hint, path)
    assert str(error) == f"{error.problem}\nat: {error.where}\nhint: {error.hint}"
    assert error.outcome is Outcome.BAD_HARDWARE_SPEC


def refusal(path: Path) -> HardwareSpecError:
    """The error that a file is refused with."""
    with pytest.raises(HardwareSpecError) as caught:
        load_spec(path)
    return caught.value


def test_a_missing_file(tmp_path: Path) -> None:
    path = tmp_path / "none.yaml"
    error = refusal(path)
    assert error.problem == "can't read the hardware spec: No such file or directory"
    assert error.where == str(path)
    assert error.hint == "`recipe hardware list` names the specs that exist"


def test_a_folder(tmp_path: Path) -> None:
    assert refusal(tmp_path).problem == "can't read the hardware spec: Is a directory"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "a hardware spec is a mapping of keys, and this file isn't"),
        (b"- 1\n- 2\n", "a hardware spec is a mapping of keys, and this file isn't"),
        (b"name: \xff\n", "byte 0xff at offset 6 isn't UTF-8"),
        (b"a: [1, 2\nb: 3\n", "not YAML: expected ',' or ']', but got ':'"),
        (b"a: *x\n", "not YAML: found undefined alias 'x'"),
        (b"a: 1\n---\nb: 2\n", "not YAML: but found another document"),
        (
            b"a: \x00\n",
            "not YAML: unacceptable character #x0000: special characters are not allowed",
        ),
        (b"a: &x {b: 1}\nc: *x\n", "c: YAML aliases aren't allowed here"),
        (b"a: &x [*x]\n", "a[0]: YAML aliases aren't allowed here"),
        (b"? [1]\n: 2\n", "top: a key must be text"),
        (b"a: !!python/name:os.system x\n", "a: can't read 'x'"),
        (b"a: !!int x\n", "a: can't read 'x'"),
        (b"[" * 5000, "not YAML: maximum recursion depth exceeded"),
        (b"#" * 1_000_001, "the file is larger than 1,000,000 bytes: it can't be a hardware spec"),
    ],
)
def test_no_spec_at_all(content: bytes, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "odd.yaml"
    path.write_bytes(content)
    error = refusal(path)
    assert error.problem.startswith(problem)
    assert error.where.startswith(str(path))


def test_an_empty_mapping_names_every_missing_key(tmp_path: Path) -> None:
    path = tmp_path / "bare.yaml"
    path.write_text("{}\n")
    error = refusal(path)
    assert error.problem == "schema: missing key"
    assert error.hint.startswith("add `schema:`\nalso wrong in this file: name on line 1,")
    assert error.hint.endswith("and 17 more")


def test_errors_are_named_in_the_order_of_the_file(tmp_path: Path) -> None:
    edits = [("rows: 16", "rows: 0"), ("channels: 1", "channels: 0"), ("banks: 8", "banks: 0")]
    path = write_edited(tmp_path, *edits)
    error = refusal(path)
    assert error.problem == "tensor_core.array.rows: 0 is less than 1"
    dma, sram = line_of(path, "channels: 0"), line_of(path, "banks: 0")
    assert error.hint == (
        f"raise it\nalso wrong in this file: dma.channels on line {dma},"
        f" memory.sram.banks on line {sram}"
    )


def test_a_dead_source_is_refused(tmp_path: Path) -> None:
    path = write_edited(tmp_path, ("sources:\n", "sources:\n  dmas: {mark: fitted, source: x}\n"))
    error = refusal(path)
    assert error.problem == "sources.dmas: covers nothing"
    assert error.hint == "a key path such as `thermal.trips`; or remove it"


def test_a_source_covers_whole_keys_only(tmp_path: Path) -> None:
    path = write_edited(tmp_path, ("  power: {mark", "  pow: {mark"))
    assert refusal(path).problem == "power.idle: '20 mW' has no source"


def test_find_spec_knows_the_shipped_ones() -> None:
    assert find_spec("npu_tiny", SPECS) == SPECS / "npu_tiny.yaml"


KNOWN = ", ".join(spec_names(SPECS))


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        (
            "npu_tny",
            f"did you mean `npu_tiny`? (known: {KNOWN})",
        ),
        ("zz", f"known: {KNOWN}"),
        ("../npu_tiny", None),
    ],
)
def test_an_unknown_name_lists_the_known_ones(name: str, hint: str | None) -> None:
    with pytest.raises(HardwareSpecError) as caught:
        find_spec(name, SPECS)
    assert caught.value.problem == f"unknown hardware {name!r}"
    assert caught.value.where == str(SPECS)
    if hint is not None:
        assert caught.value.hint == hint


def test_a_folder_without_specs(tmp_path: Path) -> None:
    with pytest.raises(HardwareSpecError) as caught:
        find_spec("npu_tiny", tmp_path)
    assert caught.value.hint == f"no .yaml file is in {tmp_path}"
