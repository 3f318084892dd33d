"""The words of publications, which `tallyveil.words` has in other languages."""

from collections.abc import Mapping, Sequence
from typing import Final

from tallyveil.words.language import language_of, phrase
from tallyveil.words.listing import listed

WORDS: Final[Mapping[str, str]] = {
    "by": phrase("{what} by {dimensions}"),
    "of": phrase("{title} ({geolevel})"),
    "area": phrase("Code"),
    "period": phrase("Period"),
    "total": phrase("Total"),
    "measures": phrase("Number"),
    "count": phrase("Published number"),
    "estimate": phrase("Estimate"),
    "standard_error": phrase("Standard error"),
    "lower": phrase("Lower end"),
    "upper": phrase("Upper end"),
    "margin": phrase("Margin of the published number"),
    "estimate_margin": phrase("Margin of the estimate"),
    "status": phrase("Status"),
    "A": phrase("exact"),
    "E": phrase("with noise"),
    "U": phrase("with noise, of low reliability"),
    "F": phrase("free for publication"),
    "confidentiality": phrase("Confidentiality"),
    "unit": phrase("Unit"),
    "unit multiplier": phrase("Power of ten of the unit"),
    "decimals": phrase("Decimals"),
    "cover": phrase("Cover"),
    "contents": phrase("Contents"),
    "table": phrase("Table"),
    "rows": phrase("Rows"),
    "run": phrase("Run"),
    "manifest": phrase("SHA-256 of manifest.json"),
    "spent": phrase("Privacy-loss budget spent"),
    "licence": phrase("Licence"),
    "citation": phrase("Citation"),
    "back": phrase("Back to the contents"),
    "noise": phrase(
        "Random noise was added to these counts of {units} before they were published (differential privacy)."
        " Status A marks a number that is published exactly, E one with noise, and U one with noise whose "
        "standard error is more than a third of it."
    ),
    "consistent": phrase(
        "Published numbers are whole and not negative, and those of an area add up to those of the area "
        "around it. Small ones tend to be a little too high."
    ),
    "estimates": phrase(
        "Estimates are right on average and may be negative; use them for sums over many small areas."
    ),
    "no intervals": phrase("This table states no standard errors."),
    "groups": phrase(
        "Groups without a number were not published. Numbers of different groups have noise of their own and "
        "need not add up. Margins hold with 95 % confidence."
    ),
    "sums": phrase(
        "Sums that the release publishes exactly are exact in this table. Margins hold with 95 % confidence."
    ),
}
"""By a key for each. Nouns of a release stand in them in its own language."""


def word(language: str, key: str, **values: str) -> str:
    """A word or a sentence in a language, by its key, with the values of its `{names}`."""
    return language_of(language).say(WORDS[key], **values)


def titled(language: str, what: str, dimensions: Sequence[str]) -> str:
    """The title of a table that has none: what it counts, by what."""
    title = word(language, "by", what=what, dimensions=listed(dimensions, language_of(language)))
    return title[:1].upper() + title[1:]
