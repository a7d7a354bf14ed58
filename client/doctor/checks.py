"""What `doctor` looks at: each check is one line with its remedy, and none of them raises."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tune_farm.client.devices.compiler import require_compiler
from tune_farm.client.doctor.check import Check, Status
from tune_farm.client.doctor.gpu_checks import gpu_checks
from tune_farm.client.doctor.trial import Trial, try_out, try_probe
from tune_farm.tuner.errors import EnvironmentUnusableError

_GIB = 1 << 30
_LEAST_DISK_BYTES = 1 * _GIB
_LEAST_SHM_BYTES = 256 << 20
_TVM = "0.27.0.post1"
_FFI = "0.1.14.post"
_REINSTALL = f"pip install 'apache-tvm=={_TVM}' 'apache-tvm-ffi>=0.1.14.post0,<0.1.15'"
_PACKAGES = (
    "cloudpickle", "grpcio", "numpy", "nvidia-ml-py", "onnx", "platformdirs", "psutil", "ray",
    "scipy", "tornado", "xgboost",
)  # fmt: skip
_RAY_IMPORT = "import ray; print('Ray', ray.__version__)"
_RAY_CLUSTER = """
import ray, sys
# "local": never join whatever cluster the temp folder remembers.
ray.init(address="local", num_cpus=1, include_dashboard=False, log_to_driver=False,
         _temp_dir=sys.argv[1])
print("Ray", ray.__version__, "started and ran", ray.get(ray.remote(lambda: "a task").remote()))
ray.shutdown()
"""


def run_checks(*, full: bool) -> Iterator[Check]:
    """Yield each check as it ends.

    Args:
        full: also start a private Ray cluster, and prove a share of each GPU; both are ended.
    """
    yield _python()
    yield _tvm_version()
    yield _ffi_version()
    yield _packages()
    compiler = _compiler()
    yield compiler
    yield _of_trial("TVM JSON", try_probe("tvm-json", timeout_seconds=60), _REINSTALL)
    yield _tvm_build(compiler)
    yield _of_trial("Ray", try_out(_RAY_IMPORT, timeout_seconds=60), "pip install 'ray[default]'")
    if full:
        yield _ray_cluster()
    yield from gpu_checks(os.environ, full=full)
    yield _disk("disk: working folder", Path.cwd())
    yield _disk("disk: temporary folder", Path(tempfile.gettempdir()))
    yield _shared_memory()
    yield _writable()


def _python() -> Check:
    version = ".".join(str(part) for part in sys.version_info[:3])
    if (3, 10) <= sys.version_info[:2] < (3, 14):
        return Check(name="Python", status=Status.OK, detail=version)
    return Check(
        name="Python",
        status=Status.FAILED,
        detail=f"{version} is not supported",
        remedy="use Python 3.10 to 3.13",
    )


def _tvm_version() -> Check:
    version = _installed("apache-tvm")
    if version == _TVM:
        return Check(name="apache-tvm", status=Status.OK, detail=version)
    detail = f"{version or 'not installed'}; this version of tune-farm needs {_TVM}"
    return Check(name="apache-tvm", status=Status.FAILED, detail=detail, remedy=_REINSTALL)


def _ffi_version() -> Check:
    version = _installed("apache-tvm-ffi")
    if version and version.startswith(_FFI):
        return Check(name="apache-tvm-ffi", status=Status.OK, detail=version)
    detail = (
        f"{version or 'not installed'}; TVM {_TVM} works with 0.1.14.post0 and .post1 only: "
        "0.1.13 fails at import, 0.1.15 crashes when TVM writes a database"
    )
    return Check(name="apache-tvm-ffi", status=Status.FAILED, detail=detail, remedy=_REINSTALL)


def _packages() -> Check:
    versions = {name: _installed(name) for name in _PACKAGES}
    missing = [name for name, version in versions.items() if version is None]
    if missing:
        return Check(
            name="packages",
            status=Status.FAILED,
            detail=f"not installed: {', '.join(missing)}",
            remedy=f"pip install {' '.join(missing)}",
        )
    detail = ", ".join(f"{name} {version}" for name, version in versions.items())
    return Check(name="packages", status=Status.OK, detail=detail)


def _compiler() -> Check:
    try:
        return Check(name="C compiler", status=Status.OK, detail=require_compiler())
    except EnvironmentUnusableError as error:
        return Check(
            name="C compiler", status=Status.FAILED, detail=error.cause, remedy=error.remedy
        )


def _tvm_build(compiler: Check) -> Check:
    if compiler.status is Status.FAILED:
        # TVM would die of a TypeError that names nothing.
        detail = "not tried: there is nothing to link with"
        return Check(name="TVM build", status=Status.FAILED, detail=detail, remedy=compiler.remedy)
    trial = try_probe("tvm-build", timeout_seconds=60)
    return _of_trial(
        "TVM build", trial, "mend the failed lines above; if there is none, report this"
    )


def _ray_cluster() -> Check:
    # Ray puts sockets below it, whose whole path may have 107 bytes.
    folder = tempfile.mkdtemp(prefix="tf-", dir="/tmp")
    try:
        trial = try_out(_RAY_CLUSTER, folder, timeout_seconds=120)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return _of_trial("Ray cluster", trial, "free memory, or look for a firewall on this host")


def _of_trial(name: str, trial: Trial, remedy: str) -> Check:
    if trial.passed:
        return Check(name=name, status=Status.OK, detail=trial.detail)
    return Check(name=name, status=Status.FAILED, detail=trial.detail, remedy=remedy)


def _disk(name: str, folder: Path) -> Check:
    try:
        free = shutil.disk_usage(folder).free
    except OSError as error:
        return Check(name=name, status=Status.FAILED, detail=str(error), remedy="choose another")
    detail = f"{free / _GIB:.1f} GiB free in {folder}"
    if free >= _LEAST_DISK_BYTES:
        return Check(name=name, status=Status.OK, detail=detail)
    return Check(name=name, status=Status.FAILED, detail=detail, remedy="free at least 1 GiB there")


def _shared_memory() -> Check:
    name, folder = "shared memory", "/dev/shm"  # noqa: S108
    try:
        total = shutil.disk_usage(folder).total
    except OSError:
        return Check(name=name, status=Status.NOTE, detail=f"no {folder}: Ray uses a slower folder")
    detail = f"{folder} of {total / _GIB:.2f} GiB"
    if total >= _LEAST_SHM_BYTES:
        return Check(name=name, status=Status.OK, detail=detail)
    return Check(
        name=name,
        status=Status.NOTE,
        detail=f"{detail}: Ray uses a slower folder",
        remedy="in a container: docker run --shm-size=1g",
    )


def _writable() -> Check:
    folder = Path.cwd()
    if os.access(folder, os.W_OK | os.X_OK):
        return Check(name="permissions", status=Status.OK, detail=f"{folder} is writable")
    return Check(
        name="permissions",
        status=Status.FAILED,
        detail=f"{folder} is not writable: runs cannot be stored",
        remedy="work in another folder, or give --out",
    )


def _installed(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
