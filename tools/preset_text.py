"""Write a schema preset as TOML text."""

from collections.abc import Iterator, Mapping, Sequence
from textwrap import wrap
from typing import Any

from tallyveil.storage.json_files import toml_key

WIDTH = 118


def preset_text(comment: str, preset: Mapping[str, Any]) -> str:
    """The text of a preset file: the keys of `schema_from_mapping`, and titles.

    Args:
        comment: What the file describes, in sentences.
        preset: The keys of `tallyveil.schema.presets.schema_from_mapping`, and `titles`. With `extends`, the name of
            another preset, only what comes after that preset's own.
    """
    lines = [f"# {line}" for line in wrap(comment, WIDTH)]
    lines += [
        "",
        *(f'{key} = "{preset[key]}"' for key in ("name", "extends", "unit", "units") if key in preset),
    ]
    for attribute in preset.get("attributes", ()):
        lines += [
            "",
            "[[attributes]]",
            f'name = "{attribute["name"]}"',
            *_list("levels", attribute["levels"]),
        ]
    for recode in preset["recodes"]:
        lines += ["", "[[recodes]]", *(f'{key} = "{recode[key]}"' for key in ("name", "attribute"))]
        lines += ["[recodes.groups]"]
        for label, levels in recode["groups"].items():
            lines += _list(_key(label), levels)
    for zero in preset.get("structural_zeros", ()):
        lines += ["", "[[structural_zeros]]", f'name = "{zero["name"]}"', "[structural_zeros.cells]"]
        for attribute, levels in zero["cells"].items():
            lines += _list(attribute, levels)
    lines += ["", "# How attributes and recodes are called on pages.", "[titles]"]
    lines += [f'{name} = "{title}"' for name, title in preset["titles"].items()]
    return "\n".join(lines) + "\n"


def _key(label: str) -> str:
    return toml_key(label).replace('"', "'")


def _list(key: str, words: Sequence[str]) -> Iterator[str]:
    """A list of words, on one line if it fits. Literal strings, because Python reads them many times faster."""
    quoted = [f"'{word}'" for word in words]
    line = f"{key} = [{', '.join(quoted)}]"
    if len(line) <= WIDTH:
        yield line
        return
    yield f"{key} = ["
    row = " "
    for word in quoted:
        if len(row) + len(word) + 2 > WIDTH:
            yield row
            row = " "
        row += f" {word},"
    yield row
    yield "]"
