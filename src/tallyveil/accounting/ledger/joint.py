"""Several runs on the same people, accounted for together from their ledgers."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from tallyveil.accounting.costs import delta_with_total_variation, rho_of, total_variation_of, translate
from tallyveil.accounting.events import (
    UNPROTECTED,
    Neighbours,
    NonPrivateEvent,
    PrivacyEvent,
    SequentialEvent,
    parts_of,
)
from tallyveil.accounting.filters import Filter, Odometer
from tallyveil.accounting.ledger.file import read_ledger
from tallyveil.accounting.ledger.lines import LEDGER, Declaration, LedgerEntry
from tallyveil.accounting.numbers import exact_text
from tallyveil.accounting.proved import ProvedEpsilon, proved_epsilon
from tallyveil.errors import BudgetError, StoreError
from tallyveil.storage.paths import real

if TYPE_CHECKING:
    from tallyveil.accounting.guarantee import Guarantee


@dataclass(frozen=True, slots=True)
class JointLedgers:
    """What several ledgers record together.

    Attributes:
        paths: The ledgers, in order.
        neighbours: The relation that the event is stated under.
        event: Everything that was done, one ledger after the other.
        non_private: Acts that no budget pays for, in words, each with the ledger that records it. If there are any, the
            people have no finite guarantee against a person who saw the results of these acts.
        unprotected: The acts among these after which nothing that the run published is protected.
        translated: The ledgers that are stated under unbounded neighbours, where others are stated under bounded ones.
    """

    paths: tuple[Path, ...]
    neighbours: Neighbours
    event: SequentialEvent
    non_private: tuple[str, ...]
    unprotected: tuple[str, ...]
    translated: tuple[Path, ...] = ()

    @property
    def paid(self) -> SequentialEvent:
        """What budgets paid for: everything except the non-private acts."""
        return SequentialEvent(tuple(part for part in self.event.events if not _is_non_private(part)))


def read_joint(
    ledgers: Iterable[Path], copied: Mapping[Path, int] | None = None, releases: Collection[Path] = ()
) -> JointLedgers:
    """Read ledgers of runs on the same people.

    If two copies of one ledger are given, its run counts twice. The result is then too large, never too small. Lines
    that a ledger is known to have copied from another ledger count once.

    A person who changes leaves one answer of a partition query and enters another. So a release of such queries has a
    cost under bounded neighbours also if its ledger is stated under unbounded ones. Where relations differ, the total
    is stated under bounded neighbours: the change of one person's record in all releases at once.

    Args:
        ledgers: Paths of the ledgers, or of the folders that hold them.
        copied: By one of these paths, how many lines at its beginning are copies. The others have none.
        releases: Those of these paths that are releases of Tallyveil, whose noise is on partition queries alone.

    Raises:
        StoreError: a ledger cannot be read, is corrupt, shows nothing, or is named twice; or there is none.
        BudgetError: two ledgers are stated under different relations, and one under unbounded neighbours is not among
            `releases`, or has noise on a lattice.
    """
    paths = tuple(map(_ledger_in, ledgers))
    if not paths:
        raise StoreError("there is no ledger to add up. Name the folders of at least one run.")
    # A link to a ledger is the same ledger, whose run would count twice.
    resolved = [real(path) for path in paths]
    for path, place in zip(paths, resolved, strict=True):
        if resolved.count(place) > 1:
            raise StoreError(f"the ledger {path} is named more than once. Name every run once.")
    known = {_ledger_in(path): lines for path, lines in (copied or {}).items()}
    contents = _without_repeated_copies(paths, [read_ledger(path) for path in paths], known)
    contents, translated = _under_one_relation(paths, contents, {_ledger_in(path) for path in releases})
    entries = [(path, entry) for path, (_, part) in zip(paths, contents, strict=True) for entry in part]
    looks = [
        (look, f"{entry.description} ({look.reason}; line {entry.sequence} of {path})")
        for path, entry in entries
        for look in _looks(entry.event)
    ]
    return JointLedgers(
        paths,
        contents[0][0].neighbours,
        SequentialEvent(tuple(entry.event for _, entry in entries)),
        tuple(words for _, words in looks),
        tuple(words for look, words in looks if look in UNPROTECTED),
        translated,
    )


_Content: TypeAlias = tuple[Declaration, tuple[LedgerEntry, ...]]


def _ledger_in(path: Path) -> Path:
    return path / LEDGER if path.is_dir() else path


def _under_one_relation(
    paths: Sequence[Path], contents: list[_Content], releases: Collection[Path]
) -> tuple[list[_Content], tuple[Path, ...]]:
    """The contents under the relation that all share, or under bounded neighbours; and what was translated for it."""
    relations = {declaration.neighbours: path for path, (declaration, _) in zip(paths, contents, strict=True)}
    if len(relations) == 1:
        return contents, ()
    stated = {
        path
        for path, (declaration, _) in zip(paths, contents, strict=True)
        if declaration.neighbours is Neighbours.UNBOUNDED
    }
    # Of other queries than partitions, nothing says what a change costs: rho under one relation and rho under the other
    # are then numbers of different promises.
    if not stated <= set(releases):
        shown = ", ".join(f"{path} under {relation.value}" for relation, path in relations.items())
        raise BudgetError(
            f"the ledgers are stated under different neighbours ({shown}), so their costs do not add up. Only finished "
            "releases, named by their folders, have a cost under both. Translate the events of one relation first "
            "(tallyveil.accounting.costs), or account for each relation separately."
        )
    return [
        (
            replace(declaration, neighbours=Neighbours.BOUNDED),
            tuple(
                replace(entry, event=translate(entry.event, declaration.neighbours, Neighbours.BOUNDED))
                for entry in part
            ),
        )
        for declaration, part in contents
    ], tuple(path for path in paths if path in stated)


def _without_repeated_copies(
    paths: Sequence[Path],
    contents: Sequence[_Content],
    copied: Mapping[Path, int],
) -> list[_Content]:
    """Ledgers without the lines they share with another: a copy counts only where what it is a copy of is not there."""
    for path, (_, part) in zip(paths, contents, strict=True):
        _require_an_entry(path, part)
    # Compared as bytes: only what was copied exactly may count once.
    data = {path: path.read_bytes().split(b"\n")[:-1] for path in paths}
    originals = [data[path] for path in paths if not copied.get(path)]
    counted: list[list[bytes]] = []
    copies = []
    for path, (declaration, part) in zip(paths, contents, strict=True):
        n = copied.get(path, 0)
        begin = data[path][:n]
        repeated = n > 0 and (begin in counted or any(lines[:n] == begin for lines in originals))
        # The first of the n lines is the declaration, which is no entry.
        copies.append((declaration, part[n - 1 :] if repeated else part))
        counted.append(begin)
    return copies


def _require_an_entry(path: Path, entries: Sequence[LedgerEntry]) -> None:
    """Refuse a ledger without entries: hashes do not show that the last lines were cut off."""
    # A run enters its spend first, so a ledger without entries has lost lines or belongs to no release.
    if not entries:
        raise StoreError(
            f"the ledger {path} declares a budget and shows no spend, so it cannot account for a release: a run "
            "enters its spend before it draws any noise. The last lines of the file may have been lost. Restore the "
            "file from a copy.",
            code="ledger-damaged",
        )


def runs_in(folder: Path) -> tuple[Path, ...]:
    """The ledgers of all runs directly in a folder, in the order of their names.

    Raises:
        StoreError: there is no such ledger.
    """
    ledgers = tuple(sorted(folder.glob(f"*/{LEDGER}")))
    if not ledgers:
        raise StoreError(
            f"{folder} holds no run with a {LEDGER}. Name the folder that contains the folders of the runs."
        )
    return ledgers


def published_guarantee(joint: JointLedgers) -> "Guarantee":
    """The exact guarantee of what several runs on the same people published together.

    It covers everything that budgets paid for. It does not cover the results of the acts in `joint.non_private`,
    such as an evaluation against the true counts: name these acts beside the guarantee wherever it is stated.

    Args:
        joint: The ledgers, from `read_joint`.

    Raises:
        BudgetError: a run used an insecure test key or added no noise, so that nothing it published is protected.
    """
    from tallyveil.accounting.guarantee import compose

    require_protection(joint)
    return compose(joint.paid, neighbours=joint.neighbours)


def published_epsilon(joint: JointLedgers, delta: Fraction) -> ProvedEpsilon:
    """The least epsilon that is proved of what several runs published together; it covers what the guarantee does.

    Args:
        joint: The ledgers, from `read_joint`.
        delta: Between 0 and 1, both excluded.

    Raises:
        BudgetError: nothing is protected, as for `published_guarantee`; a release leaves out what one record moves; or
            the delta is out of range.
    """
    require_protection(joint)
    return proved_epsilon(joint.paid, joint.neighbours, delta)


def odometer_of(joint: JointLedgers, delta: Fraction) -> Odometer:
    """What was lost by several runs if the results of earlier ones decided how much noise the later ones added.

    The guarantee (`published_epsilon`) is for noise that was fixed before the first run. An odometer holds in any case.

    Args:
        joint: The ledgers, from `read_joint`.
        delta: Between 0 and 1, both excluded.

    Raises:
        BudgetError: nothing is protected, or a release has no rho or a sampler that only comes close to its law.
    """
    require_protection(joint)
    odometer = Odometer(neighbours=joint.neighbours, delta=delta)
    odometer.spend(joint.paid)
    return odometer


def left_of(joint: JointLedgers, rho: Fraction) -> Fraction:
    """What is left of a budget in rho that was fixed in advance for all runs: their filter.

    However the runs were chosen, all of them together have the guarantee `ZCDP(rho)` (docs/proofs/filters.md, 1).

    Raises:
        BudgetError: the runs spent more (code `filter-spent`), or a release has no rho or a sampler that only comes
            close to its law.
    """
    require_protection(joint)
    budget = Filter(neighbours=joint.neighbours, rho=rho)
    try:
        budget.spend(joint.paid)
    except BudgetError as error:
        if error.code != "filter-spent":
            raise
        spent = rho_of(joint.paid, laplace_as_zcdp=True)
        raise BudgetError(
            f"the releases spent rho {exact_text(spent)}, and the budget for all of them is {exact_text(rho)}. Nothing "
            "more may be released from these records under this budget.",
            code=error.code,
        ) from None
    return budget.left[0]


def added_delta(joint: JointLedgers, epsilon: Fraction) -> float:
    """What is to be added to delta at an epsilon, rounded up: 0 if every sampler has the law that it draws from.

    Source: docs/proofs/integer-subspace.md, section 4.
    """
    # A chain that ends after finitely many steps has not quite the law that costs are computed for.
    variation = total_variation_of(joint.paid)
    return delta_with_total_variation(epsilon, Fraction(0), variation) if variation else 0.0


def require_protection(joint: JointLedgers) -> None:
    """Refuse ledgers of runs that protect nobody: runs with a test key, and tables without noise.

    Raises:
        BudgetError: names the acts.
    """
    # Other non-private acts do not change what was published; the caller names them.
    if joint.unprotected:
        raise BudgetError(
            "together these runs have no finite guarantee (epsilon is infinite), because these of their outputs are "
            f"not protected: {'; '.join(joint.unprotected)}. Leave such runs out of the total; they must not be "
            "published."
        )


def _is_non_private(event: PrivacyEvent) -> bool:
    return any(True for _ in _looks(event))


def _looks(event: PrivacyEvent) -> Iterable[NonPrivateEvent]:
    if isinstance(event, NonPrivateEvent):
        yield event
    for part in parts_of(event):
        yield from _looks(part)
