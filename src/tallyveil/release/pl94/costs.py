"""What the releases behind a publication cost: each by itself, and together."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Final

from tallyveil.accounting.ledger.joint import (
    JointLedgers,
    published_guarantee,
    published_upper_bound,
    read_joint,
)
from tallyveil.accounting.losses.loss_laws import alternatives_of, has_loss_law
from tallyveil.accounting.neighbours import Neighbours
from tallyveil.errors import BudgetError
from tallyveil.release.estimated import copied_lines
from tallyveil.release.finished import MANIFEST
from tallyveil.release.pl94.sources import Source
from tallyveil.storage.json_files import JsonObject
from tallyveil.storage.write import file_digest

UNPROTECTED: Final = (
    "NOT PRIVATE: a release behind these tables was made with an insecure test key. They protect nobody and must not "
    "be published."
)
MOST_LAWS: Final = 10
"""Largest number of laws that are composed for an exact epsilon; each takes seconds."""
_CHANGES: Final = {Neighbours.BOUNDED: "change their values", Neighbours.UNBOUNDED: "are added or removed"}


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
    """What two releases guarantee together, as `tallyveil account total` composes their ledgers.

    `rho` is their exact cost in zero-concentrated differential privacy, and `epsilon` what it allows to be claimed.
    `exact_epsilon` has both bounds of the least epsilon; where that cannot be composed, `not_exact` says why.

    Raises:
        StoreError: a ledger cannot be read.
        BudgetError: the releases are stated under different neighbours.
    """
    if not all(source.manifest.protected for source in sources):
        return {"statement": UNPROTECTED}
    folders = [source.root for source in sources]
    joint = read_joint(folders, {source.root: copied_lines(source.manifest) for source in sources})
    delta = max(Fraction(source.manifest.privacy["exact"]["delta"]) for source in sources)
    bound = published_upper_bound(joint, delta)
    return {
        "neighbours": joint.neighbours.value,
        "rho": str(bound.rho),
        "delta": str(delta),
        "epsilon": bound.epsilon,
        **({"added_delta": bound.added_delta} if bound.added_delta else {}),
        **exact_epsilon(joint, delta),
        "not_covered": list(joint.non_private),
        "statement": _statement(sources, joint),
    }


def exact_epsilon(joint: JointLedgers, delta: Fraction) -> JsonObject:
    """Both bounds of the least epsilon at delta, or why it was not composed."""
    if not has_loss_law(joint.paid):
        return {"not_exact": "noise on a lattice has no single exact loss law"}
    try:
        n_laws = len(alternatives_of(joint.paid, joint.neighbours))
    except BudgetError as error:  # too many to be listed
        return {"not_exact": str(error)}
    if n_laws > MOST_LAWS:
        return {
            "not_exact": f"it is the largest of {n_laws} epsilons, one for each way in which records may lie on the "
            f"spines, and at most {MOST_LAWS} are composed here; `tallyveil account total` composes all of them"
        }
    guarantee = published_guarantee(joint)
    return {"exact_epsilon": guarantee.epsilon(delta).to_mapping(), "engines": list(guarantee.engines)}


def _statement(sources: Sequence[Source], joint: JointLedgers) -> str:
    units = [f"one {source.schema.unit.one}'s record" for source in sources]
    return (
        f"Both releases together, when {' and '.join(units)} {_CHANGES[joint.neighbours]} at once. The tables add "
        "nothing to this cost, because they are sums of published counts."
    )
