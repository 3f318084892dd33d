"""A geolevel in chunks: the counts are those of one family at a time, however it is cut and shared out."""

import random
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from tallyveil.api.beginning import write_country
from tallyveil.confidential.measure import Measurer
from tallyveil.errors import ConstraintError
from tallyveil.estimation.family import estimate_family
from tallyveil.estimation.problem import UNBOUNDED
from tallyveil.kernels.family import chunk as family_chunk
from tallyveil.measurements.answers import measure_one_by_one
from tallyveil.noise.key import insecure_key
from tallyveil.noise.source import NoiseSource
from tallyveil.plans.from_toml.load import load_plan
from tallyveil.postprocess.constraints import ConstraintTable
from tallyveil.postprocess.families import level as chunks
from tallyveil.postprocess.families.level import FamilyBuilder, estimate_level
from tallyveil.products.topdown.run.inputs import read_histograms
from tallyveil.products.topdown.run.preparation import compile_constraints
from tallyveil.products.topdown.run.public import read_public
from tallyveil.runs.executor import Threads
from tallyveil.runs.observer import SilentObserver
from tallyveil.schema.counts import PublicCounts


class Country:
    """A made-up state, its measurements, and builders of its geolevels."""

    def __init__(self, folder):
        write_country(folder, blocks=300, schema="pl94-persons", seed=4)
        self.plan = load_plan(folder / "release.toml")
        public = read_public(self.plan)
        self.spine, self.allocation = public.hierarchies.spine, public.allocation
        self.histograms = read_histograms(self.plan, self.spine)
        self.constraints = compile_constraints(self.plan, public.hierarchies, self.histograms, public.bounds)
        self.source = Measurer(
            self.histograms,
            self.plan.schema,
            self.allocation,
            NoiseSource(insecure_key("level")),
        )

    def builder(self, level):
        geolevel = self.spine.geolevels[level]
        queries = tuple(self.plan.query(name) for name in self.plan.strategy.queries(geolevel))
        rounding = tuple(
            tuple(self.plan.query(name) for name in stage)
            for stage in self.plan.estimation_of(geolevel).rounding
        )
        return FamilyBuilder(
            self.plan, self.allocation, level, self.source, self.constraints, queries, rounding
        )

    def estimate(self, **options):
        counts = []
        for level in range(self.spine.n_levels):
            outcome = estimate_level(
                self.builder(level), counts[-1] if counts else None, SilentObserver(), **options
            )
            counts.append(outcome.counts)
        return counts


@pytest.fixture(scope="module")
def country(tmp_path_factory):
    return Country(tmp_path_factory.mktemp("country"))


@pytest.fixture(scope="module")
def counts(country):
    return country.estimate()


def same(one: PublicCounts, other: PublicCounts) -> bool:
    pairs = (one.offsets, other.offsets), (one.cells, other.cells), (one.counts, other.counts)
    return all(np.array_equal(a, b) for a, b in pairs)


def test_counts_are_those_of_one_family_at_a_time(country, counts):
    for level in range(1, country.spine.n_levels):
        builder, above = country.builder(level), counts[level - 1]
        offsets = country.spine.child_offsets[level - 1]
        for parent in range(above.n_geounits):
            problem = builder.family(parent, above)
            solution = estimate_family(problem)
            for child, expected in enumerate(solution.counts, start=int(offsets[parent])):
                cells, persons = counts[level].entries(child)
                assert np.array_equal(cells, problem.support[expected > 0])
                assert np.array_equal(persons, expected[expected > 0])


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_counts_depend_on_neither_chunks_nor_workers(country, counts, monkeypatch, workers):
    monkeypatch.setattr(chunks, "SMALLEST", 1)
    monkeypatch.setattr(chunks, "CHUNKS_WANTED", 7 * workers)
    assert len(chunks.cut(counts[-2], country.spine.child_offsets[-1])) > 5
    threads = Threads(workers)
    assert all(same(*pair) for pair in zip(counts, country.estimate(executor=threads), strict=True))


class Scrambled:
    """Begins and completes chunks in an order of its own."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def completed(self, chunks, numbers):
        for number in self.random.sample(numbers, len(numbers)):
            yield number, chunks.work(number)


class ByFiles:
    """Writes every result and reads it back, as where another process does the work."""

    def __init__(self, folder):
        self.folder = folder
        self.written = 0

    def completed(self, chunks, numbers):
        for number in numbers:
            self.written += 1
            path = self.folder / f"result-{self.written}"
            chunks.write(number, chunks.work(number), path)
            yield number, chunks.read(path)


def test_results_are_the_same_after_they_were_written_and_read(country, counts, monkeypatch, tmp_path):
    monkeypatch.setattr(chunks, "SMALLEST", 1)
    by_files = ByFiles(tmp_path)
    found = country.estimate(executor=by_files)
    assert by_files.written > 10
    assert all(same(*pair) for pair in zip(counts, found, strict=True))


@pytest.mark.parametrize("seed", [1, 2])
def test_counts_do_not_depend_on_the_order_of_completion(country, counts, monkeypatch, seed):
    monkeypatch.setattr(chunks, "SMALLEST", 1)
    found = country.estimate(executor=Scrambled(seed))
    assert all(same(*pair) for pair in zip(counts, found, strict=True))


def test_chunks_cover_every_family_once(country, counts, monkeypatch):
    monkeypatch.setattr(chunks, "SMALLEST", 1)
    spans = chunks.cut(counts[-2], country.spine.child_offsets[-1])
    covered = [family for span in spans for family in range(span.first, span.last)]
    assert covered == list(range(counts[-2].n_geounits))
    assert [span.number for span in spans] == list(range(len(spans)))


def test_families_that_the_kernel_leaves_are_put_in_their_places(country, counts, monkeypatch):
    """The kernel's families are left to the slow way, every second one."""

    def leaving(rules, chunk):
        ended, chosen, residual, offsets, cells, persons = family_chunk.estimate_chunk(rules, chunk)
        child = np.repeat(np.arange(len(ended)), np.diff(chunk.child_begin))
        dropped = child % 2 == 0
        entry = np.repeat(dropped, np.diff(offsets))
        lengths = np.where(dropped, 0, np.diff(offsets))
        ended = np.where(np.arange(len(ended)) % 2 == 0, family_chunk.LEFT, ended)
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        return ended, chosen, residual, offsets, cells[~entry], persons[~entry]

    monkeypatch.setattr(chunks, "estimate_chunk", leaving)
    for level in range(1, country.spine.n_levels):
        outcome = estimate_level(country.builder(level), counts[level - 1], SilentObserver())
        assert same(outcome.counts, counts[level])
        assert outcome.solver["families"] == counts[level - 1].n_geounits


def test_the_tally_counts_every_family_once(country, counts):
    level = country.spine.n_levels - 1
    solver = estimate_level(country.builder(level), counts[level - 1], SilentObserver()).solver
    builder = country.builder(level)
    solutions = [estimate_family(builder.family(p, counts[level - 1])) for p in range(solver["families"])]
    assert solver["estimate"] == dict(Counter(one.status.value for one in solutions))
    assert solver["rounding"] == dict(Counter(one.rounding.method.value for one in solutions))
    assert solver["largest_residual"] == max(one.residual_persons for one in solutions)


def test_measurements_in_bulk_are_those_of_one_at_a_time(country, counts):
    for level in range(1, country.spine.n_levels):
        wanted = country.builder(level).answers(0, counts[level - 1].n_geounits, counts[level - 1])
        assert np.array_equal(
            country.source.measure_families(wanted), measure_one_by_one(country.source, wanted)
        )


def test_a_family_without_a_solution_is_named(country, counts):
    """Every block of one block group must have more people than the group has."""
    level = country.spine.n_levels - 1
    lower = np.zeros((country.spine.n_geounits(level), 1), dtype=np.int64)
    lower[5] = 10**6
    shapes = [np.zeros((country.spine.n_geounits(k), 1), dtype=np.int64) for k in range(level)]
    high = tuple(np.full((country.spine.n_geounits(k), 1), UNBOUNDED) for k in range(level + 1))
    table = ConstraintTable("too many", country.plan.query("total"), (*shapes, lower), high)
    builder = replace(country.builder(level), constraints=(*country.constraints, table))
    with pytest.raises(ConstraintError, match="too many"):
        estimate_level(builder, counts[level - 1], SilentObserver(), executor=Threads(2))
