import numpy as np
import pytest

from tallyveil.errors import ConfigError
from tallyveil.schema.presets import load_preset
from tallyveil.synthetic.country import make_geography
from tallyveil.synthetic.people import ADULT, RACES, UNDER_18, make_people, make_totals


def test_axes_are_those_of_the_preset() -> None:
    schema = load_preset("race-age")
    assert schema.attribute("race_ethnicity").levels == RACES
    assert schema.attribute("voting_age").code("under_18") == UNDER_18
    assert schema.attribute("voting_age").code("18_plus") == ADULT


def test_blocks_are_empty_skewed_and_segregated() -> None:
    generator = np.random.Generator(np.random.PCG64(11))
    geography = make_geography(20_000, generator)
    people = make_people(geography, make_totals(geography, generator), generator)
    assert people.shape == (20_000, 2, 8)
    assert people.min() == 0
    totals = people.sum(axis=(1, 2))
    assert 0.33 < (totals == 0).mean() < 0.47
    populated = totals[totals > 0]
    assert 1.5 * np.median(populated) < populated.mean() < 100
    assert populated.max() <= 2_500
    races = people.sum(axis=(0, 1))
    assert 0.4 < races[RACES.index("white")] / totals.sum() < 0.8
    assert (races > 0).all()
    minors = people[:, UNDER_18].sum() / totals.sum()
    assert 0.18 < minors < 0.32
    # Segregation: the share of one race varies between tracts far beyond chance.
    tract = geography["tract"].rle_id().to_numpy()
    black = np.bincount(tract, people[:, :, RACES.index("black")].sum(axis=1))
    everyone = np.bincount(tract, totals)
    assert np.std((black / np.maximum(everyone, 1))[everyone > 0]) > 0.05


@pytest.mark.parametrize("n_people", [130_000, 500_000, 3_000_000])
def test_the_people_asked_for_are_there_to_the_last(n_people: int) -> None:
    generator = np.random.Generator(np.random.PCG64(5))
    geography = make_geography(8_000, generator)
    totals = make_totals(geography, generator, n_people)
    assert totals.people.sum() == n_people
    assert totals.people.max() <= 2_500
    assert 0.3 < (totals.people == 0).mean() < 0.5


@pytest.mark.parametrize("n_people", [10, 20_000_000])
def test_people_that_do_not_fit_are_refused(n_people: int) -> None:
    generator = np.random.Generator(np.random.PCG64(5))
    with pytest.raises(ConfigError, match=f"number of people: got {n_people}"):
        make_totals(make_geography(5_000, generator), generator, n_people)
