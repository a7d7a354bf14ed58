"""Owns the two children of a comparison, and decides how often each build runs."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from tune_farm.client.messages import Comparison, ModelJob
from tune_farm.client.share.mps import child as child_of_share
from tune_farm.client.share.slot import Slot
from tune_farm.client.whole_model.agreement import Agreement
from tune_farm.client.whole_model.messages import (
    CompareOutputs,
    CompileModel,
    LoadModels,
    RunOnce,
)
from tune_farm.tuner.children.spawn import Birth, Child
from tune_farm.tuner.measure.guard import Guard, welcome

_RUN_CHILD = "tune_farm.client.whole_model.run_child"
_CUDA_RUN_CHILD = "tune_farm.client.whole_model.cuda_run_child"
_COMPILE_TIMEOUT_SECONDS = 600.0
_RUN_TIMEOUT_SECONDS = 600.0
_COMPARE_TIMEOUT_SECONDS = 1800.0  # it may run the untuned build a few times more
_LONG_SECONDS = 5.0
_INTEGER_INPUT_BOUND = 2  # ids, masks and indices are legal at 0 and 1
_INPUT_SEED = 2026


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedRepeats:
    """How often the two builds are timed against each other."""

    least: int = 2
    most: int = 15
    seconds: float = 25.0  # no further pair is begun after this


class ModelDoesNotBuildError(Exception):
    """One of the two builds failed; the message says which and why."""


def compare_whole_model(
    job: ModelJob,
    *,
    slot: Slot,
    guard: Guard,
    scratch: Path,
    repeats: PairedRepeats,
    checks: bool = True,
) -> Comparison:
    """Build, check and time the whole model under the slot's share, alone on the device.

    Args:
        job: both builds, and their weights.
        slot: where.
        guard: of the slot's children.
        scratch: for libraries.
        repeats: how often each build runs.
        checks: outputs are compared.

    Raises:
        ModelDoesNotBuildError: a build failed.
        ChildDiedError: a build or a run ended its process.
        ChildSilentError: a build or a run took too long.
    """
    libraries = _compile_both(job, slot, scratch)
    try:
        with guard.turn(alone=True, meanwhile=lambda: None):
            child = welcome(guard, lambda: _running_child(slot, scratch))
            try:
                return _compare(child, job, libraries, repeats, checks)
            finally:
                guard.part(child)
    finally:
        for library in libraries:
            library.unlink(missing_ok=True)


def _running_child(slot: Slot, scratch: Path) -> Child:
    role, environment = _RUN_CHILD, {"TVM_USE_RUNTIME_LIB": "1"}
    if slot.seat is not None:
        role = child_of_share.PATH
        environment |= dict(slot.seat.environment) | {child_of_share.ROLE: _CUDA_RUN_CHILD}
    return Child(
        Birth(
            role=role,
            name=f"{slot.name}-model-run",
            cores=slot.measure_cores,
            threads=len(slot.measure_cores),
            scratch=scratch,
            environment=environment,
        )
    )


def _compare(
    child: Child,
    job: ModelJob,
    libraries: tuple[Path, Path],
    repeats: PairedRepeats,
    checks: bool,
) -> Comparison:
    child.send(
        LoadModels(
            baseline_library=str(libraries[0]),
            baseline_weights=job.given.weights,
            tuned_library=str(libraries[1]),
            tuned_weights=job.tuned.weights,
            inputs=tuple((shape, dtype, _INTEGER_INPUT_BOUND) for shape, dtype in job.inputs),
            seed=_INPUT_SEED,
        )
    )
    child.receive(_RUN_TIMEOUT_SECONDS)
    return _run_pairs(child, repeats, rounding=job.rounding if checks else None)


def _run_pairs(child: Child, repeats: PairedRepeats, *, rounding: float | None) -> Comparison:
    def run(*, tuned: bool) -> float:
        child.send(RunOnce(tuned=tuned))
        return float(child.receive(_RUN_TIMEOUT_SECONDS).seconds)

    # The first run of each build is its warm-up, and what is compared. A long one has warmed up
    # within itself: it is the first pair.
    first = run(tuned=False), run(tuned=True)
    agreement: Agreement | None = None
    if rounding is not None:
        child.send(CompareOutputs(rounding=rounding))
        agreement = child.receive(_COMPARE_TIMEOUT_SECONDS).agreement
    is_long = first[0] > _LONG_SECONDS
    baseline, tuned = ([first[0]], [first[1]]) if is_long else ([], [])
    started = time.monotonic()
    while len(tuned) < repeats.most:
        enough = len(tuned) >= repeats.least
        if enough and time.monotonic() - started + sum(first) > repeats.seconds:
            break
        # In turn, and the order within a pair in turn too: a drifting clock favours neither.
        for which in (False, True) if len(tuned) % 2 == 0 else (True, False):
            (tuned if which else baseline).append(run(tuned=which))
    return Comparison(
        baseline_seconds=tuple(baseline),
        tuned_seconds=tuple(tuned),
        agreement=agreement,
    )


def _compile_both(job: ModelJob, slot: Slot, scratch: Path) -> tuple[Path, Path]:
    libraries = scratch / "model-untuned.so", scratch / "model-tuned.so"
    modules = job.given.module, job.tuned.module
    databases = None, (job.database_workload, job.database_records)
    child = Child(
        Birth(
            role="tune_farm.client.whole_model.compile_child",
            name=f"{slot.name}-model-compile",
            cores=slot.build_cores,
            threads=len(slot.build_cores),
            scratch=scratch,
            environment={"CUDA_VISIBLE_DEVICES": ""},
        )
    )
    try:
        for library, module, database in zip(libraries, modules, databases, strict=True):
            child.send(
                CompileModel(
                    module=module,
                    database=database,
                    target_json=job.target_json,
                    library=str(library),
                )
            )
            error = child.receive(_COMPILE_TIMEOUT_SECONDS).error
            if error is not None:
                which = "untuned" if database is None else "tuned"
                raise ModelDoesNotBuildError(f"the {which} model does not build: {error}")
    finally:
        child.kill()
    return libraries
