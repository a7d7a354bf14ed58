"""One run, from its configuration to its summary."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from tune_farm.server.agents import agents_of
from tune_farm.server.config import RunConfig
from tune_farm.server.events import TASKS, EventLog, pruned_of
from tune_farm.server.failures import FailureLog
from tune_farm.server.farm import Farm
from tune_farm.server.form_choice import Wanted
from tune_farm.server.ground import Ground, ground
from tune_farm.server.ledger import Ledger
from tune_farm.server.memory import RunMemory, open_memory
from tune_farm.server.model_job import make_job
from tune_farm.server.place import Place, open_place, wish_of
from tune_farm.server.preparation import Prepared, prepare
from tune_farm.server.progress import picture_of
from tune_farm.server.provenance import environment, header_of
from tune_farm.server.report.screen import Screen
from tune_farm.server.report.summary import Summary, summary_to_json
from tune_farm.server.run_directory import (
    JOURNAL,
    OpenMode,
    RunDirectory,
    check_out,
    new_run_id,
)
from tune_farm.server.search import Search
from tune_farm.server.state import FarmState, Limits
from tune_farm.server.tvm_export import export_database
from tune_farm.server.verdict import Verdict
from tune_farm.sharding.layout import Layout
from tune_farm.tuner.errors import RunDirectoryError
from tune_farm.tuner.records.journal import Journal, read_journal
from tune_farm.tuner.records.query import still_failed
from tune_farm.tuner.records.schema import Header, difference
from tune_farm.tuner.types import Record, Task


def run(config: RunConfig, *, say: Callable[[str], None], screen: Screen) -> Summary:
    """Tune a model as configured; everything started is ended when this returns or raises.

    Args:
        config: what to do.
        say: shows the user one line at once.
        screen: shows progress.

    Raises:
        TuneFarmError: why there is no summary.
    """
    started = time.monotonic()
    check_out(config.out, config.mode)  # before anything takes seconds
    run_id = new_run_id(config.spec.model)
    with ExitStack() as stack:
        base = stack.enter_context(ground(run_id))
        place = stack.enter_context(open_place(wish_of(config), root=base.temp_dir, say=say))
        # First: a model that can't be used leaves no directory behind.
        prepared = prepare(
            config.spec,
            device=place.device,
            machine=place.machine,
            target=config.target,
            wanted=_wanted(config),
            selection=config.tasks,
            with_weights=place.simulated is None,
        )
        say(place.headline)
        directory = stack.enter_context(
            RunDirectory.create(config.out, run_id=run_id, mode=config.mode)
        )
        say(
            f"{len(prepared.tasks)} tasks to tune, tensors {prepared.lowered.layout.value}"
            f"{_variants_text(prepared)}; run directory {directory.path}"
        )
        header = header_of(
            config,
            run_id=directory.run_id,
            device=place.device,
            share=place.share,
            target_json=prepared.target_json,
            lowered=prepared.lowered,
        )
        journal = _open_journal(directory, config, header)
        stack.callback(journal.close)
        memory = open_memory(_memory_folder(config, place), place.machine, journal.header)
        if memory.headline:
            say(memory.headline)
        directory.write_environment(environment(place.device, memory=memory.provenance))
        directory.write_config(config.to_toml())
        directory.write_model(prepared.module_json)
        search = _tune(config, place, prepared, directory, journal, memory, base, say, screen)
        summary = Verdict(
            config=config,
            place=place,
            prepared=prepared,
            search=search,
            interrupted_by=base.interrupts.received,
            wall_seconds=time.monotonic() - started,
            directory=directory.path,
        ).summary()
        ships = _ships_tuned(summary, search)
        # The module of variants that fell short together would be slow without their schedules.
        final = prepared.with_tiles(dict(summary.winograd_tiles))
        directory.write_model(final.module_json)
        export_database(directory.path, prepared.tasks, _gained(search) if ships else ())
        directory.write_summary(summary_to_json(summary))
        return summary


def _wanted(config: RunConfig) -> Wanted:
    """The form asked for; a run that goes on keeps the layout that was chosen."""
    layout = config.layout
    if layout is None and config.mode is OpenMode.RESUME and config.out is not None:
        layout = Layout(read_journal(config.out / JOURNAL).header.layout)
    return Wanted(
        layout=layout,
        fast_math=config.fast_math,
        winograd=config.winograd,
        dtype=config.dtype,
    )


def _variants_text(prepared: Prepared) -> str:
    count = len(prepared.found.alternatives)
    return f", {count} operators in several variants" if count else ""


def _with_variants(prepared: Prepared, search: Search) -> Prepared:
    """The model with the variants that are the fastest by measurement."""
    return prepared.with_tiles(search.state.tiles)


def _ships_tuned(summary: Summary, search: Search) -> bool:
    """Whether the tuned schedules are exported; not if the model was compared and fell short.

    Nor if their times were made up: plain TVM would take them for measurements.
    """
    if summary.simulated:
        return False
    if search.comparison_failure is not None:
        return False
    return summary.end_to_end is None or summary.end_to_end.shipped == "tuned"


def _open_journal(directory: RunDirectory, config: RunConfig, wanted: Header) -> Journal:
    if config.mode is not OpenMode.RESUME:
        return Journal.create(directory.journal_path, wanted)
    journal = Journal.open(directory.journal_path)
    differs = difference(journal.header, wanted)
    if differs is not None:
        journal.close()
        raise RunDirectoryError(
            f"cannot resume {directory.path}: {differs}",
            "run it as it was begun, or name another directory with --out",
        )
    directory.retire_summary()
    return journal


def _tune(
    config: RunConfig,
    place: Place,
    prepared: Prepared,
    directory: RunDirectory,
    journal: Journal,
    memory: RunMemory,
    base: Ground,
    say: Callable[[str], None],
    screen: Screen,
) -> Search:
    temp_dir, interrupts = base.temp_dir, base.interrupts
    farm = Farm(agents_of(config, place, temp_dir, memory), address=config.address)
    with ExitStack() as stack:
        stack.callback(farm.close)
        pruned = pruned_of(directory.events_path)
        events = EventLog(directory.events_path)
        stack.callback(events.close)
        events.append(TASKS, tasks=[_named(task) for task in prepared.tasks])
        farm.start(temp_dir)
        interrupts.hold()
        if farm.dashboard_url:
            say(f"Ray dashboard: {farm.dashboard_url}")
        search = Search(
            state=_state(config, place, prepared, journal),
            farm=farm,
            journal=journal,
            events=events,
            failures=FailureLog(directory.failures_path),
            tasks={task.id: task for task in prepared.tasks},
            budget_seconds=config.budget_seconds,
            pruned=pruned,
            make_job=lambda: make_job(
                _with_variants(prepared, search), directory.path, temp_dir, _gained(search)
            ),
            show=lambda search: screen.update(picture_of(search)),
            keep=memory.keep,
        )
        with screen:
            search.run(interrupts)
        if interrupts.received is not None:
            say("interrupted: what was measured is saved; ending what runs …")
        return search


def _named(task: Task) -> dict[str, object]:
    return {"id": task.id, "name": task.name, "weight": task.weight}


def _memory_folder(config: RunConfig, place: Place) -> Path | None:
    """Where earlier runs' lessons are; None where nothing learns from them, or could."""
    is_real = place.simulated is None
    learns = is_real and config.strategy == "draft" and config.predictor == "tile"
    return config.memory if learns else None


def _state(config: RunConfig, place: Place, prepared: Prepared, journal: Journal) -> FarmState:
    limits = Limits(
        trials_per_task=config.trials_limit_per_task,
        trials=config.trials,
        compares=prepared.can_run and place.simulated is None,
    )
    # Until something is measured, a task's cost is its work; the exact unit does not matter.
    alternatives = prepared.found.alternatives
    costs = {task.id: task.weight * task.flops + task.bytes_moved for task in prepared.tasks}
    failed = still_failed(journal.records) if config.retry_failed else {}
    return FarmState(
        Ledger(prepared.tasks, journal.records),
        costs,
        limits,
        alternatives,
        retries=[task.id for task in prepared.tasks if task.id in failed],
    )


def _gained(search: Search) -> tuple[Record, ...]:
    """The schedule of each task of the model that gained."""
    unused = search.state.unused
    return tuple(
        entry.best
        for task_id, entry in search.state.ledger.entries.items()
        if entry.gained and entry.best is not None and task_id not in unused
    )
