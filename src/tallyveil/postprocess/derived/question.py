"""Questions in words: which counts of a release somebody asks for, or what follows from them.

    [MEASURE of] NAMES [into GROUPS] [across GEOLEVEL] [where CONDITIONS] [in AREAS] [minus AREAS]
    [as share of NAMES | as deviation]

NAMES are attributes and recodes, and at most one geolevel or family of entities, joined by `by`; `total` stands
for none. A condition is `NAME = LEVEL, LEVEL, ...` or `NAME from LEVEL to LEVEL`, in the order of the schema;
conditions are joined by `and`. GROUPS of levels follow the name of an attribute or recode. Each group is written as a
condition, with its label in the place of the name, and groups are joined by `or`. AREAS are geocodes or names of areas,
separated by commas. A MEASURE is `median`, `quantile NUMBER`, `entropy`, `dissimilarity`, `gini` or `theil`, of the
first of the names; the last three compare areas of a geolevel. A name with spaces, commas, equals signs or quotes, or
one that is a word of the grammar, stands between quotes; a quote inside it is doubled. Examples:

    sex by age5 by Town where citizenship = foreign, stateless and age from 18 to 64 as share of sex
    age into young from 0 to 17 or old from 65 to 99 by Town
    median of age by sex by Town
    dissimilarity of citizenship by Town across Block
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from tallyveil.errors import ConfigError
from tallyveil.exact import as_given, type_of
from tallyveil.printable import has_bytes, is_one_line, short_name

TOTAL: Final = "total"
WORDS: Final = (
    "by",
    "into",
    "or",
    "across",
    "where",
    "and",
    "in",
    "minus",
    "as",
    "share",
    "of",
    "from",
    "to",
)
"""Words of the grammar, which have another meaning only between quotes."""
LONGEST: Final = 100_000
"""Characters of a question, with lists of some thousand geocodes. Anything longer is a file given by mistake."""
FORM: Final = "NAME by NAME where NAME = LEVEL in AREA minus AREA as share of NAME"
COMPARING: Final = ("dissimilarity", "gini", "theil")
"""Indices that compare areas."""
INDICES: Final = ("entropy", *COMPARING)
MEASURES: Final = "'median', 'quantile NUMBER', " + ", ".join(f"'{index}'" for index in INDICES)
LIMIT: Final = 0.65
"""Half the width of an interval of 95 %, as a part of the number, above which the number should not be used: 1.96 times
the coefficient of variation of 33.3 % above which Statistics Canada calls an estimate unacceptable. Twice it lets
numbers pass whose interval reaches from nearly nothing to more than double; half of it is the limit there for what is
acceptable."""

# JavaScript counts a byte order mark among the blanks: what the page asks is understood here as it is there.
_BLANKS = re.compile(r"[\s\ufeff]*")
_TOKEN = re.compile(r""""((?:[^"]|"")*)"|'((?:[^']|'')*)'|([=,])|([^\s\ufeff=,'"]+)""")


class Condition(NamedTuple):
    """Levels of an attribute, or groups of a recode.

    Attributes:
        name: The attribute or recode; for a group of `Question.groups`, its label.
        labels: Its levels or groups; of a span the first and the last.
        is_span: Whether all levels from the first to the last are meant.
    """

    name: str
    labels: tuple[str, ...]
    is_span: bool


class Measure(NamedTuple):
    """A number that follows from the counts by one attribute.

    Attributes:
        kind: "quantile", or an index.
        part: The part of the people below the quantile, such as 0.5 for the median; 0 for an index.
    """

    kind: str
    part: float = 0.0

    @property
    def is_quantile(self) -> bool:
        """Whether it is a level of the attribute, and not a number."""
        return self.kind == "quantile"


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked.

    Attributes:
        by: Attributes, recodes, and at most one geolevel or family, which make the rows.
        where: Conditions, all of which hold for what is counted.
        areas: Names of areas to which rows are restricted, or which are counted together; None for all. A mapping names
            several unions.
        minus: Areas whose counts are subtracted; empty for none.
        share_of: Names that the denominator keeps; None if no share is asked for.
        is_deviation: Whether each count is compared with the mean of all areas.
        measure: What is asked of the first of `by`; None for counts.
        across: Geolevel whose areas an index compares; None for none.
        groups: Groups that the question defines, of attributes or recodes among `by`, in order. Levels in no group are
            not counted.
    """

    by: tuple[str, ...] = ()
    where: tuple[Condition, ...] = ()
    areas: tuple[str, ...] | dict[str, tuple[str, ...]] | None = None
    minus: tuple[str, ...] = ()
    share_of: tuple[str, ...] | None = None
    is_deviation: bool = False
    measure: Measure | None = None
    across: str | None = None
    groups: dict[str, tuple[Condition, ...]] = field(default_factory=dict)


def refused(message: str) -> ConfigError:
    """The error of a question that cannot be understood, or has no answer."""
    return ConfigError(message, code="bad-question")


class _Token(NamedTuple):
    """A word, and whether it is one of the grammar's: a sign, or a word without quotes."""

    text: str
    is_plain: bool


def _tokens(text: str) -> Iterator[_Token]:
    at = 0
    while (at := _after_blanks(text, at)) < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise refused(
                f"the question has a quote without its end at {short_name(text[at:].rstrip())!r}. Close it, and double "
                "a quote that belongs to a name."
            )
        double, single, sign, word = match.groups()
        if double is not None:
            yield _Token(double.replace('""', '"'), False)
        elif single is not None:
            yield _Token(single.replace("''", "'"), False)
        else:
            yield _Token(sign or word, True)
        at = match.end()


def _after_blanks(text: str, at: int) -> int:
    blanks = _BLANKS.match(text, at)
    return blanks.end() if blanks else at


class _Reader:
    """The words of a question, one after another."""

    def __init__(self, text: str) -> None:
        self._tokens = list(_tokens(text))
        self._at = 0

    def take(self, word: str) -> bool:
        """Whether the next word is this one of the grammar, which is then passed."""
        there = self._at < len(self._tokens) and self._tokens[self._at] == (word, True)
        self._at += there
        return there

    def name(self, what: str) -> str:
        """The next word as a name; raises ConfigError if there is none."""
        token = self._tokens[self._at] if self._at < len(self._tokens) else None
        if token is None or (token.is_plain and token.text in (*WORDS, "=", ",")):
            obstacle = "its end" if token is None else repr(token.text)
            raise refused(
                f"the question has {obstacle} where {what} is wanted. Its form is {FORM}; put names that are words of "
                "the grammar between quotes."
            )
        self._at += 1
        return token.text

    def measure(self) -> Measure | None:
        """The measure at the beginning, with its `of`; None if there is none."""
        ahead = [token.text for token in self._tokens[:3] if token.is_plain]
        length = 2 if ahead[:1] == ["quantile"] and ahead[1:2] != ["of"] else 1
        if ahead[length : length + 1] != ["of"]:
            return None
        self._at = length + 1
        return measure_of(" ".join(ahead[:length]))

    def names(self, what: str, sign: str) -> tuple[str, ...]:
        """Names with a sign or word between them."""
        names = [self.name(what)]
        while self.take(sign):
            names.append(self.name(what))
        return tuple(names)

    def refuse_rest(self) -> None:
        """Refuse words that are left over."""
        if self._at < len(self._tokens):
            rest = short_name(self._tokens[self._at].text)
            raise refused(
                f"the question goes on with {rest!r}, which has no place there. Its form is {FORM}; put names with "
                "spaces between quotes."
            )


def read_question(text: str) -> Question:
    """A question from its words.

    Raises:
        ConfigError: the text does not have the form of a question.
    """
    if not isinstance(text, str) or len(text) > LONGEST:
        raise refused(
            f"the question is {type_of(text)}, wanted a text of at most {LONGEST:,} characters of the form {FORM}."
        )
    if has_bytes(text):
        raise refused("the question has bytes that are no UTF-8 text. Write it in UTF-8.")
    reader = _Reader(text)
    measure = reader.measure()
    by, groups = _rows(reader)
    across = reader.name("a geolevel") if reader.take("across") else None
    where: list[Condition] = []
    if reader.take("where"):
        where.append(_condition(reader))
        while reader.take("and"):
            where.append(_condition(reader))
    areas = reader.names("the geocode or name of an area", ",") if reader.take("in") else None
    minus = reader.names("the geocode or name of an area", ",") if reader.take("minus") else ()
    share_of, is_deviation = None, False
    if reader.take("as"):
        is_deviation = reader.take("deviation")
        if not is_deviation and not (reader.take("share") and reader.take("of")):
            raise refused(
                "the question has 'as' without 'share of' or 'deviation'. Write: as share of NAME, or: as share of "
                "total, or: as deviation."
            )
        if not is_deviation:
            share_of = _without_total(reader.names("an attribute, a recode or 'total'", "by"))
    reader.refuse_rest()
    return _understood(
        Question(
            _without_total(by), tuple(where), areas, minus, share_of, is_deviation, measure, across, groups
        )
    )


def _rows(reader: _Reader) -> tuple[tuple[str, ...], dict[str, tuple[Condition, ...]]]:
    """The names that make the rows, and the groups that the question defines for some of them."""
    names: list[str] = []
    groups: dict[str, tuple[Condition, ...]] = {}
    while not names or reader.take("by"):
        names.append(reader.name("an attribute, a recode, a geolevel or 'total'"))
        if reader.take("into"):
            given = [_condition(reader)]
            while reader.take("or"):
                given.append(_condition(reader))
            groups[names[-1]] = tuple(given)
    return tuple(names), groups


def measure_of(text: str) -> Measure:
    """A measure from its words.

    Raises:
        ConfigError: it is none.
    """
    word, _, number = text.partition(" ")
    if word == "quantile":
        try:
            part = float(number)
        except ValueError:
            part = math.nan
        if 0 < part < 1:
            return Measure("quantile", part)
        raise refused(
            f"the quantile is {short_name(number)!r}, wanted a number above 0 and below 1, as in: quantile 0.9 of age."
        )
    if text == "median":
        return Measure("quantile", 0.5)
    if text in INDICES:
        return Measure(text)
    raise refused(f"{short_name(text)!r} is no measure. Known: {MEASURES}.")


def _understood(question: Question) -> Question:
    """The question, if its parts can stand together."""
    measure = question.measure
    for name in question.groups:
        if name not in question.by:
            raise refused(
                f"groups are given of {short_name(name)!r}, which makes no rows. Give groups of a name in `by` only."
            )
    if question.share_of is not None and question.is_deviation:
        raise refused("a share and a deviation are asked for. Ask for one of them.")
    if measure is None:
        if question.across is not None:
            raise refused(
                f"areas are compared across {short_name(question.across)!r} without an index. Write: dissimilarity of "
                "NAME across GEOLEVEL."
            )
        return question
    if not question.by:
        raise refused("a measure is asked for of no attribute. Write: median of NAME.")
    if question.share_of is not None or question.is_deviation or question.minus:
        raise refused(
            "a measure is asked for together with a share, a deviation or a difference. Ask for one of them."
        )
    if (question.across is not None) != (measure.kind in COMPARING):
        raise refused(
            f"{measure.kind!r} {'compares areas' if measure.kind in COMPARING else 'compares no areas'}. Write: "
            "dissimilarity of NAME across GEOLEVEL, or: entropy of NAME."
        )
    return question


def _without_total(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for name in names if name != TOTAL)


def _condition(reader: _Reader) -> Condition:
    name = reader.name("an attribute or a recode")
    if reader.take("from"):
        first = reader.name("a level")
        if not reader.take("to"):
            raise refused(
                f"the condition on {short_name(name)!r} has 'from' without 'to'. Give the last level, too."
            )
        return Condition(name, (first, reader.name("a level")), True)
    if not reader.take("="):
        raise refused(
            f"the condition on {short_name(name)!r} has neither '=' nor 'from'. Write: {short_name(name)} = LEVEL, or: "
            f"{short_name(name)} from LEVEL to LEVEL."
        )
    return Condition(name, reader.names("a level", ","), False)


Levels = str | Sequence[str] | slice
"""A level, several levels, or all from the first to the last of a slice."""


def question_of(
    by: Sequence[str],
    where: Mapping[str, Levels] | None,
    areas: Sequence[str] | Mapping[str, Sequence[str]] | None,
    minus: Sequence[str] = (),
    share_of: Sequence[str] | None = None,
    *,
    is_deviation: bool = False,
    measure: str | None = None,
    across: str | None = None,
    groups: Mapping[str, Mapping[str, Levels]] | None = None,
) -> Question:
    """A question from Python; arguments as for `Question`, with a slice for a span of levels.

    Raises:
        ConfigError: an argument is no list of names.
    """
    conditions = [_given("where", *item) for item in _mapping("where", where or {}).items()]
    some: tuple[str, ...] | dict[str, tuple[str, ...]] | None = None
    if isinstance(areas, Mapping):
        some = {_names("areas", [name])[0]: _names("areas", codes) for name, codes in areas.items()}
    elif areas is not None:
        some = _names("areas", areas)
    return _understood(
        Question(
            _without_total(_names("by", by)),
            tuple(conditions),
            some,
            _names("minus", minus),
            None if share_of is None else _without_total(_names("share_of", share_of)),
            is_deviation,
            None if measure is None else measure_of(measure),
            across,
            {
                _names("groups", [name])[0]: tuple(
                    _given("groups", *group) for group in _mapping("groups", given).items()
                )
                for name, given in _mapping("groups", groups or {}).items()
            },
        )
    )


def _mapping(argument: str, given: object) -> Mapping[str, Any]:
    if not isinstance(given, Mapping):
        raise refused(f"{argument} has {type_of(given)} where names with their levels are wanted.")
    return given


def _given(argument: str, name: str, levels: Levels) -> Condition:
    """The levels under a name in a mapping that an argument gives, as a condition."""
    if isinstance(levels, slice):
        if levels.step is not None:
            raise refused(
                f"{argument} has a slice with a step, wanted a first and a last level: slice('16-29', '65+')."
            )
        labels = _names(argument, [levels.start, levels.stop])
    else:
        labels = _names(argument, [levels] if isinstance(levels, str) else levels)
    (known,) = _names(argument, [name])
    if not labels:
        raise refused(
            f"{argument} names no level of {short_name(known)!r}. Give one or more, or leave it out."
        )
    return Condition(known, labels, isinstance(levels, slice))


def _names(argument: str, names: object) -> tuple[str, ...]:
    if (
        isinstance(names, str)
        or not isinstance(names, Sequence)
        or not all(isinstance(name, str) and is_one_line(name) and not has_bytes(name) for name in names)
    ):
        raise refused(
            f"{argument} holds {as_given(names)}, wanted a list of names as text of one line, such as ['44007']."
        )
    return tuple(names)
