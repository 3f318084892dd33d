"""Two small worlds for outer passes: persons and housing units like those of the census's detailed files.

Each has a coarse release that is made first, and a detailed one that agrees with it.
"""

from pathlib import Path

import numpy as np
import polars as pl

GEOLEVELS = 'geolevels = ["Region", "Town", "Block"]\nprefix_lengths = [1, 3, 5]'

PRIVACY = """
[privacy]
neighbours = "bounded"
mechanism = "discrete_gaussian"
rho = "6"

[strategy]
rho = "6"
[strategy.geolevels]
Region = "1/4"
Town = "1/4"
Block = "1/2"
"""

GEOGRAPHY = f"""
[geography]
path = "geography.parquet"
{GEOLEVELS}
"""

COARSE_PERSONS = f"""
[release]
name = "coarse"
[records]
path = "coarse.parquet"
count = "count"
{GEOGRAPHY}
[schema]
name = "coarse"
[[schema.attributes]]
name = "home"
levels = ["house", "quarters"]
[[schema.attributes]]
name = "grown"
levels = ["adult", "young"]
{PRIVACY}
[strategy.queries."*"]
total = "1/2"
detailed = "1/2"

[outputs]
microdata = false
"""

PERSONS_SCHEMA = """
[schema]
name = "persons"
[[schema.attributes]]
name = "relation"
levels = ["head", "other", "prison", "college"]
[[schema.attributes]]
name = "sex"
levels = ["male", "female"]
[[schema.attributes]]
name = "age"
levels = ["0", "1", "2", "3", "4", "5"]
[[schema.recodes]]
name = "home"
attribute = "relation"
groups = { house = ["head", "other"], quarters = ["prison", "college"] }
[[schema.recodes]]
name = "grown"
attribute = "age"
groups = { young = ["0", "1"], adult = ["2", "3", "4", "5"] }
[[schema.recodes]]
name = "ages"
attribute = "age"
groups = { "0-1" = ["0", "1"], "2-3" = ["2", "3"], "4-5" = ["4", "5"] }
[[schema.structural_zeros]]
name = "no young in prison"
cells = { relation = ["prison"], age = ["0", "1"] }
[[schema.structural_zeros]]
name = "no young heads"
cells = { relation = ["head"], age = ["0"] }
"""

PERSONS = f"""
[release]
name = "persons"
[records]
path = "persons.parquet"
count = "count"
{GEOGRAPHY}
{PERSONS_SCHEMA}
{PRIVACY}
[strategy.queries."*"]
sex = "1/8"
"relation*sex" = "1/8"
"ages*sex" = "1/4"
"relation*ages*sex" = "1/4"
detailed = "1/4"

[[estimation.outer]]
cells = "relation*ages*sex"
rounding = ["sex", "ages*sex"]
[[estimation.outer]]
cells = "detailed"

[[agreement]]
name = "coarse"
path = "coarse"
query = "home*grown"
theirs = "home*grown"

[outputs]
measurements = "none"
tables = ["total", "sex*age"]
"""

COARSE_UNITS = f"""
[release]
name = "coarse"
[records]
path = "coarse.parquet"
count = "count"
{GEOGRAPHY}
[schema]
name = "status"
[[schema.attributes]]
name = "status"
levels = ["occupied", "vacant"]
{PRIVACY}
[strategy.queries."*"]
detailed = "1"

[[invariants]]
query = "total"
geolevels = ["Block"]

[outputs]
microdata = false
"""

UNITS_SCHEMA = """
[schema]
name = "units"
unit = "unit"
[[schema.attributes]]
name = "tenure"
levels = ["owned", "rented", "free", "for_rent", "other_vacant", "prison"]
[[schema.attributes]]
name = "holder"
levels = ["male", "female", "none"]
[[schema.attributes]]
name = "size"
levels = ["1", "2", "3", "none"]
[[schema.recodes]]
name = "occupancy"
attribute = "tenure"
groups = { occupied = ["owned", "rented", "free"], vacant = ["for_rent", "other_vacant"] }
[[schema.recodes]]
name = "quarters"
attribute = "tenure"
groups = { prison = ["prison"] }
[[schema.recodes]]
name = "housing"
attribute = "tenure"
groups = { housing = ["owned", "rented", "free", "for_rent", "other_vacant"] }
[[schema.recodes]]
name = "rent"
attribute = "tenure"
groups = { owned = ["owned"], rented = ["rented"], free = ["free"] }
[[schema.recodes]]
name = "ten2"
attribute = "tenure"
groups = { owned = ["owned"], not_owned = ["rented", "free"] }
[[schema.recodes]]
name = "ten2_or_not"
attribute = "tenure"
[schema.recodes.groups]
owned = ["owned"]
not_owned = ["rented", "free"]
vacant = ["for_rent", "other_vacant"]
prison = ["prison"]
[[schema.recodes]]
name = "sex"
attribute = "holder"
groups = { male = ["male"], female = ["female"] }
[[schema.recodes]]
name = "persons"
attribute = "size"
groups = { "1" = ["1"], "2" = ["2"], "3" = ["3"] }
[[schema.structural_zeros]]
name = "occupied has a holder"
cells = { tenure = ["owned", "rented", "free"], holder = ["none"] }
[[schema.structural_zeros]]
name = "occupied has a size"
cells = { tenure = ["owned", "rented", "free"], size = ["none"] }
[[schema.structural_zeros]]
name = "others have no holder"
cells = { tenure = ["for_rent", "other_vacant", "prison"], holder = ["male", "female"] }
[[schema.structural_zeros]]
name = "others have no size"
cells = { tenure = ["for_rent", "other_vacant", "prison"], size = ["1", "2", "3"] }
"""

UNITS = f"""
[release]
name = "units"
[records]
path = "units.parquet"
count = "count"
{GEOGRAPHY}
{UNITS_SCHEMA}
{PRIVACY}
[strategy.queries."*"]
tenure = "1/4"
"ten2*sex" = "1/4"
"ten2*sex*persons" = "1/2"

[[estimation.outer]]
cells = "tenure"
[[estimation.outer]]
cells = "ten2*sex"
[[estimation.outer]]
cells = "ten2*sex*persons"

[[agreement]]
name = "coarse"
path = "coarse"
query = "occupancy"
theirs = "status"

[[invariants]]
query = "quarters"
geolevels = ["Block"]
[[invariants]]
query = "housing"
geolevels = ["Town"]

[outputs]
measurements = "none"
tables = ["tenure"]
"""


def blocks() -> list[str]:
    """Geocodes of the finest geounits."""
    return [f"{region}{town:02d}{block:02d}" for region in "PQ" for town in range(3) for block in range(4)]


def write_persons(folder: Path, seed: int = 5) -> tuple[Path, Path]:
    """The records and both release files of the persons; returns the files, the coarse one first."""
    rng = np.random.default_rng(seed)
    rows = []
    for number, block in enumerate(blocks()):
        if number % 5 == 3:
            continue
        relations = [
            "head",
            "other",
            *(["prison"] if number % 4 == 1 else []),
            *(["college"] if number % 6 == 2 else []),
        ]
        for relation in relations:
            for age in range(6):
                if (relation == "prison" and age < 2) or (relation == "head" and age == 0):
                    continue
                rows += [
                    (block, relation, sex, str(age), int(rng.integers(0, 9))) for sex in ("male", "female")
                ]
    persons = pl.DataFrame(rows, schema=["geocode", "relation", "sex", "age", "count"], orient="row")
    coarse = persons.select(
        "geocode",
        home=pl.when(pl.col("relation").is_in(["head", "other"]))
        .then(pl.lit("house"))
        .otherwise(pl.lit("quarters")),
        grown=pl.when(pl.col("age").cast(pl.Int64) < 2).then(pl.lit("young")).otherwise(pl.lit("adult")),
        count="count",
    )
    return _written(folder, persons, coarse, ("persons", PERSONS), COARSE_PERSONS)


KINDS = """[[schema.recodes]]
name = "kinds"
attribute = "relation"
groups = { house = ["head", "other"], prison = ["prison"], college = ["college"] }
"""


def facilities(query: str) -> str:
    """Bounds on the people of a query: at least one in a facility, and nobody where there is none."""
    return f"""[[bounds]]
name = "facilities"
query = "{query}"
geolevel = "Block"
path = "{query}.parquet"
missing = "zero"

[outputs]"""


def write_kinds(folder: Path, seed: int = 5) -> tuple[Path, Path]:
    """As `write_persons`. Blocks of colleges have prisons, too, and measured queries tell the two kinds apart."""
    coarse, persons = write_persons(folder, seed)
    people = pl.read_parquet(folder / "persons.parquet")
    colleges = people.filter(relation="college").with_columns(count=pl.col("count") + 1)
    prisons = colleges.with_columns(relation=pl.lit("prison"), count=pl.col("count") // 2)
    people = pl.concat([people.filter(pl.col("relation") != "college"), colleges, prisons])
    people.write_parquet(folder / "persons.parquet")
    home = {"house": "house", "prison": "quarters", "college": "quarters"}
    kinds = people.filter(pl.col("count") > 0).select(
        "geocode",
        kinds=pl.col("relation").replace({"head": "house", "other": "house"}),
        grown=pl.when(pl.col("age").is_in(["0", "1"])).then(pl.lit("young")).otherwise(pl.lit("adult")),
        count="count",
    )
    kinds = kinds.with_columns(home=pl.col("kinds").replace_strict(home))
    of_coarse = kinds.group_by("geocode", "home", "grown").agg(pl.col("count").sum()).sort(pl.all())
    of_coarse.write_parquet(folder / "coarse.parquet")
    there = kinds.select("geocode", "home", "kinds").unique().sort(pl.all())
    lower = pl.when(pl.col("home") == "house").then(0).otherwise(1)
    there = there.with_columns(lower=lower, upper=pl.lit(None, pl.Int64))
    there.drop("home").write_parquet(folder / "kinds.parquet")
    there.group_by("geocode", "home").agg(pl.col("lower").sum(), pl.col("upper").first()).sort(
        "geocode"
    ).write_parquet(folder / "home.parquet")
    coarse.write_text(coarse.read_text().replace("[outputs]", facilities("home")))
    zero = '[[schema.structural_zeros]]\nname = "no young in prison"\n'
    text = persons.read_text().replace(
        f'{zero}cells = {{ relation = ["prison"], age = ["0", "1"] }}\n', KINDS
    )
    persons.write_text(text.replace("[outputs]", facilities("kinds")))
    return coarse, persons


def write_units(folder: Path, seed: int = 6) -> tuple[Path, Path]:
    """The records and both release files of the units; returns the files, the coarse one first."""
    rng = np.random.default_rng(seed)
    rows = []
    for number, block in enumerate(blocks()):
        if number % 5 == 3:
            continue
        for tenure in ("owned", "rented", "free"):
            for holder in ("male", "female"):
                rows += [(block, tenure, holder, str(size), int(rng.integers(0, 9))) for size in (1, 2, 3)]
        others = ["for_rent", "other_vacant", *(["prison"] if number % 4 == 1 else [])]
        rows += [(block, tenure, "none", "none", int(rng.integers(0, 4))) for tenure in others]
    units = pl.DataFrame(rows, schema=["geocode", "tenure", "holder", "size", "count"], orient="row")
    coarse = units.filter(pl.col("tenure") != "prison").select(
        "geocode",
        status=pl.when(pl.col("size") == "none").then(pl.lit("vacant")).otherwise(pl.lit("occupied")),
        count="count",
    )
    return _written(folder, units, coarse, ("units", UNITS), COARSE_UNITS)


def _written(
    folder: Path, records: pl.DataFrame, coarse: pl.DataFrame, named: tuple[str, str], coarse_file: str
) -> tuple[Path, Path]:
    folder.mkdir(parents=True, exist_ok=True)
    name, text = named
    records.write_parquet(folder / f"{name}.parquet")
    coarse.group_by("geocode", *coarse.columns[1:-1], maintain_order=True).sum().write_parquet(
        folder / "coarse.parquet"
    )
    pl.DataFrame({"geocode": blocks()}).write_parquet(folder / "geography.parquet")
    (folder / "coarse.toml").write_text(coarse_file)
    (folder / f"{name}.toml").write_text(text)
    return folder / "coarse.toml", folder / f"{name}.toml"
