/** Ask for leave, read what is listed, send it. */

import { type Admission, type Refusal, admitted } from "./admission";
import { type FingerprintResult, recordOf } from "./fingerprintjs";
import { type Observation, observe, randomName } from "./records";
import { type Delivery, send } from "./send";
import { type Visitor, sessionOf } from "./visitor";

export interface Options extends Admission {
  /** Address of the collector, with the write key: `https://host/v1/observations?key=..`. */
  endpoint: string;
  /** APIs that the policy lists. */
  apis?: string[];
  /** A result of FingerprintJS, or how to get one; asked for after consent. */
  fingerprintjs?: FingerprintResult | (() => FingerprintResult | Promise<FingerprintResult>);
  /** Components of it that may be sent; all by default. */
  components?: string[];
}

export interface Outcome {
  /** What became of the records, or why there are none. */
  outcome: Delivery["outcome"] | Refusal;
  /** Records that the service took, those of earlier calls included. */
  records: number;
  /** APIs that cannot be read in a page, or did not answer in time. */
  unread: string[];
}

/** How one API is asked for on behalf of a visitor. */
export type Ask = (api: string, known: Visitor) => Promise<Observation | undefined>;

/** Read the listed APIs and send one record each, if the visitor lets us. */
export async function collect(options: Options, ask: Ask = observe): Promise<Outcome> {
  const unread: string[] = [];
  const known = await admitted(options);
  if (typeof known == "string") return { outcome: known, records: 0, unread };
  let session: string;
  try {
    session = sessionOf(known);
  } catch {
    return { outcome: "storage", records: 0, unread };
  }
  // Of one call: a service that is told of it again, as its answer was lost, keeps nothing twice.
  const visit = { user: known.user, visit_id: randomName(), session_id: session };
  const records: object[] = [];
  for (const api of new Set(options.apis)) {
    const found = await ask(api, known);
    if (found) records.push(found);
    else unread.push(api);
  }
  const result = options.fingerprintjs;
  if (result)
    records.push(recordOf(typeof result == "function" ? await result() : result, options.components));
  const lines = records.map((record) => ({ ...visit, ...record }));
  return { ...(await send(options.endpoint, lines, known)), unread };
}
