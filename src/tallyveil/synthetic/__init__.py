"""A made-up country of any size, for the demo, tests and benchmarks."""

from tallyveil.synthetic.entities import ENTITY_COLUMNS, make_entities
from tallyveil.synthetic.files import COUNTRY_FILES, write_population, write_states
from tallyveil.synthetic.population import (
    PRESETS,
    SyntheticPopulation,
    make_population,
    make_states,
    settled_states,
)
from tallyveil.synthetic.published import PublishedCounts

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
