"""Kernels that parse records of numbers from text, with their specification: `|` between columns, one line a record."""

import re

from tallyveil.arrays import Bools, Bytes, Int32s, Integers
from tallyveil.kernels.compiled import njit

_BAR, _LINE_FEED, _RETURN, _ZERO = 124, 10, 13, 48
_NULL = (78, 117, 108, 108)
_TRUE = (84, 114, 117, 101)
_FALSE = (70, 97, 108, 115, 101)
NULL, FLAG = 1, 2


@njit(nogil=True, cache=True)
def parse_rows(data: Bytes, rules: Integers, values: Int32s, broken: Bools) -> int:
    """Parse lines into numbers, and say which columns hold something else.

    Args:
        data: Whole lines; the last one ends with a line feed, too. A carriage return before it is passed over,
            and so are empty lines.
        rules: [columns, 5]: least digits, most digits, least number, largest number, words allowed (`NULL`:
            Null is 0; `FLAG`: False is 0 and True is 1; 0: none).
        values: Output, [rows, columns]; 0 where a rule is broken.
        broken: Set for columns with a value that its rule does not allow, [columns].
    Returns:
        Rows parsed, or -1 if a line has another number of columns.
    """
    n_columns = rules.shape[0]
    row = column = 0
    begin = place = 0
    number = 0
    digits = True
    while place < data.size:
        byte = int(data[place])
        digit = byte - _ZERO
        if 0 <= digit <= 9:
            number = number * 10 + digit
            place += 1
            continue
        ends = byte == _LINE_FEED
        if byte == _RETURN and place + 1 < data.size and data[place + 1] == _LINE_FEED:
            ends = True
        if not ends and byte != _BAR:
            digits = False
            place += 1
            continue
        length = place - begin
        last = column == n_columns - 1
        if ends and column == 0 and length == 0 and n_columns > 1:
            last = False  # an empty line
        elif ends != last:
            return -1
        else:
            in_length = digits and length > 0 and rules[column, 0] <= length <= rules[column, 1]
            if not (in_length and rules[column, 2] <= number <= rules[column, 3]):
                number = _word(data, begin, length, rules[column, 4])
                broken[column] |= number < 0
                number = max(number, 0)
            values[row, column] = number
            column = 0 if ends else column + 1
            row += ends
        place += 2 if byte == _RETURN else 1
        begin, number, digits = place, 0, True
    return row


@njit(nogil=True, cache=True)
def _word(data: Bytes, begin: int, length: int, words: int) -> int:
    """The number that a word writes, or -1."""
    if words == NULL and _is(data, begin, length, _NULL):
        return 0
    if words == FLAG and _is(data, begin, length, _FALSE):
        return 0
    if words == FLAG and _is(data, begin, length, _TRUE):
        return 1
    return -1


@njit(nogil=True, cache=True)
def _is(data: Bytes, begin: int, length: int, word: tuple[int, ...]) -> bool:
    if length != len(word):
        return False
    same = True
    for i in range(length):
        same &= data[begin + i] == word[i]
    return same


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
