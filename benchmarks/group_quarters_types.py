"""Whether measurements could divide a class of group quarters by type better than the facilities do.

    python benchmarks/group_quarters_types.py [--blocks 10] [--runs 400]

The people of a class of group quarters are fixed by the redistricting data. Where a block has several types of the
class, a DHC release divides them by the number of facilities, before the spend. Two tables are printed.

*What measurements say*: the standard deviation of the number of people of each type in one geounit, from all measured
queries of `dhc-persons-us-from-state` in this geounit by least squares, where the classes are known. No records are
needed: it follows from the strategy and the structural zeros.

*What each division leaves*: root mean squared errors of State and County totals of one type in a made-up State of 20
counties. Every county has some blocks (--blocks) with one facility of each of two types of a class, and five times as
many blocks with two facilities of one type, for each of both. Sizes of facilities are lognormal (deviation 0.7 of the
logarithm), with a mean of 20 for one type, and of 20 times a ratio for the other. The divisions are: by facilities, as
a release does it; by facilities times the mean size of the type in blocks with one type alone; and by a flow on
measurements of State and counties, which moves the latter to the least-squares totals. "told apart" is a pair of
types that a small query (`gq_constr_groups`) tells apart, "not told apart" one that only the large queries do. The
noise of the redistricting data is left out.
"""

import argparse

import headline
import numpy as np

from tallyveil.budget.presets import StrategyPreset, load_strategy_preset
from tallyveil.schema.presets import load_preset
from tallyveil.schema.schema import Schema

PRESET = "dhc-persons-us-from-state"
COUNTIES, ALONE, SPREAD, SIZE = 20, 10, 0.7, 20.0


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--blocks", type=int, default=10, help="blocks of a county with both types")
    parser.add_argument("--runs", type=int, default=400)
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
    pairs = {
        kind: tuple(float(deviations[level][types.index(name)]) for level in ("State", "County"))
        for kind, name in (("told apart", "shelters"), ("not told apart", "adult_group_homes"))
    }
    print("\nroot mean squared errors, in people")
    print(f"{'ratio':>6} {'pair':15} {'of':8}{'people':>8}{'facilities':>12}{'mean sizes':>12}{'flow':>10}")
    lines = []
    for ratio in (1.0, 2.0, 5.0):
        for kind, noise in pairs.items():
            people, errors = simulated(ratio, noise, given.blocks, given.runs)
            for place in ("State", "County"):
                numbers = "".join(
                    f"{errors[division][place]:12.1f}" for division in ("facilities", "sizes", "flow")
                )
                print(f"{ratio:6.0f} {kind:15} {place:8}{people[place]:8.0f}{numbers}")
            gain = errors["facilities"]["County"] / errors["flow"]["County"]
            lines.append(
                headline.Headline(
                    f"types of quarters, {kind}, ratio {ratio:.0f}", f"{gain:.2f} times", "", None
                )
            )
    headline.write(given.headline, lines)


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


def simulated(
    ratio: float, noise: tuple[float, float], blocks: int, runs: int
) -> tuple[dict[str, float], dict[str, dict[str, float]]]:
    """People at stake, and root mean squared errors of State and County totals by each division."""
    rng = np.random.default_rng(3)
    means = SIZE * np.array([1.0, ratio])
    sums = {division: np.zeros(2) for division in ("facilities", "sizes", "flow")}
    people = np.zeros(2)
    for _ in range(runs):
        sizes = facilities(rng, means, (COUNTIES, blocks))
        alone = facilities(rng, means, (COUNTIES, blocks * ALONE // 2)).mean(axis=(0, 1))
        both = sizes.sum(axis=2)
        truth = sizes[..., 0].sum(axis=1)
        division = {
            "facilities": (both / 2).sum(axis=1),
            "sizes": (both * alone[0] / alone.sum()).sum(axis=1),
        }
        state = truth.sum() + rng.normal() * noise[0]
        counties = truth + rng.normal(size=COUNTIES) * noise[1]
        # How far divisions of counties are from the truth: the flow gets the best weight that it could have.
        prior = np.var(division["sizes"] - truth) + 1e-9
        division["flow"] = flow(division["sizes"], prior, counties, state, noise, both.sum(axis=1))
        people += both.sum(), both.sum(axis=1).mean()
        for name, totals in division.items():
            sums[name] += (totals.sum() - truth.sum()) ** 2, ((totals - truth) ** 2).mean()
    errors = {
        name: dict(zip(("State", "County"), np.sqrt(both / runs).tolist(), strict=True))
        for name, both in sums.items()
    }
    return dict(zip(("State", "County"), (people / runs).tolist(), strict=True)), errors


def facilities(rng: np.random.Generator, means: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """Sizes of facilities of both types; shape (counties, blocks, 2)."""
    return 1 + np.floor((means - 0.5) * rng.lognormal(-(SPREAD**2) / 2, SPREAD, (*shape, 2)))


def flow(
    division: np.ndarray,
    prior: float,
    counties: np.ndarray,
    state: float,
    noise: tuple[float, float],
    most: np.ndarray,
) -> np.ndarray:
    """Totals of counties by least squares of a division, their measurements and that of their sum, within bounds."""
    weight = 1 / prior + 1 / noise[1] ** 2
    estimate = (division / prior + counties / noise[1] ** 2) / weight
    gap = (state - estimate.sum()) / (len(estimate) / weight + noise[0] ** 2) / weight
    return np.clip(estimate + gap, 0, most)


if __name__ == "__main__":
    main()
