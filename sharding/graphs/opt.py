"""OPT decoders (Zhang et al. 2022), as Hugging Face's `OPTForCausalLM` runs them, eagerly."""

from __future__ import annotations

from dataclasses import dataclass

from tune_farm.sharding.graphs import norms, pointwise
from tune_farm.sharding.graphs.memory import contiguous, embedding, heads, reshape, transposed, view
from tune_farm.sharding.graphs.operator import Block, Graph, Wanted
from tune_farm.sharding.graphs.products import linear, matmul
from tune_farm.sharding.graphs.tape import Tape
from tune_farm.sharding.graphs.tensor import Tensor
from tune_farm.sharding.graphs.text import check_length, text_graph


@dataclass(frozen=True, slots=True, kw_only=True)
class OptConfig:
    """The sizes of one OPT."""

    layers: int
    hidden: int
    heads: int
    positions: int = 2048
    vocabulary: int = 50272


OPT_1_3B = OptConfig(layers=24, hidden=2048, heads=32)
#: Its table of positions begins with two rows that stand for none.
_OFFSET = 2


def opt(name: str, config: OptConfig, wanted: Wanted) -> Graph:
    """The whole model.

    Raises:
        UsageError: the sequence is longer than the model's.
    """
    check_length(name, wanted, config.positions)
    blocks = (_embeddings(config, wanted), _layer(config, wanted), _head(config, wanted))
    return text_graph(name, wanted, blocks, config.hidden)


def _embeddings(config: OptConfig, wanted: Wanted) -> Block:
    tape = Tape(training=wanted.training)
    tokens = (wanted.batch, wanted.sequence)
    square = (wanted.sequence, wanted.sequence)
    words = embedding(tape, "word embedding", tokens, config.vocabulary, config.hidden)
    # Filled; compared; filled where below the diagonal.
    pointwise.small(tape, "causal mask", square, [4, 1, 9])
    # 1 - mask; as truth values; filled there; as truth values; a copy, filled there.
    padding = [4, 5, 13, 5, 8, 9]
    pointwise.small(tape, "padding mask", (wanted.batch, *square), padding)
    pointwise.small(tape, "positions", tokens, [12, 16, 24, 16, 16])
    table = config.positions + _OFFSET
    places = embedding(tape, "position embedding", tokens, table, config.hidden)
    x = pointwise.add(tape, "embedding", words, places)
    return tape.block("embeddings", x)


def _layer(config: OptConfig, wanted: Wanted) -> Block:
    tape = Tape(training=wanted.training)
    x = tape.input(wanted.batch, wanted.sequence, config.hidden)
    normal = norms.layer_norm(tape, "attention.norm", x)
    attended = _attention(tape, normal, config)
    attended = pointwise.dropout(tape, "attention.output dropout", attended)
    x = pointwise.add(tape, "attention.residual", x, attended)
    normal = norms.layer_norm(tape, "mlp.norm", x)
    wide = linear(tape, "mlp.up", normal, 4 * config.hidden)
    wide = pointwise.activation(tape, "mlp.relu", wide, "relu")
    narrow = linear(tape, "mlp.down", wide, config.hidden)
    narrow = pointwise.dropout(tape, "mlp.dropout", narrow)
    x = pointwise.add(tape, "mlp.residual", x, narrow)
    return tape.block("layer", x, times=config.layers)


def _attention(tape: Tape, x: Tensor, config: OptConfig) -> Tensor:
    """Heads are copied one after the other, so that the products are of three axes."""
    batch, tokens, hidden = x.shape
    count = config.heads
    size = hidden // count

    def stacked(name: str, y: Tensor) -> Tensor:
        copied = contiguous(tape, f"attention.{name} heads", heads(y, count))
        return view(copied, batch * count, tokens, size)

    query = linear(tape, "attention.query", x, hidden)
    query = pointwise.scaled(tape, "attention.scaled query", query)
    key = stacked("key", linear(tape, "attention.key", x, hidden))
    value = stacked("value", linear(tape, "attention.value", x, hidden))
    scores = matmul(tape, "attention.scores", stacked("query", query), transposed(key))
    scores = view(scores, batch, count, tokens, tokens)
    mask = tape.input(batch, 1, tokens, tokens, needs_gradient=False)
    scores = pointwise.add(tape, "attention.mask", scores, mask)
    # The lowest number is a tensor that comes from the host, which waits for it to arrive.
    tape.record("attention.lowest", (1,), forward=(), waits=1)
    scores = pointwise.maximum(tape, "attention.bounded scores", scores)
    weights = norms.softmax(tape, "attention.softmax", scores)
    weights = pointwise.dropout(tape, "attention.dropout", weights)
    weights = view(weights, batch * count, tokens, tokens)
    context = view(matmul(tape, "attention.context", weights, value), batch, count, tokens, size)
    merged = reshape(
        tape, "attention.merged heads", context.permuted(0, 2, 1, 3), batch, tokens, hidden
    )
    return linear(tape, "attention.output", merged, hidden)


def _head(config: OptConfig, wanted: Wanted) -> Block:
    tape = Tape(training=wanted.training)
    x = tape.input(wanted.batch, wanted.sequence, config.hidden)
    x = norms.layer_norm(tape, "final norm", x)
    logits = linear(tape, "head", x, config.vocabulary, has_bias=False, tied=True)
    return tape.block("head", logits)
