"""The names of the layouts."""

from enum import StrEnum


class Layout(StrEnum):
    """A layout of noisy measurements besides that of a release folder."""

    CENSUS_2020 = "census-2020"
    TIDY = "tidy"
