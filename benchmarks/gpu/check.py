"""The on-device check: one command for the day a GPU is at hand.

`prepare`, on any machine with this project, makes a bundle of less than 60 MB: kernels, schedules,
this program. `run`, on a machine with one recent NVIDIA GPU, Python, NumPy and neither network nor
Ray nor TVM, asks in less than eight minutes what tune-farm's shares rest on. It changes no setting
of the card and leaves no daemon behind. `run --device sim:h100` is a dry run without a GPU.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path[0:0] = [] if str(ROOT) in sys.path else [str(ROOT)]  # also as a plain script

from benchmarks.gpu.bundle import MANIFEST, Bundle, read_bundle  # noqa: E402
from benchmarks.gpu.conduct import PARTS, Outcome, Part, conduct  # noqa: E402
from benchmarks.gpu.lab import Lab  # noqa: E402
from benchmarks.gpu.machine import Machine  # noqa: E402
from benchmarks.gpu.report import document_of, show, write_document  # noqa: E402
from benchmarks.gpu.simulated import SimulatedGpuLab  # noqa: E402
from tune_farm.client.sim.gpus import PREFIX, simulated_gpu  # noqa: E402
from tune_farm.tuner.errors import TuneFarmError, UsageError  # noqa: E402

_BUNDLE = ROOT / "build" / "gpu-check"
#: Eight minutes, less what the last part may take to end its clients and daemon.
_SECONDS = 440.0
#: They would bind the check's own clients and daemons.
_OTHERS = "CUDA_MPS_"


def run(arguments: argparse.Namespace) -> int:
    """Check a GPU, or go through the motions; 1 if a part failed, skipped ones do not count."""
    parts = _parts(arguments.parts)
    for name in [each for each in os.environ if each.startswith(_OTHERS)]:
        print(f"{name}={os.environ.pop(name)} is left out of account", file=sys.stderr)
    begin = time.monotonic()
    bundle = _bundle(arguments)
    outcomes: list[Outcome] = []
    code = 0
    with tempfile.TemporaryDirectory(prefix="tf-check-") as scratch:
        lab = _lab(arguments.device, bundle, Path(scratch))
        try:
            for outcome in conduct(lab, parts, arguments.seconds):
                outcomes.append(outcome)
                show(outcome, is_simulated=lab.is_simulated)
                _write(arguments, lab, outcomes, bundle, time.monotonic() - begin)
        except KeyboardInterrupt:
            print("interrupted: clients and daemons are ended", file=sys.stderr)
            code = 130
        _write(arguments, lab, outcomes, bundle, time.monotonic() - begin)
    states = [each.state for each in outcomes]
    mark = "SIMULATED: " if lab.is_simulated else ""
    print(
        f"\n{mark}{states.count('done')} parts done, {states.count('skipped')} skipped, "
        f"{states.count('failed')} failed, in {time.monotonic() - begin:.0f} s"
    )
    return code or int("failed" in states)


def prepare(arguments: argparse.Namespace) -> int:
    """Make the bundle."""
    from benchmarks.gpu.prepare import make

    make(
        arguments.out,
        capabilities=arguments.capability.split(",") if arguments.capability else None,
        quick=arguments.quick,
        with_tvm=not arguments.no_tvm,
    )
    return 0


def _parts(names: str | None) -> tuple[Part, ...]:
    known = {part.name: part for part in PARTS}
    chosen = names.split(",") if names else list(known)
    for name in chosen:
        if name not in known:
            raise UsageError(f"there is no part {name!r}", f"there are {', '.join(known)}")
    return tuple(known[name] for name in chosen)


def _bundle(arguments: argparse.Namespace) -> Bundle | None:
    """The bundle; a dry run needs none."""
    inside = ROOT if (ROOT / MANIFEST).is_file() else _BUNDLE
    folder = arguments.bundle or inside
    if arguments.device.startswith(PREFIX) and not (folder / MANIFEST).is_file():
        return None
    return read_bundle(folder)


def _lab(device: str, bundle: Bundle | None, scratch: Path) -> Lab:
    if not device.startswith(PREFIX):
        return Machine(bundle, scratch, None if device == "auto" else device.removeprefix("cuda:"))
    gpu = simulated_gpu(device)
    if bundle is not None:
        reason = f"the bundle has no schedules for {gpu.compute_capability}"
        return SimulatedGpuLab(gpu, bundle.operators_for(gpu.compute_capability), reason)
    try:
        from benchmarks.gpu.operators import draft_operators
    except ImportError as error:
        return SimulatedGpuLab(gpu, (), f"no bundle, and none can be drafted here: {error}")
    return SimulatedGpuLab(gpu, draft_operators(gpu.compute_capability, gpu.machine, quick=True))


def _write(
    arguments: argparse.Namespace,
    lab: Lab,
    outcomes: Sequence[Outcome],
    bundle: Bundle | None,
    seconds: float,
) -> None:
    """After each part: what is known by then is not lost."""
    if arguments.json:
        quick = arguments.parts is not None
        document = document_of(lab, outcomes, quick=quick, bundle=bundle, seconds=seconds)
        write_document(document, arguments.json)


def _end(number: int, frame: Any) -> None:
    """As Ctrl-C: contexts are left, clients and daemons end."""
    del number, frame
    raise KeyboardInterrupt


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    verbs = parser.add_subparsers(required=True)
    making = verbs.add_parser(
        "prepare", help="make the bundle; needs this project and NVRTC or nvcc"
    )
    making.add_argument("--out", type=Path, default=_BUNDLE, metavar="DIR")
    making.add_argument("--quick", action="store_true", help="one operator, few schedules")
    making.add_argument("--capability", metavar="9.0,…", help="compute capabilities that it is for")
    making.add_argument("--no-tvm", action="store_true", help="leave TVM's runtime out")
    making.set_defaults(do=prepare)
    running = verbs.add_parser("run", help="check the GPU of this machine")
    running.add_argument("--bundle", type=Path, metavar="DIR", help="as prepare made it")
    running.add_argument(
        "--device", default="auto", help="auto, cuda:0, GPU-…, or sim:h100 for a dry run"
    )
    running.add_argument("--json", type=Path, metavar="FILE", help="write all findings there")
    running.add_argument("--parts", metavar="A,B", help="some of them only")
    running.add_argument("--seconds", type=float, default=_SECONDS, help="for all parts together")
    running.set_defaults(do=run)
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, _end)
    # Also where a shell had it ignored: whoever sends it wants an end in order.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return int(arguments.do(arguments))
    except TuneFarmError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
