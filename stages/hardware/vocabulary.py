"""The words that a hardware spec may use: operator kinds, engines, limits.

The kinds are those of the recipe's operator table. Rooms on one floor don't import each other, so
they are spelled again here; a test holds the two lists equal.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


CONTRACTIONS = _words("conv conv_transpose matmul")
ELEMENTWISE = _words(
    "add sub mul div pow mod minimum maximum prelu equal less less_or_equal greater"
    " greater_or_equal and or xor where neg abs exp log sqrt reciprocal erf sin cos floor ceil"
    " round sign not is_nan relu leaky_relu clip tanh sigmoid hard_sigmoid hard_swish silu gelu"
    " elu selu softplus softsign mish"
)
NORMALISATIONS = _words("batch_norm layer_norm instance_norm softmax log_softmax softmax_numerator")
POOLS = _words("max_pool average_pool")
REDUCTIONS = _words(
    "reduce_sum reduce_mean reduce_max reduce_min reduce_prod reduce_l1 reduce_l2 reduce_sum_square"
)
MOVEMENTS = _words(
    "concat slice split pad resize transpose reshape expand gather identity relayout"
)
FORMATS = _words("cast quantize dequantize")

KINDS = CONTRACTIONS | ELEMENTWISE | NORMALISATIONS | POOLS | REDUCTIONS | MOVEMENTS | FORMATS
"""Every kind that a device may run; `host_call` is the host's alone."""

RUNS_ON = {
    "tensor_core": CONTRACTIONS,
    "vector": KINDS,
    "dma": MOVEMENTS - {"resize"},
}
"""What each engine class can be said to run."""

LAUNCHED = (*RUNS_ON, "host")
"""What the driver can be said to launch a group on."""

OUTPUT_STAGE = ELEMENTWISE | FORMATS | {"batch_norm"}
"""What can act on each result alone as it drains from the tensor core."""

VIEWED = frozenset({"concat"})
"""What a vendor's compiler can be said to make without a copy."""

SPATIAL = POOLS | {"conv", "conv_transpose"}
LIMITS = {
    "rank": KINDS,
    "extent": KINDS,
    "spatial": SPATIAL,
    "kernel": SPATIAL,
    "stride": SPATIAL,
    "dilation": SPATIAL - {"average_pool"},
    "group": frozenset({"conv", "conv_transpose"}),
    "taps": frozenset({"resize"}),
}
"""The facts of an operator that a limit can bound, and the kinds that have them."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A hint that names the nearest known word, or else all of them."""
    words = sorted(known)
    near = nearest(word, words)
    return f"did you mean `{near}`?" if near else f"known: {', '.join(words)}"


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that is spelled most like this one, if any is."""
    near = get_close_matches(word, sorted(known), n=1, cutoff=0.6)
    return near[0] if near else None
