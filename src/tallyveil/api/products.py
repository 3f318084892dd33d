"""The products, one entry for each kind of release: what the commands that serve all of them must know of each.

Each product is made by a command of its own, which knows its inputs. `report` writes the page of any release, and
`evaluate` says which command compares a release with the truth. A command that is given the input or the release of
another product says which command to use.
"""

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tallyveil.errors import ConfigError, StoreError
from tallyveil.files.finished import LOG, PROGRAMME, refuse_unfinished
from tallyveil.files.manifest import Manifest, ReleaseKind
from tallyveil.files.manifest_files import read_manifest, write_manifest, written_manifest
from tallyveil.files.marks import Marks, marks_of
from tallyveil.plans.guarantee import with_guarantee
from tallyveil.products.dhc.public.programme_file import read_programme, stated_programme
from tallyveil.report.page import REPORT
from tallyveil.storage.json_files import read_text_file
from tallyveil.storage.outputs import remove
from tallyveil.storage.paths import inside

if TYPE_CHECKING:
    from tallyveil.files.cubes.publication import Published


@dataclass(frozen=True, slots=True)
class ProductDoor:
    """What the commands know of a product.

    Attributes:
        usage: The command that makes a release, with its arguments.
        page: Writes the page of a release.
        keys: Tables of its TOML file by which the file is known; none where its input is something else.
        evaluation: The command that compares a release with the truth, with its arguments; None where there is none.
        guarantee: The manifest of a release with the guarantee that follows from ledger, plan and public inputs.
        cubes: The tables of a release, for publications in forms that all products share; None where it has none.
    """

    usage: str
    page: Callable[[Path], Path]
    keys: frozenset[str] = frozenset()
    evaluation: str | None = None
    guarantee: Callable[[Path, Manifest], Manifest] = with_guarantee
    cubes: "Callable[[Path, Manifest], Published] | None" = None


# Pages are imported when they are written: their drawing costs time that other commands need not pay.
def _release_page(out: Path) -> Path:
    from tallyveil.products.topdown.page.release import write_report

    return write_report(out)


def _measurements_page(out: Path) -> Path:
    from tallyveil.products.topdown.page.measurements import write_measurements_report

    return write_measurements_report(out)


def _safetab_page(out: Path) -> Path:
    from tallyveil.products.safetab.page.persons import write_safetab_report

    return write_safetab_report(out)


def _households_page(out: Path) -> Path:
    from tallyveil.products.safetab.page.persons import write_households_report

    return write_households_report(out)


def _groups_page(out: Path) -> Path:
    from tallyveil.products.safetab.page.groups import write_groups_report

    return write_groups_report(out)


def _table_page(out: Path) -> Path:
    from tallyveil.products.lattice.page.table import write_table_report

    return write_table_report(out)


def _programme_page(out: Path) -> Path:
    from tallyveil.products.dhc.page import write_programme_report

    return write_programme_report(out)


# Likewise, tables are read by modules that other commands do not need.
def _release_cubes(out: Path, manifest: Manifest) -> "Published":
    from tallyveil.products.topdown.cubes import cubes_of_release

    return cubes_of_release(out, manifest)


def _safetab_cubes(out: Path, manifest: Manifest) -> "Published":
    from tallyveil.products.safetab.public.cubes import cubes_of_persons

    return cubes_of_persons(out, manifest)


def _household_cubes(out: Path, manifest: Manifest) -> "Published":
    from tallyveil.products.safetab.public.cubes import cubes_of_households

    return cubes_of_households(out, manifest)


def _group_cubes(out: Path, manifest: Manifest) -> "Published":
    from tallyveil.products.safetab.public.cubes import cubes_of_groups

    return cubes_of_groups(out, manifest)


def _table_cubes(out: Path, manifest: Manifest) -> "Published":
    from tallyveil.products.lattice.public.cubes import cubes_of_table

    return cubes_of_table(out, manifest)


def _guarantee_of_runs(out: Path, manifest: Manifest) -> Manifest:
    from tallyveil.products.safetab.public.privacy import with_runs

    return with_runs(out, manifest)


def _guarantee_of_table(out: Path, manifest: Manifest) -> Manifest:
    from tallyveil.products.lattice.public.verified import with_table

    return with_table(out, manifest)


EVALUATE: Final = "tallyveil evaluate RUN --truth RECORDS"
EVALUATE_SAFETAB: Final = "tallyveil safetab evaluate PARAMS DATA --finished RUN"
EVALUATE_GROUPS: Final = "tallyveil safetab evaluate FILE.TOML DATA --finished RUN"
PARAMETERS: Final = "config.json"
"""File by which a folder of SafeTab parameters is known."""

PRODUCTS: Final[Mapping[ReleaseKind, ProductDoor]] = {
    ReleaseKind.TOPDOWN: ProductDoor(
        usage="tallyveil run RELEASE.TOML --out DIR",
        keys=frozenset({"records", "geography", "schema", "strategy", "spine", "outputs"}),
        page=_release_page,
        evaluation=EVALUATE,
        cubes=_release_cubes,
    ),
    ReleaseKind.MEASUREMENTS: ProductDoor(
        usage="tallyveil measure RELEASE.TOML --out DIR", page=_measurements_page
    ),
    ReleaseKind.SAFETAB: ProductDoor(
        usage="tallyveil safetab run PARAMS DATA --out DIR",
        page=_safetab_page,
        evaluation=EVALUATE_SAFETAB,
        guarantee=_guarantee_of_runs,
        cubes=_safetab_cubes,
    ),
    ReleaseKind.HOUSEHOLDS: ProductDoor(
        usage="tallyveil safetab households PARAMS DATA --out DIR",
        page=_households_page,
        evaluation=EVALUATE_SAFETAB,
        guarantee=_guarantee_of_runs,
        cubes=_household_cubes,
    ),
    ReleaseKind.GROUPS: ProductDoor(
        usage="tallyveil safetab run FILE.TOML DATA --out DIR",
        keys=frozenset({"cells", "groupings", "levels"}),
        page=_groups_page,
        evaluation=EVALUATE_GROUPS,
        guarantee=_guarantee_of_runs,
        cubes=_group_cubes,
    ),
    ReleaseKind.SUBSPACE: ProductDoor(
        usage="tallyveil subspace release TABLE.TOML --out DIR",
        keys=frozenset({"table", "attributes", "mechanism", "constraints", "chain"}),
        page=_table_page,
        evaluation=EVALUATE,
        guarantee=_guarantee_of_table,
        cubes=_table_cubes,
    ),
}


PROGRAMME_FILE: Final = ProductDoor(
    usage="tallyveil run PROGRAMME.TOML --out DIR",
    page=_programme_page,
    keys=frozenset({"programme", "releases"}),
)
"""A programme of releases, whose folder has a `programme.json` and no manifest of its own."""


def is_programme(path: Path) -> bool:
    """Whether a file is that of a programme, by its tables. What cannot be read as TOML is left to other readers."""
    # What cannot be read has no tables here; the reader of the product's files says why.
    return bool((_tables(path) or set()) & PROGRAMME_FILE.keys)


def _tables(path: Path) -> set[str] | None:
    """Names of the tables of a TOML file; None where it cannot be read."""
    try:
        return set(tomllib.loads(read_text_file(path)))
    except (OSError, ValueError, RecursionError):
        return None


def require_input(path: Path, kind: ReleaseKind) -> None:
    """Refuse the input of another product, with the command that takes it.

    What cannot be read as TOML is left to the reader of the product's files, whose errors say more.

    Args:
        path: What the user named.
        kind: A product that has a TOML file.
    Raises:
        ConfigError: the input is of another product, or of none.
    """
    # The folder and its file are both taken, because people name either.
    if path.name == PARAMETERS or (path / PARAMETERS).is_file():
        usages = [PRODUCTS[product].usage for product in (ReleaseKind.SAFETAB, ReleaseKind.HOUSEHOLDS)]
        raise _other(f"{path} holds SafeTab parameters", usages)
    keys, wanted = _tables(path), PRODUCTS[kind].keys
    # A key of the wanted product is enough: a typing error in other keys is for its own reader to tell.
    if keys is None or keys & wanted:
        return
    usages = [product.usage for product in (*PRODUCTS.values(), PROGRAMME_FILE) if keys & product.keys]
    if usages:
        raise _other(f"{path} is the file of another product, by its tables {_listed(keys)}", usages)
    raise _other(
        f"{path} describes no product: it has the tables {_listed(keys)}, and none of {_listed(wanted)}",
        [product.usage for product in PRODUCTS.values()],
    )


def _other(what: str, usages: list[str]) -> ConfigError:
    commands = " or ".join(f"`{usage}`" for usage in usages)
    return ConfigError(
        f"{what}. Use {commands}. Nothing was read or spent.",
        code="other-product",
    )


def _listed(keys: set[str] | frozenset[str]) -> str:
    return ", ".join(f"[{key}]" for key in sorted(keys)) or "(none)"


def write_page(release: Path) -> Path:
    """Write the page of a finished folder of any product, or of a programme, from its published files.

    Returns:
        Path of the page.

    Raises:
        StoreError: the folder holds no finished release, or a file of it is missing or damaged.
    """
    if (release / PROGRAMME).is_file():
        return PROGRAMME_FILE.page(release)
    # First, since the manifest of an unfinished run may be half written: the error then says to finish the run.
    refuse_unfinished(release)
    # Its product reads the manifest again, and compares it with the ledger.
    return PRODUCTS[written_manifest(release).kind].page(release)


def publish_clean(release: Path) -> tuple[Path, ...]:
    """Take out of a release, or of all releases of a programme, what no mechanism made and earlier versions wrote.

    These are seconds and memory by stage in the manifest, and the log with its times, machines and processes. The page
    is drawn anew. No count and no digest of another file changes.

    Args:
        release: Folder of the release or of the programme. A signature of its manifest does not fit afterwards.
    Returns:
        The folders of the releases.
    Raises:
        StoreError: the folder holds no finished release, or cannot be written to.
    """
    folders = [release]
    if (release / PROGRAMME).is_file():
        folders = [inside(release, entry["name"]) for entry in stated_programme(release)["releases"]]
    for folder in folders:
        manifest = read_manifest(folder)
        write_manifest(folder, manifest)
        remove(folder / LOG)
        if (folder / REPORT).exists():
            write_page(folder)
    if (release / PROGRAMME).is_file():
        write_page(release)
    return tuple(folders)


def marks_in(release: Path) -> Marks:
    """What must be said of a finished release of any product, or of a programme; raises StoreError as `write_page`."""
    if (release / PROGRAMME).is_file():
        content = read_programme(release)
        return Marks(content["protected"], tuple(content["warnings"]))
    return marks_of(read_manifest(release, *ReleaseKind))


def write_page_of_programme(release: Path) -> None:
    """Write `programme.json` and the page of the programme that a release belongs to, if it belongs to one.

    They say what the release says of itself, which an evaluation has changed.

    Raises:
        StoreError: as for `write_page`.
    """
    programme = release.absolute().parent
    if (programme / PROGRAMME).is_file():
        names = [entry["name"] for entry in stated_programme(programme)["releases"]]
        if release.absolute().name in names:
            write_page(programme)


def require_understood(understood: bool, what: str) -> None:
    """Refuse to look at true counts unless somebody has said that the results are not private.

    Args:
        understood: Whether it was said.
        what: What would be revealed, and what to give if that is acceptable.
    Raises:
        ConfigError: it was not said.
    """
    if not understood:
        raise ConfigError(f"{what} Nothing was read.", code="not-private")


def require_evaluation(release: Path, command: str) -> ReleaseKind:
    """The kind of a finished release, which a command can compare with the truth.

    Args:
        release: Its folder.
        command: The command, as in `PRODUCTS`.
    Raises:
        StoreError: the folder holds no finished release, or one that this command does not compare.
    """
    kind = read_manifest(release, *_with_results()).kind
    evaluation = PRODUCTS[kind].evaluation
    if evaluation == command:
        return kind
    advice = "No command compares it with the truth." if evaluation is None else f"Use `{evaluation}`."
    raise StoreError(
        f"{release} holds a release of `{kind.command}`, which this command does not evaluate. {advice} Nothing was "
        "read or declassified.",
        code="no-release",
    )


def cubes_in(release: Path) -> "tuple[Manifest, Published]":
    """The manifest and the tables of a finished release of any product that has tables.

    Raises:
        StoreError: the folder holds no finished release, a programme, or a release without tables; or it is damaged.
    """
    if (release / PROGRAMME).is_file():
        names = ", ".join(
            str(inside(release, entry["name"])) for entry in stated_programme(release)["releases"]
        )
        raise StoreError(
            f"{release} holds a programme, whose releases are published one by one. Name one of {names}.",
            code="no-release",
        )
    manifest = read_manifest(release)
    cubes = PRODUCTS[manifest.kind].cubes
    if cubes is None:
        raise StoreError(
            f"{release} holds what `{manifest.kind.command}` made, which has no tables. Make a release of it with "
            "`tallyveil estimate`, which spends nothing.",
            code="no-release",
        )
    return manifest, cubes(release, manifest)


def _with_results() -> tuple[ReleaseKind, ...]:
    """All kinds but measurements alone, which have no counts: `tallyveil estimate` makes a release of them."""
    return tuple(kind for kind in PRODUCTS if kind is not ReleaseKind.MEASUREMENTS)
