/** The bytes that travel: frames and key configurations of the Distributed Aggregation Protocol. */

export interface PublicKey {
  id: number;
  bytes: Uint8Array;
}

export interface Frame {
  key: number;
  encapsulated: Uint8Array;
  payload: Uint8Array;
}

// DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, AES-128-GCM of RFC 9180.
const SUITE = "32,1,1";

export function joined(...parts: ArrayLike<number>[]): Uint8Array<ArrayBuffer> {
  const whole = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

function number(value: number, size: number): number[] {
  return Array.from({ length: size }, (_, index) => (value >>> (8 * (size - 1 - index))) & 255);
}

/** `HpkeCiphertext`. */
export function encodeFrame({ key, encapsulated, payload }: Frame): Uint8Array {
  return joined([key], number(encapsulated.length, 2), encapsulated, number(payload.length, 4), payload);
}

/** The report that the recipient finds, filled with zeros up to the length. */
export function encodeReport(set: number, tokens: string[], length: number): Uint8Array {
  const texts = tokens.map((token) => new TextEncoder().encode(token));
  const body = joined(
    crypto.getRandomValues(new Uint8Array(16)),
    number(set, 2),
    [tokens.length],
    ...texts.flatMap((text) => [number(text.length, 2), text]),
  );
  const report = new Uint8Array(length);
  report.set(body);
  return report;
}

/** First key of an `HpkeConfigList` that is for our algorithms. */
export function preferredKey(list: Uint8Array): PublicKey {
  const view = new DataView(list.buffer, list.byteOffset, list.byteLength);
  const end = 2 + view.getUint16(0);
  if (end != list.length) throw new RangeError("seal: no list of keys");
  for (let at = 2; at < end; ) {
    const suite = [1, 3, 5].map((place) => view.getUint16(at + place));
    const start = at + 9;
    const stop = start + view.getUint16(at + 7);
    if (`${suite}` == SUITE && stop == start + 32 && stop <= end)
      return { id: list[at]!, bytes: list.slice(start, stop) };
    at = stop;
  }
  throw new RangeError("seal: no key for X25519, HKDF-SHA256 and AES-128-GCM");
}
