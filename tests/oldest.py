"""Print the oldest version that pyproject.toml allows of every dependency, as constraints for pip.

    python tests/oldest.py > oldest.txt && pip install --constraint oldest.txt .

Only what pyproject.toml names is held back; what those packages need in turn is the newest that fits.
"""

import re
import tomllib
from pathlib import Path

PROJECT = Path(__file__).parents[1]
BOUND = re.compile(r"([A-Za-z0-9_.-]+)>=([0-9.]+)")


def oldest(requirement: str) -> str:
    """`name==version` of a requirement such as `name>=version,<other`."""
    found = BOUND.match(requirement)
    if found is None:
        raise ValueError(f"{requirement!r} names no lowest version; write it as 'name>=version'")
    return f"{found[1]}=={found[2]}"


def main() -> None:
    """Print one constraint a line."""
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    for requirement in (*project["dependencies"], *project["optional-dependencies"]["dev"]):
        print(oldest(requirement))


if __name__ == "__main__":
    main()
