"""Whether the compiler may run groups in cascades, or woven: an option of a compile."""

from __future__ import annotations

from enum import StrEnum


class Cascading(StrEnum):
    """Layer by layer, as vendors' compilers work, or in cascades or woven together
    where the whole plan gains."""

    ON = "on"
    OFF = "off"
