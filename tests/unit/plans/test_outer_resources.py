"""Predictions for outer passes: near what was measured, never below it, and made without data."""

from pathlib import Path

import numpy as np
import pytest

from tallyveil.config.load import load_plan
from tallyveil.execution.topdown.run import STAGES_BEFORE
from tallyveil.geography.spine import Spine
from tallyveil.plans.outer_resources import largest_family_bytes
from tallyveil.plans.resources import MIB, predict
from tallyveil.plans.sizes import Sizes, sizes_of_spine
from tallyveil.postprocess.estimation import stages_of
from tallyveil.postprocess.passes.stages import stages_of_passes

EXAMPLES = Path(__file__).parents[3] / "examples" / "dhc"


@pytest.fixture(params=["dhc-persons", "dhc-units"])
def product(request):
    return load_plan(EXAMPLES / f"{request.param}.toml")


def rhode_island(people):
    return Sizes((1, 5, 243, 814, 25_181), people, (1, 5, 141, 8, 150))


# Records, and what was measured: memory in MiB, and processor time in seconds.
MEASURED = {"dhc-persons": (1_052_567, 646, 35.0), "dhc-units": (482_932, 593, 24.0)}


def test_predictions_are_near_what_was_measured_and_not_below(product):
    people, memory, seconds = MEASURED[product.schema.name]
    found = predict(product, rhode_island(people))
    assert memory < found.memory / MIB < 2 * memory
    assert seconds < found.total_seconds < 2.5 * seconds


def test_a_larger_family_needs_more_memory():
    usual, large = (Sizes((1, 9, 900), 50_000, (1, 9, most)) for most in (100, 600))
    assert largest_family_bytes(large) > 6 * largest_family_bytes(usual)


def test_stages_are_those_of_a_run(product):
    spine = Spine(
        product.geolevels,
        tuple(np.array([code]) for code in ("44", "44001", "44001000001", "440010000011", "440010000011000")),
        (np.array([0, 1]),) * 4,
    )
    names = {name for name, _ in predict(product, sizes_of_spine(spine)).seconds}
    passes = stages_of_passes(product.estimating, spine)
    assert names == {*STAGES_BEFORE, *stages_of(spine, passes=passes)}
