"""Whole releases, as the run makes them: from files of records to the published files, each with a key of its own.

The country is that of `forest`: counties A and B, blocks A1, A2 and B1. Under bounded neighbours a person lives alone
in A1 on the first side, and in B1 with another sex and age on the second. Under unbounded neighbours the person is
absent on the first side, and lives alone in A1 on the second. The adversary knows everybody else, and reads the noisy
measurements and the counts that are published.

Runs are made in this process, one after another: starting a process for each takes longer than the release. Only the
flushing of files to the disk is left out, and the page `report.html`, which is made from the published files and which
the adversary does not read.

The budget of the Gaussian release is divided among all queries and geolevels. That of the Laplace release is spent
nearly whole on one query, so that what is declared is nearly what is true: the budgets of many Laplace answers add up
to more than they cost together, and a fault could hide in the difference.
"""

import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from tests.auditors.drawing.claims import claim_of
from tests.auditors.drawing.evidence import Measured, scores
from tests.auditors.drawing.forest import BLOCKS, LEVELS
from tests.auditors.outputs import Outputs

import tallyveil
from tallyveil.accounting import Neighbours, event_from_mapping
from tallyveil.measurements.names import measurement_name
from tallyveil.noise import DiscreteGaussian, DiscreteLaplace, Law, insecure_key
from tallyveil.products.topdown.run.run import run_release

SEXES, AGES = ("female", "male"), ("young", "old")

RELEASE = """
[release]
name = "audit"
[records]
path = "people.parquet"
geocode = "block"
[geography]
path = "blocks.parquet"
geocode = "block"
geolevels = ["Country", "County", "Block"]
prefix_lengths = [0, 1, 2]
[schema]
name = "sex-by-age"
[[schema.attributes]]
name = "sex"
levels = ["female", "male"]
[[schema.attributes]]
name = "age"
levels = ["young", "old"]
[privacy]
neighbours = "{neighbours}"
mechanism = "{mechanism}"
{unit} = "{total}"
[strategy]
{unit} = "{total}"
[strategy.geolevels]
{shares}
[outputs]
measurements = "full"
"""
EVEN_SHARES = """
Country = "1/4"
County = "1/4"
Block = "1/2"
[strategy.queries."*"]
total = "1/3"
sex = "1/3"
"sex*age" = "1/3"
[strategy.queries.Country]
"sex*age" = "1"
[[invariants]]
query = "total"
geolevels = ["Country"]
"""
MOSTLY_ONE_QUERY = """
Country = "1/40"
County = "1/40"
Block = "19/20"
[strategy.queries."*"]
total = "1/40"
sex = "1/40"
"sex*age" = "19/20"
"""


@dataclass(frozen=True)
class Kind:
    """A release file and its two sides.

    Attributes:
        name: Name of the target.
        neighbours, mechanism, unit, total: What the release file says.
        shares: The end of the release file: shares of the budget, and invariants.
        first: The person on the first side, as (block, sex, age); None where absent.
        second: The person on the second side.
    """

    name: str
    neighbours: Neighbours
    mechanism: str
    unit: str
    total: Fraction
    shares: str
    first: tuple[str, str, str] | None
    second: tuple[str, str, str]

    def text(self) -> str:
        """The release file."""
        return RELEASE.format(
            neighbours=self.neighbours,
            mechanism=self.mechanism,
            unit=self.unit,
            total=self.total,
            shares=self.shares,
        )


OTHERS = [("A2", "female", "young")] * 2 + [("B1", "male", "old")]
KINDS = (
    Kind(
        "release-gaussian",
        Neighbours.BOUNDED,
        "discrete_gaussian",
        "rho",
        Fraction(2),
        EVEN_SHARES,
        ("A1", "female", "young"),
        ("B1", "male", "old"),
    ),
    Kind(
        "release-laplace",
        Neighbours.UNBOUNDED,
        "discrete_laplace",
        "epsilon",
        Fraction(1),
        MOSTLY_ONE_QUERY,
        None,
        ("A1", "female", "young"),
    ),
)


def draw(name: str, number: int, folder: Path) -> Iterator[Outputs]:
    """So many releases of a kind on each side, in a folder for scratch files."""
    kind = next(one for one in KINDS if one.name == name)
    flush, os.fsync = os.fsync, os.fstat
    try:
        sides = [_Side(kind, side, folder / str(side)) for side in (0, 1)]
        drawn = [side.outputs(number) for side in sides]
        measured = [
            Measured(*one) for one in zip(sides[0].laws(), sides[0].truth(), sides[1].truth(), strict=True)
        ]
        evidence = [scores(rows, measured) for rows in drawn]
        event = event_from_mapping(sides[0].manifest()["event"])
        claim = claim_of(event, neighbours=kind.neighbours, delta=Fraction(1, 10), **{kind.unit: kind.total})
        yield Outputs(kind.name, drawn[0], drawn[1], evidence[0], evidence[1], claim)
    finally:
        os.fsync = flush


@dataclass(frozen=True)
class _Side:
    """Releases of one side.

    Attributes:
        kind: What is released.
        number: 0 for the first side, 1 for the second.
        folder: Scratch folder.
    """

    kind: Kind
    number: int
    folder: Path

    def people(self) -> list[tuple[str, str, str]]:
        """Everybody on this side."""
        person = self.kind.second if self.number else self.kind.first
        return OTHERS if person is None else [*OTHERS, person]

    def outputs(self, number: int) -> NDArray[np.int32]:
        """One row for each release: measurements, then published counts of every geolevel."""
        self.folder.mkdir(parents=True)
        columns = ["block", "sex", "age"]
        pl.DataFrame(self.people(), schema=columns, orient="row").write_parquet(
            self.folder / "people.parquet"
        )
        pl.DataFrame({"block": BLOCKS}).write_parquet(self.folder / "blocks.parquet")
        (self.folder / "release.toml").write_text(self.kind.text())
        plan, rows = tallyveil.plan(self.folder / "release.toml").content, []
        for place in range(number):
            shutil.rmtree(self.folder / "out", ignore_errors=True)
            key = insecure_key(f"auditors: {self.kind.name} {self.number} {place}")
            run_release(plan, self.folder / "out", workers=1, test_key=key)
            rows.append(self.row())
        return np.array(rows, np.int32)

    def row(self) -> list[int]:
        """What the release in the folder publishes."""
        found: list[int] = []
        for geolevel, query in self.measured():
            table = pl.read_parquet(self.folder / "out" / measurement_name(geolevel, query), glob=False)
            found += table.sort("geocode")["values"].explode().to_list()
        cells = [(sex, age) for sex in SEXES for age in AGES]
        for geolevel, geocodes in zip(LEVELS, (("Country",), ("A", "B"), BLOCKS), strict=True):
            table = pl.read_parquet(self.folder / "out" / "histogram" / f"{geolevel}.parquet")
            counts = {tuple(key): count for *key, count in table.iter_rows()}
            found += [counts.get((geocode, *cell), 0) for geocode in geocodes for cell in cells]
        return found

    def manifest(self) -> dict[str, Any]:
        """The manifest of the last release."""
        text = (self.folder / "out" / "manifest.json").read_text()
        content: dict[str, Any] = json.loads(text)
        return content

    def measured(self) -> list[tuple[str, str]]:
        """Every measured query, by geolevel."""
        root = ["total", "sex", "sex*age"] if self.kind.neighbours is Neighbours.UNBOUNDED else ["sex*age"]
        return [
            (level, query)
            for level in LEVELS
            for query in (root if level == LEVELS[0] else ("total", "sex", "sex*age"))
        ]

    def truth(self) -> list[list[int]]:
        """The true answers behind each measured query, in the same order."""
        found = []
        for geolevel, query in self.measured():
            width, answers = {"Country": 0, "County": 1, "Block": 2}[geolevel], []
            for prefix in sorted({block[:width] for block in BLOCKS}):
                inside = [(sex, age) for block, sex, age in self.people() if block[:width] == prefix]
                if query == "total":
                    answers.append(len(inside))
                elif query == "sex":
                    answers += [sum(sex == one for sex, _ in inside) for one in SEXES]
                else:
                    answers += [inside.count((sex, age)) for sex in SEXES for age in AGES]
            found.append(answers)
        return found

    def laws(self) -> list[Law]:
        """The law of each measured query, as the event of the manifest states it, in the same order."""
        return [
            DiscreteGaussian(Fraction(one["variance"]))
            if one["kind"] == "discrete_gaussian"
            else DiscreteLaplace(Fraction(one["scale"]))
            for one in _noise(self.manifest()["event"])
        ]


def _noise(event: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The measurements in an event, in order."""
    if event["kind"] == "sequential":
        for part in event["events"]:
            yield from _noise(part)
    elif event["kind"].startswith("discrete"):
        yield event
