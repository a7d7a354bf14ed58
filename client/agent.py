"""Tunes what it is told to under one fixed share. A plain class: Ray only wraps it."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from tune_farm.client.means import make_builder, make_guard, make_runner, make_watch
from tune_farm.client.messages import (
    ClientBroken,
    CompareOrder,
    FinalOrder,
    ModelCompared,
    ModelFailed,
    Order,
    OrderDone,
    Payload,
    RecordKnown,
    RetryOrder,
    TuneOrder,
)
from tune_farm.client.share.slot import Slot
from tune_farm.client.sim.gpus import SimulatedGpu
from tune_farm.client.whole_model.compare import (
    ModelDoesNotBuildError,
    PairedRepeats,
    compare_whole_model,
)
from tune_farm.tuner.build.pool import BuildOptions
from tune_farm.tuner.children.spawn import ChildDiedError, ChildSilentError
from tune_farm.tuner.finals import measure_finalists
from tune_farm.tuner.interfaces import BuildFailure, Proposal, Pruned
from tune_farm.tuner.loop import RETRIED, Bench, Station, measure, tune, untuned
from tune_farm.tuner.measure.messages import Timing
from tune_farm.tuner.measure.runner import RunOptions
from tune_farm.tuner.strategy.choice import NoDesignSpaceError, SearchOptions, Strategies
from tune_farm.tuner.strategy.metaschedule import MetaScheduleOptions
from tune_farm.tuner.types import Device, Failed, Fault, Measured, Purpose, Record, Task

#: A baseline that others disturbed is measured again so often, twice each time.
_BASELINE_TRIES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentOptions:
    """What an agent is made with."""

    slot: Slot
    device: Device
    simulated: SimulatedGpu | None = None  # what the device is, if it does not exist
    scratch: Path  # its own, node-local; a successor in the same slot finds the references there
    lane: Path | None = None  # folder of all clients of a GPU; None: of a CPU
    corunners: int
    seed: int
    search: SearchOptions = MetaScheduleOptions()
    build: BuildOptions = BuildOptions()
    run: RunOptions = RunOptions()
    final_timing: Timing = Timing(repeats=1, repeat_seconds=0.02)  # of one sample of a race
    paired: PairedRepeats = PairedRepeats()


class Agent:
    """One slot's tuner: strategies, warm builders and a measuring child. Close it when done."""

    def __init__(self, options: AgentOptions, should_stop: Callable[[], bool]) -> None:
        self._options = options
        slot, scratch = options.slot, options.scratch
        scratch.mkdir(parents=True, exist_ok=True)
        self._guard = make_guard(slot, options.lane)
        # Workers warm up while the measuring child starts: neither waits for the other.
        self._builder = make_builder(
            slot,
            simulated=options.simulated,
            scratch=scratch,
            options=options.build,
            should_stop=should_stop,
        )
        try:
            self._runner = make_runner(
                slot,
                simulated=options.simulated,
                guard=self._guard,
                scratch=scratch,
                options=options.run,
            )
        except BaseException:
            self._builder.close()
            raise
        station = Station(
            device=options.device,
            share=slot.share,
            client=slot.name,
            corunners=options.corunners,
        )
        self._watch = make_watch(slot, self._builder, self._runner)
        self._bench = Bench(
            builder=self._builder,
            runner=self._runner,
            station=station,
            turn=_turn(slot),
            should_stop=should_stop,
            is_shared=options.lane is not None and options.corunners > 0,
            watch=self._watch,
        )
        self._strategies = Strategies(options.search, seed=options.seed)

    def perform(self, order: Order) -> Iterator[Payload]:
        """Do one order; yields every record as it is known, and last that the order is done."""
        try:
            if isinstance(order, TuneOrder):
                yield from self._tune(order)
            elif isinstance(order, RetryOrder):
                yield from self._retry(order)
            elif isinstance(order, FinalOrder):
                yield from self._measure_finalists(order)
            else:
                yield self._compare(order)
        except ChildDiedError as death:
            yield ClientBroken(detail=death.detail)

    def rest(self) -> None:
        """Between orders, now and then: let go of a device that somebody else broke."""
        self._runner.rest()

    def close(self) -> None:
        """End all processes of this agent; safe to call twice."""
        self._builder.close()
        self._runner.close()

    def _tune(self, order: TuneOrder) -> Iterator[Payload]:
        failure = yield from self._prepare(order)
        proposed, pruned = 0, Pruned()
        if failure is None and order.trials and not self._bench.should_stop():
            try:
                strategy = self._strategies.of(order.task, order.known)
            except NoDesignSpaceError as error:
                yield OrderDone(
                    order_id=order.order_id, proposed=0, failure=f"no design space: {error}"
                )
                return
            before = strategy.pruned
            for record in tune(
                order.task,
                trials=order.trials,
                strategy=strategy,
                bench=self._bench,
                incumbent_seconds=_best_seconds(order.known),
            ):
                proposed += record.attempt == 0
                yield RecordKnown(order_id=order.order_id, record=record)
            pruned = strategy.pruned - before
        yield OrderDone(
            order_id=order.order_id,
            proposed=proposed,
            failure=failure,
            pruned=pruned,
            lessons=self._strategies.take_lessons(),
        )

    def _retry(self, order: RetryOrder) -> Iterator[Payload]:
        failure = yield from self._prepare(order)
        if failure is None:
            proposals = [
                Proposal(
                    candidate=record.candidate,
                    purpose=record.purpose,
                    predicted_seconds=record.predicted_seconds,
                )
                for record in order.failed
            ]
            for record in measure(
                proposals,
                bench=self._bench,
                incumbent_seconds=_best_seconds(order.known),
                first_attempt=max((record.attempt + 1 for record in order.failed), default=0),
            ):
                yield RecordKnown(order_id=order.order_id, record=record)
        yield OrderDone(order_id=order.order_id, proposed=len(order.failed), failure=failure)

    def _measure_finalists(self, order: FinalOrder) -> Iterator[Payload]:
        failure = yield from self._prepare(order)
        if failure is None:
            self._runner.timing = self._options.final_timing
            try:
                for record in measure_finalists(
                    [Proposal(candidate=c, purpose=Purpose.FINAL) for c in order.candidates],
                    bench=replace(self._bench, station=replace(self._bench.station, corunners=0)),
                    attempt=_next_attempt(order.known, Purpose.FINAL),
                ):
                    yield RecordKnown(order_id=order.order_id, record=record)
            finally:
                self._runner.timing = self._options.run.timing
        yield OrderDone(order_id=order.order_id, proposed=len(order.candidates), failure=failure)

    def _compare(self, order: CompareOrder) -> Payload:
        options = self._options
        self._runner.close()  # an exclusive device takes one process at a time
        try:
            comparison = compare_whole_model(
                order.job,
                slot=options.slot,
                guard=self._guard,
                scratch=options.scratch,
                repeats=options.paired,
                checks=options.run.checks,
            )
        except ModelDoesNotBuildError as failure:
            return ModelFailed(order_id=order.order_id, detail=str(failure))
        except ChildDiedError as death:
            return ModelFailed(order_id=order.order_id, detail=death.detail)
        except ChildSilentError as silence:
            return ModelFailed(order_id=order.order_id, detail=str(silence))
        return ModelCompared(order_id=order.order_id, comparison=comparison)

    def _prepare(
        self, order: TuneOrder | RetryOrder | FinalOrder
    ) -> Generator[Payload, None, str | None]:
        """Select the task, measure its baseline if nobody has, and have its reference at hand.

        Returns:
            Why the task can't be tuned here, or None; None, too, if it was told to stop meanwhile.
        """
        task = order.task
        baseline = _baseline(order.known)
        if self._watch is not None:
            self._watch.prepare(task.target_json)
        self._builder.select(task)
        self._runner.select(task, baseline.seconds if baseline else None)
        if baseline is not None:
            return None if self._runner.has_reference else self._make_reference(task)
        failure, attempt = None, _next_attempt(order.known, Purpose.BASELINE)
        for _ in range(_BASELINE_TRIES):
            fault = None
            for record in measure(
                [Proposal(candidate=untuned(task), purpose=Purpose.BASELINE)],
                bench=self._bench,
                incumbent_seconds=None,
                first_attempt=attempt,
            ):
                yield RecordKnown(order_id=order.order_id, record=record)
                if isinstance(record.outcome, Measured):
                    self._runner.select(task, record.outcome.median_seconds)
                    return None
                fault, attempt = record.outcome.fault, record.attempt + 1
                failure = f"untuned operator: {fault.value}: {record.outcome.detail}"
            if fault is not Fault.CONTENDED:
                break  # others on the device are no reason to give the task up
        return failure

    def _make_reference(self, task: Task) -> str | None:
        failed = self._try_reference(task)
        if failed is not None and failed.fault in RETRIED:
            failed = self._try_reference(task)
        return None if failed is None else f"untuned operator: {failed.detail}"

    def _try_reference(self, task: Task) -> Failed | None:
        """Build the untuned operator and run it once; None, too, if told to stop meanwhile."""
        for built in self._builder.build([untuned(task)]):
            if isinstance(built, BuildFailure):
                return built.failure
            failed = self._runner.make_reference(built)
            built.path.unlink(missing_ok=True)
            return failed
        return None


def _turn(slot: Slot) -> int | None:
    """Candidates built between timings: enough that several builders even out, no more."""
    if not slot.alternates:
        return None
    return 1 if len(slot.build_cores) == 1 else 4 * len(slot.build_cores)


def _baseline(known: tuple[Record, ...]) -> Record | None:
    return next(
        (
            record
            for record in known
            if record.purpose is Purpose.BASELINE and not isinstance(record.outcome, Failed)
        ),
        None,
    )


def _next_attempt(known: tuple[Record, ...], purpose: Purpose) -> int:
    """A number that no record of the purpose has: what an earlier session tried keeps its own."""
    return max((record.attempt + 1 for record in known if record.purpose is purpose), default=0)


def _best_seconds(known: tuple[Record, ...]) -> float | None:
    return min((r.seconds for r in known if r.seconds is not None), default=None)
