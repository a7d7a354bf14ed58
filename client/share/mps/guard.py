"""Stands at both ends of a child's life under MPS: is its share in force, does it leave well."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from tune_farm.client.share.mps.daemon import Daemon
from tune_farm.client.share.mps.errors import MpsError
from tune_farm.client.share.mps.handshake import Attached, Expected, pids_of, verify
from tune_farm.tuner.children.spawn import Child

_LOG = logging.getLogger(__name__)

_HANDSHAKE_SECONDS = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGuard:
    """Of the children of one slot; implements `tuner.measure.runner.Guard`."""

    daemon: Daemon
    expected: Expected

    def greet(self, child: Child) -> None:
        """Let a child begin if it is under its share.

        Raises:
            MpsError: the share is not in force.
            ChildDiedError: it ended meanwhile.
            ChildSilentError: it said nothing.
        """
        attached = child.receive(_HANDSHAKE_SECONDS)
        assert isinstance(attached, Attached)
        verify(attached, self.expected, self.daemon.control)
        child.send("begin")

    def part(self, child: Child) -> None:
        """Have a child leave MPS, then end it.

        A busy client that is killed leaves the server in a state that NVIDIA does not define: its
        work on the GPU is ended first. Where the daemon does not answer it is killed all the same.
        """
        control = self.daemon.control
        try:
            names = pids_of(child.pid)
            for server in control.servers():
                for client in names & set(control.clients(server)):
                    control.terminate(server, client)
        except MpsError as error:
            _LOG.warning("%s was killed while MPS may still know it: %s", child.name, error.cause)
        child.kill()
