/** One record an API: its value, that it is undefined, or the error that it threw. */

import { NOTHING, readerOf } from "./readers";

export interface Observation {
  api: string;
  status: "value" | "undefined" | "error";
  value?: unknown;
}

const PATIENCE = 2000; // milliseconds that an API may take to answer
const LARGE = 256; // bytes; above it the store keeps digest and length only

/** Read one API; nothing where it cannot be read here, or does not answer in time. */
export async function observe(api: string): Promise<Observation | undefined> {
  const read = readerOf(api);
  try {
    const late = new Promise((resolve) => setTimeout(resolve, PATIENCE, NOTHING));
    const value = read ? await Promise.race([read(), late]) : NOTHING;
    if (value === NOTHING) return undefined;
    if (value === undefined) return isPlain() ? undefined : { api, status: "undefined" };
    return { api, status: "value", value: await shortened(plain(value)) };
  } catch (error) {
    if (isPlain()) return undefined;
    return { api, status: "error", value: `${(error as Error).message || error}` };
  }
}

/** Whether browsers hide part of their APIs from this page, as it came without encryption. */
function isPlain(): boolean {
  return (window as any).isSecureContext === false;
}

/** What JSON can hold: lists and simple objects stay, other objects become their kind. */
function plain(value: any): unknown {
  if (Array.isArray(value)) return value.map(plain);
  if (typeof value == "number" && !isFinite(value)) return `${value}`;
  if (typeof value != "object" || !value) return value;
  if (value.constructor != Object) return `${value}`;
  const members: Record<string, unknown> = {};
  for (const key of Object.keys(value).sort()) members[key] = plain(value[key]);
  return members;
}

/** A large value leaves the page as the store keeps it: digest and length in characters. */
export async function shortened(value: unknown): Promise<unknown> {
  const text = typeof value == "string" ? value : JSON.stringify(value);
  const bytes = new TextEncoder().encode(text);
  if (bytes.length <= LARGE || !crypto.subtle) return value;
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes), 0, 16);
  return `sha256:${hexadecimal(digest)}:${[...text].length}`;
}

/** A name for a content that may be large: 32 digits of the SHA-256 of its JSON. */
export async function digestOf(content: unknown): Promise<string> {
  const text = new TextEncoder().encode(JSON.stringify(content));
  return hexadecimal(new Uint8Array(await crypto.subtle.digest("SHA-256", text), 0, 16));
}

/** A name of 32 digits that nobody guesses. */
export function randomName(): string {
  return hexadecimal(crypto.getRandomValues(new Uint8Array(16)));
}

export function hexadecimal(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => (256 + byte).toString(16).slice(1)).join("");
}
