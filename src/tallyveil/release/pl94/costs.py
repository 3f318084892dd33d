"""What the releases behind a publication cost: each by itself, and together."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Final

from tallyveil.accounting.ledger.joint import JointLedgers, read_joint
from tallyveil.accounting.ledger.joint_cost import joint_cost
from tallyveil.release.estimated import copied_lines
from tallyveil.release.finished import MANIFEST
from tallyveil.release.pl94.sources import Source
from tallyveil.release.total import at_once
from tallyveil.storage.json_files import JsonObject
from tallyveil.storage.write import file_digest

UNPROTECTED: Final = (
    "NOT PRIVATE: a release behind these tables was made with an insecure test key. They protect nobody and must not "
    "be published."
)


def release_record(source: Source) -> JsonObject:
    """Which release it is, and its own guarantee, as its manifest states them."""
    manifest = source.manifest
    return {
        "name": manifest.body["name"],
        "run": manifest.run,
        "counts": source.schema.unit.many,
        "tables": [layout.name for layout in source.layouts],
        "manifest_sha256": file_digest(source.root / MANIFEST),
        "protected": manifest.protected,
        "warnings": list(manifest.warnings),
        "declassified": list(manifest.declassified),
        "privacy": manifest.privacy,
    }


def joint_record(sources: Sequence[Source]) -> JsonObject:
    """What two releases guarantee together, as `joint_cost` states it, with a sentence.

    Raises:
        StoreError: a ledger cannot be read.
        BudgetError: the releases are stated under different neighbours.
    """
    if not all(source.manifest.protected for source in sources):
        return {"statement": UNPROTECTED}
    folders = [source.root for source in sources]
    joint = read_joint(folders, {source.root: copied_lines(source.manifest) for source in sources})
    delta = max(Fraction(source.manifest.privacy["exact"]["delta"]) for source in sources)
    return {**joint_cost(joint, delta), "statement": _statement(sources, joint)}


def _statement(sources: Sequence[Source], joint: JointLedgers) -> str:
    change = at_once([source.schema.unit for source in sources], joint.neighbours)
    return (
        f"Both releases together, when {change}. The tables add nothing to this cost, because they are sums of "
        "published counts."
    )
