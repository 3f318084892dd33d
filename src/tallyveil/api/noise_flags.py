"""Noise that is stated by flags, as `tallyveil account` takes it: the flags, and the event that a value of each means.

The command line makes its options of this table, and `guarantee_of_noise` its events. A value is the short form of an
event in a ledger, and is read as such. Nothing heavy is imported before a value is read, so that help is shown at once.
"""

from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Final

from tallyveil.errors import ConfigError
from tallyveil.exact import whole_number_of

if TYPE_CHECKING:
    from tallyveil.accounting.events import Neighbours, PrivacyEvent


@dataclass(frozen=True, slots=True)
class Part:
    """A number in the value of a flag.

    Attributes:
        word: How help names it.
        key: Where it stands in the event's form.
        default: What it is if it is left out; None for one that must be given.
        whole: Whether it is a whole number above 0.
        of_queries: Whether it counts queries, in each of which as many answers move as neighbours move.
    """

    word: str
    key: str
    default: str | None = None
    whole: bool = False
    of_queries: bool = False


@dataclass(frozen=True, slots=True)
class NoiseFlag:
    """A flag that states noise.

    Attributes:
        name: Of the argument in Python; the flag has hyphens.
        kind: Of the event, as in a ledger.
        parts: The numbers of a value, with colons between.
        describes: What one value states.
        example: A value.
    """

    name: str
    kind: str
    parts: tuple[Part, ...]
    describes: str
    example: str

    @property
    def flag(self) -> str:
        """As it is typed."""
        return f"--{self.name.replace('_', '-')}"

    @property
    def metavar(self) -> str:
        """The form of a value, such as VARIANCE[:COUNT[:SENSITIVITY]]."""
        first, *others = (part.word for part in self.parts)
        return first + "".join(f"[:{word}" for word in others) + "]" * len(others)

    def event(self, text: str, neighbours: "Neighbours") -> "PrivacyEvent":
        """The event that a value means.

        Raises:
            ConfigError: it is not of the form of `metavar`.
            BudgetError: a number is out of range.
        """
        from tallyveil.accounting.ledger.lines import event_from_mapping
        from tallyveil.budget.strategy import parse_fraction

        values = text.split(":")
        form = {"kind": self.kind}
        for part, value in zip_longest(self.parts, values):
            if part is None or (part.whole and value is not None and not whole_number_of(value)):
                raise ConfigError(
                    f"{self.flag} is '{text:.80}'; wanted {self.metavar}, such as {self.example}, with whole "
                    "counts above 0.",
                    code="bad-flag",
                )
            number = parse_fraction(part.default if value is None else value, self.flag)
            form[part.key] = str(number * neighbours.answers_moved if part.of_queries else number)
        return event_from_mapping(form)


_COUNT: Final = Part("COUNT", "multiplicity", "1", whole=True)
_QUERIES: Final = Part("COUNT", "multiplicity", "1", whole=True, of_queries=True)
_STEPS: Final = Part("SENSITIVITY", "sensitivity", "1", whole=True)
_DISTANCE: Final = Part("SENSITIVITY", "sensitivity", "1")
_VARIANCE: Final = Part("VARIANCE", "variance")
_SCALE: Final = Part("SCALE", "scale")
_EPSILON: Final = Part("EPSILON", "epsilon")

NOISE_FLAGS: Final = (
    NoiseFlag(
        "gaussian",
        "discrete_gaussian",
        (_VARIANCE, _QUERIES, _STEPS),
        "COUNT queries with discrete Gaussian noise of this variance.",
        "68.49:10",
    ),
    NoiseFlag(
        "laplace",
        "discrete_laplace",
        (_SCALE, _QUERIES, _STEPS),
        "COUNT queries with discrete Laplace noise of this scale.",
        "7/3:4",
    ),
    NoiseFlag(
        "real_gaussian",
        "gaussian",
        (_VARIANCE, _QUERIES, _DISTANCE),
        "COUNT queries with real-valued Gaussian noise of this variance.",
        "1.21:10:1/2",
    ),
    NoiseFlag(
        "real_laplace",
        "laplace",
        (_SCALE, _QUERIES, _DISTANCE),
        "COUNT queries with real-valued Laplace noise of this scale.",
        "2:1:1/3",
    ),
    NoiseFlag(
        "response",
        "randomized_response",
        (_EPSILON, Part("OPTIONS", "options", "2", whole=True), _COUNT),
        "COUNT answers of a person by randomized response among OPTIONS options.",
        "3/2:5",
    ),
    NoiseFlag(
        "approximate_dp",
        "approximate_dp",
        (_EPSILON, Part("DELTA", "delta", "0"), _COUNT),
        "COUNT mechanisms of which only epsilon and delta are known.",
        "1/10:1e-7",
    ),
    NoiseFlag("zcdp", "zcdp", (Part("RHO", "rho"),), "A mechanism of which only rho is known.", "1/8"),
)
"""All flags that state noise. Random samples and nested events stand in a file (`plans/from_toml/spending.py`)."""
