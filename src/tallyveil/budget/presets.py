"""Strategies that come with the package. Each is a TOML file of exact fractions under `presets/`."""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from importlib import resources
from typing import Any, Literal

from tallyveil.accounting.neighbours import Neighbours
from tallyveil.budget.fractions import parse_fraction
from tallyveil.budget.outer_pass import OuterPass
from tallyveil.budget.rho_tables import load_rho_table, strategy_of_rho
from tallyveil.budget.strategy import Mechanism, Strategy
from tallyveil.declared import adapter_of
from tallyveil.errors import BudgetError

_FOLDER = resources.files("tallyveil.budget") / "presets"
_ALL_OTHERS = "*"

Steps = tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class StrategyPreset:
    """A named strategy, with the order in which its measurements are turned into counts.

    Attributes:
        name: Name for `load_strategy_preset`.
        summary: One sentence that says what it is.
        source: Where its numbers come from.
        strategy: The division of the budget.
        delta: Delta at which the preset's epsilon is quoted.
        passes: For each geolevel, the measured queries of each least-squares pass, in order. Every measured query is
            in exactly one pass.
        slack: Number of persons by which later passes may change the answers of earlier ones.
        rounding: For each geolevel, the queries of each rounding stage, in order. They are nested, and need not be
            measured.
        spine: Name of the preset of the spine that production measured on, or of the most similar preset; None for a
            strategy that production did not use.
        rounding_target: What rounded answers should be close to: the estimates, or the integers nearest to them.
        values: What families above the finest geolevel are fitted to: each geounit's noisy answers ("own"), or
            estimates from everything measured in or below it ("tree").
        outer: Outer passes over the whole spine; none where each geolevel is finished before the next.
    """

    name: str
    summary: str
    source: str
    strategy: Strategy
    delta: Fraction
    passes: tuple[tuple[str, Steps], ...]
    slack: Fraction
    rounding: tuple[tuple[str, Steps], ...]
    spine: str | None
    rounding_target: Literal["fraction", "nearest"]
    values: Literal["own", "tree"]
    outer: tuple[OuterPass, ...] = ()

    def passes_of(self, geolevel: str) -> Steps:
        """Measured queries of each least-squares pass of a geolevel.

        Raises:
            BudgetError: the preset has no such geolevel.
        """
        return _of_geolevel(self.passes, geolevel, self.name)

    def rounding_of(self, geolevel: str) -> Steps:
        """Queries of each rounding stage of a geolevel.

        Raises:
            BudgetError: the preset has no such geolevel.
        """
        return _of_geolevel(self.rounding, geolevel, self.name)


def strategy_preset_names() -> tuple[str, ...]:
    """Names of the presets, sorted."""
    files = (entry.name for entry in _FOLDER.iterdir())
    return tuple(sorted(name.removesuffix(".toml") for name in files if name.endswith(".toml")))


def load_strategy_preset(name: str) -> StrategyPreset:
    """Read a strategy that comes with the package.

    Args:
        name: For persons: "redistricting-us" (six geolevels from US), "redistricting-us-from-state" (five of them,
            with the same variances) or "redistricting-state-rooted" (five geolevels from State). There are presets for
            housing units, and for the Demographic and Housing Characteristics, too. `strategy_preset_names` lists all
            names.

    Raises:
        BudgetError: there is no such preset.
    """
    known = strategy_preset_names()
    if name not in known:
        raise BudgetError(
            f"there is no strategy preset '{name}'; there are {', '.join(known)}. Use one of these names."
        )
    table = tomllib.loads((_FOLDER / f"{name}.toml").read_text(encoding="utf-8"))
    strategy = _strategy(name, table)
    outer = tuple(adapter_of(OuterPass).validate_python(entry) for entry in table.get("outer", ()))
    table = {**_in_outer_passes(outer, strategy.geolevels), **table}
    return StrategyPreset(
        name=name,
        summary=table["summary"],
        source=table["source"],
        strategy=strategy,
        delta=parse_fraction(table["delta"], f"{name}: delta"),
        passes=tuple((level, _measured_steps(name, table, strategy, level)) for level in strategy.geolevels),
        slack=parse_fraction(table["slack"], f"{name}: slack"),
        rounding=tuple((level, _steps(table["rounding"][level])) for level in strategy.geolevels),
        spine=table.get("spine"),
        rounding_target=table["rounding_target"],
        values=table["values"],
        outer=outer,
    )


def _in_outer_passes(outer: tuple[OuterPass, ...], geolevels: Sequence[str]) -> dict[str, Any]:
    """The settings of single geolevels that outer passes leave without effect; nothing if there are no outer passes."""
    if not outer:
        return {}
    chains = [[*outer_pass.rounding, outer_pass.cells] for outer_pass in outer]
    return {
        "passes": {key: [[_ALL_OTHERS]] for key in geolevels},
        "slack": "0",
        "rounding": dict.fromkeys(geolevels, chains),
        "rounding_target": "fraction",
        "values": "own",
    }


def _strategy(name: str, table: Mapping[str, Any]) -> Strategy:
    if "product" in table:
        product = load_rho_table(table["product"])
        return strategy_of_rho(name, product, table.get("geolevels"), table.get("more_rho"))
    return Strategy(
        mechanism=Mechanism(table["mechanism"]),
        neighbours=Neighbours(table["neighbours"]),
        total=parse_fraction(table["total"], f"{name}: total"),
        geolevel_shares=_shares(table["geolevel_shares"], f"{name}: geolevel_shares"),
        query_shares=tuple(
            (geolevel, _shares(shares, f"{name}: query_shares.{geolevel}"))
            for geolevel, shares in table["query_shares"].items()
        ),
    )


def _shares(table: Mapping[str, Any], where: str) -> tuple[tuple[str, Fraction], ...]:
    return tuple((name, parse_fraction(share, f"{where}.{name}")) for name, share in table.items())


def _steps(lists: list[list[str]]) -> Steps:
    return tuple(tuple(names) for names in lists)


def _measured_steps(name: str, table: Mapping[str, Any], strategy: Strategy, geolevel: str) -> Steps:
    """Passes of a geolevel, with "*" replaced by every measured query that no other pass names."""
    steps = _steps(table["passes"][geolevel])
    named = {query for step in steps for query in step}
    others = tuple(query for query in strategy.queries(geolevel) if query not in named)
    expanded = tuple(
        tuple(query for entry in step for query in (others if entry == _ALL_OTHERS else (entry,)))
        for step in steps
    )
    in_passes = sorted(query for step in expanded for query in step)
    if in_passes != sorted(strategy.queries(geolevel)):
        raise BudgetError(
            f"{name}: the estimation passes of {geolevel} use {', '.join(in_passes)}; wanted every measured query "
            f'once: {", ".join(sorted(strategy.queries(geolevel)))}. Name each in one pass, or write "*" for the '
            "rest."
        )
    return expanded


def _of_geolevel(steps: tuple[tuple[str, Steps], ...], geolevel: str, name: str) -> Steps:
    known = dict(steps)
    if geolevel not in known:
        raise BudgetError(
            f"preset {name} has no geolevel {geolevel}; it has {', '.join(known)}. Use one of these names."
        )
    return known[geolevel]
