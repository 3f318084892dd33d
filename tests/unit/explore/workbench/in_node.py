"""Runs the workbench's modules under node, and makes plans to ask them about."""

from pathlib import Path
from typing import Any

import numpy as np
from tests.unit.explore.nodes import answer_of

import tallyveil.explore

APP = Path(tallyveil.explore.__file__).parent / "app"
SCRIPT = Path(__file__).with_name("answers.mjs")
STEPS = 100_000

SMALL = """# A small release.
[release]
name = "small"

[records]
path = "people.parquet"
geocode = "block"

[geography]
path = "blocks.parquet"
geocode = "block"
geolevels = ["State", "County", "Block"]
prefix_lengths = [2, 5, 15]

[schema]
name = "sex-by-age"
[[schema.attributes]]
name = "sex"
levels = ["female", "male"]
[[schema.attributes]]
name = "age"
levels = ["0-17", "18-64", "65+"]

[privacy]
neighbours = "bounded" # one record changes its value
mechanism = "discrete_gaussian"
rho = "1"

[strategy]
rho = "9/10"
[strategy.geolevels]
State = "1/4"
County = "1/4"
Block = "1/2"
[strategy.queries."*"]
total = "1/3"
"sex*age" = "2/3"
[strategy.queries.State] # no share for the total, which is published exactly
"sex*age" = "1"

[[invariants]] # published exactly
query = "total"
geolevels = ["State"]

[outputs]
tables = ["total", "sex"]
"""
LAPLACE = (
    SMALL.replace("discrete_gaussian", "discrete_laplace")
    .replace('rho = "1"', 'epsilon = "1"')
    .replace('rho = "9/10"', 'epsilon = "9/10"')
)


def ask_node(task: str, **content: Any) -> Any:
    """The answer of a task of `answers.mjs`."""
    return answer_of(SCRIPT, APP, task, content)


def random_moves(content: Any, rng: np.random.Generator, n: int = 4) -> list[dict[str, Any]]:
    """Moves of some sliders, and a budget."""
    total = f"{np.exp(rng.uniform(np.log(0.05), np.log(4))):.3g}"
    moves: list[dict[str, Any]] = [{"total": total}]
    for _ in range(n):
        level = int(rng.integers(-1, len(content["geolevels"])))
        group = content["geolevels"] if level < 0 else content["geolevels"][level]["queries"]
        steps = int(STEPS * rng.uniform(0.001, 0.8))
        moves.append(
            {"level": None if level < 0 else level, "place": int(rng.integers(len(group))), "steps": steps}
        )
    return moves
