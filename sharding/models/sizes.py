"""The sizes of the built-in models, which know nothing of how their graphs are written."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class BertConfig:
    """The sizes of one BERT."""

    layers: int = 12
    hidden: int = 768
    heads: int = 12
    intermediate: int = 3072
    vocabulary: int = 30522
    positions: int = 512
    token_types: int = 2

    def __post_init__(self) -> None:
        assert self.hidden % self.heads == 0, (self.hidden, self.heads)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResNetConfig:
    """The sizes of one ResNet."""

    depths: tuple[int, ...]  # blocks per stage
    bottleneck: bool
    width: int = 64  # channels of the stem and of the first stage
    image_size: int = 224
    classes: int = 1000

    @property
    def expansion(self) -> int:
        """Output channels of a block over its width."""
        return 4 if self.bottleneck else 1

    def steps(self, sizes: tuple[int, int, int]) -> list[tuple[tuple[int, int], int, int]]:
        """Channels, kernel and stride of each convolution in a block of these sizes.

        Args:
            sizes: channels in, width, stride.
        """
        channels_in, width, stride = sizes
        channels_out = width * self.expansion
        if self.bottleneck:
            return [
                ((channels_in, width), 1, 1),
                ((width, width), 3, stride),
                ((width, channels_out), 1, 1),
            ]
        return [((channels_in, width), 3, stride), ((width, channels_out), 3, 1)]


BERT_BASE = BertConfig()
RESNET18 = ResNetConfig(depths=(2, 2, 2, 2), bottleneck=False)
RESNET50 = ResNetConfig(depths=(3, 4, 6, 3), bottleneck=True)
