"""The work of a run made again from its public files, as worker processes on other machines make it.

Here the "other process" is this one: it knows the run only by the description, the secret and the files. That the files
of the release are the same shows that nothing else is needed. `test_cluster.py` does the same on a real cluster.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.elsewhere import Elsewhere
from tests.lift_worlds import write_homes, write_world
from tests.outer_worlds import write_kinds, write_persons
from tests.samples import nightly

from tallyveil.api.beginning import write_country
from tallyveil.errors import SolverError
from tallyveil.files import tables
from tallyveil.noise.key import insecure_key
from tallyveil.plans.from_toml.load import load_plan
from tallyveil.postprocess import estimation, publish
from tallyveil.postprocess.estimate import estimate_release
from tallyveil.postprocess.measured import open_measurements
from tallyveil.products.dhc.public.from_toml import load_programme
from tallyveil.products.dhc.run import run as programmes
from tallyveil.products.topdown.run.run import measure_release, run_release
from tallyveil.runs.executor import Chunks
from tallyveil.runs.observer import SilentObserver
from tallyveil.schema.counts import PublicCounts

KEY = insecure_key("on worker")


def digests(outcome: Any) -> dict[str, str]:
    """SHA-256 of every file of a release by its path."""
    return dict(outcome.manifest.digests)


@pytest.fixture(scope="module")
def country(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("country")
    write_country(folder, blocks=40, people=1000, schema="race-age", seed=3)
    return folder / "release.toml"


@pytest.mark.parametrize(
    ("lines", "works"),
    [
        (
            '[estimation]\nvalues = "tree"\n[outputs]\nmeasurements = "full"\n',
            {"measure", "sweep", "families", "microdata", "tables", "checks"},
        ),
        (
            '[estimation]\nblocks = "allocation"\n[outputs]\nmeasurements = "support"\n',
            {"measure", "sweep", "families", "allocation", "microdata", "tables", "checks"},
        ),
        nightly(
            '[estimation]\nvalues = "own"\n[outputs]\nmeasurements = "support"\n',
            {"measure", "families", "microdata", "tables", "checks"},
        ),
    ],
)
def test_a_release_is_the_same_where_others_do_the_work(country, tmp_path, lines, works):
    text = country.read_text()
    text = "\n".join(
        part for part in text.split("\n\n") if not re.search(r"^\[(estimation|outputs)", part, re.M)
    )
    release = country.with_name(f"{len(lines)}.toml")
    release.write_text(f"{text}\n{lines}")
    plan = load_plan(release)
    here = run_release(plan, tmp_path / "here", test_key=KEY)
    elsewhere = Elsewhere()
    there = run_release(plan, tmp_path / "there", test_key=KEY, executors=elsewhere)
    assert set(elsewhere.works) == works
    assert len(elsewhere.works) > 10
    assert digests(there) == digests(here)
    assert there.manifest.checks == here.manifest.checks


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        nightly("write_histogram", "sum of its"),
        ("write_table", "table .+ agrees"),
        nightly("write_microdata", "microdata hold exactly"),
    ],
)
def test_what_was_written_wrong_is_found_by_others(country, tmp_path, monkeypatch, wrong, said):
    """The file is whole, and what the run says it wrote; only the last look can tell."""
    module = estimation if wrong == "write_histogram" else publish
    right = getattr(module, wrong)

    def one_more(root: Path, counts: PublicCounts, *args: Any) -> Any:
        finest = counts.geolevel == "Block"
        last = np.arange(len(counts.counts)) == len(counts.counts) - 1
        return right(root, replace(counts, counts=counts.counts + last) if finest else counts, *args)

    monkeypatch.setattr(module, wrong, one_more)
    elsewhere = Elsewhere()
    with pytest.raises(SolverError, match=f"final check failed: .*{said}"):
        run_release(load_plan(country), tmp_path / "run", test_key=KEY, executors=elsewhere)
    assert elsewhere.works.count("checks") > 10
    assert not (tmp_path / "run" / "manifest.json").exists()


@pytest.mark.nightly
def test_the_address_of_the_checks_changes_with_any_file(country, tmp_path, monkeypatch):
    """A result of an earlier process is found by its address, so what passed before another file is not believed."""
    addresses = []

    class Listening(Elsewhere):
        def completed(self, chunks: Chunks[Any], numbers: Sequence[int]) -> Iterator[tuple[int, Any]]:
            addresses.append(json.dumps(chunks.address))
            return super().completed(chunks, numbers)

    def run(name: str) -> str:
        run_release(load_plan(country), tmp_path / name, test_key=KEY, executors=Listening())
        return addresses[-1]

    first = run("first")
    assert run("again") == first
    right = tables.write_table

    def with_tags(root: Path, counts: PublicCounts, group: Any, spine: Any, tags: Any, parts: Any) -> Any:
        return right(root, counts, group, spine, {**tags, "more": "1"}, parts)

    monkeypatch.setattr(publish, "write_table", with_tags)
    assert run("other") != first


def test_an_estimate_is_the_same_where_others_do_the_work(country, tmp_path):
    measure_release(load_plan(country), tmp_path / "measured", test_key=KEY)
    opened = open_measurements(tmp_path / "measured")
    here = estimate_release(opened, tmp_path / "here")
    elsewhere = Elsewhere()
    there = estimate_release(opened, tmp_path / "there", executors=elsewhere)
    assert digests(there) == digests(here)
    assert [site.secret for site in elsewhere.sites] == [b""]


def test_what_everybody_may_know_of_a_run_holds_no_key_and_no_count(country, tmp_path):
    elsewhere = Elsewhere()
    run_release(load_plan(country), tmp_path / "run", test_key=KEY, executors=elsewhere)
    (site,) = elsewhere.sites
    assert len(site.secret) == 64
    text = json.dumps(site.description) + repr(site)
    for secret in (KEY, site.secret[:32], site.secret[32:], site.files_key):
        assert secret.hex() not in text
        assert repr(secret)[2:-1] not in text
    assert set(site.description) == {"release", "tags", "files", "run"}


@pytest.fixture(scope="module")
def outer_worlds(tmp_path_factory) -> dict[str, Path]:
    """Release files whose outer passes work from measurements on the support, and from counts that they lift."""
    passes, lifts = tmp_path_factory.mktemp("passes"), tmp_path_factory.mktemp("lifts")
    coarse, persons = write_persons(passes)
    run_release(load_plan(coarse), passes / "coarse", test_key=KEY)
    persons.write_text(persons.read_text().replace('measurements = "none"', 'measurements = "support"'))
    coarse, homes, lifted = write_world(lifts)
    run_release(load_plan(coarse), lifts / "coarse", test_key=KEY)
    write_homes(lifts)
    run_release(load_plan(homes), lifts / "homes", test_key=KEY)
    kinds = tmp_path_factory.mktemp("kinds")
    coarse, divided = write_kinds(kinds)
    run_release(load_plan(coarse), kinds / "coarse", test_key=KEY)
    return {"passes": persons, "lifts": lifted, "kinds": divided}


@pytest.mark.parametrize(
    ("world", "works"), [("passes", {"measure", "support"}), ("lifts", {"lift"}), ("kinds", set())]
)
def test_outer_passes_are_the_same_where_others_do_the_work(outer_worlds, tmp_path, world, works):
    plan = load_plan(outer_worlds[world])
    here = run_release(plan, tmp_path / "here", test_key=KEY)
    elsewhere = Elsewhere()
    there = run_release(plan, tmp_path / "there", test_key=KEY, executors=elsewhere)
    assert digests(there) == digests(here)
    assert set(elsewhere.works) == {"pass", "microdata", "tables", "checks", *works}


@pytest.mark.nightly
def test_a_programme_is_the_same_where_others_do_the_work(tmp_path):
    """All ways in which outer passes work: passes from measurements, lift passes, and measurements on the support."""
    write_country(tmp_path / "people", blocks=8, people=300, schema="dhc", agree=True)
    persons = tmp_path / "people" / "dhc-persons.toml"
    persons.write_text(persons.read_text().replace('measurements = "none"', 'measurements = "support"'))
    plans = {
        one.name: one.plan
        for one in load_programme(tmp_path / "people" / "programme.toml", tmp_path / "R").releases
    }
    settings = programmes.ProgrammeSettings(KEY, SilentObserver(), 1, lambda name, made: None)
    made = programmes.run_programme(
        load_programme(tmp_path / "people" / "programme.toml", tmp_path / "R"), tmp_path / "R", settings
    )
    works = {}
    for name in ("dhc-persons", "dhc-units"):  # work of other kinds is in the tests above
        elsewhere = Elsewhere()
        there = run_release(plans[name], tmp_path / "there" / name, test_key=KEY, executors=elsewhere)
        assert digests(there) == digests(made.releases[name])
        works[name] = set(elsewhere.works)
    without = {"pass", "lift", "microdata", "tables", "checks"}
    assert works == {"dhc-persons": {"measure", "support", *without}, "dhc-units": without}
