"""Draw the counts that get integer-subspace noise, publish them, and make them constraints of the estimation."""

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import numpy as np

from tallyveil.arrays import Integers
from tallyveil.confidential.histogram import ConfidentialHistogram, noisy_answers
from tallyveil.declared import mapping_of
from tallyveil.errors import ConstraintError, SolverError
from tallyveil.geography.spine import Spine
from tallyveil.measurements.names import drawn_name
from tallyveil.noise.key import derive_key
from tallyveil.noise.source import NoiseSource
from tallyveil.plans.lattice_draws import SubspaceDraw
from tallyveil.plans.release import ReleasePlan
from tallyveil.postprocess.constraints import ConstraintTable
from tallyveil.postprocess.families.lattice_measurements import drawn_constraint, write_drawn
from tallyveil.schema.query_group import QueryGroup
from tallyveil.schema.schema import Schema
from tallyveil.subspace.exact.digits import NoiseAddress
from tallyveil.subspace.mechanisms import GeneralisedGaussian
from tallyveil.subspace.noise_plan import PUBLIC_KEY, guarantee_record, noise_record

KEY_PURPOSE = "integer-subspace"


def draw_subspace(
    prepared: Sequence[SubspaceDraw],
    schema: Schema,
    spine: Spine,
    histograms: Sequence[ConfidentialHistogram],
    noise_key: bytes,
    root: Path,
    tags: dict[str, str],
) -> tuple[ConstraintTable, ...]:
    """Draw and publish the counts, and return them as constraints. The same key always gives the same counts.

    Args:
        prepared: From `prepare_subspace`.
        schema, spine: Schema and spine of the release.
        histograms: True counts by geolevel. Confidential.
        noise_key: Noise key of the run.
        root: Release folder; counts are written under `measurements/`.
        tags: Metadata of the files.
    Returns:
        Constraints that fix each answer at its noisy count, and the answers of coarser geolevels at the sums.
    Raises:
        ConstraintError: a noisy count is negative. By then the counts have been published and paid for.
    Privacy: the cost is part of `ReleasePlan.event` and is spent once.
    """
    # A key of its own, so that no address of these draws meets one of the other measurements.
    source = NoiseSource(derive_key(noise_key, KEY_PURPOSE))
    tables = []
    for draw in prepared:
        group = schema.query(draw.item.query)
        # Always draw 0 of this address: a run that is taken up again gets the same noise and not a second look.
        vector = draw.sampler.draw(NoiseAddress(source, draw.level, draw.number), range(1))[0]
        if not draw.noise.lattice.contains(vector):
            raise SolverError(
                f"final check failed: the noise of {draw.item.name} changes an invariant. Nothing was published; "
                "please report this.",
                code="check-failed",
            )
        # `places` leaves out answers that structural zeros fix at 0; they get no noise.
        noise = np.zeros((spine.n_geounits(draw.level), group.size), dtype=np.int64)
        noise.reshape(-1)[draw.places] = vector
        noisy = noisy_answers(histograms[draw.level], group, noise)
        # Written before the look for negative counts, which are paid for and stay published, as the message says.
        write_drawn(root, draw.item, schema, spine, noisy, tags)
        _refuse_negative(draw, group, spine, noisy)
        tables.append(drawn_constraint(draw.item, schema, spine, noisy))
    return tuple(tables)


def _refuse_negative(draw: SubspaceDraw, group: QueryGroup, spine: Spine, noisy: Integers) -> None:
    below = np.argwhere(noisy < 0)
    if len(below):
        geounit, answer = (int(i) for i in below[0])
        raise ConstraintError(
            f"{draw.item.name}: noisy counts at {draw.item.geolevel} came out negative, such as that of "
            f"{spine.geolevels[draw.level]} '{spine.geocodes[draw.level][geounit]}', {group.labels()[answer]}. No "
            "counts of people agree with them. They have been drawn, published and paid for. They are not set to "
            "zero, because that would be biased and would break the invariants, and they are not drawn again, "
            "because the noise would then depend on the records. Use the mechanism where counts are larger than its "
            "noise, or with more budget. Either needs another folder and is a new spend.",
            code="subspace-negative",
        )


MOST_DRAWS: Final = 10_000
"""Most simulated draws of the spread. The relative error of a standard deviation is about 1 / sqrt(2 n): here 0.7 %,
and 1 % with half as many draws."""
LEAST_DRAWS: Final = 100
"""Least number of draws from which a standard deviation is estimated."""

_CELLS_LOOKED_AT: Final = 1 << 24
"""Cells that all tries of the simulated draws may touch: a bound on time. Larger lattices get fewer draws, or none."""


def drawn_record(plan: ReleasePlan, draw: SubspaceDraw) -> dict[str, Any]:
    """One `[[subspace]]` of a release: the drawn query, the noise law, the sampler, the guarantee and the invariants.

    Args:
        plan: Plan of the release.
        draw: The draw, prepared without data.
    Privacy: computed from public inputs and from simulated noise with a public key, never from the published noise.
    """
    neighbours, law = plan.strategy.neighbours, draw.noise.law
    moved = neighbours.answers_moved
    if isinstance(law, GeneralisedGaussian):
        stated = {"kind": "generalised Gaussian", "variance": str(law.variance)}
    else:
        stated = {"kind": "generalised Laplace", "norm": law.norm.value, "epsilon": str(law.epsilon)}
    names = draw.noise.lattice.system.names
    return {
        **mapping_of(draw.item),
        "path": drawn_name(draw.item.geolevel, draw.item.query),
        "law": stated,
        "privacy": {
            **guarantee_record(draw.noise, Fraction(moved), plan.delta, neighbours),
            "invariants": list(names),
        },
        "noise": {**noise_record(draw.noise), "spread": _spread(draw)},
    }


def _spread(draw: SubspaceDraw) -> dict[str, Any] | None:
    """Standard deviation of the noise, from simulated draws; None if draws are too slow to make many."""
    cells = draw.noise.lattice.n_cells
    draws = min(MOST_DRAWS, int(_CELLS_LOOKED_AT / (cells * draw.expected_trials)))
    if draws < LEAST_DRAWS:
        return None
    # Fresh noise under a public key. The spread of the released noise itself would narrow down the true counts.
    vectors = draw.noise.draw(PUBLIC_KEY, range(draws))
    # The mean is zero by symmetry, so it is not estimated.
    deviations = np.sqrt((vectors.astype(np.float64) ** 2).mean(axis=0))
    return {
        "draws": draws,
        "standard_deviation": {
            "least": float(deviations.min()),
            "median": float(np.median(deviations)),
            "greatest": float(deviations.max()),
        },
        "mean_absolute": float(np.abs(vectors).mean()),
    }
