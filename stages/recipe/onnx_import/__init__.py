"""From ONNX: a model becomes a graph of typed operators, and the data of its constants."""

from stages.recipe.onnx_import.elements import Elements, parse_model
from stages.recipe.onnx_import.model import import_model

__all__ = ["Elements", "import_model", "parse_model"]
