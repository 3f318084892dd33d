"""Does a mutant change nothing but words that a person reads in a message?

The rule: every difference is a text that stands in the message of an error, a warning or a log line. It may be
joined to other texts by `+`, by `.join`, by an f-string, or be one of two texts that an `if` chooses from. A text that
the program reads is no word of a message: the `code` of an error, a key, something compared.
"""

import ast
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Final

LOGGERS: Final = ("logger", "_LOGGER")
LEVELS: Final = ("debug", "info", "warning", "error")
TEXTS: Final = (ast.BinOp, ast.JoinedStr, ast.FormattedValue, ast.IfExp)
"""What a message is put together from; `.join` is looked for apart."""


def changes_words_alone(original: str, mutant: str) -> bool:
    """Whether two versions of one function differ in words of messages and nowhere else."""
    found = list(differences([_function(original)], [_function(mutant)]))
    return bool(found) and all(map(_in_a_message, found))


def _function(source: str) -> ast.AST:
    """The function, without its name: versions of a function are named differently."""
    function = ast.parse(source).body[0]
    assert isinstance(function, ast.FunctionDef)
    function.name = ""
    return function


def differences(one: Sequence[ast.AST], other: Sequence[ast.AST]) -> Iterator[tuple[ast.AST, ...]]:
    """Where two trees part: each place as the nodes of the first tree from the root down to it, and the other's node.

    Args:
        one: Nodes from the root of the first tree to the node to compare.
        other: The same of the second tree.
    """
    mine, theirs = one[-1], other[-1]
    if type(mine) is not type(theirs) or _plain(mine) != _plain(theirs):
        yield (*one, theirs)
        return
    for below, beside in zip_longest(ast.iter_child_nodes(mine), ast.iter_child_nodes(theirs)):
        if below is None or beside is None:
            yield (*one, theirs)
            return
        yield from differences([*one, below], [*other, beside])


def _plain(node: ast.AST) -> list[tuple[str, object]]:
    """The fields of a node that are no nodes, and how many nodes the others have."""
    fields = [(name, value) for name, value in ast.iter_fields(node) if not isinstance(value, ast.AST)]
    return [
        (name, len(value) if isinstance(value, list) and value and isinstance(value[0], ast.AST) else value)
        for name, value in fields
    ]


def _in_a_message(place: tuple[ast.AST, ...]) -> bool:
    *above, last, other = place
    if not _is_text(last) or not _is_text(other):
        return False
    below: ast.AST = last
    for node in reversed(above):
        if isinstance(node, ast.Call) and _says_something(node):
            return below in node.args
        if isinstance(node, ast.IfExp) and below is node.test:
            return False
        if not isinstance(node, TEXTS) and not _joins(node, below):
            return False
        below = node
    return False


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _says_something(call: ast.Call) -> bool:
    """Whether a call makes an error or a warning, or writes to the log."""
    match call.func:
        case ast.Name(id=name):
            return name.endswith(("Error", "Warning"))
        case ast.Attribute(value=ast.Name(id=name), attr=level):
            return name in LOGGERS and level in LEVELS
    return False


def _joins(node: ast.AST, below: ast.AST) -> bool:
    """Whether a node is `below.join(...)`, or the part `below.join` of it."""
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Attribute) and node.func is below
    return isinstance(node, ast.Attribute) and node.attr == "join"
