"""Readers of SafeTab's files: the configuration, the code files, the geography and both kinds of records."""

from pathlib import Path

import base_inputs as base
from targets import Builder, Target, at

from tallyveil.products.safetab.confidential.measure import read_households
from tallyveil.products.safetab.public.household_tables import read_group_totals
from tallyveil.products.safetab.public.households import read_household_plan
from tallyveil.products.safetab.public.regions import read_regions
from tallyveil.products.safetab.run.run import read_safetab_inputs


def _persons(root: Path, name: str, form: str = "csv") -> Target:
    """One file of SafeTab; all of them are read, because the files check each other."""
    files = base.safetab(root / "scratch").files
    for other, content in files.items():
        path = root / other
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content or b"")
    content = files[name]
    assert content is not None

    def read() -> object:
        found = read_safetab_inputs(root / "p", root / "d")
        return found.plan.digest(), [one.digest() for one in found.persons.values()]

    return Target(content, at(root / name, read), form, confidential=name == "d/person-records.txt")


def _households(root: Path, name: str, form: str = "csv") -> Target:
    """One file of SafeTab-H."""
    files = base.households(root / "scratch").files
    for other, content in files.items():
        path = root / other
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content or b"")
    content = files[name]
    assert content is not None

    def read() -> object:
        plan = read_household_plan(root / "p")
        regions = read_regions(root / "d", plan.config)
        read_group_totals(root / "d", None, plan)
        return [one.digest() for one in _each(read_households(root / "d", plan, regions))]

    return Target(content, at(root / name, read), form, confidential=name == "d/household-records.txt")


def _each(found: dict[str, object]) -> list:
    """All records, by run and table."""
    return [
        one for value in found.values() for one in (value.values() if isinstance(value, dict) else [value])
    ]


CODES = "race-and-ethnicity-code"
SAFETAB_TARGETS: dict[str, Builder] = {
    "safetab-config": lambda root: _persons(root, "p/config.json", "json"),
    "safetab-codes": lambda root: _persons(root, f"p/{CODES}s.txt"),
    "safetab-iterations": lambda root: _persons(root, "p/race-characteristic-iterations.txt"),
    "safetab-code-to-iteration": lambda root: _persons(root, f"p/{CODES}-to-iteration.txt"),
    "safetab-geography": lambda root: _persons(root, "d/GRF-C.txt"),
    "safetab-persons": lambda root: _persons(root, "d/person-records.txt"),
    "safetab-h-config": lambda root: _households(root, "p/config.json", "json"),
    "safetab-h-households": lambda root: _households(root, "d/household-records.txt"),
    "safetab-h-totals": lambda root: _households(root, "d/pop-group-totals.txt"),
}
