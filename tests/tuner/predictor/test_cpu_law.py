"""The law knows registers, caches and waves: what breaks one of them is predicted slower."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from tests.tuner import operators
from tests.tuner.operators import task_of
from tests.tuner.predictor.machines import CPU
from tune_farm.tuner.predictor.cpu_law import cpu_seconds
from tune_farm.tuner.predictor.cpu_tiles import CpuTiles, cpu_tiles
from tune_farm.tuner.predictor.machine import Cpu
from tune_farm.tuner.space.decisions import Tiling
from tune_farm.tuner.space.design import DesignSpace
from tune_farm.tuner.space.nest import Nest

SIZE = 96
UNROLL = 1  # place of "16" among the options of a CPU sketch: 0, 16, 64, 512


@pytest.fixture(scope="module")
def nest() -> Nest:
    (plot, *_) = DesignSpace(task_of(operators.matmul(SIZE, SIZE, SIZE)), seed=1).plots
    assert plot.nest is not None
    return plot.nest


def tiles_of(
    nest: Nest, rows: Sequence[int], columns: Sequence[int], steps: Sequence[int], cpu: Cpu = CPU
) -> CpuTiles:
    """What the law sees of the draft whose three axes are split as given, outermost first."""
    given = iter((rows, columns, steps))
    genes = []
    for decision in nest.sketch.decisions:
        if isinstance(decision, Tiling):
            (found,) = np.flatnonzero((decision.table == np.array(next(given))).all(axis=1))
            genes.append(int(found))
        else:
            genes.append(UNROLL)
    return cpu_tiles(nest, np.array([genes]), cpu)


def seconds_of(
    nest: Nest, rows: Sequence[int], columns: Sequence[int], steps: Sequence[int], cpu: Cpu = CPU
) -> float:
    return float(cpu_seconds(tiles_of(nest, rows, columns, steps, cpu), cpu)[0])


#: Four rows of sixteen columns: eight accumulators of eight lanes.
GOOD = ([4, 6, 1, 4], [1, 6, 1, 16], [2, 48])


def test_the_body_is_what_the_innermost_loops_unroll_to(nest: Nest) -> None:
    body = tiles_of(nest, *GOOD).body

    assert body.lanes == [1.0]
    assert body.ragged == [0.0]
    assert body.by_compiler == [0.0]
    assert body.elements == [64.0]
    assert body.depth == [1.0]
    assert body.accumulators == [8.0]
    assert body.operands == [3.0]  # two vectors of the right matrix, one broadcast of the left
    assert body.multiply_adds == [8.0]
    assert body.loads == [6.0]  # those two, and four broadcasts
    assert body.chain == [96.0]  # no spatial loop is between the two of the reduction
    assert body.executions == [SIZE**3 / 64]
    assert tiles_of(nest, *GOOD).jobs == [4.0]


def test_outputs_in_turn_share_neither_loads_nor_accumulators(nest: Nest) -> None:
    # Two rows are left for the loop around the 4 steps that are unrolled: 2 groups of 2 rows.
    body = tiles_of(nest, [24, 1, 2, 2], [6, 1, 1, 16], [24, 4]).body

    assert body.groups == [2.0]
    assert body.accumulators == [4.0]
    assert body.depth == [4.0]
    assert body.loads == [4 * (2 + 2)]
    assert body.chain == [24.0]
    assert body.apart == [2.0]
    assert body.is_updated_once == [0.0]


def test_results_that_wait_for_each_other_are_slow(nest: Nest) -> None:
    long = [4, 6, 1, 4], [6, 1, 1, 16], [6, 16]  # 64 statements: eight chains of 16 steps
    fewer = [16, 6, 1, 1], [6, 1, 1, 16], [2, 48]  # two chains of 48: nothing else to do meanwhile
    assert seconds_of(nest, *fewer) > 2 * seconds_of(nest, *long)


def test_a_vector_of_twelve_is_two_pieces(nest: Nest) -> None:
    body = tiles_of(nest, [4, 6, 1, 4], [8, 1, 1, 12], [2, 48]).body

    assert body.ragged == [1.0]
    assert body.accumulators == [8.0]  # twelve elements are eight and four
    assert body.lanes == [0.75]


def test_where_no_loop_is_a_vector_the_compiler_finds_one(nest: Nest) -> None:
    body = tiles_of(nest, [4, 24, 1, 1], [6, 1, 16, 1], [48, 2]).body

    assert body.by_compiler == [1.0]
    assert body.depth == [2.0]
    assert body.accumulators == [2.0]  # sixteen elements of a row


def test_a_tile_that_does_not_fit_the_registers_is_slower(nest: Nest) -> None:
    too_large = ([4, 3, 1, 8], [1, 6, 1, 16], [2, 48])

    assert tiles_of(nest, *too_large).body.accumulators == [16.0]
    assert seconds_of(nest, *too_large) > 1.5 * seconds_of(nest, *GOOD)
    roomy = replace(CPU, vector_registers=32)
    assert seconds_of(nest, *too_large, cpu=roomy) <= seconds_of(nest, *GOOD, cpu=roomy)


def test_half_empty_vectors_are_slower(nest: Nest) -> None:
    narrow = ([4, 6, 1, 4], [1, 24, 1, 4], [2, 48])

    assert tiles_of(nest, *narrow).body.lanes == [0.5]
    assert seconds_of(nest, *narrow) > 1.5 * seconds_of(nest, *GOOD)


def test_short_chains_store_their_accumulators_more_often(nest: Nest) -> None:
    rows, columns = [4, 1, 6, 4], [1, 6, 1, 16]  # six tiles between the reduction's two loops
    long, short = [2, 48], [48, 2]

    bodies = [tiles_of(nest, rows, columns, steps).body for steps in (long, short)]
    assert [(float(b.depth[0]), float(b.chain[0])) for b in bodies] == [(1.0, 48.0), (2.0, 1.0)]
    assert seconds_of(nest, rows, columns, short) > seconds_of(nest, rows, columns, long)


def test_it_is_never_faster_than_the_multiply_adds_allow(nest: Nest) -> None:
    peak = CPU.clock_hertz * CPU.fused_multiply_adds * CPU.vector_bytes / 4
    genes = nest.sketch.draw(500, np.random.default_rng(0))

    seconds = cpu_seconds(cpu_tiles(nest, genes, CPU), CPU)

    assert np.isfinite(seconds).all()
    assert (seconds >= SIZE**3 / peak).all()


def test_a_cache_that_holds_everything_is_filled_once(nest: Nest) -> None:
    genes = nest.sketch.draw(200, np.random.default_rng(0))
    large = replace(CPU, cache_bytes=(1 << 20, 1 << 21, 1 << 22))

    refills = cpu_tiles(nest, genes, large).refill_bytes[0]

    assert (refills == 3 * 4 * SIZE**2).all()


def test_smaller_caches_are_never_refilled_less(nest: Nest) -> None:
    genes = nest.sketch.draw(500, np.random.default_rng(0))

    near, middle, far = cpu_tiles(nest, genes, CPU).refill_bytes

    assert (near >= middle).all()
    assert (middle >= far).all()
    assert (far >= 3 * 4 * SIZE**2).all()


def test_the_share_decides_which_schedule_is_the_best(nest: Nest) -> None:
    """Three jobs are three waves of one core, but two of two cores, the second half empty."""
    three = ([3, 8, 1, 4], [1, 6, 1, 16], [2, 48])
    four = ([4, 6, 1, 4], [1, 6, 1, 16], [2, 48])
    one, two = CPU, replace(CPU, cores=2)

    assert seconds_of(nest, *three, cpu=one) == pytest.approx(
        seconds_of(nest, *four, cpu=one), rel=0.01
    )
    assert seconds_of(nest, *three, cpu=two) > 1.3 * seconds_of(nest, *four, cpu=two)
