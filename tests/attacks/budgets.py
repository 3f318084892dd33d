"""The budgets at which releases are attacked, and the release files that spend them."""

import tomllib
from dataclasses import dataclass
from fractions import Fraction
from importlib import resources
from typing import Any

from tallyveil.schema.presets import load_preset

DHC_PERSONS = Fraction(24811, 5000)
"""Rho of the persons of the 2020 Demographic and Housing Characteristics."""
REDISTRICTING = Fraction(1173587180, 471061179)
"""Rho of the persons of the 2020 redistricting data from State down."""
LARGE = Fraction("741.489")
"""Rho of a release with next to no noise. By the published conversion, epsilon is then at most 1000 at delta 1e-10."""
GEOLEVELS = ("State", "County", "Tract", "Block_Group", "Block")
PREFIXES = [2, 5, 11, 12, 15]


@dataclass(frozen=True, slots=True)
class Budget:
    """A budget and its name in the tables of docs/attacks.md."""

    name: str
    rho: Fraction


def budgets_from(production: Fraction) -> tuple[Budget, ...]:
    """From a tenth of production's budget to one at which there is next to no noise."""
    return (
        Budget("a tenth", production / 10),
        Budget("production", production),
        Budget("4 times", production * 4),
        Budget("16 times", production * 16),
        Budget("epsilon 1000", LARGE),
    )


def people_schema() -> dict[str, Any]:
    """Sex, age in 23 groups, Hispanic origin and race in 7 groups: 644 cells, of which the DHC has tables."""
    dhc = load_preset("dhc-persons")
    ages, races = (list(groups_of(name)) for name in ("agePyramid23groups", "cenrace_7lev"))
    minors = [age for age in ages if age in ("0_4", "5_9", "10_14", "15_17")]
    return {
        "name": "people",
        "attributes": [
            {"name": "sex", "levels": list(dhc.attribute("sex").levels)},
            {"name": "age", "levels": ages},
            {"name": "hispanic", "levels": list(dhc.attribute("hispanic").levels)},
            {"name": "race", "levels": races},
        ],
        "recodes": [
            {
                "name": "votingage",
                "attribute": "age",
                "groups": {"under_18": minors, "18_plus": [age for age in ages if age not in minors]},
            }
        ],
    }


def groups_of(recode: str) -> dict[str, tuple[str, ...]]:
    """The groups of a recode of the DHC's persons: label -> levels."""
    (found,) = [one.groups for one in load_preset("dhc-persons").recodes if one.name == recode]
    return dict(found)


TABLES = ("total", "sex*age*race", "sex*age*hispanic", "votingage*hispanic*race")
"""The tables of blocks that are attacked: those of P12A to P12G, of P12H, and of P1 to P4."""


def people_release(rho: Fraction) -> dict[str, Any]:
    """A release file for `people_schema`: geolevel shares as in the redistricting data, query shares of our own."""
    shares = _redistricting_strategy()["geolevel_shares"]
    return {
        "release": {"name": "people"},
        "records": {"path": "people.parquet", "geocode": "geocode"},
        "geography": {
            "path": "geography.parquet", "geocode": "geocode", "geolevels": list(GEOLEVELS), "prefix_lengths": PREFIXES,
        },
        "schema": people_schema(),
        "privacy": {"neighbours": "bounded", "mechanism": "discrete_gaussian", "rho": str(rho)},
        "strategy": {
            "rho": str(rho),
            "geolevels": shares,
            "queries": {
                "State": {"votingage*hispanic*race": "1/6", "sex*age": "1/6", "detailed": "2/3"},
                "*": {"total": "1/8", "votingage*hispanic*race": "1/8", "sex*age": "1/8", "detailed": "5/8"},
                "Block": {"total": "1/40", "votingage*hispanic*race": "1/40", "sex*age": "1/40", "detailed": "37/40"},
            },
        },
        "estimation": {
            "passes": {"State": [["*"]], "*": [["total"], ["*"]], "Block": [["*"]]},
            "rounding": {"*": [["total"], ["sex*age", "detailed"]]},
            "values": "own",
        },
        "invariants": [{"query": "total", "geolevels": ["State"]}],
        "outputs": {"tables": [*TABLES, "detailed"]},
    }  # fmt: skip


def redistricting_release(rho: Fraction) -> dict[str, Any]:
    """A release file for the redistricting data, with production's shares of another budget."""
    preset = _redistricting_strategy()
    return {
        "release": {"name": "redistricting"},
        "records": {"path": "people.parquet", "geocode": "geocode"},
        "geography": {
            "path": "geography.parquet", "geocode": "geocode", "geolevels": list(GEOLEVELS), "prefix_lengths": PREFIXES,
        },
        "schema": {"preset": "pl94-persons"},
        "privacy": {"neighbours": "bounded", "mechanism": "discrete_gaussian", "rho": str(rho)},
        "strategy": {"rho": str(rho), "geolevels": preset["geolevel_shares"], "queries": preset["query_shares"]},
        "estimation": {
            "passes": preset["passes"],
            "rounding": preset["rounding"],
            "slack": preset["slack"],
            "rounding_target": preset["rounding_target"],
            "values": preset["values"],
        },
        "invariants": [{"query": "total", "geolevels": ["State"]}],
        "bounds": [
            {
                "name": "facilities", "query": "hhgq", "geolevel": "Block", "path": "facilities.parquet",
                "missing": "zero",
            }
        ],
        "outputs": {"tables": ["total", "votingage", "hispanic*cenrace"]},
    }  # fmt: skip


def _redistricting_strategy() -> dict[str, Any]:
    folder = resources.files("tallyveil.budget") / "presets"
    return tomllib.loads((folder / "redistricting-us-from-state.toml").read_text(encoding="utf-8"))
