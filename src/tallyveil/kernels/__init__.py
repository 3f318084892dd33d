"""The compiled parts of the work, by what they work on, and what each is tested against.

A kernel is tested against plain numpy or Python code of one of two sorts:

- A specification does the same work in the plainest way. Tests require the same whole numbers, or the same floats up
  to rounding errors. They are called `<name>_reference`, in `tests/oracles`.
- An oracle solves the same problem by another method. Tests require that the answers agree, not the steps.

| module | tested against |
|---|---|
| `vectors` | numpy's slices and sorting (specification); a projection that sorts, `numpy.linalg` (oracles) |
| `noise`, `records`, `threshold_coverage` | specifications |
| `family.answers` | specifications; none for `number_answers`, which the others use |
| `family.reduction`, `family.program` | `reduction` of the tests (specification) |
| `family.descent` | `family.polish`, which ends at the same optimum (oracle) |
| `family.polish` | `active_set` (oracle), `block_program` and `certificate` (specifications) of the tests |
| `family.face`, `family.face_solution`, `family.answer_system` | the equations as one dense system (oracle) |
| `family.interior` | the conditions of optimality in numpy, in the tests (oracle) |
| `family.solver` | `least_squares` of the tests (oracle) |
| `family.chunk` | `estimation.family.estimate_family`, which gives the same counts |
| `rounding.flow` | all roundings of small families (oracle); for its laminar forests, sets of Python (oracle) |
| `rounding.network_simplex` | shortest augmenting paths (oracle) |
| `tree.sweep` | specifications, up to rounding errors |
| `tree.upward` | dense least squares, numpy's sums, exact fractions of every answer by itself, in the tests |
| `tree.off_spine_distance`, `tree.variance` | specifications; those of searches compute every trial from scratch |
| `subspace.sums`, `subspace.chain` | specifications |
| `subspace.look_ahead` | `subspace.exact.look_ahead` (decisions in balls), numpy's transforms |
| `tiles.solver`, `tiles.tables` | PIQP (oracle); for the certificate, the conditions of optimality in numpy (oracle) |
| `tiles.direction` | dense matrices, in the tests (oracle), as the reduced equations of `tiles.tables` |
| `tiles.rounding` | HiGHS's solver of linear programs (oracle) |
| `tiles.family`, `tiles.chunk` | only through the others |

`compiled` computes nothing.
"""
