// What a browser shows at the recommended levels of a decision: show("screen", [1366, 768]).
// Values are those of the APIs of the component, in their order. `check` compares with what
// fpmonitor counted as shown, and returns what differs.
const OTHER = "other", BELOW = "below ", FINEST = 30, SCALE = 10n ** 40n, LARGE = 256;
const NUMBER = /^(-?)([0-9]{1,21})(?:\.([0-9]{1,30}))?(?:e([+-]?[0-9]{1,2}))?$/;

// Whole number of 10^-40, or null. What is below a number is just below it.
function read(text) {
  const below = text.startsWith(BELOW);
  const found = NUMBER.exec(below ? text.slice(BELOW.length) : text);
  if (!found) return null;
  const [, sign, whole, part = "", exponent = "0"] = found;
  const digits = BigInt(whole + part), places = Number(exponent) - part.length;
  if (digits !== 0n && String(digits).length + places > 21) return null;
  if (places < -FINEST) return null;
  if (digits === 0n && places >= 21) return null;
  const number = places < 0 ? digits * SCALE / 10n ** BigInt(-places) : digits * SCALE * 10n ** BigInt(places);
  return (sign ? -number : number) - (below ? 1n : 0n);
}

function written(number) {
  const digits = String(number < 0n ? -number : number).padStart(41, "0");
  const part = digits.slice(-40).replace(/0+$/, "");
  return (number < 0n ? "-" : "") + digits.slice(0, -40) + (part && `.${part}`);
}

function down(number, step) {
  const beyond = number % step;
  return number - beyond - (beyond < 0n ? step : 0n);
}

function coarser(map, text, place) {
  if (new TextEncoder().encode(text).length > LARGE) return OTHER;
  if (map.constant !== undefined) text = map.constant;
  else {
    if (map.major) text = text.replace(/([0-9]+)(?:[._][0-9]+)+/g, "$1");
    if (map.lower) text = text.toLowerCase();
  }
  if (map.step) {
    const number = read(text);
    text = number === null ? OTHER : written(down(number, read(map.step[place])));
  }
  if (map.edges) {
    const number = read(text);
    const reached = map.edges.filter((edge) => number !== null && read(edge) <= number);
    text = number === null ? OTHER : reached.at(-1) ?? BELOW + map.edges[0];
  }
  if (map.regex !== undefined) text = new RegExp(map.regex, "su").exec(text)?.[0] ?? OTHER;
  return !map.top || map.top.includes(text) ? text : OTHER;
}

function fitting(sizes, texts) {
  const numbers = texts.map(read);
  const fits = (size) => size.every((side, place) => numbers[place] !== null && read(side) <= numbers[place]);
  return sizes.find(fits) ?? texts.map(() => OTHER);
}

// What is no value (undefined, null, a symbol) stays what it is.
function text(value) {
  if (typeof value === "string") return value;
  if (typeof value === "object" && value !== null) return JSON.stringify(value);
  return ["number", "boolean", "bigint"].includes(typeof value) ? String(value) : null;
}

export function show(name, values) {
  const component = LEVELS.find((each) => each.name === name);
  if (!component) throw new RangeError(`unknown component ${JSON.stringify(name)}`);
  if (!component.maps) return values.map(() => undefined);
  let texts = values.map(text);
  for (const map of component.maps) {
    texts = texts.map((each, place) => (each === null ? null : coarser(map, each, place)));
    if (map.sizes && !texts.includes(null)) texts = fitting(map.sizes, texts);
  }
  return component.maps.length ? texts.map((each, place) => each ?? values[place]) : values;
}

export function check() {
  return TESTS.filter(([name, values, shown]) => {
    const seen = show(name, values);
    return seen.length !== shown.length || seen.some((each, place) => each !== shown[place]);
  });
}

export const LEVELS = /* levels of the decision */ null;
export const TESTS = /* what fpmonitor shows */ null;
