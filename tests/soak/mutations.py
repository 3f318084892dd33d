"""What is done to valid inputs: strategies that draw one hostile thing at a time."""

import copy
import json
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import polars as pl
from base_inputs import csv_of, parquet_of
from hypothesis import strategies as st
from runner import ARENA, CANARY

NAMES = (
    "", " ", ".", "..", "../../rec", "../../../../EVIL", f"{ARENA}/ABS/x", "a/b", "a\\b", "a*b", "a.b", "A-B", "A B",
    "rel[1]", "rel?", "{x}", "%s%n", "-rf", "--help", "~", "$HOME", "CON", "nul", "private", "manifest.json", "total",
    "detailed", "*", "count", "geocode", "None", "[/bold]", "[bold]x", "[link=http://x]y[/link]", "\\[x]",
    "<img src=x onerror=alert(1)>", "\x1b[31mred\x1b]0;title\x07", "\x9b31m", "\u202eevil", "a\x00b", "a\nb", "a\rb",
    "\ufeffa", "e\u0301", "\u00e9", "\U0001f600", "x" * 300, "x" * 100_000, "=cmd|' /C calc'!A0", "State", "Block",
    "a0", "integer-subspace.total", "part-00000.parquet", "answers",
)  # fmt: skip
"""Names that mean something else to a path, a terminal, a page, a shell, a spreadsheet or to Tallyveil itself."""
NUMBERS = (
    "0", "-1", "1", "2", "1/2", "1/3", "1/0", "-1/2", "0.1", ".5", "1e-30", "1e400", "1e-400", "1e99999999", "nan",
    "inf", "-inf", "NaN", "Infinity", "0x10", "1_000", "\u0663", "\u00b2", "5:\u00b2", "9" * 26, "9" * 5000,
    "2147483648", "9223372036854775807", "9223372036854775808", "18446744073709551616", "1099511627776", "1e9",
    "10000000", "true", "1 ", "+1", "--1", "1,5",
)  # fmt: skip
"""Texts that are numbers, or nearly."""
VALUES: tuple[Any, ...] = (
    True, False, 0, -1, 1, 2, 2**31, 2**40, 2**63 - 1, 2**63, 2**64, 10**30, 10**400, 0.1, 1.0, -0.0, 1e308, 1e-320,
    float("nan"), float("inf"), float("-inf"), [], {}, [[]], [{}], {"": ""}, [""], [1, "a", None],
    {"a": {"b": {"c": 1}}},
)  # fmt: skip

names = st.one_of(st.sampled_from(NAMES), st.text(max_size=12))
numbers = st.one_of(st.sampled_from(NUMBERS), st.fractions().map(str), st.floats().map(str))
# Each case has lists and tables of its own: a list that is changed, and drawn again, could come to hold itself.
scalars = st.one_of(
    names,
    numbers,
    st.sampled_from(VALUES).map(copy.deepcopy),
    st.integers(),
    st.floats(),
    st.dates(),
    st.datetimes(),
)


def nested(depth: int) -> Any:
    """A list in a list in a list."""
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


# Trees: what TOML and JSON files hold.


def _places(tree: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Paths of all values of a tree but the root."""
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    found = []
    for key, value in items:
        found += [(*path, key), *_places(value, (*path, key))]
    return found


def _holder(tree: Any, path: tuple[Any, ...]) -> Any:
    for key in path[:-1]:
        tree = tree[key]
    return tree


@st.composite
def trees(draw: Callable[[Any], Any], tree: Any) -> tuple[Any, str]:
    """The tree with one to three changes, and what they are."""
    tree, said = copy.deepcopy(tree), []
    for _ in range(draw(st.sampled_from((1, 1, 2, 3)))):
        places = _places(tree)
        if not places:
            return {}, "emptied"
        path = draw(st.sampled_from(places))
        action = draw(st.sampled_from(sorted(TREE_CHANGES)))
        TREE_CHANGES[action](draw, _holder(tree, path), path[-1])
        said.append(f"{action} {'.'.join(map(str, path))}")
        if action == "nest":  # what walks and copies a tree must not meet this
            break
    return tree, "; ".join(said)


def _delete(_: Any, holder: Any, key: Any) -> None:
    del holder[key]


def _value(draw: Any, holder: Any, key: Any) -> None:
    holder[key] = draw(numbers if isinstance(holder[key], str | int | float) else scalars)


def _name(draw: Any, holder: Any, key: Any) -> None:
    holder[key] = draw(names)


def _retype(draw: Any, holder: Any, key: Any) -> None:
    holder[key] = draw(scalars)


def _double(_: Any, holder: Any, key: Any) -> None:
    if isinstance(holder, list):
        holder.insert(key, copy.deepcopy(holder[key]))
    else:
        holder[f"{key} "] = copy.deepcopy(holder[key])


def _add(draw: Any, holder: Any, key: Any) -> None:
    at = holder[key] if isinstance(holder[key], dict | list) else holder
    if isinstance(at, dict):
        at[draw(names)] = draw(scalars)
    else:
        at.append(draw(scalars))


def _rename(draw: Any, holder: Any, key: Any) -> None:
    if isinstance(holder, dict):
        holder[draw(names)] = holder.pop(key)
    else:
        holder[key] = draw(names)


def _nest(draw: Any, holder: Any, key: Any) -> None:
    holder[key] = nested(draw(st.sampled_from((3, 200, 5000))))


TREE_CHANGES: dict[str, Callable[[Any, Any, Any], None]] = {
    "add": _add,
    "delete": _delete,
    "double": _double,
    "name": _name,
    "nest": _nest,
    "rename": _rename,
    "retype": _retype,
    "value": _value,
}


def _toml_text(text: str) -> str:
    text = text.encode("utf-8", "replace").decode("utf-8")
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def toml_value(value: Any) -> str:
    """A value as TOML, everything below the top level inline."""
    if isinstance(value, list | tuple):
        return toml_list(list(value))
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_toml_text(str(k))} = {toml_value(v)}" for k, v in value.items()) + " }"
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, bool | float):
        return repr(value).lower()
    if isinstance(value, int):
        # Python turns no number of more than 4,300 digits into text.
        return str(value) if abs(value) < 10**400 else hex(value)
    return _toml_text("" if value is None else str(value))


def toml_list(value: list[Any]) -> str:
    """A list as TOML, however deep it is."""
    depth = 0
    while len(value) == 1 and isinstance(value[0], list):
        value, depth = value[0], depth + 1
    return "[" * (depth + 1) + ", ".join(map(toml_value, value)) + "]" * (depth + 1)


def toml_of(tree: dict[str, Any]) -> bytes:
    """A tree as a TOML file."""
    lines = [f"{_toml_text(str(key))} = {toml_value(value)}" for key, value in tree.items()]
    return ("\n".join(lines) + "\n").encode("utf-8", "replace")


def json_of(tree: Any) -> bytes:
    """A tree as JSON, however deep it is."""

    def text(value: Any) -> str:
        if isinstance(value, dict):
            return "{" + ", ".join(f"{json.dumps(str(k))}: {text(v)}" for k, v in value.items()) + "}"
        depth = 0
        while isinstance(value, list) and len(value) == 1:
            value, depth = value[0], depth + 1
        if isinstance(value, list):
            return "[" * (depth + 1) + ", ".join(map(text, value)) + "]" * (depth + 1)
        return "[" * depth + (json.dumps(value, default=str)) + "]" * depth

    return text(tree).encode("utf-8", "surrogatepass")


# Bytes: what any file holds.


@st.composite
def bytes_of(draw: Callable[[Any], Any], content: bytes) -> tuple[bytes, str]:
    """The content damaged as transfers, editors and hands damage files."""
    action = draw(
        st.sampled_from(
            ("flip", "flip", "truncate", "empty", "BOM", "CR", "CRLF", "UTF-16", "Latin-1", "NUL", "line twice",
             "line out", "line cut", "token", "token", "garbage", "append", "braces")
        )
    )  # fmt: skip
    lines = content.split(b"\n")
    at = draw(st.integers(0, max(len(content) - 1, 0)))
    line = draw(st.integers(0, len(lines) - 1))
    if action == "flip":
        changed = bytearray(content)
        for _ in range(draw(st.sampled_from((1, 3, 10)))):
            if changed:
                changed[draw(st.integers(0, len(changed) - 1))] = draw(st.integers(0, 255))
        return bytes(changed), action
    if action == "token":
        word = draw(st.one_of(names, numbers)).encode("utf-8", "replace")
        for mark in (b'"', b"|", b",", b" "):
            parts = lines[line].split(mark)
            if len(parts) > 1:
                parts[draw(st.integers(0, len(parts) - 1))] = word
                lines[line] = mark.join(parts)
                break
        return b"\n".join(lines), f"{action} in line {line + 1}"
    made = {
        "truncate": lambda: content[:at],
        "empty": lambda: b"",
        "BOM": lambda: b"\xef\xbb\xbf" + content,
        "CR": lambda: content.replace(b"\n", b"\r"),
        "CRLF": lambda: content.replace(b"\n", b"\r\n"),
        "UTF-16": lambda: content.decode("utf-8", "replace").encode("utf-16"),
        "Latin-1": lambda: content[:at] + b"\xe9\xff" + content[at:],
        "NUL": lambda: content[:at] + b"\0" + content[at:],
        "line twice": lambda: b"\n".join([*lines[: line + 1], *lines[line:]]),
        "line out": lambda: b"\n".join([*lines[:line], *lines[line + 1 :]]),
        "line cut": lambda: b"\n".join(
            [*lines[:line], lines[line][: len(lines[line]) // 2], *lines[line + 1 :]]
        ),
        "garbage": lambda: draw(st.binary(max_size=200)),
        "append": lambda: content + draw(st.binary(min_size=1, max_size=40)),
        "braces": lambda: draw(st.sampled_from((b"[", b"{", b'{"a":', b"[[a]]\n", b"a.", b"'''"))) * 20_000,
    }
    return made[action](), action


# Tables.

Columns = dict[str, list[Any]]


@st.composite
def tables(draw: Callable[[Any], Any], columns: Columns, confidential: bool) -> tuple[bytes, str, str]:
    """A CSV or Parquet file of the table with one or two changes: its content, its suffix, what was done.

    Values that are put into a confidential table hold a canary, which no output may show.
    """
    columns, said = {name: list(values) for name, values in columns.items()}, []
    word = CANARY if confidential else "x"
    for _ in range(draw(st.sampled_from((1, 1, 2)))):
        if columns:
            name = draw(st.sampled_from(sorted(columns)))
            action = draw(st.sampled_from(sorted(TABLE_CHANGES)))
            columns = TABLE_CHANGES[action](draw, columns, name, word)
            said.append(f"{action} {name[:20]}")
    if draw(st.booleans()):
        content, suffix = parquet_of(frame_of(columns)), ".parquet"
    else:
        content, suffix = csv_of(columns), ".csv"
        if draw(st.integers(0, 7)) == 0:
            content = content.partition(b"\n")[2]
            said.append("no header")
    if draw(st.integers(0, 3)) == 0:
        content, more = draw(bytes_of(content))
        said.append(more)
    return content, suffix, "; ".join(said)


def _cell(draw: Any, columns: Columns, name: str, word: str) -> Columns:
    value = draw(st.one_of(names, numbers, st.none(), st.integers()))
    return _with_cell(draw, columns, name, value)


def _canary(draw: Any, columns: Columns, name: str, word: str) -> Columns:
    return _with_cell(draw, columns, name, f"{word}-{draw(names)}")


def _with_cell(draw: Any, columns: Columns, name: str, value: Any) -> Columns:
    values = list(columns[name])
    if values:
        values[draw(st.integers(0, len(values) - 1))] = value
    return columns | {name: values}


def _renamed(draw: Any, columns: Columns, name: str, word: str) -> Columns:
    return {draw(names) if key == name else key: values for key, values in columns.items()}


def _extra(draw: Any, columns: Columns, name: str, word: str) -> Columns:
    return columns | {draw(names): [word] * len(columns[name])}


def _row_out(draw: Any, columns: Columns, name: str, word: str) -> Columns:
    at = draw(st.integers(0, max(len(columns[name]) - 1, 0)))
    return {key: values[:at] + values[at + 1 :] for key, values in columns.items()}


def _equal(draw: Any, columns: Columns, name: str, word: str) -> Columns:
    return columns | {name: [draw(st.one_of(names, numbers, st.integers()))] * len(columns[name])}


def _typed(draw: Any, columns: Columns, name: str, word: str) -> Columns:
    return columns | {name: draw(st.sampled_from(TYPES))(len(columns[name]), word)}


TABLE_CHANGES: dict[str, Callable[[Any, Columns, str, str], Columns]] = {
    "canary": _canary,
    "cell": _cell,
    "drop": lambda _, columns, name, word: {k: v for k, v in columns.items() if k != name},
    "equal": _equal,
    "extra": _extra,
    "no rows": lambda _, columns, name, word: {key: [] for key in columns},
    "rename": _renamed,
    "reverse": lambda _, columns, name, word: {key: values[::-1] for key, values in columns.items()},
    "row out": _row_out,
    "twice": lambda _, columns, name, word: {key: values + values for key, values in columns.items()},
    "type": _typed,
}


TYPES: tuple[Callable[[int, str], list[Any]], ...] = (
    lambda n, _: [date(1970, 1, 1 + i % 28) for i in range(n)],
    lambda n, _: [datetime(1970, 1, 1, 0, 0, i % 60) for i in range(n)],
    lambda n, _: [timedelta(seconds=i) for i in range(n)],
    lambda n, _: [time(0, 0, i % 60) for i in range(n)],
    lambda n, _: [i % 2 == 0 for i in range(n)],
    lambda n, _: [float(i) for i in range(n)],
    lambda n, _: [1e300 if i == 0 else float("nan") for i in range(n)],
    lambda n, _: [2**63 - 1] * n,
    lambda n, _: [2**40] * n,
    lambda n, _: [-1] * n,
    lambda n, _: [None] * n,
    lambda n, _: [[i] for i in range(n)],
    lambda n, word: [{word: i} for i in range(n)],
    lambda n, word: [{"x": word} for _ in range(n)],
    lambda n, word: [b"\xff\xfe" + word.encode()] * n,
    lambda n, _: [Decimal("1.5")] * n,
    lambda n, _: list(range(n)),
    lambda n, _: [str(i) for i in range(n)],
    lambda n, _: ["x" * 100_000] * n,
)


def frame_of(columns: Columns) -> pl.DataFrame:
    """The table, every column of the first type that holds all its values; text where none does."""
    series = []
    for name, values in columns.items():
        try:
            series.append(pl.Series(name, values, strict=True))
        except (TypeError, ValueError, OverflowError, pl.exceptions.PolarsError):
            series.append(pl.Series(name, [None if value is None else str(value) for value in values]))
    return pl.DataFrame(series)
