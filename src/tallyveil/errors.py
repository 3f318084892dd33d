"""All errors that Tallyveil raises on purpose.

TallyveilError
├── ConfigError       the TOML file, a flag or a declared input is wrong
├── SchemaError       attributes, recodes, queries or record values do not fit the schema
├── GeographyError    the hierarchy is not a tree, or geocodes do not match it
├── BudgetError       shares do not sum to one, or an event costs more than was declared
├── ConstraintError   no non-negative integer counts satisfy the constraints
├── SolverError       a numerical answer could not be certified
├── StoreError        a file or folder cannot be read, written or resumed
└── ClusterError      a cluster cannot be joined or trusted, or was lost

Each error has a `code`, which names a section of docs/errors.md. Its message says what is wrong and where, what was
found, what was wanted, and how to mend it. Messages of code that sees confidential data hold no count and no value of
a record.
"""

import re

_ADDRESS = re.compile(r"\bs3:/(?=[^/])")
"""How a path holds the begin of the address `s3://bucket/key`, because paths have no empty parts."""


class TallyveilError(Exception):
    """Base class of all errors that Tallyveil raises on purpose.

    Attributes:
        code: Short name that does not change between versions. It names a section of docs/errors.md.
        exit_code: Exit code of the command line after this error.
    """

    code = "error"
    exit_code = 1

    def __init__(self, message: str, *, code: str | None = None) -> None:
        # Here for all errors, so that no message has to think of it.
        super().__init__(_ADDRESS.sub("s3://", message))
        # Set on the object: the class keeps its own code for errors without one.
        if code is not None:
            self.code = code
        self.add_note(f"More: tallyveil explain {self.code}")  # tracebacks and notebooks show it


class ConfigError(TallyveilError):
    """The TOML file, a flag or a declared input is wrong."""

    code = "config"
    exit_code = 2


class SchemaError(TallyveilError):
    """Attributes, recodes, queries or record values do not fit the schema."""

    code = "schema"
    exit_code = 3


class GeographyError(TallyveilError):
    """The hierarchy is not a tree, or geocodes do not match it."""

    code = "geography"
    exit_code = 4


class BudgetError(TallyveilError):
    """Shares do not sum to one, or an event costs more than was declared."""

    code = "budget"
    exit_code = 5


class ConstraintError(TallyveilError):
    """No non-negative integer counts satisfy the constraints."""

    code = "constraint"
    exit_code = 6


class SolverError(TallyveilError):
    """A numerical answer could not be certified."""

    code = "solver"
    exit_code = 7


class StoreError(TallyveilError):
    """A file or folder cannot be read, written or resumed."""

    code = "store"
    exit_code = 8


class ClusterError(TallyveilError):
    """A cluster cannot be joined or trusted, or was lost."""

    code = "cluster"
    exit_code = 9
