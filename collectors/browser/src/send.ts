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

/** Send records, after those that no earlier call could deliver. */
export async function send(address: string, records: object[], known: Visitor): Promise<Delivery> {
  const done: Delivery = { outcome: "sent", records: 0 };
  const before = known.unsent ?? [];
  const unsent: string[] = [];
  for (const body of [...before, ...bodiesOf(records)]) {
    const status = await posted(address, body);
    if (status < 300) done.records += body.split("\n").length - 1;
    else if (status < 500 && status != 429) done.outcome = "refused";
    else unsent.push(body);
  }
  if (unsent[0]) done.outcome = "undelivered";
  const now = stored();
  if ((unsent[0] || before[0]) && now.user == known.user)
    try {
      const others = now.unsent?.filter((body) => !before.includes(body)) ?? [];
      keep({ ...now, unsent: [...others, ...unsent].slice(-WAITING) });
    } catch {} // no room: they are lost, and the outcome says so
  return done;
}

function bodiesOf(records: object[]): string[] {
  const bodies: string[] = [];
  for (const record of records) {
    const line = JSON.stringify(record) + "\n";
    if (bodies[0] && bodies[0].length + line.length <= LIMIT) bodies[0] += line;
    else bodies.unshift(line);
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
