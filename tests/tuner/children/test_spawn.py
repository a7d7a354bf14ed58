"""A child is born under what it was given, dies with its parent, and its death is told in full."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.tuner.waiting import happens, is_gone
from tune_farm.tuner.children.spawn import Birth, Child, ChildDiedError, ChildSilentError

ROLE = Path(__file__).with_name("talkative_role.py")
CORE = min(os.sched_getaffinity(0))
PATIENCE_SECONDS = 30.0


@pytest.fixture
def birth(tmp_path: Path) -> Birth:
    """A child that finds its role in its working directory, whatever else is called `tests`."""
    shutil.copy(ROLE, tmp_path)
    return Birth(role=ROLE.stem, name="child", cores=(CORE,), threads=1, scratch=tmp_path)


@pytest.fixture
def bear(birth: Birth) -> Iterator[Callable[..., Child]]:
    children = []

    def make(**changes: Any) -> Child:
        fields = {name: getattr(birth, name) for name in Birth.__dataclass_fields__}
        children.append(Child(Birth(**fields | changes)))
        return children[-1]

    yield make
    for child in children:
        child.kill()


def ask(child: Child, action: str, argument: object = None) -> Any:
    child.send((action, argument))
    return child.receive(PATIENCE_SECONDS)


def test_threads_are_set_whatever_the_parent_inherited(
    bear: Callable[..., Child], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OMP_NUM_THREADS", "TVM_NUM_THREADS", "TVM_BIND_THREADS"):
        monkeypatch.setenv(name, "7")

    child = bear(threads=3, environment={"EXTRA": "yes"})

    assert ask(child, "environment", "OMP_NUM_THREADS") == "3"
    assert ask(child, "environment", "TVM_NUM_THREADS") == "3"
    assert ask(child, "environment", "TVM_BIND_THREADS") == "0"
    assert ask(child, "environment", "EXTRA") == "yes"


def test_affinity_is_in_force_and_the_parents_stays(bear: Callable[..., Child]) -> None:
    before = os.sched_getaffinity(0)

    child = bear()

    assert ask(child, "cores") == [CORE]
    assert os.sched_getaffinity(0) == before


def test_sigint_is_ignored_even_if_the_parent_blocks_it(bear: Callable[..., Child]) -> None:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        child = bear()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)

    assert ask(child, "blocked signals") == []
    assert ask(child, "ignores SIGINT")
    os.killpg(child.pid, signal.SIGINT)
    assert ask(child, "cores") == [CORE]


def test_it_leads_its_own_session(bear: Callable[..., Child]) -> None:
    child = bear()

    assert ask(child, "group and session") == (child.pid, child.pid)


def test_it_is_executed_not_forked(bear: Callable[..., Child]) -> None:
    read, write = os.pipe()
    os.set_inheritable(write, True)
    try:
        child = bear()
        assert "pytest" not in ask(child, "modules")
        # Standard streams, channel, lifeline, and the folder being listed.
        assert len(ask(child, "descriptors")) == 6
    finally:
        os.close(read)
        os.close(write)


def test_it_works_in_its_scratch_folder(bear: Callable[..., Child], tmp_path: Path) -> None:
    assert ask(bear(), "folder") == str(tmp_path)


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGABRT, signal.SIGKILL])
def test_a_death_by_signal_is_named(bear: Callable[..., Child], number: signal.Signals) -> None:
    with pytest.raises(ChildDiedError) as caught:
        ask(bear(), "die", int(number))

    assert caught.value.signal_number == number
    assert caught.value.detail.splitlines()[0] == f"child died: {number.name}"


def test_a_crash_says_where_it_was(bear: Callable[..., Child]) -> None:
    with pytest.raises(ChildDiedError, match=r"Fatal Python error(.|\n)*in _die"):
        ask(bear(), "die", int(signal.SIGSEGV))


def test_the_last_stderr_comes_with_a_death(bear: Callable[..., Child]) -> None:
    text = b"".join(b"line %d\n" % number for number in range(50)) + b"\xff last words"

    with pytest.raises(ChildDiedError) as caught:
        ask(bear(), "exit", text)

    assert caught.value.signal_number is None
    lines = caught.value.detail.splitlines()
    assert lines[0] == "child died: exit code 3"
    assert lines[-1].endswith(" last words")
    assert "line 40" in lines
    assert "line 10" not in lines


def test_an_exception_of_the_role_is_told(bear: Callable[..., Child]) -> None:
    with pytest.raises(ChildDiedError, match="RuntimeError: out of ideas"):
        ask(bear(), "raise", "out of ideas")


def test_a_role_that_does_not_exist_is_told(bear: Callable[..., Child]) -> None:
    with pytest.raises(ChildDiedError, match="No module named 'no_such_role'"):
        bear(role="no_such_role").receive(PATIENCE_SECONDS)


def test_a_silent_child_is_told_apart_from_a_dead_one(bear: Callable[..., Child]) -> None:
    child = bear()
    assert ask(child, "cores") == [CORE]
    child.send(("never answer", None))

    with pytest.raises(ChildSilentError, match=r"child gave no answer in 0\.1 s"):
        child.receive(0.1)
    assert not is_gone(child.pid)


def test_garbage_on_stdout_does_not_break_the_channel(bear: Callable[..., Child]) -> None:
    child = bear()

    assert ask(child, "print", "noise" * 1000) == "still here"
    assert ask(child, "cores") == [CORE]
    assert "noise" in child.stderr_tail()


def test_sending_to_the_dead_is_an_error_of_its_own(bear: Callable[..., Child]) -> None:
    child = bear()
    assert ask(child, "cores") == [CORE]
    os.kill(child.pid, signal.SIGKILL)
    assert happens(lambda: is_gone(child.pid), PATIENCE_SECONDS)

    with pytest.raises(ChildDiedError) as caught:
        child.send(("cores", None))

    assert caught.value.signal_number == signal.SIGKILL


def test_kill_ends_the_whole_group_and_may_be_repeated(bear: Callable[..., Child]) -> None:
    descriptors = len(list(Path("/proc/self/fd").iterdir()))
    child = bear()
    sleeper = ask(child, "start sleeper")

    child.kill()
    child.kill()

    assert is_gone(child.pid)
    assert happens(lambda: is_gone(sleeper), PATIENCE_SECONDS)
    assert len(list(Path("/proc/self/fd").iterdir())) == descriptors


def test_kill_after_a_death_is_safe(bear: Callable[..., Child]) -> None:
    child = bear()
    with pytest.raises(ChildDiedError):
        ask(child, "die", int(signal.SIGKILL))

    child.kill()


def test_it_outlives_the_thread_that_made_it(bear: Callable[..., Child]) -> None:
    children: list[Child] = []
    thread = threading.Thread(target=lambda: children.append(bear()))
    thread.start()
    thread.join()

    assert ask(children[0], "cores") == [CORE]


PARENT = """
import os, signal, sys
from pathlib import Path
from tune_farm.tuner.children.spawn import Birth, Child
scratch, role, core = sys.argv[1:]
child = Child(Birth(role=role, name="child", cores=(int(core),), threads=1, scratch=Path(scratch)))
child.send(("start sleeper", None))
print(child.pid, child.receive(30), flush=True)
if sys.stdin.readline() == "busy\\n":
    child.send(("never answer", None))
print("ready", flush=True)
signal.pause()
"""


@pytest.mark.parametrize("state", ["idle", "busy"])
def test_a_killed_parent_takes_child_and_grandchild_along(birth: Birth, state: str) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(birth.scratch), birth.role, str(CORE)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    with parent:
        assert parent.stdin is not None
        assert parent.stdout is not None
        pids = [int(word) for word in parent.stdout.readline().split()]
        parent.stdin.write(f"{state}\n")
        parent.stdin.flush()
        assert parent.stdout.readline() == "ready\n"
        assert not any(map(is_gone, pids))

        parent.kill()

        assert happens(lambda: all(map(is_gone, pids)), 5.0)
