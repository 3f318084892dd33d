"""The compiled parts of the work, by what they work on, and what each is tested against.

A kernel is tested against plain numpy or Python code of one of two sorts:

- A specification does the same work in the plainest way. Tests require the same whole numbers, or the same floats up
  to rounding errors. They are called `<name>_reference`, in `tests/oracles`.
- An oracle solves the same problem by another method. Tests require that the answers agree, not the steps.

| module | tested against |
|---|---|
| `noise` | specifications |
| `threshold_coverage` | specifications |
| `vectors` | numpy's slices, sorting and `numpy.linalg`; oracles that sort instead of iterating for simplexes |
| `family.answers` | specifications; none for `number_answers`, which the others use |
| `family.program`, `family.reduction` | `reduction` of the tests (specification) |
| `family.descent` | `family.polish`, which ends at the same optimum (oracle) |
| `family.polish` | `active_set`, `block_program` and `certificate` of the tests (oracle, specifications) |
| `family.face`, `family.face_solution` | the equations as one dense system, in the tests (oracle) |
| `family.answer_system` | the same (oracle) |
| `family.interior` | the conditions of optimality in numpy, in the tests (oracle) |
| `family.solver` | `least_squares` of the tests (oracle) |
| `family.chunk` | `estimation.family.estimate_family`, which gives the same counts |
| `rounding.flow` | all roundings of small families, sets of Python (oracles) |
| `rounding.network_simplex` | shortest augmenting paths (oracle) |
| `tree.sweep` | specifications, up to rounding errors |
| `tree.upward` | dense least squares of every subtree, in the tests (oracle) |
| `tree.off_spine_distance`, `tree.variance` | specifications; they compute every trial from scratch |
| `subspace.sums` | specifications |
| `subspace.look_ahead` | `subspace.exact.look_ahead` (decisions in balls), numpy's transforms |
| `subspace.chain` | specifications |
| `tiles.solver`, `tiles.tables` | PIQP (oracle), the conditions of optimality in numpy, in the tests (oracle) |
| `tiles.direction` | dense matrices, in the tests (oracle) |
| `tiles.rounding` | HiGHS's solver of linear programs (oracle) |
| `tiles.family`, `tiles.chunk` | only through the others |
| `tiles.on_threads` | `tiles.chunk`, which gives the same bits |
| `posterior.moves` | the law of every table of small trees, by enumeration (oracle) |
| `posterior.updates` | draws from the joint law of parameters and counts (oracle) |
| `allocation.law` | every size, class, factor and table of a tiny block (oracle) |
| `allocation.flow` | every way to share out the counts of small families (oracle) |
| `records` | specifications |

`compiled` computes nothing.
"""
