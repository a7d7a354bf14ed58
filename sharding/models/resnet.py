"""ResNets (He et al. 2015; the stride sits on the 3x3 convolution, as in torchvision)."""

from __future__ import annotations

import math

from tune_farm.sharding.models.graph_writer import GraphWriter
from tune_farm.sharding.models.sizes import ResNetConfig

#: Second-moment gain of a convolution that a ReLU follows (He), of a shortcut, and of the last one
#: in a block: small, so that sixteen additions in a row leave activations of order one.
_GAIN_RELU, _GAIN_SHORTCUT, _GAIN_LAST = 2.0, 1.0, 0.1


def _convolution(
    writer: GraphWriter,
    value: str,
    name: str,
    *,
    channels: tuple[int, int],
    kernel: int,
    stride: int,
    gain: float,
) -> str:
    """A convolution whose batch norm was folded into its kernel and an added constant."""
    channels_in, channels_out = channels
    std = math.sqrt(gain / (channels_in * kernel * kernel))
    kernel_shape = (channels_out, channels_in, kernel, kernel)
    weight = writer.weight(f"{name}_weight", kernel_shape, std=std)
    bias = writer.weight(f"{name}_bias", (1, channels_out, 1, 1), std=0.02)
    writer.parameter_count += channels_out  # the norm had a scale beside its shift
    padding = kernel // 2
    convolved = writer.node(
        "Conv",
        value,
        weight,
        name=name,
        kernel_shape=[kernel, kernel],
        strides=[stride, stride],
        pads=[padding] * 4,
    )
    return writer.node("Add", convolved, bias, name=f"{name}_biased")


def _block(
    writer: GraphWriter, config: ResNetConfig, value: str, name: str, *, sizes: tuple[int, int, int]
) -> str:
    """One residual block; `sizes` are channels in, width, stride."""
    channels_in, width, stride = sizes
    channels_out = width * config.expansion
    steps = config.steps(sizes)
    branch = value
    for index, (channels, kernel, step_stride) in enumerate(steps, start=1):
        is_last = index == len(steps)
        conv = f"{name}_conv{index}"
        branch = _convolution(
            writer,
            branch,
            conv,
            channels=channels,
            kernel=kernel,
            stride=step_stride,
            gain=_GAIN_LAST if is_last else _GAIN_RELU,
        )
        if not is_last:
            branch = writer.node("Relu", branch, name=f"{conv}_relu")
    shortcut = value
    if stride != 1 or channels_in != channels_out:
        shortcut = _convolution(
            writer,
            value,
            f"{name}_shortcut",
            channels=(channels_in, channels_out),
            kernel=1,
            stride=stride,
            gain=_GAIN_SHORTCUT,
        )
    added = writer.node("Add", branch, shortcut, name=f"{name}_added")
    return writer.node("Relu", added, name=f"{name}_relu")


def write_resnet(writer: GraphWriter, config: ResNetConfig, *, batch: int) -> None:
    """Write the whole network into an empty writer."""
    size = config.image_size
    value = writer.input("input", (batch, 3, size, size))
    value = _convolution(
        writer, value, "stem", channels=(3, config.width), kernel=7, stride=2, gain=_GAIN_RELU
    )
    value = writer.node("Relu", value, name="stem_relu")
    value = writer.node(
        "MaxPool", value, name="stem_pool", kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4
    )
    channels = config.width
    for stage, depth in enumerate(config.depths):
        width = config.width << stage
        for index in range(depth):
            stride = 2 if stage and not index else 1
            name = f"layer{stage + 1}_{index}"
            value = _block(writer, config, value, name, sizes=(channels, width, stride))
            channels = width * config.expansion
    value = writer.node("GlobalAveragePool", value, name="pool")
    value = writer.node("Flatten", value, name="features", axis=1)
    std = 1.0 / math.sqrt(channels)
    weight = writer.weight("classifier_weight", (channels, config.classes), std=std)
    bias = writer.weight("classifier_bias", (config.classes,), std=0.02)
    value = writer.node("MatMul", value, weight, name="classifier")
    value = writer.node("Add", value, bias, name="logits")
    writer.output(value, (batch, config.classes))
