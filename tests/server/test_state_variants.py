"""The farm tunes all variants of an operator until one is clearly behind, and uses the fastest."""

from __future__ import annotations

from tests.server.test_state import baseline, end, join, measured, store
from tests.tuner.records_of import plain_task
from tune_farm.server.decisions import ClientJoined, Command, GiveComparison, GiveFinal, SearchOver
from tune_farm.server.ledger import Ledger
from tune_farm.server.progress import task_summaries
from tune_farm.server.report.summary import TaskState, TrialCounts, exit_code_of
from tune_farm.server.state import FarmState, Limits
from tune_farm.server.variants import Alternatives, Variant

CHOICE = Alternatives(
    functions=("f",),
    variants=(
        Variant(name="direct", tile=None, tasks=("a",)),
        Variant(name="winograd 4x4", tile=4, tasks=("b", "c")),
    ),
)


def farm() -> FarmState:
    """A farm with nobody there; the first task is the costliest."""
    ledger = Ledger([plain_task(task_id) for task_id in "abc"], ())
    limits = Limits(batch=16, first_batch=16)
    return FarmState(ledger, {"a": 3.0, "b": 2.0, "c": 1.0}, limits, [CHOICE])


def tuned(*tasks: tuple[str, float]) -> FarmState:
    """A farm whose only client tuned each task once, in the order in which it was told to."""
    state = farm()
    seconds = dict(tasks)
    join(state, "one")
    for order in range(1, len(tasks) + 1):
        at_work = state.assignments["one"]
        assert at_work is not None
        assert at_work.task_id is not None
        task = at_work.task_id
        store(state, baseline(task), *measured(task, 16, seconds=seconds[task]))
        end(state, "one", order)
    return state


def given(state: FarmState) -> str | None:
    order = state.assignments["one"]
    return order.task_id if order else None


def test_all_variants_are_tuned_first() -> None:
    assert given(tuned()) == "a"
    assert given(tuned(("a", 9e-3))) == "b"
    assert given(tuned(("a", 9e-3), ("b", 1e-3))) == "c"


def test_the_variant_behind_is_given_nothing_more() -> None:
    # "a" would promise the most.
    assert given(tuned(("a", 9e-3), ("b", 2e-3), ("c", 1e-3))) == "b"
    assert given(tuned(("a", 4e-3), ("b", 2e-3), ("c", 1e-3))) == "a"


def test_what_is_behind_is_known_again_after_a_restart() -> None:
    before = tuned(("a", 9e-3), ("b", 2e-3), ("c", 1e-3))
    tasks = [entry.task for entry in before.ledger.entries.values()]
    records = [
        *(entry.baseline for entry in before.ledger.entries.values() if entry.baseline),
        *(record for e in before.ledger.entries.values() for record in e.search.values()),
    ]
    costs = dict.fromkeys("abc", 1.0)
    state = FarmState(Ledger(tasks, records), costs, Limits(), [CHOICE])

    state.handle(ClientJoined(client="one"))

    assert given(state) == "b"
    assert state.tiles == {"f": 4}


def finish(state: FarmState) -> list[Command]:
    """End the search and all finals; the commands."""
    commands = state.handle(SearchOver())
    while not any(isinstance(each, GiveComparison) for each in commands):
        order = state.assignments["one"]
        assert order is not None
        commands += end(state, "one", order.order_id, proposed=0)
    return commands


def test_finals_and_the_model_leave_out_what_is_behind() -> None:
    state = tuned(("a", 9e-3), ("b", 2e-3), ("c", 1e-3))

    commands = finish(state)

    assert [each.task_id for each in commands if isinstance(each, GiveFinal)] == ["b", "c"]
    assert state.tiles == {"f": 4}
    assert set(state.unused) == {"a"}


def test_a_variant_that_lost_is_no_failure_and_saves_nothing() -> None:
    state = farm()
    store(state, baseline("a"), *measured("a", 2))

    rows = {row.id: row for row in task_summaries(state, interrupted=False)}

    assert rows["a"].state is TaskState.TUNED
    assert rows["a"].variant == "direct"
    assert [rows[name].state for name in "bc"] == [TaskState.UNUSED] * 2
    assert rows["b"].reason.startswith("winograd 4x4 was not measured in full")
    trials = TrialCounts(measured=2)
    assert exit_code_of(tasks=tuple(rows.values()), trials=trials, end_to_end=None) == 0
