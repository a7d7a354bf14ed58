"""A test that leaves a process behind fails, whatever else it proved.

Every process started during a session inherits TUNE_FARM_TEST_SESSION. After each test those that
began in it are given a while to go; then they are killed and named. What a fixture wider than a
test starts, and what that starts, may stay until the session ends.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Iterator

import psutil
import pytest

SESSION_VARIABLE = "TUNE_FARM_TEST_SESSION"
RUN_VARIABLE = "TUNE_FARM_RUN"
_POLL_SECONDS = 0.05
#: Helpers that Python itself keeps until the interpreter ends.
_OF_PYTHON = ("multiprocessing.resource_tracker", "multiprocessing.forkserver")


class LeakedProcesses:
    """Knows which processes belong to this session, and which of them may stay."""

    def __init__(self, wait_seconds: float) -> None:
        #: This session's mark; in the environment of whatever it starts.
        self.session = uuid.uuid4().hex
        self._wait_seconds = wait_seconds
        # A process's start is told in clock ticks: allow for the rounding.
        self._since = time.time() - 1.0
        #: Processes of fixtures wider than one test; written by `pytest_fixture_setup` alone.
        self._kept: set[psutil.Process] = set()
        os.environ[SESSION_VARIABLE] = self.session

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(
        self, fixturedef: pytest.FixtureDef[object], request: pytest.FixtureRequest
    ) -> Iterator[None]:
        """Note what a fixture wider than a test starts."""
        if fixturedef.scope == "function":
            return (yield)
        before = set(self._alive())
        try:
            return (yield)
        finally:
            self._kept |= set(self._alive()) - before

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> Iterator[None]:
        """Fail the test if a process of it remains after its fixtures are gone."""
        result = yield
        if leaked := self._end_leaked(also_kept=False):
            pytest.fail("the test left processes behind:\n" + "\n".join(leaked), pytrace=False)
        return result

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Fail the session if a wide fixture's process remains."""
        if leaked := self._end_leaked(also_kept=True):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
            reporter = session.config.pluginmanager.get_plugin("terminalreporter")
            if reporter is not None:
                reporter.write_line("")
                reporter.write_line("the session left processes behind:", red=True)
                for line in leaked:
                    reporter.write_line(line)

    def pytest_unconfigure(self) -> None:
        """Take the mark away: later sessions of this process have their own."""
        if os.environ.get(SESSION_VARIABLE) == self.session:
            del os.environ[SESSION_VARIABLE]

    def _end_leaked(self, *, also_kept: bool) -> list[str]:
        deadline = time.monotonic() + self._wait_seconds
        while leaked := [each for each in self._alive() if also_kept or not self._may_stay(each)]:
            if time.monotonic() >= deadline:
                return [line for each in leaked if (line := _end(each))]
            time.sleep(_POLL_SECONDS)
        return []

    def _alive(self) -> list[psutil.Process]:
        return [each for each in psutil.process_iter() if self._is_ours(each)]

    def _is_ours(self, process: psutil.Process) -> bool:
        try:
            if process.pid == os.getpid() or process.create_time() < self._since:
                return False
            if process.status() == psutil.STATUS_ZOMBIE:
                return False  # ended; whoever started it has only not asked yet
            if process.environ().get(SESSION_VARIABLE) != self.session:
                return False
            return not any(name in part for part in process.cmdline() for name in _OF_PYTHON)
        except psutil.Error:
            return False  # ended meanwhile, or another user's: not ours to judge

    def _may_stay(self, process: psutil.Process) -> bool:
        try:
            return process in self._kept or any(each in self._kept for each in process.parents())
        except psutil.Error:
            return True


def _end(process: psutil.Process) -> str:
    """Kill; the line that names it, or nothing if it went by itself."""
    try:
        run = process.environ().get(RUN_VARIABLE, "none")
        line = f"  pid {process.pid} ({RUN_VARIABLE}={run}): {' '.join(process.cmdline())}"
        process.kill()
        process.wait(timeout=10)
    except psutil.NoSuchProcess:
        return ""
    return line


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the one setting."""
    parser.addini(
        "leaked_process_wait_seconds", "how long a test's processes may take to go", default="10"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Start to watch."""
    wait_seconds = float(config.getini("leaked_process_wait_seconds"))
    config.pluginmanager.register(LeakedProcesses(wait_seconds), "leaked-processes-watch")
