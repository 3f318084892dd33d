"""Runs every edit of the forgery suite against `tallyveil verify`, and prints the table of the documentation.

    python -m tests.forgery.run [RELEASE]

Without a release, a small one is made. Each edit is made in a copy, with every digest made anew. Chains of draws have
few sweeps, so that the same draws are soon made again.
"""

import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import polars as pl
import pytest
from tests import small_jobs
from tests import toy_country as toy
from tests.conftest import SMALL_RELEASE, write_small_inputs
from tests.forgery.edits import Edit, all_edits, of_draws, of_product, of_programme, of_publication, of_site
from tests.system.test_draws import with_few_sweeps

import tallyveil
from tallyveil.api.products import write_page
from tallyveil.errors import TallyveilError
from tallyveil.explore.site import make_site
from tallyveil.noise.key import insecure_key
from tallyveil.plans.from_toml.load import load_plan
from tallyveil.products.topdown.run.run import run_release

OUTPUTS = SMALL_RELEASE + 'measurements = "full"\nintervals = "0.95"\n'


def made(folder: Path) -> Path:
    """A small release with intervals."""
    release = write_small_inputs(folder / "inputs", OUTPUTS)
    out = run_release(
        load_plan(release), folder / "release", test_key=insecure_key("forgery"), workers=1
    ).path
    write_page(out)
    return out


def made_persons(folder: Path) -> Path:
    """A small release of population groups."""
    params = toy.write_params(folder / "parameters", run_pr=False)
    data = toy.write_data(folder / "data", toy.person_rows(900))
    return tallyveil.run_safetab(params, data, folder / "groups", insecure_test_key="forgery").path


def made_households(folder: Path) -> Path:
    """A small release of groups of households."""
    small_jobs.households(folder)
    return tallyveil.run_safetab_households(
        folder / "p", folder / "d", folder / "households", insecure_test_key="forgery"
    ).path


def made_groups(folder: Path) -> Path:
    """A small release of groups of records of any kind."""
    small_jobs.stays(folder)
    return tallyveil.run_safetab(
        folder / "stays.toml", folder / "stays.csv", folder / "stays", insecure_test_key="forgery"
    ).path


def made_table(folder: Path) -> Path:
    """A release of one table."""
    small_jobs.table(folder)
    return tallyveil.run_table(folder / "table.toml", folder / "table", insecure_test_key="forgery").path


PRODUCTS: dict[str, Callable[[Path], Path]] = {
    "persons": made_persons,
    "households": made_households,
    "groups": made_groups,
    "table": made_table,
}
"""A maker of a release for each product beside the main one."""


def made_programme(folder: Path) -> Path:
    """The four releases of the DHC of a made-up country."""
    small_jobs.dhc(folder)
    return tallyveil.run_programme(
        folder / small_jobs.COUNTRY / "programme.toml",
        folder / "programme",
        workers=1,
        insecure_test_key="forgery",
    ).path


def made_draws(release: Path, folder: Path) -> tuple[Path, dict[str, Any]]:
    """Draws of a small release, and the public files that they follow from, as `verify` takes them."""
    codes = tallyveil.open(release).table("Block", "total")["geocode"]
    public: dict[str, Any] = {"covariates": folder / "homes.csv", "earlier_census": folder / "census.csv"}
    pl.DataFrame({"geocode": codes, "homes": [i % 7 for i in range(len(codes))]}).write_csv(
        public["covariates"]
    )
    counts = [i % 5 for i in range(len(codes))]
    pl.DataFrame({"geocode": codes, "home": "house", "count": counts}).write_csv(public["earlier_census"])
    return tallyveil.make_draws(release, folder / "draws", number=4, **public).path, public


@dataclass(frozen=True)
class Derived:
    """Something made from releases.

    Attributes:
        root: Its folder.
        releases: The releases.
        edits: The edits of it.
    """

    root: Path
    releases: tuple[Path, ...]
    edits: list[Edit]


def made_from_releases(release: Path, programme: Path, place: Path) -> Iterator[Derived]:
    """What is made from a small release, from redistricting data and from a programme."""
    tables, site = place / "csv", place / "site"
    tallyveil.publish_csv(release, tables)
    yield Derived(tables, (release,), list(of_publication(tables)))
    make_site(release, site)
    yield Derived(site, (release,), list(of_site(site)))
    (inputs := place / "redistricting").mkdir()
    small_jobs.redistricting(inputs, "pl94-persons")
    persons = tallyveil.run(
        inputs / small_jobs.COUNTRY / "release.toml",
        place / "persons",
        workers=1,
        insecure_test_key="forgery",
    ).path
    tallyveil.publish_pl94(persons, place / "pl94", csv=True)
    yield Derived(place / "pl94", (persons,), list(of_publication(place / "pl94", "redistricting tables")))
    sources = tuple(programme / name for name in ("dhc-persons", "dhc-units"))
    tallyveil.publish_dhc(sources, place / "dhc", tables=["P1", "P12", "H1"])
    yield Derived(place / "dhc", sources, list(of_publication(place / "dhc", "DHC tables")))


def contents(root: Path) -> dict[str, bytes]:
    return {
        path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()
    }


def outcome(
    root: Path,
    edit: Edit,
    place: Path,
    releases: tuple[Path, ...] = (),
    public: Mapping[str, Any] = MappingProxyType({}),
) -> str:
    """How an edit of a copy of the folder was found: "found", "unseen", or "nothing changed"."""
    copy = place / root.name
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(root, copy)
    edit.forge(copy)
    if contents(copy) == contents(root) and not any(path.is_symlink() for path in copy.rglob("*")):
        return "nothing changed"
    try:
        holds = tallyveil.verify(copy, whole=edit.whole, releases=releases, **public).holds
    except TallyveilError:
        holds = False
    return "unseen" if holds else "found"


def suite(
    root: Path,
    edits: list[Edit],
    place: Path,
    releases: tuple[Path, ...] = (),
    public: Mapping[str, Any] = MappingProxyType({}),
) -> list[tuple[Edit, str]]:
    """Every edit with its outcome; those that are not as expected are printed."""
    outcomes = []
    for edit in edits:
        said = outcome(root, edit, place, releases, public)
        if said != ("unseen" if edit.unseen else "found"):
            print(f"{said}: {edit.place}: {edit.name}", flush=True)
        outcomes.append((edit, said))
    return outcomes


def table(outcomes: list[tuple[Edit, str]]) -> str:
    """The table of the documentation: by place, how many edits there were, and how they were found."""
    lines = ["| edited | edits | found | with `--whole` | nobody could |", "|---|---:|---:|---:|---:|"]
    places = dict.fromkeys(edit.place for edit, _ in outcomes)
    for place in [*places, None]:
        numbers = Counter(
            "whole" if said == "found" and edit.whole else said
            for edit, said in outcomes
            if place in (edit.place, None) and said != "nothing changed"
        )
        n = sum(numbers.values())
        lines.append(
            f"| {place or 'all'} | {n} | {numbers['found']} | {numbers['whole']} | {numbers['unseen']} |"
        )
    return "\n".join(lines)


def main() -> int:
    begun = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        root = Path(sys.argv[1]) if len(sys.argv) > 1 else made(place)
        assert tallyveil.verify(root).holds, tallyveil.verify(root).wrong
        outcomes = suite(root, all_edits(root), place / "copy")
        for name, make in PRODUCTS.items():
            (place / name).mkdir()
            product = make(place / name)
            outcomes += suite(product, list(of_product(product, name)), place / "copy")
        programme = made_programme(place)
        outcomes += suite(programme, list(of_programme(programme)), place / "copy")
        for derived in made_from_releases(root, programme, place):
            outcomes += suite(derived.root, derived.edits, place / "copy", derived.releases)
        with pytest.MonkeyPatch.context() as patch:
            with_few_sweeps(patch)
            draws, public = made_draws(root, place)
            outcomes += suite(draws, list(of_draws(draws)), place / "copy", (root,), public)
    print(table(outcomes))
    print(f"{len(outcomes)} edits, {time.process_time() - begun:.0f} processor seconds")
    return int(any(said == ("found" if edit.unseen else "unseen") for edit, said in outcomes))


if __name__ == "__main__":
    sys.exit(main())
