"""Attack made-up releases at several budgets, and write down what was learnt.

    python -m tests.attacks.run [--out build/attacks] [--only files districts states]

Writes `results.json` with the rates of every release; with --only, the results of the other attacks stay in it, unless
the sources have changed since. When it has those of all attacks, `tables.md` and `attacks.svg` are written, which
docs/attacks.md shows. Keys follow from fixed texts, so that the same version of the same packages gives the same rates.
The exit status is 1 if an attack fails where there is next to no noise, because it then proves nothing elsewhere, or if
one does better than the certified bound allows. It is 2 if the attacks cannot be made.
"""

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from tests.attacks.budgets import (
    DHC_PERSONS,
    REDISTRICTING,
    Budget,
    budgets_from,
    people_release,
    redistricting_release,
)
from tests.attacks.differencing import (
    TABLES,
    block_differences,
    estimated,
    guessed_tables,
    make_districts,
    moved_apart,
    movers,
    pairs_of,
    release_at,
    tables_of,
)
from tests.attacks.files_attack import attacked, exact_sight, released_sight, unattacked
from tests.attacks.judged import unproved
from tests.attacks.membership import (
    FALSE_ALARMS,
    certified,
    exact_scores,
    make_states,
    measure_states,
    noisy_scores,
    release_file,
    release_states,
    table_scores,
    told_apart,
    within_the_bound,
)
from tests.attacks.pages import draw, tables_of_page
from tests.attacks.worlds import make_people_world
from tests.commands import (
    PROJECT,
    NotCheckedError,
    alone,
    digest_of,
    exit_code,
    folder,
    refuse_another_package,
)

import tallyveil

RESULTS = "results.json"
SOURCES = "sources.sha256"
"""File with the digest of the sources that the results come from."""
BLOCKS = 500
DISTRICT_BLOCKS = 300
FILES_RELEASES = 5
RELEASES = 3
"""Releases at each budget, each with a key of its own."""
PAIRS = 200
DISTRICT = 30
"""Blocks in a district."""
ESTIMATED = 25
"""Pairs of districts whose estimates are looked at, in each release at production's budget."""
MEASURED_STATES = 20_000
RELEASED_STATES = 1_000

Results = dict[str, Any]


def attack_files(folder: Path) -> Results:
    """Reconstruction, names for records, and membership without knowledge of the others."""
    world = make_people_world(folder, BLOCKS)
    rows = [_row("no data", [unattacked(world)])]
    for budget in budgets_from(DHC_PERSONS):
        found = []
        for number in range(FILES_RELEASES):
            sight = released_sight(world, budget, folder / "release", f"attack files {budget.name} {number}")
            found.append(attacked(world, sight, certain=number == 0))
            shutil.rmtree(folder / "release")
        rows.append(
            _row(budget.name, found, budget, tallyveil.plan(people_release(budget.rho), folder=folder))
        )
    rows.append(_row("exact", [attacked(world, exact_sight(world), certain=True)]))
    inside = world.counts(~world.held_out)
    sizes = {"people": int(inside.sum()), "held out": int(world.held_out.sum()), "blocks": BLOCKS}
    return {"sizes": {**sizes, "inhabited": int((inside.sum(axis=1) > 0).sum())}, "rows": rows}


def attack_districts(folder: Path) -> Results:
    """Differences of districts, and of releases."""
    world = make_districts(folder, DISTRICT_BLOCKS)
    later = folder / "later"
    later.mkdir()
    after, change = moved_apart(world, later, seed=1)
    pairs = pairs_of(world, PAIRS, DISTRICT, seed=1)
    truth, truth_after = ({name: one.counts(name) for name in TABLES} for one in (world, after))
    rows = [_row("no data", [block_differences(world, guessed_tables(world), pairs)])]
    covered: dict[str, list[float]] = {}
    for budget in budgets_from(REDISTRICTING):
        found = []
        for number in range(RELEASES):
            key = f"attack districts {budget.name} {number}"
            release = release_at(world, budget.rho, folder / "release", key)
            shown = tables_of(release, world.geocodes)
            if budget.name == "production":
                for name, values in estimated(world, release, pairs[:ESTIMATED]).items():
                    covered.setdefault(name, []).append(float(values.mean()))
            second = release_at(after, budget.rho, folder / "second", f"{key} after")
            moves = movers(shown["total"], tables_of(second, world.geocodes)["total"], change)
            found.append(block_differences(world, shown, pairs) | moves)
            shutil.rmtree(folder / "release")
            shutil.rmtree(folder / "second")
        plan = tallyveil.plan(redistricting_release(budget.rho), folder=folder)
        rows.append(_row(budget.name, found, budget, plan))
    exact = block_differences(world, truth, pairs) | movers(truth["total"], truth_after["total"], change)
    rows.append(_row("exact", [exact]))
    return {
        "sizes": {
            "people": world.people.height,
            "blocks": DISTRICT_BLOCKS,
            "pairs": len(pairs),
            "movers": int((change < 0).sum()),
        },
        "rows": rows,
        "covered": covered,
    }


def attack_states(folder: Path) -> Results:
    """Membership with knowledge of everybody else, against the certified bound."""
    worlds = {}
    for name, number in (("measurements", MEASURED_STATES), ("tables", RELEASED_STATES)):
        (folder / name).mkdir()
        worlds[name] = make_states(folder / name, number)
    rows = []
    for budget in budgets_from(REDISTRICTING):
        key, bound = f"attack states {budget.name}", certified(worlds["tables"], budget.rho)
        measured = measure_states(worlds["measurements"], budget.rho, folder / "measured", key)
        released = release_states(worlds["tables"], budget.rho, folder / "released", key)
        found = {
            "measurements": noisy_scores(worlds["measurements"], measured),
            "tables": table_scores(worlds["tables"], released),
        }
        row: Results = {"name": budget.name, "rho": str(budget.rho)}
        row |= _epsilons(tallyveil.plan(release_file(budget.rho), folder=folder / "tables"), budget)
        row |= {"most power": bound.power(FALSE_ALARMS), "most advantage": bound.advantage()}
        for name, values in found.items():
            within = within_the_bound(worlds[name], values, bound)
            row[name] = _rates(told_apart(worlds[name], values)) | {"within": within}
        rows.append(row)
        shutil.rmtree(folder / "measured")
        shutil.rmtree(folder / "released")
    exact = _rates(told_apart(worlds["tables"], exact_scores(worlds["tables"])))
    rows.append({"name": "exact", "tables": exact})
    return {"sizes": {"measurements": MEASURED_STATES, "tables": RELEASED_STATES}, "rows": rows}


ATTACKS: dict[str, Callable[[Path], Results]] = {
    "files": attack_files,
    "districts": attack_districts,
    "states": attack_states,
}


def main() -> int:
    """Run the attacks, and judge them."""
    options = _options()
    refuse_another_package()
    with alone(options.out, "attacks"):
        results = _earlier(options.out)
        for name in options.only:
            began = time.process_time()
            with tempfile.TemporaryDirectory() as scratch:
                results[name] = ATTACKS[name](Path(scratch)) | {"seconds": round(time.process_time() - began)}
            results = _rounded(results)
            (options.out / SOURCES).write_text(_sources())
            (options.out / RESULTS).write_text(json.dumps(results, indent=1) + "\n")
            print(f"{name}: {results[name]['seconds']} s of processor time", flush=True)
        if set(ATTACKS) <= set(results):
            named = tables_of_page(results).items()
            tables = "\n\n".join(f"{name}\n\n{table}" for name, table in named)
            (options.out / "tables.md").write_text(tables + "\n")
            draw(results, options.out / "attacks.svg")
    failures = unproved(results)
    print("\n".join(failures) or _praise(results))
    return 1 if failures else 0


def _praise(results: Results) -> str:
    """That nothing is wrong with the attacks of which there are results, and which others there are."""
    missing = sorted(set(ATTACKS) - set(results))
    return (
        f"{', '.join(sorted(results))}: every attack succeeds where there is next to no noise, and none exceeds its "
        f"bound" + (f"; not tried: {', '.join(missing)}" if missing else "")
    )


def _sources() -> str:
    return digest_of([PROJECT / "src", Path(__file__).parent])


def _earlier(out: Path) -> Results:
    """The results that are in the folder already, if they come from the same sources.

    Raises:
        NotCheckedError: The file of results cannot be read.
    """
    file, sources = out / RESULTS, out / SOURCES
    if not file.exists():
        return {}
    if not sources.exists() or sources.read_text() != _sources():
        print(f"{file} comes from other sources, and is written anew", flush=True)
        return {}
    try:
        return dict(json.loads(file.read_text()))
    except json.JSONDecodeError as error:
        raise NotCheckedError(f"{file} is damaged ({error}); remove it, and give the command again") from None


def _row(name: str, found: list[dict[str, float]], budget: Budget | None = None, plan: Any = None) -> Results:
    """The rates of the releases at a budget: name -> one number for each release that has it."""
    names = dict.fromkeys(name for one in found for name in one)
    row: Results = {"name": name, "rates": {key: [one[key] for one in found if key in one] for key in names}}
    return row if budget is None else row | {"rho": str(budget.rho)} | _epsilons(plan, budget)


def _epsilons(plan: Any, budget: Budget) -> Results:
    """Epsilon at delta 1e-10: the certified bound, and the one that follows from rho alone."""
    from tallyveil.accounting.renyi import zcdp_to_epsilon

    return {"epsilon": plan.guarantee.epsilon.upper, "epsilon of rho": zcdp_to_epsilon(budget.rho, "1e-10")}


def _rates(told: Any) -> Results:
    return {
        name.replace("_", " "): [one.value, one.lower, one.upper]
        for name in ("false_alarms", "power", "advantage", "area")
        if (one := getattr(told, name))
    }


def _rounded(item: Any) -> Any:
    """Numbers with six digits after the point."""
    if isinstance(item, dict):
        return {key: _rounded(value) for key, value in item.items()}
    if isinstance(item, list):
        return [_rounded(value) for value in item]
    return round(float(item), 6) if isinstance(item, float | np.floating) else item


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Attack made-up releases at several budgets.")
    parser.add_argument("--out", type=folder, default="build/attacks", help="folder of results.json")
    parser.add_argument(
        "--only", nargs="+", default=list(ATTACKS), choices=list(ATTACKS), help="attacks to run"
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(exit_code(main))
