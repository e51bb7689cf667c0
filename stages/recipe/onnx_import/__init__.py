"""From ONNX: a model becomes a graph of typed operators, and the data of its constants."""

from stages.recipe.onnx_import.model import import_model

__all__ = ["import_model"]
