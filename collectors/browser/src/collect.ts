/** Ask for leave, read what is listed, send it. */

import { type FingerprintResult, recordOf } from "./fingerprintjs";
import { type Observation, observe } from "./records";
import { send } from "./send";
import { type Visitor, visitor } from "./visitor";

export interface Options {
  /** Address of the collector, with the write key: `https://host/v1/observations?key=..`. */
  endpoint: string;
  /** Asked before anything is read or stored; only `true` is a yes. */
  consent: () => boolean | Promise<boolean>;
  /** APIs that the policy lists. */
  apis?: string[];
  /** A result of FingerprintJS, or how to get one; asked for after consent. */
  fingerprintjs?: FingerprintResult | (() => FingerprintResult | Promise<FingerprintResult>);
  /** Components of it that may be sent; all by default. */
  components?: string[];
  /** Days after which the random id of this browser is replaced; 90 by default. */
  days?: number;
}

export interface Outcome {
  /** `sent`, or why nothing was: the visitor's signal, no consent, no storage, not delivered. */
  outcome: "sent" | "gpc" | "consent" | "storage" | "undelivered";
  /** Records that the browser took charge of. */
  records: number;
  /** APIs that cannot be read in a page, or did not answer in time. */
  unread: string[];
}

/** How one API is asked for on behalf of a visitor. */
export type Ask = (api: string, known: Visitor) => Promise<Observation | undefined>;

/** Read the listed APIs and send one record each, if the visitor lets us. */
export async function collect(options: Options, ask: Ask = observe): Promise<Outcome> {
  const unread: string[] = [];
  const end = (outcome: Outcome["outcome"], records = 0): Outcome => ({ outcome, records, unread });
  if ((navigator as any).globalPrivacyControl) return end("gpc");
  if ((await options.consent()) !== true) return end("consent");
  let known: Visitor;
  try {
    known = visitor(options.days ?? 90);
  } catch {
    return end("storage");
  }
  const { user } = known;
  const records: object[] = [];
  for (const api of new Set(options.apis)) {
    const found = await ask(api, known);
    if (found) records.push({ user, ...found });
    else unread.push(api);
  }
  const result = options.fingerprintjs;
  if (result)
    records.push({
      user,
      ...recordOf(typeof result == "function" ? await result() : result, options.components),
    });
  const sent = await send(options.endpoint, records);
  return end(sent < records.length ? "undelivered" : "sent", sent);
}
