"""A made-up country of any size, for the demo, tests and benchmarks."""

from tallyveil.synthetic.entities import ENTITY_COLUMNS, make_entities
from tallyveil.synthetic.files import COUNTRY_FILES, write_population, write_states
from tallyveil.synthetic.population import SyntheticPopulation, make_population, make_states
from tallyveil.synthetic.published import PublishedCounts
from tallyveil.synthetic.safetab import SAFETAB_FILES, write_safetab_country

__all__ = [
    "COUNTRY_FILES",
    "ENTITY_COLUMNS",
    "SAFETAB_FILES",
    "PublishedCounts",
    "SyntheticPopulation",
    "make_entities",
    "make_population",
    "make_states",
    "write_population",
    "write_safetab_country",
    "write_states",
]
