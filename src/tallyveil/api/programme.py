"""Plan and run a programme: releases of the same people that run in order, with one total guarantee."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallyveil.api.arguments import (
    AnyPath,
    Flag,
    Progress,
    WholeNumber,
    Workers,
    book_of,
    checked,
    fixed,
    key_of,
)
from tallyveil.api.clusters import Cluster
from tallyveil.api.planned import Forecast, Plan
from tallyveil.api.products import write_page
from tallyveil.api.released import Release, finished
from tallyveil.files.finished import PROGRAMME
from tallyveil.files.marks import NOT_PRIVATE, short_mark
from tallyveil.files.signatures import signature_of
from tallyveil.printable import described

if TYPE_CHECKING:
    from tallyveil.products.dhc.public.plan import ProgrammePlan
    from tallyveil.runs.product import Outcome


class PlannedProgramme:
    """A programme as it is planned. Nothing confidential was opened to make it.

    Attributes:
        content: The plan in the types of the library.
    """

    def __init__(self, content: "ProgrammePlan") -> None:
        self.content = content

    @property
    def name(self) -> str:
        """Name of the programme."""
        return self.content.name

    @property
    def releases(self) -> dict[str, Plan]:
        """The plan of each release by its name, in the order in which they run."""
        return {release.name: Plan(release.plan) for release in self.content.releases}

    @property
    def guarantee(self) -> dict[str, Any]:
        """What all releases guarantee together, as plain data: `by_unit` for each unit of record, and `together`.

        Raises:
            BudgetError, SolverError: no guarantee can be given.
        """
        from tallyveil.products.dhc.public.plan import planned_total

        return planned_total(self.content)

    @checked
    def forecast(
        self,
        *,
        blocks: WholeNumber | None = None,
        people: WholeNumber | None = None,
        geography: Flag = False,
    ) -> "ProgrammeForecast":
        """What is known of all releases before any records are opened; the arguments are as for `Plan.forecast`."""
        from tallyveil.products.dhc.public.plan import planned_total

        releases = {
            name: plan.forecast(blocks=blocks, people=people, geography=geography)
            for name, plan in self.releases.items()
        }
        # What bypassing costs follows from the geography, so that its events are known once it was opened.
        events = [
            each.plan.event(each.allocation.event())
            for each in releases.values()
            if each.allocation is not None
        ]
        return ProgrammeForecast(self.content, releases, planned_total(self.content, events or None))

    def __repr__(self) -> str:
        return f"<PlannedProgramme {self.name}: {', '.join(self.releases)}>"

    def _repr_html_(self) -> str:
        lines = [(name, plan.guarantee.statement) for name, plan in self.releases.items()]
        lines.append(("together", self.guarantee["together"]["statement"]))
        lead = "Releases of the same people, in this order. No record was opened, and nothing is spent."
        return described(f"Plan of programme {self.name}", lines, lead)


@dataclass(frozen=True, slots=True, repr=False)
class ProgrammeForecast:
    """What is known of a programme before any records are opened; made by `PlannedProgramme.forecast`.

    Attributes:
        plan: The programme in the types of the library.
        releases: What is known of each release, by its name.
        guarantee: What all releases guarantee together, as plain data.
    """

    plan: "ProgrammePlan"
    releases: dict[str, Forecast]
    guarantee: dict[str, Any]

    @property
    def resources(self) -> dict[str, Any] | None:
        """Resources of releases that run one after the other: times and sizes add up, and memory is that of the
        largest. None where sizes are not known."""
        needed = [each.resources for each in self.releases.values() if each.resources is not None]
        if not needed:
            return None
        return {
            "memory_bytes": max(resources.memory for resources in needed),
            "disk_bytes": sum(resources.disk for resources in needed),
            "seconds": round(sum(resources.total_seconds for resources in needed), 1),
        }

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the plans allow and is seldom meant, each once."""
        return tuple(dict.fromkeys(text for each in self.releases.values() for text in each.warnings))

    def to_mapping(self) -> dict[str, Any]:
        """Plain data, as `tallyveil plan --json` prints it."""
        from tallyveil.plans.record import plan_record

        releases = [
            {
                "release": release.name,
                "file": str(release.file),
                "reads": list(release.reads),
                **plan_record(release.plan, None, self.releases[release.name].allocation),
            }
            for release in self.plan.releases
        ]
        needed = self.resources
        return {
            "name": self.plan.name,
            "releases": releases,
            "guarantee": self.guarantee,
            **({"resources": needed} if needed is not None else {}),
        }


class Programme:
    """The finished releases of a programme.

    Attributes:
        path: Its folder, as a path from the root.
        content: Content of its `programme.json`.
        releases: The releases by their names, in the order in which they ran.
        already_finished: Whether all were finished before the call that returned this object, which then did nothing.
    """

    def __init__(
        self, path: Path, content: dict[str, Any], releases: dict[str, Release], *, already_finished: bool
    ) -> None:
        # A path from the root: the object stays right when the current folder changes.
        self.path = fixed(path)
        self.content = content
        self.releases = releases
        self.already_finished = already_finished

    @property
    def name(self) -> str:
        """Name of the programme."""
        return str(self.content["name"])

    @property
    def protected(self) -> bool:
        """Whether all noise came from secret keys. If it did not, the releases protect nobody."""
        return bool(self.content["protected"])

    @property
    def warnings(self) -> tuple[str, ...]:
        """What must be said wherever the releases are shown."""
        return tuple(self.content["warnings"])

    @property
    def guarantee(self) -> dict[str, Any]:
        """What all releases guarantee together, as plain data: `by_unit` for each unit of record, and `together`."""
        return dict(self.content["guarantee"])

    @property
    def signature(self) -> str:
        """Of `programme.json`: "signed by" with the fingerprint of a key, "unsigned", or "signature does not fit"."""
        return str(signature_of(self.path / PROGRAMME))

    def report(self) -> Path:
        # From the published files alone, so that the page says nothing that the files do not.
        """Write the page of the programme again, from the published files of its releases.

        Returns:
            Path of the HTML file.
        Raises:
            StoreError: a folder was changed, or the page cannot be written.
        """
        return write_page(self.path)

    def __repr__(self) -> str:
        return f"<Programme {self.path}: {', '.join(self.releases)}{short_mark(self.warnings)}>"

    def _repr_html_(self) -> str:
        lines = [
            *((NOT_PRIVATE, warning) for warning in self.warnings),
            *((name, release.guarantee.statement) for name, release in self.releases.items()),
            ("together", str(self.guarantee["together"]["statement"])),
            ("signature", self.signature),
            ("folder", str(self.path)),
        ]
        return described(f"Programme {self.name}", lines)


@checked
def plan_programme(programme: AnyPath) -> PlannedProgramme:
    """Plan all releases of a programme. No records are opened, and nothing is spent.

    Args:
        programme: Path of a programme file (TOML), which names a release file for each release.
    Raises:
        StoreError: a file cannot be read.
        ConfigError: the programme file or a release file is wrong.
        SchemaError, BudgetError: a schema or shares are wrong, or the costs of the releases do not add up.
    """
    from tallyveil.products.dhc.public.from_toml import load_programme

    return PlannedProgramme(load_programme(fixed(programme)))


@checked
def run_programme(
    programme: AnyPath,
    out: AnyPath,
    *,
    workers: Workers | None = None,
    cluster: Cluster = None,
    insecure_test_key: str | None = None,
    book: AnyPath | None = None,
    observer: Progress | None = None,
) -> Programme:
    """Make all releases of a programme, or go on with a programme that was interrupted.

    The inputs of all releases are read and checked first. Then each release is made in its own folder, in the order of
    the file. The same call after an interruption keeps the finished releases and spends nothing more for them.

    Args:
        programme: Path of a programme file (TOML).
        out: Folder of the programme, in which each release gets a folder of its name. It does not exist, is empty, or
            holds releases of this programme.
        workers: Number of threads, or of worker processes of a cluster; None for one per core. The releases do not
            depend on it.
        cluster: As for `run`; None for what each release file says.
        insecure_test_key: Any text, for tests and examples. The noise then follows from the text, and the releases
            protect nobody.
        book: As for `run`; each release is entered by itself, and all are looked at before the first one is made.
        observer: Is told of progress.
    Returns:
        The finished programme. Its page and those of its releases are written.
    Raises:
        TallyveilError: before the first spend, if an input or the folder is wrong. Later only if a release fails that
            could not be checked before; the message then says which releases are finished, and how to go on.
    Privacy: spends the budget of each release once, however often the programme is interrupted and taken up again.
    """
    from tallyveil.products.dhc.public.from_toml import load_programme
    from tallyveil.products.dhc.run import run as running
    from tallyveil.runs.observer import SilentObserver

    # The key before everything: a wrong one must not leave a folder that looks begun.
    key, folder = key_of(insecure_test_key), Path(out)
    plan = load_programme(fixed(programme), fixed(folder))
    entered = book_of(book, *(release.plan.book for release in plan.releases))
    settings = running.ProgrammeSettings(
        key, observer or SilentObserver(), workers, _with_page, cluster, entered
    )
    outcome = running.run_programme(plan, folder, settings)
    releases = {name: finished(release) for name, release in outcome.releases.items()}
    whole = Programme(folder, outcome.content, releases, already_finished=outcome.already_finished)
    # The page is written again only when something was stated anew; an old one is then still right.
    if outcome.stated_anew or not (whole.path / "report.html").exists():
        whole.report()
    return whole


def _with_page(_name: str, outcome: "Outcome") -> None:
    finished(outcome)
