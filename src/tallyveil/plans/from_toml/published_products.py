"""Products whose noisy measurements others published. Each is a TOML file with the sections of a release file."""

import tomllib
from importlib import resources
from pathlib import Path

from tallyveil.plans.from_toml.models import ReleaseFile
from tallyveil.plans.from_toml.planning import plan_of
from tallyveil.plans.release import ReleasePlan

_FOLDER = resources.files("tallyveil.plans.from_toml") / "published"


def published_products(layout: str) -> tuple[ReleasePlan, ...]:
    """The plans of the products of a layout, sorted by name. Their paths lead nowhere."""
    texts = {
        entry.name: entry.read_text(encoding="utf-8")
        for entry in _FOLDER.iterdir()
        if entry.name.startswith(f"{layout}-") and entry.name.endswith(".toml")
    }
    return tuple(
        plan_of(ReleaseFile.model_validate(tomllib.loads(texts[name]), context=Path()))
        for name in sorted(texts)
    )
