"""Answers of a finished release to a question, written to a file."""

from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from tallyveil.api.arguments import AnyPath, Name, Number, Text, Workers, checked
from tallyveil.errors import ConfigError
from tallyveil.postprocess.derived.question import LIMIT

if TYPE_CHECKING:
    from tallyveil.postprocess.derived.answer import Answer


@checked
def answer_in_file(
    release: AnyPath,
    question: Text,
    *,
    district: AnyPath | None = None,
    district_column: Name | None = None,
    per: AnyPath | None = None,
    threshold: Number | None = None,
    earlier: AnyPath | None = None,
    draws: AnyPath | None = None,
    out: AnyPath | None = None,
    language: Text | None = None,
    level: Number = 0.95,
    limit: Number = LIMIT,
    workers: Workers | None = None,
) -> "Answer":
    """Answer a question, and write the answer to a file.

    Args:
        release: Folder of a finished release.
        question: The question.
        district: A file that says the district of each finest geounit, or lists those of one; None for no districts.
        district_column: The column that names the districts; None for the only other column whose values differ.
        per: A table with the columns `geocode` and `number`: a public number for each area (CSV or Parquet).
        threshold: As for `Release.ask`.
        earlier: Folder of another release, whose answer to the same question is subtracted; None for none.
        draws: Folder with draws of the release, from which each number is computed, too; None for none.
        out: A file that ends in .csv, .parquet, .json (JSON-stat), .px or .xlsx; None to write nothing.
        language: The language of labels in the file, which CSV and Parquet do not have; None for the first of the
            release.
        level, limit, workers: As for `Release.ask`.
    Raises:
        TallyveilError: as `Release.ask` and `Answer.minus`; or a file cannot be read, has another ending, lies in the
            release, is there already, cannot hold such an answer, or cannot be written.
    """
    from tallyveil.geography.tables import read_districts
    from tallyveil.postprocess.derived.ask import AskedRelease, Terms
    from tallyveil.postprocess.derived.question import read_question
    from tallyveil.products.topdown.answer_files import refuse_ending, refuse_rows, write_answer_file

    folders = [Path(folder) for folder in (release, earlier) if folder is not None]
    place = None if out is None else Path(out)
    understood = read_question(question)
    # Before anything is computed, because that may take minutes.
    if place is not None:
        _refuse_place(place, folders)
        refuse_ending(place.suffix, understood, compared=earlier is not None, drawn=draws is not None)
    if draws is not None and earlier is not None:
        raise ConfigError(
            "--from-draws DRAWS has draws of one release, and --earlier RUN asks for the difference of two. Give one "
            "of them.",
            code="bad-flag",
        )
    if threshold is not None and earlier is not None:
        raise ConfigError(
            "--threshold NUMBER is for the numbers of one release, and --earlier RUN asks for the difference of two. "
            "Give one of them.",
            code="bad-flag",
        )
    if district_column is not None and district is None:
        raise ConfigError(
            "--district-column NAME can be given only together with --district FILE.", code="bad-flag"
        )
    districts = None
    if district is not None:
        read = read_districts(Path(district), district_column, "--district-column NAME")
        districts = {name or "district": codes for name, codes in read.geocodes.items()}
    numbers = None if per is None else _public_numbers(Path(per))
    terms = Terms(level, limit, threshold, None if draws is None else Path(draws), workers)
    answers = []
    for folder in folders:
        asked = AskedRelease(folder)
        if place is not None:
            refuse_rows(place.suffix, asked, question, districts, language)
        answers.append(asked.answer(understood, districts=districts, per=numbers, terms=terms))
    answer = answers[0].minus(answers[1]) if len(answers) > 1 else answers[0]
    if place is not None:
        write_answer_file(answer, question, place, folders[0], language)
    return answer


def _refuse_place(place: Path, folders: list[Path]) -> None:
    from tallyveil.products.topdown.answer_files import ENDINGS

    if place.suffix not in ENDINGS:
        raise ConfigError(
            f"--out is {str(place)!r}, wanted a file that ends in {', '.join(ENDINGS[:-1])} or {ENDINGS[-1]}.",
            code="bad-flag",
        )
    if any(place.resolve().is_relative_to(folder.resolve()) for folder in folders):
        raise ConfigError(
            f"--out is {str(place)!r}, which lies in the release. Write it elsewhere.", code="bad-flag"
        )
    # What is there may be records, or an earlier answer that somebody needs.
    if place.exists() or place.is_symlink():
        raise ConfigError(
            f"--out is {str(place)!r}, which is there already. Name a new file.", code="bad-flag"
        )


def _public_numbers(path: Path) -> dict[str, float]:
    """The number of each area in a table with the columns `geocode` and `number`; raises ConfigError and StoreError."""
    from tallyveil.storage.read import read_table

    table = read_table(path, ["geocode", "number"], "table of public numbers")
    numbers = table["number"].cast(pl.Float64, strict=False)
    codes = table["geocode"].cast(pl.String)
    if numbers.null_count() or codes.null_count() or codes.is_duplicated().any():
        raise ConfigError(
            f"{path} has an area twice, or a row without a geocode or without a number. Keep one row of each area, "
            "with the number by which its counts are divided.",
            code="bad-flag",
        )
    return dict(zip(codes.to_list(), numbers.to_list(), strict=True))
