"""Edits of a release, of a publication and of a site, each made by a function of the folder. Most are generated.

An edit has a place, by which the table of the suite groups it, and says what it changes. `unseen` gives the reason
where nobody who has only the release could find it.
"""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl
from tests.forgery.forger import (
    changed_frame,
    changed_json,
    changed_ledger,
    digest,
    read,
    reseal,
    reseal_publication,
    without_page,
)

NO_KEY = "the key that says so is gone, and was never in the release"
NOT_DERIVED = "a fact about a run that left no other trace"
NO_RECORDS = "a name of the confidential records or of their universe, which no published file has"
OVERRULED = "a noisy answer that an exact count overrules, so that nothing follows from it"
NO_ITERATIONS = (
    "in how many groups a household can be follows from this and from iterations that no file lists"
)
NOT_NEEDED = "a setting that this law and its exact sampler do not need"
PUBLIC_INPUT = "a public input that the counts keep all the same"
SAME_COUNTS = "a setting of the estimate with which the counts would be the same"


@dataclass(frozen=True)
class Edit:
    """An edit, and what is found by.

    Attributes:
        place: What is edited.
        name: What is changed.
        forge: Changes a folder, and makes every digest anew.
        whole: Whether it takes `--whole` to find it.
        unseen: Why nobody could find it; empty where `verify` must.
    """

    place: str
    name: str
    forge: Callable[[Path], None]
    whole: bool = False
    unseen: str = ""


def other(value: Any) -> Any:
    """Another value of the same kind, of the sort a forger would like."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, float):
        return value / 2 if value else 1.0
    if isinstance(value, str):
        return value + "1" if value else "1"
    if isinstance(value, list):
        return value[:-1] if value else ["1"]
    return {} if value else 1


def leaves(content: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The places of all values in plain data that hold no further ones, and of all lists."""
    if isinstance(content, dict):
        for key, value in content.items():
            yield from leaves(value, (*path, key))
    elif isinstance(content, list):
        yield path
        for number, value in enumerate(content[:2]):
            yield from leaves(value, (*path, number))
    else:
        yield path


def at(content: Any, path: tuple[Any, ...], change: Callable[[Any], Any]) -> None:
    """Change one value in plain data."""
    for key in path[:-1]:
        content = content[key]
    content[path[-1]] = change(content[path[-1]])


def named(path: tuple[Any, ...]) -> str:
    return ".".join(map(str, path))


def manifest_edit(path: tuple[Any, ...]) -> Callable[[Path], None]:
    def forge(root: Path) -> None:
        changed_json(root / "manifest.json", lambda content: at(content, path, other))
        follow_plan(root, path)
        reseal(root)
        without_page(root)

    return forge


def follow_plan(root: Path, path: tuple[Any, ...]) -> None:
    """The copy of the plan in the folder is edited with the one in the manifest."""
    if path[:2] == ("body", "plan"):
        changed_json(root / "plan.json", lambda content: at(content, path[2:], other))


_UNSEEN = {
    "body.plan.records": NO_RECORDS,
    "body.plan.schema.name": NO_RECORDS,
    "body.plan.schema.structural_zeros.0.name": NO_RECORDS,
    "body.inputs.records_keyed_hash": NO_KEY,
    "body.solver": NOT_DERIVED,
    "versions": NOT_DERIVED,
    "tallyveil": NOT_DERIVED,
}
_SEEN_ALL_THE_SAME = ("families",)


_SAME_COUNTS = ("body.plan.estimation.Region.rounding.0", "body.plan.estimation.Town.rounding.1")


def _reason(path: tuple[Any, ...]) -> str:
    if path[-1] in _SEEN_ALL_THE_SAME:
        return ""
    if named(path) in _SAME_COUNTS:
        return SAME_COUNTS
    return next((why for prefix, why in _UNSEEN.items() if named(path).startswith(prefix)), "")


def of_manifest(root: Path) -> Iterator[Edit]:
    """Every statement of the manifest, and every key of its plan."""
    content = read(root / "manifest.json")
    for path in leaves(content):
        # Digests are made anew, and lists of files with them; the event is edited with the ledger below.
        if (
            path[0] in ("digest", "plan_digest", "files", "ledger", "format", "event")
            or path[-1] == "manifest_sha256"
        ):
            continue
        place = "plan" if path[:2] == ("body", "plan") else "manifest"
        # Other settings of the estimate show where the counts are estimated again.
        whole = path[:3] == ("body", "plan", "estimation")
        yield Edit(place, named(path), manifest_edit(path), whole=whole, unseen=_reason(path))
    added: dict[str, Callable[[Any], Any]] = {
        "a warning": lambda manifest: manifest["warnings"].append("All is well."),
        "a check": lambda manifest: manifest["checks"].append("no count is noisy"),
        "a look at the truth": lambda manifest: manifest["declassified"].append(
            {"line": 2, "description": "x", "reason": "y"}
        ),
        "an invariant": lambda manifest: manifest["privacy"]["invariants"].append("home at Town"),
        "classical epsilon": lambda manifest: manifest["privacy"].update(classical_epsilon=0.01),
        "the statement": lambda manifest: manifest["privacy"].update(statement="epsilon <= 0.01"),
        "the exact epsilon": lambda manifest: manifest["privacy"]["exact"].update(
            epsilon={"lower": 0.009, "upper": 0.01}
        ),
        "no invariant": lambda manifest: manifest["privacy"].update(invariants=[]),
    }
    for name, change in added.items():

        def forge(root: Path, change: Callable[[Any], Any] = change) -> None:
            changed_json(root / "manifest.json", change)
            reseal(root)
            without_page(root)

        yield Edit("manifest", name, forge)


def _with_event(root: Path, change: Callable[[list[dict[str, Any]]], None]) -> None:
    """Change the ledger; event, budget and cost of the manifest follow."""
    lines: list[dict[str, Any]] = []

    def whole(content: list[dict[str, Any]]) -> None:
        change(content)
        lines.extend(content)

    changed_ledger(root, whole)
    spends = [line for line in lines if line["kind"] == "spend"]

    def follow(manifest: dict[str, Any]) -> None:
        if spends:
            manifest["event"] = spends[0]["event"]
            manifest["spent"] |= {"spent": spends[0]["cost"], "declared": lines[0]["budget"]}

    changed_json(root / "manifest.json", follow)
    reseal(root)
    without_page(root)


def _spend(lines: list[dict[str, Any]]) -> dict[str, Any]:
    return next(line for line in lines if line["kind"] == "spend")


def _scaled(event: Any) -> None:
    if isinstance(event, dict):
        for parameter in ("variance", "scale", "epsilon"):
            if parameter in event:
                event[parameter] = f"{event[parameter]}1"
        for value in event.values():
            _scaled(value)
    elif isinstance(event, list):
        for value in event:
            _scaled(value)


def _parts(event: Any) -> list[Any]:
    """The parts of an event that is composed, at the first place that has any."""
    while "events" not in event:
        event["events"] = [dict(event)]
        event["kind"] = "sequential"
    parts: list[Any] = event["events"]
    return parts


def of_ledger(_: Path) -> Iterator[Edit]:
    """The ledger, chained anew, and the manifest after it."""
    changes: dict[str, Callable[[list[dict[str, Any]]], object]] = {
        "the declared budget": lambda lines: lines[0].update(budget="100"),
        "neighbours": lambda lines: lines[0].update(
            neighbours="unbounded" if lines[0]["neighbours"] == "bounded" else "bounded"
        ),
        "the run": lambda lines: [line.update(run="0" * 16) for line in lines if "run" in line],
        "the cost": lambda lines: _spend(lines).update(cost="1/1000"),
        "the token": lambda lines: _spend(lines).update(token="another"),
        "variances of the event": lambda lines: _scaled(_spend(lines)["event"]),
        "no invariant in the event": lambda lines: _parts(_spend(lines)["event"]).pop(),
        "no measurement in the event": lambda lines: _parts(_spend(lines)["event"]).pop(0),
        "no spend": lambda lines: lines.remove(_spend(lines)),
        "a second spend": lambda lines: lines.append(
            {**_spend(lines), "sequence": len(lines), "token": "again"}
        ),
        "a look at the truth": lambda lines: lines.append(
            {
                **{
                    key: value for key, value in _spend(lines).items() if key not in ("cost", "event", "kind")
                },
                "kind": "declassify",
                "sequence": len(lines),
                "token": "look",
                "event": {"kind": "non_private", "reason": "true counts were compared"},
            }
        ),
        "the test key": lambda lines: [lines.remove(line) for line in lines if line["kind"] == "declassify"],
    }
    for name, change in changes.items():
        yield Edit("ledger", name, partial(_with_event, change=change))
    yield Edit(
        "ledger",
        "the description",
        lambda root: _with_event(root, lambda lines: _spend(lines).update(description="x")),
        unseen=NOT_DERIVED,
    )


def _plus_one(column: str, row: int = 0) -> Callable[[pl.DataFrame], pl.DataFrame]:
    return lambda frame: frame.with_columns(
        pl.when(pl.int_range(pl.len()) == row)
        .then(pl.col(column) + 1)
        .otherwise(pl.col(column))
        .alias(column)
    )


def _first_answer(frame: pl.DataFrame) -> pl.DataFrame:
    """Add 10 to one noisy answer. The same added to all of them could be what an exact total rules out anyway."""
    values = frame["values"].to_list()
    values[0][0] += 10
    return frame.with_columns(pl.Series("values", values, dtype=frame.schema["values"]))


def frame_edit(
    path: str, change: Callable[[pl.DataFrame], pl.DataFrame], *also: str
) -> Callable[[Path], None]:
    def forge(root: Path) -> None:
        for name in (path, *also):
            if (root / name).is_file():
                changed_frame(root / name, change)
        reseal(root)
        without_page(root)

    return forge


def of_files(root: Path) -> Iterator[Edit]:
    """Every kind of file of counts, measurements and public inputs: a number, a row, a code."""
    first: dict[str, str] = {}
    for file in read(root / "manifest.json")["files"]:
        path = file["path"]
        if path.endswith(".parquet"):
            first.setdefault(
                "/".join(path.split("/")[:2]) if path.startswith(("tables/", "histogram/")) else path, path
            )
    for path in first.values():
        frame, top = pl.read_parquet(root / path), path.split("/")[0].removesuffix(".parquet")
        columns = [name for name in ("count", "lower") if name in frame.columns]
        if top == "intervals" or not frame.height:
            continue
        for column in columns:
            # The same number beside intervals, so that the two agree.
            also = f"intervals/{path.removeprefix('tables/')}" if top == "tables" else path
            unseen = PUBLIC_INPUT if top == "bounds" else ""
            forge = frame_edit(path, _plus_one(column), *({also} - {path}))
            yield Edit(top, f"{path}: {column}", forge, unseen=unseen)
        if "values" in frame.columns:
            unseen = OVERRULED if path == "measurements/Region/total/part-00000.parquet" else ""
            yield Edit(top, f"{path}: values", frame_edit(path, _first_answer), whole=True, unseen=unseen)
            yield Edit(
                top,
                f"{path}: variance",
                frame_edit(path, lambda frame: frame.with_columns(pl.col("variance") / 2)),
            )
        yield Edit(top, f"{path}: a row less", frame_edit(path, lambda frame: frame.head(-1)))
        yield Edit(
            top,
            f"{path}: a code",
            frame_edit(path, lambda frame: frame.with_columns(pl.col(frame.columns[0]).reverse())),
        )
    for path in list(first.values())[:3]:
        yield Edit("files", f"{path} is missing", partial(_without, path=path))


def of_intervals(root: Path) -> Iterator[Edit]:
    """Every column of intervals at every geolevel, in the tables as well; and what their manifest and README say."""
    content = read(root / "intervals" / "_manifest.json")
    for file in content["files"][::2]:
        path = file["path"]
        for column in ("estimate", "standard_error", "lower", "upper"):
            yield Edit(
                "intervals",
                f"{path}: {column}",
                frame_edit(path, _plus_one(column), f"tables/{path.removeprefix('intervals/')}"),
            )
    for path in leaves(content):
        if path[0] in ("files", "format", "tallyveil") or (path[-1] == "standard_error" and path[1] == 0):
            continue

        def forge(root: Path, path: tuple[Any, ...] = path) -> None:
            changed_json(root / "intervals" / "_manifest.json", lambda content: at(content, path, other))
            reseal(root)
            without_page(root)

        reason = "what a table says of answers known exactly is rounded" if path[-1] == "exact" else ""
        yield Edit("intervals", f"_manifest.json: {named(path)}", forge, unseen=reason)
    yield Edit(
        "intervals",
        "_README.txt",
        lambda root: appended(root / "intervals" / "_README.txt", "All is well.\n"),
    )
    yield Edit("intervals", "an extra file", lambda root: appended(root / "intervals" / "more.txt", "x"))


def appended(path: Path, text: str) -> None:
    """Add text to a file of a release, and make every digest anew."""
    with path.open("a", encoding="utf-8") as stream:
        stream.write(text)
    root = next(folder for folder in path.parents if (folder / "manifest.json").is_file())
    reseal(root)


def _replaced(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text, old
    path.write_text(text.replace(old, new), encoding="utf-8")


def of_page(_: Path) -> Iterator[Edit]:
    """The page of a release."""
    yield Edit(
        "page",
        "a script",
        lambda root: _replaced(root / "report.html", "</body>", "<script>1</script></body>"),
    )
    yield Edit(
        "page", "a script alone", lambda root: (root / "report.html").write_text("<script>alert(1)</script>")
    )
    yield Edit("page", "the title", lambda root: _replaced(root / "report.html", "</title>", "!</title>"))
    yield Edit("page", "a space", lambda root: _replaced(root / "report.html", "</html>", " </html>"))


def of_beside(_: Path) -> Iterator[Edit]:
    """The package, and what lies beside the files of a release."""
    for name in (
        "notes.txt",
        "tables/notes.parquet",
        "measurements/more.parquet",
        "evaluation/errors.json",
        ".hidden",
    ):
        yield Edit("beside", name, partial(_put_beside, name=name))
    yield Edit("beside", "a link", lambda root: (root / "link").symlink_to("/etc/hostname"))
    for name in (
        "tables/geolevel=Moon/query=total/part-00000.parquet",
        "histogram/Moon.parquet",
        "measurements/Moon.parquet",
    ):
        yield Edit("beside", f"{name}, listed", partial(_listed_beside, name=name))
    yield Edit("page", "the data package", _package)


def _without(root: Path, path: str) -> None:
    (root / path).unlink()
    reseal(root)


def _put_beside(root: Path, name: str) -> None:
    _beside(root / name)


def _beside(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x")


def _listed_beside(root: Path, name: str) -> None:
    """A copy of a file of the same kind under another name, which the manifest lists as well."""
    source = next(
        file["path"] for file in read(root / "manifest.json")["files"] if file["path"].startswith(name[:6])
    )
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(root / source, root / name)
    changed_json(
        root / "manifest.json",
        lambda content: content["files"].append({"path": name, "bytes": 1, "sha256": "0" * 64}),
    )
    reseal(root)
    without_page(root)


def _package(root: Path) -> None:
    changed_json(root / "datapackage.json", lambda content: content.update(title="Other counts"))
    (root / ".package-edited").touch()
    reseal(root)


def of_publication(root: Path, place: str = "publication") -> Iterator[Edit]:
    """The tables that `publish` wrote, what they say of their releases, and what lies beside them."""
    content = read(root / "publication.json")
    for path in leaves(content):
        if path[0] in ("files", "format"):
            continue

        def forge(root: Path, path: tuple[Any, ...] = path) -> None:
            changed_json(root / "publication.json", lambda content: at(content, path, other))
            reseal_publication(root)

        yield Edit(place, f"publication.json: {named(path)}", forge)
    for file in content["files"]:
        path = file["path"]

        def edit(root: Path, path: str = path) -> None:
            text = (root / path).read_bytes()
            (root / path).write_bytes(text[:-2] + b"7\n")
            reseal_publication(root)

        yield Edit(place, path, edit)
    yield Edit(place, "a file beside", lambda root: _beside(root / "notes.txt"))


_FACTS_OF_RUNS = {"versions.*": NOT_DERIVED, "tallyveil*": NOT_DERIVED}
UNSEEN_OF = {
    "persons": {
        **dict.fromkeys(
            ("MARGIN", "ESTIMATE*"),
            "follows from the noisy count that chose the detail, which is not published",
        ),
        "body.sizes.US.[!t]*": "how many groups the regions gave, and in which of them, which no published file has",
        "codes": "a public code that no iteration has",
        "iterations.?.1": "a name that stands nowhere else",
    },
    "households": {
        **dict.fromkeys(("max_race_codes", "codes*", "mapping.?.?", "mapping"), NO_ITERATIONS),
        "states*": "a state of which the tables have no region",
        "MARGIN": "raised where cells below 0 were published as 0, by noisy numbers that no file has",
    },
    "groups": {
        **dict.fromkeys(
            (
                "schema.name",
                "columns.*",
                "groupings.?.maps.?.columns.*",
                "groupings.?.maps.?.missing*",
                "groupings.?.maps.?.values*",
                "groupings.?.maps.?.pairs",
                "groupings.?.maps.?.pairs.?.?",
            ),
            NO_RECORDS,
        ),
        "levels.?.noise.geolevel": NO_KEY,
    },
    "table": {
        **dict.fromkeys(("body.plan.schema.name", "body.plan.table.*"), NO_RECORDS),
        **dict.fromkeys(("body.plan.delta", "body.plan.chain.*"), NOT_NEEDED),
        "body.inputs.*": NO_KEY,
    },
}
"""What nobody could find of a product, by pattern."""


def of_statements(root: Path, place: str, unseen: dict[str, str]) -> Iterator[Edit]:
    """Every statement of the manifest and of the other files of plain data."""
    for name in ("manifest.json", "plan.json", "expected.json"):
        if not (root / name).is_file():
            continue
        for path in leaves(read(root / name)):
            # The empty place is that of the whole file.
            if not path or path[0] in ("digest", "plan_digest", "files", "ledger", "format", "event"):
                continue

            def forge(root: Path, name: str = name, path: tuple[Any, ...] = path) -> None:
                changed_json(root / name, lambda content: at(content, path, other))
                if name == "manifest.json":
                    follow_plan(root, path)
                reseal(root)
                without_page(root)

            reason = next((why for pattern, why in unseen.items() if fnmatchcase(named(path), pattern)), "")
            yield Edit(f"{place}: {name}", named(path), forge, unseen=reason)


def of_product(root: Path, place: str) -> Iterator[Edit]:
    """A release of a product beside the main one: its statements, its ledger, its tables and its page."""
    unseen = {**_FACTS_OF_RUNS, **UNSEEN_OF[place]}
    yield from of_statements(root, place, unseen)
    for edit in of_ledger(root):
        yield replace(edit, place=f"{place}: ledger")
    for file in read(root / "manifest.json")["files"]:
        path = file["path"]
        if path.endswith(".parquet"):
            frame = pl.read_parquet(root / path)
            for column in (name for name, kind in frame.schema.items() if kind.is_numeric() and frame.height):
                reason = next((why for pattern, why in unseen.items() if fnmatchcase(column, pattern)), "")
                forge = frame_edit(path, _plus_one(column))
                yield Edit(f"{place}: tables", f"{path}: {column}", forge, unseen=reason)
            yield Edit(
                f"{place}: tables", f"{path}: a row less", frame_edit(path, lambda rows: rows.head(-1))
            )
        elif path.endswith(".csv") and (root / path).read_bytes().count(b"\n") > 1:
            yield Edit(f"{place}: tables", f"{path}: a row less", partial(_shorter, path=path))
    for edit in of_page(root):
        yield replace(edit, place=f"{place}: page")


def _shorter(root: Path, path: str) -> None:
    (root / path).write_bytes((root / path).read_bytes().rsplit(b"\n", 2)[0] + b"\n")
    reseal(root)
    without_page(root)


def of_programme(root: Path) -> Iterator[Edit]:
    """What a programme says of its releases together."""
    for path in leaves(read(root / "programme.json")):

        def forge(root: Path, path: tuple[Any, ...] = path) -> None:
            changed_json(root / "programme.json", lambda content: at(content, path, other))

        yield Edit("programme", f"programme.json: {named(path)}", forge)
    yield Edit("programme", "a file beside", lambda root: _beside(root / "notes.txt"))
    yield Edit(
        "programme",
        "a script",
        lambda root: _replaced(root / "report.html", "</body>", "<script>1</script></body>"),
    )


def of_site(root: Path) -> Iterator[Edit]:
    """The data of an explorer's site, its program, and what lies beside them."""
    for path in leaves(read(root / "data" / "site.json")):

        def forge(root: Path, path: tuple[Any, ...] = path) -> None:
            changed_json(root / "data" / "site.json", lambda content: at(content, path, other))

        yield Edit("site", f"site.json: {named(path)}", forge)
    files = [file for file in sorted(root.rglob("*")) if file.is_file()]
    # One in so many: each of them is compared byte by byte in the same way.
    for file in files[::10]:
        name = file.relative_to(root).as_posix()
        if name != "data/site.json":
            yield Edit("site", name, partial(_appended, name=name))
    yield Edit("site", "a file beside", lambda root: _beside(root / "notes.txt"))
    yield Edit("site", "a file beside the data", lambda root: _beside(root / "data" / "notes.json"))


def _appended(root: Path, name: str) -> None:
    with (root / name).open("ab") as stream:
        stream.write(b" ")


def of_draws(root: Path) -> Iterator[Edit]:
    """Every statement of `draws.json`, and counts, texts and files of draws with public files."""
    for path in leaves(read(root / "draws.json")):

        def forge(root: Path, path: tuple[Any, ...] = path) -> None:
            changed_json(root / "draws.json", lambda content: at(content, path, other))

        # What chains have drawn follows from nothing but the same chains.
        whole = path[0] in ("seed", "convergence", "parameters", "residuals")
        unseen = NOT_DERIVED if path[0] == "tallyveil" else ""
        yield Edit("draws", f"draws.json: {named(path)}", forge, whole=whole, unseen=unseen)
    yield Edit("draws", "draws.json: another key", _another_key)
    tables: dict[str, tuple[Callable[[pl.DataFrame], pl.DataFrame], bool]] = {
        "count": (_plus_one("count"), False),
        "a row less": (lambda frame: frame.head(-1), False),
        "a code": (lambda frame: frame.with_columns(pl.col("geocode").reverse()), True),
        "a count below zero": (lambda frame: frame.with_columns(-pl.col("count")), False),
        "people elsewhere": (lambda frame: frame.with_columns(pl.col("count").reverse()), True),
    }
    for name, (change, whole) in tables.items():
        yield Edit("draws", f"a draw: {name}", partial(_draw, change=change), whole=whole)
    yield Edit("draws", "a draw twice", lambda root: _draw(root, copied_from=2), whole=True)
    yield Edit("draws", "README.txt", lambda root: _appended(root, "README.txt"))
    for name in ("notes.txt", "draw-001/notes.txt", "draw-999/histogram/Town.parquet"):
        yield Edit("draws", f"{name} beside", partial(_put_beside, name=name))


def _another_key(root: Path) -> None:
    changed_json(root / "draws.json", lambda content: content.update(note="All is well."))


def _draw(
    root: Path, change: Callable[[pl.DataFrame], pl.DataFrame] | None = None, copied_from: int = 0
) -> None:
    """Change the first draw, or put another one in its place, and list its new digest."""
    path, *others = sorted(root.rglob("*.parquet"))
    if change is None:
        shutil.copyfile(others[copied_from - 1], path)
    else:
        changed_frame(path, change)
    changed_json(root / "draws.json", lambda content: content["files"].__setitem__(0, digest(path)))


def all_edits(root: Path) -> list[Edit]:
    """All edits of a release that has intervals."""
    return [
        *of_manifest(root),
        *of_ledger(root),
        *of_files(root),
        *of_intervals(root),
        *of_page(root),
        *of_beside(root),
    ]
