"""ResNets, with the sizes of the built-in ones: norms folded for inference, apart in training."""

from __future__ import annotations

from tune_farm.sharding.graphs import images, norms, pointwise
from tune_farm.sharding.graphs.memory import view
from tune_farm.sharding.graphs.operator import Graph, Wanted
from tune_farm.sharding.graphs.products import linear
from tune_farm.sharding.graphs.tape import Tape
from tune_farm.sharding.graphs.tensor import Tensor
from tune_farm.sharding.models.sizes import ResNetConfig

RESNET34 = ResNetConfig(depths=(3, 4, 6, 3), bottleneck=False)


def resnet(name: str, config: ResNetConfig, wanted: Wanted) -> Graph:
    """The whole network as one block: no two of its layers are alike for long."""
    tape = Tape(training=wanted.training)
    size = config.image_size
    x = tape.input(wanted.batch, 3, size, size, needs_gradient=False)
    x = _convolution(tape, "stem", x, (3, config.width), 7, 2)
    x = pointwise.activation(tape, "stem.relu", x, "relu")
    x = images.pool(tape, "stem.pool", x, _halved(x))
    channels = config.width
    for stage, depth in enumerate(config.depths):
        width = config.width << stage
        for index in range(depth):
            stride = 2 if stage and not index else 1
            x = _block(tape, f"layer{stage + 1}.{index}", config, x, (channels, width, stride))
            channels = width * config.expansion
    x = images.pool_all(tape, "pool", x, (wanted.batch, channels, 1, 1))
    x = linear(tape, "classifier", view(x, wanted.batch, channels), config.classes)
    return Graph(
        name=name,
        blocks=(tape.block("network", x),),
        batch=wanted.batch,
        sequence=None,
        training=wanted.training,
    )


def _block(
    tape: Tape, name: str, config: ResNetConfig, x: Tensor, sizes: tuple[int, int, int]
) -> Tensor:
    channels_in, width, stride = sizes
    channels_out = width * config.expansion
    steps = config.steps(sizes)
    branch = x
    for index, (channels, kernel, step) in enumerate(steps, start=1):
        branch = _convolution(tape, f"{name}.conv{index}", branch, channels, kernel, step)
        if index < len(steps):
            branch = pointwise.activation(tape, f"{name}.relu{index}", branch, "relu")
    shortcut = x
    if stride != 1 or channels_in != channels_out:
        pair = (channels_in, channels_out)
        shortcut = _convolution(tape, f"{name}.shortcut", x, pair, 1, stride)
    total = pointwise.add(tape, f"{name}.residual", branch, shortcut)
    return pointwise.activation(tape, f"{name}.relu", total, "relu")


def _convolution(
    tape: Tape, name: str, x: Tensor, channels: tuple[int, int], kernel: int, stride: int
) -> Tensor:
    """A convolution and its norm, which inference folds into weight and bias."""
    batch, _, height, width = x.shape
    into, out = channels
    shape = (batch, out, -(-height // stride), -(-width // stride))
    weight = (out, into, kernel, kernel)
    x = images.convolution(tape, name, x, weight, shape, has_bias=not tape.training)
    return norms.batch_norm(tape, f"{name}.norm", x)


def _halved(x: Tensor) -> tuple[int, ...]:
    batch, channels, height, width = x.shape
    return batch, channels, -(-height // 2), -(-width // 2)
