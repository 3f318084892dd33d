"""A made-up population, and the releases of it that are attacked."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from tests.attacks.budgets import groups_of, people_schema

import tallyveil
from tallyveil.api.beginning import write_country
from tallyveil.schema.query_group import QueryGroup
from tallyveil.schema.schema import Schema, schema_from_mapping

HELD_OUT = 0.25
"""Share of the people whose records no release is made of. What is found out about them is inference, and no breach."""


@dataclass(frozen=True, slots=True)
class World:
    """Made-up people: those in the data, and those held out.

    Attributes:
        folder: Inputs of releases: people.parquet, geography.parquet, facilities.parquet.
        geocodes: All blocks, in order.
        schema: Schema of `people`.
        cells: Cell of every person.
        blocks: Number of every person's block.
        held_out: Whether a person is in no release.
    """

    folder: Path
    geocodes: tuple[str, ...]
    schema: Schema
    cells: np.ndarray
    blocks: np.ndarray
    held_out: np.ndarray

    def counts(self, people: np.ndarray) -> np.ndarray:
        """Detailed counts of every block, of the people chosen by a mask: shape (blocks, cells)."""
        counts = np.zeros((len(self.geocodes), self.schema.size), np.int64)
        np.add.at(counts, (self.blocks[people], self.cells[people]), 1)
        return counts

    def county_of_block(self) -> np.ndarray:
        """Number of every block's county."""
        return np.unique([code[:5] for code in self.geocodes], return_inverse=True)[1]


def make_people_world(folder: Path, blocks: int, seed: int = 1) -> World:
    """Make up households with people in them, as sex, age, Hispanic origin and race, and hold some people out."""
    write_country(folder / "made", blocks=blocks, schema="dhc", seed=seed)
    people = pl.read_parquet(folder / "made" / "persons.parquet")
    geography = pl.read_parquet(folder / "made" / "geography.parquet").select("geocode").sort("geocode")
    schema = schema_from_mapping(people_schema())
    columns = {
        "sex": people["sex"].to_list(),
        "age": _recoded(people["age"], "agePyramid23groups"),
        "hispanic": people["hispanic"].to_list(),
        "race": _recoded(people["cenrace"], "cenrace_7lev"),
    }
    cells = schema.query("detailed").answers_from_labels(columns, people.height)
    held_out = np.random.default_rng(seed).random(people.height) < HELD_OUT
    geocodes = tuple(geography["geocode"].to_list())
    numbers = {code: number for number, code in enumerate(geocodes)}
    geography.write_parquet(folder / "geography.parquet")
    records = pl.DataFrame({"geocode": people["geocode"], **columns})
    records.filter(~pl.Series(held_out)).write_parquet(folder / "people.parquet")
    places = np.array([numbers[code] for code in people["geocode"].to_list()])
    return World(folder, geocodes, schema, cells, places, held_out)


def release_of(world: Path, content: Mapping[str, Any], out: Path, key: str) -> tallyveil.Release:
    """The release that a release file describes, with a key that follows from a text: the same numbers every time."""
    return tallyveil.run(tallyveil.plan(dict(content), folder=world), out, workers=1, insecure_test_key=key)


def published(release: tallyveil.Release, group: QueryGroup, geocodes: tuple[str, ...]) -> np.ndarray:
    """A published table of blocks as an array: shape (blocks, answers)."""
    return as_array(release.table("Block", group.name), group, geocodes, "count")


def as_array(frame: pl.DataFrame, group: QueryGroup, geocodes: tuple[str, ...], column: str) -> np.ndarray:
    """Rows with a geocode and labels, as an array with a row for each geounit and a column for each answer."""
    # A column has the name of the attribute, also where the query groups its levels.
    asked = [factor for factor in group.factors if factor.name is not None]
    labels = {factor.name: frame[factor.attribute].to_list() for factor in asked}
    answers = group.answers_from_labels(labels, frame.height)
    places = {code: number for number, code in enumerate(geocodes)}
    rows = np.array([places[code] for code in frame["geocode"].to_list()], np.int64)
    values = np.zeros((len(geocodes), group.size), np.int64)
    values[rows, answers] = frame[column].to_numpy()
    return values


def _recoded(column: pl.Series, recode: str) -> list[str]:
    """The labels of a recode of the DHC's persons, for labels of its attribute."""
    label_of = {level: label for label, levels in groups_of(recode).items() for level in levels}
    return [label_of[level] for level in column.to_list()]
