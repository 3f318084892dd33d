"""Made-up files in the layout of the 2020 Demographic and Housing Characteristics, housing units and households."""

import re
from importlib.resources import files
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import tallyveil
from tallyveil.plans.from_toml.descriptions import descriptions_named

(UNITS,) = descriptions_named("dhc-2020-units")
COUNTIES = ("04410001", "04410003")
VARIANCE = 4.0
PRODUCTION = (
    *("householder_sex", "householder_age", "householder_hispanic", "householder_race", "oldest"),
    *("tenvacgq", "household"),
)
"""The attributes in the order in which production numbers the cells of households."""


def made_up_units(rng: np.random.Generator) -> np.ndarray:
    """1,000 households of one county and 1,000 other units, in a row for each the level of each attribute."""
    schema = UNITS.schema
    sizes = [attribute.size for attribute in schema.attributes]
    rows = np.stack([rng.integers(0, size, 100_000) for size in sizes], axis=1)
    unoccupied = rows[:, 0] >= 4
    # The last level of all attributes of households is "none".
    rows[unoccupied, 1:] = np.array(sizes[1:]) - 1
    possible = schema.possible(np.ravel_multi_index(tuple(rows.T), sizes))
    return np.concatenate([rows[possible & ~unoccupied][:1000], rows[possible & unoccupied][:1000]])


def listed(units: np.ndarray, name: str, rng: np.random.Generator) -> list[int]:
    """The noisy answers of a query, in the order in which production numbers them."""
    query = UNITS.schema.query(UNITS.form.query_of(f"{name}_dpq"))
    axes = [UNITS.schema.attribute_names.index(attribute) for attribute in PRODUCTION]
    groups = [query.factors[axis].codes[units[:, axis]] for axis in axes]
    counted = np.all([group >= 0 for group in groups], axis=0)
    shape = [query.shape[axis] for axis in axes]
    answers = np.ravel_multi_index(tuple(group[counted] for group in groups), shape)
    counts = np.bincount(answers, minlength=query.size)
    return (counts + np.rint(rng.normal(0, VARIANCE**0.5, query.size)).astype(int)).tolist()


def write_files(root: Path, units: dict[str, np.ndarray], names: list[str]) -> None:
    rng = np.random.default_rng(11)
    tree = {"State": {"044": np.concatenate(list(units.values()))}, "County": units}
    for geolevel, geounits in tree.items():
        rows = [
            {
                "geocode": code,
                "query_name": f"{name}_dpq",
                "value": listed(there, name, rng),
                "variance": VARIANCE,
            }
            for code, there in geounits.items()
            for name in names
        ]
        folder = root / f"{geolevel}.parquet"
        for table in ("DPQuery", "Constraint"):
            (folder / table / "State=044").mkdir(parents=True)
        pl.DataFrame(rows).write_parquet(folder / "DPQuery" / "State=044" / "part-0.parquet")
        exact = pl.DataFrame(
            {"geocode": list(geounits), "query_name": "tot_con", "value": [[1]] * len(geounits)}
        )
        exact.with_columns(sign=pl.lit("=")).write_parquet(
            folder / "Constraint" / "State=044" / "part-0.parquet"
        )


@pytest.fixture(scope="module")
def units() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(7)
    return {code: made_up_units(rng) for code in COUNTIES}


FEW = [name for name, query in UNITS.form.queries if UNITS.schema.query(query).size <= 5000]


@pytest.mark.nightly
def test_units_are_read_in_the_order_of_production(units, tmp_path, command):
    """Answers are those of the made-up units, up to noise; and the check of the import finds nothing wrong."""
    write_files(tmp_path / "files", units, FEW)
    assert len(FEW) == 7
    said = command("measurements", "describe", tmp_path / "files", "--json")
    assert '"fits": "dhc-2020-units"' in said
    made = tallyveil.import_measurements(tmp_path / "files", tmp_path / "made", description="dhc-2020-units")
    left_out = made.manifest.body["imported"]["left_out"]
    assert "geolevel Tract_Subset" in left_out
    assert "sex*hhage*hisp*race*elderly*ten3*hhtype at County" in left_out
    names = UNITS.schema.attribute_names
    for by, condition, levels in (
        ("ten3", None, None),
        ("race by ten2", None, None),
        ("coupled_hh_type", "hisp = hispanic", ("householder_hispanic", [1])),
        ("hhage", "ten2 = not_owned", ("tenvacgq", [2, 3])),
        ("gqtypes", None, None),
    ):
        where = "" if condition is None else f" where {condition}"
        answer = made.ask(f"{by} by County{where}").to_frame()
        assert answer["lacking"].null_count() == answer.height
        true = []
        for there in units.values():
            counted = there
            if levels is not None:
                counted = there[np.isin(there[:, names.index(levels[0])], levels[1])]
            query = UNITS.schema.query("*".join(by.split(" by ")))
            groups = [factor.codes[counted[:, axis]] for axis, factor in enumerate(query.factors)]
            inside = np.all([group >= 0 for group in groups], axis=0)
            answers = np.ravel_multi_index(tuple(group[inside] for group in groups), query.shape)
            counts = np.bincount(answers, minlength=query.size)
            true += counts.tolist()
        wrong = (answer["estimate"].to_numpy() - np.array(true)) / answer["standard_error"].to_numpy()
        assert np.abs(wrong).max() < 4.5, by
    assert all(item.is_as_stated for item in made.residuals())


@pytest.mark.nightly
def test_another_order_of_cells_is_found(units, tmp_path):
    """Without the order of production, lists are read as the schema numbers cells: the residuals show it."""
    write_files(tmp_path / "files", units, FEW)
    text = (files("tallyveil.plans.from_toml") / "published" / "dhc-2020-units.toml").read_text()
    other = tmp_path / "other.toml"
    other.write_text(re.sub(r"order = \[.*?\]\n", "", text, flags=re.DOTALL))
    made = tallyveil.import_measurements(tmp_path / "files", tmp_path / "made", description=other)
    wrong = {item.query for item in made.residuals() if not item.is_as_stated}
    assert {"hisp*ten2", "ten3*hhage*DetailedCoupleTypeMultGenDetOwnChildSize"} <= wrong


@pytest.mark.nightly
def test_all_queries_of_units_are_read_back(units, tmp_path):
    """Also those of more than a million answers."""
    names = [name for name, _ in UNITS.form.queries]
    (code,) = list(units)[:1]
    write_files(tmp_path / "files", {code: units[code]}, names)
    made = tallyveil.import_measurements(tmp_path / "files", tmp_path / "made", description="dhc-2020-units")
    path = tmp_path / "files" / "County.parquet" / "DPQuery" / "State=044" / "part-0.parquet"
    published = pl.read_parquet(path).filter(query_name="detailed_dpq")["value"][0].to_numpy()
    query = UNITS.schema.query("sex*hhage*hisp*race*elderly*ten3*hhtype")
    axes = [UNITS.schema.attribute_names.index(attribute) for attribute in PRODUCTION]
    shape = [query.shape[axis] for axis in axes]
    wanted = published.reshape(shape).transpose(np.argsort(axes)).ravel()
    assert made.measurements("County", query.name)["value"].to_numpy().tolist() == wanted.tolist()
    assert len(made.manifest.body["imported"]["left_out"]) == len(UNITS.form.geolevels) - 2
