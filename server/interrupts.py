"""Ctrl-C and SIGTERM: noted while a farm runs, so that no record is cut in half."""

from __future__ import annotations

import signal
from types import FrameType, TracebackType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupts:
    """From `hold` on, the first signal is noted in `received`; a repeated one changes nothing."""

    def __init__(self) -> None:
        self.received: int | None = None
        self._before: dict[int, object] = {}

    def __enter__(self) -> Interrupts:
        """Remember the handlers that leaving sets again; until `hold`, Ctrl-C still raises.

        It is noted, too: where it strikes in a callback, Python drops the exception.
        """
        self._before = {number: signal.getsignal(number) for number in _SIGNALS}
        signal.signal(signal.SIGINT, self._note_and_raise)
        return self

    def hold(self) -> None:
        """Note signals from now on. Call it after whatever sets handlers of its own (Ray does)."""
        for number in _SIGNALS:
            signal.signal(number, self._note)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def _note_and_raise(self, number: int, _frame: FrameType | None) -> None:
        is_first = self.received is None
        self._note(number, _frame)
        if is_first:  # a second one must not cut the clean-up short
            raise KeyboardInterrupt

    def _note(self, number: int, _frame: FrameType | None) -> None:
        if self.received is None:
            self.received = number
