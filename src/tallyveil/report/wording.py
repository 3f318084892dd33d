"""Format numbers and names for readers.

Numbers come as English writes them; a page in another language writes them anew (`words.language.Figure`).
"""

import math
from fractions import Fraction

from markupsafe import Markup

from tallyveil.accounting.numbers import at_most, delta_text
from tallyveil.words.language import Figure, MarkedFigure


def grouped(value: int) -> str:
    """An integer with commas between thousands: 1,052,567."""
    return Figure(f"{value:,}")


def groups_counted(number: int) -> str:
    """A number of groups: "1 group", "1,200 groups"."""
    return f"{number:,} group" + ("" if number == 1 else "s")


def rounded(value: float, digits: int = 3) -> str:
    """A number rounded to `digits` significant digits, without an exponent: 0.00184, 3.16, 1,240."""
    # The logarithm of these does not exist.
    if value == 0 or not math.isfinite(value):
        return Figure(f"{value:g}")
    # Decimals to keep; negative where digits before the point are rounded away.
    places = digits - 1 - math.floor(math.log10(abs(value)))
    return Figure(f"{round(value, places):,.{max(places, 0)}f}")


def percent(share: float) -> str:
    """A share as a percentage with at most three significant digits: 33.3 %, 0.12 %."""
    value = 100 * share
    # From 99.95 on, three digits would say 100 % with a decimal that is not known.
    if value == 0 or value >= 99.95:
        return Figure(f"{value:.0f} %")
    return Figure(f"{value:.3g} %" if value >= 1 else f"{rounded(value, 2)} %")


def signed(value: int) -> str:
    """A margin on both sides: ± 1,240."""
    return Figure(f"± {value:,}")


def power_of_ten(value: Fraction) -> Markup:
    """The delta of a claim: a power of ten, or any other number rounded up to two significant digits, but not to 1.

    The power is marked up as a superscript, because not every font has the superscript minus: without it, 10 to the
    power of -10 would look like 10 to the power of 10.
    """
    # As a difference of logarithms: a delta of 1e-400 is no float.
    power = round(math.log10(value.numerator) - math.log10(value.denominator))
    if value == Fraction(10) ** power:
        return _ten_to(power)
    digits, _, exponent = at_most(value, 2).partition("e")
    if digits == "1" and not exponent:
        return MarkedFigure(delta_text(value))
    if not exponent:
        return MarkedFigure(digits)
    return MarkedFigure(Markup("{} × {}").format(digits, _ten_to(int(exponent))))


def scientific(value: float) -> Markup:
    """A number with two significant digits, and with a power of ten if it is below 0.001: 3.1 × 10^-9, 0.52."""
    if value == 0 or abs(value) >= 0.001:
        return MarkedFigure(rounded(value, 2))
    digits, exponent = f"{value:.1e}".split("e")
    return MarkedFigure(Markup("{} × {}").format(digits, _ten_to(int(exponent))))


def _ten_to(power: int) -> Markup:
    return Markup("10<sup>{}</sup>").format(str(power).replace("-", "−"))


def file_size(size: int) -> str:
    """A number of bytes in B, KiB, MiB, GiB or TiB, whichever fits its size."""
    value, unit = float(size), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return Figure(f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}")


def duration(seconds: float) -> str:
    """A number of seconds as text. Long durations are given in minutes, or in hours and minutes."""
    # Rounded to whole seconds it would be 100, which is shown in minutes.
    if seconds < 99.5:
        places = 2 if seconds < 0.995 else 1 if seconds < 9.95 else 0
        return f"{seconds:.{places}f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60:02d} min"


def name_title(name: str) -> str:
    """A name that people chose, for reading: `Block_Group` becomes "Block Group"."""
    return name.replace("_", " ")


def detail_title(detail: str) -> str:
    """The detail of a group for reading: `sex * broad_age` becomes "sex × broad age"."""
    return name_title(detail).replace(" * ", " × ")


def margin(value: float) -> str:
    """A margin rounded up to two decimals, so that it covers what the exact margin covers: 2.65, 43.00."""
    # A margin rounded to nearest could cover less than it says.
    return Figure(at_most(Fraction(value), places=2))


def unbroken(text: str) -> str:
    """Text of a table cell in which no line break can separate a number from its sign or unit."""
    joined_text = text
    for joined in (" → ", " × ", "± ", " %"):
        joined_text = joined_text.replace(joined, joined.replace(" ", "\N{NO-BREAK SPACE}"))
    return Figure(joined_text) if isinstance(text, Figure) else joined_text
