"""Whatever the network loses, the server hears everything once and in order."""

from __future__ import annotations

import threading

from hypothesis import given
from hypothesis import strategies as st

from tune_farm.client.messages import ClientBroken, Message
from tune_farm.client.outbox import Outbox

NOW = 0.0  # seconds to wait


def payload(number: int) -> ClientBroken:
    return ClientBroken(detail=str(number))


def numbers(messages: tuple[Message, ...]) -> list[int]:
    return [message.sequence for message in messages]


def filled(count: int) -> Outbox:
    outbox = Outbox()
    for number in range(count):
        outbox.put(payload(number))
    return outbox


def test_messages_are_numbered_in_order() -> None:
    messages = filled(3).wait(NOW)

    assert messages == tuple(Message(sequence=n, payload=payload(n)) for n in range(3))


def test_what_is_not_acknowledged_comes_again() -> None:
    outbox = filled(3)

    assert numbers(outbox.wait(NOW)) == [0, 1, 2]
    assert numbers(outbox.wait(NOW)) == [0, 1, 2]
    outbox.acknowledge(1)
    assert numbers(outbox.wait(NOW)) == [2]


def test_acknowledging_nothing_or_again_forgets_nothing_more() -> None:
    outbox = filled(3)

    outbox.acknowledge(-1)
    assert numbers(outbox.wait(NOW)) == [0, 1, 2]
    outbox.acknowledge(1)
    outbox.acknowledge(0)
    outbox.acknowledge(1)
    assert numbers(outbox.wait(NOW)) == [2]
    outbox.acknowledge(99)
    outbox.put(payload(3))
    assert numbers(outbox.wait(NOW)) == [3]


def test_whoever_waits_hears_news_at_once() -> None:
    outbox = filled(1)
    outbox.wait(NOW)
    heard: list[tuple[Message, ...]] = []
    waiting = threading.Thread(target=lambda: heard.append(outbox.wait(60.0)))
    waiting.start()

    outbox.put(payload(1))
    waiting.join(timeout=10.0)

    assert not waiting.is_alive()
    assert numbers(heard[0]) == [0, 1]


#: What may happen: the client says something; an exchange arrives, its answer is lost, or it comes
#: late, after a later one.
steps = st.lists(st.sampled_from(["say", "exchange", "answer lost", "call lost"]), max_size=60)


@given(steps=steps)
def test_each_is_heard_once_and_in_order(steps: list[str]) -> None:
    outbox = Outbox()
    said = 0
    heard: list[int] = []

    def exchange(*, arrives: bool) -> None:
        outbox.acknowledge(heard[-1] if heard else -1)
        answer = outbox.wait(NOW)
        if arrives:
            # As the farm does it: what was heard before is left aside.
            heard.extend(number for number in numbers(answer) if number > max(heard, default=-1))

    for step in steps:
        if step == "say":
            outbox.put(payload(said))
            said += 1
        elif step != "call lost":
            exchange(arrives=step == "exchange")
        assert heard == list(range(len(heard)))
    exchange(arrives=True)

    assert heard == list(range(said))
