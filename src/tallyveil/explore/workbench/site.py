"""Make the workbench of a plan: a static site in which its budget and shares can be moved."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tallyveil.explore.files import OTHER, SITE_FILE, write_json_data
from tallyveil.explore.folder import replaced_site
from tallyveil.explore.pages import copy_pages
from tallyveil.explore.workbench.content import plan_content, require_offered
from tallyveil.explore.workbench.estimates import Areas, write_estimates
from tallyveil.plans.from_toml.load import load_plan
from tallyveil.plans.release import ReleasePlan
from tallyveil.products.topdown.run.before_spend import inputs_of
from tallyveil.storage.json_files import JsonObject
from tallyveil.version import VERSION

FORMAT: Final = 1
INDEX: Final = Path("app", "workbench", "index.html")


@dataclass(frozen=True, slots=True)
class Workbench:
    """A workbench that was made.

    Attributes:
        path: Its folder.
        why: Why it has no expected errors of estimates; None if it has them.
    """

    path: Path
    why: str | None

    def to_mapping(self) -> dict[str, Any]:
        """Plain data."""
        return {"site": str(self.path), "why_no_estimates": self.why}


def make_workbench(
    release_file: Path,
    site: Path,
    *,
    compared: Path | None = None,
    areas: Areas | None = None,
    queries: Sequence[str] | None = None,
) -> Workbench:
    """Make the workbench of a release file.

    Args:
        release_file: The release file.
        site: Folder of the site: it does not exist, is empty, or holds an earlier site, which is replaced.
        compared: A second release file, whose numbers stand beside those of the first; None without.
        areas: The public geography and the entities, if they may be opened; None for a regular spine.
        queries: Queries whose estimates are shown; None for the tables and all measured queries.
    Returns:
        What was made.
    Raises:
        ConfigError: a release file is not offered, or a query is not known.
        StoreError: the folder holds something else or an input, or cannot be written to.
    """
    plan, content = _offered(release_file)
    inputs, other, second = [release_file, *inputs_of(plan)], None, None
    if compared is not None:
        second, other = _offered(compared)
        inputs += [compared, *inputs_of(second)]
    with replaced_site(site, inputs) as unfinished:
        copy_pages(unfinished, INDEX)
        estimates = write_estimates(unfinished, plan, areas or Areas(), queries)
        if second is not None and other is not None:
            other |= _other_estimates(unfinished / OTHER, second, plan, areas or Areas(), queries)
        write_json_data(
            unfinished,
            SITE_FILE,
            {
                "format": FORMAT,
                "made_by": f"tallyveil {VERSION}",
                "file": release_file.name,
                "plan": {**content, **estimates},
                "other": other,
                "other_file": None if compared is None else compared.name,
            },
        )
    return Workbench(site, estimates["why"])


def _offered(release_file: Path) -> tuple[ReleasePlan, JsonObject]:
    """A plan and what the page is told of it; raises ConfigError if the workbench does not offer it."""
    plan = load_plan(release_file)
    require_offered(release_file, plan)
    return plan, plan_content(release_file, plan)


def _other_estimates(
    folder: Path, plan: ReleasePlan, first: ReleasePlan, areas: Areas, queries: Sequence[str] | None
) -> JsonObject:
    """Write the covariances of the second plan on the spine of the first.

    A geography has the geolevels of the first plan. A regular spine can have any: the page takes the numbers of
    children of geolevels with the same names from the first one.
    """
    if plan.schema != first.schema:
        return {
            "spine": None,
            "why": "The second plan has another schema, so its estimates are not compared.",
        }
    if areas.hierarchies is not None and plan.geolevels != first.geolevels:
        return {
            "spine": None,
            "why": "The second plan has other geolevels than the geography of the first, so its estimates are not "
            "compared. Without --read-geography they are compared on a regular spine.",
        }
    return write_estimates(folder, plan, areas, queries)
