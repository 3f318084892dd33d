"""Sentences that files of a release state in English, and that its pages say in other languages.

What is not among them, such as advice on a plan, is quoted in English.
"""

from typing import Final

from tallyveil.estimation.intervals.interval import COVERS_COUNT, COVERS_TABLE
from tallyveil.files.checks import AREA_SUMS, CONSTRAINT_HOLDS, LEVEL_SUMS, TABLE_AGREES
from tallyveil.plans.guarantee import BY_BUDGET, COMPOSED, PURE
from tallyveil.words.language import Language

STATED: Final = (
    PURE,
    BY_BUDGET,
    COMPOSED,
    LEVEL_SUMS,
    AREA_SUMS,
    TABLE_AGREES,
    CONSTRAINT_HOLDS,
    COVERS_COUNT,
    COVERS_TABLE,
)
"""Those with values in them; the others are found as they stand."""


def stated_in(language: Language, sentence: str) -> str:
    """A sentence that a release states, in a language; as it stands where the language has no other."""
    return language.stated(sentence, STATED) or sentence
