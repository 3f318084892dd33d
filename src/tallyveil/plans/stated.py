"""The plan that a finished release states: nothing of it is used before all of it is what a run writes.

A plan is checked in three steps. It is what its declaration writes. What is read from it, written again, is the same
text. And its parts fit each other as those of a release file must.
"""

from pathlib import Path

from tallyveil.declared import MisfitError, read_written
from tallyveil.errors import StoreError, TallyveilError
from tallyveil.plans.fitting import refuse_unfit
from tallyveil.plans.release import StatedPlan
from tallyveil.storage.json_files import JsonObject, damaged

_MEND = "Restore the folder from a copy."


def stated_plan(path: Path, plan: JsonObject) -> StatedPlan:
    """Read the plan of a finished release.

    Args:
        path: The file that states it, for messages.
        plan: The plan, a JSON object.
    Raises:
        StoreError: the plan is not one that a run writes.
    """
    try:
        # Read, and compared with what the declaration would write: a plan with a key too many is none of a run.
        read = read_written(StatedPlan, plan)
        # Then the same rules as for a release file, so that no plan of a folder can do what a file cannot.
        refuse_unfit(read)
    except MisfitError as error:
        raise damaged(path, f"plan.{error.place}", _MEND) from None
    except TallyveilError as error:
        raise StoreError(
            f"{path} is damaged: the plan in it is none that a run writes. {error} {_MEND}",
            code="release-damaged",
        ) from None
    return read
