"""The guarantee of every product, by every way of asking for it: are they one number?

python benchmarks/accounting_doors.py [--blocks 240]

Makes up a country of two states, and releases on it what `tallyveil synth --schema dhc` writes: redistricting persons,
housing units, and the persons and units of the DHC, on the spines of production, where some geounits are bypassed; then
the tables of SafeTab, of persons and of households, and a single table whose margins stay exact. What the manifest
states is compared with the page, the plan, `account total` on the ledger, and `account epsilon` on the release file.
The exit status is 1 if an answer differs in a bit. Beside each stands the width of its bounds, and the processor
seconds of `account total`, with the start of Python.
"""

import argparse
import json
import os
import re
import shutil
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


def page_says(folder: Path, epsilon: Epsilon, statement: str | None = None) -> Epsilon | str:
    """The same bounds, if the page has their upper end as claims or tables show it, or a statement; else that not."""
    text = unescape(re.sub(r"<[^>]*>", " ", (folder / "report.html").read_text(encoding="utf-8")))
    shown = (
        (claim_text(epsilon["upper"]), bound_cell(epsilon["upper"])) if statement is None else (statement,)
    )
    return epsilon if any(form in text for form in shown) else "another number"


def row(name: str, stated: Epsilon, ledgers: Sequence[Path], delta: str, ways: Mapping[str, Ask]) -> bool:
    """Print what is stated, and which ways of asking answer the same; whether all do."""
    total, seconds = timed("account", "total", *ledgers, "--delta", delta)
    answers = {"account total": total["epsilon"], **{way: ask() for way, ask in ways.items()}}
    differing = [f"{way}: {answer}" for way, answer in answers.items() if not agree(answer, stated)]
    width = stated["upper"] - stated.get("lower", stated["upper"])
    said = "; ".join(differing) or ", ".join(answers)
    print(f"| {name} | {stated['upper']:.10g} | {width:.0e} | {seconds:.2f} | {said} |", flush=True)
    return not differing


def agree(answer: Epsilon | str, stated: Epsilon) -> bool:
    """Whether an answer has the bits of all that is stated, which of pure noise is an upper end alone."""
    return not isinstance(answer, str) and {end: answer[end] for end in stated} == stated


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
    """SafeTab's tables of persons, and those of households, whose detail follows from them."""
    params, people, out = EXAMPLES / "safetab", folder / "persons", folder / "tables"
    command("synth", "--safetab", params, "--people", 5000, "--blocks", 200, "--out", people)
    command("safetab", "run", params, people, "--out", out)
    same = tables("SafeTab-P", out, {"plan": partial(planned_tables, params)})
    homes, houses = household_params(folder / "homes"), folder / "houses"
    write_households(people)
    command("safetab", "households", homes, people, "--t1", out, "--out", houses)
    return tables("SafeTab-H", houses, {}) and same


def tables(name: str, out: Path, ways: Mapping[str, Ask]) -> bool:
    """The ways of asking for one run of SafeTab."""
    stated = read(out / "manifest.json")["privacy"]["US"]
    epsilon, delta = stated["epsilon"], str(float(Fraction(stated["delta"])))
    return row(name, epsilon, [out], delta, {"page": partial(page_says, out, epsilon), **ways})


def planned_tables(params: Path) -> Epsilon:
    """What the plan of tables of persons says; there is no plan of tables of households, whose groups T1 chooses."""
    answer: Epsilon = command("safetab", "plan", params)["privacy"][0]["epsilon"]
    return answer


def household_params(folder: Path) -> Path:
    """A parameter folder with the budgets of households in the place of those of persons."""
    shutil.copytree(EXAMPLES / "safetab", folder)
    config = read(folder / "config.json")
    persons = "privacy_budget_p_level_"
    budgets = {key.removeprefix(persons): config.pop(key) for key in list(config) if key.startswith(persons)}
    thresholds = config.pop("thresholds_p")
    for key in ("privacy_budget_p_stage_1_fraction", "zero_suppression_chance"):
        config.pop(key)
    for table in ("t3", "t4"):
        config |= {f"privacy_budget_h_{table}_level_{place}": budget for place, budget in budgets.items()}
    config |= {"thresholds_h_t3": thresholds, "thresholds_h_t4": {place: [200] for place in thresholds}}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return folder


def write_households(people: Path) -> None:
    """Every tenth person heads a household of some type and tenure."""
    header, *persons = (people / "person-records.txt").read_text(encoding="utf-8").splitlines()
    columns = header.replace("CENRACE", "HHRACE").split("|")[3:]
    heads = [
        [*person.split("|")[3:], str(1 + i % 5), str(1 + i % 4)] for i, person in enumerate(persons[::10])
    ]
    lines = [[*columns, "HOUSEHOLD_TYPE", "TEN"], *heads]
    text = "".join("|".join(line) + "\n" for line in lines)
    (people / "household-records.txt").write_text(text, encoding="utf-8")


def single_table(folder: Path) -> bool:
    """A table with exact margins, whose noise is pure."""
    file, out = EXAMPLES / "subspace" / "table.toml", folder / "single"
    command("subspace", "release", file, "--out", out)

    def stated(privacy: Mapping[str, float]) -> Epsilon:
        return {"upper": privacy["epsilon"]}

    privacy = read(out / "manifest.json")["privacy"]
    epsilon = stated(privacy)
    ways: dict[str, Ask] = {
        "page": partial(page_says, out, epsilon, privacy["statement"]),
        "plan": lambda: stated(command("subspace", "diagnose", file)["privacy"]),
    }
    # Pure epsilon holds at every delta; the total is asked at a small one.
    return row("single table", epsilon, [out], "1e-300", ways)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--blocks", type=int, default=240, help="blocks of the made-up country")
    arguments = parser.parse_args()
    print("| release | epsilon at most | width | s | the same as in the manifest |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as name:
        same = [releases(Path(name), arguments.blocks), safetab(Path(name)), single_table(Path(name))]
    return 0 if all(same) else 1


if __name__ == "__main__":
    sys.exit(main())
