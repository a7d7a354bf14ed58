"""Without the check a candidate is run and timed, whatever it computes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tuner.measure.test_runner import TIMING, baseline, open_runner, run
from tests.tuner.operators import export, loop, task_of
from tests.tuner.operators import from_text as parsed
from tune_farm.tuner.types import Failed, Fault, Measured


@pytest.mark.parametrize("checks", [True, False])
def test_a_wrong_result_is_found_only_where_it_is_looked_for(tmp_path: Path, checks: bool) -> None:
    right = parsed(loop("double", "B[v] = A[v] * T.float32(2)"))
    wrong = parsed(loop("triple", "B[v] = A[v] * T.float32(3)"))
    libraries = [export(each, tmp_path / f"{n}.so") for n, each in enumerate((right, wrong))]
    runner = open_runner(tmp_path, checks=checks)
    try:
        task = task_of(right)
        baseline(runner, task, libraries[0])
        outcome = run(runner, task, libraries[1]).outcome
    finally:
        runner.close()

    if checks:
        assert isinstance(outcome, Failed)
        assert outcome.fault is Fault.WRONG_RESULT
    else:
        assert isinstance(outcome, Measured)
        assert len(outcome.repeats_seconds) == TIMING.repeats
