"""To ONNX: a recipe as a standard model, and a `host_call` as a model of one node."""

from stages.recipe.onnx_export.host_node import host_call_model
from stages.recipe.onnx_export.model import export_recipe
from stages.recipe.onnx_export.table import operator_to_nodes

__all__ = ["export_recipe", "host_call_model", "operator_to_nodes"]
