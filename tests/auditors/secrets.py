"""Lower bounds on what each secret of a small release costs, beside the epsilon that is certified for it.

    python -m tests.auditors.secrets [--number 200000]

For each secret of a small plan, the person has the two values, or the two places, that move the most noisy answers. The
measuring code of a release draws the noisy answers of very many countries on either side (`drawing/forest.py`), and
the best test there is, the likelihood ratio, tells the sides apart. How often it is right refutes every epsilon below
the bound that is printed, with 99 % confidence (`tests/auditing.py`). Keys are fixed, so that two runs find the same.
"""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any, Final

import numpy as np
from tests.auditing import audit_epsilon
from tests.auditors.drawing.evidence import scores
from tests.auditors.drawing.forest import BLOCKS, LEVELS, Country, Side, measured_of
from tests.commands import whole

from tallyveil.accounting import Neighbours, compose
from tallyveil.plans.from_toml.load import plan_from_mapping
from tallyveil.plans.release import ReleasePlan
from tallyveil.plans.secrets import Secret, guarantees_of, secrets_of

DELTA: Final = Fraction(1, 100)
CONFIDENCE: Final = 0.99

PLAN: Final[dict[str, Any]] = {
    "release": {"name": "audited"},
    "records": {"path": "records.parquet", "geocode": "geocode"},
    "geography": {"path": "geography.parquet", "geolevels": list(LEVELS), "prefix_lengths": [7, 8, 9]},
    "schema": {
        "name": "audited",
        "attributes": [
            {"name": "sex", "levels": ["female", "male"]},
            {"name": "age", "levels": ["0-17", "18-64", "65+"]},
        ],
        "recodes": [
            {"name": "adult", "attribute": "age", "groups": {"child": ["0-17"], "adult": ["18-64", "65+"]}}
        ],
    },
    "privacy": {"neighbours": "bounded", "mechanism": "discrete_gaussian", "rho": "1"},
    "strategy": {
        "rho": "1",
        "geolevels": {"Country": "1/4", "County": "1/4", "Block": "1/2"},
        "queries": {"*": {"total": "1/4", "sex": "1/4", "adult": "1/4", "detailed": "1/4"}},
    },
    "outputs": {"tables": ["total"]},
}
_OTHERS: Final = ((1, 0, 2), (2, 3, 1))
"""Everybody else: (block, cell, count)."""


@dataclass(frozen=True)
class AuditedSecret:
    """A secret, and what is known of its epsilon at `DELTA`.

    Attributes:
        name: Name of the secret.
        lower: Every epsilon below it is refuted.
        certified: The upper bound that is claimed.
    """

    name: str
    lower: float
    certified: float


def audited_secrets(number: int, times: int = 1) -> Iterator[AuditedSecret]:
    """Audit every secret that can differ within a country, with so many countries on each side.

    Args:
        number: Countries on each side.
        times: By how much the noise costs more than the plan says; above 1 the claims are wrong.
    """
    plan = plan_from_mapping(PLAN, Path())
    strategy = replace(plan.strategy, total=times * plan.strategy.total)
    for secret in secrets_of(plan, one_root=True):
        (guarantee,) = guarantees_of(plan, secret)
        certified = compose(guarantee.event, neighbours=Neighbours.BOUNDED).epsilon(DELTA).upper
        country = Country(secret.name, plan.schema, strategy, _OTHERS, *_worst(plan, secret), families=False)
        sides = [
            Side(country, person, number, f"audited secret: {secret.name} {place}")
            for place, person in enumerate((country.first, country.second))
        ]
        truths = [Side(country, person, 1, "").truth() for person in (country.first, country.second)]
        measured = list(measured_of(country, *truths))
        first, second = (scores(side.columns(), measured) for side in sides)
        found = audit_epsilon(first, second, delta=float(DELTA), confidence=CONFIDENCE)
        yield AuditedSecret(secret.name, found.lower, certified)


def _worst(plan: ReleasePlan, secret: Secret) -> tuple[tuple[int, int], tuple[int, int]]:
    """The two values of the secret, as (block, cell), whose noisy answers differ most, by counting them."""
    places = list(product(range(len(BLOCKS)), range(plan.schema.size)))
    return max(
        ((one, other) for one, other in product(places, repeat=2) if _differ(plan, secret, one, other)),
        key=lambda pair: _distance(plan, *pair),
    )


def _differ(plan: ReleasePlan, secret: Secret, one: tuple[int, int], other: tuple[int, int]) -> bool:
    """Whether two values differ in the secret and in nothing else."""
    if secret.is_place:
        length = LEVELS.index(str(secret.within))
        areas = [BLOCKS[block][:length] for block, _ in (one, other)]
        return one[0] != other[0] and one[1] == other[1] and areas[0] == areas[1]
    codes = plan.schema.decode(np.array([one[1], other[1]]))
    for axis, attribute in enumerate(plan.schema.attributes):
        first, second = codes[:, axis].tolist()
        if first != second and attribute.name not in secret.changes:
            return False
        recode = secret.changes.get(attribute.name)
        if recode is not None:
            groups = plan.schema.query(recode).factors[axis].codes
            if groups[first] != groups[second]:
                return False
    return one[0] == other[0] and one[1] != other[1]


def _distance(plan: ReleasePlan, one: tuple[int, int], other: tuple[int, int]) -> Fraction:
    """Rho of two values: half the sum over the answers that differ of 1 / variance."""
    rho = Fraction(0)
    for level, geolevel in enumerate(LEVELS):
        areas = [BLOCKS[block][:level] for block, _ in (one, other)]
        for query in plan.strategy.queries(geolevel):
            answers = plan.query(query).answers_of([one[1], other[1]]).tolist()
            if (areas[0], answers[0]) != (areas[1], answers[1]):
                rho += 2 / (2 * plan.strategy.law(geolevel, query).variance)
    return rho


def main() -> None:
    """Print a table of all secrets."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--number", type=whole(20), default=200_000, help="outputs on each side")
    number = parser.parse_args().number
    print("| secret | epsilon is at least | certified | delta |", "|---|---|---|---|", sep="\n")
    for item in audited_secrets(number):
        print(f"| {item.name} | {item.lower:.2f} | {item.certified:.2f} | {float(DELTA)} |", flush=True)


if __name__ == "__main__":
    main()
