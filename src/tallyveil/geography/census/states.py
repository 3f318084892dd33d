"""States of the 2020 redistricting data, and the areas that the spine uses in each of them."""

from typing import Final, NamedTuple


class State(NamedTuple):
    """A State, the District of Columbia or Puerto Rico."""

    abbreviation: str
    name: str


STATES: Final = {
    "01": State("AL", "Alabama"),
    "02": State("AK", "Alaska"),
    "04": State("AZ", "Arizona"),
    "05": State("AR", "Arkansas"),
    "06": State("CA", "California"),
    "08": State("CO", "Colorado"),
    "09": State("CT", "Connecticut"),
    "10": State("DE", "Delaware"),
    "11": State("DC", "District of Columbia"),
    "12": State("FL", "Florida"),
    "13": State("GA", "Georgia"),
    "15": State("HI", "Hawaii"),
    "16": State("ID", "Idaho"),
    "17": State("IL", "Illinois"),
    "18": State("IN", "Indiana"),
    "19": State("IA", "Iowa"),
    "20": State("KS", "Kansas"),
    "21": State("KY", "Kentucky"),
    "22": State("LA", "Louisiana"),
    "23": State("ME", "Maine"),
    "24": State("MD", "Maryland"),
    "25": State("MA", "Massachusetts"),
    "26": State("MI", "Michigan"),
    "27": State("MN", "Minnesota"),
    "28": State("MS", "Mississippi"),
    "29": State("MO", "Missouri"),
    "30": State("MT", "Montana"),
    "31": State("NE", "Nebraska"),
    "32": State("NV", "Nevada"),
    "33": State("NH", "New Hampshire"),
    "34": State("NJ", "New Jersey"),
    "35": State("NM", "New Mexico"),
    "36": State("NY", "New York"),
    "37": State("NC", "North Carolina"),
    "38": State("ND", "North Dakota"),
    "39": State("OH", "Ohio"),
    "40": State("OK", "Oklahoma"),
    "41": State("OR", "Oregon"),
    "42": State("PA", "Pennsylvania"),
    "44": State("RI", "Rhode Island"),
    "45": State("SC", "South Carolina"),
    "46": State("SD", "South Dakota"),
    "47": State("TN", "Tennessee"),
    "48": State("TX", "Texas"),
    "49": State("UT", "Utah"),
    "50": State("VT", "Vermont"),
    "51": State("VA", "Virginia"),
    "53": State("WA", "Washington"),
    "54": State("WV", "West Virginia"),
    "55": State("WI", "Wisconsin"),
    "56": State("WY", "Wyoming"),
    "72": State("PR", "Puerto Rico"),
}
"""The fifty States, the District of Columbia and Puerto Rico, by FIPS code."""

STRONG_MCD_STATES: Final = ("09", "23", "25", "26", "27", "33", "34", "36", "42", "44", "50", "55")
"""States whose minor civil divisions govern. Source: Cumings-Menon et al. 2023, section 6."""

PUERTO_RICO: Final = "72"


def uses_subdivisions(state: str) -> bool:
    """Whether the spine uses the minor civil divisions of a State, rather than its places."""
    return state in STRONG_MCD_STATES
