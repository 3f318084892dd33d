"""Makes the example release of the package anew: `python r/tallyveilr/data-raw/example.py`. The people are made up.

Names are plain, because R packages refuse files whose names have spaces or signs.
"""

import shutil
import tempfile
from pathlib import Path

import polars as pl

import tallyveil
from tallyveil.files.whole_tables import publish_csv

EXAMPLES = Path(__file__).parents[1] / "inst" / "extdata"
RELEASE = """
[release]
name = "example"
[records]
path = "people.csv"
count = "count"
[geography]
path = "blocks.csv"
geolevels = ["Region", "Town", "Block"]
prefix_lengths = [2, 4, 6]
names = "names.csv"
[schema]
name = "people"
[[schema.attributes]]
name = "age"
levels = ["0-15", "16 or older", "NA"]
[[schema.attributes]]
name = "home"
levels = ["house", "barracks"]
[[schema.recodes]]
name = "adult"
attribute = "age"
groups = { "16 or older" = ["16 or older"] }
[privacy]
neighbours = "bounded"
mechanism = "discrete_gaussian"
rho = "1/2"
[strategy]
rho = "1/2"
[strategy.geolevels]
Region = "1/3"
Town = "1/3"
Block = "1/3"
[strategy.queries."*"]
total = "1/2"
detailed = "1/2"
[outputs]
tables = ["total", "age", "detailed"]
intervals = "0.95"
microdata = false
"""
BLOCKS = [f"0{region}0{town}0{block}" for region in (1, 2) for town in (1, 2, 3) for block in (1, 2)]
NAMES = {
    "geolevel": ["Region", "Region", "Town", "Town", "Town"],
    "geocode": ["01", "02", "0101", "0102", "0201"],
    "name": ["North", "South", 'Saint "Mü", North', "Sand", "Stone"],
}


def main() -> None:
    """Write the release, its CSV files, and nothing else, into `inst/extdata`."""
    cells = [(age, home) for age in ("0-15", "16 or older", "NA") for home in ("house", "barracks")]
    people = [
        (block, age, home, (7 * place + 13 * number) % 40 * (age != "NA" or home == "house"))
        for place, block in enumerate(BLOCKS)
        for number, (age, home) in enumerate(cells)
    ]
    shutil.rmtree(EXAMPLES, ignore_errors=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        columns = ["geocode", "age", "home", "count"]
        pl.DataFrame(people, schema=columns, orient="row").write_csv(folder / "people.csv")
        pl.DataFrame({"geocode": BLOCKS}).write_csv(folder / "blocks.csv")
        pl.DataFrame(NAMES).write_csv(folder / "names.csv")
        (folder / "release.toml").write_text(RELEASE, encoding="utf-8")
        tallyveil.run(folder / "release.toml", EXAMPLES / "release")
    publish_csv(EXAMPLES / "release", EXAMPLES / "csv")
    (EXAMPLES / "release" / "report.html").unlink()


if __name__ == "__main__":
    main()
