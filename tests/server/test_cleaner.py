"""What a killed server leaves is ended and removed; the cleaner itself does not stay either."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.tuner.waiting import happens
from tune_farm.server.cleaner import Cleaner
from tune_farm.tuner.children.mark import MARKER

SECONDS = 15.0
SLEEP = [sys.executable, "-c", "import time; time.sleep(300)"]


@pytest.fixture
def stray() -> Iterator[subprocess.Popen[bytes]]:
    """A process of the run that has a session of its own and would stay for minutes."""
    environment = {**os.environ, MARKER: "run-of-test-cleaner"}
    with subprocess.Popen(SLEEP, env=environment, start_new_session=True) as process:
        yield process
        process.kill()


def cleaners() -> list[psutil.Process]:
    return [
        child
        for child in psutil.Process().children()
        if "run-of-test-cleaner" in " ".join(child.cmdline())
    ]


def test_it_waits_for_the_end_of_its_server(stray: subprocess.Popen[bytes], tmp_path: Path) -> None:
    temp_dir = tmp_path / "tf-x"
    temp_dir.mkdir()
    cleaner = Cleaner("run-of-test-cleaner", temp_dir)
    assert len(cleaners()) == 1
    assert stray.poll() is None

    cleaner.close()

    assert happens(lambda: stray.poll() is not None, SECONDS)
    assert not temp_dir.exists()
    assert cleaners() == []
    cleaner.close()


def test_a_killed_server_is_cleaned_after(stray: subprocess.Popen[bytes], tmp_path: Path) -> None:
    temp_dir = tmp_path / "tf-x"
    temp_dir.mkdir()
    server = (
        "import os, signal, sys\nfrom pathlib import Path\n"
        "from tune_farm.server.cleaner import Cleaner\n"
        "Cleaner('run-of-test-cleaner', Path(sys.argv[1]))\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    subprocess.run([sys.executable, "-c", server, str(temp_dir)], check=False, env=os.environ)

    assert happens(lambda: stray.poll() is not None, SECONDS)
    assert happens(lambda: not temp_dir.exists(), SECONDS)
