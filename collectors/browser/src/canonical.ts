/** Values as the store keeps them: the same text here and there is what makes tokens comparable. */

/** Strings and numbers of a JSON text, also the numbers that JSON does not have. */
const PARTS =
  /("(?:[^"\\]|\\[^])*")|-?(?:Infinity|(?:0|[1-9]\d*)(\.\d+)?([eE][-+]?\d+)?)|NaN/g;
const HALF_A_CHARACTER = /\p{Surrogate}/u;

/** Text of a value that JSON can hold; nothing where the store would refuse the record. */
export function canonicalText(value: unknown): string | undefined {
  if (typeof value == "string")
    return HALF_A_CHARACTER.test(value) ? undefined : (canonicalJson(value) ?? value);
  const text = JSON.stringify(value);
  return typeof value == "object" && value ? canonicalJson(text) : text.replace("e+", "e");
}

/** An object or array with sorted members and no white space; nothing where a text is neither. */
export function canonicalJson(text: string): string | undefined {
  if (!/^[[{]/.test(text)) return undefined;
  try {
    return written(JSON.parse(text.replace(PARTS, marked)));
  } catch {
    return undefined;
  }
}

/** Numbers become texts, since parsing them would lose how they were written. */
function marked(token: string, string?: string, fraction?: string, exponent?: string): string {
  if (string) return `"s${string.slice(1)}`;
  // The store keeps the text of what has 1e400: all numbers that are too large were one value.
  if (!isFinite(+token) && !/^-?\d+$/.test(token)) throw new RangeError("too large");
  if (fraction || exponent) return `"n${pythonFloat(+token)}"`;
  return token == "-0" ? '"n0"' : `"n${token}"`;
}

/** How Python writes a floating-point number. */
function pythonFloat(number: number): string {
  const [digits, exponent] = number.toExponential().split("e") as [string, string];
  if (+exponent < -4 || +exponent > 15)
    return `${digits}e${exponent[0]}${exponent.slice(1).padStart(2, "0")}`;
  const text = Object.is(number, -0) ? "-0" : `${number}`;
  return text.includes(".") ? text : `${text}.0`;
}

function written(value: any): string {
  if (typeof value == "string") return value[0] == "n" ? value.slice(1) : quoted(value.slice(1));
  if (Array.isArray(value)) return `[${value.map(written)}]`;
  if (typeof value != "object" || !value) return `${value}`;
  const names = Object.keys(value).map((name) => name.slice(1)).sort(byCodePoint);
  return `{${names.map((name) => `${quoted(name)}:${written(value[`s${name}`])}`)}}`;
}

function quoted(text: string): string {
  if (HALF_A_CHARACTER.test(text)) throw new RangeError("half of a character");
  return JSON.stringify(text);
}

/** Order of Python; the usual one of JavaScript compares halves of characters. */
export function byCodePoint(one: string, other: string): number {
  const [left, right] = [[...one], [...other]];
  const at = left.findIndex((character, index) => character != right[index]);
  if (at < 0) return left.length - right.length;
  return right.length > at ? left[at]!.codePointAt(0)! - right[at]!.codePointAt(0)! : 1;
}
