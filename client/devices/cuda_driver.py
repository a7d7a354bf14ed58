"""Asks the CUDA driver what this process was given; attaches it to MPS, if there is a daemon.

What the driver answers is fixed for a process once it was asked, so this runs in children only.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

_LIBRARY = "libcuda.so.1"
#: `CUdevice_attribute` of the CUDA driver API.
_SHARED_PER_BLOCK_OPTIN, _REGISTERS_PER_SM, _SHARED_PER_SM = 97, 82, 81
_MULTIPROCESSORS, _MAJOR, _MINOR = 16, 75, 76
_CLOCK_KILOHERTZ, _MEMORY_KILOHERTZ, _BUS_BITS, _L2_BYTES, _THREADS_PER_SM = 13, 36, 37, 38, 39
_THREADS_PER_BLOCK, _WARP, _BLOCKS_PER_SM = 1, 10, 106


class CudaError(Exception):
    """The driver refused; `number` is CUresult, 0 where the library itself is missing."""

    def __init__(self, number: int, text: str) -> None:
        super().__init__(text)
        self.number = number


@dataclass(frozen=True, slots=True, kw_only=True)
class CudaDevice:
    """One device as this process may use it."""

    uuid: str  # "GPU-…"; the driver gives a MIG instance's in the same form
    name: str
    sm_count: int  # those that this process may use
    memory_bytes: int
    compute_capability: str  # "9.0"
    clock_hertz: float
    memory_clock_hertz: float
    memory_bus_bits: int
    l2_bytes: int
    threads_per_sm: int
    blocks_per_sm: int
    threads_per_block: int
    warp: int
    cuda: int  # the driver's version as CUDA writes it: 1000 * major + 10 * minor
    registers_per_sm: int
    shared_bytes_per_sm: int
    shared_bytes_per_block: int


class CudaDriver:
    """The driver's library, initialized."""

    def __init__(self) -> None:
        """Initialize.

        Raises:
            CudaError: there is no driver, no device, or MPS refuses us.
        """
        try:
            self._library = ctypes.CDLL(_LIBRARY)
        except OSError as error:
            raise CudaError(0, f"no CUDA driver: {error}") from None
        self._call("cuInit", 0)

    def devices(self) -> tuple[CudaDevice, ...]:
        """All devices, in the order in which CUDA counts them."""
        count = ctypes.c_int()
        self._call("cuDeviceGetCount", ctypes.byref(count))
        return tuple(self._device(ordinal) for ordinal in range(count.value))

    def attach(self) -> None:
        """Make a context on the first device: from here on MPS counts us as a client.

        Raises:
            CudaError: it can't be made.
        """
        context = ctypes.c_void_p()
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        self._call("cuCtxSetCurrent", context)

    def _device(self, ordinal: int) -> CudaDevice:
        device = ctypes.c_int()
        self._call("cuDeviceGet", ctypes.byref(device), ordinal)
        name = ctypes.create_string_buffer(256)
        self._call("cuDeviceGetName", name, len(name), device)
        uuid = (ctypes.c_ubyte * 16)()
        self._call("cuDeviceGetUuid_v2", uuid, device)
        memory = ctypes.c_size_t()
        self._call("cuDeviceTotalMem_v2", ctypes.byref(memory), device)

        def attribute(number: int) -> int:
            value = ctypes.c_int()
            self._call("cuDeviceGetAttribute", ctypes.byref(value), number, device)
            return value.value

        return CudaDevice(
            uuid=_uuid_text(bytes(uuid)),
            name=name.value.decode(errors="replace"),
            sm_count=attribute(_MULTIPROCESSORS),
            memory_bytes=memory.value,
            compute_capability=f"{attribute(_MAJOR)}.{attribute(_MINOR)}",
            clock_hertz=attribute(_CLOCK_KILOHERTZ) * 1e3,
            memory_clock_hertz=attribute(_MEMORY_KILOHERTZ) * 1e3,
            memory_bus_bits=attribute(_BUS_BITS),
            l2_bytes=attribute(_L2_BYTES),
            threads_per_sm=attribute(_THREADS_PER_SM),
            blocks_per_sm=attribute(_BLOCKS_PER_SM),
            threads_per_block=attribute(_THREADS_PER_BLOCK),
            warp=attribute(_WARP),
            cuda=self._version(),
            registers_per_sm=attribute(_REGISTERS_PER_SM),
            shared_bytes_per_sm=attribute(_SHARED_PER_SM),
            shared_bytes_per_block=attribute(_SHARED_PER_BLOCK_OPTIN),
        )

    def _version(self) -> int:
        version = ctypes.c_int()
        self._call("cuDriverGetVersion", ctypes.byref(version))
        return version.value

    def _call(self, function: str, *arguments: object) -> None:
        result: int = getattr(self._library, function)(*arguments)
        if result != 0:
            raise CudaError(result, f"{function}: {self._name(result)}")

    def _name(self, number: int) -> str:
        text = ctypes.c_char_p()
        self._library.cuGetErrorName(number, ctypes.byref(text))
        return f"{text.value.decode() if text.value else 'an unknown error'} ({number})"


def _uuid_text(raw: bytes) -> str:
    digits = raw.hex()
    parts = (digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])
    return f"GPU-{'-'.join(parts)}"


def same_device(uuid: str, wanted: str) -> bool:
    """Whether the driver's UUID is that of a GPU or MIG instance, by what follows the prefix."""
    return uuid.partition("-")[2].lower() == wanted.partition("-")[2].lower()
