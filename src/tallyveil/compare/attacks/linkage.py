"""Attack (e): names for rebuilt records, from a file with names such as companies sell.

The file has the finest geounit of each person and all attributes but the sensitive one. Of its entries some name a
neighbouring geounit, and some have another value of what is known; nobody knows which. For each entry the attacker
looks up the rebuilt records of its geounit with the same values, and takes their commonest sensitive level for the
person's. A guess is *confirmed* if it is right.
"""

from collections.abc import Sequence
from typing import ClassVar, Final

import numpy as np

from tallyveil.arrays import Bools, Floats, Integers
from tallyveil.compare.attacks.attack import Attack, Finding, Targets, share
from tallyveil.compare.attacks.reconstruction import CELLS_TOGETHER, chosen_geounits, sources
from tallyveil.compare.published import Published

WRONG: Final = 0.05
"""Share of entries with the wrong geounit, and share with a wrong value of what is known. Files that are sold are worse
in some places and better in others; at twice this share about twice as many matches are lost."""


class Linkage(Attack):
    """Who puts names to rebuilt records."""

    name: ClassVar[str] = "names for records"
    letter: ClassVar[str] = "e"
    who: ClassVar[str] = (
        "Has a file of people with names, geounits and all attributes but one, in which 1 geounit in 20 and 1 known "
        "value in 20 are wrong, and the records that attack (d) rebuilt. Rare is who is alone of a kind in a geounit "
        "and not of the commonest level around."
    )
    prior: ClassVar[str] = "the commonest level around, which is never right for these people"
    bounded: ClassVar[str] = (
        "As for (d): none for a share of people; for one person 1 − β(κ), which is not computed here."
    )
    reading: ClassVar[str] = (
        "His records are those of (d), with all that (d) leaves out. Read how many of the rare are confirmed beside "
        "how many of his surprising names are right, and how many of all people he confirms beside the share that "
        "needs no tables."
    )
    headline: ClassVar[str] = "rare people confirmed"
    must: ClassVar[float] = 0.7

    def number_at_risk(self, targets: Targets) -> int:
        """As in `Attack`."""
        return int(_rare(targets).sum())

    def run(self, targets: Targets, published: Published, tossed: Published | None) -> Sequence[Finding]:
        """As in `Attack`."""
        shared = targets.shared
        if shared.schema.size > CELLS_TOGETHER:
            return [Finding(self.name, self.headline, None, None, None, 0)]
        # Elsewhere there is nobody to be found out.
        geounits = chosen_geounits(targets, np.asarray(_rare(targets).any(axis=1)))
        if not geounits.size:
            return [Finding(self.name, self.headline, None, None, None, 0)]
        generator = targets.draws.generator("linkage")
        rows, classes, levels = np.nonzero(targets.by_class[geounits])
        times = targets.by_class[geounits][rows, classes, levels]
        rows, classes, levels = (np.repeat(values, times) for values in (rows, classes, levels))
        alone = targets.by_class[geounits].sum(axis=2)[rows, classes] == 1
        usual = targets.background[geounits].argmax(axis=2)[rows, classes]
        number = rows.size
        # A wrong geounit is another one of those that are looked at, as good as any that has nobody of this name.
        listed = np.where(
            generator.random(number) < WRONG, generator.integers(geounits.size, size=number), rows
        )
        kinds = targets.cells.shape[0]
        known = np.where(generator.random(number) < WRONG, generator.integers(kinds, size=number), classes)
        rare = alone & (usual != levels)
        ties = targets.background[geounits]
        findings = []
        for source, files in sources(targets, published, (tossed or published).law, geounits):
            matched, guess = linked(files[:, targets.cells], ties, listed, known)
            right = matched & (guess == levels)
            claimed = matched & (guess != ties.argmax(axis=2)[listed, known])
            findings += [
                share(
                    self.name, f"{self.headline} {source}", int(right[rare].sum()), int(rare.sum()), prior=0.0
                ),
                share(
                    self.name,
                    f"surprising names right {source}",
                    int(right[claimed].sum()),
                    int(claimed.sum()),
                ),
                share(
                    self.name,
                    f"people confirmed {source}",
                    int(right.sum()),
                    number,
                    prior=float((usual == levels).mean()),
                ),
            ]
        return findings


def _rare(targets: Targets) -> Bools:
    """Where somebody is alone of a kind and not of the commonest level around; shape (n_finest, n_classes)."""
    single = targets.by_class.sum(axis=2) == 1
    return np.asarray(single & (targets.by_class.argmax(axis=2) != targets.background.argmax(axis=2)))


def linked(records: Integers, ties: Floats, places: Integers, known: Integers) -> tuple[Bools, Integers]:
    """Names for records: the commonest sensitive level among a geounit's records that agree with what is known.

    Args:
        records: Counts by geounit, class of what is known, and sensitive level.
        ties: How common each level is, in the same shape and below 1; it decides between equally frequent levels.
        places, known: The geounit and the class of each person.
    Returns:
        Whether there is a record at all, and the level.
    """
    counts = records[places, known]
    return counts.sum(axis=1) > 0, (counts + ties[places, known] / 2).argmax(axis=1)
