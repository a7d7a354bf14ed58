"""The lab on a real GPU: clients and daemons are processes, all ended before a context is left."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import cast

from benchmarks.gpu.bundle import Bundle, Operator
from benchmarks.gpu.keeper import Order
from benchmarks.gpu.lab import Client, Daemon, LateError, SkippedError
from benchmarks.gpu.messages import Answer, Launch, Work
from tune_farm.client.devices.cuda_driver import CudaDevice
from tune_farm.client.share.mps.control import PIPE_DIRECTORY, Control, find_binary
from tune_farm.client.share.mps.errors import MpsError
from tune_farm.client.share.mps.handshake import Attached, pids_of
from tune_farm.tuner.children.spawn import Birth, Child, ChildDiedError, ChildSilentError
from tune_farm.tuner.errors import EnvironmentUnusableError

_ROOT = Path(__file__).resolve().parent.parent.parent
_VISIBLE = "CUDA_VISIBLE_DEVICES"
_ATTACH_SECONDS = 30.0
_LEAVE_SECONDS = 3.0
_KEEPER_SECONDS = 40.0  # of a start or a stop, with all its own deadlines
_MPS_CLIENT, _PLAIN_CLIENT, _TVM_CLIENT = "client", "alone", "runtime"


class ProcessClient:
    """Implements `lab.Client` with a process; `close` ends it."""

    def __init__(self, birth: Birth, machine: Machine, control: Control | None) -> None:
        self._machine = machine
        self._control = control
        self._child = Child(birth)
        try:
            attached = self._receive(_ATTACH_SECONDS)
            assert isinstance(attached, Attached)
        except BaseException:
            self.close()
            raise
        self._attached = attached

    @property
    def attached(self) -> Attached:
        return self._attached

    def start(self, work: Work) -> None:
        self._child.send(work)

    def answer(self) -> Answer:
        return cast(Answer, self._receive(None))

    def close(self) -> None:
        """Let it leave by itself; else end its work on the GPU, then the process."""
        if not self._left() and self._control is not None:
            with contextlib.suppress(MpsError):
                names = pids_of(self._child.pid)
                for server in self._control.servers():
                    for client in names & set(self._control.clients(server)):
                        self._control.terminate(server, client)
        self._child.kill()

    def _left(self) -> bool:
        """Whether it leaves when it is told to; what it still had to say nobody waits for."""
        deadline = time.monotonic() + _LEAVE_SECONDS
        try:
            self._child.send(None)
            while time.monotonic() < deadline:
                self._child.receive(max(0.0, deadline - time.monotonic()))
        except ChildDiedError:
            return True
        except ChildSilentError:
            pass
        return False

    def _receive(self, most_seconds: float | None) -> object:
        left = self._machine.left()
        try:
            return self._child.receive(left if most_seconds is None else min(left, most_seconds))
        except ChildSilentError as silence:
            raise LateError(str(silence)) from None


class MachineDaemon:
    """Implements `lab.Daemon`; the daemon itself is held by a keeper."""

    def __init__(self, machine: Machine, order: Order) -> None:
        self._machine = machine
        self._order = order
        self.control = Control(pipe_directory=order.pipes, binary=order.binary)

    @contextlib.contextmanager
    def client(
        self, name: str, *, percent: float | None = None, partition: str | None = None
    ) -> Iterator[Client]:
        environment = {PIPE_DIRECTORY: str(self._order.pipes), _VISIBLE: self._order.uuid}
        if percent is not None:
            environment["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] = f"{percent:g}"
        if partition is not None:
            environment["CUDA_MPS_SM_PARTITION"] = partition
        with self._machine.process(_MPS_CLIENT, name, environment, self.control) as client:
            yield client

    @contextlib.contextmanager
    def lost_client(self, name: str, *, percent: float) -> Iterator[Client]:
        environment = {
            PIPE_DIRECTORY: str(self._order.folder / "nobody"),
            "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": f"{percent:g}",
            _VISIBLE: self._order.uuid,
        }
        with self._machine.process(_MPS_CLIENT, name, environment, None) as client:
            yield client


class Machine:
    """Implements `lab.Lab`."""

    is_simulated = False

    def __init__(self, bundle: Bundle | None, scratch: Path, visible: str | None) -> None:
        """Look at the GPU.

        Args:
            bundle: kernels; None: parts that need some are skipped.
            scratch: where clients write what they have to say in case they die.
            visible: which GPU, as CUDA_VISIBLE_DEVICES names it; None: the first.

        Raises:
            EnvironmentUnusableError: there is no GPU, or CUDA does not work.
        """
        self._bundle = bundle
        self._scratch = scratch
        self._end = time.monotonic() + _ATTACH_SECONDS
        self._born = 0
        self._visible = visible
        try:
            with self.alone("look") as client:
                attached = client.attached
        except (ChildDiedError, LateError) as error:
            reason = str(error).splitlines()[0]
            raise EnvironmentUnusableError(
                f"a process that asks the CUDA driver does not answer: {reason}",
                "look at 'nvidia-smi' and the kernel's log for Xid errors",
            ) from None
        if attached.error or not attached.devices:
            raise EnvironmentUnusableError(
                f"CUDA can't be used here: {attached.error or 'no device'}",
                "install the NVIDIA driver, or try '--device sim:h100'",
            )
        self.device: CudaDevice = attached.devices[0]
        if not (visible or "").startswith("MIG-"):  # an instance has no other name than its own
            self._visible = self.device.uuid

    @property
    def code(self) -> str:
        if self._bundle is None:
            raise SkippedError("no bundle of kernels was given")
        found = self._bundle.kernels_for(self.device.compute_capability)
        if not found:
            raise SkippedError(
                f"the bundle has no kernels for compute capability {self.device.compute_capability}"
            )
        return found

    @property
    def registers(self) -> Mapping[str, int]:
        known = self._bundle.registers if self._bundle is not None else {}
        return known.get(Path(self.code).suffixes[0].removeprefix("."), {})

    def operators(self) -> Sequence[Operator]:
        capability = self.device.compute_capability
        found = self._bundle.operators_for(capability) if self._bundle is not None else ()
        if not found:
            raise SkippedError(f"the bundle has no schedules for compute capability {capability}")
        return found

    def launch(self, operator: Operator, place: int) -> Launch:
        assert self._bundle is not None
        return operator.launch(operator.schedules[place], self._bundle.folder)

    def library(self, operator: Operator, place: int) -> str:
        assert self._bundle is not None
        library = operator.schedules[place].library
        return str(self._bundle.folder / library) if library else ""

    @contextlib.contextmanager
    def alone(self, name: str) -> Iterator[Client]:
        environment = {PIPE_DIRECTORY: str(self._scratch / "nobody")}
        if self._visible is not None:
            environment[_VISIBLE] = self._visible
        with self.process(_PLAIN_CLIENT, name, environment, None) as client:
            yield client

    @contextlib.contextmanager
    def runtime(self, name: str) -> Iterator[Client]:
        told = self._bundle.tvm if self._bundle is not None else {"missing": "there is no bundle"}
        if "site" not in told:
            raise SkippedError(f"TVM's runtime was not brought: {told.get('missing', 'left out')}")
        assert self._bundle is not None
        site = self._bundle.folder / told["site"]
        libraries = [str(each) for each in cuda_runtimes(site)]
        environment = {
            PIPE_DIRECTORY: str(self._scratch / "nobody"),
            _VISIBLE: str(self._visible),
            "PYTHONPATH": _path(site, _ROOT),
            "TVM_USE_RUNTIME_LIB": "1",
            "LD_LIBRARY_PATH": ":".join(
                [*libraries, *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
            ),
        }
        with self.process(_TVM_CLIENT, name, environment, None) as client:
            yield client

    @contextlib.contextmanager
    def daemon(self, *, static: bool = False) -> Iterator[Daemon]:
        try:
            binary = find_binary()
        except MpsError as error:
            raise SkippedError(error.cause) from None
        # Short, on this node, ours alone: the folder holds a socket, whose path may have 107 bytes.
        folder = Path(tempfile.mkdtemp(prefix="tf-mps-", dir="/tmp"))
        order = Order(
            folder=folder, binary=binary, uuid=self._visible or self.device.uuid, static=static
        )
        given = json.dumps({**asdict(order), "folder": str(folder)})
        keeper = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.gpu.keeper", given],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": _path(_ROOT)},
            start_new_session=True,  # the terminal's Ctrl-C stays away
            text=True,
        )
        assert keeper.stdin is not None
        assert keeper.stdout is not None
        try:
            line = keeper.stdout.readline()
            refusal = json.loads(line)["refusal"] if line else "its keeper died"
            if refusal:
                raise SkippedError(refusal)
            yield MachineDaemon(self, order)
        finally:
            keeper.stdin.close()
            keeper.stdout.close()
            try:
                keeper.wait(_KEEPER_SECONDS)
            except subprocess.TimeoutExpired:
                keeper.kill()
                keeper.wait()

    @contextlib.contextmanager
    def process(
        self, kind: str, name: str, environment: Mapping[str, str], control: Control | None
    ) -> Iterator[ProcessClient]:
        """Start a client."""
        self._born += 1
        role = "benchmarks.gpu.tvm_child" if kind == _TVM_CLIENT else "benchmarks.gpu.client"
        birth = Birth(
            role=role,
            name=f"{self._born}-{name}",
            cores=tuple(sorted(os.sched_getaffinity(0))),
            threads=1,
            scratch=self._scratch,
            environment={"PYTHONPATH": _path(_ROOT), **environment},
        )
        client = ProcessClient(birth, self, control)
        try:
            yield client
        finally:
            client.close()

    def now(self) -> float:
        return time.monotonic()

    def pause(self, seconds: float) -> None:
        time.sleep(min(seconds, self.left()))

    def limit(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def left(self) -> float:
        """Seconds of the part.

        Raises:
            LateError: none.
        """
        left = self._end - time.monotonic()
        if left <= 0:
            raise LateError("the part's time is over")
        return left


def _path(*folders: Path) -> str:
    """Folders to import from, before those that this process was given."""
    given = os.environ.get("PYTHONPATH")
    return os.pathsep.join([*map(str, folders), *([given] if given else [])])


def cuda_runtimes(site: Path) -> list[Path]:
    """Folders with CUDA's runtime library: brought along, or PyTorch's."""
    places = [site / "nvidia", *(Path(each) / "nvidia" for each in sys.path if each)]
    found = {each.parent for place in places for each in place.glob("*/lib/libcudart.so.13*")}
    return sorted(found)
