"""Rounding of every count by itself: to the nearest multiple, or randomly to one of the two multiples beside it."""

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from tallyveil.compare.methods.keyed import Perturbation, publish_with_keys, record_keys
from tallyveil.compare.methods.method import CERTAIN, SMALL_DELTA, Method, Office
from tallyveil.compare.published import Published


class Rounding(Method):
    """Deterministic rounding: every count is published as the nearest multiple of a base, halves upwards."""

    family: ClassVar[str] = "rounding"
    literature: ClassVar[str] = "Willenborg and de Waal 2001; Hundepool et al. 2012, chapter 5"
    cannot: ClassVar[str] = (
        "A union whose count lies at the edge of a multiple tells one person's presence: whoever may choose areas "
        "finds counts exactly. Tables do not add up, and small counts are biased downwards."
    )
    strength: ClassVar[str] = (
        "It is explained in a sentence, needs no secret, and says itself how far off it can be."
    )
    unbounded: ClassVar[str] = CERTAIN
    random: ClassVar[bool] = False

    kind: Literal["rounding"] = "rounding"
    base: int = Field(ge=2, le=1000, description="Counts are published as multiples of this number.")

    def stated_law(self) -> Perturbation:
        """As in `Method`."""
        counts = np.arange(self.base)
        nearest = (2 * counts + self.base) // (2 * self.base) * self.base
        return Perturbation((nearest - counts)[:, None], 0)

    def publish(self, office: Office) -> Published:
        """As in `Method`."""
        return publish_with_keys(office.shared, self.stated_law(), np.zeros_like(office.shared.counts))


class RandomRounding(Method):
    """Unbiased random rounding to a base: up with a probability in proportion to the remainder.

    With `consistent`, the same records are always rounded the same way, by their keys. Without it every published count
    and every answer is rounded afresh.
    """

    family: ClassVar[str] = "rounding"
    literature: ClassVar[str] = (
        "Fellegi 1975; Statistics New Zealand, methods of the census (random rounding to base 3)"
    )
    cannot: ClassVar[str] = (
        "Answers about overlapping areas can be averaged, and an office that rounds afresh each time can be asked the "
        "same question again. Tables do not add up."
    )
    strength: ClassVar[str] = (
        "It is unbiased, errors stay below the base, and multiples of the base are exact."
    )
    unbounded: ClassVar[str] = SMALL_DELTA

    kind: Literal["random_rounding"] = "random_rounding"
    base: int = Field(ge=2, le=1000, description="Counts are published as multiples of this number.")
    consistent: bool = Field(
        default=True, description="Whether the same records are always rounded the same way."
    )

    def stated_law(self) -> Perturbation:
        """As in `Method`."""
        # A key for every unit of the base: a remainder r goes up for r of the base keys, which is exact.
        remainder, key = np.arange(self.base)[:, None], np.arange(self.base)[None, :]
        return Perturbation(np.where(key < remainder, self.base - remainder, -remainder), 0)

    def publish(self, office: Office) -> Published:
        """As in `Method`."""
        generator = office.lasting.generator(self.kind, self.name, "record keys")
        keys = record_keys(office.shared, self.base, generator)
        afresh = None if self.consistent else office.draws.generator(self.kind, self.name, "afresh")
        return publish_with_keys(office.shared, self.stated_law(), keys, afresh)
