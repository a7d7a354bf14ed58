"""What a comparison and its two children say to each other."""

from __future__ import annotations

from dataclasses import dataclass

from tune_farm.client.whole_model.agreement import Agreement


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileModel:
    """Owner → compiling child: build `module`, with the database's schedules if one is given."""

    module: str  # path of the module's JSON
    database: tuple[str, str] | None  # paths: workloads, tuning records
    target_json: str
    library: str  # path to write


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCompiled:
    """Compiling child → owner."""

    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadModels:
    """Owner → running child: load both builds, their weights, and one set of inputs."""

    baseline_library: str
    baseline_weights: str  # .npz
    tuned_library: str
    tuned_weights: str  # .npz; the same file where both builds take the same
    inputs: tuple[
        tuple[tuple[int, ...], str, int], ...
    ]  # shape, dtype, exclusive upper bound of integers
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOnce:
    """Owner → running child: run one build once."""

    tuned: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RanOnce:
    """Running child → owner: how long it took; the outputs stay there."""

    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareOutputs:
    """Owner → running child: compare the outputs of the last run of each build."""

    rounding: float  # times a direct sum's errors that the tuned operators may have


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputsCompared:
    """Running child → owner."""

    agreement: Agreement
