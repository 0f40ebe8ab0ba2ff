/** Answers to an ask, sealed for the recipient and then for the shuffler (RFC 9180, base mode). */

import { Aes128Gcm, CipherSuite, DhkemX25519HkdfSha256, HkdfSha256 } from "@hpke/core";
import { type Admission, type Refusal, admitted } from "./admission";
import { uniform } from "./randomise";
import { hexadecimal } from "./records";
import { type Terms, termsOf } from "./terms";
import { answer } from "./tokens";
import { keep, visitor } from "./visitor";
import { type PublicKey, encodeFrame, encodeReport, joined, preferredKey } from "./wire";

export interface SealOptions extends Admission {
  /** Address of the shuffler: `https://shuffler.example`. */
  to: string;
  /** Text of the file of the study, and of the ask; their ids hang on each character. */
  study: string;
  ask: string;
  /** Published keys of the shuffler and of the recipient: text of the file, or a list of keys as bytes or in base64. */
  shufflerKeys: string | ArrayBuffer;
  recipientKeys: string | ArrayBuffer;
}

export interface Outcome {
  /**
   * `sent`: the shuffler has everything; `refused`: it took some for good, and no others; `answered`: the ask
   * was answered before; `exceeded`: the analyst was shown as many sets as the study allows;
   * `undelivered`: the next call sends the rest; `unsupported`: this browser has no X25519 or
   * Ed25519; or why nothing was done.
   */
  outcome: "sent" | "refused" | "answered" | "exceeded" | "undelivered" | "unsupported" | Refusal;
  /** Messages that the shuffler keeps. */
  uploads: number;
  /** APIs that cannot be read in a page, or did not answer in time: `absent`. */
  unread: string[];
}

interface Key {
  id: number;
  recipientPublicKey: CryptoKey;
}

interface Keys {
  shuffler: Key;
  recipient: Key;
}

const BODY_BYTES = 60_000; // browsers let 65,536 outlive their page
const suite = new CipherSuite({
  kem: new DhkemX25519HkdfSha256(),
  kdf: new HkdfSha256(),
  aead: new Aes128Gcm(),
});

/** Answer an ask, once in the life of the visitor's id; throws where the ask breaks the study. */
export async function seal(options: SealOptions): Promise<Outcome> {
  const end = (outcome: Outcome["outcome"]): Outcome => ({ outcome, uploads: 0, unread: [] });
  if (!crypto.subtle) return end("unsupported");
  let terms: Terms;
  try {
    terms = await termsOf(options.study, options.ask);
  } catch (error) {
    if ((error as Error).name == "NotSupportedError") return end("unsupported");
    throw error;
  }
  const shuffler = preferredKey(keysOf(options.shufflerKeys, "shuffler"));
  const recipient = preferredKey(keysOf(options.recipientKeys, terms.recipient));
  let keys: Keys;
  try {
    keys = { shuffler: await imported(shuffler), recipient: await imported(recipient) };
  } catch {
    return end("unsupported");
  }
  const known = await admitted(options);
  if (typeof known == "string") return end(known);
  // Another tab of the site must not answer the same ask at the same time.
  return navigator.locks.request("fpmonitor", () => answered(terms, keys, options));
}

async function answered(terms: Terms, keys: Keys, { to, days }: SealOptions): Promise<Outcome> {
  const known = visitor(days ?? 90);
  const asks = (known.answered ??= {});
  const id = hexadecimal(terms.askId);
  const done: Outcome = { outcome: "sent", uploads: 0, unread: [] };
  let waiting = asks[id];
  if (!waiting) {
    if (terms.recipient == "analyst") {
      const released = ((known.released ??= {})[`${hexadecimal(terms.studyId)} ${terms.epoch}`] ??= []);
      if (released.length >= terms.releases) return { ...done, outcome: "exceeded" };
      released.push(id);
    }
    const { tokens, unread } = await answer(terms, known);
    done.unread = unread;
    waiting = asks[id] = shuffled(await sealed(terms, keys, tokens)).map(toBase64);
    try {
      keep(known);
    } catch {
      return { ...done, outcome: "storage" };
    }
  } else if (!waiting.length) return { ...done, outcome: "answered" };
  while (waiting.length) {
    const body = nextBody(waiting);
    const kept = await delivered(`${to.replace(/\/$/, "")}/uploads`, joined(...body));
    if (kept === undefined) return { ...done, outcome: "undelivered" };
    if (kept < body.length) done.outcome = "refused";
    done.uploads += kept;
    waiting.splice(0, body.length);
    keep(known);
  }
  return done;
}

/** One upload for each set: the ask, and the frame for the shuffler with the one for the recipient in it. */
function sealed(terms: Terms, keys: Keys, tokens: string[][]): Promise<Uint8Array[]> {
  const { askId, recipient, reportBytes } = terms;
  return Promise.all(
    tokens.map(async (held, set) => {
      const report = encodeReport(set, held, reportBytes);
      const inner = await sealedFor(recipient, keys.recipient, askId, report);
      return joined(askId, await sealedFor("shuffler", keys.shuffler, askId, inner));
    }),
  );
}

async function sealedFor(role: string, key: Key, ask: Uint8Array, plaintext: Uint8Array): Promise<Uint8Array> {
  const info = joined(new TextEncoder().encode(`fpmonitor-1 ${role}\0`), ask, [key.id]);
  const { recipientPublicKey } = key;
  const { enc, ct } = await suite.seal({ recipientPublicKey, info }, plaintext);
  return encodeFrame({ key: key.id, encapsulated: new Uint8Array(enc), payload: new Uint8Array(ct) });
}

async function imported({ id, bytes }: PublicKey): Promise<Key> {
  return { id, recipientPublicKey: await suite.kem.deserializePublicKey(bytes) };
}

/** In an order that says nothing of the sets. */
function shuffled<Entry>(entries: Entry[]): Entry[] {
  for (let last = entries.length - 1; last > 0; last--) {
    const chosen = Math.floor(uniform() * (last + 1));
    [entries[last], entries[chosen]] = [entries[chosen]!, entries[last]!];
  }
  return entries;
}

/** The first of the uploads that go together; one at least. */
function nextBody(waiting: string[]): Uint8Array[] {
  const body: Uint8Array[] = [];
  let size = 0;
  for (const upload of waiting) {
    const bytes = fromBase64(upload);
    size += bytes.length;
    if (body.length && size > BODY_BYTES) break;
    body.push(bytes);
  }
  return body;
}

/** How many uploads of the body the shuffler keeps; nothing where it did not say so. */
async function delivered(address: string, body: BodyInit, keepalive = true): Promise<number | undefined> {
  let response: Response;
  try {
    response = await fetch(address, {
      method: "POST",
      body,
      keepalive,
      credentials: "omit",
      referrerPolicy: "no-referrer",
    });
  } catch {
    // Browsers limit what may outlive a page, some over several requests.
    return keepalive ? delivered(address, body, false) : undefined;
  }
  const receipt = response.ok && (await response.json().catch(() => undefined));
  return receipt ? receipt.accepted + (receipt.refused.replayed ?? 0) : undefined;
}

/** The list of keys in what was published: the file of a role, or the list itself. */
function keysOf(published: string | ArrayBuffer, role: string): Uint8Array {
  if (typeof published != "string") return new Uint8Array(published);
  if (!published.startsWith("{")) return fromBase64(published);
  const file = JSON.parse(published);
  if (file.role != role) throw new RangeError(`seal: keys of the ${file.role}, not of the ${role}`);
  return fromBase64(file.configs);
}

function fromBase64(text: string): Uint8Array {
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
}

function toBase64(bytes: Uint8Array): string {
  return btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
}
