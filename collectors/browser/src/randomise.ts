/** Local differential privacy: the report that leaves the page in place of the value. */

export interface Randomisation {
  /**
   * `grr`, generalised randomised response; `rappor`, `oue`, `blh`, unary encoding with three choices of
   * its probabilities; `lh`, local hashing; `matrix`, any stochastic matrix.
   */
  mechanism: "grr" | "rappor" | "oue" | "blh" | "lh" | "matrix";
  /** LDP level, nats, positive; of a matrix the one that it has, null where that is infinite. */
  epsilon: number | null;
  /** All values; what is not among them counts as the last. */
  values: unknown[];
  /** Number of hashes of `lh`. */
  hash_range?: number;
  /** A row for each report, in it the probability for each value, in whole numbers of 2^-52. */
  matrix?: number[][];
}

const MATRIX_TOTAL = 2 ** 52;
export const MAX_MATRIX_CELLS = 65_536;

/** Probabilities of a 1 in unary encoding: for the own value, for any other. */
const BITS = new Map<string, (epsilon: number) => [number, number]>([
  ["rappor", (epsilon) => [1 / (1 + Math.exp(-epsilon / 2)), 1 / (1 + Math.exp(epsilon / 2))]],
  ["oue", (epsilon) => [0.5, 1 / (1 + Math.exp(epsilon))]],
  ["blh", (epsilon) => [1 / (1 + Math.exp(-epsilon)), 0.5]],
]);

/** Uniform on [0, 1), from the generator that cannot be predicted. */
export function uniform(): number {
  const [high, low] = crypto.getRandomValues(new Uint32Array(2));
  return (high! * 2 ** 21 + (low! >>> 11)) / 2 ** 53;
}

/** What is wrong with a randomisation, or nothing. */
export function flawOf(plan: Randomisation): string | undefined {
  const { mechanism, epsilon, values, hash_range: range, matrix } = plan;
  if (mechanism == "matrix")
    return matrix && range === undefined && isLaw(matrix, values.length, epsilon) ? undefined : "no such matrix";
  if (matrix !== undefined || (!isUnary(mechanism) && !["grr", "lh"].includes(mechanism)))
    return "no such mechanism";
  if (!(epsilon! > 0 && epsilon! < Infinity) || !(values.length > 1)) return "epsilon above 0, two values or more";
  const isRange = Number.isInteger(range) && range! > 1 && range! <= 2 ** 31;
  if (mechanism == "lh") return isRange ? undefined : "hash_range from 2";
  return range === undefined ? undefined : "hash_range is for lh";
}

/** Whether the columns of a matrix are laws of reports, with this LDP level; below 2^53 all sums are exact. */
function isLaw(matrix: number[][], values: number, epsilon: number | null): boolean {
  if (!(values > 1 && matrix.length && matrix.length * values <= MAX_MATRIX_CELLS)) return false;
  const totals = new Array(values).fill(0);
  let level = 0;
  for (const row of matrix) {
    if (row.length != values || !row.every((cell) => Number.isInteger(cell) && cell >= 0)) return false;
    row.forEach((cell, value) => (totals[value] += cell));
    const [least, most] = [Math.min(...row), Math.max(...row)];
    if (most) level = Math.max(level, Math.log(most / least));
  }
  const told = epsilon === null ? Infinity : epsilon;
  return totals.every((total) => total == MATRIX_TOTAL) && (told == level || Math.abs(told - level) <= 1e-9);
}

/** Whether a report is a bit for each value. */
export function isUnary(mechanism: string): boolean {
  return BITS.has(mechanism);
}

/**
 * Draw the report of a value: one of the values (`grr`), a text of a 0 or 1 each (unary encoding), or a
 * random hash function and a hash, as text (`lh`), or the number of a row, as text (`matrix`).
 */
export function randomise(value: unknown, plan: Randomisation): unknown {
  const flaw = flawOf(plan);
  if (flaw) throw new RangeError(`randomise: ${flaw}`);
  const { mechanism, values, hash_range: range, matrix } = plan;
  const epsilon = plan.epsilon!;
  const text = JSON.stringify(value);
  const found = values.findIndex((listed) => JSON.stringify(listed) == text);
  const held = found < 0 ? values.length - 1 : found;
  if (matrix) return `${row(matrix, held)}`;
  if (isUnary(mechanism)) {
    const [own, other] = BITS.get(mechanism)!(epsilon);
    return values.map((_, index) => +(uniform() < (index == held ? own : other))).join("");
  }
  if (range) {
    const [seed] = crypto.getRandomValues(new BigUint64Array(1));
    return `${seed!.toString(16).padStart(16, "0")}.${response(hash(seed!, held, range), range, epsilon)}`;
  }
  return values[response(held, values.length, epsilon)];
}

/** Draw a report by the whole numbers of a column: no rounding, no rejection. */
function row(matrix: number[][], held: number): number {
  const drawn = Math.floor(uniform() * MATRIX_TOTAL);
  let reached = 0;
  return matrix.findIndex((cells) => drawn < (reached += cells[held]!));
}

/** Randomised response on the numbers below `size`. */
function response(held: number, size: number, epsilon: number): number {
  if (uniform() < 1 / (1 + (size - 1) * Math.exp(-epsilon))) return held;
  const other = Math.floor(uniform() * (size - 1));
  return other + +(other >= held);
}

/** Finaliser of SplitMix64, as fpmonitor hashes when it estimates. */
function hash(seed: bigint, code: number, range: number): number {
  const word = (number: bigint) => BigInt.asUintN(64, number);
  let mixed = word(seed + BigInt(code + 1) * 0x9e3779b97f4a7c15n);
  mixed = word((mixed ^ (mixed >> 30n)) * 0xbf58476d1ce4e5b9n);
  mixed = word((mixed ^ (mixed >> 27n)) * 0x94d049bb133111ebn);
  return Number((mixed ^ (mixed >> 31n)) % BigInt(range));
}
