"""Random parts in other types than float32, and parts that only the host can run."""

from __future__ import annotations

from math import prod

import numpy as np

from tests.compiler.model_builder import Choices, ModelBuilder
from tests.compiler.random_pointwise import floats

_TO = {"f16": 10, "f64": 11, "i32": 6, "i64": 7, "u8": 2, "i8": 3}


def integers(builder: ModelBuilder, choices: Choices) -> None:
    """A float as integers and back, with a little arithmetic between."""
    exact = [value for value in floats(builder) if value.exact]
    if not exact:
        return
    x = builder.float_like("Floor", choices.pick(exact), exact=True)
    dtype = choices.pick(("i32", "i64", "i8", "u8"))
    if dtype == "u8":
        x = builder.float_like("Abs", x, exact=True)
    (whole,) = builder.add("Cast", [x.name], [(dtype, x.shape)], to=_TO[dtype])
    if dtype in ("i32", "i64") and choices.integer(0, 1):
        numpy_type = np.int32 if dtype == "i32" else np.int64
        other = builder.constant(np.array(choices.integer(1, 3), numpy_type))
        kind = choices.pick(("Add", "Mul", "Sub"))
        (whole,) = builder.add(kind, [whole.name, other], [(dtype, x.shape)])
    if choices.integer(0, 3):
        builder.add("Cast", [whole.name], [("f32", x.shape)], exact=True, to=1)


def other_floats(builder: ModelBuilder, choices: Choices) -> None:
    """A part in float16 or float64."""
    x = choices.pick(floats(builder))
    dtype = choices.pick(("f16", "f64"))
    (other,) = builder.add("Cast", [x.name], [(dtype, x.shape)], to=_TO[dtype])
    kind = choices.pick(("Sigmoid", "Relu", "Mul"))
    names = [other.name, other.name] if kind == "Mul" else [other.name]
    if kind == "Mul" and choices.integer(0, 1):
        names[1] = builder.constant(np.array(0.5, np.float16 if dtype == "f16" else np.float64))
    (other,) = builder.add(kind, names, [(dtype, x.shape)])
    if choices.integer(0, 3):
        builder.add("Cast", [other.name], [("f32", x.shape)], to=1)


def host_call(builder: ModelBuilder, choices: Choices) -> None:
    """An operator that no table knows."""
    x = choices.pick([value for value in floats(builder) if value.shape])
    axis = choices.integer(0, len(x.shape) - 1)
    kind = choices.pick(("CumSum", "ArgMax", "TopK", "Celu"))
    if kind == "CumSum":
        share = builder.constant(np.float32(1 / prod(x.shape)))
        scaled = builder.float_like("Mul", x, share)
        builder.float_like("CumSum", scaled, builder.constant(np.array(axis, np.int64)))
    elif kind == "Celu":
        builder.float_like("Celu", x, alpha=0.5)
    elif x.exact:
        shape = tuple(1 if index == axis else extent for index, extent in enumerate(x.shape))
        if kind == "ArgMax":
            builder.add("ArgMax", [x.name], [("i64", shape)], axis=axis, keepdims=1)
        else:
            count = builder.constant(np.array([1], np.int64))
            results = [("f32", shape), ("i64", shape)]
            builder.add("TopK", [x.name, count], results, axis=axis)
