from __future__ import annotations

import errno
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

import tune_farm
from tune_farm.cli import main
from tune_farm.cli.app import COMMANDS, LazyGroup
from tune_farm.cli.errors import verbosity
from tune_farm.tuner.errors import (
    EnvironmentUnusableError,
    RunDirectoryError,
    TuneFarmError,
    UsageError,
)

ROOT = Path(tune_farm.__file__).parent.parent


def ending(action: Callable[[], object], *arguments: str) -> Result:
    """The result of a command line whose one command does `action`."""

    @click.command(name="run")
    @click.option("--count", type=int)
    def command(count: int | None) -> object:
        return action()

    class OneCommand(LazyGroup):
        def get_command(self, _context: click.Context, name: str) -> click.Command | None:
            return command if name == "run" else None

    @click.group(cls=OneCommand)
    @verbosity
    def group() -> None:
        pass

    return CliRunner().invoke(group, list(arguments) or ["run"])


def raising(error: BaseException) -> Callable[[], object]:
    def action() -> object:
        raise error

    return action


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (TuneFarmError, 1),
        (UsageError, 2),
        (EnvironmentUnusableError, 5),
        (RunDirectoryError, 6),
    ],
)
def test_each_error_has_its_code_and_one_line(error: type[TuneFarmError], code: int) -> None:
    result = ending(raising(error("it broke", "mend it")))

    assert result.exit_code == code
    assert result.stderr == "tune-farm: error: it broke; mend it\n"
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (OSError(errno.ENOSPC, "No space left", "/x"), 5, "disk full while writing /x; free some"),
        (OSError(errno.EDQUOT, "Quota"), 5, "disk full; free some"),
        (KeyError("x"), 1, "internal error: KeyError: 'x'; -v for the traceback"),
        (ValueError("one\ntwo"), 1, "internal error: ValueError: one; -v for"),
        (RuntimeError(), 1, "internal error: RuntimeError; -v for the traceback"),
        (EOFError("gone"), 1, "internal error: EOFError: gone; -v for"),
    ],
)
def test_other_errors_are_one_line_too(error: Exception, code: int, line: str) -> None:
    result = ending(raising(error))

    assert result.exit_code == code
    assert line in result.stderr
    assert result.stderr.strip().count("\n") == 0


def test_verbose_shows_the_traceback() -> None:
    result = ending(raising(KeyError("x")), "-v", "run")

    assert result.exit_code == 1
    assert "Traceback" in result.stderr
    assert "Traceback" not in ending(raising(KeyError("x"))).stderr


def test_an_interrupt_is_130() -> None:
    assert ending(raising(KeyboardInterrupt())).exit_code == 130


def test_a_command_may_return_its_code() -> None:
    assert ending(lambda: 4).exit_code == 4
    assert ending(lambda: None).exit_code == 0


@pytest.mark.parametrize(
    "arguments", [("nix",), ("run", "--nix"), ("run", "--count", "x"), ("run", "extra"), ("--nix",)]
)
def test_a_usage_mistake_is_one_line_and_2(arguments: tuple[str, ...]) -> None:
    result = ending(lambda: 0, *arguments)

    assert result.exit_code == 2
    assert result.stderr.startswith("tune-farm: error: ")
    assert result.stderr.count("\n") == 1
    assert "--help'" in result.stderr


def test_the_version_and_the_commands_are_shown() -> None:
    assert tune_farm.__version__ in CliRunner().invoke(main, ["--version"]).stdout

    text = CliRunner().invoke(main, ["--help"]).stdout
    assert all(f"  {name} " in text and line[:40] in text for name, line in COMMANDS.items())


@pytest.mark.parametrize("name", ["devices", "doctor"])
def test_a_command_explains_itself_with_an_example(name: str) -> None:
    text = CliRunner().invoke(main, [name, "--help"]).stdout

    assert f"Example: tune-farm {name}" in text
    assert "--config" in text


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys, tune_farm.cli as cli\n"
        "try: cli.main(['--help'])\n"
        "finally: print(sorted({'tvm', 'ray', 'numpy', 'rich', 'grpc'} & set(sys.modules)))"
    )
    started = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )

    assert done.stdout.endswith("[]\n")
    assert time.monotonic() - started < 5


@pytest.mark.parametrize("arguments", [["--help"], ["forecast", "gpt3-xl", "--gpu", "l4"]])
def test_a_closed_pipe_is_quiet(arguments: list[str]) -> None:
    code = f"import tune_farm.cli as cli; cli.main({arguments})"
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    with process.stderr:
        assert process.stderr.read() == ""
    assert process.wait(timeout=30) == 128 + signal.SIGPIPE


def test_a_table_in_a_closed_pipe_is_quiet() -> None:
    # rich ends the process by itself there.
    code = (
        "from tune_farm.cli.errors import exit_code_of; from rich.console import Console; "
        "import sys; sys.exit(exit_code_of(lambda: Console().print('a line')))"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT
    ) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == b""
        assert process.wait(timeout=30) == 128 + signal.SIGPIPE


def test_a_closed_stdout_is_no_bug() -> None:
    command = f"{sys.executable} -m tune_farm forecast gpt3-xl --gpu l4 >&-"
    done = subprocess.run(command, shell=True, cwd=ROOT, capture_output=True, text=True)

    assert (done.returncode, done.stderr) == (0, "")
