"""How well a class of group quarters is divided by type: by facilities, and by the totals that measurements tell.

    python benchmarks/group_quarters_types.py [--blocks 20000] [--ratio 2] [--keys 3]

The people of a class of group quarters are fixed by the redistricting data. Where a block has several types of the
class, a DHC release divides them by the number of facilities before the spend, and then by measured totals of the types
that a small query tells apart. Two tables are printed.

*What measurements say*: the standard deviation of the number of people of each type in one geounit, from all measured
queries of `dhc-persons-us-from-state` in this geounit by least squares, where the classes are known. No records are
needed: it follows from the strategy and the structural zeros.

*What each division leaves*: root mean squared errors of the people of each type, over the geounits of a geolevel that
have a block with several types, and over the keys. The state is made up, with more facilities than `tallyveil synth`
gives it: every 25th block with people in households alone gets facilities of two or three types of one class. Their
sizes are lognormal (deviation 0.7 of the logarithm), with a mean of 20 for one of these types, and of 20 times a ratio
for the others. The redistricting data are a release of the same people, made once. The processor time and the memory
of the division after the spend are printed, too. Test keys protect nobody.
"""

import argparse
import resource
import tempfile
import time
from pathlib import Path

import headline
import numpy as np
import polars as pl

from tallyveil.api.beginning import write_country
from tallyveil.budget.presets import StrategyPreset, load_strategy_preset
from tallyveil.confidential.measure import Measurer
from tallyveil.geography.spine import Spine
from tallyveil.noise.key import insecure_key
from tallyveil.noise.source import NoiseSource
from tallyveil.plans.from_toml.load import load_plan
from tallyveil.postprocess.passes.groups import FixedGroups, sums_of_groups
from tallyveil.postprocess.passes.measured_kinds import measured_groups
from tallyveil.products.topdown.run.preparation import prepare, read_inputs
from tallyveil.products.topdown.run.run import run_release
from tallyveil.runs.observer import SilentObserver, Stopwatch
from tallyveil.schema.nested_queries import representative_cells
from tallyveil.schema.presets import load_preset
from tallyveil.schema.schema import Schema

PRESET = "dhc-persons-us-from-state"
SPREAD, SIZE, EVERY = 0.7, 20.0, 25
TOGETHER = (
    ("shelters", "adult_group_homes"),
    ("military_disciplinary_barracks", "state_prisons"),
    ("military_treatment_facilities", "psychiatric_hospitals"),
    ("residential_schools", "military_treatment_facilities", "hospitals_without_usual_home_elsewhere"),
)
"""Types of one class that are put into one block. Small queries tell all of them apart. The first ones are smaller."""
SMALLER = frozenset(types[0] for types in TOGETHER)
AGES = (18, 31)
"""Ages that people of all these types may have."""


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--blocks", type=int, default=20000)
    parser.add_argument("--ratio", type=float, default=2.0, help="mean size of the other types")
    parser.add_argument("--keys", type=int, default=3)
    headline.add_option(parser)
    given = parser.parse_args()
    schema, preset = load_preset("dhc-persons"), load_strategy_preset(PRESET)
    types, classes = types_of(schema)
    deviations = {level: type_deviations(schema, preset, level) for level in preset.strategy.geolevels}
    print(
        f"standard deviation of a type, classes known\n{'type':42}" + "".join(f"{x:>14}" for x in deviations)
    )
    for number, name in enumerate(types):
        if classes.count(classes[number]) > 1:
            row = "".join(f"{float(of_level[number]):14.1f}" for of_level in deviations.values())
            print(f"{name:42}{row}")
    with tempfile.TemporaryDirectory() as folder:
        lines = errors_of_divisions(Path(folder), given.blocks, given.ratio, given.keys)
    headline.write(given.headline, lines)


def errors_of_divisions(folder: Path, blocks: int, ratio: float, keys: int) -> list[headline.Headline]:
    """Make the state and its redistricting data, and print the errors of both divisions."""
    write_country(folder / "people", blocks=blocks, schema="dhc", seed=3)
    mixed = add_facilities(folder / "people", ratio)
    run_release(
        load_plan(folder / "people" / "redistricting.toml"),
        folder / "people" / "redistricting",
        test_key=insecure_key("types of quarters"),
    )
    path, watch = folder / "people" / "dhc-persons.toml", Stopwatch(SilentObserver())
    path.write_text(
        path.read_text().replace(
            'name = "redistricting"\n', 'name = "redistricting"\npath = "redistricting"\n'
        )
    )
    plan = load_plan(path)
    inputs = read_inputs(plan, SilentObserver(), watch, protected=False)
    first = prepare(plan, inputs, watch).groups
    if first is None:
        raise RuntimeError("the release has no outer passes")
    allocation, spine = inputs.public.allocation, inputs.public.hierarchies.spine
    people = pl.read_parquet(folder / "people" / "persons.parquet", columns=["geocode", "relgq"])
    truth = true_totals(people, plan.schema, spine)
    by_division: dict[str, list[list[np.ndarray]]] = {
        "facilities": [totals(first.known, plan.schema, spine)],
        "measured": [],
    }
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.process_time()
    for key in range(keys):
        noise = NoiseSource(insecure_key(f"types of quarters {key}"))
        source = Measurer(inputs.histograms, plan.schema, allocation, noise)
        groups = measured_groups(first, plan, allocation, source)
        by_division["measured"].append(totals(groups, plan.schema, spine))
    seconds = (time.process_time() - start) / keys
    more = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory) / 1024
    print(
        f"\n{len(mixed)} blocks of {blocks} with several types; {seconds:.1f} s, {more:.0f} MiB more than before"
    )
    print(
        f"root mean squared errors, in people\n{'type':42}{'division':12}"
        + "".join(f"{x:>14}" for x in spine.geolevels)
    )
    lines, names = [], types_of(plan.schema)[0]
    places = np.flatnonzero(np.isin(spine.geocodes[spine.finest].text.to_numpy(), mixed))
    for name in dict.fromkeys(name for types in TOGETHER for name in types):
        number, errors = names.index(name), {}
        for division, runs in by_division.items():
            errors[division] = [
                float(
                    np.sqrt(
                        np.mean(
                            [(run[level][within, number] - truth[level][within, number]) ** 2 for run in runs]
                        )
                    )
                )
                for level in range(spine.n_levels)
                for within in [np.unique(spine.ancestors(level)[places])]
            ]
            print(f"{name:42}{division:12}" + "".join(f"{error:14.1f}" for error in errors[division]))
        gain = errors["facilities"][1] / max(errors["measured"][1], 1e-9)
        lines.append(
            headline.Headline(f"{name}, error of counties", f"{gain:.1f} times", "by facilities", gain)
        )
    return lines


def add_facilities(folder: Path, ratio: float) -> list[str]:
    """Put facilities of several types of one class into some blocks; returns the blocks."""
    rng = np.random.default_rng(1)
    persons, by_type, by_class = (
        pl.read_parquet(folder / f"{name}.parquet")
        for name in ("persons", "facilities_by_type", "facilities")
    )
    schema = load_preset("dhc-persons")
    groups = next(recode for recode in schema.recodes if recode.name == "hhgq8lev").groups
    class_of = {level: name for name, members in groups for level in members}
    busy = by_type.filter(pl.col("gqlevels") != "household")["geocode"].implode()
    mixed = (
        by_type.filter(~pl.col("geocode").is_in(busy))["geocode"]
        .unique()
        .sort()
        .gather_every(EVERY)
        .to_list()
    )
    bounds, rows = [], []
    for place, geocode in enumerate(mixed):
        for unit, name in enumerate(TOGETHER[place % len(TOGETHER)]):
            mean = SIZE * (1.0 if name in SMALLER else ratio) - 0.5
            size = int(1 + np.floor(mean * rng.lognormal(-(SPREAD**2) / 2, SPREAD)))
            bounds.append((geocode, name, 1, None))
            rows += [
                (
                    geocode,
                    1000 + unit,
                    name,
                    "male",
                    str(age),
                    "not_hispanic",
                    "white",
                    class_of[name],
                    "18_plus",
                )
                for age in rng.integers(*AGES, size)
            ]
    added = pl.DataFrame(rows, schema=persons.schema, orient="row")
    pl.concat([persons, added]).sort("geocode", maintain_order=True).write_parquet(folder / "persons.parquet")
    types = pl.DataFrame(bounds, schema=by_type.schema, orient="row")
    pl.concat([by_type, types]).write_parquet(folder / "facilities_by_type.parquet")
    classes = types.with_columns(hhgq=pl.col("gqlevels").replace_strict(class_of)).group_by(
        "geocode", "hhgq", maintain_order=True
    )
    summed = classes.agg(pl.col("lower").sum(), pl.col("upper").first()).select(by_class.columns)
    pl.concat([by_class, summed]).write_parquet(folder / "facilities.parquet")
    return mixed


def totals(groups: FixedGroups, schema: Schema, spine: Spine) -> list[np.ndarray]:
    """People of each type in the geounits of every geolevel, from groups."""
    (query,) = groups.queries
    level_of = representative_cells(query, np.arange(query.size)) // (
        schema.size // schema.attributes[0].size
    )
    names = types_of(schema)[0]
    return [
        np.stack(
            [
                sums_of_groups(groups.levels[level], level_of == schema.attributes[0].code(name))
                for name in names
            ],
            axis=1,
        )
        for level in range(spine.n_levels)
    ]


def true_totals(people: pl.DataFrame, schema: Schema, spine: Spine) -> list[np.ndarray]:
    """The same of the records."""
    names = types_of(schema)[0]
    people = people.filter(pl.col("relgq").is_in(names))
    blocks = spine.locate(spine.finest, people["geocode"])
    number = people["relgq"].replace_strict({name: place for place, name in enumerate(names)}).to_numpy()
    sums = []
    for level in range(spine.n_levels):
        counts = np.zeros((spine.n_geounits(level), len(names)), dtype=np.int64)
        np.add.at(counts, (spine.ancestors(level)[blocks], number), 1)
        sums.append(counts)
    return sums


def types_of(schema: Schema) -> tuple[list[str], list[int]]:
    """The types of group quarters, and the class of each."""
    levels = schema.attributes[0].levels
    classes = next(recode for recode in schema.recodes if recode.name == "hhgq8lev").groups
    class_of = {level: number for number, (_, members) in enumerate(classes) for level in members}
    # Class 0 is that of households.
    types = [level for level in levels if class_of[level]]
    return types, [class_of[level] for level in types]


def type_deviations(schema: Schema, preset: StrategyPreset, geolevel: str) -> np.ndarray:
    """Standard deviation of each type's people in a geounit, from its own measurements, given the classes."""
    types, classes = types_of(schema)
    strategy = preset.strategy
    rho = float(strategy.total * dict(strategy.geolevel_shares)[geolevel])
    information = np.zeros((len(types), len(types)))
    for name, share in dict(strategy.query_shares)[geolevel]:
        query = schema.query(name)
        # The first attribute says the relationship or the type.
        groups = query.factors[0]
        first = np.unravel_index(
            schema.possible_answers(query), [len(factor.labels) for factor in query.factors]
        )[0]
        answers = np.bincount(first, minlength=len(groups.labels))
        for group in range(len(groups.labels)):
            members = [t for t, level in enumerate(types) if holds(schema, name, group, level)]
            if members and answers[group] and len(members) < len(types):
                row = np.zeros(len(types))
                row[members] = 1
                # Bounded neighbours: an answer has the variance 1 / rho, and a sum of them as many times that.
                information += np.outer(row, row) * rho * float(share) / answers[group]
    # Differences within classes: the classes themselves are known.
    free = np.array([[float(a == b) for b in classes] for a in classes])
    within = np.eye(len(types)) - free / free.sum(axis=1)
    values, vectors = np.linalg.eigh(within)
    basis = vectors[:, values > 0.5]
    covariance = basis @ np.linalg.inv(basis.T @ information @ basis) @ basis.T
    return np.sqrt(np.diag(covariance))


def holds(schema: Schema, query: str, group: int, level: str) -> bool:
    """Whether a group of the first factor of a query has a level of the first attribute."""
    position = schema.attributes[0].levels.index(level)
    return any(bool(layer[position] == group) for layer in schema.query(query).factors[0].layers)


if __name__ == "__main__":
    main()
