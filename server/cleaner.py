"""A process that outlives the server by a moment: it ends and removes what a killed run leaves.

Everything of a run ends by itself when its parent dies, but Ray's helpers take their time to
notice. The cleaner reads a pipe that only the server holds open; its end, however it comes about,
is the sign to clean. It has a session of its own, so that whatever kills the server's spares it,
and no mark, so that nobody takes it for a part of the run.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import tune_farm
from tune_farm.client.share.mig.kept import destroy_left
from tune_farm.client.share.mps.daemon import stop_below
from tune_farm.server.processes import end_leftovers
from tune_farm.tuner.children.mark import MARKER

_ROOT = str(Path(tune_farm.__file__).resolve().parent.parent)
_BOOTSTRAP = (
    "import sys; sys.path.insert(0, sys.argv[1]); import tune_farm; del sys.path[0]; "
    "from tune_farm.server.cleaner import main; main(*sys.argv[2:])"
)
#: What ends by itself gets so long; then a second look catches what was started meanwhile.
_GRACE_SECONDS = 2.0
_CLOSE_SECONDS = 10.0


class Cleaner:
    """The server's side. Close it when nothing is left to clean."""

    def __init__(self, run_id: str, temp_dir: Path) -> None:
        """Start the process.

        Args:
            run_id: whose processes it ends.
            temp_dir: the run's, which it removes.
        """
        environment = {name: value for name, value in os.environ.items() if name != MARKER}
        self._process = subprocess.Popen(  # noqa: S603
            [sys.executable, "-c", _BOOTSTRAP, _ROOT, run_id, str(temp_dir)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment,
            cwd="/",
            start_new_session=True,
        )

    def close(self) -> None:
        """Let it see that nothing is left, and wait for its end; safe to call twice."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_CLOSE_SECONDS)


def main(run_id: str, temp_dir: str) -> None:
    """Wait for the server's end, then clean."""
    sys.stdin.buffer.read()
    stop_below(Path(temp_dir))  # an MPS daemon is told to end before anybody kills it
    for _ in range(2):
        end_leftovers(run_id, _GRACE_SECONDS, Path(temp_dir))
    destroy_left(Path(temp_dir))  # nobody uses it any more
    shutil.rmtree(temp_dir, ignore_errors=True)
