/* Reads every API that has a control by every way that this browser has.
 *
 * Loaded by a page as /ways.js, it reports { API: { way: value } }; as a worker it answers with the
 * same for itself. A way that fails or finds nothing reports no value.
 */
"use strict";

// ---- By the object, or by the getters and methods of its prototype

const direct = {
  get: (_, object, __, member) => object[member],
  call: (_, object, __, member, ...values) => object[member](...values),
};
const byPrototype = {
  get: (global, object, type, member) =>
    Object.getOwnPropertyDescriptor(global[type].prototype, member).get.call(object),
  call: (global, object, type, member, ...values) =>
    global[type].prototype[member].call(object, ...values),
};

// ---- Objects, from the global object of a window, a frame or a worker

const objects = {
  Navigator: (global) => global.navigator,
  Screen: (global) => global.screen,
  ScreenOrientation: (global, how) => how.get(global, global.screen, "Screen", "orientation"),
};
for (const [type, member] of [
  ["GPU", "gpu"], ["HID", "hid"], ["Keyboard", "keyboard"],
  ["MediaCapabilities", "mediaCapabilities"], ["MediaDevices", "mediaDevices"],
  ["NavigatorUAData", "userAgentData"], ["NetworkInformation", "connection"],
  ["Serial", "serial"], ["StorageManager", "storage"], ["USB", "usb"],
]) {
  objects[type] = (global, how) => {
    const types = global.Navigator ? "Navigator" : "WorkerNavigator";
    return how.get(global, global.navigator, types, member);
  };
}

const attributes = {
  Navigator: [
    "appVersion", "buildID", "deviceMemory", "doNotTrack", "globalPrivacyControl",
    "hardwareConcurrency", "language", "languages", "maxTouchPoints", "oscpu", "pdfViewerEnabled",
    "platform", "userAgent",
  ],
  NavigatorUAData: ["brands", "mobile", "platform"],
  NetworkInformation: ["downlink", "effectiveType", "rtt", "saveData", "type"],
  Screen: [
    "availHeight", "availLeft", "availTop", "availWidth", "colorDepth", "height", "pixelDepth",
    "width",
  ],
  ScreenOrientation: ["angle", "type"],
};
const windowAttributes = [
  "devicePixelRatio", "innerHeight", "innerWidth", "outerHeight", "outerWidth", "screenLeft",
  "screenTop", "screenX", "screenY",
];

// Two readings of the same connection differ.
const jittery = new Set(["NetworkInformation.downlink", "NetworkInformation.rtt"]);

// API -> (global, how) => value, without canvases, which have ways of their own.
const readers = {};
for (const [type, members] of Object.entries(attributes))
  for (const member of members)
    readers[`${type}.${member}`] = (global, how) => {
      const value = how.get(global, objects[type](global, how), type, member);
      return jittery.has(`${type}.${member}`) ? typeof value : value;
    };
const called = (type, member, values, show) => (global, how) =>
  Promise.resolve(how.call(global, objects[type](global, how), type, member, ...values)).then(show);
const names = (list) => [...list].map((entry) => entry.name ?? entry.type);
Object.assign(readers, {
  "Date.getTimezoneOffset": (global, how) =>
    how.call(global, new global.Date(2026, 0, 1), "Date", "getTimezoneOffset"),
  "Date.getHours": (global, how) => how.call(global, new global.Date(0), "Date", "getHours"),
  "Temporal.Now.timeZoneId": (global) => global.Temporal.Now.timeZoneId(),
  "FontFaceSet.check": (global, how) =>
    how.call(global, (global.document ?? global).fonts, "FontFaceSet", "check", '12px "Nonesuch"'),
  "PressureObserver.observe": (global) =>
    new global.PressureObserver(() => {}).observe("cpu").then(() => "observed"),
  "IdleDetector.start": (global) => global.IdleDetector && new global.IdleDetector().start()
    .then(() => "started"),
  "GPU.requestAdapter": called("GPU", "requestAdapter", [], (found) => found && "adapter"),
  "HID.getDevices": called("HID", "getDevices", [], (found) => found.length),
  "Intl.DateTimeFormat.formatToParts#timeZoneName": (global) =>
    new global.Intl.DateTimeFormat("en", { timeZoneName: "long" }).formatToParts()
      .find((part) => part.type === "timeZoneName").value,
  "Intl.DateTimeFormat.resolvedOptions#timeZone": (global) =>
    new global.Intl.DateTimeFormat().resolvedOptions().timeZone,
  "Keyboard.getLayoutMap": called("Keyboard", "getLayoutMap", [], () => "map"),
  "MediaCapabilities.decodingInfo": called("MediaCapabilities", "decodingInfo", [{
    type: "file",
    video: {
      contentType: "video/webm; codecs=vp9", width: 800, height: 600, bitrate: 1e5, framerate: 30,
    },
  }], (found) => [found.supported, found.smooth, found.powerEfficient]),
  "MediaDevices.enumerateDevices":
    called("MediaDevices", "enumerateDevices", [], (found) => found.map((device) => device.kind)),
  "Navigator.getBattery": called("Navigator", "getBattery", [], (found) => found.charging),
  "Navigator.getGamepads": called("Navigator", "getGamepads", [], (found) => found.length),
  "Navigator.requestMIDIAccess": called("Navigator", "requestMIDIAccess", [], () => "access"),
  "Serial.getPorts": called("Serial", "getPorts", [], (found) => found.length),
  // What a page has stored already is counted in, some kilobytes.
  "StorageManager.estimate":
    called("StorageManager", "estimate", [], (found) => Math.round(found.quota / 2 ** 30)),
  "USB.getDevices": called("USB", "getDevices", [], (found) => found.length),
  "VideoDecoder.isConfigSupported": (global) =>
    global.VideoDecoder.isConfigSupported({ codec: "vp8" }).then((found) => found.supported),
});
for (const hint of [
  "architecture", "bitness", "formFactors", "fullVersionList", "model", "platformVersion",
  "uaFullVersion", "wow64",
])
  readers[`NavigatorUAData.getHighEntropyValues#${hint}`] =
    called("NavigatorUAData", "getHighEntropyValues", [[hint]], (found) => found[hint]);
for (const name of ["tan", "sinh", "expm1", "cosh"])
  readers[`Math.${name}`] = (global) => global.Math[name](1e0 / 3);

const windowReaders = {
  "HTMLMediaElement.canPlayType": (global, how) =>
    how.call(global, global.document.createElement("video"), "HTMLMediaElement", "canPlayType",
      'video/webm; codecs="vp9"'),
  "Navigator.mimeTypes": (global, how) =>
    names(how.get(global, global.navigator, "Navigator", "mimeTypes")),
  "Navigator.plugins": (global, how) =>
    names(how.get(global, global.navigator, "Navigator", "plugins")),
  "Document.lastModified": ({ document }) =>  // in quarters of an hour
    Math.round((Date.parse(`${document.lastModified} UTC`) - Date.now()) / 9e5),
  "HTMLImageElement.currentSrc": async ({ document }) => {
    const image = document.createElement("img");
    image.srcset = [0.5, 1, 1.25, 1.5, 2, 3].map((dots) => `/${dots} ${dots}x`).join();
    document.body.append(image);
    while (!image.currentSrc) await new Promise((done) => setTimeout(done, 5));
    image.remove();
    return new URL(image.currentSrc).pathname;
  },
  "RTCPeerConnection.createOffer": (global) => offer(global.RTCPeerConnection),
  "SpeechSynthesis.getVoices": (global, how) => names(
    how.call(global, global.speechSynthesis, "SpeechSynthesis", "getVoices")).length,
  "Window.getScreenDetails": (global) =>
    global.getScreenDetails().then((found) => found.screens.length),
  "Window.queryLocalFonts": (global) => global.queryLocalFonts().then((found) => found.length),
};
const offer = (Connection) => new Connection().createOffer({ offerToReceiveAudio: true })
  .then((found) => found.sdp.length > 0);
for (const name of windowAttributes) windowReaders[`Window.${name}`] = (global) => global[name];

const audio = {
  "AudioContext.baseLatency": (Context) => closed(Context, (context) => context.baseLatency),
  "AudioContext.outputLatency": (Context) => closed(Context, (context) => context.outputLatency),
  "AudioDestinationNode.maxChannelCount":
    (Context) => closed(Context, (context) => context.destination.maxChannelCount),
  "BaseAudioContext.sampleRate": (Context) => closed(Context, (context) => context.sampleRate),
};
const closed = (Context, read) => {
  const context = new Context();
  try { return read(context); } finally { context.close(); }
};
const rendered = async (Context, read) => {
  const context = new Context(1, 5000, 44100);
  const oscillator = context.createOscillator();
  oscillator.connect(context.destination);
  oscillator.start();
  const buffer = await new Promise((done, failed) => {
    context.oncomplete = (event) => done(event.renderedBuffer);
    context.startRendering()?.catch(failed);
  });
  return read(buffer);
};
const samples = (buffer) => digest(buffer.getChannelData(0).slice(0, 200).join());

// ---- Canvases

const digest = (text) => {
  let sum = 0;
  for (const character of String(text)) sum = (Math.imul(sum, 31) + character.charCodeAt(0)) | 0;
  return sum;
};
const drawn = (canvas) => {
  const context = canvas.getContext("2d");
  const fill = context.createLinearGradient(0, 0, 60, 0);
  fill.addColorStop(0, "red");
  fill.addColorStop(1, "blue");
  context.fillStyle = fill;
  context.fillRect(3, 2, 50, 15);
  context.font = "12px serif";
  context.fillText("Cwm fjord", 4, 14);
  return canvas;
};
const pixels = (context) => digest(context.getImageData(0, 0, 60, 20).data);
const bytes = async (blob) => digest(new Uint8Array(await blob.arrayBuffer()));
const unmasked = (gl, parameter) => {
  gl.getExtension("WEBGL_debug_renderer_info");
  return gl.getParameter(parameter);
};
const graphics = {
  "getContextAttributes": (gl) => gl.getContextAttributes() && "attributes",
  "getExtension": (gl) => gl.getExtension("WEBGL_lose_context") && "extension",
  "getParameter": (gl) => gl.getParameter(gl.MAX_TEXTURE_SIZE),
  "getParameter#RENDERER": (gl) => gl.getParameter(gl.RENDERER),
  "getParameter#UNMASKED_RENDERER_WEBGL": (gl) => unmasked(gl, 0x9246),
  "getParameter#UNMASKED_VENDOR_WEBGL": (gl) => unmasked(gl, 0x9245),
  "getShaderPrecisionFormat":
    (gl) => gl.getShaderPrecisionFormat(gl.VERTEX_SHADER, gl.HIGH_FLOAT).precision,
  "getSupportedExtensions": (gl) => gl.getSupportedExtensions().length,
  "readPixels": (gl) => {
    gl.clearColor(0.3, 0.6, 0.9, 1);
    gl.clear(gl.COLOR_BUFFER_BIT);
    const found = new Uint8Array(4);
    gl.readPixels(0, 0, 1, 1, gl.RGBA, gl.UNSIGNED_BYTE, found);
    return String(found);
  },
};

// ---- Media features

const features = {
  "any-hover": ["none", "hover"], "any-pointer": ["none", "coarse", "fine"],
  "color-gamut": ["rec2020", "p3", "srgb"], "hover": ["none", "hover"],
  "inverted-colors": ["none", "inverted"], "pointer": ["none", "coarse", "fine"],
  "prefers-color-scheme": ["light", "dark"],
  "prefers-contrast": ["no-preference", "more", "less", "custom"],
  "prefers-reduced-motion": ["no-preference", "reduce"],
  "prefers-reduced-transparency": ["no-preference", "reduce"],
  "video-dynamic-range": ["standard", "high"],
  "device-width": Array.from({ length: 2600 }, (_, size) => `${size}px`),
  "device-height": Array.from({ length: 1700 }, (_, size) => `${size}px`),
  "resolution": [0.5, 1, 1.25, 1.5, 2, 3].map((dots) => `${dots}dppx`),
  "color": [1, 4, 5, 6, 8, 10, 12], "monochrome": [0, 1, 8],
};
const byStyle = (feature, values) => {
  const style = document.createElement("style");
  style.textContent = values.map((value, rank) =>
    `@media (${feature}: ${value}) { :root { --found: "${rank}"; } }`).join("\n");
  document.head.append(style);
  const rank = getComputedStyle(document.documentElement).getPropertyValue("--found");
  style.remove();
  return rank && values[JSON.parse(rank)];
};
const systemColour = () => {
  const element = document.createElement("i");
  element.style.color = "Highlight";
  document.body.append(element);
  const found = getComputedStyle(element).color;
  element.remove();
  return found;
};

// ---- All of it

const report = {};
const note = async (api, way, read) => {
  let timer;
  const limit = new Promise((_, failed) => { timer = setTimeout(failed, 1500, "late"); });
  try {
    const value = await Promise.race([read(), limit]);
    if (value !== undefined && value !== null) (report[api] ??= {})[way] = value;
  } catch { /* closed */ } finally { clearTimeout(timer); }
};
const canvasesOf = (way, canvas) => {
  const notes = [];
  for (const [version, type] of [["webgl", "WebGL"], ["webgl2", "WebGL2"]])
    for (const [name, read] of Object.entries(graphics))
      notes.push(note(`${type}RenderingContext.${name}`, way, () => {
        const context = canvas().getContext(version);
        try { return read(context); } finally {
          context.getExtension("WEBGL_lose_context")?.loseContext();
        }
      }));
  notes.push(note("CanvasRenderingContext2D.getImageData", way,
    () => pixels(drawn(canvas()).getContext("2d"))));
  notes.push(note("VideoFrame.copyTo", way, async () => {
    const image = new VideoFrame(drawn(canvas()), { timestamp: 0 });
    const found = new Uint8Array(image.allocationSize());
    await image.copyTo(found);
    image.close();
    return digest(found);
  }));
  if (way !== "window" && !way.endsWith("iframe"))
    notes.push(note("OffscreenCanvas.convertToBlob", way === "offscreen" ? "window" : way,
      () => drawn(canvas()).convertToBlob().then(bytes)));
  return Promise.all(notes);
};
const sized = (canvas) => Object.assign(canvas, { width: 60, height: 20 });

// `global` gives a window, anew for each reading of a frame. All readings begin at once: whether a
// script that is injected into frames comes too late depends on the moment, so that two are tried.
const readGlobal = (global, way, how) => {
  const all = typeof document === "undefined" ? readers : { ...readers, ...windowReaders };
  return Promise.all(Object.entries(all).map(
    ([api, read]) => note(api, way, () => read(global(), how))));
};
const readWindow = (global, way) => {
  const canvas = () => sized(global().document.createElement("canvas"));
  const sound = () => rendered(global().OfflineAudioContext, samples);
  return Promise.all([
    readGlobal(global, way, direct),
    ...Object.entries(audio).map(
      ([api, read]) => note(api, way, () => read(global().AudioContext))),
    note("OfflineAudioContext.startRendering", way, sound),
    note("AudioBuffer.getChannelData", way, sound),
    canvasesOf(way, canvas),
    note("HTMLCanvasElement.toDataURL", way, () => digest(drawn(canvas()).toDataURL())),
    note("HTMLCanvasElement.toBlob", way,
      () => new Promise((done) => drawn(canvas()).toBlob(done)).then(bytes)),
  ]);
};
const frame = () => {
  const element = document.createElement("iframe");
  document.body.append(element);
  return element.contentWindow;
};
const answer = (target, ask = () => {}) => new Promise((done, failed) => {
  target.onmessage = (event) => done(event.data);
  target.onerror = failed;
  ask();
  setTimeout(failed, 8000);
});
const fromData = () => new Promise((done, failed) => {
  addEventListener("message", (event) => done(event.data), { once: true });
  const element = document.createElement("iframe");
  element.src = `data:text/html,<body><script src="${location.origin}/ways.js"></script>`;
  document.body.append(element);
  setTimeout(failed, 8000);
});
const workers = {
  "data-frame": fromData,
  "nested-worker": () => answer(new Worker("/ways.js", { name: "outer" })),
  "worker": () => answer(new Worker("/ways.js")),
  "shared-worker": () => answer(new SharedWorker("/ways.js").port),
  "service-worker": async () => {
    await navigator.serviceWorker.register("/ways.js");
    const { active } = await navigator.serviceWorker.ready;
    const { port1, port2 } = new MessageChannel();
    return answer(port1, () => active.postMessage("", [port2]));
  },
};

const readAll = async () => {
  await readWindow(frame, "iframe");
  await readWindow(() => window, "window");
  await readGlobal(() => window, "getter", byPrototype);
  await new Promise((done) => setTimeout(done, 100));
  await readWindow(frame, "later-iframe");
  await canvasesOf("offscreen", () => new OffscreenCanvas(60, 20));
  await canvasesOf("transfer",
    () => sized(document.createElement("canvas")).transferControlToOffscreen());
  await note("RTCPeerConnection.createOffer", "alias", () => offer(webkitRTCPeerConnection));
  for (const [api, read] of Object.entries(audio)) await note(api, "alias", () => read(webkitAudioContext));
  await note("OfflineAudioContext.startRendering", "alias",
    () => rendered(webkitOfflineAudioContext, samples));
  for (const [feature, values] of Object.entries(features)) {
    await note(`css:${feature}`, "window",
      () => values.find((value) => matchMedia(`(${feature}: ${value})`).matches));
    await note(`css:${feature}`, "css", () => byStyle(feature, values) || undefined);
  }
  await note("css:system-color", "css", systemColour);
  const popup = open("about:blank");
  if (popup) await readWindow(() => popup, "popup");
  popup?.close();
  await Promise.all(Object.entries(workers).map(async ([way, told]) => {
    try {
      for (const [api, ways] of Object.entries(await told()))
        (report[api] ??= {})[way] = ways.worker;
    } catch { /* no such workers here */ }
  }));
  return report;
};

if (location.protocol === "data:")
  readWindow(() => window, "worker").then(() => parent.postMessage(report, "*"));
else if (self.name === "outer")
  answer(new Worker("/ways.js")).then((found) => postMessage(found));
else if (typeof document === "undefined") {
  const all = readGlobal(() => self, "worker", direct)
    .then(() => canvasesOf("worker", () => new OffscreenCanvas(60, 20)));
  const tell = (page) => all.then(() => page.postMessage(report));
  if ("onconnect" in self) self.onconnect = (event) => tell(event.ports[0]);
  else if ("clients" in self) self.onmessage = (event) => event.waitUntil(tell(event.ports[0]));
  else tell(self);
}
