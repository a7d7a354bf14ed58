"""Makes the bundle: kernels, schedules with references, this program, and TVM's runtime."""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.bench_cuda_artifacts import MACHINES
from benchmarks.gpu.bundle import MANIFEST, Bundle, Operator, write_manifest
from benchmarks.gpu.compiled import Reference, compiled, reference
from benchmarks.gpu.operators import Drafted, drafts
from benchmarks.gpu.tvm_site import bring_tvm
from benchmarks.report import ROOT, environment
from tune_farm.tuner.build.cuda_compile import compile_cuda, missing_compiler
from tune_farm.tuner.errors import EnvironmentUnusableError, UsageError

_SOURCE = Path(__file__).parent / "kernels" / "check.cu"
#: For which there are kernels alone, no schedules.
_OTHERS = ("sm_120",)
#: What `run` imports, and configurations of GPUs that can be simulated.
_PROGRAM = ("tune_farm/__init__.py", "tuner", "client", "configs", "benchmarks/gpu")
_ENTRY = re.compile(
    r"Compiling entry function '(?P<name>\w+)'(?P<rest>.*?)(?=Compiling entry|\Z)", re.S
)
_REGISTERS = re.compile(r"Used (\d+) registers")


def make(
    folder: Path, *, capabilities: Sequence[str] | None, quick: bool, with_tvm: bool
) -> Bundle:
    """Make it, in place of what is there, and pack it beside itself as a .tar.gz.

    Args:
        folder: of the bundle.
        capabilities: compute capabilities that it is for; None: all that are known.
        quick: one operator, few schedules.
        with_tvm: bring TVM's runtime, too, if a package index can be reached.

    Raises:
        EnvironmentUnusableError: there is no CUDA compiler, or the bundle is too large.
        UsageError: a capability is not known.
    """
    chosen = tuple(MACHINES) if capabilities is None else tuple(capabilities)
    unknown = [each for each in chosen if each not in MACHINES]
    if unknown:
        raise UsageError(
            f"compute capability {unknown[0]!r} is not known", f"known are {', '.join(MACHINES)}"
        )
    lacking = missing_compiler()
    if lacking is not None:
        raise EnvironmentUnusableError(f"no CUDA compiler: {lacking}", "install one of the two")
    if folder.exists() and any(folder.iterdir()) and not (folder / MANIFEST).exists():
        raise EnvironmentUnusableError(f"{folder} holds other things", "name an empty folder")
    part = folder.with_name(f"{folder.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    bundle, total = _fill(part, chosen, quick=quick, with_tvm=with_tvm)
    shutil.rmtree(folder, ignore_errors=True)
    part.rename(folder)
    archive = Path(shutil.make_archive(str(folder), "gztar", folder.parent, folder.name))
    schedules = sum(len(each.schedules) for each in bundle.operators)
    print(
        f"{folder}: {total / 1e6:.1f} MB ({archive}: {archive.stat().st_size / 1e6:.1f} MB), "
        f"{len(bundle.kernels)} architectures, {schedules} schedules, "
        f"TVM's runtime {bundle.tvm.get('version') or 'missing: ' + bundle.tvm['missing']}\n"
        f"on a GPU's machine: python3 {folder.name}/benchmarks/gpu/check.py run --json FILE"
    )
    return replace(bundle, folder=folder)


def _fill(
    folder: Path, capabilities: Sequence[str], *, quick: bool, with_tvm: bool
) -> tuple[Bundle, int]:
    """Make all files; the bundle, and its bytes."""
    own = [f"sm_{each.replace('.', '')}" for each in capabilities]
    architectures = [*own, *(_OTHERS if set(capabilities) == set(MACHINES) else ())]
    kernels, registers = _kernels(folder, architectures)
    operators: list[Operator] = []
    references: dict[str, Reference] = {}  # by task, which is the same for all architectures
    for capability in capabilities:
        print(f"schedules for compute capability {capability} …", file=sys.stderr, flush=True)
        for each in drafts(capability, MACHINES[capability], quick=quick):
            if each.task.id not in references:
                references[each.task.id] = reference(each.task)
            operators.append(_compile(each, folder, capability, references[each.task.id]))
    _copy_program(folder)
    tvm = bring_tvm(folder / "site") if with_tvm else {"missing": "left out by --no-tvm"}
    made = environment()
    bundle = Bundle(
        folder=folder,
        made={name: str(made[name]) for name in ("tune_farm", "git_commit", "python", "platform")},
        kernels=kernels,
        registers=registers,
        operators=tuple(operators),
        tvm=tvm,
    )
    return bundle, write_manifest(bundle)


def _kernels(
    folder: Path, architectures: Sequence[str]
) -> tuple[dict[str, str], dict[str, dict[str, int]]]:
    """The check's own kernels: paths and registers by architecture."""
    source = _SOURCE.read_text()
    paths, registers = {}, {}
    (folder / "kernels").mkdir()
    for architecture in architectures:
        print(f"kernels for {architecture} …", file=sys.stderr, flush=True)
        binary = compile_cuda(source, architecture)
        paths[architecture] = f"kernels/check.{architecture}.cubin"
        (folder / paths[architecture]).write_bytes(binary.cubin)
        registers[architecture] = registers_of(binary.log)
    return paths, registers


def registers_of(log: str) -> dict[str, int]:
    """Registers of a thread, by kernel, from the assembler's report."""
    found = {}
    for entry in _ENTRY.finditer(log):
        used = _REGISTERS.search(entry["rest"])
        if used is not None:
            found[entry["name"]] = int(used[1])
    return found


def _compile(drafted: Drafted, folder: Path, capability: str, right: Reference) -> Operator:
    """An operator with those of its schedules that compile to one kernel worth a measurement."""
    place = Path("operators") / capability / drafted.operator.name
    (folder / place).mkdir(parents=True)
    schedules, ships = [], True
    with tempfile.TemporaryDirectory() as scratch:
        for candidate, schedule in zip(drafted.candidates, drafted.operator.schedules, strict=True):
            made = compiled(drafted.task, candidate, schedule, folder, place, Path(scratch), ships)
            if made is not None:
                schedules.append(made)
                ships = False  # one library of each operator is enough
    places, expected = right
    values = {name: getattr(drafted.operator, name) for name in _KEPT}
    return Operator(**values, schedules=tuple(schedules), places=places, reference=expected)


_KEPT = ("name", "architecture", "task_id", "arguments", "reduction_length", "flops")


def _copy_program(folder: Path) -> None:
    for name in _PROGRAM:
        source = ROOT / name
        files = [source] if source.is_file() else sorted(source.rglob("*"))
        for each in files:
            if each.suffix in (".py", ".toml", ".cu") and "__pycache__" not in each.parts:
                target = folder / each.relative_to(ROOT)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(each, target)
