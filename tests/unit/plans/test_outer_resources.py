"""Predictions for outer passes: near what was measured, never below it, and made without data."""

from pathlib import Path

import numpy as np
import pytest

from tallyveil.geography.build import spine_from_prefixes
from tallyveil.plans.from_toml.load import load_plan
from tallyveil.plans.resources import (
    MIB,
    Sizes,
    largest_family_bytes,
    largest_lift_bytes,
    pass_seconds,
    predict,
    sizes_of_spine,
)
from tallyveil.postprocess.estimation import stages_of
from tallyveil.postprocess.passes.groups import stages_of_passes
from tallyveil.products.topdown.run.run import STAGES_BEFORE

EXAMPLES = Path(__file__).parents[3] / "examples" / "dhc"


@pytest.fixture(params=["dhc-persons", "dhc-units"])
def product(request):
    return load_plan(EXAMPLES / f"{request.param}.toml")


RHODE_ISLAND = ((1, 5, 244, 815, 25_181), (1, 5, 141, 7, 234))
MADE_UP = ((1, 10, 479, 1_689, 50_000), (1, 10, 159, 9, 238))

# Geounits and most children, records, and what was measured: memory in MiB, and processor time in seconds.
MEASURED = {
    "dhc-persons": [(RHODE_ISLAND, 1_052_567, 646, 35.0), (MADE_UP, 1_962_636, 738, 93.0)],
    "dhc-units": [(RHODE_ISLAND, 482_932, 593, 24.0), (MADE_UP, 852_786, 687, 40.0)],
}


@pytest.mark.parametrize("state", [0, 1])
def test_predictions_are_near_what_was_measured_and_not_below(product, state):
    (geounits, most_children), people, memory, seconds = MEASURED[product.schema.name][state]
    found = predict(product, Sizes(geounits, people, most_children))
    assert memory < found.memory / MIB < 2 * memory
    assert seconds < found.total_seconds < 2.5 * seconds


# Lift passes of the persons and of the units whose household sizes add up, and their processor time in seconds.
LIFTED = [(3, 17.2), (5, 27.0)]


@pytest.mark.parametrize(("number", "seconds"), LIFTED)
def test_predictions_of_lift_passes_are_near_what_was_measured_and_not_below(number, seconds):
    geounits, most_children = RHODE_ISLAND
    sizes, levels = Sizes(geounits, 1_052_567, most_children), ("State", "County", "Tract", "Group", "Block")
    filled, lifts = (9_000, 17_000, 180_000, 230_000, 600_000), (True,) * number
    plain, lifted = (
        dict(pass_seconds(passes, levels, sizes, filled))
        for passes in ((False, False), (*lifts, False, False))
    )
    found = [lifted[f"pass {one} of {level}"] for one in range(1, number + 1) for level in levels]
    assert seconds < sum(found) < 2.5 * seconds
    assert sum(lifted.values()) - sum(found) == pytest.approx(
        sum(plain.values())
    )  # the other passes as before


def test_lift_passes_need_memory_for_the_finest_geounits():
    sizes = Sizes((1, 9, 900), 50_000, (1, 9, 100))
    assert largest_lift_bytes((False, False), sizes) == 0
    assert largest_lift_bytes((True, False), sizes) >= 900 * 2_400  # less was measured


def test_a_larger_family_needs_more_memory():
    usual, large = (Sizes((1, 9, 900), 50_000, (1, 9, most)) for most in (100, 600))
    assert largest_family_bytes(large) > 6 * largest_family_bytes(usual)


def test_stages_are_those_of_a_run(product):
    spine = spine_from_prefixes(np.array(["440010000011000"]), product.geolevels, (2, 5, 11, 12, 15))
    names = {name for name, _ in predict(product, sizes_of_spine(spine)).seconds}
    passes = stages_of_passes(product, spine)
    assert names == {*STAGES_BEFORE, *stages_of(spine, passes=passes)}
