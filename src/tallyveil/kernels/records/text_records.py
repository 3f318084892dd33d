"""Kernels that parse records of numbers from text, with their specification: `|` between columns, one line a record."""

from tallyveil.arrays import Bools, Bytes, Int32s, Integers
from tallyveil.kernels.compiled import njit

# Bytes of ASCII: the bar between columns, the ends of a line, and the digit 0.
_BAR, _LINE_FEED, _RETURN, _ZERO = 124, 10, 13, 48
# "Null", "True" and "False" as bytes of ASCII. Kernels cannot compare text.
_NULL = (78, 117, 108, 108)
# "True", which writes the number 1.
_TRUE = (84, 114, 117, 101)
# "False", which writes the number 0.
_FALSE = (70, 97, 108, 115, 101)
# Words that a column may have in the place of a number; in the last column of `rules`.
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
    # One pass over the bytes, without a text or a number of Python for each field.
    n_columns = rules.shape[0]
    row = column = 0
    begin = place = 0
    number = 0
    digits = True
    while place < data.size:
        byte = int(data[place])
        digit = byte - _ZERO
        if 0 <= digit <= 9:
            # May overflow for long rows of digits, without harm: such a field has more digits than any rule allows.
            number = number * 10 + digit
            place += 1
            continue
        # A carriage return alone is no end of a line: it makes the field no number.
        ends = byte == _LINE_FEED
        if byte == _RETURN and place + 1 < data.size and data[place + 1] == _LINE_FEED:
            ends = True
        if not ends and byte != _BAR:
            # Anything else stays in the field, which is then a word or broken. No byte of it is ever shown.
            digits = False
            place += 1
            continue
        length = place - begin
        last = column == n_columns - 1
        if ends and column == 0 and length == 0 and n_columns > 1:
            last = False  # an empty line
        # Too few or too many columns. Nothing is guessed: a row that is out of step would shift all values after
        # it.
        elif ends != last:
            return -1
        else:
            # The length is tested before the number is believed, since an overflow shows in the length alone.
            in_length = digits and length > 0 and rules[column, 0] <= length <= rules[column, 1]
            if not (in_length and rules[column, 2] <= number <= rules[column, 3]):
                number = _word(data, begin, length, rules[column, 4])
                # For the column as a whole: which record was wrong would be confidential.
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
    # Case counts: "null" is no word of these files.
    if words == NULL and _spells(data, begin, length, _NULL):
        return 0
    if words == FLAG and _spells(data, begin, length, _FALSE):
        return 0
    if words == FLAG and _spells(data, begin, length, _TRUE):
        return 1
    return -1


@njit(nogil=True, cache=True)
def _spells(data: Bytes, begin: int, length: int, word: tuple[int, ...]) -> bool:
    if length != len(word):
        return False
    # At most five bytes, without an early end.
    same = True
    for i in range(length):
        same &= data[begin + i] == word[i]
    return same
