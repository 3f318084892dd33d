"""`tallyveil plan --optimise`: better shares of the same budget, in a file that a release file can take."""

import json
import re
import tomllib
from fractions import Fraction

import polars as pl
import pytest
from tests.samples import nightly

from tallyveil.storage.write import write_parquet

AIMS = """
model = "{model}"
minimise = "{minimise}"
[[aim]]
areas = ["Town", "Block"]
queries = ["total", "age*home"]
"""


@pytest.fixture
def aims(tmp_path):
    """Writes a file of aims."""

    def write(text: str = AIMS, *, model: str = "least_squares", minimise: str = "sum", more: str = ""):
        path = tmp_path / "aims.toml"
        path.write_text(text.replace("{model}", model).replace("{minimise}", minimise) + more)
        return path

    return write


@pytest.fixture
def optimise(command, small_release):
    """Runs the command and reads its JSON."""

    def run(aims_file, *arguments):
        return json.loads(command("plan", small_release, "--optimise", aims_file, "--json", *arguments))

    return run


@pytest.mark.parametrize(
    ("model", "minimise"),
    [
        ("least_squares", "sum"),
        ("topdown", "maximum"),
        *map(nightly, ("least_squares", "topdown"), ("maximum", "sum")),
    ],
)
def test_no_aim_becomes_worse_and_the_gap_is_small(optimise, aims, model, minimise):
    found = optimise(aims(model=model, minimise=minimise))
    assert found["gap"] <= 1e-3
    assert all(one["ratio"] <= 1.002 for one in found["aims"])
    assert found["root_mean_square_ratio"] < 0.99
    assert found["epsilon"]["after"] <= found["epsilon"]["before"]
    assert Fraction(found["rho"]["after"]) <= Fraction(found["rho"]["before"])


def test_no_data_is_opened(optimise, aims, small_release):
    (small_release.parent / "people.parquet").unlink()
    (small_release.parent / "barracks.parquet").unlink()
    assert optimise(aims())["aims"]


@pytest.mark.nightly
def test_the_file_takes_the_place_of_the_strategy(command, aims, small_release, tmp_path):
    out = tmp_path / "shares.toml"
    free = (
        'floor = "0"\n' + AIMS
    )  # half of a share that was halved already is less than half of the first one
    said = command("plan", small_release, "--optimise", aims(free), "--out", out)
    assert "no shares can be better by more than" in said
    assert "put its tables in the place of [strategy] and [estimation]" in said
    text = small_release.read_text()
    rest = text[: text.index("[strategy]")] + text[text.index("[[invariants]]") :]
    small_release.write_text(rest + "\n" + out.read_text())
    planned = json.loads(command("plan", small_release, "--json"))
    made = tomllib.loads(out.read_text())
    assert planned["privacy"]["spent"] == made["strategy"]["rho"]
    assert sum(Fraction(one) for one in made["strategy"]["geolevels"].values()) == 1
    # What was optimal cannot be made better.
    again = json.loads(command("plan", small_release, "--optimise", aims(free), "--json"))
    assert again["root_mean_square_ratio"] == pytest.approx(1, abs=2e-3)


def test_promised_deviations_are_those_of_families(command, aims, small_release):
    """With one answer for each geounit and no zeros, the standard deviations that `plan --families` shows."""
    text = small_release.read_text()
    small_release.write_text(
        re.sub(
            r"\[\[bounds\]\].*?\n\n",
            "",
            re.sub(r"\[\[schema.structural_zeros\]\].*?\n\n", "\n", text, flags=re.S),
            flags=re.S,
        )
    )
    pl.DataFrame(
        {
            "geocode": pl.read_parquet(small_release.parent / "geography.parquet")["geocode"],
            "part": ["x", "y"] * 24,
        }
    ).write_parquet(small_release.parent / "parts.parquet")
    file = aims(
        'model = "least_squares"\nentities = "inputs/parts.parquet"\n[[aim]]\nareas = ["part"]\nqueries = ["total"]\n'
    )
    found = json.loads(command("plan", small_release, "--optimise", file, "--json"))
    flags = ("--families", "part", "--entities", small_release.parent / "parts.parquet", "--queries", "total")
    shown = json.loads(command("plan", small_release, "--json", *flags))
    parts = [one["standard_deviations"]["total"] for one in shown["deviations"]["entities"]]
    mean = (sum(one**2 for one in parts) / len(parts)) ** 0.5
    assert found["aims"][0]["standard_deviation"]["before"] == pytest.approx(mean, rel=1e-4)


def test_targets_are_met_with_the_least_rho(optimise, aims):
    targets = """
[[target]]
area = "Town"
query = "total"
standard_deviation = "2"
[[target]]
area = "Block"
query = "age"
within = "6"
"""
    head = 'model = "least_squares"\nminimise = "rho"\n'
    found = optimise(aims(head + targets))
    assert all(one["standard_deviation"]["after"] <= one["wanted"] * (1 + 1e-9) for one in found["aims"])
    assert max(one["standard_deviation"]["after"] / one["wanted"] for one in found["aims"]) > 0.999
    halved = optimise(aims(head + targets.replace('"2"', '"1"').replace('"6"', '"3"')))
    # Half the standard deviation costs four times the rho.
    ratio = Fraction(halved["rho"]["after"]) / Fraction(found["rho"]["after"])
    assert float(ratio) == pytest.approx(4, rel=2e-3)


@pytest.mark.nightly
def test_a_target_binds_the_sum(optimise, aims):
    free = optimise(
        aims('model = "least_squares"\nspare = false\n[[aim]]\nareas = ["Block"]\nqueries = ["age"]\n')
    )
    bound = optimise(
        aims(
            'model = "least_squares"\nspare = false\n[[aim]]\nareas = ["Block"]\nqueries = ["age"]\n'
            '[[target]]\narea = "Town"\nquery = "total"\nstandard_deviation = "1"\n'
        )
    )
    aim, target = bound["aims"]
    assert target["standard_deviation"]["after"] <= 1
    assert aim["standard_deviation"]["after"] > free["aims"][0]["standard_deviation"]["after"]
    assert aim["weight"] == "1"
    assert target["weight"] is None


LIVE = """geolevel,query,live
Region,age,3
Region,grown,2
Region,home,2
Town,age,3
Town,grown,2
Town,home,1.5
Block,age,2.5
Block,grown,1.8
Block,home,1.02
"""


@pytest.fixture
def live(aims, tmp_path):
    """Writes a file of aims with a table of live sizes."""

    def write(table: str = LIVE):
        (tmp_path / "live.csv").write_text(table)
        return aims('live = "live.csv"\n' + AIMS, model="topdown")

    return write


@pytest.mark.nightly
def test_live_sizes_foresee_smaller_errors(optimise, aims, live):
    plain, found = optimise(aims(model="topdown")), optimise(live())
    assert found["gap"] <= 1e-3
    assert all(one["ratio"] <= 1.002 for one in found["aims"])
    for one, other in zip(plain["aims"], found["aims"], strict=True):
        assert other["standard_deviation"]["before"] < one["standard_deviation"]["before"]


@pytest.mark.parametrize(
    ("old", "new", "code", "said"),
    [
        ("Town,grown,2\n", "", 3, "no row for 'grown' at Town. Add what is absent"),
        ("Town,grown,2", "Twon,grown,2", 3, "row 5 .* geolevel 'Twon'; there are Region, Town, Block"),
        ("Town,grown,2", "Town,grow,2", 3, "attribute or recode 'grow'"),
        ("Town,grown,2", "Town,age,2", 3, "row 5 .* gives 'age' at Town again"),
        ("Town,grown,2", "Town,grown,2.5", 3, "wanted a number from 1 to 2"),
        ("Town,grown,2", "Town,grown,0.5", 3, "wanted a number from 1 to 2"),
        ("Town,grown,2", "Town,grown,nan", 3, "'nan' live categories"),
        ("Town,grown,2", "Town,grown,many", 3, "'many' live categories"),
        ("Town,grown,2", "Town,grown,", 3, "None live categories"),
        ("Town,age,3", "Town,age,1.5", 3, "'age' at Town 1.5 live groups, and grown 2"),
        ("live", "size", 2, "lacks the wanted column"),
        (LIVE, "", 8, "cannot be read"),
        (LIVE, "\0\1\2", 2, "lacks the wanted column"),
    ],
)
def test_live_sizes_that_cannot_be_used(command, live, small_release, old, new, code, said):
    error = command("plan", small_release, "--optimise", live(LIVE.replace(old, new)), code=code)
    assert re.search(said, " ".join(error.split()))


@pytest.mark.parametrize("key", ["live", "entities"])
def test_a_table_is_never_the_records(command, aims, small_release, key):
    text = f'{key} = "{small_release.parent / "people.parquet"}"\n' + AIMS
    error = command("plan", small_release, "--optimise", aims(text, model="topdown"), code=5)
    assert "the file of the confidential records" in " ".join(error.split())


@pytest.mark.nightly
def test_what_is_kept_stays(optimise, aims):
    found = optimise(aims(more='[keep.Town]\ngrown = "1/5"\n'))
    share = Fraction(found["geolevel_shares"]["Town"]) * Fraction(found["query_shares"]["Town"]["grown"])
    assert Fraction(1, 5) <= share < Fraction(1, 4)


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        (AIMS.replace("Town", "Twon"), 4, "Twon, which is neither a geolevel nor a family of entities"),
        (AIMS.replace('"total"', '"ttal"'), 3, "ttal"),
        (AIMS.replace('"Town", ', '"Region", '), 5, "'total' at Region is published exactly"),
        (AIMS + '[keep.Town]\nage = "1/5"\n', 5, "'age' at Town, which the strategy does not measure"),
        (
            AIMS + '[[target]]\narea = "Town"\nquery = "total"\nstandard_deviation = "1/1000"\n',
            5,
            "at least rho = .* is needed",
        ),
    ],
)
def test_aims_that_cannot_be_worked_with(command, aims, small_release, text, code, said):
    error = command("plan", small_release, "--optimise", aims(text), code=code)
    assert re.search(said, " ".join(error.split()))


def test_an_aim_that_nothing_measures(command, aims, edit):
    release = edit('"age*home" = "1/2"', 'home = "1/2"')
    error = " ".join(command("plan", release, "--optimise", aims(), code=5).split())
    assert "nothing that the strategy measures determines 'age*home' at Town" in error


def test_laplace_noise_is_refused_with_its_reason(command, aims, edit):
    edit("discrete_gaussian", "discrete_laplace")
    release = edit('rho = "2"', 'epsilon = "2"')
    error = " ".join(command("plan", release, "--optimise", aims(), code=5).split())
    assert (
        "for Gaussian noise only. Under Laplace noise a precision grows with the square of a share" in error
    )


@pytest.mark.parametrize("size", ["1000000", "1/1000000"])
def test_targets_whose_noise_cannot_be_drawn(command, aims, small_release, size):
    text = (
        'model = "topdown"\nminimise = "rho"\n[[target]]\narea = "Town"\nquery = "total"\n'
        f'standard_deviation = "{size}"\n'
    )
    error = " ".join(command("plan", small_release, "--optimise", aims(text), code=5).split())
    assert "the targets alone need rho =" in error
    assert "could not be drawn" in error


@pytest.mark.nightly
def test_one_block(optimise, aims, edit):
    release = edit('path = "geography.parquet"', 'path = "one.parquet"')
    pl.DataFrame({"geocode": ["P0101"]}).write_parquet(release.parent / "one.parquet")
    edit('geolevels = ["Region", "Town", "Block"]', 'geolevels = ["Town", "Block"]')
    edit("[1, 3, 5]", "[3, 5]")
    edit('Region = "1/4"\nTown = "1/4"', 'Town = "1/2"')
    edit('[[invariants]]\nquery = "total"\ngeolevels = ["Region"]\n', "")
    for model in ("topdown", "least_squares"):
        found = optimise(aims(model=model))
        assert found["gap"] <= 1e-3
        deviations = {(one["area"], one["query"]): one["standard_deviation"] for one in found["aims"]}
        # The only block has the counts of its town.
        for query in ("total", "age*home"):
            town, block = deviations["Town", query], deviations["Block", query]
            assert block == pytest.approx(town, rel=1e-6)


def test_where_the_shares_are_written(command, aims, small_release, tmp_path):
    text = tmp_path / "there.toml"
    text.write_text("[strategy]\n")
    table = tmp_path / "ours.parquet"
    write_parquet(table, pl.DataFrame({"a": [1]}), {})
    link = tmp_path / "link.toml"
    link.symlink_to(tmp_path / "nowhere.toml")
    for path in (text, table, link, tmp_path, small_release / "below.toml"):
        before = path.read_bytes() if path.is_file() else b""
        command("plan", small_release, "--optimise", aims(), "--out", path, code=8)
        assert not path.is_file() or path.read_bytes() == before
    assert not (tmp_path / "nowhere.toml").exists()


@pytest.mark.nightly
def test_what_fails_leaves_no_file(command, aims, small_release, tmp_path):
    out = tmp_path / "shares.toml"
    wrong = aims(AIMS.replace("Town", "Twon"))
    command("plan", small_release, "--optimise", wrong, "--out", out, code=4)
    assert not out.exists()
    out.touch()  # as a process leaves it that is killed
    command("plan", small_release, "--optimise", aims(), "--out", out)
    assert tomllib.loads(out.read_text())["strategy"]


@pytest.mark.nightly
def test_values_of_the_tree_are_remarked_upon(command, aims, edit):
    release = edit("[estimation.passes]", '[estimation]\nvalues = "tree"\n[estimation.passes]')
    said = "usually smaller than shown, before and after"
    for model, is_said in (("topdown", True), ("least_squares", False)):
        found = " ".join(command("plan", release, "--optimise", aims(model=model)).split())
        assert (said in found) == is_said


def test_an_input_is_never_written_over(command, aims, small_release):
    file = aims()
    for path in (small_release, file, small_release.parent / "geography.parquet"):
        before = path.read_bytes()
        command("plan", small_release, "--optimise", file, "--out", path, code=8)
        assert path.read_bytes() == before


def test_flags_that_do_not_go_together(command, aims, small_release):
    assert "--out needs --optimise" in command("plan", small_release, "--out", "x.toml", code=2)
    assert "no other flags" in " ".join(
        command("plan", small_release, "--optimise", aims(), "--blocks", "5", code=2).split()
    )


def test_hostile_names_stay_names(command, aims, edit, tmp_path):
    name = "gro.wn é'[1]"
    edit('name = "grown"', f'name = "{name}"')
    release = edit('grown = "1/4"', f'"{name}" = "1/4"')
    out = tmp_path / "shares.toml"
    command("plan", release, "--optimise", aims(), "--out", out)
    assert name in tomllib.loads(out.read_text())["strategy"]["queries"]["Town"]


def test_a_tiny_budget_keeps_the_noise_within_what_can_be_drawn(optimise, aims, edit):
    edit('rho = "2"', 'rho = "2e-9"')  # the largest variance is 8e9; the limit is 1e10
    tiny = optimise(aims())
    assert tiny["gap"] <= 1e-3
    least = min(
        Fraction(tiny["geolevel_shares"][level]) * min(map(Fraction, own.values()))
        for level, own in tiny["query_shares"].items()
    )
    assert 1 / (Fraction(tiny["rho"]["after"]) * least) <= 10**10
