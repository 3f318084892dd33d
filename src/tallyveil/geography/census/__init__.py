"""Geography tables from the public files of the United States Census Bureau."""

from tallyveil.geography.census.importing import Imported, Sources, import_geography, write_imported

__all__ = ["Imported", "Sources", "import_geography", "write_imported"]
