"""The floor of bounded queries in `tallyveil plan --optimise`: what aims obtain in releases, by the floor.

A made-up State with facilities (2,016 cells, 3,000 blocks) has the State-rooted shares of the redistricting data. Sets
of aims leave its bounded query out. For each set and floor, releases of made-up records have the present and the new
shares, as with `--try`. Test keys protect nobody.

    python benchmarks/optimal_floor.py [--keys 6] [--blocks 3000] [--people 40000]
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import tempfile
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

from tallyveil.api.beginning import write_country
from tallyveil.budget.optimal.aims import Aim, Aims, VarianceModel
from tallyveil.plans.from_toml.load import load_plan
from tallyveil.products.topdown.run.optimal_shares import optimal_shares
from tallyveil.products.topdown.run.shares_trial import try_shares

FLOORS = ("0", "1/10", "1/4", "1/2", "9/10")
BELOW = ("County", "Tract", "Block_Group", "Block", "place")
TABLES = ("total", "votingage", "hispanic*cenrace", "votingage*hispanic*cenrace")
SETS = {
    "four tables, five areas": (BELOW, TABLES),
    "totals": (BELOW, ("total",)),
    "voting age": (("Tract", "Block_Group", "place"), ("votingage",)),
    "Hispanic by race": (("Block_Group", "Block", "place"), ("hispanic*cenrace",)),
    "voting age by Hispanic by race": (BELOW, ("votingage*hispanic*cenrace",)),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--keys", type=int, default=6, help="test keys to average over")
    parser.add_argument("--blocks", type=int, default=3000)
    parser.add_argument("--people", type=int, default=40_000)
    options = parser.parse_args()
    print("| aims | floor | promised | measured | worst aim measured |\n|---|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        write_country(Path(folder) / "state", blocks=options.blocks, schema="pl94-persons", states=1, seed=1)
        plan = load_plan(Path(folder) / "state" / "release.toml")
        for name, (areas, queries) in SETS.items():
            chosen_aims = tuple(Aim(area, query) for area in areas for query in queries)
            aims = Aims(
                VarianceModel.TOP_DOWN, aims=chosen_aims, entities=Path(folder) / "state" / "entities.parquet"
            )
            for floor in FLOORS:
                shares = optimal_shares(plan, replace(aims, floor=Fraction(floor)))
                trial = try_shares(plan, shares, options.keys, options.people)
                worst = int(trial.ratios.argmax())
                print(
                    f"| {name} | {floor} | {shares.mean_ratio:.2f} | {trial.mean_ratio:.2f} | "
                    f"{trial.ratios[worst]:.2f} ± {trial.margins[worst]:.2f}, {shares.outcomes[worst].query} at "
                    f"{shares.outcomes[worst].area} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
