"""`tallyveil plan --optimise` for a release with outer passes."""

import json
import tomllib

import pytest
from tests.outer_worlds import write_units

from tallyveil.plans.from_toml.load import load_plan

AIMS = """
model = "topdown"
[[aim]]
areas = ["Region", "Block"]
queries = ["persons", "ten2*sex", "tenure"]
"""


@pytest.fixture
def release(tmp_path):
    return write_units(tmp_path)[1]


@pytest.fixture
def optimise(command, release, tmp_path):
    """Runs the command with a file of aims, and reads its JSON or its error."""

    def run(text: str, *arguments, code: int = 0):
        (tmp_path / "aims.toml").write_text(text)
        said = command("plan", release, "--optimise", tmp_path / "aims.toml", "--json", *arguments, code=code)
        return said if code else json.loads(said)

    return run


def test_shares_are_better_and_fit_the_release_file(optimise, release, tmp_path):
    found = optimise(AIMS, "--out", tmp_path / "shares.toml")
    assert found["gap"] <= 1e-3
    assert all(one["ratio"] <= 1.002 for one in found["aims"])
    assert found["root_mean_square_ratio"] < 0.99
    given, own = release.read_text(), (tmp_path / "shares.toml").read_text()
    start, end = given.index("[strategy"), given.index("[[agreement]]")
    release.write_text(given[:start] + own + given[end:])
    plan = load_plan(release)
    assert plan.to_mapping()["outer"] == tomllib.loads(own)["estimation"]["outer"]


@pytest.mark.parametrize(
    ("old", "new", "code", "said"),
    [
        ("[[aim]]", 'live = "live.csv"\n[[aim]]', 5, "outer passes, whose model counts all categories"),
        ("tenure", "detailed", 5, "no outer pass determines"),
        ("tenure", "occupancy", 5, "published exactly"),
    ],
)
def test_aims_that_cannot_be_computed_are_refused(optimise, old, new, code, said):
    text = optimise(AIMS.replace(old, new), code=code)
    assert said in " ".join(text.split())
