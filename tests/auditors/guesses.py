"""The rule "the likelier one": how often an adversary guesses the population of an output rightly.

Our own code. It needs no outputs to learn from and none to choose with, so it says most where outputs are few, as whole
releases are.

Problem. n outputs of each population. The adversary says "second" for the outputs with a score above 0, and "first" for
the others. Let p and q be the probabilities of a score above 0 on the second and on the first population. The claim
bounds p - q by delta at epsilon 0, the total variation.

Steps. The number of right guesses is a sum of 2n independent variables, n with the probability p and n with 1 - q.
Their average is a = (1 + p - q) / 2. Such a sum reaches a number that is rare for it no more often than a binomial
variable of 2n trials with the probability a (Hoeffding 1956). So the lower bound of Clopper and Pearson on a
holds, and 2a - 1 is the bound on the total variation.

Worked case. 10 of 10 guesses are right, and the failure probability is 1/1024: a is at least 1/2, so that nothing is
refuted.
"""

from tests.auditors.bounds import Floats, probability_bounds
from tests.auditors.findings import LEVEL, Finding
from tests.auditors.outputs import Outputs


def audit(outputs: Outputs) -> Finding:
    """The total variation, from the scores of the documented noise."""
    claim, samples = outputs.claim, len(outputs.first_scores) + len(outputs.second_scores)
    found = variation_below(outputs.first_scores, outputs.second_scores, LEVEL)
    return Finding("right guesses", outputs.name, "total variation", claim.total_variation, found, samples)


def variation_below(first: Floats, second: Floats, failure: float) -> float:
    """A lower bound on the total variation, from equally many scores of each population; 0 for none.

    Args:
        first, second: The scores.
        failure: Failure probability, at most 1/4.
    """
    right = int((second > 0).sum()) + int((first <= 0).sum())
    low, _ = probability_bounds(right, first.size + second.size, failure)
    return max(2 * low - 1, 0.0)
