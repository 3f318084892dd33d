"""The compiled parts of the work, by what they work on, and what each is tested against.

A kernel is tested against plain numpy or Python code of one of two sorts:

- A specification does the same work in the plainest way. Tests require the same whole numbers, or the same floats up
  to rounding errors. They are called `<name>_reference`, in `tests/oracles`.
- An oracle solves the same problem by another method. Tests require that the answers agree, not the steps.

| module | tested against |
|---|---|
| `address`, `inversion` | specifications |
| `threshold_coverage` | specifications |
| `simplex` | oracles: they sort instead of iterating |
| `cholesky` | `numpy.linalg` (oracle) |
| `vectors` | numpy's slices and sorting (specification) |
| `family.answers` | specifications; none for `number_answers`, which the others use |
| `family.certificate` | `block_program` and `certificate` of the tests (specifications) |
| `family.reduction`, `family.merging`, `family.ridge`, `family.groups` | `reduction` of the tests (specification) |
| `family.descent`, `family.sweep` | `family.polish`, which ends at the same optimum (oracle) |
| `family.polish`, `family.walk`, `family.swap` | `active_set` of the tests (oracle) |
| `family.face`, `family.conjugate`, `family.face_solution` | the equations as one dense system, in the tests (oracle) |
| `family.answer_system`, `family.answer_solution`, `family.rows_by_child` | the same (oracle) |
| `family.interior`, `family.inside` | the conditions of optimality in numpy, in the tests (oracle) |
| `family.solver` | `least_squares` of the tests (oracle) |
| `family.chunk`, `family.pass_constraints` | `estimation.family.estimate_family`, which gives the same counts |
| `rounding.flow` | all roundings of small families (oracle) |
| `rounding.network_simplex` | shortest augmenting paths (oracle) |
| `rounding.laminar_forest` | sets of Python (oracle) |
| `rounding.network`, `rounding.groups`, `rounding.start`, `rounding.spanning_tree` | only through the others |
| `tree.sweep`, `tree.transform`, `tree.regions` | specifications, up to rounding errors |
| `tree.upward` | dense least squares of every subtree, in the tests (oracle) |
| `tree.answer_sums` | sums by numpy, in the tests (specification) |
| `tree.query_wise` | every answer by itself with exact fractions, in the tests (oracle) |
| `tree.off_spine_distance`, `tree.variance` | specifications |
| `tree.sibling_merging`, `tree.regrouping` | specifications, which compute every trial from scratch |
| `subspace.alias`, `subspace.sums` | specifications |
| `subspace.look_ahead` | `subspace.exact.look_ahead_row` (decisions in balls), numpy's transforms |
| `subspace.look_ahead_tables` | numpy's transforms |
| `subspace.transform` | numpy's transforms |
| `subspace.chain`, `subspace.chain_coupled` | specifications |
| `tiles.projection`, `tiles.approach`, `tiles.newton`, `tiles.solver`, `tiles.tables` | PIQP (oracle) |
| `tiles.schur`, `tiles.face`, `tiles.blocks`, `tiles.direction` | dense matrices, in the tests (oracle) |
| `tiles.certificate` | the conditions of optimality in numpy, in the tests (oracle) |
| `tiles.rounding` | HiGHS's solver of linear programs (oracle) |
| `tiles.family`, `tiles.component`, `tiles.chunk` | only through the others |
| `records.*` | specifications |

`family.program`, `family.parts`, `rounding.arrays` and `compiled` compute nothing.
"""
