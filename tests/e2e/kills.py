"""SIGKILL, sent to one part of a running command."""

from __future__ import annotations

import contextlib
import enum
import os
import random
import signal

import psutil

from tests.e2e.command import Command


class Victim(enum.Enum):
    """What is killed."""

    SESSION = "whole session"  # the command and every process of its session, as a closed terminal
    SERVER = "server alone"
    CLIENT = "one client"
    CHILD = "one measuring child"

    @property
    def ends_the_command(self) -> bool:
        """Whether the command cannot go on without it."""
        return self in (Victim.SESSION, Victim.SERVER)


def kill(command: Command, victim: Victim, generator: random.Random) -> int:
    """Kill; returns how many processes got the signal. 0: there was none of the kind."""
    if victim is Victim.SESSION:
        targets = [each for each in command.processes() if _session(each.pid) == command.pid]
    elif victim is Victim.SERVER:
        targets = [psutil.Process(command.pid)]
    else:
        word = "ray::Client" if victim is Victim.CLIENT else "tune_farm.tuner.measure.child"
        found = command.processes(word)
        targets = [generator.choice(found)] if found else []
    hit = 0
    for target in targets:
        with contextlib.suppress(psutil.Error):
            target.send_signal(signal.SIGKILL)
            hit += 1
    return hit


def _session(pid: int) -> int:
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return -1
