"""Read a release file into a plan. One error message shows every unknown key and wrong value, with its place."""

import difflib
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import Field, fields
from fractions import Fraction
from pathlib import Path, PurePath
from typing import Annotated, Any, Final, TypeVar, cast, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from tallyveil.declared import NO_TABLE, Declared
from tallyveil.errors import ConfigError, StoreError
from tallyveil.exact import as_given, type_of
from tallyveil.plans.estimating import GeolevelEstimation
from tallyveil.plans.fitting import refuse_steps
from tallyveil.plans.from_toml.estimation import estimation_of
from tallyveil.plans.from_toml.models import EstimationFile, ReleaseFile
from tallyveil.plans.from_toml.planning import plan_of
from tallyveil.plans.release import ReleasePlan, StatedPlan
from tallyveil.printable import short_name
from tallyveil.storage.addresses import is_object
from tallyveil.storage.json_files import json_of, read_text_file

File = TypeVar("File", bound=BaseModel)


def load_plan(path: Path) -> ReleasePlan:
    """Read a release file and make its plan.

    Args:
        path: TOML file. Relative paths inside it start from its folder.
    Raises:
        StoreError: the file cannot be read.
        ConfigError: it is not TOML, has unknown keys or wrong values (all shown at once), or its parts do
            not fit each other.
        SchemaError, BudgetError: the schema or the shares are wrong.
    """
    return plan_of(parse_file(path, ReleaseFile))


def plan_from_mapping(content: Mapping[str, Any], folder: Path) -> ReleasePlan:
    """Make the plan of a release file's content, given as nested mappings.

    Args:
        content: The tables of a release file. Exact numbers are text, whole numbers or fractions, never floats. A path
            may be text or a `Path`.
        folder: Relative paths start from this folder.
    Raises:
        ConfigError, SchemaError, BudgetError: as `load_plan`.
    """
    return plan_of(_of_mapping(content, ReleaseFile, "the release mapping", folder))


def _of_mapping(
    content: Mapping[str, Any], model: type[File], where: str, folder: Path | None = None
) -> File:
    """Typed tables of a mapping, whose paths start from a folder; raises ConfigError with all mistakes."""
    try:
        return model.model_validate(_as_in_a_file(content), context=folder)
    except ValidationError as error:
        message = _all_mistakes(where, error, model, content)
    except RecursionError:
        message = (
            f"{where} is nested too deeply, or a table or a list in it holds itself. No table of a release file needs "
            "more than a few levels."
        )
    # Raised here, and not where pydantic's error is caught: that one quotes values, and would stay with this one.
    raise ConfigError(message, code="bad-key-or-value")


def _as_in_a_file(value: Any) -> Any:
    """The content of a mapping in the types that a TOML file can hold; raises ConfigError for a key that is no text."""
    if isinstance(value, Mapping):
        if strange := [key for key in value if not isinstance(key, str)]:
            raise ConfigError(
                f"a key of a table is {type_of(strange[0])}, wanted text, as in a release file.",
                code="bad-key-or-value",
            )
        return {key: _as_in_a_file(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_as_in_a_file(item) for item in value]
    return str(value) if isinstance(value, (Fraction, PurePath)) else value


def load_estimation(path: Path, plan: StatedPlan) -> tuple[tuple[str, GeolevelEstimation], ...]:
    """Read the [estimation] of a file of its own, for measurements that are drawn already.

    Args:
        path: TOML file with the table `estimation`, as in a release file. What it leaves out has the default of a
            release file whose strategy has no preset.
        plan: Of the measurements.
    Raises:
        StoreError, ConfigError: as `load_plan`.
    """
    file = parse_file(path, EstimationFile)
    return _estimation(file, plan)


def estimation_from_mapping(
    content: Mapping[str, Any], plan: StatedPlan
) -> tuple[tuple[str, GeolevelEstimation], ...]:
    """The [estimation] of a mapping, for measurements that are drawn already.

    Args:
        content: The table `estimation` of a release file.
        plan: Of the measurements.
    Raises:
        ConfigError: as `load_plan`.
    """
    file = _of_mapping({"estimation": content}, EstimationFile, "the estimation mapping")
    return _estimation(file, plan)


def _estimation(file: EstimationFile, plan: StatedPlan) -> tuple[tuple[str, GeolevelEstimation], ...]:
    """What the table says of the measurements of a plan; raises ConfigError where it does not fit them."""
    _refuse_outer(file, plan)
    estimation = estimation_of(file.estimation, plan.strategy, None, drawn=bool(plan.subspace))
    for geolevel, steps in estimation:
        refuse_steps(plan, geolevel, steps)
    return estimation


def _refuse_outer(file: EstimationFile, plan: StatedPlan) -> None:
    """Refuse other settings for a release with outer passes; raises ConfigError."""
    if plan.outer or file.estimation.outer:
        raise ConfigError(
            "[estimation] cannot be changed here: outer passes are part of the plan by which the measurements were "
            "drawn. Estimate with the settings of that plan, by leaving --estimation out.",
            code="outer-pass",
        )


def release_file_schema() -> dict[str, Any]:
    """The JSON Schema of a release file."""
    return ReleaseFile.model_json_schema(by_alias=True)


def _reason(path: Path, error: OSError | ValueError) -> str:
    """Why a file cannot be read as text, in words."""
    if is_object(path):
        return "it is in an object store, where only tables are read"
    if path.is_dir():
        return "it is a folder"
    return (
        "it holds bytes that are no UTF-8 text" if isinstance(error, UnicodeError) else type(error).__name__
    )


def parse_file(path: Path, model: type[File], *, or_json: bool = False) -> File:
    """Read a TOML file into typed tables.

    Args:
        path: The file.
        model: The pydantic model of the whole file.
        or_json: Whether a file whose name ends in .json is read as JSON.
    Raises:
        StoreError: the file cannot be read.
        ConfigError: it is not TOML (or JSON), or has unknown keys or wrong values, all shown at once.
    """
    language, loads = ("JSON", json_of) if or_json and path.suffix == ".json" else ("TOML", tomllib.loads)
    try:
        text = read_text_file(path)
    except (OSError, ValueError) as error:
        raise StoreError(
            f"the file {path} cannot be read: {_reason(path, error)}. Name an existing {language} file in UTF-8.",
            code="input-missing",
        ) from None
    try:
        return model.model_validate(loads(text), context=path.parent)
    except ValidationError as error:  # before ValueError, of which it is a subclass
        raise ConfigError(_all_mistakes(str(path), error, model), code="bad-key-or-value") from None
    except ValueError as error:  # another language, or a number with thousands of digits
        raise ConfigError(f"{path} is not valid {language}: {error}", code="not-toml") from None
    except RecursionError:
        raise ConfigError(
            f"{path} is nested too deeply. No table of a release file needs more than a few levels. Remove the "
            "superfluous ones.",
            code="not-toml",
        ) from None


def _all_mistakes(
    where: str, error: ValidationError, model: type[BaseModel], content: Mapping[str, Any] | None = None
) -> str:
    """All mistakes of a file, or of the content of a mapping, in which somebody may have put a table of records."""
    items = error.errors(include_url=False)
    mistakes = [
        f"  {_place(item['loc'][:-1])}: holds none of the keys that are known here, which are "
        f"{', '.join(_keys_at(item['loc'][:-1], model))}. Its keys are not shown, because they may be data."
        if content is not None and _is_data(content, item, model)
        else f"  {_place(item['loc'])}: {_explain(item, model, as_given if content is None else type_of)}"
        for item in items
    ]
    mistakes = list(dict.fromkeys(mistakes))
    count = f"{len(mistakes)} mistake" + ("s" if len(mistakes) > 1 else "")
    return "\n".join([f"{count} in {where}:", *mistakes])


def _is_data(content: Mapping[str, Any], item: Any, model: type[BaseModel]) -> bool:
    """Whether a mistake is a key of a mapping that has no known key, so that its keys may be data."""
    if item["type"] not in _UNKNOWN:
        return False
    table: Any = content
    for part in item["loc"][:-1]:
        if isinstance(table, Mapping):
            table = table.get(part, table)  # else the kind of a table, which pydantic names as well
        elif isinstance(part, int):
            table = table[part]
    return not set(_keys_at(item["loc"][:-1], model)) & set(table)


def _place(location: tuple[str | int, ...]) -> str:
    text = ""
    for part in location:
        if isinstance(part, int):
            text += f"[{part + 1}]"
        else:
            text += f".{short_name(part)}" if text else short_name(part)
    return text or "the file"


def _explain(item: Any, model: type[BaseModel], shown: Callable[[object], str]) -> str:
    kind = item["type"]
    if kind in _UNKNOWN:
        known = _keys_at(item["loc"][:-1], model)
        close = difflib.get_close_matches(short_name(str(item["loc"][-1])), known, n=1)
        hint = f"did you mean '{close[0]}'? " if close else ""
        return f"unknown key; {hint}Known keys here: {', '.join(known)}."
    if kind == "missing":
        return "is required and absent."
    if kind in ("union_tag_invalid", "union_tag_not_found"):
        return _explain_kind(item["ctx"], shown)
    if kind == "value_error":
        return str(item["ctx"]["error"])
    if kind in NO_TABLE:
        return f"Input should be a table (got {shown(item['input'])})."
    said = item["msg"].replace("a valid tuple", "a valid list").replace("Tuple should", "List should")
    return f"{said} (got {shown(item['input'])})."


def _explain_kind(context: Mapping[str, Any], shown: Callable[[object], str]) -> str:
    """What is wrong with the key that says which of several tables this is."""
    if "tag" not in context:
        return f"the key {context['discriminator']} is required and absent."
    return f"{context['discriminator']} should be {context['expected_tags']} (got {shown(context['tag'])})."


_UNKNOWN: Final = ("extra_forbidden", "unexpected_keyword_argument")
"""What pydantic calls a key that a table, or a declared dataclass, does not have."""


def _keys_at(location: tuple[str | int, ...], model: type) -> list[str]:
    """The keys that are allowed in the table at a location."""
    kinds: list[type] = []
    for part in location:
        if isinstance(part, int):
            continue
        choices = {_tag(choice): choice for choice in kinds}
        if part in choices:
            model, kinds = choices[part], []
            continue
        for name, annotation in _fields(model):
            if part == name:
                kinds = list(_tables_in(annotation))
                model = kinds[0] if kinds else model
                break
    return [name for name, _ in _fields(model)]


def _fields(model: type) -> list[tuple[str, Any]]:
    """Keys of a table with what they hold."""
    if issubclass(model, BaseModel):
        return [(field.alias or name, field.annotation) for name, field in model.model_fields.items()]
    return [(_key(item), item.type) for item in fields(cast(Any, model))]


def _key(item: Field[Any]) -> str:
    aliases = [info.alias for info in get_args(item.type)[1:] if isinstance(info, FieldInfo) and info.alias]
    return aliases[0] if aliases else item.name


def _tag(model: type) -> str | None:
    """The value of `kind` that selects this table; None if the table has no key `kind`."""
    annotation = dict(_fields(model)).get("kind")
    if get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    return None if annotation is None else str(get_args(annotation)[0])


def _tables_in(annotation: Any) -> Iterator[type]:
    if isinstance(annotation, type) and issubclass(annotation, (BaseModel, Declared)):
        yield annotation
    for candidate in get_args(annotation):
        yield from _tables_in(candidate)
