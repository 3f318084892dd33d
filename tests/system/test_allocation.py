"""Blocks by a model, in whole releases: sums, threads, what is published beside them, and what is refused."""

import re
from pathlib import Path

import numpy as np
import pytest
from tests.pages import text_of

from tallyveil.api.beginning import write_country
from tallyveil.errors import ConfigError
from tallyveil.files.histograms import read_histogram
from tallyveil.noise.key import insecure_key
from tallyveil.plans.from_toml.load import load_plan
from tallyveil.postprocess.estimate import estimate_release
from tallyveil.postprocess.measured import open_measurements
from tallyveil.products.topdown.page.release import write_report
from tallyveil.products.topdown.run.inputs import read_spine
from tallyveil.products.topdown.run.run import run_release

KEY = insecure_key("allocation")


@pytest.fixture(scope="module")
def country(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("country")
    write_country(folder, blocks=120, people=3000, schema="race-age", seed=4)
    return folder / "release.toml"


@pytest.fixture
def release_with(country):
    """The country's release file with another [estimation] table, and further lines."""

    def written(estimation: str, more: str = "") -> Path:
        text = country.read_text()
        text = "\n\n".join(
            part for part in text.split("\n\n") if not re.search(r"^\[(estimation|outputs)", part, re.M)
        )
        path = country.with_name("changed.toml")
        path.write_text(f'{text}\n\n[estimation]\n{estimation}\n[outputs]\nmeasurements = "full"\n{more}')
        return path

    return written


def counts_of(root, plan):
    spine = read_spine(plan.geography)
    every = [read_histogram(root, name, plan.schema, spine) for name in spine.geolevels]
    dense = []
    for counts in every:
        table = np.zeros((counts.n_geounits, plan.schema.size), np.int64)
        rows, cells, people = counts.rows(0, counts.n_geounits)
        table[rows, cells] = people
        dense.append(table)
    return spine, dense


def test_blocks_add_up_and_nothing_above_them_changes(release_with, tmp_path):
    plain = load_plan(release_with(""))
    plan = load_plan(release_with('blocks = "allocation"'))
    assert not plain.allocates
    assert plan.allocates
    outcome = run_release(plan, tmp_path / "allocated", test_key=KEY, workers=2)
    measured = open_measurements(outcome.path)
    first = estimate_release(measured, tmp_path / "plain", plain.estimation)
    _, usual = counts_of(first.path, plain)
    spine, counts = counts_of(outcome.path, plan)
    for before, after in zip(usual[:-1], counts[:-1], strict=True):
        np.testing.assert_array_equal(before, after)
    sums = np.add.reduceat(counts[-1], spine.child_offsets[spine.finest - 1][:-1])
    np.testing.assert_array_equal(sums, counts[-2])
    assert (counts[-1] != usual[-1]).any()
    solver = outcome.manifest.body["solver"][spine.geolevels[-1]]
    assert solver["estimate"]["allocated"] > 0
    assert solver["prior"]["blocks"] == len(counts[-1])
    assert "divided by a model" in text_of(write_report(outcome.path))
    assert outcome.manifest.body["plan"]["estimation"][spine.geolevels[-1]]["method"] == "allocation"
    # From the measurements alone, by one thread, the same counts.
    again = estimate_release(measured, tmp_path / "again", workers=1)
    np.testing.assert_array_equal(counts_of(again.path, plan)[1][-1], counts[-1])


@pytest.mark.parametrize(
    ("estimation", "more", "reason"),
    [
        ('[estimation.rounding]\n"*" = [["total"]]\n{finest} = [["detailed"]]\n', "", "no effect"),
        ("", '[[invariants]]\nquery = "total"\ngeolevels = ["{finest}"]\n', "public limits"),
        (
            "",
            '[[bounds]]\nname = "units"\nquery = "total"\ngeolevel = "{finest}"\n'
            'path = "geography.csv"\nmissing = "zero"\n',
            "bounds 'units'",
        ),
    ],
)
def test_what_does_not_fit_is_refused_before_records_are_opened(release_with, estimation, more, reason):
    geolevels = load_plan(release_with("")).geolevels
    names = {"finest": geolevels[-1], "above": geolevels[1]}
    path = release_with('blocks = "allocation"\n' + estimation.format(**names), more.format(**names))
    with pytest.raises(ConfigError, match=reason):
        load_plan(path)
