from __future__ import annotations

import os
from pathlib import Path

import psutil
import pytest

PLUGINS = Path(__file__).parent
NAP = f"54321.{os.getpid()}"  # seconds; ours alone, whoever else tests on this machine
START = (
    "import subprocess\n\ndef start(*more):\n"
    f"    return subprocess.Popen(['sleep', '{NAP}'], **dict(more))\n"
)


@pytest.fixture
def session(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    monkeypatch.setenv("PYTHONPATH", str(PLUGINS))
    pytester.makeini("[pytest]\nleaked_process_wait_seconds = 0.5\n")
    return pytester


def run(session: pytest.Pytester, source: str) -> pytest.RunResult:
    session.makepyfile(START + source)
    return session.runpytest_subprocess("-p", "leaked_processes", "-p", "no:cacheprovider")


def sleepers() -> list[psutil.Process]:
    return [
        each
        for each in psutil.process_iter(["cmdline"])
        if each.info["cmdline"] == ["sleep", NAP] and each.status() != psutil.STATUS_ZOMBIE
    ]


def test_a_leaked_process_fails_its_test_and_is_killed(session: pytest.Pytester) -> None:
    result = run(session, "def test_leaks():\n    start()\n\ndef test_does_not():\n    pass\n")

    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(["the test left processes behind:", f"*: sleep {NAP}"])
    result.stdout.fnmatch_lines(["ERROR *::test_leaks*"])
    assert sleepers() == []


def test_one_that_left_the_process_group_is_found_too(session: pytest.Pytester) -> None:
    result = run(session, "def test_leaks():\n    start(('start_new_session', True))\n")

    result.assert_outcomes(passed=1, errors=1)
    assert sleepers() == []


def test_the_run_it_belongs_to_is_named(
    session: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TUNE_FARM_RUN", "run-7")

    result = run(session, "def test_leaks():\n    start()\n")

    result.stdout.fnmatch_lines(["*TUNE_FARM_RUN=run-7*"])


def test_one_that_ends_in_time_is_no_leak(session: pytest.Pytester) -> None:
    source = (
        "def test_ends():\n    start().kill()\n\n"
        "def test_goes_by_itself():\n    subprocess.Popen(['sleep', '0.2'])\n"
    )

    run(session, source).assert_outcomes(passed=2)


def test_what_a_wide_fixture_starts_may_stay_until_it_is_torn_down(
    session: pytest.Pytester,
) -> None:
    source = (
        "import pytest\n"
        "@pytest.fixture(scope='module')\n"
        "def daemon():\n"
        "    process = start()\n    yield\n    process.kill()\n    process.wait()\n\n"
        "def test_one(daemon):\n    pass\n\ndef test_two(daemon):\n    pass\n"
    )

    run(session, source).assert_outcomes(passed=2)


def test_what_a_wide_fixture_never_ends_fails_the_session(session: pytest.Pytester) -> None:
    source = (
        "import pytest\n"
        "@pytest.fixture(scope='session')\ndef daemon():\n    start()\n\n"
        "def test_one(daemon):\n    pass\n"
    )

    result = run(session, source)

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["the session left processes behind:", f"*: sleep {NAP}"])
    assert sleepers() == []


def test_processes_of_others_are_left_alone(
    session: pytest.Pytester,
) -> None:
    other = psutil.Popen(["sleep", NAP])
    try:
        run(session, "def test_nothing():\n    pass\n").assert_outcomes(passed=1)
        assert other.is_running()
    finally:
        other.kill()
        other.wait()
