/* Calls the readers from everywhere that a page reaches, and reports { reader@place: text }.
 *
 * `wanted` (put before this by the server) is null for all of them, or the names of those to call.
 * A reader that fails tells the name of its error; one that does not come back tells "late". How long that is waited
 * for follows the load of the machine (`slowness`, 1 where no other process wants the cores), as late counts as open.
 */
const report = {};
const only = wanted && new Set(wanted);
const asked = (place) => !only || [...only].some((key) => key.endsWith(`@${place}`));
const asText = (value) => {
  const text = ArrayBuffer.isView(value) ? `#${digest(value)}`
    : typeof value == "object" ? JSON.stringify(value) ?? "undefined" : String(value);
  return text.length > 40 ? `#${digest(text)}` : text;
};
const note = async (key, read, patience = 2500) => {
  if (only && !only.has(key)) return;
  let timer;
  const limit = new Promise((done) => { timer = setTimeout(done, patience * slowness, "late"); });
  try {
    report[key] = asText(await Promise.race([Promise.resolve(read()), limit]));
  } catch (error) {
    report[key] = `!${error?.name ?? typeof error}`;
  } finally {
    clearTimeout(timer);
  }
};
const noteAll = (all, place, ...given) =>
  Promise.all(Object.entries(all).map(([name, read]) => note(`${name}@${place}`, () => read(...given))));
// One after the other: those that draw or lay out disturb each other least, and break off late ones.
const noteEach = async (all, place, ...given) => {
  for (const [name, read] of Object.entries(all)) await note(`${name}@${place}`, () => read(...given), 1500);
};
const inPage = typeof document !== "undefined";
// `give` returns a window, anew for each reading of a frame: a script of a list may come too late for it.
// Frames that are read go (`leave`): with hundreds left, a reading took half as much processor again (18.9 s, now 12.6).
const readWindow = async (give, place, leave = () => {}) => {
  if (!asked(place)) return;
  const whole = { ...readers, ...windowReaders, ...mediaReaders };
  await Promise.all(Object.entries(whole).map(([name, read]) => {
    let at;
    return note(`${name}@${place}`, () => read((at = give()), direct)).then(() => at && report[`${name}@${place}`] !== "late" && leave(at));
  }));
  await noteEach(canvasReaders(self, () => sized(give().document.createElement("canvas"))), place);
};
const readFrames = (place) => readWindow(() => frame().contentWindow, place, (at) => at.frameElement?.remove());
const frame = (prepare = () => {}) => {
  const element = document.createElement("iframe");
  prepare(element);
  document.body.append(element);
  return element;
};
const answer = (target, ask = () => {}) => new Promise((done, failed) => {
  target.onmessage = ({ data }) => done(data);
  target.onerror = failed;
  ask();
  setTimeout(failed, 12000 * slowness);
});
const address = `${home}/readers.js?${turn}`;
// Frames of documents that have no address of their own tell by a message what they read.
const framed = (place, prepare) => new Promise((done, failed) => {
  addEventListener("message", ({ data }) => data?.place === place && done(data.report));
  frame((element) => prepare(element, `<!doctype html><body><script>self.labPlace = ${JSON.stringify(place)}</script><script src="${address}"></script>`));
  setTimeout(failed, 15000 * slowness);
});
const worklet = async () => {
  const context = new OfflineAudioContext(1, 128, 44100);
  await context.audioWorklet.addModule(address);
  const node = new AudioWorkletNode(context, "lab");
  return answer(node.port);
};
const others = {
  "a frame of a data: address": () => framed("a frame of a data: address", (element, text) => { element.src = `data:text/html,${encodeURIComponent(text)}`; }),
  "a frame of a blob": () => framed("a frame of a blob", (element, text) => { element.src = URL.createObjectURL(new Blob([text], { type: "text/html" })); }),
  "a frame of srcdoc": () => framed("a frame of srcdoc", (element, text) => { element.srcdoc = text; }),
  "a sandboxed frame": () => framed("a sandboxed frame", (element, text) => { element.sandbox = "allow-scripts"; element.srcdoc = text; }),
  "a worker": () => answer(new Worker(address)),
  "a worker of a blob": () => answer(new Worker(URL.createObjectURL(new Blob([`importScripts(${JSON.stringify(address)})`])))),
  "a worker of a data: address": () => answer(new Worker(`data:text/javascript,importScripts(${JSON.stringify(address)})`)),
  "a worker of a worker": () => answer(new Worker(address, { name: "outer" })),
  "a shared worker": () => answer(new SharedWorker(address).port),
  "a service worker": async () => {
    const registration = await navigator.serviceWorker.register(address);
    while (!registration.active) await pause(50);
    const { active } = registration, { port1, port2 } = new MessageChannel();
    try { return await answer(port1, () => active.postMessage("", [port2])); } finally { registration.unregister(); }
  },
  "an audio worklet": worklet,
};
const readAll = async () => {
  if (only && asked("an ordinary page"))
    for (const [name, run] of Object.entries(pages))
      await note(`${name}@an ordinary page`, async () => { await run(self); return "works"; }, 3000);
  await readFrames("a frame that is made");
  await noteAll({ ...readers, ...windowReaders, ...mediaReaders }, "the page", self, direct);
  await noteEach(canvasReaders(self, () => sized(document.createElement("canvas"))), "the page");
  await noteAll({ ...readers }, "getters of prototypes", self, byPrototype);
  await noteEach(styleReaders, "a style sheet", self);
  await noteEach(cleaned(self), "the page");
  await noteEach(everyTag(self), "the page", self);
  await noteAll(everyMember(self), "the page");
  await noteEach(compositions(self, seed, 120), "the page");
  await readFrames("a frame that is made later");
  await noteEach(asked("an OffscreenCanvas") ? canvasReaders(self, () => new OffscreenCanvas(60, 20)) : {}, "an OffscreenCanvas");
  await noteEach(asked("a canvas that is handed over")
    ? canvasReaders(self, () => sized(document.createElement("canvas")).transferControlToOffscreen()) : {}, "a canvas that is handed over");
  if (asked("a window that is opened")) {
    const opened = open("about:blank");
    if (opened) await readWindow(() => opened, "a window that is opened");
    opened?.close();
  }
  await Promise.all(Object.entries(others).map(async ([place, told]) => {
    if (!asked(place)) return;
    try {
      const given = await Promise.race([told(), pause(25000 * slowness).then(() => ({}))]);
      for (const [key, text] of Object.entries(given)) report[`${key.split("@")[0]}@${place}`] = text;
    } catch { /* no such frames or workers here */ }
  }));
  for (const [place, way] of Object.entries(self.ways ?? {})) {
    if (!asked(place)) continue;
    const given = await Promise.race([(async () => way())(), pause(2500 * slowness)]).catch(() => {});
    for (const [name, value] of Object.entries(given ?? {})) if (value !== undefined) report[`${name}@${place}`] = asText(value);
  }
  return report;
};

if (typeof registerProcessor == "function") {
  for (const [name, read] of Object.entries(readers))
    try {
      const value = read(globalThis, direct);
      if (typeof value != "object") report[`${name}@an audio worklet`] = String(value);
    } catch { /* not here */ }
  registerProcessor("lab", class extends AudioWorkletProcessor {
    constructor() { super(); this.port.postMessage(report); }
    process() { return false; }
  });
} else if (self.labPlace)
  readWindow(() => self, self.labPlace).then(() => parent.postMessage({ place: self.labPlace, report }, "*"));
else if (self.name === "outer") answer(new Worker(address)).then((found) => postMessage(found));
else if (!inPage) {
  only?.forEach((key) => only.add(`${key.split("@")[0]}@a worker`));
  const all = noteAll(readers, "a worker", self, direct)
    .then(() => self.OffscreenCanvas && noteEach(canvasReaders(self, () => new OffscreenCanvas(60, 20)), "a worker"))
    .then(() => noteAll(everyMember(self), "a worker"));
  const tell = (page) => all.then(() => page.postMessage(report));
  if ("onconnect" in self) self.onconnect = ({ ports }) => tell(ports[0]);
  else if ("clients" in self) self.onmessage = (event) => event.waitUntil(tell(event.ports[0]));
  else tell(self);
}
