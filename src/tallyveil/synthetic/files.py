"""Writing a made-up population down."""

from pathlib import Path

from tallyveil.storage.write import write_parquet
from tallyveil.synthetic.population import SyntheticPopulation


def write_population(population: SyntheticPopulation, directory: Path) -> dict[str, Path]:
    """Write a population as Parquet files, each complete or absent.

    Args:
        population: What to write.
        directory: Folder to write to; made where it is missing. Files of an earlier population are replaced.
    Returns:
        Paths by name: "records", "geography" and, where the preset has group quarters, "facilities".
    Raises:
        StoreError: a file cannot be written.
    """
    tables = {"records": population.records, "geography": population.geography}
    if population.facilities is not None:
        tables["facilities"] = population.facilities
    paths = {name: directory / f"{name}.parquet" for name in tables}
    for name, table in tables.items():
        write_parquet(paths[name], table, {"synthetic": "true"})
    if "facilities" not in tables:
        # Bounds of an earlier population would contradict this one.
        (directory / "facilities.parquet").unlink(missing_ok=True)
    return paths
