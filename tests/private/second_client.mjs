// A client of private collection, written from docs/private-bytes.md alone; HPKE by npm's @hpke/core.
// stdin: {"shuffler": URL, "recipients": {role: URL}, "users": [{api: value}, ...]}
import { createHash, randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { Aes128Gcm, CipherSuite, DhkemX25519HkdfSha256, HkdfSha256 } from "@hpke/core";

const suite = new CipherSuite({
  kem: new DhkemX25519HkdfSha256(), kdf: new HkdfSha256(), aead: new Aes128Gcm(),
});
const { shuffler, recipients, users } = JSON.parse(readFileSync(0, "utf-8"));

const number = (value, width) => {
  const bytes = Buffer.alloc(width);
  bytes.writeUIntBE(value, 0, width);
  return bytes;
};
const framed = (bytes, width) => Buffer.concat([number(bytes.length, width), bytes]);
const ofArray = (bytes) => new Uint8Array(bytes).buffer;

async function received(url, given) {
  const answer = await fetch(url, given);
  const body = Buffer.from(await answer.arrayBuffer());
  if (!answer.ok) throw new Error(`${url}: ${answer.status} ${body}`);
  return body;
}

// The preferred key of a role: the first HpkeConfig of the list.
async function keyOf(url) {
  const list = (await received(`${url}/hpke_config`)).subarray(2);
  const [id, length] = [list[0], list.readUInt16BE(7)];
  const suites = [list.readUInt16BE(1), list.readUInt16BE(3), list.readUInt16BE(5)];
  if (suites.join() !== "32,1,1") throw new Error(`another suite: ${suites}`);
  const bytes = list.subarray(9, 9 + length);
  return { id, publicKey: await suite.kem.deserializePublicKey(ofArray(bytes)) };
}

async function sealed(plaintext, key, role, request) {
  const info = Buffer.concat([
    Buffer.from(`fpmonitor-1 ${role}\0`), request, number(key.id, 1),
  ]);
  const sender = await suite.createSenderContext({
    recipientPublicKey: key.publicKey, info: ofArray(info),
  });
  const payload = Buffer.from(await sender.seal(ofArray(plaintext)));
  return Buffer.concat([number(key.id, 1), framed(Buffer.from(sender.enc), 2), framed(payload, 4)]);
}

function report(place, tokens, length) {
  const told = Buffer.concat([
    randomBytes(16), number(place, 2), number(tokens.length, 1),
    ...tokens.map((token) => framed(Buffer.from(token), 2)),
  ]);
  if (told.length > length) throw new Error("a token is too long for a report");
  return Buffer.concat([told, Buffer.alloc(length - told.length)]);
}

const study = JSON.parse(await received(`${shuffler}/study`));
const [listed] = JSON.parse(await received(`${shuffler}/asks`)).filter((ask) => ask.open);
const content = await received(`${shuffler}/asks/${listed.id}`);
const request = createHash("sha256").update(content).digest().subarray(0, 16);
if (request.toString("hex") !== listed.id) throw new Error("not the request that was named");
const { sets, recipient } = JSON.parse(content);
const keys = { shuffler: await keyOf(shuffler), [recipient]: await keyOf(recipients[recipient]) };
const uploads = [];
for (const user of users) {
  for (const [place, apis] of sets.entries()) {
    const plain = report(place, apis.map((api) => `=${user[api]}`), study.report_bytes);
    const inner = await sealed(plain, keys[recipient], recipient, request);
    uploads.push(request, await sealed(inner, keys.shuffler, "shuffler", request));
  }
}
const answer = await received(`${shuffler}/uploads`, {
  method: "POST", body: Buffer.concat(uploads),
  headers: { "content-type": "application/octet-stream" },
});
process.stdout.write(answer);
