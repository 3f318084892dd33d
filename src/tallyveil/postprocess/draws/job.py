"""The job of `tallyveil draws`: complete tables drawn from what a release's measurements and a model say together.

The folder has a folder for each draw, with a histogram file like that of a release, and `draws.json`, which says of
which release and under which model they are, and how far the chains agreed.
"""

import hashlib
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from tallyveil.errors import ConfigError, StoreError
from tallyveil.estimation.posterior.covariates import Coding
from tallyveil.estimation.posterior.prior import Common
from tallyveil.estimation.posterior.residuals import Residuals
from tallyveil.estimation.posterior.sampling import (
    CHAINS,
    FIRST_SWEEPS,
    MOST_DRAWS,
    SAMPLER,
    Convergence,
    Progress,
    sample,
)
from tallyveil.files.finished import MANIFEST
from tallyveil.files.histograms import histogram_path, read_histogram, write_histogram
from tallyveil.files.marks import marks_of
from tallyveil.postprocess.draws.inputs import PublicInputs, read_inputs
from tallyveil.postprocess.draws.model import on_given_geography, posterior_of
from tallyveil.postprocess.intervals.model import FinishedRelease, open_release
from tallyveil.runs.observer import Observer, SilentObserver, Stopwatch
from tallyveil.schema.counts import PublicCounts, TripletSum
from tallyveil.storage.archives import archived, content_of, read_archive, write_archive
from tallyveil.storage.json_files import Json, damaged, read_declared
from tallyveil.storage.outputs import new_folder, refuse_inputs, refuse_output_inside, remove
from tallyveil.storage.system import usable_cores
from tallyveil.storage.write import file_digest, write_file, write_json, write_text
from tallyveil.version import VERSION

COMMAND: Final = "draws"
DESCRIPTION: Final = "draws.json"
README: Final = "README.txt"
FORMAT: Final = 5
CHAINS_FILE: Final = "chains.zip"
"""The chains of an unfinished folder, from which the same command goes on."""
_WHAT: Final = "draws of a release"
_MEND: Final = "Make the draws again with `tallyveil draws`."
MODEL: Final = (
    "Draws are from a model, and not only from the noisy measurements: counts are whole and not negative, and blocks "
    "of one block group resemble each other. Intervals from draws hold on average under this model. Where a small "
    "group lives they are too narrow. One draw is noisier than the published counts: use all of them. Some blocks that "
    "are empty in the draws or in the release have people."
)


@dataclass(frozen=True, slots=True)
class EarlierCounts:
    """What counts of an earlier census are of.

    Attributes:
        geolevel: Their geolevel.
        attributes: Their attributes.
    """

    geolevel: str
    attributes: list[str]


@dataclass(frozen=True, slots=True)
class DrawsDescription:
    """Content of `draws.json`.

    Attributes:
        format: Version of this file.
        tallyveil: The version that made the draws. Another one may draw others.
        release: Name of the release.
        run: The run that spent the budget.
        manifest_sha256: SHA-256 of the release's `manifest.json`, which the draws belong to.
        geolevel: Geolevel of the counts.
        files: SHA-256 of the file of each draw, in order.
        seed: What was given as the seed.
        chains: Number of chains.
        convergence: What was compared before draws were taken.
        parameters: The parameters of the model that all areas share, learned from the measurements and then held.
        covariates: How the model used each public number of blocks; empty if there are none.
        covariates_sha256: SHA-256 of their file; empty if there are none.
        earlier: What the counts of an earlier census are of; None if there are none.
        earlier_sha256: SHA-256 of their file; empty if there are none.
        residuals: Of each query at each geolevel, the mean squares of the differences between measurements and draws.
        misfit: What they say of the model.
        statement: What the draws are.
        protected, warnings: The marks of the release.
    """

    format: int
    tallyveil: str
    release: str
    run: str
    manifest_sha256: str
    geolevel: str
    files: list[str]
    seed: int
    chains: int
    convergence: Convergence
    parameters: dict[str, Any]
    covariates: list[Coding]
    covariates_sha256: str
    earlier: EarlierCounts | None
    earlier_sha256: str
    residuals: list[Residuals]
    misfit: str
    statement: str
    protected: bool
    warnings: list[str]

    @property
    def number(self) -> int:
        """Number of draws."""
        return len(self.files)


def make_draws(
    root: Path,
    out: Path,
    *,
    number: int = 100,
    seed: int = 1,
    experimental: bool = False,
    covariates: Path | None = None,
    earlier_census: Path | None = None,
    longest: int,
    workers: int | None = None,
    observer: Observer | None = None,
) -> DrawsDescription:
    """Draw tables of a finished release, and write them, or go on with draws that were interrupted.

    The chains are saved whenever they are compared, also those that then disagree.

    Args:
        root: Folder of the release.
        out: A new or empty folder, or one with unfinished draws.
        number: Number of draws.
        seed: Another seed gives other draws. It need not be secret: draws follow from what is published.
        experimental: Whether the counts of the finest geolevel are written, instead of those of the one above.
        covariates: A table of public numbers of every finest geounit, from which the model learns how many people live
            there; None for none.
        earlier_census: A table of counts of an earlier census, from which the model learns who lives there; None for
            none.
        longest: Sweeps of a chain after which it is given up.
        workers: Chains that run at once; None for one per core. Draws do not depend on it.
        observer: Receives reports of progress.
    Returns:
        What `draws.json` says.
    Raises:
        ConfigError: the number is out of range, the release has no posterior here, or a public file cannot be used.
        GeographyError, SchemaError: a public file cannot be used.
        SolverError: the chains do not agree.
        StoreError: the release is damaged, or the folder cannot be written.
    Privacy: post-processing of what is published; costs nothing.
    """
    if not 1 <= number <= MOST_DRAWS:
        raise ConfigError(
            f"the number of draws is {number:,}, wanted 1 to {MOST_DRAWS}. States of a chain that are nearer to each "
            "other would say nothing more.",
            code="draws-range",
        )
    if seed < 0:
        raise ConfigError(f"the seed is {seed:,}, wanted 0 or more.", code="draws-range")
    if longest < FIRST_SWEEPS:
        raise ConfigError(
            f"chains are given {longest:,} sweeps, wanted {FIRST_SWEEPS} or more. They are compared for the first time "
            "after so many.",
            code="draws-range",
        )
    refuse_inputs(out, [root, *filter(None, [covariates, earlier_census])])
    refuse_output_inside(out, root)
    release = on_given_geography(open_release(root))
    original = release.hierarchies.original
    level = original.finest if experimental else original.finest - 1
    digest = file_digest(root / MANIFEST)
    # Read before anything is computed, which may take hours.
    inputs = read_inputs(release, covariates, earlier_census)
    watch = Stopwatch(observer or SilentObserver())
    names = [_name(i) for i in range(number)]
    with new_folder(out, COMMAND, _WHAT, [*names, DESCRIPTION, README], [CHAINS_FILE]):
        problem, released = posterior_of(release, inputs.covariates, inputs.earlier)
        of_files = f"{inputs.covariates_sha256} {inputs.earlier_sha256}"
        chains = _SavedChains(out / CHAINS_FILE, f"{VERSION} {SAMPLER} {digest} {seed} {of_files}")
        key = int.from_bytes(hashlib.sha256(f"draws\0{digest}\0{seed}".encode()).digest()[:8])
        with watch.stage("sample", longest):
            sampled = sample(
                problem,
                released,
                key,
                number,
                longest=longest,
                workers=workers or usable_cores(),
                advanced=watch.advanced,
                begun=chains.read(),
                save=chains.write,
            )
        with watch.stage("write draws", number):
            for i, counts in enumerate(_summed(release, sampled.draws(), level)):
                write_histogram(out / _name(i), counts, release.schema, original, release.tags)
                watch.advanced(1)
        geolevel = original.geolevels[level]
        marks = marks_of(release.manifest)
        description = DrawsDescription(
            format=FORMAT,
            tallyveil=VERSION,
            release=release.name,
            run=release.manifest.spender,
            manifest_sha256=digest,
            geolevel=geolevel,
            files=[file_digest(histogram_path(out / name, geolevel)) for name in names],
            seed=seed,
            chains=CHAINS,
            convergence=sampled.convergence,
            parameters=_lists(sampled.common),
            covariates=list(inputs.codings),
            covariates_sha256=inputs.covariates_sha256,
            earlier=earlier_counts(inputs, release),
            earlier_sha256=inputs.earlier_sha256,
            residuals=sampled.residuals,
            misfit=misfit_of(sampled.residuals),
            statement=statement_of(inputs.codings, earlier_counts(inputs, release), original.geolevels[-1]),
            protected=marks.protected,
            warnings=list(marks.warnings),
        )
        write_text(out / README, readme_of(description, experimental=experimental))
        # Before the description, with which the folder is finished.
        remove(chains.path)
        write_json(out / DESCRIPTION, asdict(description))
    return description


def earlier_counts(inputs: PublicInputs, release: FinishedRelease) -> EarlierCounts | None:
    """What the counts of the earlier census are of; None if there are none."""
    census = inputs.earlier
    if census is None:
        return None
    return EarlierCounts(release.spine.geolevels[census.level], list(census.attributes))


def statement_of(covariates: Sequence[Coding], earlier: EarlierCounts | None, finest: str) -> str:
    """What draws are, with the public files that they follow from.

    Args:
        covariates: The public numbers of blocks.
        earlier: What the counts of an earlier census are of.
        finest: The finest geolevel.
    """
    said = [MODEL]
    if covariates:
        names = ", ".join(coding.name for coding in covariates)
        said.append(f"How many people live in a {finest} was also learned from public numbers: {names}.")
    if earlier is not None:
        said.append(
            f"Who lives in a {earlier.geolevel} was also learned from public counts of an earlier census: "
            f"{', '.join(earlier.attributes)}."
        )
    return " ".join(said)


@dataclass(frozen=True, slots=True)
class _SavedChains:
    """The file of chains that go on.

    Attributes:
        path: The file.
        of: What the chains depend on: version, sampler, release, seed and public files. Saved chains that depend on
            anything else are not continued.
    """

    path: Path
    of: str

    def write(self, progress: Progress) -> None:
        """Write the chains; raises StoreError."""
        content = archived(progress)
        record = {**content.record, "of": self.of}
        write_file(self.path, lambda place: write_archive(place, record, content.arrays))

    def read(self) -> Progress | None:
        """The chains; None if there are none. Raises StoreError if the file was changed."""
        if not self.path.exists():
            return None
        try:
            content = read_archive(self.path)
        except StoreError as error:
            raise StoreError(
                f"{self.path} is damaged: these are not the chains that were written. Remove the file, and run the "
                "same command again, which then begins anew.",
                code="run-damaged",
            ) from error
        return content_of(Progress, content) if content.record.get("of") == self.of else None


def misfit_of(residuals: Sequence[Residuals]) -> str:
    """What squared residuals say of the model."""
    ratios = [ratio for item in residuals for ratio in item.ratio]
    said = (
        "Squared differences between measurements and draws are "
        f"{min(ratios):.2f} to {max(ratios):.2f} times the variance of the noise; 1 is expected if the model holds."
    )
    wrong = [f"{item.query} at {item.geolevel}" for item in residuals if not item.fits]
    if not wrong:
        return said
    return f"{said} THE MODEL DOES NOT FIT: they differ from 1 by more than chance for {', '.join(wrong)}."


def _lists(common: Common) -> dict[str, Any]:
    """Parameters as JSON has them."""
    values = asdict(common)
    values["near"] = [near.tolist() for near in common.near]
    return {
        name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in values.items()
    }


def _name(i: int) -> str:
    return f"draw-{i + 1:03d}"


def _summed(release: FinishedRelease, draws: Iterable[PublicCounts], level: int) -> Iterator[PublicCounts]:
    """The draws' counts at a geolevel of the geography as readers know it."""
    original, place = release.hierarchies.original, release.hierarchies.original_ancestors(level)
    for draw in draws:
        total = TripletSum(original.n_geounits(level), release.schema.size)
        rows, cells, counts = draw.rows(0, draw.n_geounits)
        total.add(place[rows], cells, counts)
        yield PublicCounts(original.geolevels[level], *total.finish())


def readme_of(description: DrawsDescription, *, experimental: bool) -> str:
    """What the folder says to people; `experimental` if its counts are of the finest geolevel."""
    warning = ["EXPERIMENTAL: intervals of single blocks from these draws are too narrow for rare groups."]
    lines = [
        f"{description.number} draws of {description.release}, counts of every {description.geolevel}.",
        "",
        *description.warnings,
        *(warning if experimental else []),
        description.statement,
        description.misfit,
        "",
        "Each folder draw-NNN has histogram/GEOLEVEL.parquet: a row for each cell with people, and its count.",
        "Draws follow from the published noisy measurements. They cost no privacy-loss budget.",
    ]
    return "\n".join(lines) + "\n"


def stated_description(out: Path) -> tuple[Json, DrawsDescription]:
    """The JSON value of `draws.json`, and what it declares; raises StoreError if it is missing or damaged."""
    path = out / DESCRIPTION
    content, description = read_declared(path, DrawsDescription, _MEND)
    for place, is_wrong in (
        ("format", description.format != FORMAT),
        ("files", not 1 <= description.number <= MOST_DRAWS),
    ):
        if is_wrong:
            raise damaged(path, place, _MEND)
    return content, description


def read_description(out: Path, release: FinishedRelease) -> DrawsDescription:
    """What `draws.json` says of draws of a release.

    Raises:
        StoreError: it is missing or damaged, or says that the draws are of another release.
    """
    _, description = stated_description(out)
    if file_digest(release.root / MANIFEST) != description.manifest_sha256:
        raise StoreError(
            f"the draws in {out} are of another release than {release.root}, or the release has changed since. Make "
            "them again with `tallyveil draws`.",
            code="draws-of-another",
        )
    if description.geolevel not in release.hierarchies.original.geolevels[-2:]:
        raise damaged(out / DESCRIPTION, "geolevel", _MEND)
    return description


def require_draws(number: int, level: float) -> None:
    """Refuse a level of intervals that is none, or for which there are too few draws; raises ConfigError."""
    if not 0.0 < level < 1.0:
        raise ConfigError(f"the level is {level}, wanted more than 0 and less than 1.", code="draws-range")
    # So many that an interval leaves a draw out on each side. Rounded, since 1 - 0.9 is no tenth in floats.
    least = math.ceil(round(2.0 / (1.0 - level), 6)) + 1
    if number < least:
        raise ConfigError(
            f"an interval of level {level} needs {least:,} draws, and there are {number}. Make more draws, of which "
            f"there can be {MOST_DRAWS}, or ask for a lower level.",
            code="draws-range",
        )


def files_of(out: Path, description: DrawsDescription) -> list[Path]:
    """The file of every draw, in order."""
    return [histogram_path(out / _name(i), description.geolevel) for i in range(description.number)]


def read_draws(out: Path, release: FinishedRelease, description: DrawsDescription) -> Iterator[PublicCounts]:
    """The counts of every draw, in order.

    Raises:
        StoreError: a file is missing, or is not what `draws.json` says.
    """
    original = release.hierarchies.original
    for i, (path, digest) in enumerate(zip(files_of(out, description), description.files, strict=True)):
        if not (path.is_file() and file_digest(path) == digest):
            raise StoreError(
                f"{path} is missing, or does not have the SHA-256 that {DESCRIPTION} lists. Restore the file from a "
                "copy, or make the draws again with `tallyveil draws`.",
                code="release-damaged",
            )
        yield read_histogram(out / _name(i), description.geolevel, release.schema, original)
