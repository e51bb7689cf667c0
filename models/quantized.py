"""Networks of `torch_vision` and `torch_transformers`, quantised to int8 by ONNX Runtime."""

from __future__ import annotations

import tempfile
from pathlib import Path

import onnx

from models.synthetic import QuantizedForm, quantize
from stages.normalizer.factories import build_model


def qdq_resnet8() -> onnx.ModelProto:
    """`resnet8` with QuantizeLinear/DequantizeLinear pairs, weights per channel."""
    return quantize(_exported("models.torch_vision:resnet8"), QuantizedForm.PAIRS)


def qdq_resnet18w16() -> onnx.ModelProto:
    """`resnet18w16` with QuantizeLinear/DequantizeLinear pairs, weights per channel."""
    return quantize(_exported("models.torch_vision:resnet18w16"), QuantizedForm.PAIRS)


def qdq_mobilenetv2w35() -> onnx.ModelProto:
    """`mobilenetv2w35` with QuantizeLinear/DequantizeLinear pairs, weights per channel."""
    return quantize(_exported("models.torch_vision:mobilenetv2w35"), QuantizedForm.PAIRS)


def qop_mobilenetv2w35() -> onnx.ModelProto:
    """`mobilenetv2w35` with QLinear operators, u8 activations."""
    return quantize(_exported("models.torch_vision:mobilenetv2w35"), QuantizedForm.OPERATORS)


def qdq_resnet50() -> onnx.ModelProto:
    """`resnet50` with QuantizeLinear/DequantizeLinear pairs, weights per channel."""
    return quantize(_exported("models.torch_vision:resnet50"), QuantizedForm.PAIRS)


def qdq_bert_tiny() -> onnx.ModelProto:
    """`bert_tiny` with QuantizeLinear/DequantizeLinear pairs, weights per tensor."""
    return quantize(
        _exported("models.torch_transformers:bert_tiny"), QuantizedForm.PAIRS_PER_TENSOR
    )


def dynamic_bert_tiny() -> onnx.ModelProto:
    """`bert_tiny` whose activations are quantised while it runs (DynamicQuantizeLinear)."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        onnx.save(_exported("models.torch_transformers:bert_tiny"), folder / "float.onnx")
        quantize_dynamic(
            folder / "float.onnx", folder / "quantized.onnx", weight_type=QuantType.QInt8
        )
        return onnx.load(folder / "quantized.onnx")


def _exported(reference: str) -> onnx.ModelProto:
    with tempfile.TemporaryDirectory() as name:
        target = Path(name) / "exported.onnx"
        build_model(reference, (), target)
        return onnx.load(target)
