"""GPT-2 and the GPT-3 models that share its code (Radford et al. 2019, Brown et al. 2020).

As Hugging Face's `GPT2LMHeadModel` runs them, eagerly. With `ways` above 1, each layer is divided
among GPUs as Megatron-LM does it (Shoeybi et al. 2019): heads, the MLP's inner size and vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass

from tune_farm.sharding.graphs import norms, pointwise
from tune_farm.sharding.graphs.memory import contiguous, embedding, heads, transposed, view
from tune_farm.sharding.graphs.operator import Block, Graph, Wanted
from tune_farm.sharding.graphs.products import linear, matmul
from tune_farm.sharding.graphs.tape import Tape
from tune_farm.sharding.graphs.tensor import Tensor
from tune_farm.sharding.graphs.text import check_length, text_graph
from tune_farm.tuner.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpt2Config:
    """The sizes of one GPT."""

    layers: int
    hidden: int
    heads: int
    positions: int
    vocabulary: int = 50257

    def __post_init__(self) -> None:
        assert self.hidden % self.heads == 0, self


GPT2_LARGE = Gpt2Config(layers=36, hidden=1280, heads=20, positions=1024)
#: Of GPT-3's paper (table 2.1): 24 heads of 128, which its width of 2048 there contradicts.
GPT3_XL = Gpt2Config(layers=24, hidden=3072, heads=24, positions=2048)
GPT3_2_7B = Gpt2Config(layers=32, hidden=2560, heads=32, positions=2048)


def gpt2(name: str, config: Gpt2Config, wanted: Wanted) -> Graph:
    """The whole model.

    Raises:
        UsageError: the sequence is longer than the model's, or heads don't divide among the GPUs.
    """
    check_length(name, wanted, config.positions)
    if config.heads % wanted.ways:
        cause = f"{name}: {config.heads} heads don't divide among {wanted.ways} GPUs"
        raise UsageError(cause, "give a number of GPUs that divides them")
    blocks = (_embeddings(config, wanted), _layer(config, wanted), _head(config, wanted))
    return text_graph(name, wanted, blocks, config.hidden)


def _embeddings(config: Gpt2Config, wanted: Wanted) -> Block:
    tape = Tape(training=wanted.training)
    vocabulary = config.vocabulary // wanted.ways
    pointwise.small(tape, "positions", (1, wanted.sequence), [8])
    tokens = (wanted.batch, wanted.sequence)
    words = embedding(tape, "word embedding", tokens, vocabulary, config.hidden)
    if wanted.ways > 1:
        words = tape.reduced("words of all GPUs", words, forward=True)
    places = embedding(
        tape, "position embedding", (1, wanted.sequence), config.positions, config.hidden
    )
    x = pointwise.add(tape, "embedding", words, places)
    x = pointwise.dropout(tape, "embedding.dropout", x)
    return tape.block("embeddings", x)


def _layer(config: Gpt2Config, wanted: Wanted) -> Block:
    tape = Tape(training=wanted.training)
    divided = wanted.ways > 1
    x = tape.input(wanted.batch, wanted.sequence, config.hidden)
    normal = norms.layer_norm(tape, "attention.norm", x)
    if divided:
        normal = tape.reduced("attention's gradient of all GPUs", normal, forward=False)
    attended = _attention(tape, normal, config, wanted.ways)
    if divided:
        attended = tape.reduced("attention of all GPUs", attended, forward=True)
    attended = pointwise.dropout(tape, "attention.output dropout", attended)
    x = pointwise.add(tape, "attention.residual", attended, x)
    normal = norms.layer_norm(tape, "mlp.norm", x)
    if divided:
        normal = tape.reduced("mlp's gradient of all GPUs", normal, forward=False)
    wide = linear(tape, "mlp.up", normal, 4 * config.hidden // wanted.ways)
    wide = pointwise.gelu_by_tanh(tape, "mlp.gelu", wide)
    narrow = linear(tape, "mlp.down", wide, config.hidden)
    if divided:
        narrow = tape.reduced("mlp of all GPUs", narrow, forward=True)
    narrow = pointwise.dropout(tape, "mlp.dropout", narrow)
    x = pointwise.add(tape, "mlp.residual", x, narrow)
    return tape.block("layer", x, times=config.layers)


def _attention(tape: Tape, x: Tensor, config: Gpt2Config, ways: int) -> Tensor:
    batch, tokens, hidden = x.shape
    count = config.heads // ways
    together = linear(tape, "attention.qkv", x, 3 * hidden // ways)
    query, key, value = (heads(each, count) for each in tape.split("attention.split", together, 3))
    scores = matmul(tape, "attention.scores", query, transposed(key))
    # The divisor and the mask's value are tensors of one element, made on the device each time.
    pointwise.small(tape, "attention.divisor", (1,), [4])
    scores = pointwise.scaled(tape, "attention.scaled scores", scores, operation="div")
    pointwise.small(tape, "attention.mask value", (1,), [4])
    scores = pointwise.masked(tape, "attention.causal mask", scores, tokens * tokens)
    weights = norms.softmax(tape, "attention.softmax", scores)
    weights = pointwise.dropout(tape, "attention.dropout", weights)
    context = matmul(tape, "attention.context", weights, value).permuted(0, 2, 1, 3)
    context = contiguous(tape, "attention.merged heads", context)
    return linear(tape, "attention.output", view(context, batch, tokens, hidden // ways), hidden)


def _head(config: Gpt2Config, wanted: Wanted) -> Block:
    tape = Tape(training=wanted.training)
    x = tape.input(wanted.batch, wanted.sequence, config.hidden)
    x = norms.layer_norm(tape, "final norm", x)
    if wanted.ways > 1:
        x = tape.reduced("head's gradient of all GPUs", x, forward=False)
    logits = linear(tape, "head", x, config.vocabulary // wanted.ways, has_bias=False, tied=True)
    return tape.block("head", logits)
