"""The operator kinds. Operands are in brackets where optional; attributes in braces.

Axes are never negative. `pads` is ONNX's: all begins, then all ends. Spatial kinds take 1, 2 or 3
spatial axes after batch and channel. Elementwise kinds broadcast as numpy does.
"""

from enum import StrEnum


class Kind(StrEnum):
    """What an operator does; printed in recipes as it is spelled here."""

    # Contractions: x, w[, bias]
    CONV = "conv"  # {strides, pads, dilations, group}; w is [out, in/group, *kernel]
    CONV_TRANSPOSE = "conv_transpose"  # {strides, pads, dilations, group, output_padding}; w is
    # [in, out/group, *kernel]
    MATMUL = "matmul"  # a[..., m, k], b[..., k, n][, bias broadcast to the result]

    # Elementwise, two operands
    ADD = "add"
    SUB = "sub"
    MUL = "mul"
    DIV = "div"  # integers truncate towards zero, as ONNX's do
    POW = "pow"
    MOD = "mod"  # {fmod}
    MINIMUM = "minimum"
    MAXIMUM = "maximum"
    PRELU = "prelu"
    EQUAL = "equal"
    LESS = "less"
    LESS_OR_EQUAL = "less_or_equal"
    GREATER = "greater"
    GREATER_OR_EQUAL = "greater_or_equal"
    AND = "and"
    OR = "or"
    XOR = "xor"
    # Elementwise, three operands
    WHERE = "where"  # condition, x, y

    # Elementwise, one operand
    NEG = "neg"
    ABS = "abs"
    EXP = "exp"
    LOG = "log"
    SQRT = "sqrt"
    RECIPROCAL = "reciprocal"
    ERF = "erf"
    SIN = "sin"
    COS = "cos"
    FLOOR = "floor"
    CEIL = "ceil"
    ROUND = "round"  # half to even
    SIGN = "sign"
    NOT = "not"
    IS_NAN = "is_nan"

    # Activations, one operand
    RELU = "relu"
    LEAKY_RELU = "leaky_relu"  # {alpha}
    CLIP = "clip"  # {min, max}: -inf and inf where open
    TANH = "tanh"
    SIGMOID = "sigmoid"
    HARD_SIGMOID = "hard_sigmoid"  # {alpha, beta}
    HARD_SWISH = "hard_swish"
    SILU = "silu"
    GELU = "gelu"  # {approximate: none | tanh}
    ELU = "elu"  # {alpha}
    SELU = "selu"  # {alpha, gamma}
    SOFTPLUS = "softplus"
    SOFTSIGN = "softsign"
    MISH = "mish"

    # Normalisation and softmax
    BATCH_NORM = "batch_norm"  # x, scale, bias, mean, variance {epsilon}
    LAYER_NORM = "layer_norm"  # x, scale[, bias] {axis, epsilon}: over axis..last
    INSTANCE_NORM = "instance_norm"  # x, scale, bias {epsilon}
    SOFTMAX = "softmax"  # {axis[, undefined: nan | zero]}: of a row that is -inf throughout
    LOG_SOFTMAX = "log_softmax"  # {axis}
    SOFTMAX_NUMERATOR = "softmax_numerator"  # {axis}: exp(x - max(x)), what softmax divides

    # Pooling
    MAX_POOL = "max_pool"  # {kernel, strides, pads, dilations}
    AVERAGE_POOL = "average_pool"  # {..., count_include_pad[, overhang: end pads that don't count]}

    # Reductions {axes, keepdims}
    REDUCE_SUM = "reduce_sum"
    REDUCE_MEAN = "reduce_mean"
    REDUCE_MAX = "reduce_max"
    REDUCE_MIN = "reduce_min"
    REDUCE_PROD = "reduce_prod"
    REDUCE_L1 = "reduce_l1"
    REDUCE_L2 = "reduce_l2"
    REDUCE_SUM_SQUARE = "reduce_sum_square"

    # Data movement
    CONCAT = "concat"  # {axis}
    SLICE = "slice"  # {starts, stops, steps}: one for each axis, normalised; steps may be negative
    # (and then stop at -1, before the first element)
    SPLIT = "split"  # {axis, sizes}: several outputs
    PAD = "pad"  # {pads, mode: constant | reflect | edge, value}
    RESIZE = "resize"  # {mode: nearest | linear | cubic, coordinates, nearest, scales, ...}: see
    # semantics/resize.py, also for the attributes that make one tile of the result
    TRANSPOSE = "transpose"  # {permutation}
    RESHAPE = "reshape"  # {shape}
    EXPAND = "expand"  # {shape}
    GATHER = "gather"  # table, indices {axis}; negative indices count from the end
    IDENTITY = "identity"
    RELAYOUT = "relayout"  # the same values in another layout

    # Number formats
    CAST = "cast"  # to the type of its result
    QUANTIZE = "quantize"  # x, scale[, zero_point] {axis}: -1 where per tensor
    DEQUANTIZE = "dequantize"  # x, scale[, zero_point] {axis}

    # Whatever this table doesn't know: the original ONNX node, run by the host
    # {node: NodeProto bytes, names: its operand names, results, opsets[, why it is no other kind]}
    HOST_CALL = "host_call"


CONTRACTIONS = frozenset({Kind.CONV, Kind.CONV_TRANSPOSE, Kind.MATMUL})
"""The kinds that multiply and accumulate: what a tensor core is for."""
