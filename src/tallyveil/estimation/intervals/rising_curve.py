"""A smooth curve through points that rise, without overshoot: piecewise cubic Hermite interpolation.

scipy has it too, as `PchipInterpolator`. But to import scipy.interpolate takes longer than all else that the intervals
of a small release take.
"""

from dataclasses import dataclass

import numpy as np

from tallyveil.arrays import FloatRows, Floats


@dataclass(frozen=True, slots=True, eq=False)
class RisingCurve:
    """A curve that rises wherever its points do. Made by `rising_curve`.

    Attributes:
        knots: x of the points, ascending.
        powers: Coefficients of the cubic behind each knot but the last, from the constant up; shape (4, points - 1).
    """

    knots: Floats
    powers: FloatRows

    def at(self, x: Floats) -> Floats:
        """Heights of the curve. Beyond its ends, the first and the last cubic go on."""
        place = np.clip(np.searchsorted(self.knots, x, side="right") - 1, 0, len(self.knots) - 2)
        along = x - self.knots[place]
        constant, linear, square, cube = (power[place] for power in self.powers)
        height: Floats = constant + linear * along + square * (along * along) + cube * (along * along * along)
        return height


def rising_curve(x: Floats, y: Floats) -> RisingCurve:
    """The curve through points of which both numbers rise strictly. There must be three or more.

    Source: Fritsch, Butland 1984, formula (5), for the slopes inside; Moler 2004, section 3.4, for those at the ends.
    """
    step, rise = np.diff(x), np.diff(y)
    chord = rise / step
    before, after = 2 * step[1:] + step[:-1], step[1:] + 2 * step[:-1]
    # A harmonic mean of both chords: at most three times the smaller one, so that the curve does not overshoot.
    inside = 1.0 / ((before / chord[:-1] + after / chord[1:]) / (before + after))
    first = _end_slope(step[0], step[1], chord[0], chord[1])
    last = _end_slope(step[-1], step[-2], chord[-1], chord[-2])
    slope = np.concatenate([[first], inside, [last]])
    bend = (slope[:-1] + slope[1:] - 2 * chord) / step
    return RisingCurve(x, np.stack([y[:-1], slope[:-1], (chord - slope[:-1]) / step - bend, bend / step]))


def _end_slope(near: float, far: float, near_chord: float, far_chord: float) -> float:
    """The slope at an end, of the parabola through the three points there; 0 where that one would fall."""
    return max(((2 * near + far) * near_chord - near * far_chord) / (near + far), 0.0)
