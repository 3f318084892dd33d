"""Whether the attacks prove anything: they must succeed where there is next to no noise, and never beat a bound."""

from typing import Any

import numpy as np

LEAST = {
    "files": {
        "recovered": 0.9,
        "tables": 0.9,
        "noisy": 0.99,
        "certain": 0.75,
        "certain and true": 0.99,
        "tables excess": 0.9,
        "membership area": 0.8,
    },
    "districts": {"total exact": 0.8, "household exact": 0.9, "area": 0.85},
}
"""The least rate of each attack at epsilon 1000, and without noise."""
LEAST_POWER = 0.99
NOISELESS = ("epsilon 1000", "exact")
MOST_BLIND = {
    "files": {"tables": 0.6, "noisy": 0.6, "noisy confirmed in": 0.1},
    "districts": {"total exact": 0.1},
}
"""The largest rate of an attacker without data on blocks. If it is larger, the made-up people are too alike."""


def unproved(results: dict[str, Any]) -> list[str]:
    """What is wrong with the results, as sentences; none if the attacks prove what they should."""
    failures = []
    for attack, result in results.items():
        rows = {row["name"] for row in result["rows"]}
        failures += [f"{attack}: there is no row {name!r}." for name in NOISELESS if name not in rows]
    for attack, least in LEAST.items():
        for row in results.get(attack, {"rows": []})["rows"]:
            rates = {name: float(np.mean(values)) for name, values in row["rates"].items()}
            if row["name"] in NOISELESS:
                failures += [
                    f"{attack}, {row['name']}: {name} is {rates[name]:.3f}, wanted at least {wanted}."
                    for name, wanted in least.items()
                    if not rates[name] >= wanted  # a rate that is no number proves nothing
                ]
            if row["name"] == "no data":
                failures += [
                    f"{attack}, no data: {name} is {rates[name]:.3f}, wanted at most {wanted}."
                    for name, wanted in MOST_BLIND[attack].items()
                    if name in rates and not rates[name] <= wanted
                ]
    for row in results.get("states", {"rows": []})["rows"]:
        for source in ("measurements", "tables"):
            failures += _of_states(row, source) if source in row else []
    return failures


def _of_states(row: dict[str, Any], source: str) -> list[str]:
    """What is wrong with one attack on all states."""
    told, failures = row[source], []
    if not told.get("within", True):
        failures.append(
            f"states, {row['name']}: the attack on {source} does better than the certified bound allows."
        )
    if row["name"] in NOISELESS and not told["power"][0] >= LEAST_POWER:
        failures.append(f"states, {row['name']}: the attack on {source} has power {told['power'][0]:.3f}.")
    return failures
