"""Who the clients of a run are, and how each searches."""

from __future__ import annotations

from pathlib import Path

from tune_farm.client.agent import AgentOptions
from tune_farm.client.share.slot import Slot
from tune_farm.server.config import RunConfig
from tune_farm.server.memory import RunMemory
from tune_farm.server.place import Place
from tune_farm.tuner.build.pool import BuildOptions
from tune_farm.tuner.measure.runner import RunOptions
from tune_farm.tuner.strategy.choice import SearchOptions
from tune_farm.tuner.strategy.draft import DraftOptions
from tune_farm.tuner.strategy.metaschedule import MetaScheduleOptions


def agents_of(
    config: RunConfig, place: Place, temp_dir: Path, memory: RunMemory
) -> dict[str, AgentOptions]:
    """The options of each client, by its name.

    Args:
        config: of the run.
        place: the device and its shares.
        temp_dir: of the run, on this machine.
        memory: what earlier runs taught.
    """
    return {
        slot.name: AgentOptions(
            slot=slot,
            device=place.device,
            simulated=place.simulated,
            scratch=temp_dir / "scratch" / slot.name,
            lane=_lane(temp_dir, slot),
            corunners=place.corunners(slot),
            seed=config.seed,
            search=_search_options(config, place, slot, memory),
            build=BuildOptions(timeout_seconds=config.build_timeout_seconds),
            run=RunOptions(timeout_seconds=config.run_timeout_seconds, checks=config.check),
        )
        for slot in place.slots
    }


def _search_options(
    config: RunConfig, place: Place, slot: Slot, memory: RunMemory
) -> SearchOptions:
    threads = len(slot.build_cores)
    if config.strategy == "draft":
        return DraftOptions(
            machine=place.machine,
            threads=threads,
            keep=config.keep,
            explore=config.explore,
            uses_law=config.predictor == "tile",
            memory=memory.chapters,
        )
    return MetaScheduleOptions(
        sampler="random" if config.strategy == "random" else "evolutionary",
        population=config.population,
        threads=threads,
    )


def _lane(temp_dir: Path, slot: Slot) -> Path | None:
    """Where the clients of one GPU meet."""
    if slot.gpu is None:
        return None
    return temp_dir / "lanes" / "".join(each if each.isalnum() else "-" for each in slot.gpu)
