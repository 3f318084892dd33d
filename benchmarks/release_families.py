"""The families that a release of a made-up population meets, its blocks real, for benchmarks of single families."""

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tallyveil.api.beginning import write_country
from tallyveil.confidential.histogram import ConfidentialHistogram
from tallyveil.confidential.measure import Measurer
from tallyveil.estimation.problem import FamilyProblem
from tallyveil.geography.spine import Spine
from tallyveil.noise.key import insecure_key
from tallyveil.noise.source import NoiseSource
from tallyveil.plans.from_toml.load import load_plan
from tallyveil.plans.release import ReleasePlan
from tallyveil.postprocess.constraints import ConstraintTable
from tallyveil.postprocess.families.level import FamilyBuilder, estimate_level
from tallyveil.products.topdown.run.inputs import read_histograms
from tallyveil.products.topdown.run.preparation import compile_constraints
from tallyveil.products.topdown.run.public import PublicInputs, read_public
from tallyveil.runs.observer import SilentObserver
from tallyveil.schema.counts import PublicCounts


@dataclass(frozen=True)
class Source:
    """A release's plan, public inputs, true counts and constraints."""

    plan: ReleasePlan
    public: PublicInputs
    truth: tuple[ConfidentialHistogram, ...]
    constraints: tuple[ConstraintTable, ...]

    @property
    def spine(self) -> Spine:
        return self.public.hierarchies.spine


def made_up(counts: Path, seed: int = 1) -> Source:
    """A release of a made-up population whose blocks are real."""
    with tempfile.TemporaryDirectory() as folder:
        write_country(Path(folder), blocks=None, schema="pl94-persons", like=counts, seed=seed)
        plan = load_plan(Path(folder) / "release.toml")
        public = read_public(plan)
        truth = read_histograms(plan, public.hierarchies.spine)
        constraints = compile_constraints(plan, public.hierarchies, truth, public.bounds)
        return Source(plan, public, truth, constraints)


def families(release: Source, key: str = "benchmark") -> Iterator[FamilyProblem]:
    """Every family of a release that needs solving, in the order of the run."""
    plan, allocation, constraints = release.plan, release.public.allocation, release.constraints
    spine = release.spine
    source = Measurer(release.truth, plan.schema, allocation, NoiseSource(insecure_key(key)))
    above = None
    for level, geolevel in enumerate(spine.geolevels):
        queries = tuple(plan.query(name) for name in plan.strategy.queries(geolevel))
        stages = plan.estimation_of(geolevel).rounding
        rounding = tuple(tuple(plan.query(name) for name in stage) for stage in stages)
        builder = FamilyBuilder(plan, allocation, level, source, constraints, queries, rounding)
        met = (
            [builder.root(0, 1)]
            if above is None
            else map(partial(builder.family, counts=above), parents(above))
        )
        yield from (problem for problem in met if problem.measured and problem.n_cells)
        above = estimate_level(builder, above, SilentObserver()).counts


def parents(above: PublicCounts) -> range:
    return range(above.n_geounits)
