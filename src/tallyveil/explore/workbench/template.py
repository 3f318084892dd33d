"""A release file as a template: its own text, with slots where the page writes the budget and the shares.

Everything but the tables that hold these numbers stays as it is, comments too. A strategy preset is replaced by the
tables that it stands for, because a file with shares of its own cannot name a preset.
"""

import re
from collections.abc import Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any, Final, TypeAlias

import tomlkit
from tomlkit.items import Table

from tallyveil.config.load import plan_from_mapping
from tallyveil.errors import ConfigError
from tallyveil.plans.advice import strategy_tables
from tallyveil.plans.release import ReleasePlan
from tallyveil.storage.text_files import read_text_file

Piece: TypeAlias = "str | dict[str, str]"

_MARK: Final = "tallyveil-workbench-slot"
_SLOT: Final = re.compile(rf"{_MARK}:([a-z0-9.]+):")


def release_template(path: Path, plan: ReleasePlan) -> list[Piece]:
    """The release file as pieces of text and slots.

    The slots are `total`, `declared`, `g<i>` for the share of geolevel i, and `q<i>.<k>` for the share of its query k.

    Args:
        path: The release file.
        plan: Its plan.
    Raises:
        ConfigError: the text cannot be made into a template of the same plan.
    """
    text = read_text_file(path)
    if _MARK in text:
        raise ConfigError(
            f"{path} contains the text '{_MARK}', which the workbench uses for itself. Change it in the file.",
            code="workbench-file",
        )
    document = tomlkit.parse(text)
    _write_slots(document, plan)
    pieces = list(_pieces(tomlkit.dumps(document)))
    _require_same_plan(path, pieces, plan)
    return pieces


def filled(pieces: list[Piece], values: Mapping[str, Fraction]) -> str:
    """The text of a template with its slots filled."""
    return "".join(piece if isinstance(piece, str) else str(values[piece["slot"]]) for piece in pieces)


def planned_values(plan: ReleasePlan) -> dict[str, Fraction]:
    """The values of all slots in the plan itself."""
    strategy = plan.strategy
    values = {"total": strategy.total, "declared": plan.declared}
    for i, (geolevel, share) in enumerate(strategy.geolevel_shares):
        values[f"g{i}"] = share
        for k, (_, part) in enumerate(dict(strategy.query_shares)[geolevel]):
            values[f"q{i}.{k}"] = part
    return values


def _write_slots(document: Any, plan: ReleasePlan) -> None:
    strategy = plan.strategy
    table, unit = _strategy_table(document), strategy.budget_unit
    has_preset = "preset" in table
    for key in ("preset", "rho", "epsilon", "delta", "geolevels", "queries"):
        table.pop(key, None)
    table.add(unit, _slot("total"))
    table.add("geolevels", _slots({name: f"g{i}" for i, name in enumerate(strategy.geolevels)}))
    queries = tomlkit.table(is_super_table=True)
    for i, level in enumerate(strategy.geolevels):
        queries.add(level, _slots({name: f"q{i}.{k}" for k, name in enumerate(strategy.queries(level))}))
    table.add("queries", queries)
    if has_preset:
        document.pop("estimation", None)
        document.add("estimation", tomlkit.parse(strategy_tables(strategy, plan.to_mapping()))["estimation"])
    privacy = document["privacy"]
    if unit == "rho":
        privacy.pop("epsilon", None)
    privacy[unit] = _slot("declared")


def _strategy_table(document: Any) -> Table:
    """The table of the strategy. If it is written inline, with dotted keys or in several places, it is written anew."""
    strategy = document["strategy"]
    if isinstance(strategy, Table) and not strategy.is_super_table():
        return strategy
    table = tomlkit.table()
    for key, value in document.unwrap()["strategy"].items():
        table.add(key, value)
    document.remove("strategy")
    document.add("strategy", table)
    return table


def _slot(name: str) -> str:
    return f"{_MARK}:{name}:"


def _slots(names: Mapping[str, str]) -> Table:
    table = tomlkit.table()
    for name, slot in names.items():
        table.add(name, _slot(slot))
    return table


def _pieces(text: str) -> Iterator[Piece]:
    for number, piece in enumerate(_SLOT.split(text)):
        yield {"slot": piece} if number % 2 else piece


def _require_same_plan(path: Path, pieces: list[Piece], plan: ReleasePlan) -> None:
    plan_again = plan_from_mapping(
        tomlkit.parse(filled(pieces, planned_values(plan))).unwrap(), path.parent
    ).to_mapping()
    if plan_again == plan.to_mapping():
        return
    others = sorted(key for key, value in plan.to_mapping().items() if plan_again.get(key) != value)
    raise ConfigError(
        f"the workbench cannot write {path} with shares of its own: the plan would differ in {', '.join(others)}. "
        "Write the shares under [strategy.geolevels] and [strategy.queries], in the place of a preset.",
        code="workbench-file",
    )
