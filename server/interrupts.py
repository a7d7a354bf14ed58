"""Ctrl-C and SIGTERM: noted while a farm runs, so that no record is cut in half."""

from __future__ import annotations

import signal
from types import FrameType, TracebackType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupts:
    """While entered, the first signal is noted in `received`; a repeated one changes nothing."""

    def __init__(self) -> None:
        self.received: int | None = None
        self._before: dict[int, object] = {}

    def __enter__(self) -> Interrupts:
        for number in _SIGNALS:
            self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def _note(self, number: int, _frame: FrameType | None) -> None:
        if self.received is None:
            self.received = number
