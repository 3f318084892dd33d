"""Synthetic: a made-up country of any size, for the demo, tests and benchmarks."""

from tallyveil.synthetic.files import write_population
from tallyveil.synthetic.population import SyntheticPopulation, make_population
from tallyveil.synthetic.published import PublishedCounts

__all__ = ["PublishedCounts", "SyntheticPopulation", "make_population", "write_population"]
