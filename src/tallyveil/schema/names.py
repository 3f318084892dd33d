"""The rules for names, and the hint that is shown for an unknown name.

Names appear in file names, columns of published tables, terminals and web pages. `check_name` is the common rule for
the names of attributes, recodes, geolevels, families of entities, bounds, constraints, structural zeros and releases.
`tallyveil.storage.paths` then turns names into names of files and folders.
"""

import difflib
import re
import unicodedata
from collections.abc import Iterable
from typing import Annotated, Final

from pydantic import AfterValidator

from tallyveil.declared import Name
from tallyveil.errors import SchemaError, TallyveilError
from tallyveil.exact import as_given
from tallyveil.printable import short_name
from tallyveil.storage.paths import hive_value
from tallyveil.storage.read import is_pattern

LONGEST_NAME: Final = 200
"""Largest number of characters in a name."""

RESERVED_NAMES: Final = ("total", "detailed")
"""Query specifications with a fixed meaning, which no attribute or recode may use as its name."""

RESERVED_COLUMNS: Final = (
    "geolevel",
    "geocode",
    "query",
    "count",
    "estimate",
    "standard_error",
    "lower",
    "upper",
    "value",
    "variance",
    "integer-subspace",
)
"""Other columns of tables and of noisy answers, and the mechanism that names files next to those of queries."""

LONGEST_FOLDER_NAME: Final = 240
"""Largest number of characters of a name that folders of tables show percent-encoded. File systems allow 255 bytes."""

RESERVED_PREFIXES: Final = ("original.", "entity.", "share.")
"""Prefixes of the columns of `geography.parquet` that are not geolevels of the spine."""

LABEL_JOINT: Final = " * "
"""Separator between the parts of an answer's label; there is one part for each factor."""


MOST_CHARACTERS: Final = 40
"""Characters of a unit, which messages and pages show within a line. Half would refuse units of several words."""


def is_noun(word: object) -> bool:
    """Whether terminals, pages and file tags may show a word, or words, for what is counted."""
    # Letters of any writing with their marks, such as vowels of Hindi.
    return (
        isinstance(word, str)
        and word == word.strip()
        and 0 < len(word) <= MOST_CHARACTERS
        and all(unicodedata.category(character)[0] in "LM" or character in " -'’" for character in word)
        and any(unicodedata.category(character)[0] == "L" for character in word)
    )


def check_name(name: str, what: str) -> str:
    """Return a name, after a check that files, tables, terminals and pages can show it.

    Args:
        name: The name.
        what: The kind of thing that is named, such as "geolevel".
    Raises:
        SchemaError: the name is empty or too long, has spaces around it, or contains a slash, a line break or an
            invisible character (such as a terminal's escape code), or cannot be written as UTF-8; or it is a pattern.
    """
    # The value is of any type, because it comes from files: a number without quotes is no text.
    if not isinstance(name, str) or not name or name != name.strip():
        raise SchemaError(
            f"{what} name {as_given(name)}: wanted a non-empty string without spaces around it."
        )
    if len(name) > LONGEST_NAME:
        raise SchemaError(
            f"{what} name {name[:40]!r}... has {len(name)} characters; wanted at most {LONGEST_NAME}. Shorten it."
        )
    # Both slashes, because a release that is written on one system is read on the other. The third sign stands where
    # bytes of a file's header were no UTF-8, so that the name is not the one in the file.
    bad = [
        character
        for character in name
        if character in "/\\\ufffd" or unicodedata.category(character) in _INVISIBLE
    ]
    if bad:
        raise SchemaError(
            f"{what} name {name!a} holds {bad[0]!a}. Names become file names and are shown on terminals and "
            "pages: slashes, line breaks, control codes, invisible characters and bytes that are no UTF-8 are not "
            "allowed. Rename it.",
            code="bad-name",
        )
    if name != "*" and is_pattern(name):
        raise SchemaError(
            f"{what} name {name!r} begins with '^' and ends with '$'. Names become columns, and programs would take "
            "this one for a pattern that other names fit. Rename it.",
            code="bad-name",
        )
    return name


# Unicode categories: controls, formats, surrogates, private use, unassigned, and separators of lines and paragraphs.
_INVISIBLE: Final = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")


def _plain(value: str) -> str:
    try:
        return check_name(value, "the")
    except TallyveilError as error:
        raise ValueError(str(error)) from None


PlainName = Annotated[Name, AfterValidator(_plain)]
"""A name that a file defines, which `check_name` checks: it appears in file names, on terminals and on pages."""


def check_table_name(name: str, what: str) -> None:
    """Refuse a name that readers of published tables would not read back from the names of folders.

    Args:
        name: Name of a geolevel, of a family of entities, or of a query with a table.
        what: The kind of thing that is named.
    Raises:
        SchemaError: readers would take the name for a number, a date, a truth value or nothing; or it is too long.
    """
    # Readers of partitioned folders guess a column's type from the names of its folders.
    if _NO_WORD.fullmatch(name) or _is_number(name):
        raise SchemaError(
            f"{what} name {name!r} looks like a number, a date, a truth value or a missing value. It names a folder of "
            "published tables, and programs that read them would not take it for text. Rename it, for example with a "
            "word before it.",
            code="bad-name",
        )
    if len(hive_value(name)) > LONGEST_FOLDER_NAME:
        raise SchemaError(
            f"{what} name {name[:40]!r}... has {len(hive_value(name))} characters where it names a folder of published "
            f"tables; wanted at most {LONGEST_FOLDER_NAME}. Letters and digits of English count once there, and other "
            "characters three to twelve times. Shorten it, or the names of its recodes.",
            code="bad-name",
        )


_NO_WORD: Final = re.compile(
    r"(?=.*\d)[\d\s.,:+_/-]+|[\d-]+T[\d:.]+[\d:Z+-]*|true|false|null|none|__hive_default_partition__",
    re.IGNORECASE,
)
"""Names that a reader could take for a number, a date, a time, a truth value or a missing value."""


def _is_number(name: str) -> bool:
    try:
        # Python's own reading finds 'nan', 'inf' and '1e5' as well, which the pattern leaves to it.
        float(name)
    except ValueError:
        return False
    return True


def check_apart(names: Iterable[str], where: str) -> None:
    """Refuse names that differ only in case, because a file system that ignores case would confuse them.

    Args:
        names: Names that become file names in the same folder, each once.
        where: The owner of the names, such as "the spine".
    Raises:
        SchemaError: two names differ only in case.
    """
    seen: dict[str, str] = {}
    for name in names:
        # casefold, and not lower: it also joins letters such as the two forms of sigma.
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
    """Refuse names of geolevels and families that published files could not distinguish.

    Args:
        geolevels: Names of the geolevels of the geography and of the spine.
        families: Names of the families of entities.
        published: Names of the families for which tables are published.
    Raises:
        SchemaError: a name breaks the common rule, has a fixed meaning in the release folder, or differs from another
            only in case.
    """
    levels, kinds = list(geolevels), list(families)
    for what, names in (("geolevel", levels), ("family", kinds)):
        for name in names:
            check_name(name, what)
            check_table_name(name, what)
            if name in {"*", "entities"} or name.startswith(RESERVED_PREFIXES):
                raise SchemaError(
                    f"{what} name {name!r} is reserved in release files, as are '*', 'entities' and every name that "
                    f"begins with {', '.join(RESERVED_PREFIXES)}. Rename it.",
                    code="bad-name",
                )
    # Families without tables have no folders of their own, so that they need differ only among themselves.
    check_apart(kinds, "families of entities")
    check_apart((*levels, *published), "geolevels and published families of entities")


def check_distinct(names: Iterable[str], what: str, where: str) -> None:
    """Refuse an empty list of names, an empty name, or a repeated name.

    Args:
        names: The names, in order.
        what: What one of them is called, such as "level".
        where: The owner of the names, such as "attribute 'sex'".
    Raises:
        SchemaError: names are missing, empty or repeated.
    """
    seen: set[str] = set()
    for name in names:
        if not isinstance(name, str) or not name:
            raise SchemaError(f"{where}: a {what} is {as_given(name)}; wanted a non-empty string.")
        if name in seen:
            raise SchemaError(f"{where}: {what} {short_name(name)!r} is given twice; name each {what} once.")
        seen.add(name)
    if not seen:
        raise SchemaError(f"{where}: no {what} is given; wanted at least one.")


def check_labels(labels: Iterable[str], what: str, where: str) -> None:
    """Refuse labels of levels that are missing, empty or repeated, or that could make two answers look alike.

    Args:
        labels: The labels, in order.
        what: What one of them is called, such as "level".
        where: The owner of the labels.
    Raises:
        SchemaError: a label is refused.
    """
    known_labels = list(labels)
    check_distinct(known_labels, what, where)
    for label in known_labels:
        # Labels of an answer's parts are joined by this text; with it in a label, two answers could have one label.
        if LABEL_JOINT in label:
            raise SchemaError(
                f"{where}: {what} {short_name(label)!r} holds {LABEL_JOINT!r}, which joins the parts of an "
                "answer's label; rename it.",
                code="bad-name",
            )


def check_factor_name(name: str, what: str) -> None:
    """Refuse a name that a query specification could not refer to.

    Args:
        name: Name of an attribute or a recode.
        what: "attribute" or "recode".
    Raises:
        SchemaError: the name breaks the common rule (`check_name`), is reserved, or contains the separator of query
            specifications.
    """
    check_name(name, what)
    if "*" in name:
        raise SchemaError(f"{what} name {name!r} holds '*', which joins the factors of a query; rename it.")
    # Specifications are compared without case here, because the folder of 'Total' would be that of 'total'.
    if name.casefold() in RESERVED_NAMES:
        raise SchemaError(f"{what} name {name!r} is reserved for the query of that name; rename it.")
    if name.casefold() in RESERVED_COLUMNS or name.startswith("__"):
        raise SchemaError(
            f"{what} name {name!r} is reserved for columns of published tables, as are {', '.join(RESERVED_COLUMNS)} "
            "and every name that begins with two underscores. Rename it.",
            code="bad-name",
        )


def as_named(query: str, known: Iterable[str]) -> str:
    """The known query with the factors of a query, which may name them in another order; else the query as it is.

    Args:
        query: The query that somebody asks for, such as `age*sex`.
        known: The queries that there are, such as `sex*age`.
    """
    names = list(known)
    # The exact name first, so that no query is taken for another one that has the same factors.
    if query in names:
        return query
    return next((name for name in names if _factors(name) == _factors(query)), query)


def _factors(query: str) -> list[str]:
    return sorted(name.strip() for name in query.split("*"))


def closest_hint(name: str, known: Iterable[str]) -> str:
    """Suggest the known names that were probably meant, or list known names.

    Args:
        name: The unknown name.
        known: Names that would be correct.
    Returns:
        A sentence for the end of an error message.
    """
    options, name = list(known), short_name(name)
    # At most three, and at least 60 % alike: difflib's usual threshold.
    close = difflib.get_close_matches(name, options, n=3, cutoff=0.6)
    if not close:
        # difflib distinguishes upper and lower case; users often do not.
        folded = {option.casefold(): option for option in options}
        close = [
            folded[match] for match in difflib.get_close_matches(name.casefold(), folded, n=3, cutoff=0.6)
        ]
    if close:
        return "Did you mean " + " or ".join(repr(short_name(match)) for match in close) + "?"
    shown = ", ".join(map(short_name, options[:20])) + (", ..." if len(options) > 20 else "")
    return f"Known: {shown}."
