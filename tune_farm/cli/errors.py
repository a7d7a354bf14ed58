"""What reaches stderr: logs as -v and -q say, and one line, with its exit code, for each error."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import sys
import traceback
from collections.abc import Callable
from typing import Any, TypeVar

import click

from tune_farm.tuner.errors import EnvironmentUnusableError, TuneFarmError, UsageError

_INTERRUPTED = 130  # 128 + SIGINT
_PIPE_CLOSED = 141  # 128 + SIGPIPE: what the shell shows for any program that `head` cuts off

_LEVELS = {"verbose": logging.DEBUG, "quiet": logging.WARNING}

_Command = TypeVar("_Command", bound=Callable[..., Any])

_SOURCES = {
    click.core.ParameterSource.ENVIRONMENT: "environment variable {variable}",
    click.core.ParameterSource.DEFAULT_MAP: "config file {config}",
}


def log_to_stderr() -> None:
    """Send this package's log there, at the level that holds without -v and -q."""
    # Only our own logger: the root belongs to whoever embeds us, or to the test runner.
    logger = logging.getLogger("tune_farm")
    for handler in [old for old in logger.handlers if old.get_name() == "tune-farm-cli"]:
        logger.removeHandler(handler)
    handler = logging.StreamHandler(sys.stderr)
    handler.set_name("tune-farm-cli")
    handler.setFormatter(logging.Formatter("%(message)s"))
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)


def verbosity(command: _Command) -> _Command:
    """Add -v and -q, which set the level of this package's logger and reach no parameter."""
    texts = {
        "quiet": "Only warnings and errors on stderr.",
        "verbose": "Debug messages, and the traceback of an error.",
    }
    for name, text in texts.items():
        command = click.option(
            f"-{name[0]}",
            f"--{name}",
            is_flag=True,
            expose_value=False,
            is_eager=True,
            callback=_set_level,
            help=text,
        )(command)
    return command


def exit_code_of(command: Callable[[], object]) -> int:
    """Run a command to its end; report on stderr what stopped it.

    Args:
        command: its return value is the exit code if it is an int.
    """
    stdout = sys.stdout
    try:
        code = _run(command)
        if sys.stdout is not None:  # it is where the shell closed it
            sys.stdout.flush()
    except BrokenPipeError:
        _let_stdout_go()
        return _PIPE_CLOSED
    except SystemExit as end:
        # click and rich may meet the closed pipe first: one swaps stdout, and both exit with 1.
        if sys.stdout is stdout and not isinstance(end.__context__, BrokenPipeError):
            raise
        return _PIPE_CLOSED
    return code


def source_of(context: click.Context, parameter: click.Parameter) -> str:
    """Where a parameter's value came from, for people: "flag", "environment variable X", …."""
    source = context.get_parameter_source(parameter.name or "")
    if source in (None, click.core.ParameterSource.DEFAULT):
        return "default"
    if source is click.core.ParameterSource.COMMANDLINE:
        return "flag" if isinstance(parameter, click.Option) else "argument"
    variable = f"{context.auto_envvar_prefix}_{(parameter.name or '').upper()}"
    template = _SOURCES.get(source, source.name.lower()) if source else ""
    return template.format(variable=variable, config=context.params.get("config"))


def _set_level(_context: click.Context, parameter: click.Parameter, wanted: bool) -> None:
    if wanted and parameter.name:
        logging.getLogger("tune_farm").setLevel(_LEVELS[parameter.name])


def _run(command: Callable[[], object]) -> int:
    try:
        value = command()
    except BrokenPipeError:
        raise
    except TuneFarmError as error:
        return _report(error)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return error.exit_code
    except click.ClickException as error:
        return _report(_usage_error(error))
    except (KeyboardInterrupt, click.Abort) as error:
        if isinstance(error.__cause__, EOFError):
            return _report_unexpected(error.__cause__)
        return _INTERRUPTED
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return _report(_disk_full(error))
        return _report_unexpected(error)
    except Exception as error:  # noqa: BLE001 - the top of the process: it reports and dies
        return _report_unexpected(error)
    return value if isinstance(value, int) else 0


def _usage_error(error: click.ClickException) -> UsageError:
    cause = error.format_message().rstrip(".")
    if not isinstance(error, click.UsageError) or error.ctx is None:
        return UsageError(cause)
    if isinstance(error, click.BadParameter) and error.param is not None:
        source = source_of(error.ctx, error.param)
        cause += f" (from {source})" if " " in source else ""
    return UsageError(cause, f"see '{error.ctx.command_path} --help'")


def _disk_full(error: OSError) -> EnvironmentUnusableError:
    where = f" while writing {error.filename}" if error.filename else ""
    return EnvironmentUnusableError(
        f"disk full{where}", "free some space, or choose a folder on another disk"
    )


def _report(error: TuneFarmError) -> int:
    _print_line(str(error))
    if _verbose():
        traceback.print_exception(error)
    return error.exit_code


def _report_unexpected(error: BaseException) -> int:
    text = str(error).strip()
    cause = f"{type(error).__name__}: {text.splitlines()[0]}" if text else type(error).__name__
    if _verbose():
        _print_line(f"internal error: {cause}")
        traceback.print_exception(error)
    else:
        _print_line(f"internal error: {cause}; -v for the traceback")
    return 1


def _print_line(text: str) -> None:
    click.echo(f"tune-farm: error: {' '.join(text.split())}", err=True)


def _verbose() -> bool:
    return logging.getLogger("tune_farm").isEnabledFor(logging.DEBUG)


def _let_stdout_go() -> None:
    # The interpreter flushes stdout at exit and would complain about the closed pipe once more.
    with contextlib.suppress(OSError, ValueError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)
