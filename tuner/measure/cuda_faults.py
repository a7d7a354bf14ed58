"""What an error that CUDA reports says about the candidate that ran.

A failed launch leaves the process as it was. An error while a kernel runs is reported by every
later call, too (NVIDIA's CUDA driver API calls it unrecoverable): the process has to end.
"""

from __future__ import annotations

from tune_farm.tuner.types import Fault

#: Parts of messages, by what they tell: of CUresult's and cudaError's names, and of their texts.
_ACCESS = (
    "ILLEGAL_ADDRESS",
    "illegal memory access",
    "MISALIGNED_ADDRESS",
    "misaligned address",
    "INVALID_ADDRESS_SPACE",
    "INVALID_PC",
    "HARDWARE_STACK_ERROR",
)
_RESOURCES = (
    "OUT_OF_RESOURCES",
    "too many resources requested",
    "OUT_OF_MEMORY",
    "out of memory",
)
#: The launch was refused; nothing ran.
_REFUSED = (*_RESOURCES, "INVALID_VALUE", "invalid argument", "INVALID_CONFIGURATION")
#: The device's, or a neighbor's doing: the MPS server is gone, or ended this client.
_NOT_OURS = ("MPS_CLIENT_TERMINATED", "MPS_RPC_FAILURE", "MPS_SERVER_NOT_READY")
_TIMEOUT = ("LAUNCH_TIMEOUT", "the launch timed out")


def fault_of(message: str) -> Fault:
    """The fault that an error of a CUDA run is."""
    for fault, parts in (
        (Fault.ILLEGAL_ACCESS, _ACCESS),
        (Fault.OUT_OF_RESOURCES, _RESOURCES),
        (Fault.WORKER_DIED, _NOT_OURS),
        (Fault.RUN_TIMEOUT, _TIMEOUT),
    ):
        if _has(message, parts):
            return fault
    return Fault.RUN_ERROR


def is_lasting(message: str) -> bool:
    """Whether the process can do nothing more on the device."""
    return not _has(message, _REFUSED)


def _has(message: str, parts: tuple[str, ...]) -> bool:
    return any(part.lower() in message.lower() for part in parts)
