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
    FOREIGN_USER = (
        "have that user's clients end, or the daemon restarted as your user (as root: with "
        "-multiuser-server); or unset CUDA_MPS_PIPE_DIRECTORY for a daemon of your own"
    )
    FOREIGN_SCOPE = "restart that daemon with CUDA_VISIBLE_DEVICES set to this GPU's UUID alone"
    NOT_ATTACHED = (
        "the pipe directory, /dev/shm and the user id must be the daemon's; in a container: "
        "--ipc=host, and the pipe directory mounted"
    )
    WRONG_DEVICE = (
        "CUDA_VISIBLE_DEVICES has to be its UUID, for daemon and clients; Ray rewrites it in "
        "actors with num_gpus, whatever runtime_env's env_vars say, unless "
        "RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES=1"
    )
    NOT_IN_FORCE = "the share was not applied: end the daemon and let tune-farm start its own"
    CAPPED = (
        "use --sm-share auto, or have the daemon's default raised (set_default_active_thread_"
        "percentage) and its server restarted"
    )
    FAULT = (
        "a client faulted: all clients of that server have to end before new ones can start; with "
        "one daemon a GPU, no other GPU is blocked"
    )
    NOT_READY = (
        "try again: it may be starting, or ending a client; if it stays so, restart the daemon"
    )
    SILENT = "look at 'nvidia-smi' and the kernel's log for Xid errors"
    NO_PARTITIONS = "leave --static-partitions out; they need a driver for CUDA 13.1 or newer"
    FULL = "fewer clients (--clients N): each needs a context and memory of its own"
    EXCLUSIVE = "another process holds the GPU: end it, or set the compute mode to DEFAULT"


#: By CUresult, of the CUDA driver API.
_OF_CUDA = {
    2: MpsProblem.FULL,  # out of memory
    46: MpsProblem.EXCLUSIVE,  # CUDA_ERROR_DEVICE_UNAVAILABLE
    100: MpsProblem.WRONG_DEVICE,  # no device
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
