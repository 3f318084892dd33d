"""Derives again what a folder of draws says of itself, from its release, the public files, and the draws."""

from dataclasses import asdict, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tallyveil.estimation.posterior.sampling import CHAINS, FIRST_SWEEPS
from tallyveil.files.checks import Promises, Stretch, check_counts
from tallyveil.files.finished import MANIFEST, require_fits, require_run
from tallyveil.files.marks import marks_of
from tallyveil.postprocess.draws.inputs import read_inputs
from tallyveil.postprocess.draws.job import (
    README,
    earlier_counts,
    files_of,
    make_draws,
    misfit_of,
    read_description,
    read_draws,
    readme_of,
    statement_of,
)
from tallyveil.postprocess.intervals.model import FinishedRelease
from tallyveil.postprocess.measured import read_constraints
from tallyveil.postprocess.other_releases import summed_to_root
from tallyveil.storage.json_files import JsonObject
from tallyveil.storage.write import file_digest

PUBLIC_FILES: Final = {"--covariates": "covariates_sha256", "--earlier-census": "earlier_sha256"}
"""Where `draws.json` has the SHA-256 of each public file, by the flag that names the file."""


def derived_description(out: Path, release: FinishedRelease) -> JsonObject:
    """What `draws.json` must say, with the numbers of chains and public files as it has them.

    Args:
        out: The folder of draws.
        release: The release, on the geography that it was given.
    Raises:
        StoreError: the draws are of another release, or `README.txt` is another text.
    """
    stated, marks = read_description(out, release), marks_of(release.manifest)
    finest = release.hierarchies.original.geolevels[-1]
    measured = bool(stated.residuals) and all(item.ratio for item in stated.residuals)
    require_fits(measured, "residuals have no ratios")
    derived = replace(
        stated,
        release=release.name,
        run=release.manifest.spender,
        manifest_sha256=file_digest(release.root / MANIFEST),
        chains=CHAINS,
        misfit=misfit_of(stated.residuals),
        statement=statement_of(stated.covariates, stated.earlier, finest),
        protected=marks.protected,
        warnings=list(marks.warnings),
    )
    text = readme_of(derived, experimental=derived.geolevel == finest)
    # As bytes: another text need not be UTF-8.
    require_fits((out / README).read_bytes() == text.encode(), f"{README} says something else")
    return asdict(derived)


def derived_of_files(release: FinishedRelease, covariates: Path | None, earlier: Path | None) -> JsonObject:
    """What `draws.json` must say of the public files.

    Args:
        release: The release, on the geography that it was given.
        covariates, earlier: All of these files; None for none.
    Raises:
        ConfigError, GeographyError, SchemaError, StoreError: as `read_inputs`.
    """
    inputs = read_inputs(release, covariates, earlier)
    counts = earlier_counts(inputs, release)
    return {
        "covariates": [asdict(coding) for coding in inputs.codings],
        "covariates_sha256": inputs.covariates_sha256,
        "earlier": None if counts is None else asdict(counts),
        "earlier_sha256": inputs.earlier_sha256,
    }


def require_tables(out: Path, release: FinishedRelease) -> None:
    """Hold every draw to what the plan promises of its counts, in whole numbers, at its geolevel and those above.

    Args:
        out: The folder of draws.
        release: The release, on the geography that it was given.
    Raises:
        SolverError: a count is negative or fills a structural zero, or an invariant or a public bound does not hold.
        StoreError: a file is missing or damaged, or names another run.
    """
    description, schema = read_description(out, release), release.schema
    for path in files_of(out, description):
        require_run(path, release.manifest.run, protected=release.manifest.protected)
    given = release.hierarchies.original
    # On the geography that was given, each geounit has bounds of its own, also where the measured spine cuts it.
    hierarchies = replace(release.hierarchies, spine=given, replaced=())
    tables = read_constraints(release.root, release.plan, schema, hierarchies)
    promises = Promises(schema, given, (), [table.promise for table in tables])
    for counts in read_draws(out, release, description):
        for level, of_level in enumerate(summed_to_root(counts, given, schema.size)):
            check_counts(promises, Stretch(level, 0, of_level))


def description_made_again(
    out: Path, release: FinishedRelease, covariates: Path | None, earlier: Path | None
) -> JsonObject:
    """What `draws.json` says when the draws are made again, with the SHA-256 of every draw.

    Args:
        out: The folder of draws.
        release: The release, on the geography that it was given.
        covariates, earlier: The public files; None for none.
    Raises:
        SolverError: the chains do not agree.
        StoreError: the draws are of another release.
    """
    stated = read_description(out, release)
    with TemporaryDirectory() as place:
        again = make_draws(
            release.root,
            Path(place) / "draws",
            number=stated.number,
            seed=stated.seed,
            experimental=stated.geolevel == release.hierarchies.original.geolevels[-1],
            covariates=covariates,
            earlier_census=earlier,
            # Chains that agreed after so many sweeps do so again.
            longest=max(FIRST_SWEEPS, stated.convergence.sweeps),
        )
    return asdict(again)
