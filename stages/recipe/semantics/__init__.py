"""What recipes mean: every operator kind in numpy, and whole graphs.

The semantics room is the only place that says what an operator computes: the simulated device, the
constant folder and the tests all call it.
"""

from stages.recipe.semantics.evaluation import evaluate, rounded
from stages.recipe.semantics.integer import Quantized, fits_integers, integer_contraction
from stages.recipe.semantics.interpreter import HostCall, interpret
from stages.recipe.semantics.resize import ResizeAxis, resize_axis, resize_span

__all__ = [
    "HostCall",
    "Quantized",
    "ResizeAxis",
    "evaluate",
    "fits_integers",
    "integer_contraction",
    "interpret",
    "resize_axis",
    "resize_span",
    "rounded",
]
