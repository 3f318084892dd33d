"""Keep families that no solver can certify, so that the cause can be found."""

from pathlib import Path

from tallyveil.errors import SolverError
from tallyveil.estimation.family import estimate_family
from tallyveil.estimation.problem import FamilyProblem
from tallyveil.estimation.problem_json import problem_to_mapping
from tallyveil.estimation.solution import FamilySolution
from tallyveil.storage.paths import file_name, inside
from tallyveil.storage.write import write_json

UNSOLVED = "unsolved"


def estimate_or_keep(problem: FamilyProblem, folder: Path | None) -> FamilySolution:
    """Estimate a family. If its estimate cannot be certified, the family is first written to `folder`.

    Raises:
        ConstraintError: the family has no solution.
        SolverError: the answer could not be certified; names the file.
    Privacy: the file holds noisy answers, published counts and public bounds.
    """
    try:
        return estimate_family(problem)
    except SolverError as error:
        # Where no folder is given, the error alone says what happened.
        if folder is None:
            raise
        # Names of geolevels and geocodes are turned into file names that stay in this folder.
        path = inside(folder, file_name(problem.geolevel), f"{file_name(problem.geocode)}.json")
        write_json(path, problem_to_mapping(problem))
        raise SolverError(
            f"{error}. The family of this estimation problem is kept in {path}, which holds noisy answers and "
            "published counts and no true count; tallyveil.estimation.problem_json reads it. All finished stages are "
            "kept as well. The same command tries again with the same noise and spends nothing.",
            code="family-unsolved",
        ) from error
