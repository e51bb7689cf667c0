"""What every command knows: the project, its parameters, and how to speak."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import typer

from flows.project.places import Project, find_project
from flows.terminal.terminal import Terminal

if TYPE_CHECKING:
    from flows.project.params import Params


@dataclass(frozen=True)
class Options:
    """The options that stand before the command. The project is looked for when first asked."""

    terminal: Terminal

    def terminal_with(self, quiet: bool) -> Terminal:
        """How a command speaks that was told to be quiet itself, or wasn't."""
        return Terminal(quiet or self.terminal.quiet)

    @cached_property
    def project(self) -> Project:
        """The project around the current folder."""
        return find_project()

    @cached_property
    def params(self) -> Params:
        """The project's params.yaml."""
        from flows.project.params import load_params

        return load_params(self.project.params)


def options(context: typer.Context) -> Options:
    """The options of this call."""
    found = context.obj
    assert isinstance(found, Options)
    return found
