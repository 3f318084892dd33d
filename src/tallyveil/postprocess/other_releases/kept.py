"""What a release takes over from finished releases: counts that it keeps, and residents who set limits."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tallyveil.geography.spine import Spine
from tallyveil.postprocess.constraints.constraint_files import read_agreed_counts, write_agreement
from tallyveil.postprocess.other_releases.agreement import AgreedCounts
from tallyveil.postprocess.other_releases.residents import (
    ResidentCounts,
    read_resident_counts,
    write_residents,
)
from tallyveil.schema.schema import Schema


@dataclass(frozen=True, slots=True, eq=False)
class TakenOver:
    """Published counts of finished releases.

    Attributes:
        agreed: Counts that the release keeps exactly, in the order of the plan.
        residents: People who live in the units that the release counts, in the order of the plan.
    """

    agreed: tuple[AgreedCounts, ...] = ()
    residents: tuple[ResidentCounts, ...] = ()

    def digests(self) -> list[bytes]:
        """SHA-256 of the counts of each."""
        return [*(counts.digest() for counts in self.agreed), *(counts.digest() for counts in self.residents)]

    def write(self, root: Path, spine: Spine, tags: Mapping[str, str]) -> None:
        """Write everything into a release folder; raises StoreError.

        Privacy: the counts were published by other releases.
        """
        for number, counts in enumerate(self.agreed):
            write_agreement(root, number, counts, spine, tags)
        for number, residents in enumerate(self.residents):
            write_residents(root, number, residents, spine, tags)


def read_kept(root: Path, plan: Mapping[str, Any], schema: Schema, spine: Spine) -> TakenOver:
    """What a release folder holds of other releases.

    Args:
        root: Release folder.
        plan: Content of its `plan.json`.
        schema: The universe.
        spine: The hierarchy.
    Raises:
        StoreError: a file is missing, unreadable, or of another geography.
    """
    agreed, residents = (enumerate(plan.get(key, ())) for key in ("agreement", "residents"))
    return TakenOver(
        tuple(read_agreed_counts(root, number, item, schema, spine) for number, item in agreed),
        tuple(read_resident_counts(root, number, item, spine) for number, item in residents),
    )
