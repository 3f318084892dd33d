"""Slow and obvious specifications of the kernels in `tallyveil.kernels.records`."""

import re

from tallyveil.arrays import Bools, Bytes, Int32s, Integers
from tallyveil.kernels.records import FLAG, NULL


def parse_rows_reference(data: Bytes, rules: Integers, values: Int32s, broken: Bools) -> int:
    """Specification of `parse_rows`, line by line."""
    row = 0
    for line in data.tobytes().decode("latin-1").removesuffix("\n").split("\n"):
        fields = line.removesuffix("\r").split("|")
        if fields == [""] and len(rules) > 1:
            continue
        if len(fields) != len(rules):
            return -1
        for column, (field, rule) in enumerate(zip(fields, rules.tolist(), strict=True)):
            words = {NULL: {"Null": 0}, FLAG: {"False": 0, "True": 1}}.get(rule[4], {})
            values[row, column] = words.get(field, 0)
            number = int(field) if re.fullmatch("[0-9]+", field) else -1
            if number >= 0 and rule[0] <= len(field) <= rule[1] and rule[2] <= number <= rule[3]:
                values[row, column] = number
            else:
                broken[column] |= field not in words
        row += 1
    return row
