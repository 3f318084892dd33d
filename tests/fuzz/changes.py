"""Changed files of a target: what hypothesis draws, from the changes that the soak makes to bad inputs."""

import contextlib
import json
from collections.abc import Callable
from typing import Any

import base_inputs as base
import mutations as mutate
import polars as pl
from hypothesis import strategies as st
from runner import CANARY
from targets import Target, table_of


@st.composite
def changed(draw: Callable[[Any], Any], target: Target) -> bytes:
    """One file: the valid one with a few changes of its values, its structure or its bytes."""
    content = target.valid
    if target.form != "bytes" and draw(st.integers(0, 3)):
        content = draw(BY_FORM[target.form](target))
        if draw(st.integers(0, 5)):
            return content
    for _ in range(draw(st.sampled_from((1, 1, 2, 4)))):
        content, _ = draw(mutate.bytes_of(content))
    return content


@st.composite
def _toml(draw: Callable[[Any], Any], target: Target) -> bytes:
    tree = base.tree_of("x.toml", target.valid)
    return mutate.toml_of(draw(mutate.trees(tree))[0])


@st.composite
def _json(draw: Callable[[Any], Any], target: Target) -> bytes:
    tree, done = draw(mutate.trees(json.loads(target.valid)))
    if "nest" not in done and draw(st.integers(0, 3)):  # what walks a tree must not meet deep nests
        tree = _mended(target, tree)
    return _text(tree)


def _text(tree: Any) -> bytes:
    """The tree as JSON. A nest that was doubled is too deep to be written, and becomes brackets alone."""
    try:
        return mutate.json_of(tree)
    except RecursionError:
        return b"[" * 100_000


@st.composite
def _lines(draw: Callable[[Any], Any], target: Target) -> bytes:
    """Lines of JSON, of which one is changed, left out, doubled or moved."""
    lines = [json.loads(line) for line in target.valid.splitlines()]
    at = draw(st.integers(0, len(lines) - 1))
    how = draw(st.sampled_from(("tree", "tree", "tree", "out", "twice", "swap")))
    done = ""
    if how == "tree":
        lines[at], done = draw(mutate.trees(lines[at]))
    elif how == "out":
        del lines[at]
    elif how == "twice":
        lines.insert(at, lines[at])
    else:
        lines[at], lines[0] = lines[0], lines[at]
    if "nest" not in done and draw(st.integers(0, 3)):
        lines = _mended(target, lines)
        with contextlib.suppress(ValueError, TypeError):
            return b"".join(json.dumps(line, separators=(",", ":")).encode() + b"\n" for line in lines)
    return b"".join(_text(line).replace(b"\n", b" ") + b"\n" for line in lines)


def _mended(target: Target, tree: Any) -> Any:
    """The tree with consistent digests, where it can have some."""
    try:
        return target.mended(tree)
    except (ValueError, TypeError, RecursionError):  # such as numbers that no JSON has
        return tree


@st.composite
def _table(draw: Callable[[Any], Any], target: Target) -> bytes:
    columns = table_of(target.valid, target.form)
    content, suffix, _ = draw(mutate.tables(columns, target.confidential))
    separated = b"|" in target.valid.partition(b"\n")[0]
    if suffix == ".csv":
        return content.replace(b",", b"|") if separated else content
    return content


@st.composite
def _parquet(draw: Callable[[Any], Any], target: Target) -> bytes:
    """A Parquet file with changed columns, with the metadata of the valid one or with changed ones."""
    import io

    tags = {
        key: text
        for key, text in pl.read_parquet_metadata(io.BytesIO(target.valid)).items()
        if key != "ARROW:schema"
    }
    columns, name = table_of(target.valid, "parquet"), ""
    if draw(st.integers(0, 4)):
        for _ in range(draw(st.sampled_from((1, 1, 2)))):
            if columns:
                name = draw(st.sampled_from(sorted(columns)))
                action = draw(st.sampled_from(sorted(mutate.TABLE_CHANGES)))
                word = CANARY if target.confidential else "x"
                columns = mutate.TABLE_CHANGES[action](draw, columns, name, word)
    if tags and not draw(st.integers(0, 2)):
        key = draw(st.sampled_from(sorted(tags)))
        tags = tags | {key: draw(mutate.names)}
    buffer = io.BytesIO()
    lengths = {len(values) for values in columns.values()}
    if len(lengths) > 1:
        columns = {key: values[: min(lengths)] for key, values in columns.items()}
    mutate.frame_of(columns).write_parquet(buffer, metadata=tags)
    return buffer.getvalue()


BY_FORM: dict[str, Callable[[Target], Any]] = {
    "toml": _toml,
    "json": _json,
    "lines": _lines,
    "csv": _table,
    "parquet": _parquet,
}
