"""The questions of the page of tables, answered by the program that serves it.

A site of files cannot answer: what an answer follows from is the measurements of the whole tree. The page writes a
question in the words of `tallyveil ask`, and gets what that command would say. Nothing is computed in the browser.
"""

import base64
import binascii
import hashlib
import math
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import polars as pl

from tallyveil.errors import ConfigError, TallyveilError
from tallyveil.explore.opened import OpenedRelease
from tallyveil.explore.serving import served
from tallyveil.geography.areas import names_in
from tallyveil.geography.tables import read_districts
from tallyveil.postprocess.derived.answer import Answer
from tallyveil.postprocess.derived.ask import AskedRelease, Terms
from tallyveil.postprocess.derived.asking import names_of_rows
from tallyveil.postprocess.derived.question import read_question
from tallyveil.printable import short_name
from tallyveil.products.topdown.answer_files import ENDINGS, endings_of, write_answer_file
from tallyveil.report.release_files import schema_titles
from tallyveil.report.stated import stated_in
from tallyveil.storage.json_files import JsonObject
from tallyveil.storage.paths import inside
from tallyveil.words.language import language_of

MOST_SENT: Final = 1 << 26
"""Most bytes of a question with the file of a plan: 64 MiB hold the blocks of the largest state four times."""
MOST_SHOWN: Final = 20_000
"""Rows of an answer that go to the page, which sorts them: some MB. Twice as many make it stand still for a moment; all
rows are in the file."""


def asking_entry(release: OpenedRelease) -> JsonObject:
    """What `site.json` says for questions: the attributes with their recodes, and why there are no answers, if so."""
    schema, titles = release.schema, schema_titles(release.schema)
    attributes: dict[str, JsonObject] = {
        attribute.name: {
            "name": attribute.name,
            "title": titles.factor(attribute.name),
            "levels": list(attribute.levels),
            "recodes": [],
        }
        for attribute in schema.attributes
    }
    for name in schema.factor_names:
        if name not in attributes:
            (factor,) = schema.query(name).named_factors
            entry = {"name": name, "title": titles.factor(name), "levels": list(factor.labels)}
            attributes[factor.attribute]["recodes"].append(entry)
    written = release.manifest.body["plan"]["measurements"]
    lacking = None
    if written not in ("full", "small"):
        lacking = (
            f'The release was made with measurements = "{written}". Questions are answered from the noisy '
            'measurements, which are in releases with measurements = "full" or "small".'
        )
    return {"attributes": list(attributes.values()), "lacking": lacking}


class AskingPage:
    """What the page asks, and what it is answered. One question at a time: a browser sends several at once."""

    def __init__(self, root: Path) -> None:
        """Take a release, which is opened with the first question.

        Args:
            root: Its folder.
        """
        self._root, self._lock = root, threading.Lock()
        self._release: AskedRelease | None = None
        self._plans: dict[str, Mapping[str, pl.Series]] = {}
        self._last: tuple[tuple[object, ...], Answer] | None = None

    def answer(self, asked: JsonObject) -> JsonObject:
        """Answer a question of the page.

        Args:
            asked: `ask` is "begin", "plan" (with `name` and `content`, a file in Base64), "answer" or "file" (with
                `question`, `level`, `threshold` and `plan`; `language` is that of names and labels; a file has
                an `ending`).
        Returns:
            What was asked for, and `problem`: what is wrong, if anything.
        """
        with self._lock:
            try:
                return {"problem": "", **self._done(asked)}
            except TallyveilError as error:
                return {"problem": str(error)}

    def _done(self, asked: JsonObject) -> JsonObject:
        match asked.get("ask"):
            case "begin":
                self._opened().prepare()
                return {"release": str(self._root)}
            case "plan":
                return self._take_plan(str(asked.get("name")), str(asked.get("content")))
            case "answer":
                return self._shown(*self._answered(asked), str(asked.get("language")))
            case "file":
                return self._file(
                    str(asked.get("ending")), *self._answered(asked), str(asked.get("language"))
                )
        raise _unknown()

    def _opened(self) -> AskedRelease:
        if self._release is None:
            self._release = AskedRelease(self._root)
        return self._release

    def _take_plan(self, name: str, content: str) -> JsonObject:
        """Read a plan, and keep it under its digest."""
        try:
            file = base64.b64decode(content, validate=True)
        except binascii.Error as error:
            raise _unknown() from error
        # In a folder of its own, so that the one reader of plans reads it, and by the ending of its name.
        with TemporaryDirectory(prefix="tallyveil-plan-") as folder:
            path = Path(folder) / ("plan.parquet" if name.endswith(".parquet") else "plan.csv")
            path.write_bytes(file)
            try:
                districts = read_districts(path, None, "--district-column NAME on the command line")
            except TallyveilError as error:
                # By the name that its reader knows.
                return {"problem": str(error).replace(str(path), short_name(name))}
        digest = hashlib.sha256(file).hexdigest()
        self._plans[digest] = {area or "district": codes for area, codes in districts.geocodes.items()}
        return {"plan": digest, "areas": len(districts.geocodes)}

    def _answered(self, asked: JsonObject) -> tuple[str, Answer]:
        question, level = asked.get("question"), asked.get("level")
        threshold, plan = asked.get("threshold"), asked.get("plan")
        if not isinstance(question, str) or not isinstance(level, float | int):
            raise _unknown()
        if not isinstance(threshold, float | int | None) or not isinstance(plan, str | None):
            raise _unknown()
        key = (question, level, threshold, plan)
        # A file of what is shown is not computed again.
        if self._last is None or self._last[0] != key:
            if plan is not None and plan not in self._plans:
                raise ConfigError(
                    "the file of areas that the question is about was not given to this page. Choose it again.",
                    code="bad-argument",
                )
            districts = None if plan is None else self._plans[plan]
            terms = Terms(level=level, threshold=threshold)
            answer = self._opened().answer(read_question(question), districts=districts, terms=terms)
            self._last = (key, answer)
        return question, self._last[1]

    def _shown(self, question: str, answer: Answer, language: str) -> JsonObject:
        table = answer.table.head(MOST_SHOWN)
        return {
            "keys": list(answer.keys),
            "columns": {column.name: [_sent(value) for value in column] for column in table},
            "rows": answer.table.height,
            "names": self._names(question, table, language),
            "covers": stated_in(language_of(language), answer.covers),
            "limit": answer.limit,
            "is_counts": answer.is_counts,
            "endings": list(endings_of(answer)),
        }

    def _names(self, question: str, table: pl.DataFrame, language: str) -> list[str | None] | None:
        """The names of the areas of the rows in a language; None without names."""
        hierarchies = self._opened().release.hierarchies
        if hierarchies.names is None or "geocode" not in table.columns:
            return None
        _, kinds = names_of_rows(read_question(question), self._opened().release.schema, hierarchies)
        of_kind = hierarchies.names.filter(pl.col("geolevel").is_in(kinds))
        if of_kind.is_empty():
            return None
        named = names_in(of_kind, language).drop("geolevel")
        return (
            table.select("geocode")
            .join(named, on="geocode", how="left", maintain_order="left")["name"]
            .to_list()
        )

    def _file(self, ending: str, question: str, answer: Answer, language: str) -> JsonObject:
        if ending not in ENDINGS:
            raise _unknown()
        # The page of a release without labels names no language.
        labelled = language if language in self._opened().release.stated.languages else None
        with TemporaryDirectory(prefix="tallyveil-answer-") as folder:
            path = inside(Path(folder), f"answer{ending}")
            write_answer_file(answer, question, path, self._root, labelled)
            return {"content": base64.b64encode(path.read_bytes()).decode("ascii")}


@contextmanager
def served_answers(site: Path, root: Path) -> Iterator[str]:
    """Serve the site of a release to the browser of this machine, and answer the questions of its page of tables.

    Args:
        site: Folder of the site.
        root: Folder of the release.
    Yields:
        The address, with a secret in it.
    """
    with served(site, answer=AskingPage(root).answer, most=MOST_SENT) as address:
        yield address


def _sent(value: Any) -> Any:
    """A value as JSON has it: an end that is not finite as a text that JavaScript reads as a number."""
    if isinstance(value, float) and math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value


def _unknown() -> ConfigError:
    return ConfigError("the page asked something that is not known here. Load it again.", code="bad-argument")
