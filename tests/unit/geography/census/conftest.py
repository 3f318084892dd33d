"""Small files in the form of the Census Bureau's: seven blocks of Rhode Island and three of Delaware."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

# Block, county subdivision, place, tribal area, component, unified school district, elementary school district.
RHODE_ISLAND = (
    ("440010301001000", "05140", "", "", "", "00030", ""),
    ("440010301001001", "05140", "", "", "", "00030", ""),
    ("440010301002000", "05140", "10000", "", "", "", "00510"),
    ("440090511011000", "22960", "10000", "2415", "R", "00120", ""),
    ("440090511011001", "22960", "", "2415", "T", "00120", ""),
    ("440090511011002", "00000", "", "", "", "99997", ""),
    ("440090511012000", "22960", "", "9600", "", "00120", ""),
)
DELAWARE = (
    ("100010401001000", "90444", "21200", "", "", "01620", ""),
    ("100010401001001", "90444", "", "", "", "01620", ""),
    ("100010401002000", "90444", "21200", "", "", "01620", ""),
)
STATES = {"44": ("RI", RHODE_ISLAND), "10": ("DE", DELAWARE)}


class Files:
    """Writes files into a folder. Every method returns the path of what it wrote."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def text(self, name: str, lines: Sequence[str], *, end: str = "\n", start: bytes = b"") -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(start + "".join(line + end for line in lines).encode())
        return path

    def assigned(self, state: str = "44") -> Path:
        """A folder of block assignment files."""
        abbreviation, rows = STATES[state]
        columns = {
            "MCD": ("BLOCKID|COUNTYFP|COUSUBFP", lambda r: f"{r[0]}|{r[0][2:5]}|{r[1]}"),
            "INCPLACE_CDP": ("BLOCKID|PLACEFP", lambda r: f"{r[0]}|{r[2]}"),
            "AIANNH": ("BLOCKID|AIANNHCE|COMPTYP", lambda r: f"{r[0]}|{r[3]}|{r[4]}"),
            "SDUNI": ("BLOCKID|DISTRICT", lambda r: f"{r[0]}|{r[5]}"),
            "SDELM": ("BLOCKID|DISTRICT", lambda r: f"{r[0]}|{r[6]}"),
        }
        for kind, (header, line) in columns.items():
            self.text(
                f"baf{state}/BlockAssign_ST{state}_{abbreviation}_{kind}.txt", [header, *map(line, rows)]
            )
        return self.folder / f"baf{state}"

    def reference(
        self, states: Sequence[str] = ("44",), extra: Mapping[str, Sequence[str]] | None = None
    ) -> Path:
        """A geographic reference file of the same blocks, in which 9s mean "in none"."""
        lines = [
            "|".join(
                [
                    *(block[:2], block[2:5], block[5:11], block[11], block[11:], tribal or "9999"),
                    *(mcd, place or "99999", unified or "99999", elementary or "99999"),
                ]
            )
            for state in states
            for block, mcd, place, tribal, _, unified, elementary in STATES[state][1]
        ]
        header = (
            "TABBLKST|TABBLKCOU|TABTRACTCE|TABBLKGRPCE|TABBLK|AIANNHCE|COUSUBFP|PLACEFP|SDUNILEA|SDELMLEA"
        )
        for name, values in (extra or {}).items():
            header += f"|{name}"
            lines = [f"{line}|{value}" for line, value in zip(lines, values, strict=True)]
        return self.text("grf.txt", [header, *lines])


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)
