"""What can be wrong with MPS, and what a user can do about each."""

from __future__ import annotations

import enum

from tune_farm.tuner.errors import EnvironmentUnusableError


class MpsProblem(enum.Enum):
    """Causes; the value is the remedy."""

    NO_BINARY = (
        "install the NVIDIA driver's MPS tools (nvidia-compute-utils), or use --sm-share 100"
    )
    NO_DAEMON = "unset CUDA_MPS_PIPE_DIRECTORY to let tune-farm start its own, or start that daemon"
    HANGS = (
        "its server is stuck: end the MPS clients, then the daemon; as root: nvidia-smi --gpu-reset"
    )
    REFUSES = "look into control.log of the daemon; 'tune-farm doctor' shows where"
    FOREIGN_USER = "ask that user to end the daemon, or unset CUDA_MPS_PIPE_DIRECTORY"
    FOREIGN_SCOPE = "restart that daemon with CUDA_VISIBLE_DEVICES set to this GPU's UUID alone"
    NOT_ATTACHED = (
        "the pipe directory, /dev/shm and the user id must be the daemon's; in a container: "
        "--ipc=host, and the pipe directory mounted"
    )
    WRONG_DEVICE = "start the daemon with CUDA_VISIBLE_DEVICES set to this GPU's UUID"
    NOT_IN_FORCE = "the share was not applied: end the daemon and let tune-farm start its own"
    FAULT = "a client faulted: all clients of that server have to end before new ones can start"
    SILENT = "look at 'nvidia-smi' and the kernel's log for Xid errors"
    NO_PARTITIONS = "leave --static-partitions out; they need a driver for CUDA 13.1 or newer"
    FULL = "fewer clients: --clients N; each context counts"
    EXCLUSIVE = "another process holds the GPU: end it, or set the compute mode to DEFAULT"


#: By CUresult, of the CUDA driver API.
_OF_CUDA = {
    46: MpsProblem.EXCLUSIVE,  # CUDA_ERROR_DEVICE_UNAVAILABLE
    205: MpsProblem.NOT_ATTACHED,  # mapping failed: /dev/shm is not the daemon's
    805: MpsProblem.NOT_ATTACHED,
    806: MpsProblem.FAULT,
    807: MpsProblem.FAULT,
    808: MpsProblem.FULL,
    809: MpsProblem.FULL,
    810: MpsProblem.FAULT,
}


class MpsError(EnvironmentUnusableError):
    """MPS can't be used, or its share is not in force."""

    def __init__(self, problem: MpsProblem, cause: str) -> None:
        super().__init__(cause, problem.value)
        self.problem = problem

    @classmethod
    def of_cuda(cls, number: int, cause: str) -> MpsError:
        """What an error of the CUDA driver (CUresult) means where processes share a GPU."""
        return cls(_OF_CUDA.get(number, MpsProblem.NOT_IN_FORCE), cause)

    def __reduce__(self) -> tuple[type[MpsError], tuple[MpsProblem, str]]:  # type: ignore[override]
        return type(self), (self.problem, self.cause)
