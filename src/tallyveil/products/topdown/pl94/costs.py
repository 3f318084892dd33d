"""What the releases behind a publication cost: each by itself, and together."""

from collections.abc import Sequence
from fractions import Fraction

from tallyveil.accounting.ledger.joint import JointLedgers, read_joint
from tallyveil.accounting.ledger.joint_cost import joint_cost
from tallyveil.files.estimated import copied_lines
from tallyveil.files.finished import MANIFEST
from tallyveil.files.marks import Marks, joint_marks
from tallyveil.files.total import at_once
from tallyveil.products.topdown.pl94.sources import Source
from tallyveil.storage.json_files import JsonObject
from tallyveil.storage.write import file_digest


def source_marks(sources: Sequence[Source]) -> Marks:
    """What must be said of all that follows from these releases."""
    return joint_marks({f"release of {source.schema.unit.many}": source.manifest for source in sources})


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
    if not (marks := source_marks(sources)).protected:
        return {"statement": " ".join(marks.lines())}
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
