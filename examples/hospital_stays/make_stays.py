"""Make up hospital stays for `stays.toml`: one row for each stay, with up to three diagnoses.

    python examples/hospital_stays/make_stays.py stays.csv --stays 20000

Every stay is made up: no number comes from a hospital. Common diagnoses are much more common than rare ones, so that
the groups differ in size by orders of magnitude.
"""

import argparse
import csv
import random
from pathlib import Path

HERE = Path(__file__).parent
AGES = ("0-4", "5-14", "15-24", "25-44", "45-64", "65-74", "75-84", "85+")
REGIONS = ("North", "East", "South", "West", "Islands")
WEIGHTS = {"ages": (8, 4, 7, 18, 25, 17, 15, 6), "regions": (40, 25, 20, 14, 1)}
COLUMNS = ("region", "sex", "age", "diagnosis_1", "diagnosis_2", "diagnosis_3")


def made_up_stays(n: int, seed: int) -> list[tuple[str, ...]]:
    """Rows of `COLUMNS`; an empty text stands for no further diagnosis."""
    with (HERE / "diagnoses.csv").open(encoding="utf-8", newline="") as stream:
        codes = [row["code"] for row in csv.DictReader(stream)]
    chance, rows = random.Random(seed), []
    popularity = [1 / (1 + place) for place in range(len(codes))]
    for _ in range(n):
        (region,) = chance.choices(REGIONS, WEIGHTS["regions"])
        (age,) = chance.choices(AGES, WEIGHTS["ages"])
        drawn = chance.choices(codes, popularity, k=chance.choice((1, 1, 1, 2, 2, 3)))
        diagnoses = list(dict.fromkeys(drawn))
        rows.append((region, chance.choice("FM"), age, *diagnoses, *[""] * (3 - len(diagnoses))))
    return rows


def write_stays(path: Path, n: int, seed: int = 1) -> None:
    """Write made-up stays as CSV."""
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(COLUMNS)
        writer.writerows(made_up_stays(n, seed))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", type=Path)
    parser.add_argument("--stays", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    write_stays(given.path, given.stays, given.seed)
