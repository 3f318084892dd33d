"""Marks: what must be said wherever a release, or anything that follows from it, is shown.

A release has a mark if its noise came from a test key, and if somebody compared it with the true counts. Every output
takes its marks from here: manifests, pages, publications, sites, metadata of files, what commands print, and what
notebooks show.
"""

from collections.abc import Iterable, Mapping, Sized
from dataclasses import dataclass
from typing import Final, Protocol

from tallyveil.accounting.events import TEST_KEY as TEST_KEY_EVENT
from tallyveil.accounting.events import UNPROTECTED, WITHOUT_NOISE, NonPrivateEvent, PrivacyEvent
from tallyveil.storage.json_files import JsonObject
from tallyveil.words.language import ENGLISH, Language, phrase

NOT_PRIVATE: Final = "NOT PRIVATE"
TEST_KEY: Final = phrase(
    "Made with an insecure test key: this release protects nobody and must not be published."
)
DECLASSIFIED: Final = phrase(
    "True counts were compared with this release. The results, such as the folder evaluation/, are NOT PRIVATE "
    "and must not be published; the guarantee covers the release without them."
)


class Marked(Protocol):
    """What a manifest says of the marks of its release."""

    @property
    def protected(self) -> bool:
        """Whether its key was secret."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """The marks that it holds."""

    @property
    def declassified(self) -> Sized:
        """The looks at the true counts that its ledger records."""


@dataclass(frozen=True, slots=True)
class Marks:
    """What is said of one release, or of what follows from several.

    Attributes:
        protected: Whether all noise came from secret keys. If it did not, nobody is protected.
        warnings: The marks, as sentences.
    """

    protected: bool
    warnings: tuple[str, ...]

    def entry(self) -> JsonObject:
        """The marks in a JSON file or in what a command prints for programs."""
        return {"protected": self.protected, "warnings": list(self.warnings)}

    def lines(self, language: Language = ENGLISH) -> list[str]:
        """The marks as readers see them."""
        return mark_lines(self.warnings, language)

    def tags(self) -> dict[str, str]:
        """The marks in the metadata of a file."""
        warning = {"warning": " ".join(self.lines())} if self.warnings else {}
        return {"protected": protection_tag(self.protected)} | warning


def release_marks(*, protected: bool, declassified: bool = False) -> tuple[str, ...]:
    """The marks of a release, for its manifest.

    Args:
        protected: Whether its key was secret.
        declassified: Whether its ledger records a look at the true counts.
    """
    return (*(() if protected else (TEST_KEY,)), *((DECLASSIFIED,) if declassified else ()))


def marks_of(manifest: Marked) -> Marks:
    """The marks of a finished release, and of everything that follows from it alone."""
    marks = release_marks(protected=manifest.protected, declassified=bool(manifest.declassified))
    # Each mark once: a manifest may hold in words what follows from its other keys.
    return Marks(manifest.protected, tuple(dict.fromkeys([*marks, *manifest.warnings])))


def ledger_marks(events: Iterable[PrivacyEvent]) -> Marks:
    """The marks of a run without a manifest, by the events in its ledger."""
    # A run that was killed has no manifest; what its ledger shows is all that is known.
    acts = {event for event in events if isinstance(event, NonPrivateEvent)}
    marks = release_marks(protected=TEST_KEY_EVENT not in acts, declassified=bool(acts - UNPROTECTED))
    exact = [WITHOUT_NOISE.reason] if WITHOUT_NOISE in acts else []
    return Marks(not acts & UNPROTECTED, (*marks, *exact))


def joint_marks(releases: Mapping[str, Marked]) -> Marks:
    """The marks of what follows from several releases.

    Args:
        releases: The manifests, by the names that tell them apart for readers.
    """
    return joined({name: marks_of(manifest) for name, manifest in releases.items()})


def joined(each: Mapping[str, Marks]) -> Marks:
    """The marks of what follows from several releases, of their own marks, by the same names."""
    if len(each) == 1:
        return next(iter(each.values()))
    # Each with the name of its release, so that readers see which one is not private.
    warnings = tuple(f"{name}: {warning}" for name, marks in each.items() for warning in marks.warnings)
    return Marks(all(marks.protected for marks in each.values()), warnings)


def mark_lines(warnings: Iterable[str], language: Language = ENGLISH) -> list[str]:
    """Marks as readers see them. Earlier versions wrote some of them with the words in front."""
    return [
        mark
        if mark.startswith(NOT_PRIVATE)
        else language.say("NOT PRIVATE: {mark}", mark=language.stated(mark, ()) or mark)
        for mark in warnings
    ]


def short_mark(warnings: Sized) -> str:
    """What follows the short description of an object that has marks in `warnings`."""
    return f"; {NOT_PRIVATE}, see warnings" if warnings else ""


def marked_text(lines: Iterable[str], text: str) -> str:
    """A text for readers that begins with the marks. Those that it had before are replaced."""
    # Marks that a text had before may hold no longer, and new ones may have come.
    paragraphs = [*lines, *(part for part in text.split("\n\n") if not part.startswith(f"{NOT_PRIVATE}:"))]
    return "\n\n".join(paragraphs)


def protection_tag(protected: bool) -> str:
    """What the metadata of a file says of the protection of people, in files that follow from finished releases."""
    return "true" if protected else "false: made with an insecure test key"
