"""Processor time and memory of joint covariances of many counts, and of questions to a finished release.

`python benchmarks/asking.py RELEASE_FOLDER` takes a release whose schema has attributes in its first two places and
whose third geolevel has some hundred geounits, such as that of examples/rhode_island:
  * 564 counts: two each of 244 tracts and of 38 unions of neighbouring tracts, with all their covariances;
  * answers to questions about the geounits of the second and of the finest geolevel, with the fit of all measurements.
`python benchmarks/asking.py RELEASE.toml` takes a plan; no release is made:
  * 10,000 counts by the last attribute of the geounits of the third geolevel, all pairs;
  * standard errors alone of the same counts, and their product with one vector.

Everything is done twice, and the second time is printed: kernels are loaded then.
"""

import argparse
import resource
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np

from tallyveil.estimation.intervals.answers import region_variances
from tallyveil.estimation.intervals.covariance import tree_covariance
from tallyveil.estimation.intervals.joint import Asked, joint_covariance
from tallyveil.estimation.intervals.questions import questions_of
from tallyveil.estimation.intervals.regions import region_of
from tallyveil.geography.spine import Spine
from tallyveil.plans.from_toml.load import load_plan
from tallyveil.postprocess.derived.ask import Terms, answer_question
from tallyveil.postprocess.derived.quantities import ChosenCount, quantities_of
from tallyveil.postprocess.derived.question import Question
from tallyveil.postprocess.intervals.model import open_release, plan_model
from tallyveil.products.topdown.run.inputs import read_hierarchies

Made = TypeVar("Made")


def timed(name: str, work: Callable[[], Made]) -> Made:
    """Do some work twice, and print the processor time of the second time and the peak of memory so far."""
    work()
    start = time.process_time()
    result = work()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(f"{name:56} {time.process_time() - start:7.2f} s {peak:6.2f} GB", flush=True)
    return result


def areas_of(spine: Spine, level: int) -> list[np.ndarray]:
    """The finest geounits of each geounit of a geolevel."""
    offsets = spine.finest_offsets(level)
    return [np.arange(*offsets[g : g + 2]) for g in range(spine.n_geounits(level))]


def from_release(folder: Path) -> None:
    """Counts and a question of a finished release."""
    release = open_release(folder)
    spine, codes = release.spine, release.spine.geocodes[-1].text
    areas = areas_of(spine, 2)
    areas += [np.concatenate(areas[6 * number : 6 * number + 6]) for number in range(38)]
    first, second = (attribute.name for attribute in release.schema.attributes[:2])
    group = release.schema.query(first)
    chosen = [
        ChosenCount(f"{number} {answer}", codes.gather(area), group, answer)
        for number, area in enumerate(areas)
        for answer in range(2)
    ]
    timed(f"{len(chosen)} counts and their covariances", lambda: quantities_of(folder, chosen, workers=1))
    for level, attribute in ((1, second), (spine.finest, first)):
        question = Question((spine.geolevels[level], attribute))
        timed(
            f"{attribute} by {question.by[0]}",
            partial(answer_question, folder, question, terms=Terms(workers=1)),
        )


def from_plan(path: Path, n: int) -> None:
    """Many counts of a plan, of which no measurement is needed."""
    plan = load_plan(path)
    hierarchies = read_hierarchies(plan)
    spine, model = hierarchies.spine, plan_model(plan, hierarchies)
    tree = timed("covariances of the tree", lambda: tree_covariance(model))
    questions = questions_of(model.algebra, plan.query(plan.schema.attribute_names[-1]))
    regions = [region_of(spine, area) for area in areas_of(spine, 2)]
    region, row = np.divmod(np.arange(min(n, len(regions) * questions.n)), questions.n)
    asked = Asked(regions[: region[-1] + 1], region, questions.rows(), row)
    what = f"{asked.n:,} counts"
    variances = timed(
        f"{what}: standard errors alone", lambda: region_variances(tree, asked.regions, questions)
    )[region, row]
    ones = np.ones((asked.n, 1))
    timed(f"{what}: product with a vector", lambda: joint_covariance(tree, asked, variances).times(ones))
    timed(f"{what}: all pairs", lambda: joint_covariance(tree, asked, variances).matrix())


def main() -> None:
    """Time one release or plan."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("path", type=Path, help="folder of a finished release, or a release file")
    parser.add_argument("--counts", type=int, default=10_000, help="number of counts, for a release file")
    args = parser.parse_args()
    print(f"{'':56} {'processor':>9} {'peak':>9}")
    if args.path.is_dir():
        from_release(args.path)
    else:
        from_plan(args.path, args.counts)


if __name__ == "__main__":
    main()
