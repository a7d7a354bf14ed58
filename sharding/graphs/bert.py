"""BERT encoders (Devlin et al. 2018), as Hugging Face's `BertForSequenceClassification`."""

from __future__ import annotations

from tune_farm.sharding.graphs import norms, pointwise
from tune_farm.sharding.graphs.memory import contiguous, embedding, first, heads, transposed, view
from tune_farm.sharding.graphs.operator import Block, Graph, Wanted
from tune_farm.sharding.graphs.products import linear, matmul
from tune_farm.sharding.graphs.tape import Tape
from tune_farm.sharding.graphs.tensor import Tensor
from tune_farm.sharding.graphs.text import check_length, text_graph
from tune_farm.sharding.models.sizes import BertConfig

BERT_LARGE = BertConfig(layers=24, hidden=1024, heads=16, intermediate=4096)


def bert(name: str, config: BertConfig, wanted: Wanted, *, classes: int) -> Graph:
    """The whole model; classes: of the classifier, 0 for none.

    Raises:
        UsageError: the sequence is longer than the model's.
    """
    check_length(name, wanted, config.positions)
    blocks = (_embeddings(config, wanted), _layer(config, wanted), _pooler(config, wanted, classes))
    return text_graph(name, wanted, blocks, config.hidden)


def _embeddings(config: BertConfig, wanted: Wanted) -> Block:
    tape = Tape(training=wanted.training)
    tokens = (wanted.batch, wanted.sequence)
    # All ones; 1 - mask; times the lowest number.
    pointwise.small(tape, "mask", tokens, [4, 8, 8])
    words = embedding(tape, "word embedding", tokens, config.vocabulary, config.hidden)
    kinds = embedding(tape, "type embedding", tokens, config.token_types, config.hidden)
    x = pointwise.add(tape, "word and type", words, kinds)
    places = embedding(
        tape, "position embedding", (1, wanted.sequence), config.positions, config.hidden
    )
    x = pointwise.add(tape, "embedding", x, places)
    x = norms.layer_norm(tape, "embedding.norm", x)
    x = pointwise.dropout(tape, "embedding.dropout", x)
    return tape.block("embeddings", x)


def _layer(config: BertConfig, wanted: Wanted) -> Block:
    tape = Tape(training=wanted.training)
    x = tape.input(wanted.batch, wanted.sequence, config.hidden)
    attended = _attention(tape, x, config)
    attended = pointwise.dropout(tape, "attention.output dropout", attended)
    x = pointwise.add(tape, "attention.residual", attended, x)
    x = norms.layer_norm(tape, "attention.norm", x)
    wide = linear(tape, "mlp.up", x, config.intermediate)
    wide = pointwise.activation(tape, "mlp.gelu", wide, "gelu")
    narrow = linear(tape, "mlp.down", wide, config.hidden)
    narrow = pointwise.dropout(tape, "mlp.dropout", narrow)
    x = pointwise.add(tape, "mlp.residual", narrow, x)
    x = norms.layer_norm(tape, "mlp.norm", x)
    return tape.block("layer", x, times=config.layers)


def _attention(tape: Tape, x: Tensor, config: BertConfig) -> Tensor:
    batch, tokens, hidden = x.shape
    query, key, value = (
        heads(linear(tape, f"attention.{name}", x, hidden), config.heads)
        for name in ("query", "key", "value")
    )
    scores = matmul(tape, "attention.scores", query, transposed(key))
    scores = pointwise.scaled(tape, "attention.scaled scores", scores, operation="div")
    mask = tape.input(batch, 1, 1, tokens, needs_gradient=False)
    scores = pointwise.add(tape, "attention.mask", scores, mask)
    weights = norms.softmax(tape, "attention.softmax", scores)
    weights = pointwise.dropout(tape, "attention.dropout", weights)
    context = matmul(tape, "attention.context", weights, value).permuted(0, 2, 1, 3)
    context = contiguous(tape, "attention.merged heads", context)
    return linear(tape, "attention.output", view(context, batch, tokens, hidden), hidden)


def _pooler(config: BertConfig, wanted: Wanted, classes: int) -> Block:
    tape = Tape(training=wanted.training)
    x = tape.input(wanted.batch, wanted.sequence, config.hidden)
    x = first(tape, "first token", x)
    x = linear(tape, "pooler", x, config.hidden)
    x = pointwise.activation(tape, "pooler.tanh", x, "tanh")
    if classes:
        x = pointwise.dropout(tape, "classifier.dropout", x)
        x = linear(tape, "classifier", x, classes)
    return tape.block("pooler", x)
