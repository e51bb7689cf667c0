"""Where a model file lies now, and what is known about it beforehand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

NO_BINDINGS: Mapping[str, int] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class ModelSource:
    """A model file on this machine, with the facts that its registry entry states.

    `bindings` give dynamic axes their extent (`N` for a named axis, `x.2` for axis 2 of input `x`)
    and scalar inputs their value. Sample inputs come from `samples` (an .npz, see
    `samples.load_samples`), or else from `sampler` (a function `package.module:name`, imported
    from one of `import_roots`), or else are drawn at random. `quantization` is the file of ranges
    that makes an int8 recipe of the model.
    """

    name: str
    path: Path
    bindings: Mapping[str, int] = field(default_factory=dict)
    samples: Path | None = None
    sampler: str = ""
    quantization: Path | None = None
    import_roots: tuple[Path, ...] = ()
    licence: str = ""
    origin: str = ""
