"""A U-Net with the encoder of EfficientNet-b5 for cubes, as used to segment surgical images."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torchvision.models import efficientnet_b5

# Stages of torchvision's EfficientNet after which the resolution halves, and their channels in b5.
STAGES, CHANNELS = (1, 2, 3, 5, 7), (24, 40, 64, 176, 512)
DECODER = (256, 128, 64, 32, 16)


def block(channels: int, out: int) -> nn.Module:
    layers: list[nn.Module] = []
    for before in (channels, out):
        layers += [nn.Conv2d(before, out, 3, padding=1, bias=False), nn.BatchNorm2d(out), nn.ReLU(inplace=True)]
    return nn.Sequential(*layers)


class UNet(nn.Module):
    """Takes cubes ``[n, channels, height, width]`` and returns scores ``[n, classes, height, width]``. The weights are
    random, so nothing is downloaded.
    """

    def __init__(self, channels: int, classes: int = 19) -> None:
        super().__init__()
        features = efficientnet_b5(weights=None).features
        features[0][0] = nn.Conv2d(channels, 48, 3, stride=2, padding=1, bias=False)
        self.encoder = nn.ModuleList(features[: STAGES[-1] + 1])
        # Each decoder block takes the output of the block below and the encoder's features at the same resolution.
        inputs = [CHANNELS[4] + CHANNELS[3], *(DECODER[n] + skip for n, skip in enumerate((64, 40, 24, 0)))]
        self.decoder = nn.ModuleList(block(*pair) for pair in zip(inputs, DECODER, strict=True))
        self.head = nn.Conv2d(DECODER[-1], classes, 3, padding=1)

    def forward(self, cubes: Tensor) -> Tensor:
        skips, x = [], cubes
        for number, stage in enumerate(self.encoder):
            x = stage(x)
            if number in STAGES[:-1]:
                skips.append(x)
        for layers, skip in zip(self.decoder, [*reversed(skips), None], strict=True):
            size = cubes.shape[2:] if skip is None else skip.shape[2:]
            x = nn.functional.interpolate(x, size=size)
            x = layers(x if skip is None else torch.cat([x, skip], 1))
        scores: Tensor = self.head(x)
        return scores
