"""To ONNX: a recipe as a standard model, and a `host_call` as a model of one node."""

from stages.recipe.onnx_export.host_node import host_call_model

__all__ = ["host_call_model"]
