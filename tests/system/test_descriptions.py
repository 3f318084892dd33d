"""Measurements of others are read by a description of their files, and give the numbers that they were drawn with."""

import json
import re
import shlex
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from tests.conftest import SMALL_RELEASE, write_small_inputs
from tests.samples import few, nightly

import tallyveil
from tallyveil.api.measured import Measurements
from tallyveil.errors import TallyveilError
from tallyveil.measurements.layouts.described.source import find_files
from tallyveil.plans.from_toml.descriptions import Description, descriptions_named
from tallyveil.postprocess.measured import open_measurements
from tallyveil.schema.presets import load_preset

Change = Callable[[dict[str, Any]], object]
KEYS = ["geocode", "geolevel", "query"]


@pytest.fixture(scope="module")
def measured(tmp_path_factory) -> Measurements:
    folder = tmp_path_factory.mktemp("described")
    release = write_small_inputs(folder / "inputs", SMALL_RELEASE)
    made = tallyveil.measure(release, folder / "measured", workers=1, insecure_test_key="described")
    tallyveil.export_measurements(made.path, folder / "tidy", layout="tidy")
    return made


@pytest.fixture
def tidy(measured) -> Path:
    return measured.path.parent / "tidy"


def described(tidy: Path, folder: Path, change: Change) -> Path:
    """The description of the export, changed, beside a folder."""
    content = json.loads((tidy / "description.json").read_text())
    change(content)
    path = folder / "described.json"
    path.write_text(json.dumps(content))
    return path


def assert_same(first: Measurements, second: Measurements) -> None:
    """The same noisy answers with the same variances, the same exact counts and bounds, and the same spend."""
    one, other = open_measurements(first.path), open_measurements(second.path)
    assert [table.digest() for table in one.constraints] == [table.digest() for table in other.constraints]
    assert one.plan.spent == other.plan.spent
    spine = one.hierarchies.spine
    assert spine.digest() == other.hierarchies.spine.digest()
    for level, name in enumerate(spine.geolevels):
        assert one.plan.strategy.queries(name) == other.plan.strategy.queries(name)
        for query in one.plan.strategy.queries(name):
            asked = (name, query, 0, spine.n_geounits(level), np.arange(one.plan.query(query).size))
            here, there = one.source.measure(*asked), other.source.measure(*asked)
            assert (here.values == there.values).all()
            assert (here.variances == there.variances).all()


@pytest.mark.nightly
def test_a_tidy_export_is_read_back_and_gives_the_same_release(measured, tidy, tmp_path):
    again = tallyveil.import_measurements(tidy, tmp_path / "again", layout="tidy")
    assert_same(measured, again)
    assert not again.protected
    stated = again.manifest.body["imported"]
    assert "computed from the variances in the files" in stated["statement"]
    assert stated["left_out"] == []
    releases = [
        tallyveil.estimate(made.path, tmp_path / f"release-{made.path.name}", workers=1)
        for made in (measured, again)
    ]
    for release in releases:
        release.add_intervals(workers=1)
    first, second = (
        {
            path.relative_to(item.path): pl.read_parquet(path)
            for path in item.path.glob("[ith][ani]*/**/*.parquet")
        }
        for item in releases
    )
    assert first.keys() == second.keys()
    assert len(first) > 15
    assert all(table.equals(second[name]) for name, table in first.items())
    # Estimates need no published counts; an answer without them is the same otherwise.
    whole, alone = (
        item.ask("age by Town as share of total", threshold=0.3).table for item in (releases[0], again)
    )
    assert "published" in whole.columns
    assert whole.select(alone.columns).equals(alone)


def rows(tidy: Path) -> pl.DataFrame:
    """All noisy answers of the export, in one table."""
    frame = pl.read_parquet(tidy / "measurements" / "**" / "*.parquet", hive_partitioning=True)
    return frame.with_columns(pl.col("geolevel", "query").cast(pl.String))


def keep_constraints(tidy: Path, folder: Path) -> None:
    for path in [*(tidy / "constraints").rglob("*.parquet"), tidy / "geography.parquet"]:
        place = folder / path.relative_to(tidy)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(path.read_bytes())


def one_csv(tidy: Path, folder: Path) -> Change:
    """One text file with all geolevels and queries, other names of columns and labels, and further columns."""
    frame = rows(tidy).sample(fraction=1, shuffle=True, seed=4)
    frame = frame.with_columns(age=pl.col("age").replace({"young": "Y", "old": "O"}), note=pl.lit("x, y"))
    frame = frame.rename({"age": "Alter", "geocode": "GEO", "query": "table", "geolevel": "level"})
    (folder / "noisy").mkdir()
    frame.write_csv(folder / "noisy" / "all.csv")
    (folder / "noisy" / "all.csv.sha256").write_text("0")
    (folder / "noisy" / "_SUCCESS").touch()
    names = {"geocode": "GEO", "query": "table", "geolevel": "level", "labels": {"age": "Alter"}}

    def change(content: dict[str, Any]) -> None:
        content["files"]["answers"] = "noisy"
        content["columns"] = names
        content["answers"]["labels"] = {"age": {"young": "Y", "old": "O"}}

    # The constraints are still those of the export, with its own names.
    for path in (folder / "constraints").rglob("*.parquet"):
        table = pl.read_parquet(path)
        table = table.with_columns(age=pl.col("age").replace({"young": "Y", "old": "O"}))
        table.rename({"age": "Alter", "geocode": "GEO"}).write_parquet(path)
    return change


def zeros_left_out(tidy: Path, folder: Path) -> Change:
    rows(tidy).filter(pl.col("value") != 0).write_parquet(folder / "noisy.parquet")

    def change(content: dict[str, Any]) -> None:
        content["files"]["answers"] = "noisy.parquet"
        content["answers"]["zeros"] = "left out"

    return change


def lists(tidy: Path, folder: Path, kind: str) -> Change:
    """Lists that run along the attributes in another order, in partitions, with small integers and 64-bit variances."""
    schema = open_measurements(tidy.parent / "measured").plan.schema
    for (geolevel, query), part in rows(tidy).group_by("geolevel", "query", maintain_order=True):
        group = schema.query(str(query))
        listed = part.group_by("geocode", maintain_order=True).agg("value", pl.col("variance").first())
        shape = group.shape
        turned = [np.array(values).reshape(shape).T.ravel().tolist() for values in listed["value"]]
        name = " * ".join(reversed(str(query).split("*"))) + "_noisy"
        listed = listed.with_columns(value=pl.Series(turned, dtype=pl.List(pl.Int32)), what=pl.lit(name))
        folder_here = folder / "noisy" / str(geolevel) / f"part={len(str(query))}{str(query)[0]}"
        folder_here.mkdir(parents=True, exist_ok=True)
        if kind == "parquet":
            listed.write_parquet(folder_here / "a.parquet")
        else:
            text = pl.format("[{}]", pl.col("value").list.eval(pl.element().cast(pl.String)).list.join(", "))
            listed.with_columns(value=text).write_csv(folder_here / "a.csv.gz", compression="gzip")
    # The constraints of lists have lists, too, with a row for every geounit.
    shutil.rmtree(folder / "constraints")
    plan = open_measurements(tidy.parent / "measured")
    spine = plan.hierarchies.spine
    for table in plan.constraints:
        level = len(table.lower) - 1
        ends = table.bounds_of(level, 0, spine.n_geounits(level))
        for sign, values in zip(("=",) if table.is_exact else (">=", "<="), ends, strict=False):
            place = folder / "constraints" / spine.geolevels[level]
            place.mkdir(parents=True, exist_ok=True)
            whole = np.minimum(values, 2**40)
            pl.DataFrame(
                {
                    "geocode": spine.geocodes[level].text,
                    "what": [f"{table.name} {sign}"] * len(values),
                    "value": pl.Series(whole.tolist(), dtype=pl.List(pl.Int64)),
                    "sign": [sign] * len(values),
                }
            ).write_parquet(place / f"{table.query.name}{len(sign)}{sign[:1] == '<'}.parquet")

    def change(content: dict[str, Any]) -> None:
        content["files"] = {
            "answers": "noisy/{geolevel}",
            "constraints": "constraints/{geolevel}",
            "geography": "geography.parquet",
        }
        content["columns"] = {"query": "what"}
        content["answers"] = {
            "form": "list",
            "order": ["home", "age"],
            "names": "{query}_noisy",
            "variance": "noise",
        }
        for item in content["constraints"]:
            item["name"] = f"{item.get('bounds') or 'invariant total'} {item['sign']}"
            item["missing"] = "refused"

    return change


WAYS: dict[str, Callable[[Path, Path], Change]] = {
    "one text file": one_csv,
    "zeros left out": zeros_left_out,
    "lists": lambda tidy, folder: lists(tidy, folder, "parquet"),
    "lists in compressed text": lambda tidy, folder: lists(tidy, folder, "csv"),
}


@pytest.mark.parametrize("way", [nightly(way) if way == "lists" else way for way in WAYS])
def test_every_way_of_writing_gives_the_same_measurements(measured, tidy, tmp_path, way):
    folder = tmp_path / "files"
    folder.mkdir()
    keep_constraints(tidy, folder)
    description = described(tidy, tmp_path, WAYS[way](tidy, folder))
    again = tallyveil.import_measurements(folder, tmp_path / "again", description=description)
    assert_same(measured, again)


def test_variances_that_differ_within_a_geounit_are_refused_where_zeros_are_left_out(tidy, tmp_path):
    description = described(tidy, tmp_path, zeros_left_out(tidy, tmp_path))
    whole = rows(tidy).filter(pl.col("geolevel") == "Town", pl.col("query") == "age*home")
    of_geounit = whole.filter(pl.col("geocode") == whole["geocode"][0])
    # The first answer is left out, as a zero would be, and the last has another variance.
    mixed = of_geounit[1:].with_columns(variance=pl.Series([*of_geounit["variance"][2:], 1.0]))
    mixed.write_parquet(tmp_path / "noisy.parquet")
    (read,) = descriptions_named(str(description))
    with pytest.raises(TallyveilError, match=r"with the variances 1\.0 and") as refused:
        list(find_files(tmp_path, read.form, read.schema).lists("Town"))
    assert refused.value.code == "layout-rows"


@pytest.mark.nightly
def test_geocodes_that_begin_with_their_parents_need_no_geography(measured, tidy, tmp_path):
    description = described(tidy, tmp_path, lambda content: content["files"].pop("geography"))
    again = tallyveil.import_measurements(tidy, tmp_path / "again", description=description)
    assert_same(measured, again)


MISTAKES: dict[str, Change] = {
    "lists along other attributes": lambda content: content["answers"].pop("order"),
    "a query taken for another": lambda content: content.update(queries={"grown": "home"}),
    "groups of a recode exchanged": lambda content: content["schema"]["recodes"][0].update(
        groups={"young": ["middle", "old"], "grown": ["young"]}
    ),
    "levels of an attribute exchanged": lambda content: content["schema"]["attributes"][0][
        "levels"
    ].reverse(),
}


@pytest.mark.parametrize("mistake", few(1, MISTAKES))
def test_a_mistake_of_a_description_is_found_by_the_check(tidy, tmp_path, mistake):
    folder = tmp_path / "files"
    folder.mkdir()
    keep_constraints(tidy, folder)
    right = lists(tidy, folder, "parquet")

    # Without the bounds and structural zeros, which would contradict some mistakes before the check.
    def change(content: dict[str, Any]) -> None:
        right(content)
        content["files"].pop("constraints")
        content["constraints"] = []
        content["schema"]["structural_zeros"] = []
        MISTAKES[mistake](content)
        # Passes and rounding name queries; the check needs none.
        content.pop("estimation")
        content["outputs"]["tables"] = ["total"]

    wrong = tallyveil.import_measurements(
        folder, tmp_path / "wrong", description=described(tidy, tmp_path, change)
    )
    assert not all(item.is_as_stated for item in wrong.residuals(workers=1))


@pytest.mark.parametrize("geolevel", ["Town", "Block"])
def test_geocodes_exchanged_in_the_files_are_found_by_the_check(tidy, tmp_path, geolevel):
    frame = rows(tidy)
    codes = frame.filter(pl.col("geolevel") == geolevel)["geocode"].unique(maintain_order=True).to_list()
    turned = dict(zip(codes, reversed(codes), strict=True))
    frame = frame.with_columns(
        geocode=pl.when(pl.col("geolevel") == geolevel)
        .then(pl.col("geocode").replace(turned))
        .otherwise("geocode")
    )
    folder = tmp_path / "files"
    folder.mkdir()
    keep_constraints(tidy, folder)
    frame.write_parquet(folder / "noisy.parquet")

    def change(content: dict[str, Any]) -> None:
        content["files"] = {"answers": "noisy.parquet", "geography": "geography.parquet"}
        content["constraints"] = []

    wrong = tallyveil.import_measurements(
        folder, tmp_path / "wrong", description=described(tidy, tmp_path, change)
    )
    assert not all(item.is_as_stated for item in wrong.residuals(workers=1))


HARMS: dict[str, tuple[Change, str, str]] = {
    "a query that is none": (
        lambda content: content["schema"].pop("recodes"),
        "layout-settings",
        "'grown', which names no query",
    ),
    "labels that are none": (
        lambda content: content["schema"].update(
            structural_zeros=[],
            attributes=[content["schema"]["attributes"][0], {"name": "home", "levels": ["a", "b"]}],
        ),
        "layout-rows",
        "labels that name no answer",
    ),
    "a constraint that is not described": (
        lambda content: content["constraints"].pop(),
        "layout-rows",
        "'barracks upper' with the sign '<='",
    ),
    "a sign that is another": (
        lambda content: content["constraints"][1].update(sign="<="),
        "layout-rows",
        "has the sign",
    ),
    "a column that is not there": (
        lambda content: content.update(columns={"variance": "sigma"}),
        "layout-files",
        "no column 'sigma'",
    ),
    "another place": (
        lambda content: content["files"].update(answers="elsewhere/{geolevel}", constraints=None),
        "bad-key-or-value",
        "[files] names no table",
    ),
    "geolevels of another product": (
        lambda content: content.update(geolevels=["Region", "Block"], constraints=content["constraints"][:1]),
        "layout-files",
        "has the geolevel(s) Town",
    ),
}


@pytest.mark.parametrize("harm", HARMS)
def test_what_does_not_fit_is_named(tidy, tmp_path, harm):
    change, code, said = HARMS[harm]
    with pytest.raises(TallyveilError) as caught:
        tallyveil.import_measurements(tidy, tmp_path / "again", description=described(tidy, tmp_path, change))
    assert caught.value.code == code, str(caught.value)
    assert said in str(caught.value)


# What comes with the package.

BLOCKS = ["4400100010011001", "4400100010011002", "4400100010022001", "4400300020011001"]
LENGTHS = {"US": 0, "State": 2, "County": 5, "Tract": 11, "Block_Group": 12, "Block": 16}


def write_product(root: Path, description: Description, left_out: Mapping[str, list[str]] = {}) -> None:
    """Files of a description with made-up answers, and constraints that fit each other."""
    rng = np.random.default_rng(5)
    plan = description.declared
    assert plan is not None
    for name in description.form.geolevels:
        codes = sorted({block[: LENGTHS[name]] for block in BLOCKS})
        noisy = []
        for query in plan.strategy.queries(name):
            if query in left_out.get(name, ()):
                continue
            size, law = plan.query(query).size, plan.strategy.law(name, query)
            noisy += [
                {
                    "geocode": code,
                    "query_name": " * ".join(query.split("*")) + "_dpq",
                    "value": rng.integers(-5, 40, size).tolist(),
                    "variance": float(law.variance),
                }
                for code in codes
            ]
        stated = []
        for code in codes:
            n_blocks = sum(block.startswith(code) for block in BLOCKS)
            if plan.schema.name == "pl94-persons":
                stated += [
                    (code, "hhgq_total_lb_con", [0] * 8, ">="),
                    (code, "hhgq_total_ub_con", [2**33] * 8, "<="),
                    (code, "nurse_nva_0_con", [0], "="),
                ]
            if plan.schema.name == "pl94-units" or name == description.form.geolevels[0]:
                stated.append((code, "total_con", [7 * n_blocks], "="))
        for table, frame in (
            ("DPQuery", pl.DataFrame(noisy, schema_overrides={"variance": pl.Float32})),
            (
                "Constraint",
                pl.DataFrame(stated, schema=["geocode", "query_name", "value", "sign"], orient="row"),
            ),
        ):
            folder = root / f"{name}.parquet" / table / "State=44"
            folder.mkdir(parents=True)
            frame.write_parquet(folder / "part-0.parquet")
    (root / "totals.csv").write_text(f"geocode,count\n44,{7 * len(BLOCKS)}\n")


def assert_read_back(root: Path, made: Measurements, description: Description, geolevels: list[str]) -> None:
    plan = description.declared
    assert plan is not None
    for name in geolevels:
        path = root / f"{name}.parquet" / "DPQuery" / "State=44" / "part-0.parquet"
        for query, values in pl.read_parquet(path).group_by("query_name", maintain_order=True):
            spec = "*".join(part.strip() for part in str(query[0]).removesuffix("_dpq").split("*"))
            read = made.measurements(name, spec)
            assert read["value"].to_list() == values["value"].explode(empty_as_null=False).to_list()


@pytest.mark.parametrize(
    "name", [*map(nightly, ("persons-us", "persons-one-state", "persons-pr")), "units-us", "units-pr"]
)
def test_files_of_every_product_are_read_by_its_description(tmp_path, name):
    (description,) = descriptions_named(f"census-2020-{name}")
    root = tmp_path / "files"
    write_product(root, description)
    out = tallyveil.import_measurements(
        root, tmp_path / "out", description=f"census-2020-{name}", totals=root / "totals.csv"
    )
    assert_read_back(root, out, description, list(description.form.geolevels))
    stated = out.manifest.body["imported"]
    assert stated["product"] == description.name
    assert "strategy was computed" not in stated["statement"]


@pytest.mark.nightly
@pytest.mark.long
def test_a_part_of_a_product_leaves_the_rest_unmeasured(tmp_path):
    (description,) = descriptions_named("census-2020-persons-us")
    root = tmp_path / "files"
    write_product(root, description, {"County": ["detailed"], "Block": ["cenrace"]})
    wanted = {"description": "census-2020-persons-us", "totals": root / "totals.csv"}
    with pytest.raises(TallyveilError, match=r"persons-us: County has no noisy answers of detailed"):
        tallyveil.import_measurements(root, tmp_path / "whole", **wanted)
    part = tallyveil.import_measurements(root, tmp_path / "part", part=True, **wanted)
    assert_read_back(root, part, description, list(description.form.geolevels))
    left_out = part.manifest.body["imported"]["left_out"]
    # One county with everything above it, and then State and County alone.
    for path in root.glob("[TB]*.parquet/*/*/*.parquet"):
        pl.read_parquet(path).filter(pl.col("geocode").str.starts_with("44001")).write_parquet(path)
    with pytest.raises(TallyveilError, match=r"'44003'.*give --part"):
        tallyveil.import_measurements(root, tmp_path / "no-part", **wanted)
    county = tallyveil.import_measurements(root, tmp_path / "county", part=True, **wanted)
    assert county.ask("total by County").table["lacking"].null_count() == 2
    # County 44003 has no blocks in the files: what stands for them is named after it, and unmeasured.
    assert "44003~" in county.ask("total by Block").table["geocode"]
    assert "44003~" not in county.measurements("Block", "total")["geocode"]
    for path in root.glob("[UTB]*.parquet"):
        path.rename(tmp_path / path.name)
    two = tallyveil.import_measurements(root, tmp_path / "two", part=True, **wanted)
    assert open_measurements(two.path).hierarchies.spine.geolevels == ("State", "County")
    assert two.ask("total by County").table["estimate"].sum() == pytest.approx(28)
    assert left_out == []


def least_squares(
    design: list[np.ndarray], noisy: list[np.ndarray], variances: list[float], wanted: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Weighted least squares by one pseudoinverse: wanted sums, and their standard errors."""
    weights = np.concatenate([np.full(len(y), 1 / v) for y, v in zip(noisy, variances, strict=True)])
    matrix, y = np.concatenate(design), np.concatenate(noisy)
    inverse = np.linalg.pinv(matrix.T @ (weights[:, None] * matrix), hermitian=True)
    return wanted @ (inverse @ (matrix.T @ (weights * y))), np.sqrt(
        np.einsum("ij,jk,ik->i", wanted, inverse, wanted)
    )


@pytest.mark.nightly
@pytest.mark.long
def test_a_dhc_folder_answers_questions_without_counts(tmp_path):
    """Men and women of a county, and its table P12, from State and County alone; against brute force."""
    schema, rng = load_preset("dhc-persons"), np.random.default_rng(2)
    queries = {"age_38_groups * sex": 32.25, "hispanic * sex": 32.25, "age_18_64_116 * sex": 8.0}
    counties = ["05010001", "05010003", "05010005"]
    # Cells that no query tells apart are one unknown: sex, age in 38 groups, Hispanic.
    shape = (2, 38, 2)
    truth = rng.poisson(30, (len(counties), *shape)).astype(float)
    of_38 = schema.query("age_38_groups").factors[2].codes
    of_3 = schema.query("age_18_64_116").factors[2].codes
    in_3 = np.zeros((3, 38))
    in_3[of_3, of_38] = 1
    unit = np.eye(int(np.prod(shape))).reshape(-1, *shape)
    sums = {
        "age_38_groups * sex": np.einsum("usah->sau", unit),
        "hispanic * sex": np.einsum("usah->shu", unit),
        "age_18_64_116 * sex": np.einsum("usah,ga->sgu", unit, in_3),
    }
    design, noisy, variances = [], [], []
    for level, codes in (("State", ["050"]), ("County", counties)):
        listed = []
        for code in codes:
            here = np.array([code in ("050", county) for county in counties], dtype=float)
            for name, variance in queries.items():
                counted = sums[name].reshape(-1, len(unit))
                design.append(np.kron(here, counted))
                true = design[-1] @ truth.reshape(-1)
                noisy.append(np.rint(true + rng.normal(0, variance**0.5, len(true))))
                variances.append(variance)
                assert schema.query(name.replace(" ", "")).size == len(true)
                values = noisy[-1].astype(int).tolist()
                listed.append(
                    {"geocode": code, "query_name": f"{name}_dpq", "value": values, "variance": variance}
                )
        for table in ("DPQuery", "Constraint"):
            folder = tmp_path / "files" / f"{level}.parquet" / table / "State=050"
            folder.mkdir(parents=True)
            pl.DataFrame(listed).with_columns(sign=pl.lit("=")).write_parquet(folder / "part-0.parquet")
    made = tallyveil.import_measurements(
        tmp_path / "files", tmp_path / "made", description="dhc-2020-persons"
    )
    assert "geolevel Prim" in made.manifest.body["imported"]["left_out"]
    with pytest.raises(
        TallyveilError, match=r"fit the product 'dhc-persons': give --as dhc-2020-persons"
    ) as caught:
        tallyveil.import_measurements(tmp_path / "files", tmp_path / "other", layout="census-2020")
    assert caught.value.code == "layout-geounits"
    second = np.array([0.0, 1.0, 0.0])
    # P12 has 23 ages, of which 20, 21 and 22-24 are one of the 38 groups.
    p12 = made.ask("sex by agePyramid23groups in 05010003").table
    groups = schema.query("agePyramid23groups").factors[2], schema.query("age_38_groups").factors[2]
    pairs = {(int(a), int(b)) for a, b in zip(groups[0].codes, groups[1].codes, strict=True)}
    wanted, known = [], []
    for sex in range(2):
        for age in range(23):
            parts = [fine for coarse, fine in pairs if coarse == age]
            one = np.zeros(shape)
            one[sex, parts] = 1
            wanted.append(np.kron(second, one.reshape(-1)))
            known.append(age not in (5, 6, 7))
    estimates, errors = least_squares(design, noisy, variances, np.array(wanted))
    assert (p12["estimate"].is_not_null().to_numpy() == known).all()
    rows_known = p12.filter(pl.col("estimate").is_not_null())
    assert rows_known["estimate"].to_numpy() == pytest.approx(estimates[known], abs=1e-5)
    assert rows_known["standard_error"].to_numpy() == pytest.approx(errors[known], abs=1e-5)
    # More men than women: the share of men is above a half.
    (share,) = made.ask(
        "total where sex = male in 05010003 as share of total", threshold=0.5
    ).table.to_dicts()
    by_sex = np.zeros((2, *shape))
    by_sex[0, 0], by_sex[1, 1] = 1, 1
    difference = np.kron(second, (by_sex[0] - by_sex[1]).reshape(-1))[None]
    ahead, spread = least_squares(design, noisy, variances, difference)
    from scipy.special import ndtr

    assert share["probability"] == pytest.approx(float(ndtr(ahead[0] / spread[0])), abs=2e-3)
    # The same of any two counts, with their exact covariance.
    county = made.area("05010003")
    counts = made.quantities({sex: county.count("sex", {"sex": sex}) for sex in ("male", "female")})
    greater = counts.probability_greater("male", "female")
    assert greater == pytest.approx(float(ndtr(ahead[0] / spread[0])), abs=1e-9)
    # Districts, here of two counties and of one: a plan lists what is finest in the files.
    (tmp_path / "plan.csv").write_text(
        "geocode,district\n" + "".join(f"{code},{'EWE'[number]}\n" for number, code in enumerate(counties))
    )
    east = made.districts(tmp_path / "plan.csv").estimate(["sex"]).filter(district="E")
    ends = np.array([1.0, 0.0, 1.0])
    weights = np.array([np.kron(ends, part.reshape(-1)) for part in by_sex])
    sums, spreads = least_squares(design, noisy, variances, weights)
    assert east["estimate"].to_numpy() == pytest.approx(sums, abs=1e-5)
    assert east["standard_error"].to_numpy() == pytest.approx(spreads, abs=1e-5)
    assert east["published"].null_count() == 2


def test_the_example_of_the_guide(tmp_path, monkeypatch, command):
    """Its description reads a file of the form that it shows."""
    guide = (Path(__file__).parents[2] / "docs" / "descriptions.md").read_text()
    (toml,) = re.findall(r"```toml\n(.*?)```", guide, re.DOTALL)
    shown = re.findall(r"```\n(level,geo.*?)```", guide, re.DOTALL)[0].splitlines()
    lines = [shown[0]]
    for level, codes in (("Country", ["A"]), ("Town", ["A07", "A08"])):
        for code in codes:
            lines.append(f"{level},{code},total,,,{200 if level == 'Country' else 100},4")
            cells = [
                (sex, age, 50 if level == "Country" else 25) for sex in ("f", "m") for age in ("0-17", "18+")
            ]
            lines += [f"{level},{code},sex by age,{sex},{age},{noisy},8" for sex, age, noisy in cells]
    monkeypatch.chdir(tmp_path)
    Path("noisy").mkdir()
    Path("noisy", "counts.csv").write_text("\n".join(lines) + "\n")
    Path("counts.toml").write_text(toml)
    (commands,) = re.findall(r"```\n(tallyveil measurements import noisy.*?)```", guide, re.DOTALL)
    said = [
        command(*shlex.split(line)[1:], *(["--json"] if " ask " in line else []))
        for line in commands.splitlines()
    ]
    assert [row["estimate"] for row in json.loads(said[2])["rows"]] == [50, 50, 50, 50]
    assert Path("release", "report.html").exists()


def test_a_draft_says_what_files_say(measured, tidy, tmp_path, command):
    """Filled in where it asks for it, it imports the folder."""
    said = json.loads(command("measurements", "describe", tidy, "--json"))
    assert said["fits"] is None
    draft = said["draft"].replace('name = "FILL IN"\n#', 'name = "people"\n#')
    draft = draft.replace('name = "FILL IN" # as', 'name = "grown" # as')
    draft = draft.replace('young = ["FILL IN"]', 'young = ["young"]').replace(
        'grown = ["FILL IN"]', 'grown = ["middle", "old"]'
    )
    without = draft.split("# other_constraints")[0].replace("constraints =", "# constraints =")
    (tmp_path / "draft.toml").write_text(without)
    made = tallyveil.import_measurements(tidy, tmp_path / "made", description=tmp_path / "draft.toml")
    assert made.measurements("Town", "age*home").equals(measured.measurements("Town", "age*home"))
    (description,) = descriptions_named("census-2020-units-us")
    write_product(tmp_path / "files", description)
    out = tmp_path / "units.toml"
    known = json.loads(command("measurements", "describe", tmp_path / "files", "--out", out, "--json"))
    assert known["fits"] == "census-2020"
    assert 'preset = "pl94-units"' in out.read_text()
