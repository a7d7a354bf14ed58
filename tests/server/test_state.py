"""The farm's decisions: events in, commands out."""

from __future__ import annotations

from typing import Any

import pytest

from tests.server.farms import farm
from tests.tuner.records_of import candidate, plain_task, record_of
from tune_farm.server.decisions import (
    ClientJoined,
    ClientLost,
    Command,
    GiveComparison,
    GiveFinal,
    GiveTrials,
    ModelJudged,
    OrderEnded,
    RecordStored,
    RestartClient,
    SearchOver,
    StopOrders,
)
from tune_farm.server.state import Assignment, FarmState, Phase
from tune_farm.tuner.loop import untuned
from tune_farm.tuner.types import Purpose, Record


def join(state: FarmState, client: str) -> list[Command]:
    return state.handle(ClientJoined(client=client))


def lose(state: FarmState, client: str) -> list[Command]:
    return state.handle(ClientLost(client=client))


def end(
    state: FarmState, client: str, order_id: int, *, proposed: int = 16, failure: str | None = None
) -> list[Command]:
    return state.handle(
        OrderEnded(client=client, order_id=order_id, proposed=proposed, failure=failure)
    )


def store(state: FarmState, *records: Record) -> None:
    for record in records:
        assert state.handle(RecordStored(record=record)) == []


def give(client: str, order_id: int, task_id: str, trials: int = 16) -> GiveTrials:
    return GiveTrials(client=client, order_id=order_id, task_id=task_id, trials=trials)


def measured(task_id: str, count: int, *, first: int = 0, seconds: float = 1e-3) -> list[Record]:
    return [record_of(candidate(first + n, task_id), seconds + n * 1e-6) for n in range(count)]


def baseline(task_id: str, seconds: float = 1.0) -> Record:
    return record_of(untuned(plain_task(task_id)), seconds, purpose=Purpose.BASELINE)


def test_whoever_joins_gets_work_from_its_shard_the_costliest_first() -> None:
    state = farm(["a", "b", "c"])

    assert join(state, "one") == [give("one", 1, "a")]
    assert join(state, "two") == [give("two", 2, "b")]
    assert {task for shard in state.shards.values() for task in shard} == {"a", "b", "c"}
    assert "b" in state.shards["two"]


def test_a_first_order_is_a_small_one() -> None:
    state = farm(["a"], first_batch=6)

    assert join(state, "one") == [give("one", 1, "a", trials=6)]
    store(state, *measured("a", 6))
    assert end(state, "one", 1) == [give("one", 2, "a", trials=16)]


def test_a_third_client_waits_where_all_tasks_are_at_work() -> None:
    state = farm(["a", "b"])
    join(state, "one")
    join(state, "two")

    assert join(state, "three") == []
    assert state.idle == ["three"]
    # The freed task goes to whoever comes first by name; nobody rests while it waits.
    assert end(state, "two", 2) == [give("three", 3, "b")]


def test_a_client_that_is_done_goes_on() -> None:
    state = farm(["a", "b"])
    join(state, "one")
    store(state, baseline("a"), *measured("a", 16))

    assert end(state, "one", 1) == [give("one", 2, "b")]


def test_an_order_is_settled_once() -> None:
    state = farm(["a", "b"])
    join(state, "one")
    store(state, *measured("a", 16))

    assert end(state, "one", 1) == [give("one", 2, "b")]
    assert end(state, "one", 1) == []
    assert end(state, "nobody", 2) == []
    assert state.assignments == {"one": Assignment(order_id=2, task_id="b", trials=16)}


def test_an_exhausted_task_gets_no_more() -> None:
    state = farm(["a"])
    join(state, "one")
    store(state, *measured("a", 3))

    end(state, "one", 1, proposed=3)
    commands = end(state, "one", 2, proposed=0)

    assert isinstance(commands[0], GiveFinal)


def test_a_lost_client_is_replaced_and_its_task_goes_on() -> None:
    state = farm(["a", "b"])
    join(state, "one")
    join(state, "two")

    assert lose(state, "one") == [RestartClient(client="one")]
    assert set(state.shards) == {"two"}
    assert state.ledger.entries["a"].given == 0
    assert join(state, "one") == [give("one", 3, "a")]


def test_an_idle_client_takes_over_from_a_lost_one_at_once() -> None:
    state = farm(["a"])
    join(state, "one")
    join(state, "two")

    assert lose(state, "one") == [RestartClient(client="one"), give("two", 2, "a")]


def test_a_task_that_loses_two_clients_is_given_up() -> None:
    state = farm(["a", "b"])
    join(state, "one")
    lose(state, "one")
    join(state, "one")
    lose(state, "one")

    assert join(state, "one") == [give("one", 3, "b")]
    assert state.ledger.entries["a"].failure == "2 clients were lost while they tuned it"


def test_a_task_is_not_blamed_for_clients_that_cannot_work_at_all() -> None:
    state = farm(["a"])
    for order_id in range(1, 6):
        assert join(state, "one") == [give("one", order_id, "a")]
        lost = state.handle(ClientLost(client="one", broken=True))
        assert lost == [RestartClient(client="one")]

    join(state, "one")
    assert state.handle(ClientLost(client="one", broken=True)) == []
    assert state.ledger.entries["a"].failure is None


def test_a_slot_that_keeps_dying_stays_empty() -> None:
    state = farm([f"task{number}" for number in range(9)])
    restarts = []
    for _ in range(7):
        join(state, "one")
        restarts.append(lose(state, "one"))

    assert restarts == [[RestartClient(client="one")]] * 5 + [[], []]


def test_a_task_that_cannot_be_tuned_is_not_given_again() -> None:
    state = farm(["a", "b"])
    join(state, "one")

    assert end(state, "one", 1, proposed=0, failure="no compiler likes it\nat all") == [
        give("one", 2, "b")
    ]
    assert state.ledger.entries["a"].failure == "no compiler likes it\nat all"


@pytest.mark.parametrize(
    ("limits", "trials"),
    [
        ({"trials_per_task": 20}, {"a": [16, 4], "b": [16, 4]}),
        ({"trials": 20}, {"a": [16], "b": [4]}),
        ({"trials": 40, "trials_per_task": 18}, {"a": [16, 2], "b": [16, 2]}),
        ({"trials": 3}, {"a": [3], "b": []}),
    ],
)
def test_limits_are_reached_and_never_passed(
    limits: dict[str, Any], trials: dict[str, list[int]]
) -> None:
    state = farm(["a", "b"], **limits)
    given: dict[str, list[int]] = {"a": [], "b": []}
    commands = join(state, "one")
    while commands and isinstance(command := commands[0], GiveTrials):
        first = sum(given[command.task_id])
        given[command.task_id].append(command.trials)
        store(state, *measured(command.task_id, command.trials, first=first))
        commands = end(state, "one", command.order_id)

    assert given == trials


def finals_begin() -> tuple[FarmState, list[Command]]:
    """Two clients at work on one task each; then the budget is over and both come to an end."""
    state = farm(["a", "b"])
    join(state, "one")
    join(state, "two")
    for task_id in ("a", "b"):
        store(state, baseline(task_id), *measured(task_id, 2))
    assert state.handle(SearchOver()) == [StopOrders()]
    assert state.phase is Phase.DRAIN
    assert end(state, "two", 2, proposed=2) == []
    return state, end(state, "one", 1, proposed=2)


def final(client: str, order_id: int, task_id: str) -> GiveFinal:
    finalists = (candidate(0, task_id), candidate(1, task_id))
    return GiveFinal(client=client, order_id=order_id, task_id=task_id, candidates=finalists)


def test_finals_are_measured_one_at_a_time_with_everyone_else_idle() -> None:
    state, commands = finals_begin()

    assert commands == [final("one", 3, "a")]
    assert state.idle == ["two"]
    assert end(state, "one", 3) == [final("one", 4, "b")]


def test_the_model_is_compared_once_all_finals_are_in_and_then_it_is_done() -> None:
    state, _ = finals_begin()
    end(state, "one", 3)

    assert end(state, "one", 4) == [GiveComparison(client="one", order_id=5)]
    assert state.handle(ModelJudged(client="two", order_id=5)) == []
    assert state.idle == ["two"]
    assert state.handle(ModelJudged(client="one", order_id=5)) == []
    assert state.phase is Phase.DONE
    assert lose(state, "one") == []


def test_finals_and_comparison_of_a_lost_client_go_to_another() -> None:
    state, _ = finals_begin()

    assert lose(state, "one") == [RestartClient(client="one"), final("two", 4, "a")]
    assert end(state, "two", 4) == [final("two", 5, "b")]
    assert end(state, "two", 5) == [GiveComparison(client="two", order_id=6)]
    assert lose(state, "two") == [RestartClient(client="two")]
    assert join(state, "one") == [GiveComparison(client="one", order_id=7)]
    assert lose(state, "one") == [RestartClient(client="one")]
    assert join(state, "one") == []
    assert state.phase is Phase.DONE


def test_finals_that_lose_two_clients_are_left_out() -> None:
    state, _ = finals_begin()
    lose(state, "one")

    assert lose(state, "two") == [RestartClient(client="two")]
    assert join(state, "one") == [final("one", 5, "b")]


def test_where_nothing_was_gained_there_is_nothing_to_compare() -> None:
    state = farm(["a"], trials=1)
    join(state, "one")
    store(state, baseline("a", 1e-6), *measured("a", 1))

    end(state, "one", 1, proposed=1)
    end(state, "one", 2)

    assert state.phase is Phase.DONE


def test_a_model_that_cannot_run_is_not_compared() -> None:
    state = farm(["a"], trials=1, compares=False)
    join(state, "one")
    store(state, baseline("a"), *measured("a", 1))
    end(state, "one", 1)

    assert end(state, "one", 2) == []
    assert state.phase is Phase.DONE


def test_a_client_leaves_its_shard_for_what_promises_far_more() -> None:
    state = farm(["big", "small", "tiny"])
    join(state, "one")
    join(state, "two")
    state.shards = {"one": ("big",), "two": ("small", "tiny")}
    store(state, baseline("big", 1e-6), *measured("big", 16, seconds=1e-7))
    store(state, baseline("small", 1.0), *measured("small", 16, seconds=0.5))
    end(state, "two", 2)
    store(state, baseline("tiny", 1e-6), *measured("tiny", 16, seconds=1e-7))

    assert end(state, "one", 1) == [give("one", 4, "small")]
    assert "small" in state.shards["one"]


def test_a_search_over_twice_stops_once() -> None:
    state = farm(["a"])
    join(state, "one")

    assert state.handle(SearchOver()) == [StopOrders()]
    assert state.handle(SearchOver()) == []
