"""Invariants, public bounds, agreements and residents of a release: what a plan states of them."""

from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, PlainSerializer

from tallyveil.declared import ByName, Declared, Many, Name, left_out
from tallyveil.schema.names import PlainName
from tallyveil.storage.addresses import InputPath

Levels = ByName[Annotated[Many[Name], Field(min_length=1)]]
"""Some levels of some attributes. Attributes that are not named may have any level. No record has none of the levels of
an attribute, so an empty list could only be a mistake."""

MissingRow = Literal["zero", "unbounded"]
"""Upper bound of an answer that has no row."""


@dataclass(frozen=True)
class Invariant(Declared):
    """A query published exactly: its true answers at some geolevels become constraints.

    Privacy: the guarantee then holds only between populations that agree on these answers.
    """

    query: Annotated[Name, Field(description="The query.")]
    geolevels: Annotated[
        Many[Name], Field(min_length=1, description="Geolevels of the geography at which it is exact.")
    ]

    @property
    def statement(self) -> str:
        """What is published, in words."""
        return f"{self.query} at {', '.join(self.geolevels)} is published exactly"


@dataclass(frozen=True)
class Bounds(Declared):
    """Public lower and upper bounds on the answers of a query, by geounit.

    The sums of the bounds hold at every geolevel that is coarser than theirs.
    """

    name: Annotated[PlainName, Field(description="Name in messages and manifests.")]
    query: Annotated[Name, Field(description="The query whose answers are bounded.")]
    geolevel: Annotated[Name, Field(description="Geolevel of the geocodes in the table.")]
    missing: Annotated[
        MissingRow,
        BeforeValidator(lambda upper: {"0": "zero", "None": "unbounded"}.get(repr(upper), upper)),
        PlainSerializer(lambda missing: 0 if missing == "zero" else None),
        Field(alias="missing_upper"),
    ]

    @property
    def missing_upper(self) -> int | None:
        """Upper bound of an answer that has no row: 0, or None for unbounded."""
        return 0 if self.missing == "zero" else None


@dataclass(frozen=True)
class BoundsInput(Bounds):
    """The bounds of a release file, with the table that they are read from."""

    missing: Annotated[
        MissingRow,
        PlainSerializer(lambda missing: 0 if missing == "zero" else None),
        Field(serialization_alias="missing_upper", description="Upper bound of an answer that has no row."),
    ]
    _: KW_ONLY
    path: Annotated[
        InputPath,
        Field(
            exclude=True,
            description="Table with the columns geocode, one for each factor of the query, lower, and upper (null: "
            "none).",
        ),
    ]


@dataclass(frozen=True)
class Agreement(Declared):
    """Counts of a finished release that the counts of this one keep exactly, at every geolevel.

    The counts are published already, so keeping them costs no budget.
    """

    name: Annotated[
        PlainName,
        Field(description="Name in messages and manifests. No other agreement of the file has it."),
    ]
    query: Annotated[Name, Field(description="The query whose answers are kept, at every geolevel.")]
    theirs: Annotated[
        Name,
        Field(description="The query of the other release with the same labels, factor by factor."),
    ]
    release: Annotated[
        PlainName | None,
        left_out(None),
        Field(
            description="Name of the other release in a programme. If left out, it is the name of the agreement."
        ),
    ] = None
    path: Annotated[
        InputPath | None,
        Field(
            exclude=True,
            description="Folder of the finished release. May be left out in a file that a programme of releases runs.",
        ),
    ] = None

    @property
    def release_name(self) -> str:
        """Name of the other release in a programme of releases."""
        return self.name if self.release is None else self.release


@dataclass(frozen=True)
class Residents(Declared):
    """The people of a finished release who live in the units that this release counts.

    Their counts are published already, so that it costs no budget to publish units in which they fit.
    """

    name: Annotated[
        PlainName,
        Field(description="Name in messages and manifests, and of the release in a programme."),
    ]
    people: Annotated[
        Levels,
        Field(
            min_length=1,
            description="Which people of that release live in units: for each attribute named, the levels that they "
            "have.",
        ),
    ]
    adults: Annotated[
        Levels,
        left_out(()),
        Field(
            description="Which of these people are adults: for each attribute named, the levels that they have. "
            "Occupied units need it."
        ),
    ] = ()
    households: Annotated[
        Name | None,
        left_out(None),
        Field(
            description="The query that counts households of one person, two and so on; its last answer also counts "
            "all larger ones. Sizes need it."
        ),
    ] = None
    geolevel: Annotated[
        Name | None,
        left_out(None),
        Field(
            description="The geolevel of the geounits in which the sizes of households add up to these people. Sizes "
            "need it."
        ),
    ] = None
    path: Annotated[
        InputPath | None,
        Field(
            exclude=True,
            description="Folder of the finished release. May be left out in a file that a programme of releases runs.",
        ),
    ] = None

    @property
    def release_name(self) -> str:
        """Name of the other release in a programme of releases."""
        return self.name
