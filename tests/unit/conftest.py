"""Fixtures of the unit tests: random small spines, finished release folders as a run leaves them, ledgers, and noise
that is zero or watched."""

import json
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest

from tallyveil.accounting.engines.tails import fraction_bounds
from tallyveil.accounting.events import TEST_KEY, InvariantEvent, Neighbours, SequentialEvent
from tallyveil.accounting.ledger.file import Ledger
from tallyveil.accounting.ledger.lines import Declaration
from tallyveil.budget.presets import load_strategy_preset
from tallyveil.budget.strategy import Mechanism, Strategy
from tallyveil.files.finished import ledger_record
from tallyveil.files.manifest import ListedFile, Manifest, ReleaseKind, Spent
from tallyveil.files.manifest_files import write_manifest
from tallyveil.files.marks import release_marks
from tallyveil.geography.build import spine_from_columns
from tallyveil.geography.entities import EntityFamily
from tallyveil.geography.spine import Spine
from tallyveil.geography.tables import entities_from_pairs
from tallyveil.products.topdown.pl94 import publication as pl94_publication
from tallyveil.report import release_files
from tallyveil.schema.presets import load_preset
from tallyveil.schema.schema import Schema
from tallyveil.storage.json_files import digest_of
from tallyveil.storage.write import file_digest, write_json


def make_spine(rng: np.random.Generator, n_finest: int, n_levels: int, *, one_root: bool = False) -> Spine:
    """Nested runs of neighbours; geocodes say nothing of the tree."""
    label = np.arange(n_finest)
    labels = [label]
    for _ in range(n_levels - 1):
        starts = rng.random(label.max() + 1) < rng.uniform(0.2, 1.0)
        starts[0] = True
        label = (np.cumsum(starts) - 1)[label]
        labels.append(label)
    if one_root and n_levels > 1:
        labels[-1] = np.zeros(n_finest, dtype=np.int64)
    columns = {}
    for level, one in enumerate(reversed(labels)):
        names = rng.permutation(one.max() + 1)
        columns[f"L{level}"] = [f"{'abcdefg'[level]}{names[k]:02d}" for k in one]
    return spine_from_columns(columns, list(columns))


def make_family(rng: np.random.Generator, spine: Spine, n_entities: int, name: str = "any") -> EntityFamily:
    """Entities that may overlap: any sets, half of them made of whole runs."""
    n = spine.n_geounits(spine.finest)
    rows, entities = [], []
    for entity in range(n_entities):
        first, last = np.sort(rng.integers(0, n + 1, 2))
        inside = np.zeros(n, dtype=bool)
        inside[first:last] = True
        inside ^= rng.random(n) < rng.choice([0.0, 0.1, 0.4])
        if not inside.any():
            inside[rng.integers(0, n)] = True
        members = np.flatnonzero(inside)
        rows.append(members)
        entities += [f"e{entity:02d}"] * len(members)
    codes = spine.geocodes[-1][np.concatenate(rows)]
    return entities_from_pairs(spine, name, codes, entities)


def dense_variance(rows: np.ndarray, precisions: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Variances of `wanted` x under generalised least squares of `rows` x; infinite where it cannot be told."""
    exact = np.isinf(precisions)
    # What is known exactly is taken out: x lies in the null space of those rows.
    basis = np.eye(rows.shape[1])
    if exact.any():
        _, values, right = np.linalg.svd(rows[exact])
        basis = right[(values > 1e-9).sum() :].T
    measured = (rows[~exact] @ basis) * np.sqrt(precisions[~exact])[:, None]
    values, vectors = np.linalg.eigh(measured.T @ measured)
    top = max(values.max(initial=0), 1e-300)
    kept = values > 1e-11 * top
    loads = wanted @ basis @ vectors
    lost = (np.abs(loads[:, ~kept]) > 1e-7).any(axis=1)
    return np.where(lost, np.inf, (loads[:, kept] ** 2 / values[kept]).sum(axis=1))


@pytest.fixture
def random_spine() -> Callable[..., Spine]:
    """Makes a spine: (rng, n_finest, n_levels, one_root)."""
    return make_spine


@pytest.fixture
def random_family() -> Callable[..., EntityFamily]:
    """Makes a family: (rng, spine, n_entities, name)."""
    return make_family


@pytest.fixture
def dense_gls() -> Callable[..., np.ndarray]:
    """Dense generalised least squares: (rows, precisions, wanted)."""
    return dense_variance


SIZES = {"nation": 1, "state": 1, "county": 5, "tract": 244, "block group": 815, "block": 25_181}
PERSONS = 1_052_567
RUN = "0f3a9c5e7d21b864"
DECLARED = Fraction(293764, 114921)


def race_age_strategy(mechanism: Mechanism = Mechanism.DISCRETE_GAUSSIAN, total: str = "1") -> Strategy:
    """Four queries at five geolevels."""
    levels = ("state", "county", "tract", "block_group", "block")
    queries = (("total", "1/4"), ("voting_age", "1/8"), ("race_ethnicity", "1/8"), ("detailed", "1/2"))
    shares = ("1/10", "3/20", "1/5", "1/4", "3/10")
    return Strategy(
        mechanism=mechanism,
        neighbours=Neighbours.UNBOUNDED if mechanism is Mechanism.DISCRETE_LAPLACE else Neighbours.BOUNDED,
        total=Fraction(total),
        geolevel_shares=tuple((level, Fraction(share)) for level, share in zip(levels, shares, strict=True)),
        query_shares=tuple((level, tuple((q, Fraction(share)) for q, share in queries)) for level in levels),
    )


def plan_mapping(
    name: str,
    schema: Schema,
    strategy: Strategy,
    declared: Fraction,
    invariants: list[Any],
    bounds: list[Any],
) -> dict[str, Any]:
    return {
        "format": 1,
        "name": name,
        "schema": schema.to_mapping(),
        "records": {
            "geocode": "geocode",
            "count": None,
            "columns": {attribute: attribute for attribute in schema.attribute_names},
        },
        "geolevels": list(strategy.geolevels),
        "mechanism": strategy.mechanism.value,
        "neighbours": strategy.neighbours.value,
        "budget_unit": strategy.budget_unit,
        "declared": str(declared),
        "spent": str(strategy.total),
        "delta": "1/10000000000",
        "geolevel_shares": {level: str(share) for level, share in strategy.geolevel_shares},
        "query_shares": {
            level: {query: str(share) for query, share in shares} for level, shares in strategy.query_shares
        },
        "invariants": invariants,
        "bounds": bounds,
        "estimation": {
            level: {
                "passes": [list(strategy.queries(level))],
                "slack": "0",
                "rounding": [["total"], ["detailed"]],
                "rounding_target": "fraction",
            }
            for level in strategy.geolevels
        },
        "tables": ["total", "detailed"],
        "measurements": "full",
        "microdata": True,
    }


def write_histograms(root: Path, schema: Schema, geolevels: tuple[str, ...]) -> dict[str, Any]:
    """Counts of a skewed population, empty blocks among them; the sizes for the manifest."""
    n_geounits = dict(zip(reversed(geolevels), reversed(SIZES.values()), strict=False))
    random = np.random.default_rng(3)
    n_blocks = n_geounits[geolevels[-1]]
    weight = np.where(random.random(n_blocks) < 0.35, 0, random.lognormal(0, 1.2, size=n_blocks))
    block = np.repeat(np.arange(n_blocks), random.multinomial(200_000, weight / weight.sum()))
    cells = random.choice(schema.size, size=len(block), p=random.dirichlet(np.full(schema.size, 0.05)))
    stated = {}
    for geolevel in geolevels:
        geounit = block * n_geounits[geolevel] // n_blocks
        keys, counts = np.unique(geounit * schema.size + cells, return_counts=True)
        codes = schema.decode(keys % schema.size)
        columns: dict[str, Any] = {"geocode": [f"{geounit:06d}" for geounit in keys // schema.size]}
        for place, attribute in enumerate(schema.attributes):
            columns[attribute.name] = np.array(attribute.levels)[codes[:, place]]
        frame = pl.DataFrame({**columns, "count": counts.astype(np.int64)})
        path = root / "histogram" / f"{geolevel}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        frame.write_parquet(path, metadata={"tallyveil.run": RUN})
        stated[geolevel] = {
            "geounits": n_geounits[geolevel],
            "empty_geounits": n_geounits[geolevel] - frame["geocode"].n_unique(),
            "nonzero_cells": frame.height,
        }
    return {"records": len(block), "geolevels": stated}


def solver_mapping(geolevels: tuple[str, ...]) -> dict[str, Any]:
    solver = {}
    for number, level in enumerate(geolevels):
        families = [1, 1, 5, 244, 815, 3000][number]
        hard = families // 40
        solver[level] = {
            "families": families,
            "estimate": {"certified": families - hard - hard // 2}
            | ({"interior_point": hard // 2, "copied": hard} if hard else {}),
            "rounding": {"linear_program": families - hard} | ({"fixed": hard} if hard else {}),
            "rounding_widened": 0,
            "largest_residual": 3.1e-9 * (number + 1),
        }
    return solver


@pytest.fixture(scope="module", autouse=True)
def stated_guarantees() -> Iterator[None]:
    """Folders that unit tests write by hand have no geography: pages and tables show what their manifests state.

    That what they show of a release follows from its plan and geography, `tests/system/test_verify.py` holds.
    """
    with pytest.MonkeyPatch.context() as patch:
        for module in (release_files, pl94_publication):
            patch.setattr(module, "with_guarantee", lambda _, manifest: manifest)
        yield


def make_release(
    root: Path,
    *,
    schema: Schema,
    strategy: Strategy,
    declared: Fraction,
    name: str,
    protected: bool = True,
    invariants: list[dict[str, Any]] | None = None,
    bounds: list[dict[str, Any]] | None = None,
) -> Path:
    """A finished release folder."""
    plan = plan_mapping(name, schema, strategy, declared, invariants or [], bounds or [])
    sizes = write_histograms(root, schema, strategy.geolevels)
    exactly = tuple(InvariantEvent(f"{item['query']} is published exactly") for item in plan["invariants"])
    declaration = Declaration(strategy.budget_unit, declared, strategy.neighbours)
    event = SequentialEvent((*strategy.events(), *exactly))
    with Ledger(root / "ledger.jsonl", declaration, RUN) as ledger:
        if not protected:
            ledger.declassify(TEST_KEY, "run with an insecure test key", "test key")
        ledger.spend(event, f"release {name}", "release")
    manifest = Manifest(
        kind=ReleaseKind.TOPDOWN,
        run=RUN,
        protected=protected,
        warnings=release_marks(protected=protected),
        plan_digest=digest_of(plan).hex(),
        event=event.to_mapping(),
        spent=Spent(strategy.budget_unit, declared, strategy.total),
        privacy={
            "budget_unit": strategy.budget_unit,
            "declared": str(declared),
            "spent": plan["spent"],
            "delta": "1/10000000000" if strategy.budget_unit == "rho" else "0",
            "epsilon": 16.4651553768
            if strategy.budget_unit == "rho"
            else fraction_bounds(strategy.total).upper,
            "invariants": [],
            "statement": "as private as the plan says",
            "exact": {
                "delta": "1/10000000000",
                "epsilon": {"lower": 16.4651553733, "upper": 16.4651553768},
                "engines": ["gridded"],
                "geolevels": [
                    {
                        "geolevel": level,
                        "spent": "447/4099",
                        "classical_epsilon": 6.2969,
                        "epsilon": {"lower": 6.02651, "upper": 6.02652},
                    }
                    for level in strategy.geolevels
                ],
            },
            "post_processing": "Whatever is computed from the output alone is as private as the output.",
        },
        checks=(
            "no count is negative",
            "no structural zero is filled",
            "every tract is the sum of its block groups in every cell",
            "invariant total holds at state",
            "microdata hold exactly the records of the finest counts",
            "table detailed agrees with the counts",
        ),
        files=tuple(
            ListedFile(
                f"histogram/{level}.parquet",
                3_141 * 9**number,
                file_digest(root / "histogram" / f"{level}.parquet"),
            )
            for number, level in enumerate(strategy.geolevels)
        ),
        tallyveil=("0.1.0",),
        versions={"python": "3.11.9", "numpy": "2.1.3", "polars": "1.20.0"},
        ledger=ledger_record(root),
        declassified=(),
        body={
            "name": name,
            "plan": plan,
            "inputs": {"records_keyed_hash": "a1" * 32, "geography_sha256": "b2" * 32},
            "sizes": sizes,
            "solver": solver_mapping(strategy.geolevels),
        },
    )
    write_json(root / "plan.json", plan)
    write_manifest(root, manifest)
    return root


@pytest.fixture(scope="session")
def redistricting(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eleven queries at six geolevels, with an invariant and bounds. Do not write into it."""
    return make_release(
        tmp_path_factory.mktemp("redistricting"),
        schema=load_preset("pl94-persons"),
        strategy=load_strategy_preset("redistricting-us").strategy,
        declared=DECLARED,
        name="Redistricting counts of Rhode Island",
        invariants=[{"query": "total", "geolevels": ["State"]}],
        bounds=[{"name": "group quarters", "query": "hhgq", "geolevel": "Block", "missing_upper": 0}],
    )


@pytest.fixture
def make_race_age(tmp_path: Path) -> Callable[..., Path]:
    """Makes a release of four queries at five geolevels; keywords change it."""

    def make(**changes: Any) -> Path:
        strategy = changes.pop("strategy", race_age_strategy())
        settings = {
            "declared": Fraction(2),
            "name": "Race and age in a small state",
            "schema": load_preset("race-age"),
        } | changes
        return make_release(tmp_path, strategy=strategy, **settings)

    return make


@pytest.fixture
def rewrite() -> Callable[[Path, Callable[[dict[str, Any]], None]], None]:
    """Changes a JSON file in place, with the digest that a manifest has of itself."""

    def change(path: Path, edit: Callable[[dict[str, Any]], None]) -> None:
        content = json.loads(path.read_text())
        edit(content)
        if "digest" in content:
            digested = {key: value for key, value in content.items() if key != "digest"}
            content["digest"] = digest_of(digested).hex()
        path.write_text(json.dumps(content))

    return change


@pytest.fixture
def ledger(tmp_path) -> Any:
    """A ledger in which nothing was spent."""
    with Ledger(
        tmp_path / "ledger.jsonl", Declaration("rho", Fraction(1), Neighbours.BOUNDED), "0123456789abcdef"
    ) as opened:
        yield opened


@pytest.fixture(scope="session")
def silent() -> Any:
    """Noise that is zero everywhere."""

    def add_dense(law, geolevel, query, geounits, counts) -> None:
        pass

    return SimpleNamespace(
        add_dense=add_dense, at=lambda law, geolevel, query, geounits, answers: 0 * answers
    )


@pytest.fixture(scope="session")
def watched() -> Any:
    """Makes a source of the same noise, and a list of how many answers were asked of it at a time."""

    def made(source: Any) -> tuple[Any, list[int]]:
        sizes: list[int] = []

        def at(law, geolevel, query, geounits, answers) -> Any:
            sizes.append(len(answers))
            return source.at(law, geolevel, query, geounits, answers)

        return SimpleNamespace(add_dense=source.add_dense, at=at), sizes

    return made
