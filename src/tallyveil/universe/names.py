"""The rules that names follow, and the hint an unknown name earns.

A name reaches file names, columns of published tables, terminals and web pages. `check_name` is the rule for all of
them: of attributes, recodes, geolevels, families of entities, bounds, constraints, structural zeros and releases.
`tallyveil.storage.paths.file_name` then makes file names of them.
"""

import difflib
import unicodedata
from collections.abc import Iterable
from typing import Final

from tallyveil.errors import SchemaError

LONGEST_NAME: Final = 200
"""Characters of a name."""

RESERVED_NAMES: Final = ("total", "detailed")
"""Query specs with a meaning of their own, so no attribute or recode may take them."""

RESERVED_COLUMNS: Final = ("geocode", "count", "integer-subspace")
"""Columns that stand beside the attributes in published tables, and the mechanism that names files beside queries."""

RESERVED_PREFIXES: Final = ("original.", "entity.", "share.")
"""How columns of `geography.parquet` begin that are no geolevels of the spine."""

LABEL_JOINT: Final = " * "
"""What joins the parts of an answer's label, one a factor."""


def check_name(name: str, what: str) -> str:
    """Return a name, once it is one that files, tables, terminals and pages can hold.

    Args:
        name: The name.
        what: Whose name it is, such as "geolevel".
    Raises:
        SchemaError: it is empty or too long, has spaces around it, holds a slash, a line break or an invisible
            character (such as an escape code of terminals), or cannot be written as UTF-8.
    """
    if not isinstance(name, str) or not name or name != name.strip():
        raise SchemaError(f"{what} name {name!r}: wanted a non-empty string without spaces around it.")
    if len(name) > LONGEST_NAME:
        raise SchemaError(
            f"{what} name {name[:40]!r}... has {len(name)} characters; wanted at most {LONGEST_NAME}. Shorten it."
        )
    bad = [one for one in name if one in "/\\" or unicodedata.category(one) in _INVISIBLE]
    if bad:
        raise SchemaError(
            f"{what} name {name!a} holds {bad[0]!a}. Names become file names and are shown on terminals and "
            "pages: slashes, line breaks, control codes and invisible characters are not allowed. Rename it.",
            code="bad-name",
        )
    return name


_INVISIBLE: Final = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")


def check_apart(names: Iterable[str], where: str) -> None:
    """Refuse names that differ in nothing but case: a file system that ignores case would take one for the other.

    Args:
        names: Names that become file names in the same folder, each once.
        where: Whose names they are, such as "the spine".
    Raises:
        SchemaError: two names are the same but for case.
    """
    seen: dict[str, str] = {}
    for name in names:
        other = seen.setdefault(name.casefold(), name)
        if other != name:
            raise SchemaError(
                f"{where}: {other!r} and {name!r} differ only in upper and lower case. Their files would be one file "
                "on a file system that ignores case. Rename one of them.",
                code="bad-name",
            )


def check_areas(
    geolevels: Iterable[str], families: Iterable[str] = (), published: Iterable[str] = ()
) -> None:
    """Refuse names of geolevels and families that published files cannot keep apart.

    Args:
        geolevels: Those of the geography and of the spine.
        families: Families of entities.
        published: Those of them that tables are published for, beside those of the geolevels.
    Raises:
        SchemaError: a name breaks the rule of all names, has a meaning of its own in the release folder, or differs
            from another in case alone.
    """
    levels, kinds = list(geolevels), list(families)
    for what, names in (("geolevel", levels), ("family", kinds)):
        for name in names:
            check_name(name, what)
            if name in {"*", "entities"} or name.startswith(RESERVED_PREFIXES):
                raise SchemaError(
                    f"{what} name {name!r} has a meaning of its own in release files: '*' and 'entities' do, and so "
                    f"does what begins with {', '.join(RESERVED_PREFIXES)}. Rename it.",
                    code="bad-name",
                )
    check_apart(kinds, "families of entities")
    check_apart((*levels, *published), "geolevels and published families of entities")


def check_distinct(names: Iterable[str], what: str, where: str) -> None:
    """Refuse an empty list of names, an empty name, or a name given twice.

    Args:
        names: The names, in order.
        what: What one of them is called, such as "level".
        where: Whose names they are, such as "attribute 'sex'".
    Raises:
        SchemaError: names are missing, empty or repeated.
    """
    seen: set[str] = set()
    for name in names:
        if not isinstance(name, str) or not name:
            raise SchemaError(f"{where}: a {what} is {name!r}; wanted a non-empty string.")
        if name in seen:
            raise SchemaError(f"{where}: {what} {name!r} is given twice; name each {what} once.")
        seen.add(name)
    if not seen:
        raise SchemaError(f"{where}: no {what} is given; wanted at least one.")


def check_labels(labels: Iterable[str], what: str, where: str) -> None:
    """Refuse labels of levels that are missing, empty or repeated, or that would make two answers look alike.

    Args:
        labels: The labels, in order.
        what: What one of them is called, such as "level".
        where: Whose labels they are.
    Raises:
        SchemaError: as above.
    """
    kept = list(labels)
    check_distinct(kept, what, where)
    for label in kept:
        if LABEL_JOINT in label:
            raise SchemaError(
                f"{where}: {what} {label!r} holds {LABEL_JOINT!r}, which joins the parts of an answer's label; "
                "rename it.",
                code="bad-name",
            )


def check_factor_name(name: str, what: str) -> None:
    """Refuse a name that a query spec could not refer to.

    Args:
        name: Name of an attribute or a recode.
        what: "attribute" or "recode".
    Raises:
        SchemaError: the name breaks the rule of all names (`check_name`), is reserved, or holds the separator of query
            specs.
    """
    check_name(name, what)
    if "*" in name:
        raise SchemaError(f"{what} name {name!r} holds '*', which joins the factors of a query; rename it.")
    if name.casefold() in RESERVED_NAMES:
        raise SchemaError(f"{what} name {name!r} is reserved for the query of that name; rename it.")
    if name.casefold() in RESERVED_COLUMNS or name.startswith("__"):
        raise SchemaError(
            f"{what} name {name!r} has a meaning of its own in the columns of published tables "
            f"({', '.join(RESERVED_COLUMNS)}, and what begins with two underscores); rename it.",
            code="bad-name",
        )


def closest_hint(name: str, known: Iterable[str]) -> str:
    """Say which known name was probably meant, or list them all.

    Args:
        name: The unknown name.
        known: Names that would have been right.
    Returns:
        A sentence to end an error message with.
    """
    options = list(known)
    close = difflib.get_close_matches(name, options, n=3, cutoff=0.6)
    if not close:
        # difflib looks at letter case; people often do not.
        folded = {option.casefold(): option for option in options}
        close = [
            folded[match] for match in difflib.get_close_matches(name.casefold(), folded, n=3, cutoff=0.6)
        ]
    if close:
        return "Did you mean " + " or ".join(repr(match) for match in close) + "?"
    shown = ", ".join(options[:20]) + (", ..." if len(options) > 20 else "")
    return f"Known: {shown}."
