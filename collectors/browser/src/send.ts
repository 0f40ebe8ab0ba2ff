/** Delivery of records as lines of JSON, also while the page goes away. */

const LIMIT = 20_000; // characters, at most 60,000 bytes; browsers refuse beacons above 65,536

/** Send records; gives how many the browser took charge of. */
export async function send(address: string, records: object[]): Promise<number> {
  let sent = 0;
  let body = "";
  let waiting = 0;
  for (const record of [...records, ""]) {
    const line = record && JSON.stringify(record) + "\n";
    if (waiting && (!line || body.length + line.length > LIMIT)) {
      if (await delivered(address, body)) sent += waiting;
      body = "";
      waiting = 0;
    }
    body += line;
    waiting++;
  }
  return sent;
}

async function delivered(address: string, body: string): Promise<boolean> {
  if (navigator.sendBeacon?.(address, body)) return true;
  return fetch(address, {
    method: "POST",
    body,
    keepalive: body.length <= LIMIT,
    credentials: "omit",
  }).then(
    (answer) => answer.ok,
    () => false,
  );
}
