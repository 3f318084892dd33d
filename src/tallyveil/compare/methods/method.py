"""What a method is: settings that an office chooses, and a way to publish tables of the shared input."""

from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import ClassVar, Final

from pydantic import Field

from tallyveil.compare.draws import Draws
from tallyveil.compare.inputs import PublicInput, SharedInput
from tallyveil.compare.published import Published, StatedLaw
from tallyveil.errors import ConfigError
from tallyveil.plans.from_toml.tables import Table
from tallyveil.plans.release import ReleasePlan
from tallyveil.schema.names import PlainName


@dataclass(frozen=True, slots=True, eq=False)
class Office:
    """What a method works with.

    Attributes:
        shared: The input.
        plan: The release file of the comparison.
        sensitive: Attribute that attackers want to know.
        draws: Random numbers of this publication.
        lasting: Random numbers that stay with the records from one publication to the next, such as their keys.
        work: An empty folder for releases that are made on the way; it is removed at the end.
    """

    shared: SharedInput
    plan: ReleasePlan
    sensitive: str
    draws: Draws
    lasting: Draws
    work: Path


CERTAIN: Final = "None below 1 exists: for some data, one changed record is seen with certainty."
"""Of methods that change nothing at random, or leave some tables exact."""

SMALL_DELTA: Final = (
    "No finite epsilon with a small delta exists: empty cells stay empty, so that for some data one record is seen "
    "with a probability that is not small."
)
"""Of methods that change counts at random and leave 0 as it is."""


class Method(Table):
    """[[methods]]: one method with its settings.

    Attributes:
        family: What the method is called in the literature; methods of one family have one colour.
        literature: Where it is described.
        cannot: What the method cannot promise, in a sentence.
        strength: What it does better than others, in a sentence.
        unbounded: Why no bound is proved of it, in a sentence, for the runs in which none is.
        random: Whether another draw gives other tables.
        repeatable: Whether it can publish the input once more with a few records changed, as some attacks need.
        shows_exact: Whether every count that it shows is the true one.
    """

    family: ClassVar[str]
    literature: ClassVar[str]
    cannot: ClassVar[str]
    strength: ClassVar[str]
    unbounded: ClassVar[str] = "None is known."
    random: ClassVar[bool] = True
    repeatable: ClassVar[bool] = True
    shows_exact: ClassVar[bool] = False

    name: PlainName = Field(description="Its name in tables and figures, each once.")

    def require_fit(self, public: PublicInput) -> None:
        """Refuse settings and files that do not fit a comparison, before its records are read; nothing by default.

        Raises:
            TallyveilError: a setting names what is not there, or a file cannot be read or does not fit.
        """

    def require_geolevel(self, public: PublicInput, name: str) -> None:
        """Refuse a geolevel of a setting that is not there; raises ConfigError."""
        names = [areas.name for areas in public.geolevels]
        if name not in names:
            raise ConfigError(
                f"the method '{self.name}' names the geolevel '{name}', wanted one of {', '.join(names)}. Correct the "
                "setting. Nothing was read.",
                code="unknown-geolevel",
            )

    @abstractmethod
    def publish(self, office: Office) -> Published:
        """Publish every table of the input, which `require_fit` has not refused."""

    def stated_law(self) -> StatedLaw | None:
        """The law of its changes as far as it follows from the settings; None where it takes records to know it.

        Raises:
            ConfigError, StoreError: a table of the settings cannot be read.
        """
        return None

    @property
    def unranked(self) -> str | None:
        """Why it is shown without being compared with other methods, in a sentence; None where it is compared."""
        return None

    @property
    def inputs(self) -> tuple[Path, ...]:
        """Files and folders that it reads beside the input."""
        values = (getattr(self, name) for name in type(self).model_fields)
        return tuple(value for value in values if isinstance(value, Path))

    def settings(self) -> dict[str, object]:
        """The settings as plain data, for the page and the files."""
        settings = {
            name: getattr(self, name) for name in type(self).model_fields if name not in ("kind", "name")
        }
        exact = (Fraction, Path)
        return {
            name: str(value) if isinstance(value, exact) else value
            for name, value in settings.items()
            if value is not None
        }
