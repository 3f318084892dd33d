"""Measurements of DHC persons at State and County: the questions of the guide, beside dense least squares."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from scipy.stats import norm

import tallyveil
from tallyveil.plans.from_toml.descriptions import descriptions_named

(PERSONS,) = descriptions_named("dhc-2020-persons")
COUNTIES = ("04410001", "04410003")
VARIANCE = {"State": 3.0, "County": 5.0}
QUERIES = ("age_38_groups*sex", "age_18_64_116*sex", "hispanic*sex")
CELLS = [
    (sex, age, hispanic)
    for sex in range(2)
    for age in range(PERSONS.schema.attribute("age").size)
    for hispanic in range(2)
]
"""Cells of the dense model: what the three queries tell apart."""


def counted(name: str) -> np.ndarray:
    """Which cells each answer of a query counts; shape (n_answers, n_cells)."""
    query = PERSONS.schema.query(name)
    place = {"sex": 0, "age": 1, "hispanic": 2}
    matrix = np.zeros((query.size, len(CELLS)))
    for column, cell in enumerate(CELLS):
        groups = [factor.codes[cell[place[factor.attribute]]] for factor in query.named_factors]
        if min(groups) >= 0:
            matrix[np.ravel_multi_index(groups, [factor.size for factor in query.named_factors]), column] = 1
    return matrix


def noisy(people: dict[str, np.ndarray]) -> Iterator[tuple[str, str, str, np.ndarray]]:
    """Geolevel, geocode, query and answers: those of the people and noise."""
    rng = np.random.default_rng(5)
    for geolevel, geounits in (("State", {"044": sum(people.values())}), ("County", people)):
        for code, there in geounits.items():
            for query in QUERIES:
                true = counted(query) @ there
                noise = np.rint(rng.normal(0, VARIANCE[geolevel] ** 0.5, true.size))
                yield geolevel, code, query, (true + noise).astype(int)


def write_files(root: Path, answers: list[tuple[str, str, str, np.ndarray]]) -> None:
    for geolevel, variance in VARIANCE.items():
        rows = [
            {"geocode": code, "query_name": f"{query}_dpq", "value": values.tolist(), "variance": variance}
            for level, code, query, values in answers
            if level == geolevel
        ]
        codes = sorted({row["geocode"] for row in rows})
        exact = [{"geocode": code, "query_name": "tot_con", "value": [1], "sign": "="} for code in codes]
        for table, content in (("DPQuery", rows), ("Constraint", exact)):
            folder = root / f"{geolevel}.parquet" / table / "State=044"
            folder.mkdir(parents=True)
            pl.DataFrame(content).write_parquet(folder / "part-0.parquet")


def test_sexes_and_ages_of_a_county(tmp_path, command):
    rng = np.random.default_rng(8)
    people = {code: rng.poisson(2.0, len(CELLS)) for code in COUNTIES}
    answers = list(noisy(people))
    write_files(tmp_path / "files", answers)
    command(
        *("measurements", "import", tmp_path / "files", "--as", "dhc-2020-persons"),
        *("--out", tmp_path / "measured"),
    )
    # Least squares over the cells of both counties; the State is their sum.
    where = {"044": (1, 1), COUNTIES[0]: (1, 0), COUNTIES[1]: (0, 1)}
    matrix = np.concatenate([np.kron(where[code], counted(query)) for _, code, query, _ in answers])
    values = np.concatenate([item[3] for item in answers])
    deviations = np.concatenate([np.full(item[3].size, VARIANCE[item[0]] ** 0.5) for item in answers])
    weighted = matrix / deviations[:, None]
    inverse = np.linalg.pinv(weighted, rcond=1e-10)
    wanted, covariance = inverse @ (values / deviations), inverse @ inverse.T
    measured = tallyveil.open(tmp_path / "measured")
    # Table P12, as far as measured ages determine it: others have no estimate.
    table = measured.ask(f"sex by agePyramid23groups in {COUNTIES[0]}").to_frame()
    rows = np.kron((1, 0), counted("sex*agePyramid23groups"))
    known = np.abs(rows - rows @ inverse @ weighted).max(axis=1) < 1e-6
    assert table["estimate"].is_not_null().to_numpy().tolist() == known.tolist()
    assert known.sum() > 20
    assert table["estimate"].to_numpy()[known] == pytest.approx((rows @ wanted)[known], abs=1e-3)
    errors = np.sqrt(np.einsum("ij,jk,ik->i", rows, covariance, rows))
    assert table["standard_error"].to_numpy()[known] == pytest.approx(errors[known], rel=1e-3)
    assert (table["lower"] <= table["estimate"]).drop_nulls().all()
    # Whether more of a county are men than women: the difference of the two counts, and its standard error.
    sexes = np.kron((1, 0), counted("sex"))
    difference = sexes[0] - sexes[1]
    likely = norm.cdf(difference @ wanted / np.sqrt(difference @ covariance @ difference))
    county = measured.area(COUNTIES[0])
    counts = measured.quantities({sex: county.count("sex", {"sex": sex}) for sex in ("male", "female")})
    assert counts.probability_greater("male", "female") == pytest.approx(likely, abs=1e-3)
