"""A small programme whose last release counts households of heads, with sizes that add up to the people in them."""

from pathlib import Path

import numpy as np
import polars as pl
from tests.lift_worlds import write_programme
from tests.outer_worlds import GEOGRAPHY, PRIVACY

SIZES = ("alone", "two", "three", "four_plus")

HOUSEHOLDS = f"""
[release]
name = "households"
[records]
path = "households.parquet"
count = "count"
{GEOGRAPHY}
[schema]
name = "households"
unit = "unit"
[[schema.attributes]]
name = "size"
levels = ["alone", "two", "three", "four_plus", "vacant"]
[[schema.attributes]]
name = "head"
levels = ["male", "female", "none"]
[[schema.recodes]]
name = "status"
attribute = "size"
groups = {{ occupied = ["alone", "two", "three", "four_plus"], vacant = ["vacant"] }}
[[schema.recodes]]
name = "living"
attribute = "size"
groups = {{ alone = ["alone"], with_others = ["two", "three", "four_plus"] }}
[[schema.recodes]]
name = "alone_or_not"
attribute = "size"
groups = {{ alone = ["alone"], with_others = ["two", "three", "four_plus"], vacant = ["vacant"] }}
[[schema.recodes]]
name = "large_or_not"
attribute = "size"
groups = {{ alone = ["alone"], smaller = ["two", "three"], four_plus = ["four_plus"], vacant = ["vacant"] }}
[[schema.recodes]]
name = "large"
attribute = "size"
groups = {{ four_plus = ["four_plus"] }}
[[schema.recodes]]
name = "middle"
attribute = "size"
groups = {{ three = ["three"] }}
[[schema.recodes]]
name = "sizes"
attribute = "size"
groups = {{ "1" = ["alone"], "2" = ["two"], "3" = ["three"], "4" = ["four_plus"] }}
[[schema.recodes]]
name = "sex"
attribute = "head"
groups = {{ male = ["male"], female = ["female"] }}
[[schema.structural_zeros]]
name = "nobody heads a vacant unit"
cells = {{ size = ["vacant"], head = ["male", "female"] }}
[[schema.structural_zeros]]
name = "somebody heads a household"
cells = {{ size = ["alone", "two", "three", "four_plus"], head = ["none"] }}
{PRIVACY}
[strategy.queries."*"]
sizes = "1/2"
detailed = "1/2"

[[estimation.outer]]
cells = "alone_or_not*head"
[[estimation.outer]]
cells = "large_or_not*head"
part = "large"
sizes = "persons"
[[estimation.outer]]
cells = "detailed"
part = "middle"
sizes = "persons"

[[agreement]]
name = "persons"
query = "living*sex"
theirs = "living_heads*sex"
[[agreement]]
name = "homes"
query = "status"
theirs = "status"
[[residents]]
name = "persons"
households = "sizes"
geolevel = "Block"
[residents.people]
relation = ["alone", "head", "partner", "other"]

[outputs]
measurements = "full"
tables = ["total"]
"""
LIVING_HEADS = """
[[schema.recodes]]
name = "living_heads"
attribute = "relation"
groups = { alone = ["alone"], with_others = ["head"] }
"""


def write_sized_programme(folder: Path) -> Path:
    """The programme of `lift_worlds`, with households as its last release."""
    programme = write_programme(folder)
    persons = folder / "persons.toml"
    persons.write_text(persons.read_text().replace(PRIVACY, LIVING_HEADS + PRIVACY))
    rng = np.random.default_rng(5)
    people = pl.read_parquet(folder / "persons.parquet").filter(pl.col("relation").is_in(["alone", "head"]))
    rows = []
    for code, relation, sex, count in people.select("geocode", "relation", "sex", "count").iter_rows():
        shares = [1, 0, 0, 0] if relation == "alone" else [0, 0.5, 0.3, 0.2]
        rows += [
            (code, *own)
            for own in zip(SIZES, [sex] * 4, rng.multinomial(count, shares).tolist(), strict=True)
        ]
    homes = pl.read_parquet(folder / "homes.parquet").filter(status="vacant")
    rows += [(code, "vacant", "none", count) for code, _, count in homes.iter_rows()]
    frame = pl.DataFrame(rows, schema=["geocode", "size", "head", "count"], orient="row")
    summed = frame.group_by("geocode", "size", "head", maintain_order=True).agg(pl.col("count").sum())
    summed.filter(pl.col("count") > 0).write_parquet(folder / "households.parquet")
    (folder / "households.toml").write_text(HOUSEHOLDS)
    release = '[[releases]]\nname = "households"\nfile = "households.toml"\n'
    programme.write_text(programme.read_text() + release)
    return programme
