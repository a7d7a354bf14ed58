"""The GPU answers, its kernels run, and they reach every SM that it says it has."""

from __future__ import annotations

from benchmarks.gpu.lab import Earlier, Findings, Lab, SkippedError, ask, require_attached
from benchmarks.gpu.messages import Refused, RollCall, Rolled

#: Blocks of the roll call for each SM, of which two run at a time.
BLOCKS_PER_SM = 8


def run(lab: Lab, earlier: Earlier) -> Findings:
    """Attach without MPS, and call the roll."""
    del earlier
    with lab.alone("driver") as client:
        device = require_attached(client)
        says = f"{device.name}, compute capability {device.compute_capability}"
        results: dict[str, float] = {"sms": device.sm_count}
        try:
            answer = ask(client, RollCall(code=lab.code, blocks=BLOCKS_PER_SM * device.sm_count))
        except SkippedError as reason:
            return Findings(
                says=f"{says}, {device.sm_count} SMs", results=results, notes=[str(reason)]
            )
    if isinstance(answer, Refused):
        notes = [f"kernels do not run: {answer.text}"]
        return Findings(says=f"{says}, {device.sm_count} SMs", results=results, notes=notes)
    assert isinstance(answer, Rolled)
    results["sms_used"] = len(answer.smids)
    return Findings(
        says=f"{says}, {device.sm_count} SMs, blocks ran on {len(answer.smids)}", results=results
    )
