"""Sampling: tables are estimated from a simple random sample of the records."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field
from scipy.stats import binom

from tallyveil.arrays import Floats, Integers
from tallyveil.compare.inputs import TableName
from tallyveil.compare.methods.method import Method, Office
from tallyveil.compare.published import (
    FALSE_ALARMS,
    IMPOSSIBLE,
    Certificate,
    Limits,
    Published,
    PublishedTable,
    SummedQuestions,
)
from tallyveil.compare.relations import NO_LIMIT
from tallyveil.declared import Exact


class Sampling(Method):
    """Simple random sampling: each person with the same probability, and counts weighted by its inverse.

    Weighted counts are rounded half up to whole numbers. All tables come from one sample.
    """

    family: ClassVar[str] = "sampling"
    literature: ClassVar[str] = "Skinner et al. 1994; Hundepool et al. 2012, chapter 3"
    cannot: ClassVar[str] = (
        "Whoever is in the sample is published as they are. It protects by the doubt whether somebody is in it, and by "
        "the errors, which are large for small areas."
    )
    strength: ClassVar[str] = "It is unbiased, its errors have a known law, and zeros stay zeros."

    kind: Literal["sampling"] = "sampling"
    share: Exact = Field(gt=0, le=1, description="Probability of each person to be in the sample.")

    @property
    def unranked(self) -> str:
        """As in `Method`."""
        return f"a sample publishes {self.share} of the people as they are, and means over all people do not show that"

    def stated_law(self) -> "_SampleLaw":
        """As in `Method`."""
        return _SampleLaw(self.share.numerator, self.share.denominator)

    def publish(self, office: Office) -> Published:
        """As in `Method`."""
        shared = office.shared
        generator = office.draws.generator(self.kind, self.name)
        sample = generator.binomial(shared.counts, float(self.share))
        # Whole numbers throughout: n / share rounded half up is floor((2 n q + p) / (2 p)) of the fraction p / q.
        p, q = self.share.numerator, self.share.denominator
        tables = {
            name: PublishedTable(np.asarray((2 * values * q + p) // (2 * p)))
            for name, values in shared.tables_of(sample).items()
        }
        weighted = (2 * sample * q + p) // (2 * p)
        # Two inputs that differ in one record give the same tables unless this record is in the sample.
        most = float(self.share)
        if most < self.share:
            most = float(np.nextafter(most, 2.0))
        certificate = Certificate(
            most,
            min(1.0, most + FALSE_ALARMS),
            f"delta = {self.share}: no differential privacy. With this probability a person is published as they are; "
            "else their record plays no part",
            (),
        )
        law = self.stated_law()
        return Published(
            tables,
            law,
            SummedQuestions(weighted),
            certificate=certificate,
            limits=Limits(shared, tables, law),
        )


@dataclass(frozen=True, slots=True)
class _SampleLaw:
    """The number of people in the sample is binomial; a published count tells this number.

    Attributes:
        p, q: The probability of each person is p / q.
    """

    p: int
    q: int

    def log_likelihood(self, name: TableName, true: Integers, published: PublishedTable) -> Floats:
        """As in `Law`."""
        # Weights of 1 or more: two numbers of people never have the same published count.
        number = self._sampled(published)
        same = (2 * number * self.q + self.p) // (2 * self.p) == published.counts
        logs = binom.logpmf(number, np.maximum(true, 0), self.p / self.q)
        return np.where(same & (true >= 0), np.maximum(logs, IMPOSSIBLE), IMPOSSIBLE)

    def limits(self, name: TableName, published: PublishedTable) -> tuple[Floats, Floats]:
        """As in `Support`: whoever is in the sample is there, and of others nothing is certain."""
        number = np.where(published.shown, self._sampled(published), 0.0)
        return number, np.where(published.shown & (self.p == self.q), number, NO_LIMIT)

    def _sampled(self, published: PublishedTable) -> Integers:
        """The number of people in the sample behind each published count."""
        return np.asarray((2 * published.counts * self.p + self.q) // (2 * self.q))
