"""The operator table: complete, consistent, and strict about operands and attributes."""

import pytest

from stages.recipe.graph import Attribute, Operator
from stages.recipe.kinds import Kind
from stages.recipe.operators import (
    TABLE,
    IllegalOperatorError,
    OperatorClass,
    agrees,
    flops,
    infer,
    is_elementwise,
    macs,
    signature,
)
from stages.recipe.semantics import evaluate
from stages.recipe.semantics.evaluation import MEANINGS
from stages.tensors import DType, TensorType


def typed(*shape: int, dtype: DType = DType.F16) -> TensorType:
    return TensorType(dtype, shape)


def test_every_kind_has_a_row_and_a_meaning() -> None:
    assert set(TABLE) == set(Kind)
    assert set(MEANINGS) == set(Kind) - {Kind.HOST_CALL}
    for kind in Kind:
        assert signature(kind).kind is kind


def test_a_host_call_has_no_meaning_here() -> None:
    with pytest.raises(ValueError, match="host's own runtime"):
        evaluate(Operator("h", Kind.HOST_CALL, (), ("y",)), [], [typed(1)])


def test_elementwise_kinds() -> None:
    yes = (Kind.ADD, Kind.WHERE, Kind.GELU, Kind.CLIP, Kind.CAST, Kind.QUANTIZE, Kind.DEQUANTIZE)
    no = (Kind.CONV, Kind.SOFTMAX, Kind.MAX_POOL, Kind.REDUCE_SUM, Kind.CONCAT, Kind.HOST_CALL)
    assert all(is_elementwise(kind) for kind in yes)
    assert not any(is_elementwise(kind) for kind in no)


def test_only_movement_and_host_calls_do_no_arithmetic() -> None:
    idle = {kind for kind, row in TABLE.items() if row.operations == 0}
    free = (OperatorClass.CONTRACTION, OperatorClass.MOVEMENT, OperatorClass.HOST)
    assert all(TABLE[kind].operator_class in free for kind in idle)


def test_floats_of_several_widths_mix_and_the_first_gives_the_type() -> None:
    add = Operator("a", Kind.ADD, ("x", "y"), ("z",))
    assert infer(add, [typed(2, 3), typed(3, dtype=DType.F32)]) == (typed(2, 3),)
    with pytest.raises(IllegalOperatorError, match="unlike types"):
        infer(add, [typed(2), typed(2, dtype=DType.I8)])


def test_a_declared_type_agrees_in_shape_and_family() -> None:
    assert agrees(typed(2), typed(2, dtype=DType.F32))
    assert not agrees(typed(2), typed(3))
    assert not agrees(typed(2, dtype=DType.I8), typed(2, dtype=DType.U8))
    assert not agrees(typed(2, dtype=DType.I8), typed(2))


def test_types_that_only_a_declaration_gives() -> None:
    cast = Operator("c", Kind.CAST, ("x",), ("y",))
    assert infer(cast, [typed(2)], [typed(9, dtype=DType.I8)]) == (typed(2, dtype=DType.I8),)
    with pytest.raises(IllegalOperatorError, match="can't be inferred"):
        infer(cast, [typed(2)])
    quantize = Operator("q", Kind.QUANTIZE, ("x", "s"), ("y",), {"axis": -1})
    operands = [typed(2), typed(dtype=DType.F32)]
    assert infer(quantize, operands, [typed(2, dtype=DType.I8)]) == (typed(2, dtype=DType.I8),)
    with pytest.raises(IllegalOperatorError, match="isn't an integer type"):
        infer(quantize, operands, [typed(2)])


CONV: dict[str, Attribute] = {
    "strides": (1, 1),
    "pads": (0, 0, 0, 0),
    "dilations": (1, 1),
    "group": 1,
}


@pytest.mark.parametrize(
    ("kind", "operands", "attributes", "problem"),
    [
        (Kind.CONV, [typed(1, 2, 4, 4), typed(2, 2, 7, 5)], CONV, "doesn't fit the padded operand"),
        (Kind.CONV, [typed(1, 2, 4), typed(2, 2, 3, 3)], CONV, "another rank"),
        (Kind.CONV, [typed(1, 2), typed(2, 2)], CONV, "1 to 3 spatial axes"),
        (Kind.CONV, [typed(1, 4, 4, 4), typed(3, 2, 1, 1)], CONV | {"group": 2}, "don't divide"),
        (
            Kind.CONV_TRANSPOSE,
            [typed(1, 3, 4, 4), typed(4, 2, 1, 1)],
            CONV | {"output_padding": (0, 0)},
            "don't match the 3 channels",
        ),
        (Kind.MATMUL, [typed(2, 3), typed(4, 5)], {}, "contracts 3 elements"),
        (Kind.MATMUL, [typed(2, 2, 3), typed(3, 3, 5)], {}, "stacks of"),
        (Kind.MATMUL, [typed(), typed(3)], {}, "at least one axis"),
        (Kind.MATMUL, [typed(2, 3), typed(3, 5), typed(3)], {}, "the bias f16\\[3\\]"),
        (Kind.EXP, [typed(2, dtype=DType.I32)], {}, "where a float is needed"),
        (Kind.AND, [typed(2), typed(2)], {}, "where a bool is needed"),
        (Kind.WHERE, [typed(2), typed(2), typed(2)], {}, "where a bool is needed"),
        (Kind.BATCH_NORM, [typed(1, 3), *[typed(4)] * 4], {"epsilon": 1e-5}, "has 3 channels"),
        (Kind.LAYER_NORM, [typed(2, 3), typed(2)], {"axis": 1, "epsilon": 0.1}, "normalised axes"),
        (Kind.REDUCE_SUM, [typed(2, 3)], {"axes": (1, 1), "keepdims": 0}, "aren't distinct axes"),
        (Kind.REDUCE_SUM, [typed(2, 3)], {"axes": (-1,), "keepdims": 0}, "aren't distinct axes"),
        (Kind.GATHER, [typed(2), typed(2)], {"axis": 0}, "indices are integers|indices of gather"),
        (Kind.DEQUANTIZE, [typed(2), typed()], {"axis": -1}, "dequantize reads"),
        (
            Kind.DEQUANTIZE,
            [typed(2, 3, dtype=DType.I8), typed(3)],
            {"axis": 0},
            "axis 0 of i8\\[2,3\\] needs 2",
        ),
        (
            Kind.DEQUANTIZE,
            [typed(2, dtype=DType.I8), typed(), typed(dtype=DType.U8)],
            {"axis": -1},
            "the zero point is u8",
        ),
        (
            Kind.MAX_POOL,
            [typed(1, 2, 4, 4)],
            {"kernel": (2,), "strides": (1, 1), "pads": (0, 0, 0, 0)},
            "kernel has 1 entries",
        ),
        (
            Kind.RESIZE,
            [typed(1, 1, 4)],
            {
                "mode": "linear",
                "coordinates": "half_pixel",
                "nearest": "floor",
                "scales": (1.0, 1.0, 0.0),
            },
            "scales",
        ),
    ],
)
def test_illegal_operators_are_refused(
    kind: Kind, operands: list[TensorType], attributes: dict[str, Attribute], problem: str
) -> None:
    names = tuple(f"i{place}" for place in range(len(operands)))
    with pytest.raises(IllegalOperatorError, match=problem) as caught:
        infer(Operator("one", kind, names, ("y",), attributes), operands)
    assert caught.value.hint


def test_a_host_call_names_all_its_operands_and_results() -> None:
    attributes: dict[str, Attribute] = {
        "node": b"",
        "names": ("a", ""),
        "results": ("y",),
        "opsets": ("ai.onnx:17",),
    }
    call = Operator("h", Kind.HOST_CALL, ("x", ""), ("y",), attributes)
    assert infer(call, [typed(2), None], [typed(7)]) == (typed(7),)
    for broken in ({"names": ("a",)}, {"results": ()}):
        wrong = Operator("h", Kind.HOST_CALL, ("x", ""), ("y",), attributes | broken)
        with pytest.raises(IllegalOperatorError, match=f"{next(iter(broken))} has"):
            infer(wrong, [typed(2), None], [typed(7)])


def test_work_of_elementwise_and_movement() -> None:
    sigmoid = Operator("s", Kind.SIGMOID, ("x",), ("y",))
    assert flops(sigmoid, [typed(2, 5)], [typed(2, 5)]) == 10 * signature(Kind.SIGMOID).operations
    turn = Operator("t", Kind.TRANSPOSE, ("x",), ("y",), {"permutation": (1, 0)})
    assert flops(turn, [typed(2, 5)], infer(turn, [typed(2, 5)])) == 0
    assert macs(turn, [typed(2, 5)], infer(turn, [typed(2, 5)])) == 0
    linear: dict[str, Attribute] = {
        "mode": "linear",
        "coordinates": "half_pixel",
        "nearest": "floor",
        "scales": (1.0, 1.0, 2.0, 2.0),
    }
    resize = Operator("r", Kind.RESIZE, ("x",), ("y",), linear)
    operands = [typed(1, 2, 3, 3)]
    assert flops(resize, operands, infer(resize, operands)) == 2 * 36 * 4
