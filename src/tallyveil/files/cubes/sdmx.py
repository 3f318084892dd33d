"""SDMX: every table as SDMX-CSV 2.0, and one structure message (SDMX-ML 3.0) that describes all of them.

The structure message has a list of codes for every dimension, a scheme of concepts, and for every table a data
structure and a dataflow. The published number is the measure OBS_VALUE; its quality is given by attributes of the
observation: OBS_STATUS, CONF_STATUS, and ESTIMATE, STANDARD_ERROR, LOWER_BOUND, UPPER_BOUND or MARGIN where the
release has them. Identifiers of SDMX hold letters, digits, hyphens and underscores only. Every other character, and a
hyphen where hyphens join the parts of an identifier, is written as `_xHHHH_` with the number of the character, as ISO
9075-14 does: different names have different identifiers, and no identifier is a formula to a spreadsheet.

The message is written as it is made, element by element: lists of the codes of areas are long. It holds no time: its
header says when it was prepared, and that is a constant, so that the same release gives the same bytes.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final
from xml.sax.saxutils import XMLGenerator
from xml.sax.xmlreader import AttributesImpl

import polars as pl

from tallyveil.errors import ConfigError
from tallyveil.files.cubes.cube import (
    COUNT,
    ESTIMATE,
    ESTIMATE_MARGIN,
    FREE,
    LOWER,
    MARGIN,
    STANDARD_ERROR,
    STATUS,
    STATUSES,
    UPPER,
    Cube,
    Dimension,
    Measure,
    Texts,
)
from tallyveil.files.cubes.edition import CubeFile, Edition, write_tables
from tallyveil.files.cubes.words import word
from tallyveil.storage.write import write_file

STRUCTURE: Final = "structure.xml"
FILES: Final = (
    "structure.xml is the structure message (SDMX-ML 3.0). Each file below tables/ is a table (SDMX-CSV 2.0), whose "
    "column STRUCTURE_ID names its dataflow."
)
AGENCY: Final = "TALLYVEIL"
"""Agency of the structures where no other is named."""
VERSION: Final = "1.0"
AREA, PERIOD, OBS_STATUS, CONF_STATUS = "REF_AREA", "TIME_PERIOD", "OBS_STATUS", "CONF_STATUS"
UNIT: Final = "UNIT_MEASURE"
_OF_TABLE: Final = (UNIT, "UNIT_MULT", "DECIMALS")
"""Attributes that are the same for all observations of a table."""
_TITLES: Final = {
    OBS_STATUS: "status",
    CONF_STATUS: "confidentiality",
    UNIT: "unit",
    "UNIT_MULT": "unit multiplier",
    "DECIMALS": "decimals",
}
_OUR_LISTS: Final = (OBS_STATUS, CONF_STATUS, UNIT)
_MEASURES: Final = (COUNT, ESTIMATE, STANDARD_ERROR, LOWER, UPPER, MARGIN, ESTIMATE_MARGIN)
_CONCEPTS: Final = "CS_TALLYVEIL"
_TAKEN: Final = frozenset(
    {
        "STRUCTURE",
        "STRUCTURE_ID",
        "ACTION",
        AREA,
        PERIOD,
        *_TITLES,
        *(measure.concept for measure in _MEASURES),
    }
)
"""Identifiers of columns that no dimension may have."""
_PREPARED: Final = "2000-01-01T00:00:00Z"
_MESSAGE: Final = "http://www.sdmx.org/resources/sdmxml/schemas/v3_0/message"
_SPACES: Final = {
    "xmlns:mes": _MESSAGE,
    "xmlns:str": "http://www.sdmx.org/resources/sdmxml/schemas/v3_0/structure",
    "xmlns:com": "http://www.sdmx.org/resources/sdmxml/schemas/v3_0/common",
}
_NOT_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
LONGEST_ID: Final = 255
"""Characters of an identifier. The standard names no limit; registries keep identifiers in columns of this length."""


def is_agency(text: object) -> bool:
    """Whether a text identifies an agency."""
    part = r"[A-Za-z][A-Za-z0-9_-]*"
    return isinstance(text, str) and bool(re.fullmatch(rf"{part}(\.{part})*", text))


def code_id(code: str) -> str:
    """The identifier of a code."""
    # An underscore that begins what looks like an encoded character is itself encoded.
    return re.sub(r"^-|[^A-Za-z0-9_-]|_(?=x[0-9A-F]{4,6}_|x_)|^$", lambda match: _encoded(match[0]), code)


def _encoded(character: str) -> str:
    return f"_x{ord(character):04X}_" if character else "_x_"


def name_id(name: str) -> str:
    """The identifier of a dimension, a list or a structure, which begins with a letter and is none of our own."""
    encoded = code_id(name)
    plain = encoded[:1].isalpha() and encoded not in _TAKEN and not encoded.startswith("X_")
    return encoded if plain else f"X_{encoded}"


def joined_id(parts: Sequence[str]) -> str:
    """The identifier of what has a name of several parts: a hyphen is in no part, and between them."""
    return "-".join(code_id(part).replace("-", _encoded("-")) for part in parts)


def column_id(dimension: Dimension) -> str:
    """The identifier of a dimension."""
    return {"geo": AREA, "time": PERIOD}.get(dimension.role) or name_id(dimension.name)


def refuse(edition: Edition) -> None:
    """Refuse names that are too long as identifiers; raises ConfigError."""
    for cube in edition.cubes:
        names = [joined_id(cube.key), *(column_id(dimension) for dimension in cube.dimensions)]
        longest = max(names, key=len)
        if len(longest) > LONGEST_ID - len("DSD_"):
            raise ConfigError(
                f"the table {cube.table!r} would have the identifier {longest[:60]}..., of {len(longest)} characters; "
                f"wanted at most {LONGEST_ID - len('DSD_')}. Characters other than letters of English and digits take "
                "seven each. Leave the table out, or give what it counts shorter names.",
                code="publish-names",
            )


def write(out: Path, edition: Edition) -> list[CubeFile]:
    """Write the structure message and all tables."""
    write_file(out / STRUCTURE, lambda path: _write_structure(path, edition))

    def rows(stream: BinaryIO, cube: Cube) -> None:
        for number, frame in enumerate(cube.observations()):
            _rows(cube, frame, edition).write_csv(stream, include_header=number == 0)

    return [CubeFile(STRUCTURE), *write_tables(out, edition, ".csv", rows)]


def _rows(cube: Cube, frame: pl.DataFrame, edition: Edition) -> pl.DataFrame:
    """Rows of SDMX-CSV."""
    reference = f"{edition.agency}:DF_{joined_id(cube.key)}({VERSION})"
    codes = [
        # Each code is encoded once, and not once a row.
        (_ids(dimension) if dimension.role != "time" else dimension.codes)
        .gather(positions)
        .alias(column_id(dimension))
        for dimension, positions in zip(
            cube.dimensions, cube.positions(frame["place"].to_numpy()), strict=True
        )
    ]
    constants = {
        CONF_STATUS: FREE,
        UNIT: code_id(cube.unit),
        "UNIT_MULT": "0",
        "DECIMALS": str(COUNT.decimals),
    }
    measures = [frame[measure.name].alias(measure.concept) for measure in cube.measures]
    return pl.DataFrame(codes).select(
        pl.lit("dataflow").alias("STRUCTURE"),
        pl.lit(reference).alias("STRUCTURE_ID"),
        pl.lit("I").alias("ACTION"),
        *(series.name for series in codes),
        measures[0],
        frame[STATUS].alias(OBS_STATUS),
        pl.lit(constants[CONF_STATUS]).alias(CONF_STATUS),
        *measures[1:],
        *(pl.lit(constants[name]).alias(name) for name in _OF_TABLE),
    )


def _ids(dimension: Dimension) -> pl.Series:
    # Most codes are identifiers already; only the others are looked at one by one.
    if not dimension.codes.str.contains(r"[^A-Za-z0-9-]|^-|^$").any():
        return dimension.codes
    return dimension.codes.map_elements(code_id, return_dtype=pl.String)


class _Xml:
    """Writes elements one after another."""

    def __init__(self, stream: Any) -> None:
        self._writer = XMLGenerator(stream, encoding="utf-8", short_empty_elements=True)
        self._depth = 0
        self._writer.startDocument()

    @contextmanager
    def element(self, name: str, attributes: Mapping[str, str] | None = None) -> Iterator[None]:
        """An element with elements in it."""
        self._line()
        self._start(name, attributes)
        self._depth += 1
        yield
        self._depth -= 1
        self._line()
        self._writer.endElement(name)

    def text(self, name: str, text: str, attributes: Mapping[str, str] | None = None) -> None:
        """An element with a text in it."""
        self._line()
        self._start(name, attributes)
        self._writer.characters(_plain(text))
        self._writer.endElement(name)

    def empty(self, name: str, attributes: Mapping[str, str] | None = None) -> None:
        """An element with nothing in it."""
        self._line()
        self._start(name, attributes)
        self._writer.endElement(name)

    def names(self, texts: Texts, name: str = "com:Name") -> None:
        """A text in each of its languages."""
        for language, text in texts.items():
            self.text(name, text, {"xml:lang": language})

    def _start(self, name: str, attributes: Mapping[str, str] | None) -> None:
        self._writer.startElement(name, AttributesImpl(dict(attributes or {})))

    def _line(self) -> None:
        self._writer.ignorableWhitespace("\n" + "  " * self._depth)


def _plain(text: str) -> str:
    """A text without what XML cannot hold."""
    return _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text)


def _write_structure(path: Path, edition: Edition) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as stream:
        xml = _Xml(stream)
        with xml.element("mes:Structure", _SPACES):
            with xml.element("mes:Header"):
                xml.text("mes:ID", f"tallyveil-{code_id(edition.run)}")
                xml.text("mes:Test", "false")
                xml.text("mes:Prepared", _PREPARED)
                xml.empty("mes:Sender", {"id": edition.agency})
            with xml.element("mes:Structures"):
                _write_structures(xml, edition)
        stream.write("\n")


def _write_structures(xml: _Xml, edition: Edition) -> None:
    languages = edition.languages
    dimensions = {_list_id(d): d for cube in edition.cubes for d in cube.dimensions if d.role != "time"}
    with xml.element("str:Dataflows"):
        for cube in edition.cubes:
            flow = joined_id(cube.key)
            with xml.element("str:Dataflow", _identity(f"DF_{flow}", edition)):
                xml.names({language: cube.titles[language] for language in languages})
                notes = {language: " ".join(edition.notes(cube, language)) for language in languages}
                xml.names(notes, "com:Description")
                xml.text("str:Structure", _urn("datastructure.DataStructure", f"DSD_{flow}", edition))
    with xml.element("str:Codelists"):
        for name, dimension in dimensions.items():
            with xml.element("str:Codelist", _identity(name, edition)):
                xml.names({language: dimension.titles[language] for language in languages})
                labels = [dimension.labels[language] for language in languages]
                for code, *texts in zip(_ids(dimension), *labels, strict=True):
                    with xml.element("str:Code", {"id": code}):
                        xml.names(dict(zip(languages, texts, strict=True)))
        units = {code_id(cube.unit): cube.units for cube in edition.cubes}
        lists: dict[str, dict[str, Texts]] = {
            OBS_STATUS: {status: _words(languages, status) for status in STATUSES},
            CONF_STATUS: {FREE: _words(languages, FREE)},
            UNIT: {
                code: {language: texts[language] for language in languages} for code, texts in units.items()
            },
        }
        for name in _OUR_LISTS:
            codes = lists[name]
            with xml.element("str:Codelist", _identity(f"CL_{name}", edition)):
                xml.names(_words(languages, _TITLES[name]))
                for code, names in codes.items():
                    with xml.element("str:Code", {"id": code}):
                        xml.names(names)
    with (
        xml.element("str:ConceptSchemes"),
        xml.element("str:ConceptScheme", _identity(_CONCEPTS, edition)),
    ):
        xml.names({language: edition.titles[language] for language in languages})
        for concept, titles in _concepts(edition).items():
            with xml.element("str:Concept", {"id": concept}):
                xml.names(titles)
    with xml.element("str:DataStructures"):
        for cube in edition.cubes:
            identity = _identity(f"DSD_{joined_id(cube.key)}", edition)
            with xml.element("str:DataStructure", identity):
                xml.names({language: cube.titles[language] for language in languages})
                with xml.element("str:DataStructureComponents"):
                    _write_components(xml, cube, edition)


def _concepts(edition: Edition) -> dict[str, Texts]:
    """What each column is called. A dimension that several tables have is called as in the first."""
    languages = edition.languages
    concepts: dict[str, Texts] = {}
    for cube in edition.cubes:
        for dimension in cube.dimensions:
            # Areas of several geolevels have one concept, which is called after none of them.
            titles = _words(languages, "area") if dimension.role == "geo" else dimension.titles
            concepts.setdefault(column_id(dimension), {language: titles[language] for language in languages})
    used = {measure.name: measure for cube in edition.cubes for measure in cube.measures}
    concepts |= {measure.concept: _words(languages, measure.name) for measure in used.values()}
    return concepts | {name: _words(languages, key) for name, key in _TITLES.items()}


def _write_components(xml: _Xml, cube: Cube, edition: Edition) -> None:
    with xml.element("str:DimensionList", {"id": "DimensionDescriptor"}):
        # The dimension of time stands last.
        for number, dimension in enumerate(sorted(cube.dimensions, key=lambda d: d.role == "time"), 1):
            kind = "str:TimeDimension" if dimension.role == "time" else "str:Dimension"
            place = {} if dimension.role == "time" else {"position": str(number)}
            with xml.element(kind, {"id": column_id(dimension), **place}):
                _write_concept(xml, column_id(dimension), edition)
                if dimension.role == "time":
                    with xml.element("str:LocalRepresentation"):
                        xml.empty("str:TextFormat", {"textType": "ObservationalTimePeriod"})
                else:
                    _write_list(xml, _list_id(dimension), edition)
    with xml.element("str:AttributeList", {"id": "AttributeDescriptor"}):
        for name in (OBS_STATUS, CONF_STATUS):
            with _attribute(xml, name, edition, usage="mandatory", of_table=False):
                _write_list(xml, f"CL_{name}", edition)
        for measure in cube.measures[1:]:
            with _attribute(xml, measure.concept, edition, usage="optional", of_table=False):
                _write_format(xml, _number(measure))
        for name in _OF_TABLE:
            with _attribute(xml, name, edition, usage="mandatory", of_table=True):
                if name == UNIT:
                    _write_list(xml, f"CL_{UNIT}", edition)
                else:
                    _write_format(xml, "Integer")
    with (
        xml.element("str:MeasureList", {"id": "MeasureDescriptor"}),
        xml.element("str:Measure", {"id": COUNT.concept, "usage": "mandatory"}),
    ):
        _write_concept(xml, COUNT.concept, edition)
        _write_format(xml, _number(COUNT))


@contextmanager
def _attribute(xml: _Xml, name: str, edition: Edition, *, usage: str, of_table: bool) -> Iterator[None]:
    """An attribute of the observations, or of a table; inside it, its representation is written."""
    with xml.element("str:Attribute", {"id": name, "usage": usage}):
        _write_concept(xml, name, edition)
        yield
        with xml.element("str:AttributeRelationship"):
            xml.empty("str:Dataflow" if of_table else "str:Observation")


def _write_concept(xml: _Xml, name: str, edition: Edition) -> None:
    urn = _urn("conceptscheme.ConceptScheme", _CONCEPTS, edition).replace("ConceptScheme=", "Concept=")
    xml.text("str:ConceptIdentity", f"{urn}.{name}")


def _write_list(xml: _Xml, name: str, edition: Edition) -> None:
    with xml.element("str:LocalRepresentation"):
        xml.text("str:Enumeration", _urn("codelist.Codelist", name, edition))


def _write_format(xml: _Xml, kind: str) -> None:
    with xml.element("str:LocalRepresentation"):
        xml.empty("str:TextFormat", {"textType": kind})


def _number(measure: Measure) -> str:
    return "Long" if measure.is_whole else "Double"


def _list_id(dimension: Dimension) -> str:
    # Areas of a geolevel and the levels of an attribute may have one name, and an attribute that of a list of ours.
    name = joined_id([dimension.list_name])
    is_ours = name in _OUR_LISTS or name.startswith("X_")
    return f"CL_{'AREA-' if dimension.role == 'geo' else 'X_' if is_ours else ''}{name}"


def _identity(name: str, edition: Edition) -> dict[str, str]:
    return {"id": name, "version": VERSION, "agencyID": edition.agency}


def _urn(kind: str, name: str, edition: Edition) -> str:
    return f"urn:sdmx:org.sdmx.infomodel.{kind}={edition.agency}:{name}({VERSION})"


def _words(languages: Sequence[str], key: str) -> dict[str, str]:
    return {language: word(language, key) for language in languages}
