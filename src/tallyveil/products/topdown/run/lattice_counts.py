"""Draw the counts that get integer-subspace noise, publish them, and make them constraints of the estimation."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tallyveil.arrays import Integers
from tallyveil.confidential.histogram import ConfidentialHistogram
from tallyveil.confidential.subspace_counts import noisy_answers
from tallyveil.errors import ConstraintError, SolverError
from tallyveil.geography.spine import Spine
from tallyveil.noise.key import derive_key
from tallyveil.noise.source import NoiseSource
from tallyveil.plans.lattice_draws import SubspaceDraw
from tallyveil.postprocess.constraints.geolevels import ConstraintTable
from tallyveil.postprocess.families.lattice_measurements import drawn_constraint, write_drawn
from tallyveil.schema.query_group import QueryGroup
from tallyveil.schema.schema import Schema
from tallyveil.subspace.exact.digits import NoiseAddress

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
    source = NoiseSource(derive_key(noise_key, KEY_PURPOSE))
    tables = []
    for draw in prepared:
        group = schema.query(draw.item.query)
        vector = draw.sampler.draw(NoiseAddress(source, draw.level, draw.number), range(1))[0]
        if not draw.noise.lattice.contains(vector):
            raise SolverError(
                f"final check failed: the noise of {draw.item.name} changes an invariant. Nothing was published; "
                "please report this.",
                code="check-failed",
            )
        noise = np.zeros((spine.n_geounits(draw.level), group.size), dtype=np.int64)
        noise.reshape(-1)[draw.places] = vector
        noisy = noisy_answers(histograms[draw.level], group, noise)
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
