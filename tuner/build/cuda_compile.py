"""CUDA source to cubin: NVRTC in this process, with nothing but what the kernel needs; else nvcc.

The headers that TVM puts before each kernel cost four times as long to parse as the kernel takes to
compile. They declare types that a few lines declare as well.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

#: What TVM itself compiles with; a model that is built with the winner gets the same code.
_PTXAS = ("-v", "--register-usage-level=10", "--warn-on-local-memory-usage")
_FAST_MATH = "--use_fast_math"
_DECLARATIONS = """\
#define __asm__ asm
#define __volatile__ volatile
#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#endif
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long long int64_t;
typedef unsigned long long uint64_t;
"""
#: TVM's choice between NVRTC's headers and a host compiler's: to its own `#endif`.
_PREAMBLE = re.compile(r"#ifdef __CUDACC_RTC__\n.*?\n#else\n.*?\n#endif\n", re.DOTALL)


class CudaCompileError(Exception):
    """The compiler refused the source; the message is its own."""


class NoCudaCompilerError(Exception):
    """Neither NVRTC nor nvcc is here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    """A binary for one architecture, and what the compiler said of it."""

    cubin: bytes
    log: str


def compile_cuda(source: str, architecture: str) -> Compiled:
    """Compile what TVM generated.

    Args:
        source: CUDA C++ of one module.
        architecture: such as "sm_90a".

    Raises:
        CudaCompileError: the source does not compile.
        NoCudaCompilerError: there is no compiler.
    """
    nvrtc = _nvrtc()
    return _by_nvcc(source, architecture) if nvrtc is None else _by_nvrtc(source, architecture)


def missing_compiler() -> str | None:
    """Why CUDA source can't be compiled here; None if it can."""
    if _nvrtc() is None and _nvcc() is None:
        return "a compiler for CUDA (NVRTC of tune-farm[cuda], or nvcc on PATH)"
    return None


def lean_source(source: str) -> str:
    """The source for NVRTC: small declarations in place of TVM's headers."""
    return _DECLARATIONS + _PREAMBLE.sub("", source, count=1)


@functools.cache
def _nvrtc() -> Any:
    try:
        from cuda.bindings import nvrtc

        nvrtc.nvrtcVersion()  # the bindings load the library when they are first called
    except (ImportError, RuntimeError, OSError):
        return None
    return nvrtc


@functools.cache
def _nvcc() -> str | None:
    return shutil.which("nvcc")


@functools.cache
def include_folder() -> str | None:
    """Where CUDA's headers are: half, bfloat16 and matrix fragments are declared there alone."""
    named = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH")
    nvcc = _nvcc()
    roots = [Path(named)] if named else []
    roots += [Path(nvcc).resolve().parent.parent] if nvcc else []
    roots += [Path("/usr/local/cuda"), *_wheels()]
    folders = (root / "include" for root in roots)
    return next((str(each) for each in folders if (each / "cuda_fp16.h").exists()), None)


def _wheels() -> list[Path]:
    """Where NVIDIA's wheels put what a toolkit holds, by major version."""
    spec = importlib.util.find_spec("nvidia")
    places = spec.submodule_search_locations if spec is not None else None
    return [folder for place in places or () for folder in sorted(Path(place).glob("cu*"))]


def _by_nvrtc(source: str, architecture: str) -> Compiled:
    nvrtc = _nvrtc()
    lean = lean_source(source)
    options = [f"--gpu-architecture={architecture}", "-default-device", "-w", _FAST_MATH]
    options += [f"--ptxas-options={each}" for each in _PTXAS]
    if "#include" in lean:
        folder = include_folder()
        if folder is None:
            raise NoCudaCompilerError(
                "half precision needs CUDA's headers (pip install 'tune-farm[cuda]', or CUDA_HOME)"
            )
        options += [f"-I{folder}", f"-I{folder}/cccl"]
    program = _checked(nvrtc.nvrtcCreateProgram(lean.encode(), b"kernel.cu", 0, None, None))
    try:
        given = [option.encode() for option in options]
        (result,) = nvrtc.nvrtcCompileProgram(program, len(given), given)
        log = bytearray(_checked(nvrtc.nvrtcGetProgramLogSize(program)))
        _checked(nvrtc.nvrtcGetProgramLog(program, log))
        text = log.rstrip(b"\0").decode(errors="replace")
        if result != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            raise CudaCompileError(text or str(result))
        cubin = bytearray(_checked(nvrtc.nvrtcGetCUBINSize(program)))
        _checked(nvrtc.nvrtcGetCUBIN(program, cubin))
        return Compiled(cubin=bytes(cubin), log=text)
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def _checked(answer: tuple[Any, ...]) -> Any:
    """The value of one of NVRTC's calls, which answer (result, value)."""
    result, *values = answer
    if int(result):
        raise CudaCompileError(str(result))
    return values[0] if values else None


def _by_nvcc(source: str, architecture: str) -> Compiled:
    nvcc = _nvcc()
    if nvcc is None:
        raise NoCudaCompilerError(missing_compiler())
    number = architecture.removeprefix("sm_")
    with tempfile.TemporaryDirectory() as folder:
        code, cubin = Path(folder) / "kernel.cu", Path(folder) / "kernel.cubin"
        code.write_text(source)
        command = [nvcc, "-cubin", "-O3", "-w", _FAST_MATH, "-Xptxas", ",".join(_PTXAS)]
        command += ["-gencode", f"arch=compute_{number},code=sm_{number}"]
        done = subprocess.run(  # noqa: S603 - our own command
            [*command, "-o", str(cubin), str(code)], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise CudaCompileError(done.stderr)
        return Compiled(cubin=cubin.read_bytes(), log=done.stderr)
