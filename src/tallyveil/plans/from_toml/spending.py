"""A file of privacy events: what was done, or is planned, by whatever program, for `tallyveil account --events`.

Each event is written as in a ledger (`accounting/ledger/lines.py`), or as the library dp_accounting stores its own.
"""

from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from tallyveil.accounting.dp_events import from_dp_event
from tallyveil.accounting.events import Neighbours, PrivacyEvent, SequentialEvent
from tallyveil.accounting.ledger.lines import DEEPEST, event_from_mapping
from tallyveil.errors import BudgetError
from tallyveil.plans.from_toml.load import parse_file
from tallyveil.plans.from_toml.tables import Table


class SpendingFile(Table):
    """The whole file."""

    neighbours: Literal["bounded", "unbounded"] = Field(
        description="The relation that all events are stated under; see Neighbours."
    )
    events: list[dict[str, Any]] = Field(
        min_length=1,
        description="What is done, one after the other, each event with its kind or its class_name.",
    )


def load_spending(path: Path) -> tuple[Neighbours, SequentialEvent]:
    """Read a file of events.

    Args:
        path: TOML file, or JSON file if its name ends in .json.

    Returns:
        The relation that the events are stated under, and the events, one after the other.

    Raises:
        StoreError: the file cannot be read.
        ConfigError: it is neither TOML nor JSON, or has unknown keys or wrong values beside the events.
        BudgetError: an event is unknown or wrong; the message names its place in the file.
    """
    file = parse_file(path, SpendingFile, or_json=True)
    neighbours = Neighbours(file.neighbours)
    places = (f"{path}, events[{number}]" for number in range(1, len(file.events) + 1))
    return neighbours, SequentialEvent(
        tuple(_event(item, neighbours, place) for item, place in zip(file.events, places, strict=True))
    )


def _event(item: dict[str, Any], neighbours: Neighbours, place: str) -> PrivacyEvent:
    if "class_name" not in item:
        return event_from_mapping(_with_texts(item, 2 * DEEPEST), place=place)
    try:
        return from_dp_event(item, neighbours=neighbours)
    except BudgetError as error:
        raise BudgetError(f"{place}: {error}", code=error.code) from None


def _with_texts(value: Any, levels: int) -> Any:
    """The same with whole numbers as text: a ledger writes numbers so, and people write both."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    # What is nested deeper is refused by the reader of events, in words.
    if levels and isinstance(value, dict):
        return {key: _with_texts(part, levels - 1) for key, part in value.items()}
    if levels and isinstance(value, list):
        return [_with_texts(part, levels - 1) for part in value]
    return value
