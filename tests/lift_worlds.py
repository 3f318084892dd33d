"""A small world for lift passes: persons whose householders are as many as the occupied units of a finished release."""

from pathlib import Path

import numpy as np
import polars as pl
from tests.outer_worlds import COARSE_PERSONS, GEOGRAPHY, PRIVACY, blocks

HOMES = f"""
[release]
name = "homes"
[records]
path = "homes.parquet"
count = "count"
{GEOGRAPHY}
[schema]
name = "homes"
unit = "unit"
[[schema.attributes]]
name = "status"
levels = ["occupied", "vacant"]
[[schema.recodes]]
name = "lived_in"
attribute = "status"
groups = {{ occupied = ["occupied"] }}
{PRIVACY}
[strategy.queries."*"]
detailed = "1"
[[invariants]]
query = "status"
geolevels = ["Block"]

[outputs]
microdata = false
"""

LIFTED = f"""
[release]
name = "persons"
[records]
path = "persons.parquet"
count = "count"
{GEOGRAPHY}
[schema]
name = "persons"
[[schema.attributes]]
name = "relation"
levels = ["alone", "head", "other", "prison"]
[[schema.attributes]]
name = "sex"
levels = ["male", "female"]
[[schema.attributes]]
name = "age"
levels = ["0", "1", "2", "3"]
[[schema.recodes]]
name = "home"
attribute = "relation"
groups = {{ house = ["alone", "head", "other"], quarters = ["prison"] }}
[[schema.recodes]]
name = "role"
attribute = "relation"
groups = {{ head = ["alone", "head"], other = ["other"], prison = ["prison"] }}
[[schema.recodes]]
name = "heads"
attribute = "relation"
groups = {{ occupied = ["alone", "head"] }}
[[schema.recodes]]
name = "lone"
attribute = "relation"
groups = {{ alone = ["alone"] }}
[[schema.recodes]]
name = "others"
attribute = "relation"
groups = {{ other = ["other"] }}
[[schema.recodes]]
name = "grown"
attribute = "age"
groups = {{ young = ["0", "1"], adult = ["2", "3"] }}
[[schema.structural_zeros]]
name = "no young heads"
cells = {{ relation = ["alone", "head"], age = ["0"] }}
{PRIVACY}
[strategy.queries."*"]
sex = "1/4"
"relation*sex" = "1/4"
detailed = "1/2"

[[estimation.outer]]
cells = "role*grown"
part = "heads"
total = "homes"
[[estimation.outer]]
cells = "relation*grown"
part = "lone"
company = "others"
[[estimation.outer]]
cells = "detailed"
rounding = ["sex"]

[[agreement]]
name = "coarse"
path = "coarse"
query = "home*grown"
theirs = "home*grown"
[[agreement]]
name = "homes"
path = "homes"
query = "heads"
theirs = "lived_in"

[outputs]
measurements = "none"
tables = ["total"]
"""


def write_world(folder: Path, seed: int = 8) -> tuple[Path, Path, Path]:
    """The records and the release files of coarse persons, homes and persons; all but the records of the homes."""
    rng = np.random.default_rng(seed)
    rows = []
    for number, block in enumerate(blocks()):
        if number % 5 == 3:
            continue
        for relation in ("alone", "head", "other", *(["prison"] if number % 4 == 1 else [])):
            for age in range(0 if relation == "other" else 2, 4):
                rows += [
                    (block, relation, sex, str(age), int(rng.integers(0, 9))) for sex in ("male", "female")
                ]
    persons = pl.DataFrame(rows, schema=["geocode", "relation", "sex", "age", "count"], orient="row")
    coarse = persons.select(
        "geocode",
        home=pl.when(pl.col("relation") == "prison").then(pl.lit("quarters")).otherwise(pl.lit("house")),
        grown=pl.when(pl.col("age").cast(pl.Int64) < 2).then(pl.lit("young")).otherwise(pl.lit("adult")),
        count="count",
    )
    folder.mkdir(parents=True, exist_ok=True)
    pl.DataFrame({"geocode": blocks()}).write_parquet(folder / "geography.parquet")
    for name, frame in (("coarse", coarse), ("persons", persons)):
        summed = frame.group_by(frame.columns[:-1], maintain_order=True).agg(pl.col("count").sum())
        summed.write_parquet(folder / f"{name}.parquet")
    paths = [folder / f"{name}.toml" for name in ("coarse", "homes", "persons")]
    for path, text in zip(paths, (COARSE_PERSONS, HOMES, LIFTED), strict=True):
        path.write_text(text)
    return paths[0], paths[1], paths[2]


def write_homes(folder: Path, more: int = 0) -> None:
    """Records of the homes: in every block at most as many as the people that the finished coarse release has there."""
    published = pl.read_parquet(folder / "coarse" / "histogram" / "Block.parquet")
    people = dict(
        published.filter(pl.col("home") == "house").group_by("geocode").agg(pl.col("count").sum()).iter_rows()
    )
    heads = pl.read_parquet(folder / "persons.parquet").filter(pl.col("relation").is_in(["alone", "head"]))
    true = dict(heads.group_by("geocode").agg(pl.col("count").sum()).iter_rows())
    rows = [
        (code, "occupied", min(max(true.get(code, 0), 1), people.get(code, 0)) + more) for code in blocks()
    ]
    pl.DataFrame(rows, schema=["geocode", "status", "count"], orient="row").write_parquet(
        folder / "homes.parquet"
    )


RESIDENTS = """
[[residents]]
name = "coarse"
people = { home = ["house"] }
adults = { grown = ["adult"] }

[[estimation.outer]]
cells = "status"
part = "lived_in"
residents = "coarse"
"""

PARTNERS = """
[[schema.recodes]]
name = "partners"
attribute = "relation"
groups = { partner = ["partner"] }
[[schema.recodes]]
name = "with_others"
attribute = "relation"
groups = { head = ["head"] }
[[schema.recodes]]
name = "living"
attribute = "relation"
groups = { alone = ["alone"], head = ["head"], other = ["partner", "other"], prison = ["prison"] }
"""


HOUSING_BOUNDS = """
[[bounds]]
name = "housing"
query = "home"
geolevel = "Block"
path = "housing.parquet"
missing = "zero"
"""
WITH_PARTNERS = {
    'path = "coarse"\n': "",
    'path = "homes"\n': "",
    '"alone", "head", "other", "prison"]': '"alone", "head", "partner", "other", "prison"]',
    '"alone", "head", "other"]': '"alone", "head", "partner", "other"]',
    'other = ["other"]': 'other = ["partner", "other"]',
    'cells = "relation*grown"': 'cells = "living*grown"',
    '[[estimation.outer]]\ncells = "detailed"': """[[estimation.outer]]
cells = "relation*grown"
part = "partners"
at_most = "with_others"
[[estimation.outer]]
cells = "detailed\"""",
    PRIVACY: PARTNERS + PRIVACY,
}
"""Changes of the persons for a programme."""


def write_programme(folder: Path) -> Path:
    """A programme of coarse persons, homes for them, and persons with as many heads as homes, and with partners.

    Of ten blocks, one has no homes, one has empty homes, and the others have people.
    """
    paths = write_world(folder)
    text = LIFTED
    for old, new in WITH_PARTNERS.items():
        assert old in text
        text = text.replace(old, new)
    homes = HOMES.replace('query = "status"', 'query = "total"').replace("[outputs]", RESIDENTS + "[outputs]")
    for path, own in zip(paths, (COARSE_PERSONS + HOUSING_BOUNDS, homes, text), strict=True):
        path.write_text(own)
    people = pl.read_parquet(folder / "persons.parquet")
    is_partner = (pl.col("relation") == "other") & (pl.col("age") == "3")
    relation = pl.when(is_partner).then(pl.lit("partner")).otherwise("relation")
    people.with_columns(relation=relation).write_parquet(folder / "persons.parquet")
    _write_housing(folder, people)
    programme = folder / "programme.toml"
    releases = "".join(f'[[releases]]\nname = "{one.stem}"\nfile = "{one.name}"\n' for one in paths)
    programme.write_text(f'[programme]\nname = "agreeing"\n{releases}')
    return programme


def _write_housing(folder: Path, people: pl.DataFrame) -> None:
    """Records of the homes, and where the coarse persons may live."""
    heads = (
        people.filter(pl.col("relation").is_in(["alone", "head"]))
        .group_by("geocode")
        .agg(pl.col("count").sum())
    )
    occupied, units, rows = dict(heads.iter_rows()), [], []
    for number, code in enumerate(blocks()):
        vacant = 0 if number % 10 == 3 else 3
        units += [(code, "occupied", occupied.get(code, 0)), (code, "vacant", vacant)]
        rows += [(code, "house", 0, None)] if vacant else []
        rows += [(code, "quarters", 0, None)] if number % 4 == 1 else []
    schema = ["geocode", "status", "count"]
    pl.DataFrame(units, schema=schema, orient="row").filter(pl.col("count") > 0).write_parquet(
        folder / "homes.parquet"
    )
    bounds = {"geocode": pl.String, "home": pl.String, "lower": pl.Int64, "upper": pl.Int64}
    pl.DataFrame(rows, schema=bounds, orient="row").write_parquet(folder / "housing.parquet")
