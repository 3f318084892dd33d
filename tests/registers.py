"""A made-up register as offices have them: codes of unequal length, semicolons, Latin-1, gaps, and canaries in it."""

from pathlib import Path

import numpy as np

CANARY = "zzcanary"
"""In the records and in no codebook: it must be nowhere else."""
STATES = ("single", "married", "widowed", "divorced")


def write_register(folder: Path, people: int, municipalities: int = 60, seed: int = 3) -> None:
    """Write persons.csv, municipalities.csv and codebook.csv.

    Args:
        folder: Where.
        people: Number of people.
        municipalities: Number of municipalities, the last tenth of them without people.
        seed: Of the made-up people.
    """
    draw = np.random.default_rng(seed)
    # Numbers without leading zeros, as registers have them: "7", "58", "1203".
    codes = [str(7 + 17 * number) for number in range(municipalities)]
    cantons = [f"C{1 + number * 26 // municipalities}" for number in range(municipalities)]
    lines = ["code;name;canton"] + [
        f"{code};Dörfli {code};{canton}" for code, canton in zip(codes, cantons, strict=True)
    ]
    (folder / "municipalities.csv").write_bytes(("\r\n".join(lines) + "\r\n").encode("iso-8859-1"))
    sizes = draw.pareto(1.1, municipalities - municipalities // 10) + 0.05
    where = draw.choice(len(sizes), people, p=sizes / sizes.sum())
    sexes = draw.choice(["m", "w"], people)
    ages = draw.integers(0, 96, people)
    married = draw.choice([*STATES, ""], people, p=[0.4, 0.42, 0.06, 0.08, 0.04])
    rows = [
        f"{CANARY}{number};{codes[place]};{sex};{age};{state};{age * 13},5;Zürich {CANARY}"
        for number, (place, sex, age, state) in enumerate(zip(where, sexes, ages, married, strict=True))
    ]
    header = "person;municipality;sex;age;marital status;income;note"
    (folder / "persons.csv").write_bytes(("\r\n".join([header, *rows]) + "\r\n").encode("iso-8859-1"))
    levels = [("sex", "m"), ("sex", "w"), *(("marital status", state) for state in STATES)]
    book = "".join(f"{attribute};{level}\r\n" for attribute, level in levels)
    (folder / "codebook.csv").write_text(f"attribute;level\r\n{book}", encoding="utf-8-sig")
