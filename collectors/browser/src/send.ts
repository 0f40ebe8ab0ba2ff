/** Delivery of records as lines of JSON, also while the page goes away. */

import { type Visitor, keep, stored } from "./visitor";

const LIMIT = 20_000; // characters, at most 60,000 bytes; browsers let 65,536 outlive their page
const WAITING = 5; // bodies that are kept for the next call

export interface Delivery {
  /** `refused`: the service said no for good; `undelivered`: the next call sends the rest. */
  outcome: "sent" | "refused" | "undelivered";
  /** Records that the service took. */
  records: number;
}

/** Send records, with those that no earlier call could deliver. */
export async function send(address: string, records: object[], known: Visitor): Promise<Delivery> {
  const done: Delivery = { outcome: "sent", records: 0 };
  const unsent: string[] = [];
  let waiting: string[] = [];
  // Taken out before they are sent: their page may go before the answer, or another tab have them.
  if (known.unsent?.[0]) change(known, (kept) => ((waiting = kept), []));
  for (const body of bodiesOf([...waiting, ...records.map((one) => JSON.stringify(one) + "\n")])) {
    const status = await posted(address, body);
    if (status < 300) done.records += body.split("\n").length - 1;
    else if (status < 500 && status != 429) done.outcome = "refused";
    else unsent.push(body);
  }
  if (unsent[0]) {
    done.outcome = "undelivered";
    try {
      change(known, (kept) => [...kept, ...unsent].slice(-WAITING));
    } catch {} // no room: they are lost, and the outcome says so
  }
  return done;
}

/** Change what waits, unless the visitor was forgotten. */
function change(known: Visitor, to: (kept: string[]) => string[]): void {
  const now = stored();
  if (now.user == known.user) keep({ ...now, unsent: to(now.unsent ?? []) });
}

function bodiesOf(parts: string[]): string[] {
  const bodies: string[] = [];
  for (const part of parts) {
    if (bodies[0] && bodies[0].length + part.length <= LIMIT) bodies[0] += part;
    else bodies.unshift(part);
  }
  return bodies.reverse();
}

/** Give the status of the answer, or 599 where there is none: offline, blocked, no leave to read it. */
function posted(address: string, body: string): Promise<number> {
  return fetch(address, {
    method: "POST",
    body,
    keepalive: body.length <= LIMIT,
    credentials: "omit",
  }).then(
    (answer) => answer.status,
    () => 599,
  );
}
