"""Networks defined in torch, with seeded weights and measured batch statistics.

Each function returns the module in training-free state and its example inputs by name, which is
what the registry exports. Needs the optional extra `torch`.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

Exportable = tuple[nn.Module, dict[str, Tensor]]

_MEASURING_ROUNDS = 3
_MEASURING_BATCH = 4


def resnet8() -> Exportable:
    """ResNet of three basic blocks, 16 to 64 channels; f32[1,3,64,64] -> f32[1,10]."""
    return _seeded("resnet8", lambda: _ResNet(_BasicBlock, [1, 1, 1], 16, 10), (1, 3, 64, 64))


def resnet18w16() -> Exportable:
    """ResNet-18 with a quarter of its width; f32[1,3,224,224] -> f32[1,100]."""
    return _seeded(
        "resnet18w16", lambda: _ResNet(_BasicBlock, [2, 2, 2, 2], 16, 100), (1, 3, 224, 224)
    )


def resnet50() -> Exportable:
    """ResNet-50; f32[1,3,224,224] -> f32[1,1000]."""
    return _seeded(
        "resnet50", lambda: _ResNet(_Bottleneck, [3, 4, 6, 3], 64, 1000), (1, 3, 224, 224)
    )


def mobilenetv2() -> Exportable:
    """MobileNetV2; f32[1,3,224,224] -> f32[1,1000]."""
    return _seeded("mobilenetv2", lambda: _MobileNetV2(1.0, 1000), (1, 3, 224, 224))


def mobilenetv2w35() -> Exportable:
    """MobileNetV2 with 0.35 of its width; f32[1,3,224,224] -> f32[1,100]."""
    return _seeded("mobilenetv2w35", lambda: _MobileNetV2(0.35, 100), (1, 3, 224, 224))


def unet_tiny() -> Exportable:
    """U-Net of three levels, one transposed convolution, one resize; f32[1,3,96,96]."""
    return _seeded("unet_tiny", lambda: _UNet(8), (1, 3, 96, 96))


def mlp() -> Exportable:
    """Three matrix products with ReLU, GELU, LayerNorm and softmax; f32[4,784] -> f32[4,10]."""
    return _seeded(
        "mlp",
        lambda: nn.Sequential(
            nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 128), nn.GELU(), nn.LayerNorm(128),
            nn.Linear(128, 10), nn.Softmax(-1),
        ),
        (4, 784),
    )  # fmt: skip


def lstm_gru() -> Exportable:
    """Two bidirectional LSTM layers, a GRU, and a product of its last step; f32[1,50,40]."""
    return _seeded("lstm_gru", _Recurrent, (1, 50, 40))


def _seeded(name: str, build: Callable[[], nn.Module], shape: Sequence[int]) -> Exportable:
    torch.manual_seed(zlib.crc32(name.encode()) & 0x7FFFFFFF)
    module = build()
    for part in module.modules():
        if isinstance(part, nn.Conv2d):
            nn.init.kaiming_normal_(part.weight, mode="fan_in", nonlinearity="relu")
        if isinstance(part, nn.BatchNorm2d):
            nn.init.uniform_(part.weight, 0.7, 1.3)
            nn.init.normal_(part.bias, 0.0, 0.1)
    _measure_statistics(module, shape)
    return module.eval(), {"x": torch.randn(*shape)}


def _measure_statistics(module: nn.Module, shape: Sequence[int]) -> None:
    """Running statistics as seeded data give them: with 0 and 1 the signal dies in deep nets."""
    norms = [part for part in module.modules() if isinstance(part, nn.BatchNorm2d)]
    if not norms:
        return
    for norm in norms:
        norm.momentum = None  # torch: a plain average over all batches seen
    module.train()
    with torch.no_grad():
        for _ in range(_MEASURING_ROUNDS):
            module(torch.randn(_MEASURING_BATCH, *shape[1:]))


def _convolve(
    inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1
) -> nn.Module:
    """Convolution without bias, padded to keep the size at stride 1, and batch normalisation."""
    convolution = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(outputs))


class _BasicBlock(nn.Module):
    expansion = 1

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.first = _convolve(inputs, width, 3, stride)
        self.second = _convolve(width, width, 3)
        self.shortcut = (
            nn.Identity()
            if inputs == width and stride == 1
            else _convolve(inputs, width, 1, stride)
        )

    def forward(self, x: Tensor) -> Tensor:
        return functional.relu(self.second(functional.relu(self.first(x))) + self.shortcut(x))


class _Bottleneck(nn.Module):
    expansion = 4

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = width * self.expansion
        self.body = nn.Sequential(
            _convolve(inputs, width, 1), nn.ReLU(), _convolve(width, width, 3, stride), nn.ReLU(),
            _convolve(width, outputs, 1),
        )  # fmt: skip
        same = inputs == outputs and stride == 1
        self.shortcut = nn.Identity() if same else _convolve(inputs, outputs, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        return functional.relu(self.body(x) + self.shortcut(x))


class _ResNet(nn.Module):
    def __init__(
        self,
        block: type[_BasicBlock | _Bottleneck],
        depths: Sequence[int],
        width: int,
        classes: int,
    ) -> None:
        super().__init__()
        self.stem = nn.Sequential(_convolve(3, width, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
        blocks: list[nn.Module] = []
        channels = width
        for level, depth in enumerate(depths):
            for index in range(depth):
                stride = 2 if level and index == 0 else 1
                blocks.append(block(channels, width << level, stride))
                channels = (width << level) * block.expansion
        self.body = nn.Sequential(*blocks)
        self.head = nn.Linear(channels, classes)

    def forward(self, x: Tensor) -> Tensor:
        pooled = functional.adaptive_avg_pool2d(self.body(self.stem(x)), 1)
        return self.head(torch.flatten(pooled, 1))


class _InvertedResidual(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int, expansion: int) -> None:
        super().__init__()
        inner = inputs * expansion
        widen = [] if expansion == 1 else [_convolve(inputs, inner, 1), nn.ReLU6()]
        self.body = nn.Sequential(
            *widen,
            _convolve(inner, inner, 3, stride, inner),
            nn.ReLU6(),
            _convolve(inner, outputs, 1),
        )
        self.is_residual = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        return x + self.body(x) if self.is_residual else self.body(x)


class _MobileNetV2(nn.Module):
    # expansion, channels, blocks, first stride (Sandler et al. 2018, table 2)
    levels = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1),
              (6, 160, 3, 2), (6, 320, 1, 1))  # fmt: skip

    def __init__(self, multiplier: float, classes: int) -> None:
        super().__init__()
        channels = _to_eights(32 * multiplier)
        blocks: list[nn.Module] = [_convolve(3, channels, 3, 2), nn.ReLU6()]
        for expansion, width, depth, stride in self.levels:
            outputs = _to_eights(width * multiplier)
            for index in range(depth):
                blocks.append(
                    _InvertedResidual(channels, outputs, stride if index == 0 else 1, expansion)
                )
                channels = outputs
        last = int(1280 * min(1.0, multiplier))
        blocks += [_convolve(channels, last, 1), nn.ReLU6()]
        self.body = nn.Sequential(*blocks)
        self.head = nn.Linear(last, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(x).mean([2, 3]))


class _UNet(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.down1 = nn.Sequential(_convolve(3, width, 3), nn.ReLU())
        self.down2 = nn.Sequential(_convolve(width, 2 * width, 3), nn.ReLU())
        self.down3 = nn.Sequential(_convolve(2 * width, 4 * width, 3), nn.ReLU())
        self.raise2 = nn.ConvTranspose2d(4 * width, 2 * width, 2, 2)
        self.up2 = nn.Sequential(_convolve(4 * width, 2 * width, 3), nn.ReLU())
        self.up1 = nn.Sequential(_convolve(3 * width, width, 3), nn.ReLU())
        self.head = nn.Conv2d(width, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        fine = self.down1(x)
        middle = self.down2(functional.max_pool2d(fine, 2))
        coarse = self.down3(functional.max_pool2d(middle, 2))
        joined = self.up2(torch.cat([self.raise2(coarse), middle], 1))
        larger = functional.interpolate(
            joined, scale_factor=2.0, mode="bilinear", align_corners=False
        )
        return torch.sigmoid(self.head(self.up1(torch.cat([larger, fine], 1))))


class _Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(40, 64, 2, batch_first=True, bidirectional=True)
        self.gru = nn.GRU(128, 32, batch_first=True)
        self.head = nn.Linear(32, 12)

    def forward(self, x: Tensor) -> Tensor:
        states, _ = self.lstm(x)
        states, _ = self.gru(states)
        return self.head(states[:, -1])


def _to_eights(channels: float) -> int:
    return max(8, int(channels + 4) // 8 * 8)
