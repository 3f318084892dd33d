"""Read a programme file: releases of the same people that build on one another."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Final, Self, TypeVar

from pydantic import AfterValidator, Field, model_validator

from tallyveil.declared import Name
from tallyveil.errors import ConfigError, TallyveilError
from tallyveil.files.finished import PRIVATE
from tallyveil.plans.constraints import Agreement, Residents
from tallyveil.plans.from_toml.load import load_plan, parse_file
from tallyveil.plans.from_toml.tables import Table
from tallyveil.plans.release import ReleasePlan
from tallyveil.postprocess.other_releases import resident_levels, same_answers, their_query
from tallyveil.products.dhc.public.plan import PlannedRelease, ProgrammePlan
from tallyveil.schema.names import PlainName
from tallyveil.storage.paths import file_name, inside

Item = TypeVar("Item", Agreement, Residents)
MOST_RELEASES: Final = 100
"""Largest number of releases in a programme."""
_OF_WINDOWS: Final = re.compile(r"con|prn|aux|nul|(com|lpt)\d", re.IGNORECASE)
"""Names that no file can have on Windows."""
_LONGEST: Final = 60
"""Greatest length of the name of a release. A longer one would leave less room for the paths in its folder."""


def _folder_name(name: str) -> str:
    """The name of a release that is also the name of its folder, the same on every system; raises ValueError."""
    if file_name(name) != name or len(name) > _LONGEST:
        raise ValueError(
            f"{name!a:.80} names a folder. Wanted at most {_LONGEST} letters of English, digits, hyphens, underscores "
            "and spaces. Rename the release"
        )
    if name.casefold() == PRIVATE or _OF_WINDOWS.fullmatch(name):
        raise ValueError(f"{name!r} is reserved and cannot name the folder of a release. Rename the release")
    return name


class ProgrammeTable(Table):
    """[programme]: the name of the programme."""

    name: PlainName = Field(description="Name of the programme, shown in its report.")


class ProgrammeReleaseTable(Table):
    """[[releases]]: a release of the programme. The releases run in the order of the file."""

    name: Annotated[PlainName, AfterValidator(_folder_name)] = Field(
        description="Name of the release in the programme, and of its folder."
    )
    file: Name = Field(description="Its release file, relative to the programme file.")


class ProgrammeFile(Table):
    """A whole programme file."""

    programme: ProgrammeTable
    releases: list[ProgrammeReleaseTable] = Field(min_length=1, max_length=MOST_RELEASES)

    @model_validator(mode="after")
    def _names_differ(self) -> Self:
        # Some file systems do not tell capitals from small letters.
        names = [release.name.casefold() for release in self.releases]
        twice = [release.name for release in self.releases if names.count(release.name.casefold()) > 1]
        if twice:
            raise ValueError(
                f"releases are named twice: {', '.join(twice)}. Their folders would be one. Give each a name that "
                "differs in more than upper and lower case"
            )
        return self


def load_programme(path: Path, out: Path | None = None) -> ProgrammePlan:
    """Read a programme file and all its release files, and make their plans.

    Args:
        path: TOML file. Relative paths inside it start from its folder.
        out: Folder of the programme, in which each release will have a folder. It need not exist, and is not opened.
            None where no release will be made.
    Raises:
        StoreError: a file cannot be read.
        ConfigError: the programme file is wrong, or several of its release files are. If one release file is wrong,
            the error has the type and the code that the file by itself would give.
        SchemaError, BudgetError: of one release file; or the costs of the releases do not add up.
    """
    file = parse_file(path, ProgrammeFile)
    folders = {
        item.name: Path(item.name) if out is None else inside(out, item.name) for item in file.releases
    }
    planned: list[PlannedRelease] = []
    wrong: list[tuple[str, TallyveilError]] = []
    for place, item in enumerate(file.releases):
        earlier = {release.name: folders[release.name] for release in file.releases[:place]}
        try:
            release = path.parent / item.file
            planned.append(_planned(item.name, release, load_plan(release), earlier))
        except TallyveilError as error:
            # All release files are read before any error is reported, so that one call shows them all.
            wrong.append((f"release '{item.name}' ({item.file})", error))
    if wrong:
        raise _together(path, wrong)
    _refuse_other_labels(planned)
    return ProgrammePlan(file.programme.name, path, tuple(planned))


def _planned(name: str, file: Path, plan: ReleasePlan, earlier: Mapping[str, Path]) -> PlannedRelease:
    """A release whose agreements and residents of earlier releases have their folders; raises ConfigError."""
    tables = [("agreement", item.name, item.release_name) for item in plan.agreement if item.path is None]
    tables += [("residents", item.name, item.release_name) for item in plan.residents if item.path is None]
    unknown = [release for release in tables if release[2] not in earlier]
    if unknown:
        known = ", ".join(earlier) or "none, for this release is the first"
        table, wrong, release = unknown[0]
        raise ConfigError(
            f"[[{table}]] '{wrong}' has no path, and the programme has no earlier release '{release}'. Earlier "
            f"releases: {known}. Correct the name (or 'release'), change the order of the releases, or give the path "
            "of a finished release.",
            code="unknown-release",
        )
    whole = replace(
        plan,
        agreement=tuple(_located(item, earlier) for item in plan.agreement),
        residents=tuple(_located(item, earlier) for item in plan.residents),
    )
    # The plan that can be checked before earlier releases are there.
    alone = replace(
        plan,
        agreement=tuple(item for item in plan.agreement if item.path is not None),
        residents=tuple(item for item in plan.residents if item.path is not None),
    )
    reads = tuple(dict.fromkeys(read for *_, read in tables))
    return PlannedRelease(name, file, whole, alone, reads)


def _located(item: Item, earlier: Mapping[str, Path]) -> Item:
    """What a release reads, with the folder of an earlier release where it names no path."""
    return replace(item, path=earlier[item.release_name].absolute()) if item.path is None else item


def _refuse_other_labels(releases: Sequence[PlannedRelease]) -> None:
    """Refuse a release that reads labels which an earlier one does not have; raises ConstraintError, SchemaError."""
    schemas = {release.name: release.plan.schema for release in releases}
    for release in releases:
        try:
            for item in release.awaited_agreement:
                theirs = their_query(item, schemas[item.release_name])
                same_answers(item, release.plan.schema.query(item.query), theirs)
            for people in release.awaited_residents:
                resident_levels(people, schemas[people.release_name])
        except TallyveilError as error:
            raise type(error)(f"release '{release.name}': {error}", code=error.code) from error


def _together(path: Path, wrong: list[tuple[str, TallyveilError]]) -> TallyveilError:
    """One error for all release files that cannot be planned."""
    where, first = wrong[0]
    if len(wrong) == 1:
        return type(first)(f"{where} of the programme {path}: {first}", code=first.code)
    said = "\n".join(f"  {place}: {error}" for place, error in wrong)
    return ConfigError(
        f"{len(wrong)} releases of the programme {path} cannot be planned:\n{said}", code="programme-files"
    )
