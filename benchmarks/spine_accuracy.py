"""Who gets accurate totals: releases with the same budget on the plain spine, the paper's, and ours.

The population is made up so that its blocks are Rhode Island's (voting age by race and ethnicity from the 2010
census); places, county subdivisions, school districts and tribal areas are its real ones. Or, with `--blocks`, a
made-up state whose areas cross tracts (`made_up_state.py`). Shares are those of the State-rooted
allocation of 2020. Spines:

    plain               State, County, Tract, Block_Group, Block as the Bureau draws them
    paper               tribal areas as a branch under the State (which keeps its invariant); optimised block groups
                        with production's limit, int(sqrt(n) + 12) blocks
    paper, groups       the same with tract groups, which get half of the tracts' share
    cut groups          block groups cut by the entities they hold, so that both are sums of the parts; no limit; tract
                        groups, which get half of the State's share
    ours, no limits     the paper's optimised block groups as a start; tract groups with half of the State's share; then
                        block groups of any size, chosen by variance for the four families, tracts and counties, and
                        at the cost of all other areas
    ours                the same, but no other area may lose more than 5 % against the start: the default
    ours, block groups  the same with the 5 % counted from the geography as given

Every family of the entity table has a row: the four that steps and aim name, and all others.

Releases of one key share their noise wherever geounit, variance and the geolevel's number are the same. Errors are
those of totals, from published block counts. An area nests in tracts when it is made of whole ones. First come
off-spine distances and the exact standard deviations of totals that the measurements allow, before counts are made
non-negative.

    python benchmarks/spine_accuracy.py [--counts FILE --entities FILE | --blocks N] [--keys 10] [--json FILE]
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import json
import tempfile
import time
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from unittest import mock

import headline
import numpy as np
import polars as pl
from made_up_state import FAMILIES, LENGTHS, state, write_people

import tallyveil.products.topdown.run.run as running
from tallyveil.api.beginning import write_country
from tallyveil.budget.spine.variance import family_accuracies, measured_variances, totals_summed
from tallyveil.geography.areas import geounits_as_entities
from tallyveil.geography.entities import off_spine_distances
from tallyveil.geography.tables import family_columns
from tallyveil.noise.key import insecure_key
from tallyveil.plans.from_toml.load import load_plan
from tallyveil.products.topdown.run.inputs import read_hierarchies, read_other_entities
from tallyveil.products.topdown.run.run import run_release

SHARED = Path(__file__).parents[2] / "shared" / "data"
TARGET_LOWER, TARGET_HIGHER = 0.25, 0.05

# Shares of the State-rooted allocation of 2020, in parts of 4,099.
STATE, COUNTY, TRACT, BLOCK_GROUP, BLOCK = (Fraction(part, 4099) for part in (689, 695, 772, 1778, 165))
NEW_LEVELS = {"State_Part": "County", "Tract_Group": "Tract"}
"""Whose queries a geolevel measures that the allocation does not have."""


def _step(**keys: object) -> str:
    lines = "\n".join(f"{key} = {json.dumps(value)}" for key, value in keys.items())
    return f"[[spine.steps]]\n{lines}\n"


BRANCH = _step(kind="branch", family="tribal_area", geolevel="State", name="AIAN", parts="State_Part")
GROUPS = {"kind": "group_by_membership", "geolevel": "Block_Group", "children": "Block"}
PAPER_GROUPS = _step(**GROUPS, families=FAMILIES, cutoff=12)
CUT_GROUPS = _step(**GROUPS, families=(*FAMILIES, "block_group"), cutoff=1000)
TRACT_GROUPS = _step(kind="group_by_distance", families=FAMILIES, geolevel="Tract_Group", children="Tract")
AIM = dict.fromkeys((*FAMILIES, "Tract", "County"), "1")


def _regroup(**keys: object) -> str:
    given = "\n".join(f"{key} = {json.dumps(value)}" for key, value in keys.items())
    aim = "\n".join(f"{name} = {json.dumps(weight)}" for name, weight in AIM.items())
    return f'[spine.regroup]\ngeolevel = "Block_Group"\ncutoff = 1000\n{given}\n[spine.regroup.aim]\n{aim}\n'


PLAIN = {"State": STATE, "County": COUNTY, "Tract": TRACT, "Block_Group": BLOCK_GROUP, "Block": BLOCK}
PAPER = {"State": STATE / 2, "State_Part": STATE / 2, "County": COUNTY}
LOWER = {"Block_Group": BLOCK_GROUP, "Block": BLOCK}
OURS = {"State": STATE / 2, "County": COUNTY, "Tract_Group": STATE / 2, "Tract": TRACT, **LOWER}
# Steps, and the share of each geolevel, root first.
SPINES: dict[str, tuple[tuple[str, ...], dict[str, Fraction]]] = {
    "plain": ((), PLAIN),
    "paper": ((BRANCH, PAPER_GROUPS), {**PAPER, "Tract": TRACT, **LOWER}),
    "paper, groups": (
        (BRANCH, PAPER_GROUPS, TRACT_GROUPS),
        {**PAPER, "Tract_Group": TRACT / 2, "Tract": TRACT / 2, **LOWER},
    ),
    "cut groups": ((CUT_GROUPS, TRACT_GROUPS), OURS),
    "ours, no limits": ((PAPER_GROUPS, TRACT_GROUPS, _regroup(may_worsen=["{all}"])), OURS),
    "ours": ((PAPER_GROUPS, TRACT_GROUPS, _regroup()), OURS),
    "ours, block groups": ((PAPER_GROUPS, TRACT_GROUPS, _regroup(reference="geography")), OURS),
}


def release_file(folder: Path, name: str) -> Path:
    """The release file of one spine beside the inputs."""
    steps, shares = SPINES[name]
    text = (folder / "release.toml").read_text()
    start, stop = text.index("[strategy.geolevels]"), text.index("[strategy.queries.State]")
    geolevels = "\n".join(f'{level} = "{share}"' for level, share in shares.items())
    text = f"{text[:start]}[strategy.geolevels]\n{geolevels}\n\n{text[stop:]}"
    for level, like in NEW_LEVELS.items():
        if level in shares:
            queries = text[text.index(f"[strategy.queries.{like}]") :].split("\n\n", maxsplit=1)[0]
            text = text.replace(queries, f"{queries}\n\n{queries.replace(like, level)}")
    text = text.replace("[outputs]\n", '[outputs]\nmeasurements = "none"\nmicrodata = false\n')
    text = text.replace("[estimation]\n", '[estimation]\nvalues = "own"\n')
    text = text[: text.index("tables = ")] + 'tables = ["total"]\n'
    families = json.dumps([*FAMILIES, "block_group"])
    text += f'\n[spine]\nentities = "entities.parquet"\nfamilies = {families}\n' + "".join(steps)
    outside = [*family_columns(folder / "entities.parquet"), "State", "Block_Group", "Block"]
    text = text.replace('["{all}"]', json.dumps([family for family in outside if family not in AIM]))
    path = folder / f"{name.replace(', ', '-').replace(' ', '-')}.toml"
    path.write_text(text)
    return path


def areas_of(blocks: pl.DataFrame) -> pl.DataFrame:
    """Block, kind of area, area: one row for each area a block is in; areas that do not nest in tracts apart."""
    tract = pl.col("geocode").str.head(LENGTHS["Tract"])
    levels = [
        blocks.select("geocode", pl.lit(name).alias("kind"), pl.col("geocode").str.head(n).alias("area"))
        for name, n in LENGTHS.items()
    ]
    in_tract = blocks.group_by(tract.alias("tract")).len("blocks")
    families = []
    for family in others_of(blocks):
        held = blocks.select("geocode", pl.col(family).alias("area")).drop_nulls("area")
        families.append(held.select("geocode", pl.lit(family).alias("kind"), "area"))
    for family in FAMILIES[:3]:
        held = blocks.select("geocode", pl.col(family).alias("area")).drop_nulls("area")
        parts = held.group_by("area", tract.alias("tract")).len("held").join(in_tract, on="tract")
        nests = parts.group_by("area").agg((pl.col("held") == pl.col("blocks")).all().alias("nests"))
        ending = pl.when("nests").then(pl.lit(", nesting")).otherwise(pl.lit(", not nesting"))
        kind = (pl.lit(family) + ending).alias("kind")
        families.append(held.join(nests, on="area").select("geocode", kind, "area"))
    return pl.concat([*levels, *families])


def others_of(blocks: pl.DataFrame) -> list[str]:
    """Families of the entity table other than the first three of the aim."""
    return [name for name in blocks.columns if name not in ("geocode", "block_group", *FAMILIES[:3])]


def totals(path: Path, areas: pl.DataFrame) -> pl.DataFrame:
    """Total of every area from counts by block."""
    of_block = pl.read_parquet(path).group_by("geocode").agg(pl.col("count").sum().cast(pl.Int64))
    joined = areas.join(of_block, on="geocode", how="left").with_columns(pl.col("count").fill_null(0))
    return joined.group_by("kind", "area").agg(pl.col("count").sum()).sort("kind", "area")


def compare(folder: Path, names: list[str], keys: int) -> dict[str, dict[str, list[float]]]:
    """Mean absolute error of totals by spine and kind of area, key by key."""
    areas = areas_of(pl.read_parquet(folder / "entities.parquet"))
    truth = totals(folder / "records.parquet", areas)
    errors_by_spine: dict[str, dict[str, list[float]]] = {name: {} for name in names}
    for number in range(keys):
        start = time.perf_counter()
        for name in names:
            plan = load_plan(release_file(folder, name))
            with tempfile.TemporaryDirectory(dir=folder) as out:
                # Noise is bound to the spine; one binding for all lets them share it. The keys here protect nobody.
                with mock.patch.object(running, "binding_of", return_value=bytes(32)):
                    run_release(plan, Path(out) / "out", test_key=insecure_key(f"spine {number}"))
                path = Path(out) / "out"
                got = totals(path / "histogram" / "Block.parquet", areas)
            errors = got.with_columns(
                (pl.col("count") - truth["count"]).abs().cast(pl.Float64).alias("error")
            )
            for kind, error in errors.group_by("kind").agg(pl.col("error").mean()).rows():
                errors_by_spine[name].setdefault(kind, []).append(error)
        print(f"key {number}: {time.perf_counter() - start:.0f} s", flush=True)
    return errors_by_spine


def show_distances(folder: Path, names: list[str]) -> list[headline.Headline]:
    """Print mean and greatest off-spine distance of every family, and exact standard deviations of the same areas."""
    known = {
        name: (load_plan(path), read_hierarchies(load_plan(path)))
        for name in names
        for path in [release_file(folder, name)]
    }
    print("| areas; mean (greatest) | " + " | ".join(names) + " |\n|---" + "|---" * len(names) + "|")
    for family in FAMILIES:
        distances = [
            off_spine_distances(hierarchies.spine, hierarchies.family(family))
            for _, hierarchies in known.values()
        ]
        print(
            f"| {family}: distance | "
            + " | ".join(f"{distance.mean:.1f} ({distance.maximum})" for distance in distances)
            + " |"
        )
    rows: dict[str, list[str]] = {}
    means: dict[str, list[float]] = {}
    for plan, hierarchies in known.values():
        summed = totals_summed(plan.schema, plan.strategy)
        variances = measured_variances(hierarchies.spine, plan.strategy, summed, exact=("State",))
        whole = {area.name: area for area in hierarchies.replaced}  # counties, where the branch cuts them
        areas = [hierarchies.family(family) for family in FAMILIES]
        areas += [area for area in read_other_entities(plan, hierarchies.spine) if area.n_entities]
        for name in ("County", "Tract", "Block_Group", "Block"):
            level = hierarchies.spine.level_index(name)
            areas.append(whole.get(name) or geounits_as_entities(hierarchies.spine, level))
        for accuracy in family_accuracies(variances, areas):
            means.setdefault(accuracy.name, []).append(accuracy.mean)
            rows.setdefault(accuracy.name, []).append(f"{accuracy.mean:.2f} ({accuracy.greatest:.1f})")
    for name, cells in rows.items():
        print(f"| {name}: standard deviation | " + " | ".join(cells) + " |")
    return [
        headline.Headline(
            f"standard deviation, {name}",
            f"{deviations[-1]:.2f}",
            "times less than on the plain spine",
            deviations[0] / deviations[-1],
        )
        for name, deviations in means.items()
        if name in FAMILIES
    ]


def ratio(errors: Sequence[float] | np.ndarray, plain: Sequence[float] | np.ndarray) -> float:
    """Relative change of a mean error."""
    return float(np.mean(errors)) / max(float(np.mean(plain)), 1e-9) - 1


def show(errors_by_spine: dict[str, dict[str, list[float]]], areas: pl.DataFrame) -> None:
    """Print a table, and what is met of the targets."""
    numbers = dict(areas.group_by("kind").agg(pl.col("area").n_unique()).rows())
    names = list(errors_by_spine)
    print("\n| areas | number | " + " | ".join(names) + " |\n|---" + "|---" * (len(names) + 1) + "|")
    for kind in sorted(numbers, key=lambda kind: (kind not in LENGTHS, kind)):
        cells = []
        for name in names:
            values, plain = np.array(errors_by_spine[name][kind]), np.array(errors_by_spine[names[0]][kind])
            spread = f" ± {values.std(ddof=1) / np.sqrt(len(values)):.2f}" if len(values) > 1 else ""
            beside = f" ({ratio(values, plain):+.0%})" if name != names[0] else ""
            cells.append(f"{values.mean():.2f}{spread}{beside}")
        print(f"| {kind} | {numbers[kind]} | " + " | ".join(cells) + " |")
    for name in names[1:]:
        for kind in sorted(numbers):
            change = ratio(errors_by_spine[name][kind], errors_by_spine[names[0]][kind])
            if kind.endswith("not nesting") and change > -TARGET_LOWER:
                print(f"{name}: {kind} {change:+.1%}, wanted {-TARGET_LOWER:.0%} or lower")
            if kind in ("County", "Tract") and change > TARGET_HIGHER:
                print(f"{name}: {kind} {change:+.1%}, wanted {TARGET_HIGHER:+.0%} or lower")


def prepare(folder: Path, counts: Path, entities: Path, blocks: int | None) -> None:
    """Write the population and its entities."""
    if blocks is None:
        write_country(folder, blocks=None, schema="race-age", like=counts, seed=1)
        table = pl.read_parquet(entities)
    else:
        # Census geocodes have three digits for the block; the made-up ones have six.
        group = pl.col("geocode").str.head(LENGTHS["Block_Group"])
        number = pl.int_range(pl.len()).over(group).cast(pl.String).str.zfill(3)
        table = state(blocks, 1).with_columns((group + number).alias("geocode"))
        write_people(folder, table)
    geography = pl.read_parquet(folder / "geography.parquet")
    group = pl.col("geocode").str.head(LENGTHS["Block_Group"]).alias("block_group")
    path = folder / "entities.parquet"
    table.write_parquet(path)
    members = table.select("geocode", *family_columns(path), group)
    members.join(geography.select("geocode"), on="geocode", how="semi").write_parquet(path)


def main() -> None:
    """Run the comparison."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--counts", type=Path, default=SHARED / "ri_2010_counts.parquet")
    parser.add_argument("--entities", type=Path, default=SHARED / "ri_2010_entities.parquet")
    parser.add_argument("--blocks", type=int, help="a made-up state of so many blocks instead")
    parser.add_argument(
        "--keys", type=int, default=10, help="0: distances and exact standard deviations only"
    )
    parser.add_argument("--spines", nargs="+", default=list(SPINES), choices=list(SPINES))
    parser.add_argument("--json", type=Path)
    headline.add_option(parser)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        prepare(folder, arguments.counts, arguments.entities, arguments.blocks)
        headline.write(arguments.headline, show_distances(folder, arguments.spines))
        if not arguments.keys:
            return
        errors_by_spine = compare(folder, arguments.spines, arguments.keys)
        show(errors_by_spine, areas_of(pl.read_parquet(folder / "entities.parquet")))
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(errors_by_spine, indent=2))


if __name__ == "__main__":
    main()
