"""Ways to give a client a part of the GPU: MPS by percentage, else green contexts."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.gpu.lab import Client, Daemon, Lab, SkippedError, require_attached, told
from benchmarks.gpu.messages import Limited, LimitSms
from tune_farm.client.share.mps.errors import MpsError
from tune_farm.client.share.mps.handshake import Expected, verify


@dataclass(frozen=True, slots=True, kw_only=True)
class Sharing:
    """One way."""

    kind: str  # "mps" or "green"
    lab: Lab
    daemon: Daemon | None
    why: str = ""  # it is not MPS

    @contextlib.contextmanager
    def client(self, percent: float) -> Iterator[tuple[Client, int]]:
        """Start a client under a share that was proven; and the SMs that it has.

        Raises:
            SkippedError: the share is not in force.
        """
        total = self.lab.device.sm_count
        if self.daemon is None:
            with self.lab.alone(f"green-{percent:g}") as client:
                if percent >= 100:
                    yield client, require_attached(client).sm_count
                else:
                    asked = LimitSms(sms=max(1, math.floor(percent / 100 * total)))
                    yield client, told(client, asked, Limited).sms
            return
        with self.daemon.client(f"mps-{percent:g}", percent=percent) as client:
            yield client, verified(client, self.daemon, self.lab, percent)


def verified(
    client: Client, daemon: Daemon, lab: Lab, percent: float, sms: int | None = None
) -> int:
    """Prove a client's share as the product does; the SMs that it has.

    Raises:
        SkippedError: it is not in force.
    """
    expected = Expected(uuid=lab.device.uuid, total=lab.device.sm_count, percent=percent, sms=sms)
    try:
        return verify(client.attached, expected, daemon.control)
    except MpsError as error:
        raise SkippedError(error.cause) from None


@contextlib.contextmanager
def sharing(lab: Lab) -> Iterator[Sharing]:
    """The best way there is."""
    with contextlib.ExitStack() as stack:
        try:
            daemon = stack.enter_context(lab.daemon())
        except SkippedError as reason:
            yield Sharing(kind="green", lab=lab, daemon=None, why=str(reason))
        else:
            yield Sharing(kind="mps", lab=lab, daemon=daemon)
