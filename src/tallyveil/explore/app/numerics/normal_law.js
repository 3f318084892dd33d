/**
 * The normal law: its distribution function and its quantiles, to about 15 digits.
 *
 * Source: rational approximations of the Cephes library (S. L. Moshier, `ndtr.c` and `ndtri.c`), which scipy uses too.
 */

const ERFC_TOP = [
  2.46196981473530512524e-10, 5.64189564831068821977e-1, 7.46321056442269912687, 4.86371970985681366614e1,
  1.96520832956077098242e2, 5.26445194995477358631e2, 9.3452852717195760754e2, 1.02755188689515710272e3,
  5.57535335369399327526e2,
];
const ERFC_BOTTOM = [
  1, 1.32281951154744992508e1, 8.67072140885989742329e1, 3.54937778887819891062e2, 9.75708501743205489753e2,
  1.82390916687909736289e3, 2.24633760818710981792e3, 1.65666309194161350182e3, 5.57535340817727675546e2,
];
const FAR_TOP = [
  5.64189583547755073984e-1, 1.27536670759978104416, 5.01905042251180477414, 6.16021097993053585195,
  7.4097426995044893916, 2.9788666537210024067,
];
const FAR_BOTTOM = [
  1, 2.2605286322011727659, 9.39603524938001434673, 1.20489539808096656605e1, 1.70814450747565897222e1,
  9.60896809063285878198, 3.3690764510008151605,
];
const ERF_TOP = [
  9.60497373987051638749, 9.00260197203842689217e1, 2.23200534594684319226e3, 7.00332514112805075473e3,
  5.55923013010394962768e4,
];
const ERF_BOTTOM = [
  1, 3.35617141647503099647e1, 5.21357949780152679795e2, 4.59432382970980127987e3, 2.26290000613890934246e4,
  4.92673942608635921086e4,
];

/**
 * @param {number[]} coefficients Highest power first.
 * @param {number} x
 */
function polynomial(coefficients, x) {
  return coefficients.reduce((sum, coefficient) => sum * x + coefficient, 0);
}

/** @param {number} x */
function erf(x) {
  const square = x * x;
  return (x * polynomial(ERF_TOP, square)) / polynomial(ERF_BOTTOM, square);
}

/**
 * The complement of the error function, for x of at least 1.
 * @param {number} x
 */
function erfcFar(x) {
  const [top, bottom] = x < 8 ? [ERFC_TOP, ERFC_BOTTOM] : [FAR_TOP, FAR_BOTTOM];
  return (Math.exp(-x * x) * polynomial(top, x)) / polynomial(bottom, x);
}

/**
 * The probability that a standard normal variable is at most x.
 * @param {number} x
 * @returns {number}
 */
export function normalProbability(x) {
  const scaled = x * Math.SQRT1_2;
  const size = Math.abs(scaled);
  if (size < 1) return 0.5 + 0.5 * erf(scaled);
  const tail = 0.5 * erfcFar(size);
  return x > 0 ? 1 - tail : tail;
}

const ROOT_TWO_PI = 2.50662827463100050242;
const TAIL = 0.13533528323661269189; // exp(-2)
const MIDDLE_TOP = [
  -5.99633501014107895267e1, 9.80010754185999661536e1, -5.66762857469070293439e1, 1.39312609387279679503e1,
  -1.23916583867381258016,
];
const MIDDLE_BOTTOM = [
  1, 1.95448858338141759834, 4.67627912898881538453, 8.63602421390890590575e1, -2.25462687854119370527e2,
  2.00260212380060660359e2, -8.20372256168333339912e1, 1.59056225126211695515e1, -1.1833162112133000879,
];
const NEAR_TAIL_TOP = [
  4.05544892305962419923, 3.15251094599893866154e1, 5.71628192246421288162e1, 4.408050738932008347e1,
  1.46849561928858024014e1, 2.18663306850790267539, -1.40256079171354495875e-1, -3.50424626827848203418e-2,
  -8.57456785154685413611e-4,
];
const NEAR_TAIL_BOTTOM = [
  1, 1.57799883256466749731e1, 4.53907635128879210584e1, 4.1317203825467203044e1, 1.50425385692907503408e1,
  2.50464946208309415979, -1.42182922854787788574e-1, -3.80806407691578277194e-2, -9.33259480895457427372e-4,
];
const FAR_TAIL_TOP = [
  3.2377489177694603597, 6.91522889068984211695, 3.93881025292474443415, 1.33303460815807542389,
  2.01485389549179081538e-1, 1.23716634817820021358e-2, 3.01581553508235416007e-4, 2.65806974686737550832e-6,
  6.2397453918498329373e-9,
];
const FAR_TAIL_BOTTOM = [
  1, 6.02427039364742014255, 3.67983563856160859403, 1.37702099489081330271, 2.1623699359449663589e-1,
  1.34204006088543189037e-2, 3.28014464682127739104e-4, 2.89247864745380683936e-6, 6.79019408009981274425e-9,
];

/**
 * The number that a standard normal variable stays below with a given probability.
 * @param {number} probability Between 0 and 1.
 * @returns {number}
 */
export function normalQuantile(probability) {
  const upper = probability > 1 - TAIL;
  const lower = upper ? 1 - probability : probability;
  if (lower > TAIL) {
    const y = lower - 0.5;
    const square = y * y;
    const moved = (square * polynomial(MIDDLE_TOP, square)) / polynomial(MIDDLE_BOTTOM, square);
    return (y + y * moved) * ROOT_TWO_PI;
  }
  const x = Math.sqrt(-2 * Math.log(lower));
  const z = 1 / x;
  const [top, bottom] = x < 8 ? [NEAR_TAIL_TOP, NEAR_TAIL_BOTTOM] : [FAR_TAIL_TOP, FAR_TAIL_BOTTOM];
  const size = x - Math.log(x) / x - (z * polynomial(top, z)) / polynomial(bottom, z);
  return upper ? size : -size;
}
