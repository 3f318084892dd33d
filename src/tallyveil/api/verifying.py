"""Holds what somebody published to what follows from its ledger, plan and measurements, and says what that proves.

A finished release says of itself what was done, what that guarantees, how large it is and which checks it passed.
All of it follows from three things in the folder: the ledger, the plan and the files. Each statement is therefore
derived here once more and compared. Nothing is believed because a digest fits: whoever edits a file can make
every digest again.

A verdict has four parts. Proved: it was derived from other files of the release. Compared: two places say the same,
or a digest fits. Not looked at: nothing in the release could show it. Wrong: it does not hold.

Read it from `verify` down. `_SUBJECTS` has a function for each thing that can be published, and `_CLAIMS` and
`_OF_KIND` the statements of a release, in order. A claim is a sentence, and a function that raises `TallyveilError`
where it is not true.
"""

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tallyveil.accounting.ledger.file import read_ledger
from tallyveil.accounting.ledger.lines import LEDGER
from tallyveil.api.arguments import AnyPath, Flag, Paths, checked
from tallyveil.api.products import PRODUCTS, write_page
from tallyveil.errors import ConfigError, StoreError, TallyveilError
from tallyveil.files.data_package import DATA_PACKAGE, data_package
from tallyveil.files.declassified import looks_of
from tallyveil.files.finished import (
    LOG,
    MANIFEST,
    PLAN,
    PROGRAMME,
    ledger_record,
    refuse_unfinished,
    require_fits,
    require_run,
    runs_of,
)
from tallyveil.files.geography import read_hierarchies
from tallyveil.files.intervals import BESIDE, INTERVALS, INTERVALS_MANIFEST, README, made_intervals
from tallyveil.files.manifest import MANIFEST_FORMAT, ListedFile, Manifest, ReleaseKind
from tallyveil.files.manifest_files import MAIN_PRODUCT, RESTORE, require_entered, written_manifest
from tallyveil.files.marks import release_marks
from tallyveil.files.signatures import SUFFIX, signature_of, signature_path
from tallyveil.files.whole_tables import PUBLICATION
from tallyveil.plans.fitting import stated_plan
from tallyveil.report.page import REPORT
from tallyveil.storage.addresses import address_of, is_object, shown_path
from tallyveil.storage.json_files import JsonObject, held, read_json, read_json_object
from tallyveil.storage.outputs import remove
from tallyveil.storage.paths import inside
from tallyveil.storage.write import file_digest
from tallyveil.version import VERSION

if TYPE_CHECKING:
    from tallyveil.postprocess.draws.job import DrawsDescription

SITE: Final = "data/site.json"
"""File by which the folder of an explorer's site is known."""
DRAWS: Final = "draws.json"
"""File by which a folder of draws is known."""
BECAUSE_WRONG: Final = "because something above, on which it rests, is wrong"
"""Why a claim was not looked at."""
MOST_NAMED: Final = 3
"""How many of several files a sentence names; the others are counted."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was found out about something that was published.

    Attributes:
        path: What was looked at.
        subject: What it is, in words.
        guarantee: The guarantee that follows from ledger and plan, in a sentence; empty where there is none.
        signature: "signed by" with the fingerprint of a key, "unsigned", or "signature does not fit".
        proved: What was derived from other files and is the same.
        compared: What was only compared with something else that it says of itself.
        not_looked_at: What nothing there could show.
        wrong: What does not hold.
    """

    path: Path
    subject: str
    guarantee: str
    signature: str
    proved: tuple[str, ...]
    compared: tuple[str, ...]
    not_looked_at: tuple[str, ...]
    wrong: tuple[str, ...]

    @property
    def holds(self) -> bool:
        """Whether nothing is wrong."""
        return not self.wrong

    def to_mapping(self) -> JsonObject:
        """Plain data."""
        return {
            "path": shown_path(self.path),
            "subject": self.subject,
            "holds": self.holds,
            "guarantee": self.guarantee,
            "signature": self.signature,
            "proved": list(self.proved),
            "compared": list(self.compared),
            "not_looked_at": list(self.not_looked_at),
            "wrong": list(self.wrong),
        }

    def lines(self) -> list[str]:
        """The verdict for readers: what is wrong first."""
        judged = (
            "nothing in it is wrong" if self.holds else f"{len(self.wrong)} of its statements do not hold"
        )
        parts = (
            ("WRONG", self.wrong),
            ("proved", self.proved),
            ("only compared", self.compared),
            ("not looked at", self.not_looked_at),
        )
        return [
            f"{shown_path(self.path)} is {self.subject}: {judged}",
            *([f"guarantee: {self.guarantee}"] if self.guarantee and self.holds else []),
            f"signature: {self.signature}",
            *(f"{name}: {line}" for name, lines in parts for line in lines),
        ]


@checked
def verify(
    path: AnyPath,
    *,
    whole: Flag = False,
    releases: Paths = (),
    covariates: AnyPath | None = None,
    earlier_census: AnyPath | None = None,
) -> Verdict:
    """Derive again what a release, or what was made from one, says of itself.

    Args:
        path: Folder of a release, of measurements, of a programme, of a publication (`publish`), of an explorer's
            site, or of draws; or the address of a copy of a release in an object store.
        whole: Whether all intervals and, where all measurements are there, all counts are computed again. Otherwise
            intervals are computed for every geolevel but the finest, and for a part of the finest one. Draws are made
            again, which takes as long as it did at first.
        releases: Folders of the releases that a publication or a site was made from. It is then made again from them
            and compared byte by byte. Without them, little of it can be shown. For draws, the folder of their release.
        covariates, earlier_census: The public files that draws follow from, as `make_draws` was given them.
    Returns:
        What was proved, what was only compared, what was not looked at, and what is wrong.
    Raises:
        StoreError: there is nothing at the path that could be verified, or it cannot be read.
        ConfigError: releases are named beside a release, or several for draws, or public files for anything else.
    Privacy: reads published files alone, writes nothing beside them and spends nothing.
    """
    folder, sources = Path(path), [Path(release) for release in releases]
    if is_object(folder):
        return _copy(folder, whole=whole)
    for source in sources:
        if not (source / MANIFEST).is_file():
            raise StoreError(
                f"{source} holds no finished release. Give --release the folder of one.", code="no-release"
            )
    if not folder.is_dir():
        raise StoreError(
            f"{folder} is {'a file' if folder.exists() else 'not there'}. Name the folder of what is to be verified.",
            code="no-release",
        )
    public = [None if file is None else Path(file) for file in (covariates, earlier_census)]
    if (folder / DRAWS).is_file():
        return _draws(folder, sources, whole, public)
    if any(public):
        raise ConfigError(
            f"{folder} holds no draws, which alone follow from covariates and an earlier census. Leave them out.",
            code="bad-flag",
        )
    for name, look in _SUBJECTS.items():
        if (folder / name).is_file():
            if sources and name in (MANIFEST, PROGRAMME):
                raise ConfigError(
                    f"{folder} is a release itself: --release names what a publication or a site was made from. Leave "
                    "it out.",
                    code="bad-flag",
                )
            return look(folder, sources, whole)
    raise StoreError(
        f"{folder} holds nothing that can be verified: it has none of {', '.join([*_SUBJECTS, DRAWS])}. Name the "
        "folder of a finished release, of a programme, of a publication, of a site or of draws.",
        code="no-release",
    )


@dataclass(slots=True)
class _Look:
    """What has been found out so far.

    Attributes:
        root: The folder.
        manifest: Of the release, as it is written.
        whole: As for `verify`.
        without: Folders of the release that were left out when it was published, because they are large.
    """

    root: Path
    manifest: Manifest
    whole: bool
    without: set[str] = field(default_factory=set)
    proved: list[str] = field(default_factory=list)
    compared: list[str] = field(default_factory=list)
    unseen: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def hold(self, claim: str, work: Callable[[], object], into: list[str] | None = None) -> None:
        """Note a claim, as proved unless `into` says otherwise, or as wrong where its work raises."""
        try:
            work()
        except TallyveilError as error:
            self.wrong.append(f"{claim}: {error}")
        except OSError as error:
            # A folder or a pipe in the place of a file, or a file that may not be read.
            self.wrong.append(f"{claim}: {error.filename} cannot be read ({type(error).__name__})")
        else:
            (self.proved if into is None else into).append(claim)

    def hold_if_right(self, claim: str, work: Callable[[], object]) -> None:
        """Note a claim that rests on all others so far, as not looked at where one of them is wrong."""
        if self.wrong:
            self.unseen.append(f"whether {claim}, {BECAUSE_WRONG}")
        else:
            self.hold(claim, work)

    def verdict(self, subject: str, guarantee: str = "", signed: str = MANIFEST) -> Verdict:
        """The verdict; `signed` is the file whose signature is that of all files."""
        signature = _signatures(self.root, signed, self.wrong)
        parts = (self.proved, self.compared, self.unseen, self.wrong)
        return Verdict(self.root, subject, guarantee, signature, *map(tuple, parts))


def _signatures(root: Path, signed: str, wrong: list[str]) -> str:
    """What the signature of the file that lists all others shows; one that does not fit is noted as wrong."""
    signatures = {name: signature_of(root / name) for name in (signed, REPORT)}
    wrong += [
        f"{name}{SUFFIX}: {signature}"
        for name, signature in signatures.items()
        if signature.fingerprint and not signature.fits
    ]
    return str(signatures[signed])


def _with_signatures(*names: str) -> set[str]:
    return {*names, *(f"{name}{SUFFIX}" for name in names)}


def _require_same(stated: Any, derived: Any, place: str) -> None:
    """Refuse a statement that differs from what follows; names the first place where it does. Raises StoreError."""
    if isinstance(stated, Mapping) and isinstance(derived, Mapping):
        require_fits(
            stated.keys() == derived.keys(), f"{place} has the entries {list(stated)}, not {list(derived)}"
        )
        for key in derived:
            _require_same(stated[key], derived[key], f"{place}.{key}")
    elif isinstance(stated, list) and isinstance(derived, list) and len(stated) == len(derived):
        for number, item in enumerate(derived):
            _require_same(stated[number], item, f"{place}[{number}]")
    else:
        # 1 and true are equal in Python, and not in JSON.
        same = stated == derived and type(stated) is type(derived)
        require_fits(same, f"{place} says {stated!a:.200}, and what follows is {derived!a:.200}")


def _named(names: Iterable[str]) -> str:
    listed = sorted(names)
    others = f" and {len(listed) - MOST_NAMED:,} more" if len(listed) > MOST_NAMED else ""
    return ", ".join(ascii(name) for name in listed[:MOST_NAMED]) + others


# ---- A release ------------------------------------------------------------------------------------------------------


def _release(root: Path, _: Sequence[Path], whole: bool) -> Verdict:
    """The verdict on a finished release of any product, or on measurements."""
    refuse_unfinished(root)
    manifest = written_manifest(root)
    look = _Look(root, manifest, whole)
    for common in _CLAIMS:
        common(look)
    # What follows would be derived from files that are not those of the release.
    if not look.wrong:
        for claim in _OF_KIND[manifest.kind]:
            claim(look)
    else:
        look.unseen.append("the statements of the release, because its files or its ledger are not whole")
    look.unseen.append("versions of libraries, and whether the key of the noise was kept secret")
    subject = f"a release of `{manifest.kind.command}`, run {manifest.run}"
    return look.verdict(subject, _guarantee_in_words(look))


def _lacks(look: _Look, claim: str, *folders: str) -> bool:
    """Whether a folder that a claim is derived from was left out; notes the claim then."""
    lacking = look.without.intersection(folders)
    if lacking:
        look.unseen.append(f"{claim}, because {_named(lacking)} was left out")
    return bool(lacking)


def _guarantee_in_words(look: _Look) -> str:
    if look.wrong:
        return ""
    privacy = look.manifest.privacy
    return str(privacy.get("statement", "")) or "; ".join(
        f"{name}: epsilon <= {part['epsilon']['upper']:.4g} at delta = {part['delta']}"
        for name, part in privacy.items()
    )


def _covered(look: _Look) -> None:
    """Every file is listed with its size and its digest, and nothing lies beside the listed files."""
    root, listed = look.root, {file.path: file for file in look.manifest.files}
    there = {path.relative_to(root).as_posix(): path for path in _entries(root)}
    look.without = set(_LARGE) - {name.split("/")[0] for name in there}
    missing = {name for name in listed.keys() - there.keys() if name.split("/")[0] not in look.without}
    require_fits(not missing, f"there is no {_named(missing)}")
    look.without &= {name.split("/")[0] for name in listed}
    look.unseen += [f"{name}/, which was left out" for name in sorted(look.without)]
    others = there.keys() - listed.keys() - {LEDGER, *_with_signatures(MANIFEST, REPORT)}
    if LOG in others and read_json_object(root / MANIFEST, RESTORE)["format"] != MANIFEST_FORMAT:
        others.remove(LOG)
        look.unseen.append(f"{LOG}, with times and machines: `tallyveil publish clean` removes it")
    beside = {name for name in others if name.split("/")[0] == INTERVALS}
    # Errors against the truth are no part of the release, and are not private.
    looked = {name for name in others if name.split("/")[0] == "evaluation" and look.manifest.declassified}
    simulated = {name for name in others & _DIAGNOSTICS if look.manifest.kind is ReleaseKind.SUBSPACE}
    require_fits(
        not (left := others - beside - looked - simulated),
        f"{_named(left)} lies beside what the manifest lists",
    )
    if simulated:
        look.unseen.append("diagnostics/, which is made of simulated noise")
    _hold_files(root, [file for name, file in listed.items() if name in there])
    for name in listed.keys() & there.keys():
        runs = runs_of(name, look.manifest.run, look.manifest.spender)
        require_run(there[name], *runs, protected=look.manifest.protected)
    if looked:
        look.unseen.append("evaluation/, which was computed from the true counts: it is NOT PRIVATE")


_DIAGNOSTICS: Final = frozenset(
    f"diagnostics/{name}.{suffix}"
    for name in ("noise", "total-variation", "scale-reduction")
    for suffix in ("csv", "svg", "png")
)
"""What is written of simulated noise beside a release of one table."""
_LARGE: Final = frozenset({"histogram", "measurements", "microdata"})
"""Folders that may be left out, as a whole, of a release that would be too large to publish."""


def _entries(root: Path) -> Iterator[Path]:
    """All files in a folder; raises StoreError for a link, an empty folder, and what is no file, such as a pipe."""
    for path in sorted(root.rglob("*")):
        require_fits(not path.is_symlink(), f"{path} is a link, which leads elsewhere on every machine")
        if not path.is_dir():
            # A pipe would be waited for, and is no part of what was published.
            require_fits(path.is_file(), f"{path.name!a:.200} is no file")
            yield path
        else:
            require_fits(any(path.iterdir()), f"{path} is an empty folder, which no run leaves")


def _hold_files(root: Path, files: Iterable[ListedFile]) -> None:
    for file in files:
        path = inside(root, *file.path.split("/"))
        same = path.is_file() and path.stat().st_size == file.bytes and file_digest(path) == file.sha256
        require_fits(same, f"{file.path!a:.200} is not the file of this size and SHA-256 that is listed")


def _in_ledger(look: _Look) -> None:
    """Event, budget, protection, marks and looks at the truth are those of the whole ledger."""
    root, manifest = look.root, look.manifest
    require_entered(root, manifest)
    require_fits(
        ledger_record(root) == manifest.ledger, "the ledger has lines that the manifest does not name"
    )
    entries = read_ledger(root / LEDGER)[1]
    _require_same(list(manifest.declassified), list(looks_of(entries)), "declassified")
    marks = release_marks(protected=manifest.protected, declassified=bool(manifest.declassified))
    _require_same(list(manifest.warnings), list(marks), "warnings")
    spend = next(entry for entry in entries if entry.kind == "spend")
    require_fits(spend.token.startswith(f"{manifest.spender} "), "the token of the spend names another run")
    others = {entry.run for entry in entries} - {manifest.run, manifest.spender}
    require_fits(not others, f"the ledger has lines of other runs: {_named(others)}")


def _claim_files(look: _Look) -> None:
    claim = "every file has the size and the SHA-256 that the manifest lists, and nothing lies beside them"
    look.hold(claim, lambda: _covered(look), look.compared)


def _claim_ledger(look: _Look) -> None:
    look.hold(
        "the event, the budget, the marks and the looks at the truth are those of the ledger, line by line",
        lambda: _in_ledger(look),
    )


_CLAIMS: Final = (_claim_files, _claim_ledger)
"""What every release says, whatever its product."""


# ---- A release of the main product ----------------------------------------------------------------------------------


def _claim_plan(look: _Look) -> None:
    body = look.manifest.body

    def same() -> None:
        plan = read_json_object(look.root / PLAN, RESTORE)
        _require_same(body["plan"], plan, "plan")
        _require_same(body["name"], plan["name"], "name")
        drawn = [(item["query"], item["geolevel"], item["budget"]) for item in plan.get("subspace", ())]
        stated = [(item["query"], item["geolevel"], item["budget"]) for item in body.get("drawn", ())]
        require_fits(stated == drawn, "the counts drawn on a lattice are not those of the plan")

    look.hold("the plan in the manifest is that of plan.json", same, look.compared)
    others = [name for name in ("drawn", "agreement", "residents", "imported") if name in body]
    if others:
        look.unseen.append(f"what the manifest says under {_named(others)}, beyond what the plan has of it")


def _claim_spine(look: _Look) -> None:
    """How the spine differs from the geography as it was."""
    if "spine" not in look.manifest.body:
        return
    from tallyveil.products.topdown.run.spine_making import spine_record

    def same() -> None:
        plan = stated_plan(look.root / MANIFEST, look.manifest.body["plan"])
        derived = spine_record(plan, read_hierarchies(look.root)) or {}
        stated = look.manifest.body["spine"]
        require_fits(stated.keys() <= derived.keys(), f"spine has {_named(stated.keys() - derived.keys())}")
        for key in stated.keys() - _AT_MAKING:
            _require_same(_of_spine(stated[key]), json.loads(json.dumps(derived[key])), f"spine.{key}")

    look.hold("geounits, children and off-spine distances of the spine are those of the geography", same)
    look.unseen.append(
        "the geography before the steps of the spine, and how exact counts were on other spines"
    )


_AT_MAKING: Final = {"deviations", "original", "warnings"}
"""What is said of the geography before the steps of the spine, and of spines that were compared with it."""


def _of_spine(stated: Any) -> Any:
    """A statement without what it says of areas on the original spine, which the release does not hold."""
    if not isinstance(stated, Mapping):
        return stated
    return {key: _of_spine(value) for key, value in stated.items() if not key.startswith("original_")}


def _claim_guarantee(look: _Look) -> None:
    look.hold(
        "plan and geography give the event of the ledger, and the guarantee, the invariants and every sentence about "
        "them follow from it",
        lambda: _require_derived(look),
    )


def _require_derived(look: _Look) -> None:
    _require_privacy(look, PRODUCTS[look.manifest.kind].guarantee(look.root, look.manifest).privacy)


def _require_privacy(look: _Look, derived: JsonObject) -> None:
    manifest = look.manifest
    # Earlier versions of the main product stated fewer entries, so only there may entries be missing.
    if manifest.kind not in MAIN_PRODUCT:
        require_fits(manifest.privacy.keys() == derived.keys(), f"privacy is of {list(manifest.privacy)}")
    _require_near(manifest.privacy, derived, "privacy")


def _require_near(stated: Any, derived: Any, place: str) -> None:
    """Refuse a statement that differs from the derived one by more than the last digits of numbers.

    What earlier versions did not state is no false statement. Their engines may have given other digits.
    """
    if isinstance(stated, Mapping) and isinstance(derived, Mapping):
        if derived.keys() == stated.keys() == {"lower", "upper"}:
            width = derived["upper"] - derived["lower"]
            for end, value in derived.items():
                near = abs(stated[end] - value) <= width + _NEAR * abs(value)
                require_fits(near, f"{place}.{end} says {stated[end]!r}, and what follows is {value!r}")
            return
        require_fits(stated.keys() <= derived.keys(), f"{place} has {_named(stated.keys() - derived.keys())}")
        for key in stated:
            _require_near(stated[key], derived[key], f"{place}.{key}")
    elif isinstance(stated, list) and isinstance(derived, list) and len(stated) == len(derived):
        for number, item in enumerate(derived):
            _require_near(stated[number], item, f"{place}[{number}]")
    elif isinstance(stated, float) and isinstance(derived, float):
        near = abs(stated - derived) <= _NEAR * abs(derived)
        require_fits(near, f"{place} says {stated!r}, and what follows is {derived!r}")
    else:
        _require_same(stated, derived, place)


_NEAR: Final = 1e-6
"""Relative width of the bounds of epsilon, about (`accounting.engines`). An engine of another version may give another
number within it; three digits are shown."""


def _claim_counts(look: _Look) -> None:
    """Sums, structural zeros, invariants, bounds, tables, microdata, and the names and sizes that follow from them."""
    manifest = look.manifest
    if manifest.kind is ReleaseKind.MEASUREMENTS:
        look.unseen.append("counts: these are measurements alone")
        return
    if _lacks(look, "whether counts and tables add up", "histogram", "microdata"):
        return
    from tallyveil.files.histograms import read_histogram
    from tallyveil.postprocess.publish import published_sizes
    from tallyveil.postprocess.verified import final_checks

    def checks() -> None:
        names = final_checks(look.root, manifest)
        _require_same(list(manifest.checks), names, "checks")

    def sizes() -> None:
        from tallyveil.schema.schema import schema_from_mapping

        spine, schema = (
            read_hierarchies(look.root).spine,
            schema_from_mapping(manifest.body["plan"]["schema"]),
        )
        counts = [read_histogram(look.root, name, schema, spine) for name in spine.geolevels]
        _require_same(manifest.body["sizes"], published_sizes(counts), "sizes")
        solver = manifest.body["solver"]
        families = {name: item["families"] for name, item in solver.items()}
        # Every root is a family by itself.
        parents = [spine.n_geounits(0), *(spine.n_geounits(level) for level in range(spine.n_levels - 1))]
        require_fits(families.keys() == set(spine.geolevels), "solver names other geolevels")
        # With outer passes, every pass solves each family once.
        passes = {name: len(item.get("passes", ())) or 1 for name, item in solver.items()}
        most = all(
            families[name] <= n * passes[name] for name, n in zip(spine.geolevels, parents, strict=True)
        )
        require_fits(most, "solver names more families than there are parents")

    look.hold(
        "every count adds up; no structural zero is filled; invariants, bounds and agreements hold; tables and "
        "microdata are those of the counts; and these are the checks that the manifest names",
        checks,
    )
    look.hold("the sizes in the manifest are those of the counts", sizes)
    look.unseen.append("how families were solved, beyond their number")


def _claim_measurements(look: _Look) -> None:
    """Noisy answers stand where the plan measures, with the variance that the plan gives them."""
    if _lacks(look, "the noisy answers", "measurements"):
        return
    if look.manifest.body["plan"].get("measurements", "full") not in ("full", "small"):
        look.unseen.append("measurements: the release keeps none, or those of its counts alone")
        return
    from tallyveil.postprocess.verified import require_measured

    look.hold(
        "every query that the plan measures has its noisy answers, each with the variance that follows from plan and "
        "geography",
        lambda: require_measured(look.root, look.manifest),
    )


def _claim_package(look: _Look) -> None:
    manifest = look.manifest
    if DATA_PACKAGE not in manifest.digests or _lacks(look, "whether datapackage.json fits", *_LARGE):
        return

    def same() -> None:
        files = [file for file in manifest.files if file.path != DATA_PACKAGE]
        intervals = made_intervals(look.root, manifest.run)
        stated = manifest.body.get("intervals")
        beside = (
            [] if intervals is None or stated is None else [ListedFile(**file) for file in intervals["files"]]
        )
        derived = data_package(
            look.root, manifest.body["plan"], manifest.run, manifest.warnings, [*files, *beside]
        )
        _require_same(
            read_json_object(look.root / DATA_PACKAGE, RESTORE), json.loads(json.dumps(derived)), DATA_PACKAGE
        )

    look.hold("datapackage.json describes these files", same)


def _claim_intervals(look: _Look) -> None:
    root, manifest = look.root, look.manifest
    if not (root / INTERVALS).exists():
        look.hold(
            "no intervals are stated, and there are none",
            lambda: require_fits(
                "intervals" not in manifest.body, "the manifest states intervals, and there are none"
            ),
            look.compared,
        )
        return
    from tallyveil.postprocess.verified import require_intervals

    def listed() -> None:
        content = made_intervals(root, manifest.run)
        require_fits(content is not None, f"{INTERVALS}/ has no {INTERVALS_MANIFEST}")
        files = [ListedFile(**file) for file in (content or {})["files"]]
        there = {path.relative_to(root).as_posix() for path in _entries(root / INTERVALS)}
        known = {file.path for file in files} | {
            f"{INTERVALS}/{name}" for name in (README, INTERVALS_MANIFEST)
        }
        require_fits(
            there == known,
            f"{_named(there ^ known)} lies beside what {INTERVALS_MANIFEST} lists, or is missing",
        )
        _hold_files(root, files)
        stated = manifest.body.get("intervals", {})
        digest = file_digest(root / INTERVALS / INTERVALS_MANIFEST)
        _require_same(stated.get("manifest_sha256"), digest, "intervals.manifest_sha256")
        _require_same(stated.get("columns"), list(BESIDE), "intervals.columns")
        _require_same(stated.get("level"), (content or {})["level"], "intervals.level")

    look.hold(
        "the files of intervals are those that their manifest lists, which the release names",
        listed,
        look.compared,
    )
    if _lacks(look, "whether intervals follow from the measurements", "measurements", "histogram"):
        return

    def follows() -> None:
        unknown = require_intervals(root, manifest, whole=look.whole)
        if unknown:
            look.unseen.append(f"intervals of {_named(unknown)}, whose members the release does not hold")

    part = "all of them" if look.whole else "all but the finest geolevel, and a part of that one"
    look.hold(
        f"estimates, standard errors and intervals follow from measurements and plan: {part}",
        follows,
    )


def _claim_page(look: _Look) -> None:
    """The page is the one that this version draws from the files of the release."""
    if not (look.root / REPORT).exists():
        look.unseen.append("the page: there is none")
        return
    drawn_from = "measurements" if look.manifest.kind is ReleaseKind.MEASUREMENTS else "histogram"
    if _lacks(look, "whether the page is drawn from these files", drawn_from):
        return

    def same() -> None:
        with _scratch(look.root) as copy:
            require_fits(
                _draws_the_page(copy, look.root, MANIFEST),
                f"{REPORT} is not the page that this version of Tallyveil draws of the release, which was made with "
                f"{', '.join(look.manifest.tallyveil)}, with its signature or without. `tallyveil report` draws it "
                "anew",
            )

    look.hold("the page is drawn from these files, byte by byte", same)


def _draws_the_page(copy: Path, root: Path, signed: str) -> bool:
    """Whether a page is drawn of its folder with the signature that is there now, or was before there was one."""
    if not (root / REPORT).is_file():
        return False
    page = (root / REPORT).read_bytes()
    (copy / REPORT).unlink()
    if write_page(copy).read_bytes() == page:
        return True
    remove(signature_path(copy / signed))
    return write_page(copy).read_bytes() == page


def _claim_estimate(look: _Look) -> None:
    """The counts follow from the measurements."""
    plan = look.manifest.body["plan"]
    if look.manifest.kind is ReleaseKind.MEASUREMENTS:
        return
    if _lacks(look, "whether the counts are the estimate from the measurements", "measurements", "histogram"):
        return
    if not look.whole or plan.get("measurements", "full") != "full":
        look.unseen.append(
            "whether the counts are the estimate from the measurements (--whole, where all are kept)"
        )
        return
    from tallyveil.postprocess.verified import require_estimated

    look.hold(
        "the counts are the estimate from the measurements",
        lambda: require_estimated(look.root, look.manifest),
    )


@contextmanager
def _scratch(root: Path) -> Iterator[Path]:
    """A folder of links to the files of another. Writers replace a file there, so the originals stay as they are."""
    with tempfile.TemporaryDirectory() as place:
        copy = Path(place) / "copy"
        # A pipe would be waited for, and is no part of a release.
        for path in root.rglob("*"):
            require_fits(path.is_file() or path.is_dir(), f"{path.name!a:.200} is no file")
        shutil.copytree(root, copy, copy_function=_linked)
        # The copy has the modes of a release that may be read-only.
        copy.chmod(0o700)
        yield copy


def _linked(source: str, target: str) -> None:
    """The same file under another name where the system allows it, else a copy: releases of states are large."""
    try:
        os.link(source, target)
    except OSError:  # another disk, or the file of another user
        shutil.copy2(source, target)


# ---- Releases of other products -------------------------------------------------------------------------------------


def _claim_table(look: _Look) -> None:
    """The guarantee, the noise and the sums of one table."""
    from tallyveil.products.lattice.public.verified import derived_table

    def table() -> None:
        # At once: where all is asked for, a chain is measured again, which may take minutes.
        privacy, left = derived_table(look.root, look.manifest, whole=look.whole)
        _require_privacy(look, privacy)
        if left:
            look.unseen.append(left)

    look.hold(
        "law, invariants and distance are those of the plan; the stated guarantee is not below what the event in the "
        "ledger has; plan and exact sums give the noise; the sums are those of the cells, in all their forms",
        table,
    )


def _claim_runs(look: _Look) -> None:
    """The guarantee, the plan and the tables of population groups."""
    from tallyveil.products.safetab.public.expected import EXPECTED
    from tallyveil.products.safetab.public.verified import require_tables

    def tables() -> None:
        derived = require_tables(look.root, look.manifest)
        _require_near(read_json(look.root / EXPECTED, RESTORE), derived, EXPECTED)

    look.hold(
        "the stated guarantee follows from the event in the ledger and the plan",
        lambda: _require_derived(look),
    )
    look.hold(
        "the plan gives the event of the ledger and the expected errors; every table adds up, has the labels of the "
        "plan, and is the same in all its forms",
        tables,
    )
    look.unseen += _UNSEEN_OF_RUNS[look.manifest.kind]


_UNSEEN_OF_RUNS: Final[Mapping[ReleaseKind, tuple[str, ...]]] = {
    ReleaseKind.SAFETAB: ("how many groups were measured, and in which regions",),
    ReleaseKind.HOUSEHOLDS: (
        "in how many groups a household can be: the plan states it without the iterations that it follows from",
        "which groups a published T1 lists, and the detail that it gives them",
    ),
    ReleaseKind.GROUPS: (),
}


_OF_MAIN_PRODUCT: Final = (
    _claim_plan,
    _claim_guarantee,
    _claim_spine,
    _claim_counts,
    _claim_measurements,
    _claim_package,
    _claim_intervals,
    _claim_estimate,
    _claim_page,
)
_OF_KIND: Final[Mapping[ReleaseKind, tuple[Callable[[_Look], None], ...]]] = {
    ReleaseKind.TOPDOWN: _OF_MAIN_PRODUCT,
    ReleaseKind.MEASUREMENTS: _OF_MAIN_PRODUCT,
    ReleaseKind.SAFETAB: (_claim_runs, _claim_page),
    ReleaseKind.HOUSEHOLDS: (_claim_runs, _claim_page),
    ReleaseKind.GROUPS: (_claim_runs, _claim_page),
    ReleaseKind.SUBSPACE: (_claim_table, _claim_page),
}
"""What a release says beyond `_CLAIMS`, by its product."""


# ---- What is made from releases -------------------------------------------------------------------------------------


def _programme(root: Path, _: Sequence[Path], whole: bool) -> Verdict:
    """The verdict on a programme: its releases, and what it says of them together."""
    from tallyveil.products.dhc.public.programme_file import stated_programme

    refuse_unfinished(root)
    content = stated_programme(root)
    look = _Parts(root)
    names = [release["name"] for release in content["releases"]]
    for name in names:
        verdict = _release(inside(root, name), (), whole)
        for lines, more in zip(
            (look.wrong, look.proved, look.compared, look.unseen),
            (verdict.wrong, verdict.proved, verdict.compared, verdict.not_looked_at),
            strict=True,
        ):
            lines += [f"{name}: {line}" for line in more]
    others = {path.name for path in root.iterdir()} - {*names, *_with_signatures(PROGRAMME, REPORT)}
    if others:
        look.wrong.append(f"{_named(others)} lies beside the releases of the programme")
    look.hold_if_right(
        "what the programme says of its releases together, and its page, follow from their ledgers",
        lambda: _require_remade_programme(root),
    )
    statement = content["guarantee"]["together"]["statement"]
    return look.verdict(f"a programme of {len(names)} releases", statement, PROGRAMME)


def _require_remade_programme(root: Path) -> None:
    from tallyveil.products.dhc.public.programme_file import rewritten_programme

    with _scratch(root) as copy:
        rewritten_programme(copy)
        remade = {
            PROGRAMME: (copy / PROGRAMME).read_bytes() == (root / PROGRAMME).read_bytes(),
            REPORT: _draws_the_page(copy, root, PROGRAMME),
        }
    for name, follows in remade.items():
        require_fits(follows, f"{name} is not what follows from the releases of the programme")


def _publication(root: Path, sources: Sequence[Path], whole: bool) -> Verdict:
    """The verdict on the tables that `publish` wrote, in any form."""
    content = read_json_object(root / PUBLICATION, "Publish the tables again.")
    look = _Parts(root)
    look.hold(
        "every file has the size and the SHA-256 that publication.json lists, and nothing lies beside them",
        lambda: _covered_publication(root, content),
        look.compared,
    )
    if not sources:
        look.unseen.append(
            "the guarantee, the marks and all numbers: neither ledgers nor counts are in a publication. Name its "
            "releases with --release"
        )
    for source in sources:
        look.hold(f"the release {source} holds", partial(_require_holds, source, whole))
    if sources:
        look.hold_if_right(
            "all files are those that follow from the releases, byte by byte",
            lambda: _require_remade(root, lambda out: _publish(content, sources, root, out)),
        )
    return look.verdict("a publication of tables", signed=PUBLICATION)


@dataclass(slots=True)
class _Parts(_Look):
    """What has been found out of something that has no manifest."""

    manifest: Any = None
    whole: bool = False


def _covered_publication(root: Path, content: JsonObject) -> None:
    files = content.get("files")
    require_fits(isinstance(files, list), f"{PUBLICATION} lists no files")
    try:
        listed = [ListedFile(file["path"], file["bytes"], file["sha256"]) for file in files or ()]
    except (KeyError, TypeError):
        raise StoreError(
            f"{PUBLICATION} lists a file without its path, bytes or sha256", code="release-damaged"
        ) from None
    there = {path.relative_to(root).as_posix() for path in _entries(root)}
    known = {file.path for file in listed} | {PUBLICATION}
    require_fits(
        there - {f"{PUBLICATION}{SUFFIX}"} == known,
        f"{_named(there ^ known)} lies beside what {PUBLICATION} lists, or is missing",
    )
    _hold_files(root, listed)


def _require_holds(source: Path, whole: bool) -> None:
    verdict = _release(source, (), whole)
    require_fits(verdict.holds, "; ".join(verdict.wrong))


def _publish(content: JsonObject, sources: Sequence[Path], root: Path, out: Path) -> None:
    """Publish the same tables once more."""
    from tallyveil.api.products import cubes_in
    from tallyveil.files.cubes.publication import FORMS, Wish, publish_cubes
    from tallyveil.files.whole_tables import publish_csv
    from tallyveil.products.dhc.tables.publication import publish_dhc
    from tallyveil.products.topdown.pl94.publication import publish_pl94

    csv = any(file["path"].endswith(".csv") for file in content["files"])
    if "form" in content:
        require_fits(content["form"] in FORMS, f"{PUBLICATION} names a form that there is none of")
        wish = held(root / PUBLICATION, content.get("asked"), Wish, "Publish the tables again.")
        publish_cubes(sources[0], *cubes_in(sources[0]), content["form"], out, wish)
    elif "zeros" in content:
        publish_csv(sources[0], out, zeros=content["zeros"] == "included")
    elif "microdata" in content:
        publish_dhc(sources, out, tables=content["tables"], microdata=bool(content["microdata"]), csv=csv)
    else:
        publish_pl94(sources[0], sources[1] if len(sources) > 1 else None, out, csv=csv)


def _require_remade(root: Path, make: Callable[[Path], object]) -> None:
    """Refuse a folder that is not the one that is made now."""
    with tempfile.TemporaryDirectory() as place:
        out = Path(place) / root.resolve().name
        make(out)
        ours, theirs = (
            {path.relative_to(top).as_posix(): path for path in _entries(top) if path.suffix != SUFFIX}
            for top in (root, out)
        )
        require_fits(
            ours.keys() == theirs.keys(), f"{_named(ours.keys() ^ theirs.keys())} is there once only"
        )
        for name, path in ours.items():
            require_fits(path.read_bytes() == theirs[name].read_bytes(), f"{name!a:.200} is not what follows")


def _site(root: Path, sources: Sequence[Path], whole: bool) -> Verdict:
    """The verdict on the site of an explorer."""
    from tallyveil.explore.files import EXPLORER, PARTS, TOP
    from tallyveil.explore.site import copy_program, remake_site

    look = _Parts(root)
    others = {path.name for path in root.iterdir()} - TOP

    def pages() -> None:
        require_fits(not others, f"{_named(others)} lies beside the parts of a site")
        with tempfile.TemporaryDirectory() as place:
            copy_program(root, Path(place))
            for part in (*PARTS, *EXPLORER):
                ours, theirs = (
                    {path.relative_to(top).as_posix(): path.read_bytes() for path in _files(top, part)}
                    for top in (root, Path(place))
                )
                wrong = {name for name in ours.keys() | theirs.keys() if ours.get(name) != theirs.get(name)}
                require_fits(
                    not wrong, f"{_named(wrong)} is not what this version of Tallyveil puts into a site"
                )

    look.hold("the program of the site is the one of this version of Tallyveil", pages)
    if not sources:
        look.unseen.append(
            "all data of the site: nothing in it says what they follow from. Name its release with --release"
        )
    for source in sources:
        look.hold(f"the release {source} holds", partial(_require_holds, source, whole))
    if sources:
        look.hold_if_right(
            "all files are those that follow from the releases, byte by byte",
            lambda: _require_remade(root, lambda out: remake_site(root, out, sources)),
        )
    return look.verdict("a site of an explorer", signed=SITE)


def _files(top: Path, part: str) -> list[Path]:
    place = top / part
    return [place] if place.is_file() else [path for path in place.rglob("*") if path.is_file()]


def _draws(root: Path, sources: Sequence[Path], whole: bool, public: Sequence[Path | None]) -> Verdict:
    """The verdict on draws of a release; `public` are the files of covariates and of an earlier census."""
    from tallyveil.postprocess.draws.job import stated_description

    if len(sources) > 1:
        raise ConfigError(
            f"{len(sources)} releases were named, and draws are of one. Name that one with --release.",
            code="bad-flag",
        )
    if any(public) and not sources:
        raise ConfigError(
            "Covariates and an earlier census were named, and no release, which says what areas they are of. Name it "
            "with --release.",
            code="bad-flag",
        )
    content, stated = stated_description(root)
    look = _Parts(root)
    look.hold(
        f"every draw has the SHA-256 that {DRAWS} lists, and nothing lies beside them",
        lambda: _covered_draws(root, stated),
        look.compared,
    )
    look.hold(
        f"the chains agree as far as the rule for draws asks, by the numbers in {DRAWS}",
        lambda: require_fits(stated.convergence.passed, "by these numbers, draws must not be taken"),
        look.compared,
    )
    if not sources:
        look.unseen.append(
            "whether the draws follow from a release, and keep its promises. Name their release with --release"
        )
    for source in sources:
        look.hold(f"the release {source} holds", partial(_require_holds, source, whole))
        if not look.wrong:
            _claim_draws(look, content, source, whole, public)
        else:
            look.unseen.append(
                f"whether the draws follow from the release, and keep its promises, {BECAUSE_WRONG}"
            )
    return look.verdict(f"{stated.number} draws of a release", signed=DRAWS)


def _covered_draws(root: Path, stated: "DrawsDescription") -> None:
    from tallyveil.postprocess.draws import job

    files = job.files_of(root, stated)
    known = {path.relative_to(root).as_posix() for path in files} | {DRAWS, job.README}
    there = {path.relative_to(root).as_posix() for path in _entries(root)} - {f"{DRAWS}{SUFFIX}"}
    require_fits(there == known, f"{_named(there ^ known)} lies beside what {DRAWS} lists, or is missing")
    for path, digest in zip(files, stated.files, strict=True):
        require_fits(file_digest(path) == digest, f"{path} does not have the SHA-256 that is listed")


def _claim_draws(
    look: _Look, content: JsonObject, source: Path, whole: bool, public: Sequence[Path | None]
) -> None:
    """What draws say of their release, of public files and of themselves."""
    from tallyveil.postprocess.draws import verified
    from tallyveil.postprocess.draws.model import on_given_geography
    from tallyveil.postprocess.intervals.model import open_release

    release = on_given_geography(open_release(source))
    look.hold(
        f"{DRAWS} names this release and has its marks, and its sentences and README.txt follow from its numbers",
        lambda: _require_near(content, _as_json(verified.derived_description(look.root, release)), DRAWS),
    )
    look.hold(
        "every draw is a table of whole counts: none is negative, no structural zero is filled, and invariants, bounds "
        "and agreements hold at its geolevel and those above",
        lambda: verified.require_tables(look.root, release),
    )

    def files() -> None:
        derived = _as_json(verified.derived_of_files(release, *public))
        _require_near({key: content[key] for key in derived}, derived, DRAWS)

    lacking = [
        flag
        for (flag, digest), file in zip(verified.PUBLIC_FILES.items(), public, strict=True)
        if content[digest] and file is None
    ]
    if lacking:
        look.unseen.append(f"what {DRAWS} says of public files. Name them with {' and '.join(lacking)}")
    else:
        look.hold(f"what {DRAWS} says of public files follows from them, or there are none", files)
    again = f"the draws, and all other numbers in {DRAWS}, are what release, seed and public files give"
    if look.wrong:
        look.unseen.append(f"whether {again}, {BECAUSE_WRONG}")
    elif lacking or not whole:
        look.unseen.append(f"whether {again} (--whole, which makes the draws again)")
    elif content["tallyveil"] != VERSION:
        look.unseen.append(
            f"whether {again}: they were made by Tallyveil {content['tallyveil']!a:.80}, and this is {VERSION}"
        )
    else:
        look.hold(
            again,
            lambda: _require_near(
                content, _as_json(verified.description_made_again(look.root, release, *public)), DRAWS
            ),
        )


def _as_json(content: Mapping[str, Any]) -> Any:
    """Plain data as a file has them."""
    return json.loads(json.dumps(content))


def _copy(address: Path, *, whole: bool) -> Verdict:
    """The verdict on a copy in an object store, which is fetched first."""
    from tallyveil.postprocess.exchange.copying import copy_release

    with tempfile.TemporaryDirectory() as place:
        out = Path(place) / "release"
        copied = copy_release(address, out)
        verdict = _release(out, (), whole)
    left = [f"{_named(copied.left_out)} lies beside the release"] if copied.left_out else []
    subject = f"{verdict.subject}, in an object store ({address_of(address)})"
    return Verdict(
        address,
        subject,
        "" if left else verdict.guarantee,
        verdict.signature,
        verdict.proved,
        verdict.compared,
        verdict.not_looked_at,
        (*verdict.wrong, *left),
    )


_SUBJECTS: Final[Mapping[str, Callable[[Path, Sequence[Path], bool], Verdict]]] = {
    MANIFEST: _release,
    PROGRAMME: _programme,
    PUBLICATION: _publication,
    SITE: _site,
}
"""What can be verified, by the file that its folder is known by."""
