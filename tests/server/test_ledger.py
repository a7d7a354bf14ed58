"""What is known of a task: its best, whether it is a gain, who is measured again, when to stop."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tuner.records_of import candidate, plain_task, record_of
from tune_farm.server.ledger import Ledger, TaskEntry
from tune_farm.tuner.loop import untuned
from tune_farm.tuner.types import Fault, Purpose, Record

TASK = plain_task()


def ledger_of(*records: Record) -> Ledger:
    return Ledger([TASK], records)


def entry_of(*records: Record) -> TaskEntry:
    return ledger_of(*records).entries[TASK.id]


def search(number: int, result: float | Fault, attempt: int = 0) -> Record:
    return record_of(candidate(number), result, attempt=attempt)


def final(number: int, result: float | Fault) -> Record:
    return record_of(candidate(number), result, purpose=Purpose.FINAL)


def baseline(result: float | Fault, purpose: Purpose = Purpose.BASELINE) -> Record:
    return record_of(untuned(TASK), result, purpose=purpose)


def test_nothing_is_known_at_first() -> None:
    entry = entry_of()

    assert entry.best is None
    assert entry.baseline_record is None
    assert not entry.gained
    assert entry.finalists() == ()
    assert entry.progress.trials == 0


def test_the_best_is_the_fastest_until_finals_say_otherwise() -> None:
    records = [search(1, 3.0), search(2, 1.0), search(3, 2.0), search(4, Fault.RUN_ERROR)]

    assert entry_of(*records).best == records[1]
    assert entry_of(*records, final(2, 2.5), final(3, 2.1)).best == final(3, 2.1)
    # The untuned operator measured again is no finalist of its own.
    assert entry_of(*records, baseline(0.5, Purpose.FINAL)).best == records[1]


@pytest.mark.parametrize(
    ("records", "gained"),
    [
        ([baseline(2.0), search(1, 1.0)], True),
        ([baseline(1.0), search(1, 2.0)], False),
        ([baseline(1.0), search(1, 1.0)], False),
        ([search(1, 1.0)], True),
        ([baseline(2.0)], False),
        ([baseline(2.0), search(1, Fault.RUN_ERROR)], False),
        # Measured again alone, the baseline is the faster one after all.
        ([baseline(2.0), search(1, 1.0), final(1, 1.5), baseline(1.4, Purpose.FINAL)], False),
        ([baseline(1.0), search(1, 2.0), final(1, 1.5), baseline(1.6, Purpose.FINAL)], True),
    ],
)
def test_a_gain_is_a_best_faster_than_the_most_trusted_baseline(
    records: list[Record], gained: bool
) -> None:
    assert entry_of(*records).gained is gained


def test_finalists_are_the_three_near_the_best_and_a_baseline_that_is_close() -> None:
    near = [search(number, 1.0 + 0.01 * number) for number in range(5)]
    far = search(9, 1.2)

    chosen = [candidate(0), candidate(1), candidate(2)]
    assert list(entry_of(*near, far, baseline(1.9)).finalists()) == [*chosen, untuned(TASK)]
    assert list(entry_of(*near, far, baseline(2.1)).finalists()) == chosen
    assert list(entry_of(near[0], far).finalists()) == [candidate(0)]


def test_who_was_a_final_is_not_measured_a_third_time() -> None:
    records = [search(1, 1.0), search(2, 1.01), final(1, 1.0)]

    assert entry_of(*records).finalists() == (candidate(2),)


def test_trials_are_candidates_not_attempts_baselines_or_finals() -> None:
    entry = entry_of(
        baseline(Fault.HOST_OVERLOAD),
        baseline(2.0),
        search(1, Fault.WORKER_DIED),
        search(1, 1.5, attempt=1),
        search(2, 1.0),
        final(2, 1.0),
    )

    assert (entry.trials, entry.measured) == (2, 2)
    assert entry.history == [2.0, 2.0, 1.5, 1.0]
    assert entry.first_fault == "host_overload: the cause"


def test_what_is_given_counts_as_trials_until_it_is_settled() -> None:
    ledger = ledger_of()
    entry = ledger.entries[TASK.id]

    ledger.give(TASK.id, 16)
    assert entry.progress.trials == 16
    ledger.settle(TASK.id, 16, proposed=5, cut_short=False)
    assert entry.progress.trials == 0


@pytest.mark.parametrize(
    ("trials", "proposed", "cut_short", "exhausted"),
    [
        (16, 0, False, True),
        (16, 0, True, False),
        (16, 3, False, False),
        (0, 0, False, False),  # finals propose nothing
    ],
)
def test_a_task_is_exhausted_when_its_strategy_gives_nothing(
    trials: int, proposed: int, cut_short: bool, exhausted: bool
) -> None:
    ledger = ledger_of()

    ledger.give(TASK.id, trials)
    ledger.settle(TASK.id, trials, proposed=proposed, cut_short=cut_short)

    assert ledger.entries[TASK.id].exhausted is exhausted


def test_a_task_of_which_nothing_runs_is_hopeless() -> None:
    failures = [search(number, Fault.RUN_ERROR) for number in range(16)]

    for records, failure in (
        (failures[:15], None),
        ([*failures, search(16, 1.0)], None),
        (failures, "all 16 candidates failed; first run_error: the cause"),
    ):
        ledger = ledger_of(*records)
        ledger.give(TASK.id, 1)
        ledger.settle(TASK.id, 1, proposed=1, cut_short=False)
        assert ledger.entries[TASK.id].failure == failure
        assert ledger.entries[TASK.id].progress.failed == (failure is not None)


def test_records_of_tasks_that_are_not_selected_are_left_aside() -> None:
    ledger = ledger_of(record_of(candidate(1, "another"), 1.0))

    assert set(ledger.entries) == {TASK.id}
    assert ledger.entries[TASK.id].best is None


records_of_a_session = st.lists(
    st.builds(
        search,
        st.integers(0, 9),
        st.floats(1e-6, 1.0) | st.sampled_from([Fault.RUN_ERROR, Fault.LOST]),
        st.integers(0, 1),
    )
    | st.builds(final, st.integers(0, 9), st.floats(1e-6, 1.0))
    | st.builds(baseline, st.floats(1e-6, 1.0))
)


@given(records=records_of_a_session)
def test_a_resumed_session_knows_what_the_first_knew(records: list[Record]) -> None:
    first = ledger_of()
    for record in records:
        first.add(record)
    first.give(TASK.id, 4)
    first.settle(TASK.id, 4, proposed=4, cut_short=False)

    resumed = ledger_of(*records)
    resumed.settle(TASK.id, 0, proposed=0, cut_short=True)

    assert resumed.entries == first.entries
