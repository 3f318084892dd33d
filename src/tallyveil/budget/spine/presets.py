"""Spines that come with the package. Each is a TOML file of steps under `spines/`; an entity table is its input."""

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

from tallyveil.budget.strategy import Mechanism, Strategy
from tallyveil.errors import BudgetError
from tallyveil.exact import as_given
from tallyveil.geography.bypass import BypassRule, QueryShares
from tallyveil.geography.optimise import Branch, CutByEntities, GroupByDistance, GroupByMembership, Step
from tallyveil.geography.steps import PRODUCTION_LIMIT, FanOutLimit

_FOLDER = resources.files("tallyveil.budget") / "spines"


@dataclass(frozen=True, slots=True)
class SpinePreset:
    """A named list of steps, and the spine that they start from.

    Attributes:
        name: Name for `load_spine_preset`.
        summary: One sentence that says what it is.
        source: Where it comes from.
        geolevels: Geolevels of the spine at the start, root first.
        families: Families of off-spine entities that it needs, named by the columns of the entity table.
        steps: Steps, in order.
        bypasses: Whether geounits are bypassed afterwards, by the rule of the mechanism (`bypass_rule`).
        result: Geolevels of the resulting spine, root first.
    """

    name: str
    summary: str
    source: str
    geolevels: tuple[str, ...]
    families: tuple[str, ...]
    steps: tuple[Step, ...]
    bypasses: bool
    result: tuple[str, ...]


def spine_preset_names() -> tuple[str, ...]:
    """Names of the presets, sorted."""
    files = (entry.name for entry in _FOLDER.iterdir())
    return tuple(sorted(name.removesuffix(".toml") for name in files if name.endswith(".toml")))


def load_spine_preset(name: str) -> SpinePreset:
    """Read a spine that comes with the package.

    Args:
        name: A name such as "redistricting-persons-us"; see `spine_preset_names`.

    Raises:
        BudgetError: there is no such preset.
    """
    known = spine_preset_names()
    if name not in known:
        raise BudgetError(
            f"there is no spine preset '{name}'; there are {', '.join(known)}. Use one of these names."
        )
    table = tomllib.loads((_FOLDER / f"{name}.toml").read_text(encoding="utf-8"))
    return SpinePreset(
        name=name,
        summary=table["summary"],
        source=table["source"],
        geolevels=tuple(table["geolevels"]),
        families=tuple(table["families"]),
        steps=tuple(read_step(step) for step in table["steps"]),
        bypasses=table["bypass"],
        result=tuple(table["made"]),
    )


def bypass_rule(mechanism: Mechanism) -> BypassRule:
    """The rule by which geounits are bypassed under a mechanism: Theorem 2 for Laplace noise, else a single child.

    Source: Cumings-Menon et al. 2023, Algorithm 3.
    """
    return BypassRule.PURE_DP if mechanism is Mechanism.DISCRETE_LAPLACE else BypassRule.SINGLE_CHILD


def query_shares(strategy: Strategy, geolevels: Sequence[str]) -> QueryShares:
    """What a strategy measures at each geolevel of a spine, for `BypassRule.EVERY_QUERY`."""
    return QueryShares(
        tuple(dict(strategy.shares_of(name)) if name in strategy.geolevels else {} for name in geolevels),
        strategy.mechanism is Mechanism.DISCRETE_LAPLACE,
    )


def read_step(table: Mapping[str, Any]) -> Step:
    """A step from its table. The key `step` names the kind of step; the other keys are its attributes.

    Raises:
        BudgetError: the step or a key is unknown, or a key is missing.
    """
    kinds: dict[str, Callable[..., Step]] = {
        "branch": Branch,
        "cut_by_entities": CutByEntities,
        "group_by_membership": GroupByMembership,
        "group_by_distance": GroupByDistance,
    }
    options: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in table.items()
    }
    name = options.pop("step", None)
    if name not in kinds:
        raise BudgetError(
            f"a step of a spine is {as_given(name)}; wanted one of {', '.join(kinds)}. Use one of these names."
        )
    if "cutoff" in options or "at_most" in options:
        options["limit"] = FanOutLimit(
            options.pop("cutoff", PRODUCTION_LIMIT.cutoff), options.pop("at_most", None)
        )
    try:
        return kinds[name](**options)
    except TypeError as error:
        raise BudgetError(
            f"step {name} of a spine has keys or values that it does not take: {error}. docs/spine.md lists its keys."
        ) from error
