"""A made-up country of any size, for the demo, tests and benchmarks."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    from tallyveil.products.safetab.made_up import SAFETAB_FILES, write_safetab_country

__all__ = [
    "COUNTRY_FILES",
    "ENTITY_COLUMNS",
    "PRESETS",
    "SAFETAB_FILES",
    "PublishedCounts",
    "SyntheticPopulation",
    "make_entities",
    "make_population",
    "make_states",
    "settled_states",
    "write_population",
    "write_safetab_country",
    "write_states",
]


def __getattr__(name: str) -> Any:
    # Population groups bring a compiler along, which a made-up country does not need.
    if name not in ("SAFETAB_FILES", "write_safetab_country"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.safetab"), name)
