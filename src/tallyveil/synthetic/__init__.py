"""A made-up country of any size, for the demo, tests and benchmarks."""

from tallyveil.synthetic.country import ENTITY_COLUMNS, make_entities
from tallyveil.synthetic.population import (
    COUNTRY_FILES,
    PRESETS,
    PublishedCounts,
    SyntheticPopulation,
    make_population,
    make_states,
    settled_states,
    write_population,
    write_states,
)

__all__ = [
    "COUNTRY_FILES",
    "ENTITY_COLUMNS",
    "PRESETS",
    "PublishedCounts",
    "SyntheticPopulation",
    "make_entities",
    "make_population",
    "make_states",
    "settled_states",
    "write_population",
    "write_states",
]
