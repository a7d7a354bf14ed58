"""Keeps what TVM's C++ writes to stderr out of the user's sight, unless debugging."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import tempfile
from collections.abc import Iterator

_LOG = logging.getLogger(__name__)


@contextlib.contextmanager
def compiler_output_logged() -> Iterator[None]:
    """Send file descriptor 2 to the debug log while the block runs; not for several threads.

    TVM warns about indices that might be out of range, once for each embedding, with words
    ("segfaults") that make a newcomer think the run is broken.
    """
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        with tempfile.TemporaryFile() as file:
            os.dup2(file.fileno(), 2)
            try:
                yield
            finally:
                sys.stderr.flush()
                os.dup2(kept, 2)
                file.seek(0)
                for line in file.read().decode(errors="replace").splitlines():
                    _LOG.debug("compiler: %s", line)
    finally:
        os.close(kept)
