"""The guarantee of every product, by every way of asking for it: are they one number?

python benchmarks/accounting_doors.py [--blocks 240]

Makes up a country of two states, and releases on it what `tallyveil synth --schema dhc` writes: redistricting persons,
housing units, and the persons and units of the DHC, on the spines of production, where some geounits are bypassed; then
the tables of SafeTab. What the manifest states is compared with the page, the plan, `account total` on the ledger, and
`account epsilon` on the release file. The exit status is 1 if an answer differs in a bit. Beside each stands the width
of its bounds, and the processor seconds of `account total`, with the start of Python.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import partial
from html import unescape
from pathlib import Path
from typing import Any

from tallyveil.accounting.numbers import bound_cell, claim_text

EXAMPLES = Path(__file__).parents[1] / "examples"
Epsilon = dict[str, float]
Ask = Callable[[], Epsilon | str]


def command(*arguments: object) -> dict[str, Any]:
    """What a command answers as JSON."""
    line = [sys.executable, "-m", "tallyveil", *map(str, arguments), "--json"]
    answer: dict[str, Any] = json.loads(
        subprocess.run(line, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
    )
    return answer


def timed(*arguments: object) -> tuple[dict[str, Any], float]:
    """The same, and the processor seconds of the command."""
    before = os.times()
    answer = command(*arguments)
    after = os.times()
    return answer, sum(after[2:4]) - sum(before[2:4])


def page_says(folder: Path, epsilon: Epsilon) -> Epsilon | str:
    """The same bounds, if the page has their upper end as claims or tables show it; otherwise that it has not."""
    text = unescape(re.sub(r"<[^>]*>", " ", (folder / "report.html").read_text(encoding="utf-8")))
    upper = epsilon["upper"]
    return epsilon if claim_text(upper) in text or bound_cell(upper) in text else "another number"


def row(name: str, stated: Epsilon, ledgers: Sequence[Path], delta: str, ways: Mapping[str, Ask]) -> bool:
    """Print what is stated, and which ways of asking answer the same; whether all do."""
    total, seconds = timed("account", "total", *ledgers, "--delta", delta)
    answers = {"account total": total["epsilon"], **{way: ask() for way, ask in ways.items()}}
    differing = [f"{way}: {answer}" for way, answer in answers.items() if answer != stated]
    width = stated["upper"] - stated["lower"]
    said = "; ".join(differing) or ", ".join(answers)
    print(f"| {name} | {stated['upper']:.10g} | {width:.0e} | {seconds:.2f} | {said} |", flush=True)
    return not differing


def read(path: Path) -> Any:
    """A JSON file."""
    return json.loads(path.read_text(encoding="utf-8"))


def releases(folder: Path, blocks: int) -> bool:
    """The four releases of the DHC's programme, and the programme."""
    people, out = folder / "people", folder / "releases"
    command("synth", "--schema", "dhc", "--blocks", blocks, "--states", 2, "--out", people)
    programme = people / "programme.toml"
    command("run", programme, "--out", out)
    paths = sorted(path.parent for path in out.glob("*/manifest.json"))
    same = []
    for path in paths:
        exact, file = read(path / "manifest.json")["privacy"]["exact"], people / f"{path.name}.toml"
        delta, epsilon = exact["delta"], exact["epsilon"]
        ways: dict[str, Ask] = {
            "page": partial(page_says, path, epsilon),
            "plan": partial(planned, file),
            "account epsilon": partial(released_by, file, delta),
        }
        same.append(row(path.name, epsilon, [path], delta, ways))
    stated = read(out / "programme.json")["guarantee"]["together"]
    epsilon = stated["exact_epsilon"]

    def plan() -> Epsilon:
        answer: Epsilon = command("plan", programme, "--read-geography")["guarantee"]["together"][
            "exact_epsilon"
        ]
        return answer

    same.append(
        row(
            "the four together",
            epsilon,
            paths,
            stated["delta"],
            {"page": partial(page_says, out, epsilon), "plan": plan},
        )
    )
    return all(same)


def planned(file: Path) -> Epsilon:
    """What the plan of a release file says, with its geography."""
    answer: Epsilon = command("plan", file, "--read-geography")["privacy"]["exact"]["epsilon"]
    return answer


def released_by(file: Path, delta: str) -> Epsilon:
    """What `account epsilon` says of a release file."""
    answer: Epsilon = command("account", "epsilon", "--plan", file, "--delta", delta)["epsilon"]
    return answer


def safetab(folder: Path) -> bool:
    """SafeTab's tables."""
    params, people, out = EXAMPLES / "safetab", folder / "persons", folder / "tables"
    command("synth", "--safetab", params, "--people", 5000, "--blocks", 200, "--out", people)
    command("safetab", "run", params, people, "--out", out)
    stated = read(out / "manifest.json")["privacy"]["US"]
    ways: dict[str, Ask] = {
        "page": partial(page_says, out, stated["epsilon"]),
        "plan": lambda: command("safetab", "plan", params)["privacy"][0]["epsilon"],
    }
    return row("SafeTab-P", stated["epsilon"], [out], str(float(Fraction(stated["delta"]))), ways)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--blocks", type=int, default=240, help="blocks of the made-up country")
    arguments = parser.parse_args()
    print("| release | epsilon at most | width | s | the same as in the manifest |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as name:
        same = [releases(Path(name), arguments.blocks), safetab(Path(name))]
    return 0 if all(same) else 1


if __name__ == "__main__":
    sys.exit(main())
