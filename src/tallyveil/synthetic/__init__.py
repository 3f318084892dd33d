"""Synthetic: a made-up country of any size, for the demo, tests and benchmarks."""

from tallyveil.synthetic.files import write_population, write_states
from tallyveil.synthetic.population import SyntheticPopulation, make_population, make_states
from tallyveil.synthetic.published import PublishedCounts
from tallyveil.synthetic.safetab import write_safetab_country

__all__ = [
    "PublishedCounts",
    "SyntheticPopulation",
    "make_population",
    "make_states",
    "write_population",
    "write_safetab_country",
    "write_states",
]
