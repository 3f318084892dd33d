"""How often intervals of regressions on noisy counts hold the slope, with counts, shares and logits of shares.

    python benchmarks/regression_coverage.py            # 100 keys: four minutes on one core

Each repetition draws 150 areas of some 300 people in 15 towns: the part of young people differs from area to area, and
whether a person works follows a logistic curve of it, with chance of the area besides. The areas are released under a
key of their own, and the work of an area is regressed on its young people in three forms. The slope that the intervals
should hold is that of a million such areas before noise.

Printed are, for each form, the part of the regressor's spread that is noise, the mean error of the slope by least
squares, by SIMEX and by corrected moments, as parts of the slope, the part of the intervals of 95 % of the corrected
slope, and of least squares, that hold it, and how many repetitions were refused.
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np
import polars as pl

import tallyveil
from tallyveil.analysis import Variable, count, regress, share
from tallyveil.errors import ConfigError

AREAS, TOWNS, PEOPLE = 150, 15, 300
AGES, WORK = ("young", "old"), ("employed", "none")
RHO = "1/100"


def drawn(rng: np.random.Generator, areas: int) -> np.ndarray:
    """People of areas by age and work; shape (areas, 2, 2)."""
    young = rng.beta(4.0, 6.0, areas)
    works = 1 / (1 + np.exp(-(-0.8 + 2.0 * young + rng.normal(0, 0.3, areas))))
    ages = np.stack([young, 1 - young], axis=1)
    law = ages[:, :, None] * np.stack([works, 1 - works], axis=1)[:, None, :]
    people = rng.poisson(PEOPLE, areas)
    return np.array(
        [
            rng.multinomial(n, probabilities.ravel()).reshape(2, 2)
            for n, probabilities in zip(people, law, strict=True)
        ]
    )


EMPLOYED, YOUNG = {"work": "employed"}, {"age": "young"}
FORMS: dict[str, tuple[Variable, Variable]] = {
    "counts": (count(EMPLOYED), count(YOUNG)),
    "shares": (share(EMPLOYED), share(YOUNG)),
    "logits of shares": (share(EMPLOYED, logit=True), share(YOUNG)),
}


def exact_slope(form: str, people: np.ndarray) -> float:
    """The slope before noise."""
    young, employed, everybody = (
        people[:, 0].sum(axis=1),
        people[:, :, 0].sum(axis=1),
        people.sum(axis=(1, 2)),
    )
    x, y = (young, employed) if form == "counts" else (young / everybody, employed / everybody)
    return float(np.polyfit(x, np.log(y / (1 - y)) if form.startswith("logits") else y, 1)[0])


def plan_of(folder: Path, people: np.ndarray) -> tallyveil.Plan:
    """The plan of a release of some areas."""
    codes = [f"{place % TOWNS:02}{place:03}" for place in range(len(people))]
    areas = pl.DataFrame({"area": codes, "town": [code[:2] for code in codes], "state": "S"})
    areas.write_parquet(folder / "areas.parquet")
    cells = [(area, age, work) for area in codes for age in AGES for work in WORK]
    records = pl.DataFrame(cells, schema=["area", "age", "work"], orient="row")
    records = records.with_columns(number=pl.Series(people.ravel()))
    records.filter(pl.col("number") > 0).write_parquet(folder / "people.parquet")
    levels = {"State": "1/8", "Town": "3/8", "Area": "1/2"}
    geography = {
        "path": "areas.parquet",
        "geocode": "area",
        "geolevels": [*levels],
        "parent_columns": ["state", "town"],
    }
    attributes = [{"name": "age", "levels": [*AGES]}, {"name": "work", "levels": [*WORK]}]
    return tallyveil.plan(
        {
            "release": {"name": "regressed"},
            "records": {"path": "people.parquet", "geocode": "area", "count": "number"},
            "geography": geography,
            "schema": {"name": "regressed", "unit": "person", "attributes": attributes},
            "privacy": {
                "neighbours": "bounded",
                "mechanism": "discrete_gaussian",
                "rho": RHO,
                "delta": "1e-10",
            },
            "strategy": {"rho": RHO, "geolevels": levels, "queries": {"*": {"age*work": "1"}}},
            "outputs": {"tables": ["total"], "measurements": "full"},
        },
        folder=folder,
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--keys", type=int, default=100)
    args = parser.parse_args()
    many = drawn(np.random.default_rng(0), 1_000_000)
    slopes = {form: exact_slope(form, many) for form in FORMS}
    intervals: dict[str, list[list[float]]] = {form: [] for form in FORMS}
    for key in range(args.keys):
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            plan = plan_of(folder, drawn(np.random.default_rng([1, key]), AREAS))
            release = tallyveil.run(plan, folder / "out", insecure_test_key=f"regression {key}", workers=1)
            counts = release.ask("age by work by Area", workers=1)
            for form, (outcome, regressor) in FORMS.items():
                try:
                    row = regress(counts, outcome, {"young": regressor}).table.row(1, named=True)
                except ConfigError:  # too much noise for this form
                    continue
                slope = slopes[form]
                naive_holds = abs(row["naive"] - slope) <= 1.959964 * row["naive_standard_error"]
                holds = row["lower"] <= slope <= row["upper"]
                errors = [row[name] / slope - 1 for name in ("naive", "simex", "estimate")]
                intervals[form].append([row["noise"], *errors, float(holds), float(naive_holds)])
    headings = ("noise", "naive", "simex", "moments", "± s.e.", "held", "naive held", "refused")
    print(f"{'percent of ...':18}", *(f"{heading:>10}" for heading in headings))
    for form, rows in intervals.items():
        percentages = 100 * np.array(rows)
        noise, naive, simex, moments, held, naive_held = percentages.mean(axis=0)
        spread = percentages[:, 3].std(ddof=1) / len(percentages) ** 0.5
        numbers = (noise, naive, simex, moments, spread, held, naive_held)
        print(f"{form:18}", *(f"{number:10.1f}" for number in numbers), f"{args.keys - len(rows):10}")


if __name__ == "__main__":
    main()
