"""Agreement with the published counts of a finished release: read, kept at every geolevel, or refused."""

import shutil
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from tests.outer_worlds import PERSONS_SCHEMA, write_persons

from tallyveil.declared import mapping_of
from tallyveil.errors import TallyveilError
from tallyveil.noise.key import insecure_key
from tallyveil.plans.from_toml.load import load_plan
from tallyveil.postprocess import other_releases as other_release
from tallyveil.postprocess.constraint_files import read_agreed_counts, write_agreement
from tallyveil.postprocess.other_releases import read_agreement
from tallyveil.products.topdown.run.inputs import read_hierarchies
from tallyveil.products.topdown.run.run import run_release

KEY = insecure_key("agreement")


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A folder with the finished coarse release, and the plan of the persons."""
    folder = tmp_path_factory.mktemp("world")
    coarse, persons = write_persons(folder)
    run_release(load_plan(coarse), folder / "coarse", test_key=KEY, workers=1)
    return folder, load_plan(persons)


def test_published_counts_become_exact_counts_at_every_geolevel(world, tmp_path):
    folder, plan = world
    hierarchies = read_hierarchies(plan)
    agreed = read_agreement(plan.agreement[0], plan.schema, hierarchies)
    table = agreed.counts.table()
    for level, geolevel in enumerate(hierarchies.spine.geolevels):
        published = pl.read_parquet(folder / "coarse" / "histogram" / f"{geolevel}.parquet")
        # Labels decide: the coarse release has adults first, the recode of the persons has the young first.
        answers = table.query.answers_from_labels(
            {"home": published["home"].to_list(), "grown": published["grown"].to_list()}, published.height
        )
        wanted = np.zeros_like(table.lower[level])
        wanted[hierarchies.spine.locate(level, published["geocode"]), answers] = published["count"]
        assert np.array_equal(table.lower[level], wanted)
    assert agreed.record["run"]
    assert agreed.record["name"] == "coarse"
    write_agreement(tmp_path, 0, agreed.counts, hierarchies.spine, {})
    again = read_agreed_counts(tmp_path, 0, mapping_of(plan.agreement[0]), plan.schema, hierarchies.spine)
    assert again.digest() == agreed.counts.digest()


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"path": None}, "agreement-path"),
        ({"theirs": "home"}, "agreement-labels"),
        ({"query": "relation*grown"}, "agreement-labels"),
        ({"theirs": "home*groan"}, "schema"),
    ],
)
def test_what_does_not_fit_is_refused(world, change, code):
    _, plan = world
    with pytest.raises(TallyveilError, match=r"\[\[agreement\]\] 'coarse'") as caught:
        read_agreement(replace(plan.agreement[0], **change), plan.schema, read_hierarchies(plan))
    assert caught.value.code == code


def test_another_geography_and_an_unfinished_or_changed_release_are_refused(world, tmp_path):
    folder, plan = world
    fewer = pl.read_parquet(folder / "geography.parquet").head(20)
    fewer.write_parquet(tmp_path / "fewer.parquet")
    other = replace(plan, geography=replace(plan.geography, path=tmp_path / "fewer.parquet"))
    with pytest.raises(TallyveilError) as caught:
        read_agreement(plan.agreement[0], plan.schema, read_hierarchies(other))
    assert caught.value.code == "agreement-geography"
    copy = tmp_path / "copy"
    shutil.copytree(folder / "coarse", copy)
    hierarchies = read_hierarchies(plan)
    read_agreement(replace(plan.agreement[0], path=copy), plan.schema, hierarchies)
    block = copy / "histogram" / "Block.parquet"
    block.write_bytes((copy / "histogram" / "Town.parquet").read_bytes())
    with pytest.raises(TallyveilError):
        read_agreement(replace(plan.agreement[0], path=copy), plan.schema, hierarchies)
    (copy / "manifest.json").unlink()
    with pytest.raises(TallyveilError) as unfinished:
        read_agreement(replace(plan.agreement[0], path=copy), plan.schema, hierarchies)
    assert unfinished.value.code == "release-unfinished"


def test_a_release_that_protects_people_agrees_with_no_unprotected_one(world, tmp_path):
    _, plan = world
    with pytest.raises(TallyveilError) as caught:
        run_release(plan, tmp_path / "out", workers=1)
    assert caught.value.code == "agreement-unprotected"
    assert not (tmp_path / "out").exists()


def test_nothing_is_written_into_a_release_that_it_agrees_with(world):
    folder, plan = world
    with pytest.raises(TallyveilError, match="must stay as it was published") as caught:
        run_release(plan, folder / "coarse" / "out", test_key=KEY, workers=1)
    assert caught.value.code == "input-in-output"
    assert not (folder / "coarse" / "out").exists()


@pytest.mark.parametrize(
    "change",
    [
        lambda frame: frame.with_columns(-pl.col("count")),
        lambda frame: frame.with_columns(pl.col("count") * 2**33),
        lambda frame: frame.with_columns(pl.lit(2**32).alias("count")),
        lambda frame: frame.with_columns(pl.col("count").cast(pl.Float64)),
        lambda frame: frame.with_columns(pl.col("count").cast(pl.String)),
    ],
)
def test_counts_that_no_release_has_are_refused(world, tmp_path, change, monkeypatch):
    """Also where the digests of the changed file stand in the manifest."""
    folder, plan = world
    copy = tmp_path / "coarse"
    shutil.copytree(folder / "coarse", copy)
    block = copy / "histogram" / "Block.parquet"
    tags = pl.read_parquet_metadata(block)
    del tags["ARROW:schema"]
    change(pl.read_parquet(block)).write_parquet(block, metadata=tags)
    monkeypatch.setattr(other_release, "require_unchanged", lambda *_: None)
    with pytest.raises(TallyveilError, match=r"Block\.parquet holds") as caught:
        read_agreement(replace(plan.agreement[0], path=copy), plan.schema, read_hierarchies(plan))
    assert caught.value.code == "release-damaged"


def test_a_release_without_outer_passes_keeps_them_too(world, tmp_path):
    folder, plan = world
    text = (folder / "persons.toml").read_text()
    begin, end = text.index("[[estimation.outer]]"), text.index("[[agreement]]")
    assert PERSONS_SCHEMA in text
    plain = folder / "plain.toml"
    plain.write_text((text[:begin] + text[end:]).replace('measurements = "none"', 'measurements = "full"'))
    plan = load_plan(plain)
    assert not plan.outer
    out = run_release(plan, tmp_path / "out", test_key=KEY, workers=1)
    assert "agreement coarse holds at Region, Town, Block" in out.manifest.checks
    assert out.manifest.body["agreement"][0]["name"] == "coarse"
    assert (out.path / "agreement" / "00.parquet").is_file()
