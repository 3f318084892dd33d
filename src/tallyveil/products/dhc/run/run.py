"""Run a programme: one release after the other, all checked before the first, and what they cost together.

Everything that can be known to fail before the first spend fails then. After it, each release is an ordinary
run with a key, a ledger and a manifest of its own, and the folder of the programme may be left and taken up
again at any moment.

The private folder keeps which releases were begun, and on which inputs. A finished release no longer shows
which records it was made from. So the programme remembers it while it is unfinished: releases that are made
later must come from the records that were there when the programme began. The digests of the records are kept
as keyed hashes, with a key that is removed together with the file.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator, PlainSerializer

from tallyveil.accounting.events import PrivacyEvent
from tallyveil.accounting.ledger.book import read_book, require_room
from tallyveil.accounting.ledger.lines import event_from_mapping
from tallyveil.declared import Declared, Format1, Text, mapping_of
from tallyveil.errors import StoreError, TallyveilError
from tallyveil.files.finished import PRIVATE, PROGRAMME
from tallyveil.files.manifest_files import require_whole
from tallyveil.noise.key import KEY_BYTES, derive_key, new_run_key
from tallyveil.postprocess.intervals.job import PlannedIntervals
from tallyveil.primitives import require_aes256
from tallyveil.products.dhc.public.plan import PlannedRelease, ProgrammePlan, planned_total
from tallyveil.products.dhc.public.programme_file import (
    A_NEW_SPEND,
    ProgrammeRelease,
    is_current,
    read_programme,
    stated_programme,
    write_programme,
)
from tallyveil.products.dhc.run.inputs import CheckedRelease, Prefixed, check_inputs
from tallyveil.products.topdown.run.before_spend import inputs_of
from tallyveil.products.topdown.run.run import TopDownProduct, run_release
from tallyveil.runs.executors import Where, executors_of
from tallyveil.runs.folder import FolderState, RunFolder, folder_state
from tallyveil.runs.observer import Observer
from tallyveil.runs.once import finished_before, ledger_entries, named_in_a_book
from tallyveil.runs.product import Asked, Outcome
from tallyveil.storage.json_files import JsonObject, parsed
from tallyveil.storage.outputs import refuse_inputs
from tallyveil.storage.paths import inside


def _key(text: object) -> bytes:
    key = bytes.fromhex(text) if isinstance(text, str) else b""
    if len(key) != KEY_BYTES:
        raise ValueError("wanted the 32 bytes of a key, as hexadecimal digits")
    return key


@dataclass(frozen=True, slots=True)
class Waiting(Declared):
    """A release that is not begun: the digest of its plan, and the keyed hash of its inputs."""

    plan: Text
    inputs: Text


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgrammeState(Declared):
    """The content of the file.

    Attributes:
        key: 32 bytes from the operating system, for the hashes. Confidential.
        test_key: Keyed hash of the insecure test key; None for a programme whose releases have keys of their own.
        begun: Digest of the plan of each release that was begun, by its name. If its folder is still empty, it has
            spent nothing, and counts as not begun.
        waiting: The releases that had not been begun when the inputs were checked.
    """

    format: Format1 = 1
    key: Annotated[bytes, BeforeValidator(_key), PlainSerializer(bytes.hex)] = field(repr=False)
    test_key: Text | None
    begun: dict[str, Text]
    waiting: dict[str, Waiting] = field(repr=False)

    def hashed(self, digest: bytes) -> str:
        """Keyed hash of a confidential digest."""
        return derive_key(self.key, "programme", digest).hex()

    def with_waiting(self, releases: Mapping[str, tuple[PlannedRelease, CheckedRelease]]) -> "ProgrammeState":
        """The same with these releases waiting."""
        waiting = {
            name: Waiting(release.plan.digest().hex(), self.hashed(checked.digest))
            for name, (release, checked) in releases.items()
        }
        return replace(self, waiting=waiting)

    def with_begun(self, release: PlannedRelease) -> "ProgrammeState":
        """The same with one more release begun."""
        # Written before the release begins. Killed in between, its folder is empty, and it counts as not begun.
        return replace(self, begun={**self.begun, release.name: release.plan.digest().hex()})

    def write(self, folder: RunFolder) -> None:
        """Write the file; on return it is on disk. Raises StoreError."""
        folder.write(PROGRAMME, json.dumps(mapping_of(self), indent=2).encode())


def new_state(test_key: bytes | None, begun: Mapping[str, str]) -> ProgrammeState:
    """What a programme keeps that begins.

    Args:
        test_key: Key for tests, or None.
        begun: Releases that the folder holds from an earlier, shorter programme, with the digests of their plans.
    """
    state = ProgrammeState(key=new_run_key(), test_key=None, begun=dict(begun), waiting={})
    return state if test_key is None else replace(state, test_key=state.hashed(test_key))


def read_state(folder: RunFolder) -> ProgrammeState | None:
    """What an unfinished programme has kept; None where there is none.

    Raises:
        StoreError: the file is damaged.
    """
    data = folder.read(PROGRAMME)
    if data is None:
        return None
    state = parsed(data, ProgrammeState)
    if state is None:
        raise StoreError(
            f"{folder.private / PROGRAMME} is damaged, so it is not known which releases of the programme were begun, "
            "and on which records. Restore the file from a copy: a new folder would draw new noise, which is a new "
            "spend. The finished releases in the folder are whole, and each can be used by itself. Nothing was spent.",
            code="run-damaged",
        )
    return state


def require_same_key(state: ProgrammeState, test_key: bytes | None, where: str) -> None:
    """Refuse to go on with another key: some releases would be protected, and others would not.

    Raises:
        StoreError: the programme was begun with an insecure test key and goes on without it, or the other way round.
    """
    # Compared by its keyed hash: the file need not hold the key itself.
    given = None if test_key is None else state.hashed(test_key)
    if given != state.test_key:
        raise StoreError(
            f"the programme in {where} was begun {_with(state.test_key)}, and this command was given {_given(given)}. "
            "Its releases must be of one kind. Go on as it was begun, or choose another folder, which is a new spend.",
            code="resume-key",
        )


def _with(key: str | None) -> str:
    return "with keys from the operating system" if key is None else "with an insecure test key"


def _given(key: str | None) -> str:
    return "no test key" if key is None else "an insecure test key that is not the same"


def require_same_inputs(
    state: ProgrammeState, release: PlannedRelease, checked: CheckedRelease, where: str
) -> None:
    """Refuse to begin a release on other inputs than it was checked with when the programme began.

    A release whose plan has changed since may have others: it was never begun.

    Raises:
        StoreError: the inputs have changed.
    """
    waiting = state.waiting.get(release.name)
    # Nothing was spent for it, so its plan and its inputs may change together.
    if waiting is None or waiting.plan != release.plan.digest().hex():
        return
    if waiting.inputs != state.hashed(checked.digest):
        raise StoreError(
            f"release '{release.name}' of the programme in {where} had other records, bounds or another geography when "
            "the programme began. Releases that were made before would not be of the same people. Restore what it "
            "began with, or choose another folder, which is a new spend. Nothing was spent.",
            code="resume-changed",
        )


Finished = Callable[[str, Outcome], object]
"""What is done with each release once it is finished: its name in the programme, and what its run left."""


@dataclass(frozen=True, slots=True)
class ProgrammeOutcome:
    """What a programme left behind.

    Attributes:
        path: Its folder.
        content: Content of `programme.json`.
        releases: What the run of each release left, by its name.
        already_finished: Whether the folder held all releases before.
        stated_anew: Whether `programme.json` was written. For finished releases this is done where later work, such as
            intervals, has added to their manifests.
    """

    path: Path
    content: JsonObject
    releases: dict[str, Outcome]
    already_finished: bool
    stated_anew: bool


@dataclass(frozen=True, slots=True)
class ProgrammeSettings:
    """How the releases of a programme are run; none of this changes a published count, but for a test key.

    Attributes:
        test_key: Key for tests, which protects nobody; None for keys from the operating system.
        observer: Told of progress.
        workers: Number of threads, or of worker processes; None for one for each core.
        finished: What is done with each release once it is finished.
        where: Which cluster does the work; None for what each release file says.
        book: The book of the register, into which each release is entered; None for none.
    """

    test_key: bytes | None
    observer: Observer
    workers: int | None
    finished: Finished
    where: Where = None
    book: Path | None = None


def run_programme(plan: ProgrammePlan, out: Path, settings: ProgrammeSettings) -> ProgrammeOutcome:
    """Make all releases of a programme, or go on with a programme that was interrupted.

    Args:
        plan: Its plan, made for this folder.
        out: Folder of the programme; absent, empty, or holding releases of this programme.
        settings: How its releases are run.
    Raises:
        TallyveilError: before the first spend, where an input or the folder is wrong; later, where a release fails. The
            message then names the release and those that are finished.
    Privacy: spends what each plan spends, once, however often the programme is interrupted and taken up again.
    """
    _refuse_folder(plan, out)
    # A finished programme needs no lock. With a private folder, a run may be going on or was interrupted.
    done = None if (out / PRIVATE).exists() else _finished_programme(plan, out, settings)
    if done is not None:
        return done
    require_aes256()
    # The folder is looked at again under the lock: another process may have finished it meanwhile.
    with RunFolder(out) as folder:
        done = _finished_programme(plan, out, settings)
        if done is None:
            programme = _Programme(plan, folder, settings)
            content = programme.run()
            done = ProgrammeOutcome(
                out, content, programme.outcomes, already_finished=False, stated_anew=True
            )
        # programme.json is complete by now. Killed before this line, the next call removes what is left.
        folder.remove_private()
    return done


def _refuse_folder(plan: ProgrammePlan, out: Path) -> None:
    """Refuse a folder with an input in it, or with something else than a programme; raises StoreError."""
    files = [plan.file, *(release.file for release in plan.releases)]
    files += [path for release in plan.releases for path in inputs_of(release.alone)]
    refuse_inputs(out, files)
    state = folder_state(out)
    if state in (FolderState.ABSENT, FolderState.PROGRAMME):
        return
    begun = [
        release.name
        for release in plan.releases
        if folder_state(inside(out, release.name)) is not FolderState.ABSENT
    ]
    # Folders that look like ours without the list of what was begun: guessing could spend a second time.
    if state is FolderState.FOREIGN and begun:
        raise StoreError(
            f"{out} has folders of releases of this programme ({', '.join(begun)}), and no {PROGRAMME}, which says "
            f"what the programme has made; while a programme is unfinished, this is {PRIVATE}/{PROGRAMME}. If the file "
            f"was lost, restore it from a copy, and give the same command again. {A_NEW_SPEND} If the folders are of "
            "something else, choose an empty folder with --out. Nothing was spent.",
            code="folder-taken",
        )
    raise StoreError(
        f"{out} holds {state.value}, and no programme that this command began. A programme keeps its releases in a "
        "folder of its own. Choose a new or empty folder with --out.",
        code="folder-taken",
    )


def _finished_programme(
    plan: ProgrammePlan, out: Path, settings: ProgrammeSettings
) -> ProgrammeOutcome | None:
    """The programme that a folder holds, finished, of this very plan; None where there is work to do."""
    if not (out / PROGRAMME).is_file() or (out / PRIVATE / PROGRAMME).exists():
        return None
    content = stated_programme(out)
    if content["plan_digest"] != plan.digest().hex():
        return None
    outcomes = {release.name: _finished_release(release, out, settings) for release in plan.releases}
    missing = [name for name, outcome in outcomes.items() if outcome is None]
    if missing:
        raise StoreError(
            f"{out / PROGRAMME} says that the programme is finished, and the folder of release '{missing[0]}' holds no "
            "finished release. Restore it from a copy: making it again would be a new spend.",
            code="release-damaged",
        )
    finished = {name: outcome for name, outcome in outcomes.items() if outcome is not None}
    content = read_programme(out)
    # Manifests may have grown since; the total must be that of the manifests.
    anew = not is_current(out, content)
    if anew:
        content = _state(plan, out, finished)
    return ProgrammeOutcome(out, content, finished, already_finished=True, stated_anew=anew)


def _finished_release(release: PlannedRelease, out: Path, settings: ProgrammeSettings) -> Outcome | None:
    """The finished release of this plan in its folder; None where there is work to do; raises StoreError."""
    last = PlannedIntervals(release.plan.intervals, None, settings.observer, settings.workers)
    return finished_before(inside(out, release.name), Asked(release.plan.digest().hex(), last))


def _state(plan: ProgrammePlan, out: Path, outcomes: dict[str, Outcome]) -> JsonObject:
    """Write what the folder says of its releases."""
    parts = [
        ProgrammeRelease(release.name, release.reads, outcomes[release.name].manifest)
        for release in plan.releases
    ]
    return write_programme(out, plan.name, plan.digest().hex(), parts)


class _Programme:
    """The work of one process on a programme whose folder it holds."""

    def __init__(self, plan: ProgrammePlan, folder: RunFolder, settings: ProgrammeSettings) -> None:
        self.plan, self.folder, self.settings = plan, folder, settings
        self.out = folder.path
        self.outcomes: dict[str, Outcome] = {}

    def run(self) -> JsonObject:
        """Check everything, make the releases that are not finished, and state what they cost together."""
        fresh = folder_state(self.out) is FolderState.ABSENT
        try:
            state, checked = self._begin()
        except TallyveilError:
            # Only what this process made is removed; a folder that was there stays as it was.
            if fresh:
                self.folder.abandon()
            raise
        for release in self.plan.releases:
            if release.name not in self.outcomes:
                state = self._make(release, state, checked[release.name])
            self.settings.finished(release.name, self.outcomes[release.name])
        return _state(self.plan, self.out, self.outcomes)

    def _begin(self) -> tuple[ProgrammeState, dict[str, CheckedRelease]]:
        """Check what is in the folder, and every input of the releases that are not finished; nothing is spent."""
        state = self._stored_state()
        # A release that was refused or killed before its spend may still get another plan.
        spent = {name: digest for name, digest in state.begun.items() if not self._is_empty(name)}
        state = replace(state, begun=spent)
        self._refuse_other_plans(state)
        for release in self.plan.releases:
            if release.name in state.begun:
                outcome = _finished_release(release, self.out, self.settings)
                if outcome is not None:
                    # A finished release is read by later ones: every file is held to its manifest before they do.
                    require_whole(outcome.path, outcome.manifest)
                    self.outcomes[release.name] = outcome
            else:
                self._refuse_taken(release)
        waiting = [release for release in self.plan.releases if release.name not in self.outcomes]
        protected = self.settings.test_key is None
        if self.settings.book is not None and protected:
            # All of them at once: a programme whose last release the book refuses would have spent for nothing.
            held = read_book(self.settings.book)
            entered = {entry.description for entry in held.entries}
            spends = [
                (TopDownProduct(release.plan, protected).spend(), inside(self.out, release.name))
                for release in waiting
                if not ledger_entries(inside(self.out, release.name), draws=True)
            ]
            # A release that was killed between its entry and its ledger goes on under the name of its entry.
            require_room(
                self.settings.book,
                [spend for spend, out in spends if named_in_a_book(spend.description, out) not in entered],
            )
        checked = check_inputs(waiting, self.out, self.settings.observer, protected=protected)
        for release in waiting:
            require_same_inputs(state, release, checked[release.name], str(self.out))
        # Computed for its errors: a total that cannot be stated must fail before the first spend.
        planned_total(self.plan, [self._event(release.name, checked) for release in self.plan.releases])
        others = {
            release.name: (release, checked[release.name])
            for release in waiting
            if release.name not in state.begun
        }
        state = state.with_waiting(others)
        state.write(self.folder)
        return state, checked

    def _stored_state(self) -> ProgrammeState:
        """What the programme has kept so far, or what it keeps from now on."""
        state, key = read_state(self.folder), self.settings.test_key
        if state is not None:
            require_same_key(state, key, str(self.out))
            return state
        if not (self.out / PROGRAMME).is_file():
            return new_state(key, {})
        content = read_programme(self.out)
        if content["protected"] != (key is None):
            raise StoreError(
                f"the finished releases in {self.out} were made {'without' if content['protected'] else 'with'} an "
                "insecure test key, so the others must be, too. Choose another folder for releases of another kind.",
                code="resume-key",
            )
        return new_state(key, {release["name"]: release["plan_digest"] for release in content["releases"]})

    def _refuse_other_plans(self, state: ProgrammeState) -> None:
        """Refuse to change or leave out a release that was begun; raises StoreError."""
        plans = {release.name: release.plan.digest().hex() for release in self.plan.releases}
        for name, digest in state.begun.items():
            if plans.get(name) != digest:
                changed = "has another plan now" if name in plans else "is not in the file any more"
                raise StoreError(
                    f"the programme in {self.out} began release {name!a}, which {changed}. Restore the file as it was: "
                    "releases that have not spent may still be changed. Or choose another folder, which is a new "
                    "spend. Nothing was spent.",
                    code="resume-changed",
                )

    def _refuse_taken(self, release: PlannedRelease) -> None:
        """Refuse the folder of a release that this programme did not begin, if it holds anything; raises StoreError."""
        if not self._is_empty(release.name):
            raise StoreError(
                f"{self.out / release.name} is not empty, and this programme has not begun its release "
                f"'{release.name}'. If {PRIVATE}/{PROGRAMME} was lost or is an earlier one, restore it from a copy. "
                f"{A_NEW_SPEND} If what is there is of other people or of another programme, move it away, or choose "
                "an empty folder with --out. Nothing was spent.",
                code="folder-taken",
            )

    def _is_empty(self, name: str) -> bool:
        """Whether the folder of a release holds nothing, so that nothing was spent for it."""
        return folder_state(inside(self.out, name)) is FolderState.ABSENT

    def _event(self, name: str, checked: dict[str, CheckedRelease]) -> PrivacyEvent:
        if name in checked:
            return checked[name].event
        return event_from_mapping(self.outcomes[name].manifest.event)

    def _make(
        self, release: PlannedRelease, state: ProgrammeState, checked: CheckedRelease
    ) -> ProgrammeState:
        """Make a release, or go on with it; returns what the programme keeps from now on."""
        try:
            if release.name not in state.begun:
                self._refuse_taken(release)
                state = state.with_begun(release)
                state.write(self.folder)
            place, settings = inside(self.out, release.name), self.settings
            self.outcomes[release.name] = run_release(
                release.plan,
                place,
                test_key=settings.test_key,
                observer=Prefixed(settings.observer, f"{release.name}: ", checked.warnings),
                workers=settings.workers,
                executors=executors_of(
                    settings.where, release.plan.cluster, settings.workers, settings.observer
                ),
                book=settings.book,
            )
        except TallyveilError as error:
            # The type and the code of the error stay, so that scripts see what they would see for one release.
            raise type(error)(self._stopped(release, error), code=error.code) from error
        return state

    def _stopped(self, release: PlannedRelease, error: TallyveilError) -> str:
        """Which release failed, why, which ones are finished, and how to go on."""
        names = [release.name for release in self.plan.releases]
        finished = ", ".join(name for name in names if name in self.outcomes) or "none"
        waiting = ", ".join(names[names.index(release.name) + 1 :]) or "none"
        return (
            f"release '{release.name}' of the programme failed: {error}\nFinished and kept: {finished}. Not begun: "
            f"{waiting}. Mend the cause, then give the same command again: it goes on with '{release.name}' and spends "
            "nothing twice."
        )
