"""Launches kernels through the CUDA driver's own library: a cubin and `ctypes` are all it takes."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tune_farm.client.devices.cuda_driver import CudaDriver, CudaError

#: CUfunction_attribute: shared memory of a launch above 48 KiB has to be asked for.
_MOST_DYNAMIC_SHARED = 8
_USUAL_SHARED_BYTES = 48 << 10
#: What results are filled with before a launch: as float32 a NaN.
_POISON_BYTE = 0xFF

#: CU_DEV_RESOURCE_TYPE_SM, CU_GREEN_CTX_DEFAULT_STREAM.
_SMS, _WITH_DEFAULT_STREAM = 1, 1

Parameter: TypeAlias = ctypes.c_void_p | ctypes.c_int32 | ctypes.c_uint64


class _Resource(ctypes.Structure):
    """CUdevResource: 144 bytes in all versions so far; only the count of SMs is read."""

    _fields_ = (
        ("type", ctypes.c_int),
        ("padding", ctypes.c_ubyte * 92),
        ("sms", ctypes.c_uint),
        ("rest", ctypes.c_ubyte * 44),
    )


class Kernels(CudaDriver):
    """Code, memory and launches of this process; `attach` must have been called in it."""

    def __init__(self) -> None:
        super().__init__()
        self._modules: dict[str, ctypes.c_void_p] = {}  #: by path
        self._functions: dict[tuple[str, str], ctypes.c_void_p] = {}  #: by path and name
        self._start, self._end = (self._event() for _ in range(2))

    def function(self, code: str, name: str, shared_bytes: int = 0) -> ctypes.c_void_p:
        """A kernel of a cubin.

        Raises:
            CudaError: the cubin is for another architecture or a newer driver, or lacks it.
        """
        found = self._functions.get((code, name))
        if found is None:
            found = ctypes.c_void_p()
            module = self._module(code)
            self._call("cuModuleGetFunction", ctypes.byref(found), module, name.encode())
            self._functions[code, name] = found
        if shared_bytes > _USUAL_SHARED_BYTES:
            wanted = ctypes.c_int(shared_bytes)
            self._call("cuFuncSetAttribute", found, ctypes.c_int(_MOST_DYNAMIC_SHARED), wanted)
        return found

    def allocate(self, size: int) -> ctypes.c_void_p:
        """Device memory, freed with the process."""
        pointer = ctypes.c_void_p()
        self._call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(size))
        return pointer

    def write(self, to: ctypes.c_void_p, values: NDArray[np.generic]) -> None:
        """Copy an array to the device."""
        values = np.ascontiguousarray(values)
        source = ctypes.c_void_p(values.ctypes.data)
        self._call("cuMemcpyHtoD_v2", to, source, ctypes.c_size_t(values.nbytes))

    def read(self, pointer: ctypes.c_void_p, values: NDArray[np.generic]) -> None:
        """Copy from the device into an array, as much as it holds."""
        target = ctypes.c_void_p(values.ctypes.data)
        self._call("cuMemcpyDtoH_v2", target, pointer, ctypes.c_size_t(values.nbytes))

    def poison(self, pointer: ctypes.c_void_p, size: int) -> None:
        """Fill with what no right result looks like."""
        byte = ctypes.c_ubyte(_POISON_BYTE)
        self._call("cuMemsetD8_v2", pointer, byte, ctypes.c_size_t(size))

    def starter(
        self,
        function: ctypes.c_void_p,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        shared_bytes: int,
        parameters: Sequence[Parameter],
    ) -> Callable[[], None]:
        """What starts a kernel in two microseconds, all its arguments made beforehand.

        Errors of the kernel come with whatever waits for it.
        """
        addresses = (ctypes.c_void_p * len(parameters))(
            *(ctypes.addressof(each) for each in parameters)
        )
        sizes = [ctypes.c_uint(each) for each in (*grid, *block, shared_bytes)]
        arguments = (function, *sizes, None, addresses, None)
        start = self._library.cuLaunchKernel
        kept = tuple(parameters)  # their addresses are what is passed

        def launch() -> None:
            result: int = start(*arguments)
            if result != 0:
                raise CudaError(result, f"cuLaunchKernel of {len(kept)}: {self._name(result)}")

        return launch

    def synchronize(self) -> None:
        """Wait for all that was started.

        Raises:
            CudaError: a kernel faulted, of this process or of one that shares a server with it.
        """
        self._call("cuCtxSynchronize")

    def begin(self) -> None:
        """From here on the GPU's clock counts."""
        self._call("cuEventRecord", self._start, None)

    def end(self) -> float:
        """Seconds on the GPU's clock since `begin`; waits for what was started."""
        self._call("cuEventRecord", self._end, None)
        self._call("cuEventSynchronize", self._end)
        milliseconds = ctypes.c_float()
        self._call("cuEventElapsedTime", ctypes.byref(milliseconds), self._start, self._end)
        return milliseconds.value / 1e3

    def limit_sms(self, sms: int) -> int:
        """Make a green context of so many SMs this thread's context; how many it got.

        Code, memory and events are those of the context that is current: this comes first.
        """
        device = ctypes.c_int()
        self._call("cuDeviceGet", ctypes.byref(device), 0)
        whole, mine, rest = _Resource(), _Resource(), _Resource()
        self._call("cuDeviceGetDevResource", device, ctypes.byref(whole), ctypes.c_int(_SMS))
        groups = ctypes.c_uint(1)
        self._call(
            "cuDevSmResourceSplitByCount",
            ctypes.byref(mine),
            ctypes.byref(groups),
            ctypes.byref(whole),
            ctypes.byref(rest),
            ctypes.c_uint(0),
            ctypes.c_uint(sms),
        )
        description, green, context = (ctypes.c_void_p() for _ in range(3))
        self._call(
            "cuDevResourceGenerateDesc",
            ctypes.byref(description),
            ctypes.byref(mine),
            ctypes.c_uint(1),
        )
        flags = ctypes.c_uint(_WITH_DEFAULT_STREAM)
        self._call("cuGreenCtxCreate", ctypes.byref(green), description, device, flags)
        self._call("cuCtxFromGreenCtx", ctypes.byref(context), green)
        self._call("cuCtxSetCurrent", context)
        self._modules, self._functions = {}, {}
        self._start, self._end = (self._event() for _ in range(2))
        return int(mine.sms)

    def _module(self, code: str) -> ctypes.c_void_p:
        found = self._modules.get(code)
        if found is None:
            found = ctypes.c_void_p()
            image = ctypes.create_string_buffer(Path(code).read_bytes())
            self._call("cuModuleLoadData", ctypes.byref(found), image)
            self._modules[code] = found
        return found

    def _event(self) -> ctypes.c_void_p:
        event = ctypes.c_void_p()
        self._call("cuEventCreate", ctypes.byref(event), ctypes.c_uint(0))
        return event

    def _call(self, function: str, *arguments: object) -> None:
        try:
            super()._call(function, *arguments)
        except AttributeError:
            raise CudaError(0, f"this CUDA driver has no {function}") from None
