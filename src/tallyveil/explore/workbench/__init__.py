"""The workbench of a plan: a page in which an office moves budget and shares, and sees cost and accuracy at once."""

from tallyveil.explore.workbench.site import Workbench, make_workbench

__all__ = ["Workbench", "make_workbench"]
