"""Predict the memory and the seconds of outer passes, from public sizes alone. The numbers are upper estimates.

The work of a pass at a geolevel grows with its *entries*: the children of all parents, times the cells that a parent
fills. A family is solved in one piece, so the largest family decides the memory. The rates were measured as processor
time with the persons and the units of the Demographic and Housing Characteristics: Rhode Island (25,181 blocks), a
made-up state of 50,000 blocks, and for roots, counties and memory one of 421,545 blocks. They were rounded up. They are
not divided by the number of cores, because the largest family of a geolevel is the work of one core.

Since then Newton's method of the passes has become faster, so the predictions are further above what is measured. The
largest family that was measured has 1,351 children and 22 million unknown counts.

Lift passes were measured with the persons and the units of 25,181 blocks, whose files agree. A family of a lift pass
reaches down to the finest geounits, so that each geolevel takes about as long as any other.
"""

from dataclasses import dataclass
from typing import Final

from tallyveil.plans.sizes import Sizes, cells_of

FILLED_IN_PASSES: Final = (
    (1, 1), (30, 17), (600, 280), (2_000, 730), (100_000, 9_000), (500_000, 31_000), (20_000_000, 200_000),
)  # fmt: skip
"""Persons or units in a geounit, and how many cells of the Demographic and Housing Characteristics they fill: the
larger number of the two products, measured up to a million; the last point is an extrapolation."""


@dataclass(frozen=True, slots=True)
class PassRates:
    """Measured costs of one unit of work.

    Attributes:
        base_bytes: The program with its libraries, compiled kernels and the schema.
        entry_bytes: A non-zero cell of a geolevel, true and estimated.
        person_bytes: A record while records are read.
        family_bytes: An entry of the family that is being solved.
        lift_bytes: A finest geounit below the family of a lift pass that is being split.
        records: Seconds to read a record.
        agreed: Seconds to read and compile the constraints of a finest geounit.
        root: Seconds of all passes at the root.
        estimate_top, estimate, estimate_finest: Seconds of an entry in all passes: below the root; at geolevels
            between; at the finest geolevel, where families are small.
        lift: Seconds of a finest geounit in a lift pass, at each geolevel: its flows reach down to the finest geounits.
        whole: Seconds to put a non-zero cell of the finest geolevel together from all passes.
        checks: Seconds to check a non-zero cell of a geolevel.
    """

    base_bytes: int = 500 << 20
    entry_bytes: int = 36
    person_bytes: int = 60
    family_bytes: int = 60
    lift_bytes: int = 4 << 10
    records: float = 1.5e-6
    agreed: float = 40e-6
    root: float = 8.0
    estimate_top: float = 15e-6
    estimate: float = 6e-6
    estimate_finest: float = 1e-6
    lift: float = 80e-6
    whole: float = 5e-6
    checks: float = 2.5e-6


PASS_RATES: Final = PassRates()


def largest_family_bytes(sizes: Sizes, rates: PassRates = PASS_RATES) -> int:
    """Memory of the largest family of any geolevel. Its parent has as large a share of the people as its
    children are of all geounits of their geolevel."""
    # The root is no one's child; the 0 keeps the maximum defined for a spine of the root alone.
    entries = [0.0]
    for most, n in zip(sizes.most_children[1:], sizes.geounits[1:], strict=True):
        entries.append(most * cells_of(sizes.people * most / n, FILLED_IN_PASSES))
    return int(rates.family_bytes * max(entries))


def largest_lift_bytes(lifts: tuple[bool, ...], sizes: Sizes, rates: PassRates = PASS_RATES) -> int:
    """Memory of the largest family of any lift pass, the one at the root; 0 without lift passes."""
    return rates.lift_bytes * sizes.geounits[-1] if any(lifts) else 0


def pass_seconds(
    lifts: tuple[bool, ...],
    levels: tuple[str, ...],
    sizes: Sizes,
    filled: tuple[int, ...],
    rates: PassRates = PASS_RATES,
) -> list[tuple[str, float]]:
    """Seconds of every pass, and of putting their counts together.

    What a geolevel takes is divided equally among the passes that are no lift passes.

    Args:
        lifts: Whether each pass is a lift pass.
        levels: Geolevels, root first.
        sizes: Public sizes.
        filled: Number of non-zero cells at each geolevel.
        rates: Measured costs.
    """
    # The root has no parent to take entries from, so its seconds are a constant.
    each = [rates.root]
    for number in range(1, len(levels)):
        # Children, times the cells that an average parent fills: entries as the module defines them.
        entries = sizes.geounits[number] * filled[number - 1] / sizes.geounits[number - 1]
        rate = rates.estimate_top if number == 1 else rates.estimate
        each.append((rates.estimate_finest if number == len(levels) - 1 else rate) * entries)
    estimated, lifted = lifts.count(False), rates.lift * sizes.geounits[-1]
    stages = [
        (f"pass {number} of {level}", lifted if is_lift else seconds / estimated)
        for number, is_lift in enumerate(lifts, start=1)
        for level, seconds in zip(levels, each, strict=True)
    ]
    return [*stages, ("whole cells", rates.whole * filled[-1])]
