"""Switch transformers (Fedus et al. 2021), as Hugging Face's classes of that name run eagerly.

An encoder and a decoder of T5's layers; of every two, the second has experts. The router's losses,
a few dozen kernels on four numbers for each token, are left out.
"""

from __future__ import annotations

from dataclasses import dataclass

from tune_farm.sharding.graphs import norms, pointwise
from tune_farm.sharding.graphs.memory import contiguous, embedding, heads, transposed, view
from tune_farm.sharding.graphs.operator import Block, Graph, Wanted
from tune_farm.sharding.graphs.products import linear, matmul
from tune_farm.sharding.graphs.routing import sparse_mlp
from tune_farm.sharding.graphs.tape import Tape
from tune_farm.sharding.graphs.tensor import Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchConfig:
    """The sizes of one switch transformer."""

    layers: int  # of the encoder, and of the decoder
    hidden: int
    heads: int
    head_size: int
    inner: int
    experts: int
    vocabulary: int = 32128
    buckets: int = 32

    def __post_init__(self) -> None:
        assert self.layers % 2 == 0, self


#: `switchxl4` of the measurements: T5-large with the inner size and heads of T5-3b, four experts.
SWITCH_XL_4 = SwitchConfig(layers=24, hidden=1024, heads=32, head_size=128, inner=16384, experts=4)

#: What the kernels for the buckets of relative positions move for an element: differences, signs,
#: comparisons, a logarithm and its factors, all on 64-bit integers or floats.
_ENCODER_BUCKETS = [12, 9, 9, 16, 16, 16, 9, 12, 8, 8, 8, 8, 12, 16, 8, 24, 25, 24]
_DECODER_BUCKETS = [12, 8, 24, 16, 9, 12, 8, 8, 8, 8, 12, 16, 8, 24, 25, 16]


def switch(name: str, config: SwitchConfig, wanted: Wanted) -> Graph:
    """The whole model; encoder and decoder read as many tokens."""
    pairs = config.layers // 2
    blocks = (
        _start(config, wanted, "encoder"),
        _pair(config, wanted, "encoder", pairs),
        _end(config, wanted, "encoder"),
        _start(config, wanted, "decoder"),
        _pair(config, wanted, "decoder", pairs),
        _end(config, wanted, "decoder"),
    )
    return Graph(
        name=name,
        blocks=blocks,
        batch=wanted.batch,
        sequence=wanted.sequence,
        training=wanted.training,
        boundary_bytes=4 * wanted.batch * wanted.sequence * config.hidden,
    )


def _start(config: SwitchConfig, wanted: Wanted, side: str) -> Block:
    """Words, and the bias of attention that all layers of a side add: positions and mask."""
    tape = Tape(training=wanted.training)
    batch, tokens = wanted.batch, wanted.sequence
    words = embedding(tape, "word embedding", (batch, tokens), config.vocabulary, config.hidden)
    is_encoder = side == "encoder"
    if is_encoder:
        pointwise.small(tape, "mask", (batch, tokens), [4, 8, 8])
        mask = tape.input(batch, 1, 1, tokens, needs_gradient=False)
    else:
        # Repeated positions, compared; as floats; times the other mask; 1 - mask; times the lowest.
        pointwise.small(tape, "mask", (batch, tokens, tokens), [8, 9, 5, 8, 8, 8])
        mask = tape.input(batch, 1, tokens, tokens, needs_gradient=False)
    words = pointwise.dropout(tape, "embedding.dropout", words)
    buckets = _ENCODER_BUCKETS if is_encoder else _DECODER_BUCKETS
    pointwise.small(tape, "position buckets", (tokens, tokens), buckets)
    bias = embedding(tape, "position bias", (tokens, tokens), config.buckets, config.heads)
    bias = view(bias.permuted(2, 0, 1), 1, config.heads, tokens, tokens)
    bias = pointwise.add(tape, "position bias and mask", bias, mask)
    return tape.block(f"{side} start", words, bias)


def _pair(config: SwitchConfig, wanted: Wanted, side: str, times: int) -> Block:
    """Two layers: one with a dense MLP, one with experts."""
    tape = Tape(training=wanted.training)
    batch, tokens = wanted.batch, wanted.sequence
    x = tape.input(batch, tokens, config.hidden)
    bias = tape.input(batch, config.heads, tokens, tokens, shared=True)
    crossed = tape.input(batch, config.heads, tokens, tokens, needs_gradient=False)
    encoded = tape.input(batch, tokens, config.hidden, shared=True)
    for kind in ("dense", "sparse"):
        x = _attention(tape, f"{kind}.attention", x, None, bias, config)
        if side == "decoder":
            x = _attention(tape, f"{kind}.cross attention", x, encoded, crossed, config)
        x = _mlp(tape, kind, x, config)
    return tape.block(f"{side} pair of layers", x, times=times)


def _mlp(tape: Tape, kind: str, x: Tensor, config: SwitchConfig) -> Tensor:
    normal = norms.rms_norm(tape, f"{kind}.mlp.norm", x)
    if kind == "sparse":
        y = sparse_mlp(tape, "sparse.mlp", normal, experts=config.experts, inner=config.inner)
    else:
        wide = linear(tape, "dense.mlp.up", normal, config.inner, has_bias=False)
        wide = pointwise.activation(tape, "dense.mlp.relu", wide, "relu")
        wide = pointwise.dropout(tape, "dense.mlp.dropout", wide)
        y = linear(tape, "dense.mlp.down", wide, config.hidden, has_bias=False)
    y = pointwise.dropout(tape, f"{kind}.mlp.output dropout", y)
    return pointwise.add(tape, f"{kind}.mlp.residual", x, y)


def _attention(
    tape: Tape, name: str, x: Tensor, other: Tensor | None, bias: Tensor, config: SwitchConfig
) -> Tensor:
    """Attention of x to itself or to another sequence, with norm and residual."""
    batch, tokens, hidden = x.shape
    inner = config.heads * config.head_size
    normal = norms.rms_norm(tape, f"{name}.norm", x)
    read = normal if other is None else other
    query, key, value = (
        heads(linear(tape, f"{name}.{part}", of, inner, has_bias=False), config.heads)
        for part, of in (("query", normal), ("key", read), ("value", read))
    )
    scores = matmul(tape, f"{name}.scores", query, transposed(key))
    scores = pointwise.add(tape, f"{name}.bias", scores, bias)
    weights = norms.softmax(tape, f"{name}.softmax", scores)
    weights = pointwise.dropout(tape, f"{name}.dropout", weights)
    context = matmul(tape, f"{name}.context", weights, value).permuted(0, 2, 1, 3)
    context = view(contiguous(tape, f"{name}.merged heads", context), batch, tokens, inner)
    y = linear(tape, f"{name}.output", context, hidden, has_bias=False)
    y = pointwise.dropout(tape, f"{name}.output dropout", y)
    return pointwise.add(tape, f"{name}.residual", x, y)


def _end(config: SwitchConfig, wanted: Wanted, side: str) -> Block:
    tape = Tape(training=wanted.training)
    x = tape.input(wanted.batch, wanted.sequence, config.hidden)
    x = norms.rms_norm(tape, "final norm", x)
    x = pointwise.dropout(tape, "final dropout", x)
    if side == "decoder":
        # The head's weight is that of the words, scaled for them.
        x = pointwise.scaled(tape, "scaled", x)
        x = linear(tape, "head", x, config.vocabulary, has_bias=False, tied=True)
    return tape.block(f"{side} end", x)
