"""What a plan says of estimating counts from measurements, geolevel by geolevel."""

from dataclasses import dataclass
from typing import Annotated, Final, Literal

from pydantic import Field

from tallyveil.declared import Declared, Exact, Many, Name, left_out
from tallyveil.estimation.problem import RoundingTarget

MeasurementFiles = Literal["full", "small", "support", "none"]

Values = Literal["own", "tree"]
"""What a geolevel's families are fitted to: the noisy answers of each child ("own"), or the answers of its best linear
unbiased estimate from everything that is measured in or below it ("tree")."""


Method = Literal["families", "allocation"]
"""How the finest geolevel is estimated: as all others, by least squares and rounding of each family ("families"), or
by a model of its geounits that is learned from the measurements ("allocation")."""


TREE_VALUES: Final = "values of the tree"
"""Stage of a release with values = "tree"."""


Stages = Many[Many[Name]]
"""Queries of passes or of rounding stages, first to last."""


@dataclass(frozen=True)
class GeolevelEstimation(Declared):
    """Ordered passes of one geolevel.

    Attributes:
        passes: Query names of each least-squares pass. Together the passes use every measured query once.
        slack: Number of persons by which a later pass may change an answer of an earlier pass.
        rounding: Query names of each rounding stage, first stage first.
        target: Value that rounded answers shall be near: the estimate ("fraction"), or its nearest integer ("nearest").
        values: What the families are fitted to. Always "own" at the finest geolevel, below which nothing is measured.
        method: How counts are estimated. Always "families" above the finest geolevel. With "allocation", passes and
            rounding are the defaults, and have no effect.
    """

    passes: Stages
    slack: Exact
    rounding: Annotated[Stages, Field(min_length=1)]
    target: Annotated[RoundingTarget, Field(alias="rounding_target")] = "fraction"
    values: Annotated[Values, left_out("own")] = "own"
    method: Annotated[Method, left_out("families")] = "families"
