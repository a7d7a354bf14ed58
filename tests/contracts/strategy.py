"""What every strategy must keep to. Inherit the class, give it two fixtures, and its tests run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from tests.tuner.records_of import record_of
from tune_farm.tuner.interfaces import Strategy
from tune_farm.tuner.loop import untuned
from tune_farm.tuner.types import Candidate, Fault, Purpose, Record, Task

#: Asks, each answered, after which a space as small as `empty`'s must have ended.
PATIENCE = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A strategy under test."""

    task: Task
    make: Callable[[], Strategy]  # a new one for `task`, each time with the same seed


def told(candidates: Iterable[Candidate]) -> list[Record]:
    """Records of candidates: each a little slower, every fourth a failure."""
    return [
        record_of(candidate, Fault.WRONG_RESULT if number % 4 == 3 else (number + 1) * 1e-4)
        for number, candidate in enumerate(candidates)
    ]


def proposed_by(strategy: Strategy, limit: int) -> list[Candidate]:
    """The candidates of one ask."""
    return [proposal.candidate for proposal in strategy.propose(limit)]


class StrategyContract:
    """Tests of `interfaces.Strategy`.

    Fixtures to give:
        subject: a strategy of a task with at least 24 different schedules.
        empty: a strategy of a task with very few.
    """

    def test_proposals_are_schedules_of_the_task(self, subject: Subject) -> None:
        proposals = subject.make().propose(4)

        assert proposals
        assert all(p.purpose in (Purpose.SEARCH, Purpose.AUDIT) for p in proposals)
        assert all(p.predicted_seconds is None or p.predicted_seconds > 0 for p in proposals)
        proposed = [proposal.candidate for proposal in proposals]
        assert all(candidate.task_id == subject.task.id for candidate in proposed)
        assert not any(candidate.is_untuned for candidate in proposed)

    def test_no_more_is_proposed_than_asked_for(self, subject: Subject) -> None:
        strategy = subject.make()

        for limit in (1, 5, 2):
            proposed = proposed_by(strategy, limit)
            assert 1 <= len(proposed) <= limit
            strategy.tell(told(proposed))

    def test_nothing_is_proposed_twice(self, subject: Subject) -> None:
        strategy = subject.make()

        proposed = self.search(strategy, asks=4)

        assert len({candidate.id for candidate in proposed}) == len(proposed) > 8

    def test_what_is_not_answered_yet_is_not_proposed_again(self, subject: Subject) -> None:
        strategy = subject.make()

        first, second = proposed_by(strategy, 4), proposed_by(strategy, 4)

        assert not {c.id for c in first} & {c.id for c in second}

    def test_telling_twice_is_safe(self, subject: Subject) -> None:
        once, twice = subject.make(), subject.make()
        records = told(proposed_by(once, 6))
        assert told(proposed_by(twice, 6)) == records

        once.tell(records)
        twice.tell(records)
        twice.tell(records)

        assert twice.propose(6) == once.propose(6)

    def test_what_others_measured_is_not_proposed(self, subject: Subject) -> None:
        known = self.search(subject.make(), asks=3)
        successor = subject.make()

        successor.tell(told(known))

        proposed = self.search(successor, asks=3)
        assert proposed
        assert not {c.id for c in known} & {c.id for c in proposed}

    def test_the_same_seed_proposes_the_same(self, subject: Subject) -> None:
        assert subject.make().propose(6) == subject.make().propose(6)

    def test_failures_alone_do_not_stop_it(self, subject: Subject) -> None:
        strategy = subject.make()
        for _ in range(3):
            proposed = proposed_by(strategy, 4)
            assert proposed
            strategy.tell([record_of(each, Fault.RUN_ERROR) for each in proposed])

    def test_baselines_finals_and_repeated_attempts_are_no_surprise(self, subject: Subject) -> None:
        strategy = subject.make()
        (candidate,) = proposed_by(strategy, 1)

        strategy.tell([record_of(untuned(subject.task), 1.0, purpose=Purpose.BASELINE)])
        strategy.tell([record_of(candidate, Fault.HOST_OVERLOAD)])
        strategy.tell([record_of(candidate, 1e-3, attempt=1)])
        strategy.tell([record_of(candidate, 1e-3, purpose=Purpose.FINAL)])
        strategy.tell([])

        assert candidate not in proposed_by(strategy, 4)

    def test_what_was_pruned_is_counted_and_never_less(self, subject: Subject) -> None:
        strategy = subject.make()
        before = strategy.pruned
        strategy.propose(4)
        after = strategy.pruned

        assert 0 == before.over_limit <= after.over_limit
        assert 0 == before.predicted_slow <= after.predicted_slow

    def test_a_space_that_is_searched_out_ends(self, empty: Subject) -> None:
        strategy = empty.make()

        for _ in range(PATIENCE):
            proposed = proposed_by(strategy, 8)
            if not proposed:
                return
            strategy.tell(told(proposed))
        raise AssertionError("it still proposes")

    def test_more_than_there_is_may_be_asked_for(self, empty: Subject) -> None:
        strategy = empty.make()

        proposed = proposed_by(strategy, 64)
        strategy.tell(told(proposed))

        assert len(proposed) < 64
        assert len({candidate.id for candidate in proposed}) == len(proposed)

    def test_what_has_ended_stays_ended(self, empty: Subject) -> None:
        strategy = empty.make()
        strategy.tell(told(self.search(strategy, asks=PATIENCE)))

        assert [proposed_by(strategy, 8) for _ in range(2)] == [[], []]
        strategy.tell([])

    def test_a_space_where_all_fails_ends(self, empty: Subject) -> None:
        strategy = empty.make()

        for _ in range(PATIENCE):
            proposed = proposed_by(strategy, 8)
            strategy.tell([record_of(each, Fault.RUN_ERROR) for each in proposed])

        assert proposed_by(strategy, 8) == []

    @staticmethod
    def search(strategy: Strategy, *, asks: int) -> Sequence[Candidate]:
        """All that so many asks, each answered, bring up."""
        found: list[Candidate] = []
        for _ in range(asks):
            proposed = proposed_by(strategy, 4)
            strategy.tell(told(proposed))
            found += proposed
        return found
