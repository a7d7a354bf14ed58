"""Variants are chosen by the measured times of all their tasks."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pytest

from tune_farm.server.variants import (
    Alternatives,
    Standing,
    Variant,
    choose,
    costs_of,
    names_of,
    seconds_of,
    tasks_behind,
    tasks_unused,
    tiles_of,
)

DIRECT = Variant(name="direct", tile=None, tasks=("whole",))
SMALL = Variant(name="winograd 2x2", tile=2, tasks=("in 2", "product 2", "out 2"))
LARGE = Variant(name="winograd 4x4", tile=4, tasks=("in 4", "product 4", "out 4"))
BOTH = Alternatives(functions=("f", "g"), variants=(DIRECT, SMALL, LARGE))

Known = Mapping[str, float | None]


class Farm:
    """Tasks with a time, trials, and whether they are open."""

    def __init__(self, seconds: Known, trials: int = 16, closed: tuple[str, ...] = ()) -> None:
        self.seconds, self.trials, self.closed = seconds, trials, closed

    def __call__(self, task: str) -> Standing:
        return Standing(
            seconds=self.seconds.get(task), trials=self.trials, is_open=task not in self.closed
        )


def times(whole: float | None, two: float | None, four: float | None) -> dict[str, float | None]:
    """Seconds of the direct operator and of both products; each transform takes one."""
    transforms = dict.fromkeys(("in 2", "out 2", "in 4", "out 4"), 1.0)
    return {"whole": whole, "product 2": two, "product 4": four, **transforms}


@pytest.mark.parametrize(
    ("known", "chosen"),
    [
        (times(9.0, 8.0, 6.0), LARGE),
        (times(9.0, 6.5, 8.0), SMALL),
        (times(9.0, 8.0, 7.5), DIRECT),  # transforms are charged
        (times(9.0, None, None), DIRECT),
        (times(None, 8.0, None), SMALL),
        (times(None, None, None), DIRECT),
    ],
)
def test_the_fastest_that_is_known_in_full_is_chosen(known: Known, chosen: Variant) -> None:
    farm = Farm(known)

    assert choose(BOTH, farm) is chosen
    expected = {} if chosen is DIRECT else {"f": chosen.tile, "g": chosen.tile}
    assert tiles_of([BOTH], farm) == expected


def test_a_variant_that_was_measured_in_part_takes_forever() -> None:
    assert seconds_of(SMALL, Farm(times(1.0, None, 1.0))) == math.inf
    assert seconds_of(SMALL, Farm(times(1.0, 4.0, 1.0))) == 6.0


@pytest.mark.parametrize(
    ("whole", "trials", "is_behind"),
    [
        (100.0, 15, False),  # too early to tell
        (11.9, 16, False),
        (12.1, 16, True),
        (9.9, 32, False),
        (10.1, 32, True),
    ],
)
def test_patience_is_shorter_the_more_was_tried(whole: float, trials: int, is_behind: bool) -> None:
    farm = Farm(times(whole, 6.0, 6.0), trials)  # both others take 8

    assert tasks_behind([BOTH], farm) == ({"whole"} if is_behind else set())


def test_searched_out_tasks_need_no_patience() -> None:
    # The transforms have one schedule; the product decides how much is known.
    closed = ("in 2", "out 2", "in 4", "out 4")

    assert tasks_behind([BOTH], Farm(times(1.0, 6.0, 6.0), 3, closed)) == set()
    searched_out = Farm(times(7.9, 6.0, 7.0), 3, (*closed, "product 4"))
    assert tasks_behind([BOTH], searched_out) == {"in 4", "product 4", "out 4"}


def test_a_variant_that_can_never_be_measured_is_given_up() -> None:
    failed = Farm(times(5.0, None, 2.0), 6, closed=("product 2",))

    assert tasks_behind([BOTH], failed) == {"in 2", "product 2", "out 2"}
    assert tasks_behind([BOTH], Farm(times(5.0, None, 2.0), 6)) == set()


def test_a_task_that_another_operator_needs_goes_on() -> None:
    other = Variant(name="direct", tile=None, tasks=("another",))
    shared = Variant(name="winograd 4x4", tile=4, tasks=("in 4", "product 4", "another out"))
    second = Alternatives(functions=("h",), variants=(other, shared))
    known = {**times(1.0, 6.0, 6.0), "another": 9.0, "another out": 1.0}

    assert tasks_behind([BOTH, second], Farm(known)) == {"in 2", "product 2", "out 2", "out 4"}
    assert set(tasks_unused([BOTH, second], Farm(known))) == {
        *SMALL.tasks,
        "out 4",
        "another",
    }
    assert names_of([BOTH, second])["in 4"] == "winograd 4x4"


def test_what_a_variant_adds_is_begun_after_all_operators_and_together() -> None:
    costs = {"whole": 9.0, "other": 0.2, "product 2": 5.0, "product 4": 3.0}
    transforms = dict.fromkeys(("in 2", "out 2", "in 4", "out 4"), 0.1)

    order = costs_of(costs | transforms, [BOTH])

    assert (order["whole"], order["other"]) == (9.0, 0.2)
    assert order["in 2"] == order["out 2"] == order["product 2"]
    assert order["in 4"] == order["out 4"] == order["product 4"]
    assert 0.0 > order["product 2"] > order["product 4"]


def test_what_is_not_used_says_why() -> None:
    unused = tasks_unused([BOTH], Farm(times(9.0, None, 6.0)))

    assert unused["whole"] == "winograd 4x4 is faster than direct"
    assert unused["product 2"] == "winograd 2x2 was not measured in full: winograd 4x4 is used"
    assert not unused.keys() & set(LARGE.tasks)
