from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tune_farm.client.share.lane import Lane


def nothing() -> None:
    """While waiting."""


def test_several_share_the_room_and_one_that_is_alone_waits_for_all(tmp_path: Path) -> None:
    one, other, loner = (Lane(tmp_path, name) for name in ("one", "other", "loner"))
    order: list[str] = []

    def be_alone() -> None:
        with loner.turn(alone=True, meanwhile=nothing):
            order.append("alone")

    with one.turn(alone=False, meanwhile=nothing):
        with other.turn(alone=False, meanwhile=nothing):
            thread = threading.Thread(target=be_alone)
            thread.start()
            time.sleep(0.1)
            order.append("other leaves")
        time.sleep(0.1)
        order.append("one leaves")
    thread.join(5)

    assert order == ["other leaves", "one leaves", "alone"]


def test_who_waits_to_be_alone_is_not_overtaken_for_ever(tmp_path: Path) -> None:
    busy = [Lane(tmp_path, f"busy-{number}") for number in range(3)]
    over = threading.Event()

    def work(lane: Lane) -> None:
        while not over.is_set():
            with lane.turn(alone=False, meanwhile=nothing):
                time.sleep(0.02)

    threads = [threading.Thread(target=work, args=(lane,)) for lane in busy]
    for thread in threads:
        thread.start()
    try:
        started = time.monotonic()
        with Lane(tmp_path, "loner").turn(alone=True, meanwhile=nothing):
            waited = time.monotonic() - started
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert waited < 5  # the three are never all out of the room by themselves for long


def test_something_can_be_done_while_waiting(tmp_path: Path) -> None:
    calls: list[float] = []
    inside = Lane(tmp_path, "inside")
    release = threading.Event()

    def stay() -> None:
        with inside.turn(alone=True, meanwhile=nothing):
            release.wait(10)

    thread = threading.Thread(target=stay)
    thread.start()
    time.sleep(0.05)

    def note() -> None:
        calls.append(time.monotonic())
        if len(calls) == 3:
            release.set()

    with Lane(tmp_path, "outside").turn(alone=False, meanwhile=note):
        pass
    thread.join()
    assert len(calls) >= 3


def test_a_holder_that_is_killed_leaves_the_room(tmp_path: Path) -> None:
    code = (
        "import sys, time; from pathlib import Path; from tune_farm.client.share.lane import Lane\n"
        "with Lane(Path(sys.argv[1]), 'other').turn(alone=True, meanwhile=lambda: None):\n"
        "    print('in', flush=True); time.sleep(600)\n"
    )
    holder = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE)
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"in\n"

    holder.kill()
    holder.wait()
    holder.stdout.close()

    with Lane(tmp_path, "me").turn(alone=True, meanwhile=nothing):
        pass


def test_others_hear_of_a_disturbance_from_when_it_was_told(tmp_path: Path) -> None:
    one, other = Lane(tmp_path, "one"), Lane(tmp_path, "other")
    before = time.monotonic()
    assert other.disturbed_since(before) is None

    one.disturb("an illegal address", breaks=True)

    assert other.disturbed_since(before) == (
        "one disturbed the device meanwhile: an illegal address"
    )
    assert other.is_broken_since(before)
    assert other.disturbed_since(time.monotonic()) is None
    assert not other.is_broken_since(time.monotonic())
    # Its own it knows.
    assert one.disturbed_since(before) is None
    # Who joins later hears of all.
    assert Lane(tmp_path, "third").disturbed_since(before) is not None


def test_not_every_disturbance_breaks_the_device(tmp_path: Path) -> None:
    one, other = Lane(tmp_path, "one"), Lane(tmp_path, "other")
    before = time.monotonic()

    one.disturb("stopped after 3.0 s", breaks=False)

    assert other.disturbed_since(before) is not None
    assert not other.is_broken_since(before)


@pytest.mark.parametrize("count", [1, 50])
def test_disturbances_of_several_are_kept_apart(tmp_path: Path, count: int) -> None:
    one, other, me = (Lane(tmp_path, name) for name in ("one", "other", "me"))
    for number in range(count):
        one.disturb(f"first {number}\nwith a second line", breaks=False)
        other.disturb(f"second {number}", breaks=False)
    after = time.monotonic()

    told = me.disturbed_since(0.0)

    assert told is not None
    assert told.startswith("one disturbed")
    assert me.disturbed_since(after) is None
