"""TVM's runtime for a machine that has no package index: for Python 3.12, without the compiler."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import zipfile
from importlib.metadata import version
from pathlib import Path

_PYTHON = "3.12"
_PLATFORMS = ("2_28", "2_27", "2_24", "2_17")
#: Folders of packages that nothing imports.
_UNUSED = {"3rdparty", "include", "src", "cython", "cpp", "cmake", "tests", "share", "lib64"}


def bring_tvm(site: Path) -> dict[str, str]:
    """Put TVM, its runtime's libraries and CUDA's into a folder that can be imported from.

    Returns:
        "site" and "version" for the manifest; or "missing", and why.
    """
    tvm_version = version("apache-tvm")
    wanted = (
        f"apache-tvm-ffi=={version('apache-tvm-ffi')}",  # its core is made for one Python
        "typing_extensions",
        "ml_dtypes",
        "nvidia-cuda-runtime>=13,<14",
    )
    with tempfile.TemporaryDirectory() as scratch:
        failed = _download(wanted, Path(scratch))
        if failed:
            return {"missing": failed}
        for wheel in sorted(Path(scratch).glob("*.whl")):
            with zipfile.ZipFile(wheel) as archive:
                names = [each for each in archive.namelist() if _is_used(Path(each))]
                archive.extractall(site, names)
    _copy_tvm(site)
    return {"site": site.name, "version": tvm_version}


def _download(wanted: tuple[str, ...], folder: Path) -> str:
    """Fetch wheels for the other machine; why not, or nothing."""
    platforms = [f"--platform=manylinux_{each}_x86_64" for each in _PLATFORMS]
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    command += ["--only-binary=:all:", f"--python-version={_PYTHON}", *platforms]
    command += ["--platform=manylinux2014_x86_64", "--dest", str(folder), *wanted]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        return f"pip could not fetch it: {lines[0] if lines else done.stderr.strip()[:200]}"
    return ""


def _copy_tvm(site: Path) -> None:
    """The installed TVM's Python and its runtime, not its compiler of 250 MB."""
    import tvm

    package = Path(tvm.__file__).parent
    for each in sorted(package.rglob("*")):
        name = each.relative_to(package.parent)
        is_runtime = each.name.startswith("libtvm_runtime")
        if each.is_file() and (is_runtime or (each.suffix == ".py" and _is_used(name))):
            (site / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(each, site / name)


def _is_used(name: Path) -> bool:
    return not _UNUSED & set(name.parts[1:-1]) or name.parts[0] == "nvidia"
