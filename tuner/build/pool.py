"""Warm build workers: limits count work, not start-up; a dying worker costs one candidate."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import wait
from pathlib import Path

import psutil

from tune_farm.tuner.build.messages import BuildDone, BuildJob, WorkerReady
from tune_farm.tuner.children.spawn import Birth, Child, ChildDiedError
from tune_farm.tuner.interfaces import Artifact, BuildFailure
from tune_farm.tuner.types import Candidate, Failed, Fault, Task

#: How long a stop may go unnoticed while builds are waited for.
_LONGEST_WAIT_SECONDS = 0.2
#: A build that got less than this part of its limit as CPU time was starved, not slow.
_STARVED = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildOptions:
    """Limits of the build stage."""

    timeout_seconds: float = 10.0  # wall time of one build, start-up excluded
    start_timeout_seconds: float = 120.0  # for a worker to import TVM
    recycle_after: int = 400  # builds, after which a worker is replaced (TVM leaks memory)


class Worker:
    """One worker process and what it is busy with. Used by `BuildPool` alone."""

    def __init__(self, birth: Birth, start_timeout_seconds: float) -> None:
        self.child = Child(birth)
        self.start_deadline = time.monotonic() + start_timeout_seconds
        self.ready = False  #: set when the child said so
        self.builds = 0  #: jobs given so far
        self.known_tasks: set[str] = set()  #: ids whose module the child holds
        self.job: tuple[Candidate, Path] | None = None  #: what it builds now
        self.started = 0.0  #: monotonic time of the current job
        self.cpu_at_start = 0.0

    def give(self, job: BuildJob, candidate: Candidate, now: float) -> None:
        """Hand over a job; the worker must be ready and idle."""
        self.job = (candidate, Path(job.library))
        self.started = now
        self.cpu_at_start = self.cpu_seconds()
        self.builds += 1
        self.known_tasks.add(job.task_id)
        self.child.send(job)

    def cpu_seconds(self) -> float:
        """CPU time of the worker and the compilers it started, seconds."""
        try:
            times = psutil.Process(self.child.pid).cpu_times()
        except psutil.Error:
            return 0.0
        return float(times.user + times.system + times.children_user + times.children_system)


class BuildPool:
    """Compiles candidates of any task on a fixed set of cores; implements `interfaces.Builder`."""

    def __init__(
        self,
        *,
        cores: tuple[int, ...],
        scratch: Path,
        options: BuildOptions,
        name: str,
        should_stop: Callable[[], bool],
    ) -> None:
        """Start the workers, one a core; returns before they are warm.

        Args:
            cores: where they run.
            scratch: where libraries and the workers' stderr go.
            options: limits.
            name: prefix of all names.
            should_stop: asked while builds are waited for; once true, they are abandoned.
        """
        self._cores = cores
        self._scratch = scratch
        self._options = options
        self._name = name
        self._should_stop = should_stop
        self._born = 0
        self._libraries = 0
        self._task: Task | None = None
        self._workers = [self._new_worker(slot) for slot in range(len(cores))]
        self._successors: dict[int, Worker] = {}  #: slot → its next worker, starting up ahead

    def select(self, task: Task) -> None:
        """Name the task that the next `build` calls are about."""
        self._task = task

    def build(self, candidates: Sequence[Candidate]) -> Iterator[Artifact | BuildFailure]:
        """Yield one answer a candidate of the selected task, as each is ready.

        A caller that stops asking abandons what is being built.
        """
        waiting = deque(candidates)
        try:
            while waiting or any(worker.job for worker in self._workers):
                if self._should_stop():
                    return
                self._feed(waiting)
                yield from self._collect()
        finally:
            for slot, worker in enumerate(self._workers):
                if worker.job is not None:
                    self._replace(slot)

    def close(self) -> None:
        """End all workers; safe to call twice."""
        for worker in [*self._workers, *self._successors.values()]:
            worker.child.kill()
        self._workers, self._successors = [], {}

    def _feed(self, waiting: deque[Candidate]) -> None:
        for slot in range(len(self._workers)):
            self._recycle(slot)
            worker = self._workers[slot]
            if waiting and worker.ready and worker.job is None:
                candidate = waiting.popleft()
                try:
                    worker.give(self._job(worker, candidate), candidate, time.monotonic())
                except ChildDiedError:
                    # It died idle: not this candidate's doing.
                    worker.job = None
                    waiting.appendleft(candidate)
                    self._replace(slot)

    def _job(self, worker: Worker, candidate: Candidate) -> BuildJob:
        assert self._task is not None
        assert candidate.task_id == self._task.id, candidate.task_id
        self._libraries += 1
        return BuildJob(
            task_id=candidate.task_id,
            module_json=None if candidate.task_id in worker.known_tasks else self._task.module_json,
            target_json=self._task.target_json,
            trace_json=candidate.trace_json,
            library=str(self._scratch / f"{self._name}-{self._libraries}.so"),
            candidate_id=candidate.id,
            claims=str(self._scratch / f"{self._name}-claims"),
        )

    def _collect(self) -> Iterator[Artifact | BuildFailure]:
        owners = {worker.child.connection: slot for slot, worker in enumerate(self._workers)}
        for connection in wait(list(owners), timeout=self._next_deadline()):
            slot = owners[connection]  # type: ignore[index]
            try:
                message = self._workers[slot].child.receive(0)
            except ChildDiedError as death:
                yield from self._died(slot, death)
                continue
            if isinstance(message, WorkerReady):
                self._workers[slot].ready = True
            elif isinstance(message, BuildDone):
                yield self._finished(slot, message)
        yield from self._overdue()

    def _next_deadline(self) -> float:
        now = time.monotonic()
        ends = [
            self._deadline(worker) for worker in self._workers if worker.job or not worker.ready
        ]
        return max(0.0, min([*ends, now + _LONGEST_WAIT_SECONDS]) - now)

    def _deadline(self, worker: Worker) -> float:
        if worker.ready:
            return worker.started + self._options.timeout_seconds
        return worker.start_deadline

    def _finished(self, slot: int, done: BuildDone) -> Artifact | BuildFailure:
        worker = self._workers[slot]
        assert worker.job is not None
        candidate, library = worker.job
        worker.job = None
        if done.error is None:
            return Artifact(
                candidate=candidate,
                path=library,
                build_seconds=done.seconds,
                kernels=done.kernels,
            )
        fault = Fault.PRUNED_STATIC if done.pruned else Fault.BUILD_ERROR
        failure = Failed(fault=fault, detail=done.error)
        return BuildFailure(candidate=candidate, failure=failure, build_seconds=done.seconds)

    def _died(self, slot: int, death: ChildDiedError) -> Iterator[BuildFailure]:
        worker = self._workers[slot]
        if not worker.ready:
            raise death  # no worker can start here: the caller's environment is broken
        self._replace(slot)
        if worker.job is not None:
            failure = Failed(fault=Fault.WORKER_DIED, detail=death.detail)
            yield BuildFailure(
                candidate=worker.job[0],
                failure=failure,
                build_seconds=time.monotonic() - worker.started,
            )

    def _overdue(self) -> Iterator[BuildFailure]:
        now = time.monotonic()
        for slot, worker in enumerate(self._workers):
            if now < self._deadline(worker) or (worker.ready and worker.job is None):
                continue
            if worker.job is None:
                worker.child.kill()
                raise ChildDiedError(None, f"{worker.child.name} did not start in time")
            limit = self._options.timeout_seconds
            used = worker.cpu_seconds() - worker.cpu_at_start
            fault = Fault.BUILD_TIMEOUT if used >= _STARVED * limit else Fault.HOST_OVERLOAD
            detail = f"build stopped after {limit:.0f} s, of which {used:.1f} s on a core"
            candidate = worker.job[0]
            worker.child.kill()
            self._replace(slot)
            yield BuildFailure(
                candidate=candidate,
                failure=Failed(fault=fault, detail=detail),
                build_seconds=now - worker.started,
            )

    def _recycle(self, slot: int) -> None:
        """Start a worn worker's successor ahead, and swap when it is warm."""
        worker = self._workers[slot]
        if worker.builds < self._options.recycle_after or worker.job is not None:
            return
        if slot not in self._successors:
            self._successors[slot] = self._new_worker(slot)
        successor = self._successors[slot]
        if successor.child.connection.poll():
            successor.child.receive(0)
            successor.ready = True
            worker.child.kill()
            self._workers[slot] = self._successors.pop(slot)

    def _replace(self, slot: int) -> None:
        self._workers[slot].child.kill()
        self._workers[slot] = self._new_worker(slot)

    def _new_worker(self, slot: int) -> Worker:
        self._born += 1
        birth = Birth(
            role="tune_farm.tuner.build.worker",
            name=f"{self._name}-worker-{self._born}",
            cores=(self._cores[slot],),
            threads=1,
            scratch=self._scratch,
            environment={"CUDA_VISIBLE_DEVICES": ""},  # a build may not touch a device
        )
        return Worker(birth, self._options.start_timeout_seconds)
