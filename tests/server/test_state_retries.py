"""What failed before is tried again first; what ended early is not waited for."""

from __future__ import annotations

from tests.server.farms import farm
from tests.server.test_state import baseline, end, give, join, lose, measured, store
from tests.tuner.records_of import candidate, record_of
from tune_farm.server.decisions import GiveFinal, GiveRetry, GiveTrials, RestartClient
from tune_farm.server.state import Phase
from tune_farm.tuner.types import Fault


def retry(client: str, order_id: int, task_id: str) -> GiveRetry:
    return GiveRetry(client=client, order_id=order_id, task_id=task_id)


def test_what_failed_is_tried_again_before_anything_new() -> None:
    state = farm(["a", "b", "c"], retries=("b", "a"))

    assert join(state, "one") == [retry("one", 1, "b")]
    assert join(state, "two") == [retry("two", 2, "a")]
    assert end(state, "one", 1) == [give("one", 3, "b")]
    assert state.is_retrying
    assert isinstance(end(state, "two", 2)[0], GiveTrials)
    assert not state.is_retrying


def test_retries_need_no_trials_left() -> None:
    state = farm(["a"], retries=("a",), trials_per_task=4)
    for record in [baseline("a"), *measured("a", 3)]:
        state.ledger.add(record)
    state.ledger.add(record_of(candidate(9, "a"), Fault.RUN_ERROR))

    assert join(state, "one") == [retry("one", 1, "a")]
    store(state, record_of(candidate(9, "a"), 1e-4, attempt=1))
    (command,) = end(state, "one", 1)

    assert isinstance(command, GiveFinal)
    assert command.candidates[0] == candidate(9, "a")
    assert state.ledger.entries["a"].trials == 4  # a retry is no new trial


def test_a_retry_whose_client_is_lost_is_given_again_and_not_for_ever() -> None:
    state = farm(["a"], retries=("a",))
    join(state, "one")

    assert lose(state, "one") == [RestartClient(client="one")]
    assert join(state, "one") == [retry("one", 2, "a")]
    lose(state, "one")
    assert not state.is_retrying
    assert join(state, "one") == []
    assert state.phase is Phase.DONE


def test_the_trials_of_tasks_that_ended_early_are_not_waited_for() -> None:
    state = farm(["a", "b"], trials_per_task=16)
    join(state, "one")
    assert state.trials_allowed == 32

    store(state, *measured("a", 3))
    end(state, "one", 1, proposed=0)
    assert state.trials_allowed == 3 + 16

    endless, counted = farm(["a"]), farm(["a"], trials=500)
    for each in (endless, counted):
        join(each, "one")
        store(each, *measured("a", 3))
        end(each, "one", 1, proposed=0)
    assert (endless.trials_allowed, counted.trials_allowed) == (3, 3)
