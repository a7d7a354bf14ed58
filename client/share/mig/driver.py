"""A GPU's handle for work on its MIG instances; refusals of the driver as cause and remedy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pynvml

from tune_farm.client.devices.nvml import NoDriverError, session
from tune_farm.tuner.errors import EnvironmentUnusableError

_GRANT = (
    "run as root, or have the administrator grant /proc/driver/nvidia/capabilities/mig/config "
    "(containers: NVIDIA_MIG_CONFIG_DEVICES)"
)


@contextmanager
def open_gpu(uuid: str) -> Iterator[Any]:
    """The handle of a GPU, good within.

    Raises:
        EnvironmentUnusableError: the driver refuses this, or something that is asked within.
    """
    try:
        with session():
            yield pynvml.nvmlDeviceGetHandleByUUID(uuid)
    except NoDriverError as error:
        raise EnvironmentUnusableError(str(error), "MIG needs a GPU and its driver") from None
    except pynvml.NVMLError_NoPermission:
        raise EnvironmentUnusableError(
            f"this user may not create or destroy MIG instances on {uuid}", _GRANT
        ) from None
    except pynvml.NVMLError_NotFound:
        raise EnvironmentUnusableError(
            f"{uuid} is no GPU of this machine, or its MIG instances changed meanwhile",
            "see 'tune-farm devices'",
        ) from None
    except pynvml.NVMLError as error:
        raise EnvironmentUnusableError(
            f"the NVIDIA driver refuses work on the MIG instances of {uuid}: {error}",
            "'nvidia-smi mig -lgip' and the kernel's log may tell why",
        ) from None
