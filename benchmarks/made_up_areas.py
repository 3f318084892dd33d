"""Six made-up States in the layouts of the Census Bureau, with education by block and earnings by area.

Writes what `tallyveil geography import` and `tallyveil study fdp-census --figure 9 --own` read: block assignment files,
the relationship file of ZIP Code areas, the list of metropolitan areas, and counts and earnings in seven kinds of
areas. County subdivisions are parts of counties; places, ZIP Code areas and tracts cross each other; metropolitan areas
are counties, some of them in two States.

    python benchmarks/made_up_areas.py FOLDER
"""

import argparse
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import polars as pl

STATES = {"09": "CT", "10": "DE", "23": "ME", "33": "NH", "44": "RI", "50": "VT"}
COUNTIES, TRACTS, BLOCKS = 5, 6, 40  # counties of a State, tracts of a county, blocks of a tract
LEVELS = ("under_9", "grades_9_to_12", "high_school", "some_college", "associate", "bachelor")
NOISES = {
    "States": ("state", "State"),
    "Metropolitan areas": ("cbsa", "County"),
    "Counties": ("county", "County"),
    "Tracts": ("tract", "Tract Subset"),
    "County subdivisions": ("published_county_subdivision", "PEPG"),
    "Places": ("published_place", "PEPG"),
    "ZIP Code areas": ("zcta", "Tract Subset Group"),
}
"""The seven kinds of areas of Figure 9: the column of each, and the geolevel of Table 1 whose noise it gets."""


def blocks(chance: np.random.Generator) -> pl.DataFrame:
    """Every block with the codes of its areas as the Bureau's files have them; null for none."""
    rows = []
    for number, state in enumerate(STATES):
        of_state = COUNTIES * TRACTS * BLOCKS
        for place in range(of_state):
            county, in_county = divmod(place, TRACTS * BLOCKS)
            tract, block = divmod(in_county, BLOCKS)
            # Parts of 60 blocks cross tracts of 40; parts of 80, moved by 30, cross counties.
            postal = number * 100 + (place + 30) // 80
            rows.append(
                {
                    "geocode": f"{state}{2 * county + 1:03d}{tract + 1:06d}{1 + block // 20}{block:03d}",
                    "cousub": f"{10_000 + in_county // 60:05d}",
                    "place": f"{20_000 + place // 100:05d}" if place % 100 < 70 else None,
                    "zcta": f"{1_000 + postal:05d}" if place % 97 else None,
                    "county_number": number * COUNTIES + county,
                }
            )
    table = pl.DataFrame(rows, infer_schema_length=None)
    # Richer and poorer tracts and blocks: a share of graduates for each.
    tracts = np.repeat(chance.beta(6, 12, len(rows) // BLOCKS), BLOCKS)
    return table.with_columns(degree=np.clip(tracts + chance.normal(0, 0.08, len(rows)), 0.02, 0.95))


def education(table: pl.DataFrame, chance: np.random.Generator) -> pl.DataFrame:
    """Adults of every block by education."""
    degree = table["degree"].to_numpy()[:, None]
    parts = np.hstack([(1 - degree) * np.array([0.05, 0.1, 0.4, 0.3, 0.15]), degree])
    people = chance.multinomial(40 + chance.poisson(60, len(parts)), parts)
    return table.select("geocode").with_columns(
        pl.Series(name, people[:, place]) for place, name in enumerate(LEVELS)
    )


def write(folder: Path, name: str, lines: list[str]) -> None:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_census(folder: Path, table: pl.DataFrame) -> None:
    """The files of the Bureau and of the Office of Management and Budget."""
    for state, abbreviation in STATES.items():
        part = table.filter(pl.col("geocode").str.starts_with(state))
        columns = part.select("geocode", "cousub", pl.col("place").fill_null("")).rows()
        files = {
            "MCD": ["BLOCKID|COUNTYFP|COUSUBFP", *(f"{b}|{b[2:5]}|{cousub}" for b, cousub, _ in columns)],
            "INCPLACE_CDP": ["BLOCKID|PLACEFP", *(f"{b}|{place}" for b, _, place in columns)],
        }
        for kind, lines in files.items():
            write(folder, f"baf/BlockAssign_ST{state}_{abbreviation}_{kind}.txt", lines)
    header = "OID_ZCTA5_20|GEOID_ZCTA5_20|GEOID_TABBLOCK_20"
    zctas = table.select(pl.col("zcta").fill_null(""), "geocode").rows()
    write(folder, "zcta.txt", [header, *(f"{place}|{z}|{b}" for place, (z, b) in enumerate(zctas))])
    counties = (
        table.select(pl.col("geocode").str.slice(0, 5), "county_number").unique().sort("geocode").rows()
    )
    # Areas of two counties, the last of one State with the first of the next, and every seventh county in none.
    areas = [
        f'{10_100 + 20 * ((n + 1) // 2)},,,"Made-up area, {n}",{code[:2]},{code[2:]}'
        for code, n in counties
        if n % 7
    ]
    head = "CBSA Code,Metropolitan Division Code,CSA Code,CBSA Title,FIPS State Code,FIPS County Code"
    write(
        folder, "list1.csv", ["List 1. Made-up statistical areas,,,,,", head, *areas, "Note: made up.,,,,,"]
    )


def write_earnings(
    folder: Path, codes: Mapping[str, pl.Series], people: pl.DataFrame, chance: np.random.Generator
) -> None:
    """Median earnings of every area, as another source has them: a line in its share of graduates, and chance."""
    tables = []
    for name, (column, _) in NOISES.items():
        sums = (
            people.with_columns(code=codes[column])
            .drop_nulls("code")
            .group_by("code")
            .agg(pl.col(LEVELS).sum())
        )
        share = (pl.col("bachelor") / pl.sum_horizontal(LEVELS)).alias("share")
        sums = sums.sort("code").select("code", share)
        earnings = 25_000 + 30_000 * sums["share"].to_numpy() + chance.normal(0, 2_000, sums.height)
        tables.append(sums.select("code", kind=pl.lit(name), earnings=pl.Series(earnings.round())))
    pl.concat(tables).write_csv(folder / "earnings.csv")


def codes_of(table: pl.DataFrame) -> dict[str, pl.Series]:
    """The codes of each kind of area as `tallyveil geography import` writes them."""
    geocode = pl.col("geocode")
    number = pl.col("county_number")
    cbsa = pl.when(number % 7 != 0).then((10_100 + 20 * ((number + 1) // 2)).cast(pl.String))
    columns = {
        "state": geocode.str.slice(0, 2),
        "cbsa": cbsa,
        "county": geocode.str.slice(0, 5),
        "tract": geocode.str.slice(0, 11),
        "published_county_subdivision": geocode.str.slice(0, 5) + pl.col("cousub"),
        "published_place": geocode.str.slice(0, 2) + pl.col("place"),
        "zcta": pl.col("zcta"),
    }
    return {name: table.select(column.alias(name))[name] for name, column in columns.items()}


def own_file() -> str:
    """The file for --own."""
    regressions = "".join(
        f'[[blocks.regressions]]\nname = "{name}"\narea = "{column}"\npath = "earnings.csv"\n'
        f'rows = {{ kind = "{name}" }}\n'
        f'geounit = "code"\noutcome = "earnings"\nnoise = "{noise}"\n'
        for name, (column, noise) in NOISES.items()
    )
    counts = ", ".join(f'"{name}"' for name in LEVELS)
    return (
        f'[blocks]\npath = "education.parquet"\ngeocode = "geocode"\ncounts = [{counts}]\nshare = "bachelor"\n'
        f'areas = ["geography/geography.parquet", "geography/entities.parquet"]\n{regressions}'
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    folder: Path = parser.parse_args().folder
    chance = np.random.default_rng(9)
    table = blocks(chance)
    people = education(table, chance)
    write_census(folder, table)
    people.write_parquet(folder / "education.parquet")
    write_earnings(folder, codes_of(table), people, chance)
    write(folder, "own.toml", [own_file()])


if __name__ == "__main__":
    main()
