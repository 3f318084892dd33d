"""Rules every name in a schema follows, and the hint an unknown name earns."""

import difflib
from collections.abc import Iterable

from tallyveil.errors import SchemaError

RESERVED_NAMES = ("total", "detailed")
"""Query specs with a meaning of their own, so no attribute or recode may take them."""


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


def check_factor_name(name: str, what: str) -> None:
    """Refuse a name that a query spec could not refer to.

    Args:
        name: Name of an attribute or a recode.
        what: "attribute" or "recode".
    Raises:
        SchemaError: the name is empty, padded, reserved, or holds the separator of query specs.
    """
    if not isinstance(name, str) or not name or name != name.strip():
        raise SchemaError(f"{what} name {name!r}: wanted a non-empty string without spaces around it.")
    if "*" in name:
        raise SchemaError(f"{what} name {name!r} holds '*', which joins the factors of a query; rename it.")
    if name in RESERVED_NAMES:
        raise SchemaError(f"{what} name {name!r} is reserved for the query of that name; rename it.")


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
