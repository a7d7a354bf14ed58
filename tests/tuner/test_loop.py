"""The loop alternates, retries what was not the candidate's fault, and tells its strategy all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.tuner.records_of import DEVICE, SHARE, candidate, plain_task
from tune_farm.tuner.interfaces import Artifact, BuildFailure, Proposal, Pruned, RunReport
from tune_farm.tuner.loop import RETRIED, Bench, Station, measure, tune
from tune_farm.tuner.types import (
    Candidate,
    Failed,
    Fault,
    Measured,
    Outcome,
    Purpose,
    Record,
    StageSeconds,
)

TASK = plain_task()
FOUR = [candidate(number) for number in range(4)]


def proposals(candidates: Sequence[Candidate], purpose: Purpose = Purpose.SEARCH) -> list[Proposal]:
    return [Proposal(candidate=each, purpose=purpose, predicted_seconds=0.5) for each in candidates]


class Workshop:
    """A builder and a runner that note what they do, and fail as they are told."""

    def __init__(self, folder: Path) -> None:
        self.diary: list[str] = []
        self.incumbents: list[float | None] = []
        self.build_faults: dict[str, list[Fault]] = {}  #: by candidate: one a build
        self.outcomes: dict[str, list[Outcome]] = {}  #: by candidate: one a run
        self._folder = folder

    def build(self, candidates: Sequence[Candidate]) -> Iterator[Artifact | BuildFailure]:
        for each in candidates:
            self.diary.append(f"build {each.trace_json[2]}")
            faults = self.build_faults.get(each.id)
            if faults:
                failure = Failed(fault=faults.pop(0), detail="the cause")
                yield BuildFailure(candidate=each, failure=failure, build_seconds=0.5)
            else:
                library = self._folder / f"{each.id}.so"
                library.touch()
                yield Artifact(candidate=each, path=library, build_seconds=0.25)

    def run(
        self, artifact: Artifact, *, incumbent_seconds: float | None, alone: bool = False
    ) -> RunReport:
        how = "run alone" if alone else "run"
        self.diary.append(f"{how} {artifact.candidate.trace_json[2]}")
        self.incumbents.append(incumbent_seconds)
        outcomes = self.outcomes.get(artifact.candidate.id)
        outcome = outcomes.pop(0) if outcomes else Measured(repeats_seconds=(1.0,))
        stages = StageSeconds(check=0.1, measure=0.2)
        return RunReport(outcome=outcome, cores_used=(1,), stage_seconds=stages)


class Told:
    """A strategy with a fixed list, that notes what it is told."""

    pruned = Pruned()

    def __init__(self, candidates: Sequence[Candidate]) -> None:
        self._proposals = proposals(candidates)
        self.records: list[Record] = []

    def propose(self, limit: int) -> Sequence[Proposal]:
        given, self._proposals = self._proposals[:limit], self._proposals[limit:]
        return given

    def tell(self, records: Iterable[Record]) -> None:
        self.records += records


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    return Workshop(tmp_path)


def bench_of(
    workshop: Workshop, turn: int | None = None, should_stop: Callable[[], bool] = lambda: False
) -> Bench:
    station = Station(device=DEVICE, share=SHARE, client="client-3", corunners=2)
    return Bench(
        builder=workshop, runner=workshop, station=station, turn=turn, should_stop=should_stop
    )


def measured(
    workshop: Workshop, turn: int | None = None, incumbent_seconds: float | None = None
) -> list[Record]:
    return list(
        measure(
            proposals(FOUR),
            bench=bench_of(workshop, turn),
            incumbent_seconds=incumbent_seconds,
        )
    )


@pytest.mark.parametrize(
    ("turn", "diary"),
    [
        (1, "build 0,run 0,build 1,run 1,build 2,run 2,build 3,run 3"),
        (3, "build 0,build 1,build 2,run 0,run 1,run 2,build 3,run 3"),
        (9, "build 0,build 1,build 2,build 3,run 0,run 1,run 2,run 3"),
    ],
)
def test_where_cores_are_shared_no_build_goes_on_while_a_timing_runs(
    workshop: Workshop, turn: int, diary: str
) -> None:
    measured(workshop, turn)

    assert workshop.diary == diary.split(",")


def test_where_builds_have_their_own_cores_the_first_is_timed_at_once(
    workshop: Workshop,
) -> None:
    measured(workshop, turn=None)

    assert workshop.diary[:3] == ["build 0", "run 0", "build 1"]


def test_a_record_says_where_it_comes_from_and_what_it_took(workshop: Workshop) -> None:
    record = measured(workshop)[0]

    assert record.candidate == FOUR[0]
    assert record.outcome == Measured(repeats_seconds=(1.0,))
    assert (record.device, record.share) == (DEVICE, SHARE)
    assert (record.client, record.corunners, record.cores_used) == ("client-3", 2, (1,))
    assert record.stage_seconds == StageSeconds(build=0.25, check=0.1, measure=0.2)


@pytest.mark.parametrize("fault", [fault for fault in Fault if fault in RETRIED])
def test_what_was_not_the_candidates_fault_is_tried_once_more(
    workshop: Workshop, fault: Fault
) -> None:
    workshop.build_faults[FOUR[1].id] = [fault]
    workshop.outcomes[FOUR[2].id] = [Failed(fault=fault, detail=""), Failed(fault=fault, detail="")]

    records = measured(workshop)

    assert [(r.candidate.trace_json[2], r.attempt) for r in records] == [
        ("0", 0),
        ("1", 0),
        ("2", 0),
        ("3", 0),
        ("1", 1),
        ("2", 1),
    ]
    assert [isinstance(r.outcome, Measured) for r in records] == [
        *(True, False, False, True),
        *(True, False),
    ]


@pytest.mark.parametrize("fault", [fault for fault in Fault if fault not in RETRIED])
def test_its_own_faults_are_final(workshop: Workshop, fault: Fault) -> None:
    workshop.build_faults[FOUR[1].id] = [fault]

    records = measured(workshop)

    assert [record.attempt for record in records] == [0] * 4
    assert records[1].outcome == Failed(fault=fault, detail="the cause")
    assert records[1].stage_seconds == StageSeconds(build=0.5)


def test_each_is_timed_against_the_best_so_far(workshop: Workshop) -> None:
    for each, seconds in zip(FOUR, (3.0, 5.0, 1.0, 2.0), strict=True):
        workshop.outcomes[each.id] = [Measured(repeats_seconds=(seconds,))]

    measured(workshop, incumbent_seconds=4.0)

    assert workshop.incumbents == [4.0, 3.0, 3.0, 1.0]


def test_libraries_are_removed_once_they_were_run(workshop: Workshop, tmp_path: Path) -> None:
    measured(workshop)

    assert list(tmp_path.iterdir()) == []


def test_a_stop_ends_after_the_candidate_in_flight(workshop: Workshop) -> None:
    stop = [False, False, True]
    bench = bench_of(workshop, should_stop=lambda: stop.pop(0))

    records = list(measure(proposals(FOUR), bench=bench, incumbent_seconds=None))

    assert [record.candidate for record in records] == FOUR[:2]


def test_the_strategy_is_told_everything(workshop: Workshop) -> None:
    strategy = Told(FOUR)
    workshop.build_faults[FOUR[0].id] = [Fault.HOST_OVERLOAD]

    records = list(
        tune(TASK, trials=3, strategy=strategy, bench=bench_of(workshop), incumbent_seconds=None)
    )

    assert strategy.records == records
    assert [record.candidate for record in records] == [*FOUR[:3], FOUR[0]]
    assert all(record.purpose is Purpose.SEARCH for record in records)
    assert all(record.predicted_seconds == 0.5 for record in records)


def test_the_strategy_is_told_also_if_nobody_asks_on(workshop: Workshop) -> None:
    strategy = Told(FOUR)
    records = tune(
        TASK, trials=4, strategy=strategy, bench=bench_of(workshop), incumbent_seconds=None
    )

    heard = [next(records), next(records)]
    records.close()  # type: ignore[attr-defined]

    assert strategy.records == heard


def test_on_a_shared_device_who_seems_to_have_faulted_is_tried_once_more_alone(
    workshop: Workshop,
) -> None:
    fault = Failed(fault=Fault.ILLEGAL_ACCESS, detail="an illegal address")
    workshop.outcomes[FOUR[1].id] = [fault]  # it was a neighbor's
    workshop.outcomes[FOUR[2].id] = [fault, fault]
    bench = replace(bench_of(workshop), is_shared=True)

    records = list(measure(proposals(FOUR), bench=bench, incumbent_seconds=None))

    runs = [line for line in workshop.diary if line.startswith("run")]
    assert runs == ["run 0", "run 1", "run 2", "run 3", "run alone 1", "run alone 2"]
    last = {record.candidate.trace_json[2]: record for record in records}
    assert isinstance(last["1"].outcome, Measured)
    assert last["2"].outcome == fault
    assert last["2"].attempt == 1


def test_alone_on_its_device_a_fault_is_the_candidates_own(workshop: Workshop) -> None:
    fault = Failed(fault=Fault.ILLEGAL_ACCESS, detail="an illegal address")
    workshop.outcomes[FOUR[1].id] = [fault]

    records = measured(workshop)

    assert len(records) == len(FOUR)
    assert records[1].outcome == fault


def test_an_empty_space_measures_nothing(workshop: Workshop) -> None:
    bench = bench_of(workshop)

    assert not list(tune(TASK, trials=4, strategy=Told([]), bench=bench, incumbent_seconds=None))
    assert workshop.diary == []


def test_attempts_count_on_from_earlier_sessions(workshop: Workshop) -> None:
    workshop.build_faults[FOUR[0].id] = [Fault.LOST]

    records = list(
        measure(
            proposals(FOUR[:1], Purpose.BASELINE),
            bench=bench_of(workshop),
            incumbent_seconds=None,
            first_attempt=2,
        )
    )

    assert [record.attempt for record in records] == [2, 3]
