"""The inputs of a programme's releases, read and checked before the first of them spends.

An observer is told each stage with the name of its release.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np

from tallyveil.accounting.events import PrivacyEvent
from tallyveil.arrays import Bools, Integers
from tallyveil.errors import ConstraintError, GeographyError, StoreError, TallyveilError
from tallyveil.geography.spine import Spine
from tallyveil.plans.constraints import Levels, Residents
from tallyveil.plans.release import ReleasePlan
from tallyveil.plans.resources import free_disk, predict, sizes_of_spine
from tallyveil.postprocess.passes.exact_groups import geounits_without_part, geounits_without_people
from tallyveil.products.dhc.public.plan import PlannedRelease
from tallyveil.products.topdown.run.before_spend import refuse_folder, refuse_many_people
from tallyveil.products.topdown.run.preparation import Inputs, Prepared, prepare, read_inputs
from tallyveil.runs.key_file import binding_of
from tallyveil.runs.observer import Observer, Stopwatch


class Prefixed:
    """Hands everything on to an observer, with the same words before each stage and each warning.

    Attributes:
        heard: Warnings that were handed on already, and are not handed on again.
    """

    def __init__(self, observer: Observer, words: str, heard: set[str]) -> None:
        self._observer, self._words, self.heard = observer, words, heard

    def stage_started(self, stage: str, total: int) -> None:
        """Hand on that a stage begins."""
        self._observer.stage_started(self._words + stage, total)

    def advanced(self, amount: int) -> None:
        """Hand on how far the stage has come."""
        self._observer.advanced(amount)

    def stage_finished(self, stage: str, seconds: float) -> None:
        """Hand on that the stage has ended."""
        self._observer.stage_finished(self._words + stage, seconds)

    def warned(self, message: str) -> None:
        """Hand on a warning, once."""
        if message not in self.heard:
            self.heard.add(message)
            self._observer.warned(self._words + message)


_AT_ONCE: Final = 1 << 20
"""Geocodes that are joined to one text at a time, about 16 MiB. It does not change the digest."""


@dataclass(frozen=True, slots=True)
class CheckedRelease:
    """A release whose own inputs were read and checked.

    Attributes:
        event: What it will do to privacy, on its spine.
        warnings: What the observer was warned of.
        disk: Predicted size of its folder, in bytes.
        finest: Digest of the geocodes of its finest geounits.
        empty: For the people whom a later release takes as residents: whether the constraints of this release keep them
            out of each finest geounit, in the order of geocodes.
        digest: Digest of its records, its geography and its constraints. Confidential.
    """

    event: PrivacyEvent
    warnings: set[str]
    disk: int
    finest: bytes
    empty: dict[Levels, Bools]
    digest: bytes = field(repr=False)


def check_inputs(
    releases: Sequence[PlannedRelease], out: Path, observer: Observer, *, protected: bool
) -> dict[str, CheckedRelease]:
    """Read and check what releases will read, as far as it is there; nothing is written.

    What a release reads of earlier releases of the programme is there only when these are finished. It is checked when
    it is the turn of the release.

    Args:
        releases: Those that are not finished.
        out: Folder of the programme.
        observer: Told of progress.
        protected: Whether the releases shall protect people: no test key was given.
    Returns:
        What was found, by the name of the release.
    Raises:
        TallyveilError: an input breaks its rules, or the disk is too small. The message names the release.
    """
    checked: dict[str, CheckedRelease] = {}
    for release in releases:
        asked = [
            item
            for later in releases
            for item in later.awaited_residents
            if item.name == release.name and item.adults
        ]
        # Warnings are remembered for each release, so that its run does not repeat them after the check.
        told = Prefixed(observer, f"check {release.name}: ", set())
        try:
            checked[release.name] = _checked(
                release, asked, checked, out / release.name, told, protected=protected
            )
        except TallyveilError as error:
            raise type(error)(f"release '{release.name}': {error}", code=error.code) from error
    _refuse_other_geounits(releases, checked)
    _refuse_small_disk(out, sum(release.disk for release in checked.values()))
    return checked


def _checked(
    release: PlannedRelease,
    asked: Sequence[Residents],
    earlier: Mapping[str, CheckedRelease],
    out: Path,
    observer: Prefixed,
    *,
    protected: bool,
) -> CheckedRelease:
    """Read and check one release.

    Args:
        release: The release.
        asked: The residents of later releases who are people of this one.
        earlier: What was found of earlier releases.
        out: Its folder.
        observer: Told of progress.
        protected: Whether it shall protect people.
    """
    plan, watch = release.alone, Stopwatch(observer)
    refuse_folder(plan, out)
    promised, awaited = release.awaited_agreement, release.awaited_residents
    inputs = read_inputs(plan, observer, watch, promised, protected=protected)
    prepared = prepare(plan, inputs, watch, [*promised, *awaited])
    spine = inputs.public.hierarchies.spine
    refuse_many_people(plan, spine, out, inputs.histograms[0].total)
    # By geocode: releases may have different trees above the same blocks.
    order = spine.geocodes[-1].text.arg_sort().to_numpy()
    people = [item for item in awaited if item.adults]  # those whose units the release finds
    # With an agreement, the number of units comes from the earlier release and is not known yet.
    if people and not promised:
        _refuse_people_without_units(people, earlier, plan, inputs, prepared, order)
    constraints = [table.digest() for table in prepared.constraints]
    return CheckedRelease(
        event=plan.event(inputs.public.allocation.event()),
        warnings=observer.heard,
        disk=predict(plan, sizes_of_spine(spine)).disk,
        finest=_finest(spine),
        empty={
            item.people: geounits_without_people(item, plan.schema, prepared.constraints, spine)[order]
            for item in asked
        },
        digest=binding_of(
            inputs.records_digest, spine.digest(), *constraints, *inputs.counts_of_others.digests()
        ),
    )


def _refuse_people_without_units(
    people: Sequence[Residents],
    earlier: Mapping[str, CheckedRelease],
    plan: ReleasePlan,
    inputs: Inputs,
    prepared: Prepared,
    order: Integers,
) -> None:
    """Refuse residents whom the bounds of their release do not keep out of geounits without units.

    Raises:
        ConstraintError: there are such residents.
    """
    agreed, spine = inputs.counts_of_others.agreed, inputs.public.hierarchies.spine
    bare = geounits_without_part(plan, prepared.constraints, agreed, spine)[order]
    for item in people:
        known = earlier.get(item.name)
        if known is None or len(known.empty[item.people]) != len(bare):
            continue  # finished already, or of another geography, which is refused
        wrong = np.flatnonzero(bare & ~known.empty[item.people])
        if len(wrong):
            geocode = spine.geocodes[-1].text[int(order[wrong[0]])]
            raise ConstraintError(
                f"[[residents]] '{item.name}': {len(wrong):,} {spine.geolevels[-1]} geounits, such as '{geocode}', "
                f"have no record that can belong to '{plan.outer[0].part}', and the bounds of release '{item.name}' "
                "allow people there. Give that release [[bounds]] on these people, with the upper bound 0 in geounits "
                "without units. Nothing was spent.",
                code="people-without-units",
            )


def _finest(spine: Spine) -> bytes:
    """SHA-256 of the geocodes of the finest geounits, in an order that does not depend on the tree above them."""
    # Hashed in pieces, each geocode ended by a zero byte, so that no two lists give the same bytes.
    digest, text = hashlib.sha256(), spine.geocodes[-1].text.sort()
    for start in range(0, len(text), _AT_ONCE):
        digest.update((text.slice(start, _AT_ONCE).str.join("\0").item() + "\0").encode())
    return digest.digest()


def _refuse_other_geounits(releases: Sequence[PlannedRelease], checked: dict[str, CheckedRelease]) -> None:
    """Refuse a release that reads another one whose finest geounits are others; raises GeographyError."""
    for release in releases:
        for name in release.reads:
            if name in checked and checked[name].finest != checked[release.name].finest:
                raise GeographyError(
                    f"release '{release.name}' reads release '{name}' of the same programme, and their geography "
                    "tables have different finest geounits. Give both the same [geography] path. Nothing was spent."
                )


def _refuse_small_disk(out: Path, wanted: int) -> None:
    """Refuse a disk that is too small for all releases together; raises StoreError."""
    free = free_disk(out)
    if free < wanted:
        raise StoreError(
            f"the disk on which {out} would be written has {free >> 20} MiB free, and the unfinished releases of the "
            f"programme together need about {wanted >> 20} MiB. Free some space, or choose another disk with --out. "
            "Nothing was spent for them.",
            code="disk-full",
        )
