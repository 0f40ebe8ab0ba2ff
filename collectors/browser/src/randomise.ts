/** Local differential privacy: the report that leaves the page in place of the value. */

export interface Randomisation {
  /**
   * `grr`, generalised randomised response; `rappor`, `oue`, `blh`, unary encoding with three choices of
   * its probabilities; `lh`, local hashing.
   */
  mechanism: "grr" | "rappor" | "oue" | "blh" | "lh";
  /** LDP level, nats, positive. */
  epsilon: number;
  /** All values; what is not among them counts as the last. */
  values: unknown[];
  /** Number of hashes of `lh`. */
  hash_range?: number;
}

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
export function flawOf({ mechanism, epsilon, values, hash_range: range }: Randomisation): string | undefined {
  if (!isUnary(mechanism) && !["grr", "lh"].includes(mechanism)) return "no such mechanism";
  if (!(epsilon > 0 && epsilon < Infinity) || !(values.length > 1)) return "epsilon above 0, two values or more";
  const isRange = Number.isInteger(range) && range! > 1 && range! <= 2 ** 31;
  if (mechanism == "lh") return isRange ? undefined : "hash_range from 2";
  return range === undefined ? undefined : "hash_range is for lh";
}

/** Whether a report is a bit for each value. */
export function isUnary(mechanism: string): boolean {
  return BITS.has(mechanism);
}

/**
 * Draw the report of a value: one of the values (`grr`), a text of a 0 or 1 each (unary encoding), or a
 * random hash function and a hash, as text (`lh`).
 */
export function randomise(value: unknown, plan: Randomisation): unknown {
  const flaw = flawOf(plan);
  if (flaw) throw new RangeError(`randomise: ${flaw}`);
  const { mechanism, epsilon, values, hash_range: range } = plan;
  const text = JSON.stringify(value);
  const found = values.findIndex((listed) => JSON.stringify(listed) == text);
  const held = found < 0 ? values.length - 1 : found;
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
