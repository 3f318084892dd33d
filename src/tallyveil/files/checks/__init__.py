"""The last look before a release is finished: the written files are read back and held to every promise."""

from tallyveil.files.checks.parts import Part, described, part_of, parts_of, require_no_other_files
from tallyveil.files.checks.promises import Agreeing, Bounded, Promises, require
from tallyveil.files.checks.whole import check_release, check_table_part, check_tables

__all__ = [
    "Agreeing",
    "Bounded",
    "Part",
    "Promises",
    "check_release",
    "check_table_part",
    "check_tables",
    "described",
    "part_of",
    "parts_of",
    "require",
    "require_no_other_files",
]
