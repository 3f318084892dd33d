"""Answers of a finished release to a question, written to a file."""

from pathlib import Path
from typing import TYPE_CHECKING

from tallyveil.api.arguments import AnyPath, Number, Text, Workers, checked
from tallyveil.errors import ConfigError

if TYPE_CHECKING:
    from tallyveil.postprocess.derived.ask import Answer


@checked
def answer_in_file(
    release: AnyPath,
    question: Text,
    *,
    out: AnyPath | None = None,
    level: Number = 0.95,
    limit: Number = 0.65,
    workers: Workers | None = None,
) -> "Answer":
    """Answer a question, and write the answer to a file.

    Args:
        release: Folder of a finished release. Its ledger is not read.
        question: The question.
        out: A CSV or Parquet file; None to write nothing.
        level, limit, workers: As for `Release.ask`.
    Raises:
        TallyveilError: as `Release.ask`; or the file has another ending, lies in the release, or cannot be written.
    """
    from tallyveil.postprocess.derived.ask import answer_question
    from tallyveil.postprocess.derived.question import read_question
    from tallyveil.storage.write import write_file, write_parquet

    place = None if out is None else Path(out)
    # Before anything is computed, because that may take minutes.
    if place is not None and place.suffix not in (".csv", ".parquet"):
        raise ConfigError(
            f"--out is {str(place)!r}, wanted a file that ends in .csv or .parquet.", code="bad-flag"
        )
    if place is not None and place.resolve().is_relative_to(Path(release).resolve()):
        raise ConfigError(
            f"--out is {str(place)!r}, which lies in the release. Write it elsewhere.", code="bad-flag"
        )
    # What is there may be records, or an earlier answer that somebody needs.
    if place is not None and (place.exists() or place.is_symlink()):
        raise ConfigError(
            f"--out is {str(place)!r}, which is there already. Name a new file.", code="bad-flag"
        )
    answer = answer_question(
        Path(release), read_question(question), level=level, limit=limit, workers=workers
    )
    if place is not None and place.suffix == ".csv":
        write_file(place, answer.table.write_csv)
    elif place is not None:
        write_parquet(
            place, answer.table, {"question": question, "level": f"{level:g}", "covers": answer.covers}
        )
    return answer
