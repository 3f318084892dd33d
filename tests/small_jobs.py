"""Inputs of small jobs of every product but the main one, for tests that run them all."""

from collections.abc import Sequence
from pathlib import Path

from tests.system import test_safetab_households as homes
from tests.system.test_publish import few_queries

from tallyveil.api.beginning import write_country

COUNTRY = "country"
"""Folder of made-up countries, which takes no other files."""
STAYS = """
[release]
name = "stays"
[privacy]
mechanism = "discrete_gaussian"
rho = "1"
delta = "1e-10"
stage_1_fraction = "1/10"
[cells]
unit = "stay"
details = ["sex", "sex * age"]
[[cells.attributes]]
name = "sex"
levels = ["F", "M"]
[[cells.attributes]]
name = "age"
levels = ["0", "15", "65"]
[[groupings]]
name = "region"
columns = ["region"]
groups = ["N", "S"]
[[groupings]]
name = "code"
columns = ["d1", "d2"]
path = "codes.csv"
value = "code"
group = "group"
[[levels]]
name = "codes"
by = ["code", "region"]
most_groups = 2
budget = "1"
thresholds = [1, 2]
"""
TABLE = """
[release]
name = "table"
[table]
path = "table.csv"
count = "n"
[[attributes]]
name = "a"
levels = ["x", "y"]
[[attributes]]
name = "b"
levels = ["u", "v", "w"]
[[constraints]]
name = "rows"
margin = ["a"]
"""
GAUSSIAN = """
[privacy]
rho = "1"
[mechanism]
law = "gaussian"
rho = "1/4"
distance = "2"
"""
RESTRICTED = """
[privacy]
epsilon = "4"
[mechanism]
law = "laplace"
norm = "l1"
epsilon = "0.25"
distance = "4"
outputs = "restricted"
"""


def redistricting(folder: Path, schema: str) -> None:
    """A country of a dozen blocks, and a release file whose exact epsilon is found quickly."""
    write_country(folder / COUNTRY, blocks=12, people=300, schema=schema, seed=3)
    path = folder / COUNTRY / "release.toml"
    levels = ("State", "County", "Tract", "Block_Group", "Block")
    path.write_text(few_queries(path.read_text(), levels))


def households(folder: Path) -> None:
    """SafeTab-H's parameters, with level 1 of one geography, households, and a published T1."""
    values = {
        key: 0 for key in homes.config() if key.startswith("privacy_budget_h_") and not key.endswith("_1_usa")
    }
    homes.write_inputs(folder, 200, run_pr=False, **values)


def stays(folder: Path, rows: tuple[str, ...] = ("N,F,0,A1,", "S,M,15,A1,B1", "N,F,65,B1,")) -> None:
    """Records of any kind, and the groups that they are tabulated by."""
    (folder / "stays.toml").write_text(STAYS)
    (folder / "codes.csv").write_text("code,group\nA1,A\nA2,A\nB1,B\n")
    (folder / "stays.csv").write_text("\n".join(["region,sex,age,d1,d2", *rows * 40, ""]))


def table(folder: Path, law: str = RESTRICTED, counts: Sequence[int] = (30, 33, 36, 5, 40, 0)) -> None:
    """One table whose rows keep their sums."""
    (folder / "table.toml").write_text(TABLE + law)
    cells = [f"{a},{b}" for a in "xy" for b in "uvw"]
    rows = [f"{cell},{count}" for cell, count in zip(cells, counts, strict=True)]
    (folder / "table.csv").write_text("\n".join(["a,b,n", *rows, ""]))


def dhc(folder: Path) -> None:
    """The four releases of a made-up country."""
    write_country(folder / COUNTRY, blocks=12, people=300, schema="dhc", seed=3)
