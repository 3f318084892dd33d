"""Analyses of counts by area that account for the noise of a release.

The code is in `tallyveil.postprocess.derived`.
"""

from tallyveil.postprocess.derived.regression import Regression as Regression
from tallyveil.postprocess.derived.regression import Variable as Variable
from tallyveil.postprocess.derived.regression import count as count
from tallyveil.postprocess.derived.regression import regress as regress
from tallyveil.postprocess.derived.regression import share as share

__all__: list[str]
