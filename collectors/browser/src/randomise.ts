/** Local differential privacy: the report that leaves the page in place of the value. */

export interface Randomisation {
  /** `grr`, generalised randomised response, or `oue`, optimised unary encoding. */
  mechanism: "grr" | "oue";
  /** LDP level, nats, positive. */
  epsilon: number;
  /** All values; what is not among them counts as the last. */
  values: unknown[];
}

/** Uniform on [0, 1), from the generator that cannot be predicted. */
function uniform(): number {
  const [high, low] = crypto.getRandomValues(new Uint32Array(2));
  return (high! * 2 ** 21 + (low! >>> 11)) / 2 ** 53;
}

/** Draw the report of a value: one of the values (`grr`), or a text of a 0 or 1 each (`oue`). */
export function randomise(value: unknown, { mechanism, epsilon, values }: Randomisation): unknown {
  const size = values.length;
  if (!(epsilon > 0) || size < 2 || !["grr", "oue"].includes(mechanism))
    throw new RangeError("randomise: mechanism grr or oue, epsilon above 0, two values or more");
  const text = JSON.stringify(value);
  const found = values.findIndex((listed) => JSON.stringify(listed) == text);
  const held = found < 0 ? size - 1 : found;
  if (mechanism == "oue")
    return values.map((_, index) => +(uniform() < (index == held ? 0.5 : 1 / (1 + Math.exp(epsilon))))).join("");
  if (uniform() < 1 / (1 + (size - 1) * Math.exp(-epsilon))) return values[held];
  const other = Math.floor(uniform() * (size - 1));
  return values[other + +(other >= held)];
}
