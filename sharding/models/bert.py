"""BERT encoders with a pooler (Devlin et al. 2018)."""

from __future__ import annotations

import math

import numpy as np
from onnx import TensorProto

from tune_farm.sharding.models.graph_writer import GraphWriter
from tune_farm.sharding.models.sizes import BertConfig

_WEIGHT_STD = 0.02  # as BERT itself is initialized
_NORM_EPSILON = 1e-12
_MASKED = -10_000.0  # added to the score of a masked position; exp of it is zero in float32


class _BertWriter:
    """The graph of one BERT at one batch and sequence."""

    def __init__(
        self, writer: GraphWriter, config: BertConfig, *, batch: int, sequence: int
    ) -> None:
        assert sequence <= config.positions, (sequence, config.positions)
        self._writer = writer
        self._config = config
        self._batch = batch
        self._sequence = sequence

    def _linear(self, value: str, name: str, size_in: int, size_out: int) -> str:
        weight = self._writer.weight(f"{name}_weight", (size_in, size_out), std=_WEIGHT_STD)
        bias = self._writer.weight(f"{name}_bias", (size_out,), std=_WEIGHT_STD)
        product = self._writer.node("MatMul", value, weight, name=f"{name}_product")
        return self._writer.node("Add", product, bias, name=name)

    def _norm(self, value: str, name: str) -> str:
        size = (self._config.hidden,)
        scale = self._writer.weight(f"{name}_scale", size, std=_WEIGHT_STD, mean=1.0)
        shift = self._writer.weight(f"{name}_shift", size, std=_WEIGHT_STD)
        return self._writer.node(
            "LayerNormalization", value, scale, shift, name=name, axis=-1, epsilon=_NORM_EPSILON
        )

    def _gelu(self, value: str, name: str) -> str:
        node = self._writer.node
        scaled = node("Div", value, "sqrt_two", name=f"{name}_scaled")
        erf = node("Erf", scaled, name=f"{name}_erf")
        shifted = node("Add", erf, "one", name=f"{name}_shifted")
        product = node("Mul", value, shifted, name=f"{name}_product")
        return node("Mul", product, "half", name=name)

    def constants(self) -> None:
        """Declare the scalars and shapes that all layers share."""
        config, writer = self._config, self._writer
        head_size = config.hidden // config.heads
        writer.scalar("sqrt_two", math.sqrt(2.0))
        writer.scalar("half", 0.5)
        writer.scalar("one", 1.0)
        writer.scalar("masked", _MASKED)
        writer.scalar("sqrt_head_size", math.sqrt(head_size))
        split = [self._batch, self._sequence, config.heads, head_size]
        writer.constant("split_shape", np.array(split, dtype=np.int64))
        merged = [self._batch, self._sequence, config.hidden]
        writer.constant("merged_shape", np.array(merged, dtype=np.int64))
        writer.constant("mask_axes", np.array([1, 2], dtype=np.int64))

    def embeddings(self) -> str:
        """Word, position and token-type embeddings, normalized."""
        config, writer = self._config, self._writer
        tokens = (self._batch, self._sequence)
        ids = writer.input("input_ids", tokens, TensorProto.INT64)
        writer.input("attention_mask", tokens, TensorProto.INT64)
        types = writer.input("token_type_ids", tokens, TensorProto.INT64)
        words = writer.weight("words", (config.vocabulary, config.hidden), std=_WEIGHT_STD)
        # A static sequence reads the same rows each time, so only they are in the graph: as a
        # folding exporter would leave it, and with the same operators with and without weights.
        position_shape = (1, self._sequence, config.hidden)
        positions = writer.weight("positions", position_shape, std=_WEIGHT_STD)
        writer.parameter_count += (config.positions - self._sequence) * config.hidden
        kinds = writer.weight("token_types", (config.token_types, config.hidden), std=_WEIGHT_STD)
        word = writer.node("Gather", words, ids, name="word_embedding", axis=0)
        kind = writer.node("Gather", kinds, types, name="type_embedding", axis=0)
        total = writer.node("Add", word, kind, name="word_and_type")
        total = writer.node("Add", total, positions, name="embedding_sum")
        return self._norm(total, "embedding")

    def mask(self) -> str:
        """The value to add to attention scores: 0, or very negative where masked."""
        node = self._writer.node
        mask = node("Unsqueeze", "attention_mask", "mask_axes", name="mask_4d")
        mask = node("Cast", mask, name="mask_float", to=TensorProto.FLOAT)
        mask = node("Sub", "one", mask, name="mask_inverted")
        return node("Mul", mask, "masked", name="mask_added")

    def _heads(self, value: str, name: str, permutation: list[int]) -> str:
        hidden = self._config.hidden
        linear = self._linear(value, name, hidden, hidden)
        split = self._writer.node("Reshape", linear, "split_shape", name=f"{name}_split")
        return self._writer.node("Transpose", split, name=f"{name}_heads", perm=permutation)

    def _attention(self, value: str, mask: str, name: str) -> str:
        node, hidden = self._writer.node, self._config.hidden
        query = self._heads(value, f"{name}_query", [0, 2, 1, 3])
        key = self._heads(value, f"{name}_key", [0, 2, 3, 1])
        content = self._heads(value, f"{name}_value", [0, 2, 1, 3])
        scores = node("MatMul", query, key, name=f"{name}_scores")
        scores = node("Div", scores, "sqrt_head_size", name=f"{name}_scaled_scores")
        scores = node("Add", scores, mask, name=f"{name}_masked_scores")
        weights = node("Softmax", scores, name=f"{name}_weights", axis=-1)
        context = node("MatMul", weights, content, name=f"{name}_context")
        context = node("Transpose", context, name=f"{name}_back", perm=[0, 2, 1, 3])
        context = node("Reshape", context, "merged_shape", name=f"{name}_merged")
        return self._linear(context, f"{name}_output", hidden, hidden)

    def layer(self, value: str, mask: str, name: str) -> str:
        """One encoder layer."""
        hidden, intermediate = self._config.hidden, self._config.intermediate
        attended = self._attention(value, mask, f"{name}_attention")
        summed = self._writer.node("Add", attended, value, name=f"{name}_attention_sum")
        value = self._norm(summed, f"{name}_attention_norm")
        wide = self._linear(value, f"{name}_up", hidden, intermediate)
        wide = self._gelu(wide, f"{name}_gelu")
        narrow = self._linear(wide, f"{name}_down", intermediate, hidden)
        summed = self._writer.node("Add", narrow, value, name=f"{name}_sum")
        return self._norm(summed, f"{name}_norm")

    def pooler(self, value: str) -> str:
        """The first token, through a dense layer and tanh."""
        self._writer.constant("first_token", np.array(0, dtype=np.int64))
        first = self._writer.node("Gather", value, "first_token", name="first", axis=1)
        dense = self._linear(first, "pooler_dense", self._config.hidden, self._config.hidden)
        return self._writer.node("Tanh", dense, name="pooled")


def write_bert(writer: GraphWriter, config: BertConfig, *, batch: int, sequence: int) -> None:
    """Write the whole network into an empty writer."""
    parts = _BertWriter(writer, config, batch=batch, sequence=sequence)
    parts.constants()
    value = parts.embeddings()
    mask = parts.mask()
    for index in range(config.layers):
        value = parts.layer(value, mask, f"layer{index}")
    pooled = parts.pooler(value)
    writer.output(value, (batch, sequence, config.hidden))
    writer.output(pooled, (batch, config.hidden))
