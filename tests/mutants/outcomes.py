"""What became of the mutants of a sample, and the score of a room with its interval."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from scipy.stats import binomtest

if TYPE_CHECKING:
    from tests.mutants.mutant import Mutant

CONFIDENCE: Final = 0.95


class Outcome(StrEnum):
    """What became of one mutant."""

    KILLED = "killed"
    ENDLESS = "endless"
    LATE = "not done in time, which a busy machine may be the cause of"
    SURVIVED = "survived"
    UNREACHED = "reached by no test"
    NOT_RUN = "not run"


CAUGHT: Final = (Outcome.KILLED, Outcome.ENDLESS)
"""A test that does not end is noticed, too."""
OPEN: Final = (Outcome.SURVIVED, Outcome.UNREACHED, Outcome.LATE)


def outcome_of(exit_code: int | None) -> Outcome:
    """What an exit code of mutmut means. One that says nothing of the tests is no outcome."""
    match exit_code:
        case 0:
            return Outcome.SURVIVED
        case 5 | 33:
            return Outcome.UNREACHED
        case 24 | 152 | 255 | -24:
            return Outcome.LATE
        case 36:
            return Outcome.ENDLESS
        case 1 | 3 | -6 | -11:  # a failed test, a failure of pytest, a crash of the interpreter
            return Outcome.KILLED
    return Outcome.NOT_RUN


@dataclass(frozen=True, slots=True)
class Results:
    """What became of the mutants of a sample.

    Attributes:
        room: The room.
        n_mutants: How many mutants the room has.
        outcomes: Outcome by the name of the mutant.
        words: Mutants that change words of messages alone.
        justified: Reasons by mutant, for those that no test can or needs to catch.
    """

    room: str
    n_mutants: int
    outcomes: Mapping[str, Outcome]
    words: frozenset[str]
    justified: Mapping[str, str]

    def score(self, left_out: Iterable[str] = ()) -> str:
        """The share of mutants that were caught, with its exact interval if the sample is not the whole room."""
        kept = self.outcomes.keys() - set(left_out)
        caught = sum(self.outcomes[name] in CAUGHT for name in kept)
        if not kept:
            return "no mutants"
        share = f"{caught} of {len(kept)}, {caught / len(kept):.1%}"
        if len(self.outcomes) == self.n_mutants:
            return share
        interval = binomtest(caught, len(kept)).proportion_ci(CONFIDENCE, method="exact")
        return f"{share} ({interval.low:.1%} to {interval.high:.1%})"

    def survivors(self) -> list[str]:
        """Mutants that were not caught, that are justified by no entry, and that change more than words."""
        return sorted(
            name
            for name, outcome in self.outcomes.items()
            if outcome in OPEN and name not in self.words and name not in self.justified
        )

    def not_run(self) -> list[str]:
        """Mutants of the sample of which nothing is known."""
        return sorted(name for name, outcome in self.outcomes.items() if outcome is Outcome.NOT_RUN)

    def justified_in_vain(self) -> list[str]:
        """Mutants that are justified and were caught."""
        return sorted(name for name in self.justified if self.outcomes.get(name) in CAUGHT)

    def lines(self) -> list[str]:
        """The table of a room."""
        count = {outcome: sum(found is outcome for found in self.outcomes.values()) for outcome in Outcome}
        n_words = len(self.words)
        words_survived = sum(self.outcomes[name] not in CAUGHT for name in self.words)
        justified = self.justified.keys() & self.outcomes.keys()
        lines = [
            f"{self.room}: {len(self.outcomes)} of {self.n_mutants} mutants",
            *(f"  {outcome}: {number}" for outcome, number in count.items()),
            f"  change words of a message alone: {n_words}, of which {words_survived} were not caught",
            f"  justified one by one: {len(justified)}",
        ]
        if count[Outcome.NOT_RUN]:
            return [
                *lines,
                "  no score, because some were not run: their process was stopped. Give the same command again",
            ]
        return [
            *lines,
            f"  score of all: {self.score()}",
            f"  score without words of messages: {self.score(self.words)}",
            f"  score without words and justified ones: {self.score(self.words | justified)}",
        ]


def report(results: Results, mutants: "Mapping[str, Mutant]") -> str:
    """The table of a room, and every survivor with what it changes."""
    lines = results.lines()
    for name in results.survivors():
        lines += ["", f"{name}: {results.outcomes[name]}", mutants[name].diff()]
    lines += [
        f"\n{name} is justified, but a test catches it: take it out" for name in results.justified_in_vain()
    ]
    return "\n".join(lines)
