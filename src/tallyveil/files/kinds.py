"""The kinds of releases: one for each product."""

from enum import StrEnum


class ReleaseKind(StrEnum):
    """The product that a release is of; the value is the `kind` of its manifest."""

    TOPDOWN = "topdown"
    MEASUREMENTS = "topdown-measurements"
    SAFETAB = "safetab"
    HOUSEHOLDS = "safetab-households"
    GROUPS = "safetab-groups"
    SUBSPACE = "integer-subspace"

    @property
    def command(self) -> str:
        """The command that makes such a release, with as much of its arguments as tells it from the others."""
        return "tallyveil " + _COMMANDS[self]


_COMMANDS = {
    ReleaseKind.TOPDOWN: "run",
    ReleaseKind.MEASUREMENTS: "measure",
    ReleaseKind.SAFETAB: "safetab run PARAMS",
    ReleaseKind.HOUSEHOLDS: "safetab households",
    ReleaseKind.GROUPS: "safetab run FILE.TOML",
    ReleaseKind.SUBSPACE: "subspace release",
}
