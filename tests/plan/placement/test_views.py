"""What views are made of, against the elements that they have."""

from __future__ import annotations

from itertools import product

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stages.plan.rules.placement.views import Views
from stages.recipe.decisions import Recipe, Target
from stages.recipe.graph import Graph, Operator
from stages.recipe.kinds import Kind
from stages.recipe.operators import infer
from stages.recipe.semantics import evaluate
from stages.tensors import ROW_MAJOR, DType, Layout, LayoutKind, TensorType

LAYOUTS = (ROW_MAJOR, ROW_MAJOR, Layout(LayoutKind.NHWC), Layout(LayoutKind.NC1HWC2, 2))
FAR = 1000
"""Elements of the second input are this much further on than those of the first."""


def sliced(draw: st.DrawFn, shape: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
    spans = [sorted(draw(st.tuples(st.integers(0, n), st.integers(0, n)))) for n in shape]
    spans = [(low, high) if low < high else (0, 1) for low, high in spans]
    forward = [draw(st.booleans()) for _ in shape]
    by = [draw(st.integers(1, 2)) for _ in shape]
    return {
        "starts": tuple(a if f else b - 1 for (a, b), f in zip(spans, forward, strict=True)),
        "stops": tuple(b if f else a - 1 for (a, b), f in zip(spans, forward, strict=True)),
        "steps": tuple(s if f else -s for s, f in zip(by, forward, strict=True)),
    }


def operator(draw: st.DrawFn, number: int, known: dict[str, TensorType]) -> Operator:
    """A view of values that are there."""
    name = draw(st.sampled_from(sorted(known)))
    shape, made = known[name].shape, (f"y{number}",)
    kind = draw(st.sampled_from(("slice", "transpose", "reshape", "concat", "split", "expand")))
    match kind:
        case "slice":
            return Operator(f"o{number}", Kind.SLICE, (name,), made, sliced(draw, shape))
        case "transpose":
            turned = tuple(draw(st.permutations(range(len(shape)))))
            return Operator(f"o{number}", Kind.TRANSPOSE, (name,), made, {"permutation": turned})
        case "concat":
            like = [other for other in sorted(known) if known[other].shape == shape]
            other = draw(st.sampled_from(like))
            axis = draw(st.integers(0, len(shape) - 1))
            return Operator(f"o{number}", Kind.CONCAT, (name, other), made, {"axis": axis})
        case "split":
            axis = max(range(len(shape)), key=lambda place: shape[place])
            if shape[axis] > 1:
                sizes = (1, shape[axis] - 1)
                two = (f"y{number}", f"z{number}")
                says = {"axis": axis, "sizes": sizes}
                return Operator(f"o{number}", Kind.SPLIT, (name,), two, says)
        case "expand":
            wide = (2, *(extent if extent > 1 else 3 for extent in shape))
            if len(wide) < 5:
                return Operator(f"o{number}", Kind.EXPAND, (name,), made, {"shape": wide})
    total = int(np.prod(shape))
    first = draw(st.sampled_from([n for n in range(1, total + 1) if total % n == 0]))
    wanted = draw(st.sampled_from(((first, total // first), (1, first, total // first), (total,))))
    return Operator(f"o{number}", Kind.RESHAPE, (name,), made, {"shape": wanted})


@given(st.data())
def test_pieces_are_the_elements_of_a_view(data: st.DataObject) -> None:
    first = TensorType(DType.I64, data.draw(st.sampled_from(((2, 4, 3, 2), (3, 4), (1, 6, 2)))))
    types = {"x0": first, "x1": first}
    arrays = {
        name: np.arange(first.element_count, dtype=np.int64).reshape(first.shape) + at * FAR
        for at, name in enumerate(types)
    }
    made = []
    for number in range(data.draw(st.integers(1, 3))):
        one = operator(data.draw, number, types)
        found = infer(one, [types[name] for name in one.inputs], [])
        for name, array in zip(
            one.outputs, evaluate(one, [arrays[name] for name in one.inputs], found), strict=True
        ):
            types[name] = TensorType(DType.I64, array.shape)
            arrays[name] = np.asarray(array)
        made.append(one)
    layouts = {
        name: data.draw(st.sampled_from(LAYOUTS)) if item.rank >= 3 else ROW_MAJOR
        for name, item in types.items()
    }
    graph = Graph("views", ("x0", "x1"), (), (), types, tuple(made))
    recipe = Recipe(graph, Target("npu", "1.0"), (), layouts)
    views = Views(recipe, frozenset())
    for name, array in arrays.items():
        pieces = views.of(name)
        if pieces is None or not array.size:
            continue
        physical = layouts[name].to_physical(array + 1) - 1  # -1 where a block is padded
        seen = np.full(physical.shape, -2, np.int64)
        for piece in pieces:
            held = layouts[piece.source].to_physical(arrays[piece.source] + 1).reshape(-1) - 1
            for place in product(*(range(low, high) for low, high in piece.box)):
                index = piece.index + sum(
                    (at - low) * step
                    for at, (low, _), step in zip(place, piece.box, piece.steps, strict=True)
                )
                assert seen[place] == -2
                seen[place] = held[index]
                back = piece.place(index)
                assert back is not None
                assert all(
                    step == 0 or one in (None, at)
                    for one, at, step in zip(back, place, piece.steps, strict=True)
                )
        assert np.array_equal(seen, physical)
