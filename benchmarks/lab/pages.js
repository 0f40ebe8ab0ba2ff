/* Ordinary pages: each does what such a page does, and throws where it could not.
 *
 * They read values, as pages do, but ask of them only that they are of the kind that a page relies on. A page that waits
 * for a callback which never comes is "late".
 */
"use strict";

const must = (holds, what) => { if (!holds) throw Object.assign(new Error(what), { name: what }); };
const picture = (at, width = 40, height = 20) => {
  const canvas = Object.assign(at.document.createElement("canvas"), { width, height });
  const context = canvas.getContext("2d");
  context.fillStyle = "#ff0000";
  context.fillRect(0, 0, width, height);
  return canvas;
};
const blobOf = (canvas, kind) => new Promise((done) => canvas.toBlob(done, kind));
const pages = {
  "music player": async (at) => {
    const context = new (at.AudioContext ?? at.webkitAudioContext)(), gain = context.createGain();
    gain.connect(context.destination);
    must(context.sampleRate > 0, "no sampleRate");
    await context.close();
  },
  "sound effects": async (at) => {
    const context = new at.OfflineAudioContext(1, 100, 44100), tone = context.createOscillator();
    tone.connect(context.destination);
    tone.start();
    must((await context.startRendering()).length === 100, "nothing rendered");
  },
  "equaliser": (at) => {
    const context = new at.AudioContext(), analyser = context.createAnalyser(), found = new Uint8Array(analyser.frequencyBinCount);
    analyser.getByteFrequencyData(found);
    return context.close();
  },
  "video player": (at) => {
    const video = at.document.createElement("video");
    must(/^(|maybe|probably)$/.test(video.canPlayType('video/webm; codecs="vp9"')), "no answer on codecs");
    must(video.canPlayType("video/webm"), "plays nothing");
  },
  "chart that is saved": (at) => must(/^data:image\/png;base64,.{40}/.test(picture(at).toDataURL()), "no picture"),
  "chart that is sent": async (at) => must((await blobOf(picture(at)))?.size > 40, "no file"),
  "photo that is cropped and uploaded": async (at) => {
    const bitmap = await at.createImageBitmap(await blobOf(picture(at)), 5, 5, 10, 10), canvas = picture(at, 10, 10);
    canvas.getContext("2d").drawImage(bitmap, 0, 0);
    const form = new at.FormData();
    form.append("photo", await blobOf(canvas, "image/jpeg"), "photo.jpg");
    must(form.get("photo").size > 40, "nothing to upload");
  },
  "colour picker": (at) => must(picture(at).getContext("2d").getImageData(3, 3, 1, 1).data[0] > 240, "wrong colour"),
  "map": (at) => {
    const ratio = at.devicePixelRatio, canvas = picture(at, 40 * ratio, 40 * ratio);
    must(ratio > 0 && canvas.width >= 20, "no ratio");
    canvas.getContext("2d").scale(ratio, ratio);
  },
  "globe": (at) => {
    const gl = at.document.createElement("canvas").getContext("webgl");
    must(gl, "no WebGL");
    const shader = gl.createShader(gl.FRAGMENT_SHADER);
    gl.shaderSource(shader, "void main() { gl_FragColor = vec4(1); }");
    gl.compileShader(shader);
    must(gl.getShaderParameter(shader, gl.COMPILE_STATUS) && gl.getParameter(gl.MAX_TEXTURE_SIZE) >= 64, "no shader");
    must(gl.getSupportedExtensions() instanceof at.Array, "no list of extensions");
  },
  "game": (at) => {
    for (const pad of at.navigator.getGamepads()) pad?.buttons.length;
    must(typeof at.screen.orientation.type == "string" && at.screen.width > 0, "no screen");
    must(at.performance.now() > 0, "no clock");
  },
  "call": async (at) => {
    const connection = new at.RTCPeerConnection();
    connection.createDataChannel("talk");
    await connection.setLocalDescription(await connection.createOffer());
    must(connection.localDescription.sdp.length > 50, "no offer");
    connection.close();
  },
  "choice of a microphone": async (at) => must(Array.isArray(await at.navigator.mediaDevices.enumerateDevices()), "no list of devices"),
  "text editor": (at) => {
    const keys = /mac/i.test(at.navigator.platform) ? "meta" : "ctrl";
    must(at.navigator.platform.toLowerCase && keys && at.navigator.language.split("-")[0].length > 1, "no platform or language");
    at.document.body.spellcheck = true;
  },
  "shop": (at) => {
    new at.Intl.NumberFormat(at.navigator.language, { style: "currency", currency: "EUR" }).format(3);
    new at.Intl.DateTimeFormat([...at.navigator.languages]).format(new at.Date());
    must(at.navigator.languages.length > 0, "no languages");
  },
  "calendar": (at) => {
    const day = new at.Date(2026, 4, 17, 12);
    must(day.getDate() === 17 && day.getHours() === 12 && Number.isInteger(day.getTimezoneOffset()), "wrong day");
    must(new at.Intl.DateTimeFormat("en").resolvedOptions().timeZone.length > 2, "no time zone");
  },
  "form": (at) => {
    const field = Object.assign(at.document.createElement("input"), { type: "email", value: "nobody" });
    must(!field.checkValidity() && "maxTouchPoints" in at.navigator, "no validation");
    must(at.navigator.userAgent.includes("Mozilla") && at.navigator.vendor.length >= 0, "no user agent");
  },
  "work in the background": async (at) => {
    const count = Math.max(1, at.navigator.hardwareConcurrency);
    must(Number.isInteger(count), "no number of cores");
    const worker = new at.Worker(URL.createObjectURL(new at.Blob(["onmessage = ({ data }) => postMessage(data + 1)"])));
    const found = new Promise((done, failed) => { worker.onmessage = ({ data }) => done(data); worker.onerror = failed; });
    worker.postMessage(1);
    must((await found) === 2, "no worker");
    worker.terminate();
  },
  "reader aloud": (at) => {
    must(at.speechSynthesis.getVoices().filter, "no list of voices");
    new at.SpeechSynthesisUtterance("word");
  },
  "choice of a font": async (at) => {
    must(typeof at.document.fonts.check("12px serif") == "boolean", "no check of fonts");
    await at.document.fonts.load("12px serif");
    must(picture(at).getContext("2d").measureText("word").width > 5, "no width");
  },
  "switch of the colour scheme": (at) => {
    const query = at.matchMedia("(prefers-color-scheme: dark)");
    query.addEventListener("change", () => {});
    must(typeof query.matches == "boolean", "no scheme");
  },
  "layout that follows its box": (at) => new Promise((done) => {
    new at.ResizeObserver(([entry]) => done(entry.contentRect.width)).observe(at.document.body);
  }),
  "page of documents": (at) => {
    for (const plugin of at.navigator.plugins) must(plugin.name, "a plugin without name");
    must(typeof at.navigator.plugins.namedItem == "function" && at.navigator.mimeTypes.length >= 0, "no plugins");
  },
  "store for reading offline": async (at) => must((await at.navigator.storage.estimate()).quota > 0, "no quota"),
  "battery saver": async (at) => { if (at.navigator.getBattery) await at.navigator.getBattery().catch(() => {}); },
};
