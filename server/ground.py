"""What a run stands on before anything of it starts: mark, temporary folder, signals, cleaner."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tune_farm.server.cleaner import Cleaner
from tune_farm.server.interrupts import Interrupts
from tune_farm.server.processes import end_leftovers, make_temp_dir
from tune_farm.tuner.children.mark import mark

#: After all was closed, the run's processes get so long to end by themselves.
_GRACE_SECONDS = 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """One run's."""

    temp_dir: Path  # short, private, on this machine; removed in the end
    interrupts: Interrupts


@contextmanager
def ground(run_id: str) -> Iterator[Ground]:
    """Mark this process as a run's; nothing that carries the mark outlives the context.

    Args:
        run_id: the mark.
    """
    mark(run_id)
    with ExitStack() as stack:
        interrupts = stack.enter_context(Interrupts())  # left last: nothing cuts the clean-up short
        temp_dir = make_temp_dir()
        cleaner = Cleaner(run_id, temp_dir)
        stack.callback(cleaner.close)
        stack.callback(shutil.rmtree, temp_dir, ignore_errors=True)
        stack.callback(end_leftovers, run_id, _GRACE_SECONDS, temp_dir)
        yield Ground(temp_dir=temp_dir, interrupts=interrupts)
