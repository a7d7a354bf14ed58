"""Finalists of one operator, measured in turn until it is clear which is the fastest."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import replace

from tune_farm.tuner.interfaces import Artifact, BuildFailure, Proposal, RunReport
from tune_farm.tuner.loop import RETRIED, Bench, built, record_of
from tune_farm.tuner.measure.race import FEWEST, Race, Sample
from tune_farm.tuner.types import Candidate, Failed, Fault, Measured, Record, StageSeconds

#: Quiet samples of each finalist at most.
_ROUNDS = 8
_NEVER_QUIET = Failed(
    fault=Fault.CONTENDED, detail="others were at work on the device whenever it was measured"
)


def measure_finalists(
    proposals: Sequence[Proposal], *, bench: Bench, attempt: int, rounds: int = _ROUNDS
) -> Iterator[Record]:
    """Build finalists and let them race; yields one record each, the incumbent's first.

    A record's repeats are on one scale: the ratios of a finalist's samples to the incumbent's
    around them, times the incumbent's median when the device was quiet.

    Args:
        proposals: the finalists; the first one that can be built is the incumbent.
        bench: what builds and measures them; its runner times one repeat a run.
        attempt: the records' number.
        rounds: samples of each.
    """
    heat = _Heat(bench)
    try:
        for item in _built([each.candidate for each in proposals], bench):
            if bench.should_stop():
                return
            heat.enter(item)
        heat.run(rounds)
        # Told to stop early, it still says what it knows, unless that is next to nothing: a final
        # ranks above all that the search measured.
        if not bench.should_stop() or heat.is_telling:
            for proposal in proposals:
                if proposal.candidate in heat:
                    item, report = heat.result(proposal.candidate)
                    yield record_of(item, proposal, attempt, bench.station, report)
    finally:
        heat.close()


def _built(candidates: Sequence[Candidate], bench: Bench) -> Iterator[Artifact | BuildFailure]:
    """Build all; what failed through no fault of its own is tried once more."""
    again = []
    for item in built(candidates, bench):
        if isinstance(item, BuildFailure) and item.failure.fault in RETRIED:
            again.append(item.candidate)
        else:
            yield item
    yield from built(again, bench)


class _Heat:
    """The artifacts of one race, and what came of each."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._items: dict[Candidate, Artifact | BuildFailure] = {}
        self._failures: dict[Candidate, RunReport] = {}
        self._last: dict[Candidate, RunReport] = {}
        self._stages: dict[Candidate, StageSeconds] = {}
        self._race: Race[Candidate] | None = None
        self._incumbent: Candidate | None = None
        self._alone: list[float] = []  #: the incumbent's times, if nobody races it

    def __contains__(self, key: Candidate) -> bool:
        """Whether a finalist was built, or failed to be."""
        return key in self._items

    def enter(self, item: Artifact | BuildFailure) -> None:
        """Take in what was built, or was not."""
        self._items[item.candidate] = item
        if isinstance(item, BuildFailure):
            self._failures[item.candidate] = RunReport(
                outcome=item.failure, cores_used=(), stage_seconds=StageSeconds()
            )

    def run(self, rounds: int) -> None:
        """Race until it is over, or until told to stop."""
        before = self._find_incumbent()
        if before is None or self._incumbent is None:
            return
        others = [key for key in self._items if key not in self._failures]
        others.remove(self._incumbent)
        self._race = race = Race(others, rounds=rounds)
        while (key := race.next_challenger()) is not None and not self._bench.should_stop():
            seconds = self._time(key)
            if seconds is None:
                race.withdraw(key)
                continue
            after = self._time(self._incumbent)
            if after is None:
                return  # it ran before: what is known of the others stands
            race.add(Sample(key=key, seconds=seconds, before_seconds=before, after_seconds=after))
            before = after
        while not others and len(self._alone) < rounds and not self._bench.should_stop():
            seconds = self._time(self._incumbent)
            if seconds is None:
                return
            self._alone.append(seconds)

    def _find_incumbent(self) -> float | None:
        """The first finalist that runs, and its time."""
        for key in list(self._items):
            if key not in self._failures and (seconds := self._time(key)) is not None:
                self._incumbent = key
                self._alone.append(seconds)
                return seconds
        return None

    @property
    def is_telling(self) -> bool:
        """Whether each finalist that runs has been measured a few times."""
        if self._race is None:
            return False
        others = [
            key for key in self._items if key not in self._failures and key != self._incumbent
        ]
        fewest = min((len(self._race.ratios(key)) for key in others), default=len(self._alone))
        return fewest >= FEWEST

    def result(self, key: Candidate) -> tuple[Artifact | BuildFailure, RunReport]:
        """What is known of a finalist in the end."""
        failure = self._failures.get(key)
        if failure is not None:
            return self._items[key], failure
        times = self._times(key)
        outcome = Measured(repeats_seconds=times) if times else _NEVER_QUIET
        return self._items[key], replace(
            self._last[key], outcome=outcome, stage_seconds=self._stages[key]
        )

    def _times(self, key: Candidate) -> tuple[float, ...]:
        assert self._race is not None
        own = self._race.incumbent_seconds or tuple(self._alone)
        if key == self._incumbent:
            return own
        scale = statistics.median(own)
        return tuple(scale * ratio for ratio in self._race.ratios(key))

    def close(self) -> None:
        """Remove what was built."""
        for item in self._items.values():
            if isinstance(item, Artifact):
                item.path.unlink(missing_ok=True)

    def _time(self, key: Candidate) -> float | None:
        """Run a finalist once; None, and it is out, if it failed."""
        item = self._items[key]
        assert isinstance(item, Artifact)
        report = self._run(item)
        if isinstance(report.outcome, Failed) and report.outcome.fault in RETRIED:
            report = self._run(item)
        before = self._stages.get(key, StageSeconds())
        stages = replace(
            before,
            check=before.check + report.stage_seconds.check,
            measure=before.measure + report.stage_seconds.measure,
        )
        self._stages[key], self._last[key] = stages, report
        if isinstance(report.outcome, Failed):
            self._failures[key] = report
            return None
        return report.outcome.median_seconds

    def _run(self, item: Artifact) -> RunReport:
        return self._bench.runner.run(item, incumbent_seconds=None, alone=self._bench.is_shared)
