"""Whole populations at once, where the library makes one state at a time."""

import polars as pl

from tallyveil.synthetic.population import SyntheticPopulation, make_states


def make_population(preset, n_blocks, seed, like=None, n_people=None, n_states=None) -> SyntheticPopulation:
    """All states of `make_states` together."""
    states = list(make_states(preset, n_blocks, seed, like, n_people, n_states))
    facilities = [state.facilities for state in states if state.facilities is not None]
    return SyntheticPopulation(
        preset,
        seed,
        pl.concat([state.records for state in states]),
        pl.concat([state.geography for state in states]),
        pl.concat(facilities) if facilities else None,
    )


def n_persons(population: SyntheticPopulation) -> int:
    """People, or housing units if the records are housing units."""
    return int(population.records["count"].sum())
