"""Numbers and names as a reader wants them."""

import math
from fractions import Fraction

from tallyveil.accounting.decimals import at_most


def grouped(value: int) -> str:
    """A whole number with its thousands set apart: 1,052,567."""
    return f"{value:,}"


def rounded(value: float, digits: int = 3) -> str:
    """A number to so many significant digits, without an exponent: 0.00184, 3.16, 1,240."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    places = digits - 1 - math.floor(math.log10(abs(value)))
    return f"{round(value, places):,.{max(places, 0)}f}"


def percent(share: float) -> str:
    """A share as a percentage with three significant digits at most: 33.3 %, 0.12 %."""
    value = 100 * share
    if value == 0 or value >= 99.95:
        return f"{value:.0f} %"
    return f"{value:.3g} %" if value >= 1 else f"{rounded(value, 2)} %"


def power_of_ten(value: Fraction) -> str:
    """The delta of a claim: a whole power of ten as such, 10⁻¹⁰; any other to two digits, rounded up."""
    power = round(math.log10(value.numerator) - math.log10(value.denominator))
    if value == Fraction(10) ** power:
        return "10" + _raised(power)
    digits, _, exponent = at_most(value, 2).partition("e")
    return f"{digits} × 10{_raised(int(exponent))}" if exponent else digits


def scientific(value: float) -> str:
    """Two significant digits, with a power of ten below a thousandth: 3.1 × 10⁻⁹, 0.52."""
    if value == 0 or abs(value) >= 0.001:
        return rounded(value, 2)
    digits, exponent = f"{value:.1e}".split("e")
    return f"{digits} × 10{_raised(int(exponent))}"


def _raised(exponent: int) -> str:
    return str(exponent).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def file_size(size: int) -> str:
    """Bytes in the unit that suits them."""
    value, unit = float(size), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"


def duration(seconds: float) -> str:
    """Seconds, in minutes and hours once there are enough of them."""
    if seconds < 99.5:
        places = 2 if seconds < 0.995 else 1 if seconds < 9.95 else 0
        return f"{seconds:.{places}f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60:02d} min"


def query_title(query: str) -> str:
    """A query spec for reading: `voting_age*race` as "voting age × race"."""
    return " × ".join(part.strip().replace("_", " ") for part in query.split("*"))


def geolevel_title(geolevel: str) -> str:
    """A geolevel's name for reading: `Block_Group` as "Block Group"."""
    return geolevel.replace("_", " ")


def listed(items: list[str]) -> str:
    """Items with commas, and "and" before the last."""
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}" if items else "none"


def unbroken(text: str) -> str:
    """A cell's text whose numbers stay with their signs and units; lines may end elsewhere."""
    for joined in (" → ", "± ", " %"):
        text = text.replace(joined, joined.replace(" ", "\N{NO-BREAK SPACE}"))
    return text
