"""The summary at the top of a page: a few points in words that need no explanation."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SummaryPoint:
    """One point of a summary.

    Attributes:
        heading: What it is about.
        text: Sentences.
    """

    heading: str
    text: str


def evaluation_points(far: str) -> tuple[SummaryPoint, ...]:
    """The summary of a page about errors against the true counts.

    Args:
        far: A sentence that says how far off published counts are.
    """
    return (
        SummaryPoint(
            "What this page is",
            "A comparison of the published counts with the true ones. It is for those who may see the records, to "
            "judge whether the counts are exact enough. It is not part of the release.",
        ),
        SummaryPoint("How far off counts are", far),
        SummaryPoint(
            "What not to conclude",
            "Another run of the same release has other noise and so other errors. A mean error over many counts says "
            "nothing about a single one.",
        ),
    )


@dataclass(frozen=True, slots=True)
class NumberTile:
    """One number that stands out at the top of a page.

    Attributes:
        name: What it is.
        value: The number, as text.
        note: What it refers to.
    """

    name: str
    value: str
    note: str
