"""Makes the tables in `synthetic/dhc` that give made-up households their composition, ages and sexes.

    python benchmarks/household_donors.py psam_p44.csv src/tallyveil/products/dhc/made_up

The source is the person file of the American Community Survey's Public Use Microdata Sample of 2018, Rhode Island, from
the United States Census Bureau. It is in the public domain. The tables hold weighted frequencies and quantiles, and no
records.
"""

import sys
from pathlib import Path

import polars as pl

SHARES = (0.0, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1.0)
RELATION = {2: 6, 3: 7, 4: 8, 5: 9, 6: 10, 7: 11, 8: 12, 9: 13, 10: 14, 11: 17, 12: 15, 14: 16, 15: 17}
"""Level of relgq by the survey's relationship. Householders, spouses and unmarried partners depend on more."""
LAWS = {
    "spouse of a man": (pl.col("relgq") == 2) & (pl.col("first_sex") == 1),
    "spouse of a woman": (pl.col("relgq") == 2) & (pl.col("first_sex") == 2),
    "same-sex spouse": pl.col("relgq") == 4,
    "unmarried partner": pl.col("relgq").is_in([3, 5]),
    "child": pl.col("relgq").is_in([6, 7, 8]),
    "sibling": pl.col("relgq") == 9,
    "parent": pl.col("relgq") == 10,
    "grandchild": pl.col("relgq") == 11,
    "parent-in-law": pl.col("relgq") == 12,
    "child-in-law": pl.col("relgq") == 13,
    "other relative": pl.col("relgq") == 14,
    "roommate": pl.col("relgq") == 15,
    "other nonrelative": pl.col("relgq").is_in([16, 17]),
}


def main(source: Path, folder: Path) -> None:
    """Write households.csv and ages.csv."""
    people = members(source)
    households = people.group_by("SERIALNO", maintain_order=True).agg(
        pl.format("{}{}", "relgq", "band").str.join(" ").alias("members"),
        pl.col("PWGTP").first(),
        pl.col("first_age").first(),
        pl.col("first_sex").first(),
        *(test.any().alias(name) for name, test in KINDS.items()),
    )
    compositions = households.group_by("members").agg(pl.col("PWGTP").sum().alias("households"))
    compositions.sort(["households", "members"], descending=[True, False]).write_csv(
        folder / "households.csv"
    )
    rows = []
    for kind, test in CLASSES.items():
        chosen = households.filter(test & (pl.col("first_age") >= 18))
        rows.append(law(kind, chosen, "first_age", "first_sex"))
    adults = people.filter(pl.col("AGEP") >= 18).with_columns(gap=pl.col("AGEP") - pl.col("first_age"))
    rows += [law(kind, adults.filter(test), "gap", "SEX") for kind, test in LAWS.items()]
    pl.DataFrame(rows).write_csv(folder / "ages.csv")


KINDS = {
    "partner": pl.col("relgq").is_in([2, 3, 4, 5]),
    "minor": pl.col("relgq").is_in([6, 7, 8]) & (pl.col("AGEP") < 18),
    "grown": pl.col("relgq").is_in([6, 7, 8]) & (pl.col("AGEP") >= 18),
    "relative": pl.col("relgq").is_in(list(range(9, 15))),
    "nonrelative": pl.col("relgq") >= 15,
}
PARTNER, MINOR, GROWN, RELATIVE, NONRELATIVE = (pl.col(name) for name in KINDS)
CLASSES = {
    "householder with partner and minor child": PARTNER & MINOR,
    "householder with partner and grown child": PARTNER & ~MINOR & GROWN,
    "householder with partner": PARTNER & ~MINOR & ~GROWN,
    "householder with minor child": ~PARTNER & MINOR,
    "householder with grown child": ~PARTNER & ~MINOR & GROWN,
    "householder with other relatives": ~PARTNER & ~MINOR & ~GROWN & RELATIVE,
    "householder with nonrelatives": ~PARTNER & ~MINOR & ~GROWN & ~RELATIVE & NONRELATIVE,
    "householder alone": ~PARTNER & ~MINOR & ~GROWN & ~RELATIVE & ~NONRELATIVE,
}


def members(source: Path) -> pl.DataFrame:
    """The people of households, householders first, with their level of relgq and their age band."""
    columns = ["SERIALNO", "PWGTP", "AGEP", "RELP", "SEX"]
    people = pl.read_csv(source, columns=columns, schema_overrides={"SERIALNO": pl.String})
    people = people.filter(pl.col("RELP") < 16).sort("SERIALNO", "RELP", maintain_order=True)
    over = "SERIALNO"
    people = people.with_columns(
        pl.col("AGEP").first().over(over).alias("first_age"),
        pl.col("SEX").first().over(over).alias("first_sex"),
        pl.len().over(over).alias("size"),
    )
    same = pl.col("SEX") == pl.col("first_sex")
    relgq = (
        pl.when(pl.col("RELP") == 0)
        .then((pl.col("size") > 1).cast(pl.Int64))
        .when(pl.col("RELP") == 1)
        .then(pl.when(same).then(4).otherwise(2))
        .when(pl.col("RELP") == 13)
        .then(pl.when(same).then(5).otherwise(3))
        .otherwise(pl.col("RELP").replace_strict(RELATION, default=None))
    )
    age = pl.col("AGEP")
    band = pl.when(age < 6).then(pl.lit("a")).when(age < 18).then(pl.lit("b")).otherwise(pl.lit("c"))
    return people.with_columns(relgq.alias("relgq"), band.alias("band")).sort(over, "relgq", "band")


def law(name: str, rows: pl.DataFrame, column: str, sex: str) -> dict[str, object]:
    """The share of women, and weighted quantiles of a column."""
    weight, of_women = (int(some["PWGTP"].sum()) for some in (rows, rows.filter(pl.col(sex) == 2)))
    women = of_women / weight
    ranked = rows.sort(column).with_columns(pl.col("PWGTP").cum_sum().alias("below"))
    quantiles = [ranked.filter(pl.col("below") >= share * weight)[column][0] for share in SHARES]
    return {"law": name, "women": round(women, 3)} | dict(zip(map(str, SHARES), quantiles, strict=True))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
