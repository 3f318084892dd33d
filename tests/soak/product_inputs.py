"""Valid small inputs of products that have no release file of the plain kind, and of commands on their folders."""

from functools import cache
from pathlib import Path

import base_inputs as base
from base_inputs import RUN, Folder, csv_of
from loading import module_of

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
details = ["sex", "sex * broad"]
[[cells.attributes]]
name = "sex"
levels = ["F", "M"]
[[cells.attributes]]
name = "age"
levels = ["0", "15", "65"]
[[cells.recodes]]
name = "broad"
attribute = "age"
groups = { young = ["0", "15"], old = ["65"] }
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
name = "all"
by = []
most_groups = 1
budget = "1/2"
thresholds = [0, 0]
[[levels]]
name = "codes"
by = ["code", "region"]
most_groups = 2
budget = "1/2"
thresholds = [1, 2]
total_only = { region = ["S"] }
"""
CODES = {"code": ["A1", "A2", "B1"], "group": ["A", "A", "B"]}
RECORDS = {
    "sex": ["F", "M", "F", "M", "F"],
    "age": ["0", "15", "65", "65", "0"],
    "region": ["N", "S", "N", "N", "S"],
    "d1": ["A1", "A2", "B1", "A1", "B1"],
    "d2": ["", "B1", "", "A2", ""],
}
PL94 = """
[release]
name = "pl94"
[records]
path = "{name}.parquet"
count = "count"
[geography]
path = "geography.parquet"
geolevels = ["State", "County", "Block"]
prefix_lengths = [2, 5, 15]
[schema]
preset = "{schema}"
[privacy]
neighbours = "bounded"
mechanism = "discrete_gaussian"
rho = "1/2"
[strategy]
rho = "1/2"
[strategy.geolevels]
State = "1/3"
County = "1/3"
Block = "1/3"
[strategy.queries."*"]
{queries}
"""


@cache
def groups() -> Folder:
    """Records of any kind, the groups that they are tabulated by, and a table of codes."""
    return Folder(
        {"stays.toml": STAYS.encode(), "codes.csv": csv_of(CODES), "rec.csv": csv_of(RECORDS)},
        (
            ("safetab", "plan", "stays.toml"),
            ("safetab", "plan", "stays.toml", "--json"),
            ("safetab", "run", "stays.toml", "rec.csv", "--out", "out", "--insecure-test-key", "k"),
        ),
        documents=("stays.toml",),
        tables={"codes.csv": CODES, "rec.csv": RECORDS},
        confidential=("rec.csv",),
    )


@cache
def imported(scratch: Path) -> Folder:
    """Files of the Census Bureau, and what an import made of them."""
    module = module_of(Path(__file__).parents[1] / "unit" / "geography" / "census" / "conftest.py")
    files = module.Files(scratch / "census")
    files.assigned()
    files.reference(("10",))
    lines = ["BLOCKID|GQTYPE|FACILITIES", "440010301001000|501|2", "440090511011001|101|1"]
    files.text("facilities.txt", lines)
    command = ("geography", "import", "--baf", "baf44", "--out", "out")
    return Folder(
        base._files_in(scratch / "census", "."),
        (
            command,
            (*command, "--json", "--facilities", "facilities.txt"),
            (*command, "--grf", "grf.txt", "--facilities", "facilities.txt"),
        ),
    )


@cache
def calibrated(scratch: Path) -> Folder:
    """SafeTab's parameters, to be calibrated."""
    toy = base._toy()
    # With budgets for two level sets alone, epsilon is found quickly.
    values = toy.config_values(run_pr=False)
    for name in values:
        if name.startswith("privacy_budget_p_level_") and name.partition("level_1_")[2] not in (
            "usa",
            "state",
        ):
            values[name] = 0
    toy.write_params(scratch / "calibrate" / "p", **values)
    command = ("safetab", "calibrate", "p", "--out", "out")
    return Folder(
        base._files_in(scratch / "calibrate", "."),
        ((*command, "--epsilon", "3"), (*command, "--margins", "USA 1 = 10")),
        documents=("./p/config.json",),
    )


@cache
def measured(scratch: Path) -> Folder:
    """Measurements that were published, with their inputs."""
    from tallyveil.noise.key import insecure_key
    from tallyveil.plans.from_toml.load import load_plan
    from tallyveil.products.topdown.run.run import measure_release

    folder = scratch / "measured"
    base._write(folder, base.release())
    measure_release(load_plan(folder / "release.toml"), folder / "out", test_key=insecure_key("k"))
    return Folder(
        base._files_in(folder, "."),
        (
            ("estimate", "out", "--out", "made", "--workers", "1"),
            ("measure", "release.toml", "--out", "out", *RUN[2:]),
            ("account", "total", "out"),
        ),
        writable=("out",),
    )


@cache
def published(scratch: Path) -> Folder:
    """Releases of persons and of housing units, from which tables are published."""
    from tallyveil.noise.key import insecure_key
    from tallyveil.plans.from_toml.load import load_plan
    from tallyveil.products.topdown.run.run import run_release
    from tallyveil.synthetic.population import make_states, write_states

    folder = scratch / "published"
    queries = {"pl94-persons": 'total = "1/2"\nhhgq = "1/2"', "pl94-units": 'total = "1/2"\nh1 = "1/2"'}
    for number, (schema, text) in enumerate(queries.items()):
        write_states(make_states(schema, 5, seed=1), folder / schema)
        release = PL94.format(name="records", schema=schema, queries=text)
        (folder / schema / "release.toml").write_text(release)
        key = insecure_key("k")
        place = folder / ("out/persons", "out/units")[number]
        run_release(load_plan(folder / schema / "release.toml"), place, test_key=key, workers=1)
    return Folder(
        base._files_in(folder / "out", "./out"),
        (
            ("publish", "pl94", "out/persons", "out/units", "--out", "made", "--csv"),
            ("publish", "pl94", "out/persons", "--out", "made", "--json"),
        ),
    )
