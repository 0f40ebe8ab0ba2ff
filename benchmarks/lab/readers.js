/* Readers: each tells a page something of the browser, and none knows of any list.
 *
 * A reader is one line: its name, and a function of a global object (a window, a frame's or a worker's)
 * that returns a value or a promise of one. One that is named like an API of the vocabulary reads that
 * API; any other name says in words how something is read. `how` reads members of objects, either
 * directly or by the getters of prototypes. `places.js` calls them from everywhere a page reaches.
 */
"use strict";

/* Beginnings of the names of readers that tell what was styled, laid out or drawn, or what was loaded for that: a width, a
 * computed style, the pixels of a canvas. No script answers in place of a browser there, it would have to lay out itself.
 * A reader that is not listed reads what an API answers. */
const laidOut = [
  "CanvasRenderingContext2D.getImageData", "CanvasRenderingContext2D.measureText", "Element.getBoundingClientRect",
  "Element.getClientRects", "HTMLCanvasElement.toBlob", "HTMLCanvasElement.toDataURL", "HTMLElement.offsetWidth",
  "HTMLImageElement.currentSrc", "HTMLImageElement.naturalWidth", "OffscreenCanvas.convertToBlob",
  "OffscreenCanvasRenderingContext2D.getImageData", "OffscreenCanvasRenderingContext2D.measureText",
  "PaintWorkletGlobalScope.devicePixelRatio", "Range.getBoundingClientRect", "Range.getClientRects",
  "SVGTextContentElement.getComputedTextLength", "VideoFrame.copyTo", "VisualViewport.", "WebGL2RenderingContext.readPixels",
  "WebGLRenderingContext.readPixels", "Window.inner", "a border of ", "a canvas by ", "a canvas, ", "a jpeg of ", "a rule between ", "a style sheet with ",
  "a triangle of ", "a webp of ", "all styles of ", "an outline of ", "found: ", "pixels that ", "the address of a canvas ",
  "the colour of ", "the colours of ", "the scheme of an image ", "the source of a picture ", "the style sheet that ",
  "the fonts of the system", "the height of ", "the image of a set ", "the place of a text ", "the quotes of ", "the size of <",
  "the size of a formula", "the size of a page", "the size of a pictogram", "the size of an embedded ", "the size of units ", "the width of "
];

// ---- Objects and their members

const direct = {
  get: (_, object, __, member) => object[member],
  call: (_, object, __, member, ...values) => object[member](...values),
};
const byPrototype = {
  get: (at, object, type, member) => Object.getOwnPropertyDescriptor(at[type].prototype, member).get.call(object),
  call: (at, object, type, member, ...values) => at[type].prototype[member].call(object, ...values),
};
const objects = {
  Navigator: (at) => at.navigator,
  Screen: (at) => at.screen,
  ScreenOrientation: (at, how) => how.get(at, at.screen, "Screen", "orientation"),
};
for (const [type, member] of [
  ["GPU", "gpu"], ["HID", "hid"], ["Keyboard", "keyboard"], ["MediaCapabilities", "mediaCapabilities"],
  ["MediaDevices", "mediaDevices"], ["NavigatorUAData", "userAgentData"], ["NetworkInformation", "connection"],
  ["Serial", "serial"], ["StorageManager", "storage"], ["USB", "usb"],
])
  objects[type] = (at, how) => how.get(at, at.navigator, at.Navigator ? "Navigator" : "WorkerNavigator", member);

const attributes = {
  Navigator: [
    "appVersion", "buildID", "deviceMemory", "doNotTrack", "globalPrivacyControl", "hardwareConcurrency", "language",
    "languages", "maxTouchPoints", "oscpu", "pdfViewerEnabled", "platform", "productSub", "userAgent", "vendor",
  ],
  NavigatorUAData: ["brands", "mobile", "platform"],
  NetworkInformation: ["downlink", "downlinkMax", "effectiveType", "rtt", "saveData", "type"],
  Screen: ["availHeight", "availLeft", "availTop", "availWidth", "colorDepth", "height", "pixelDepth", "width"],
  ScreenOrientation: ["angle", "type"],
};
const coarse = { // two readings of a connection differ: whether it is slow does not
  "NetworkInformation.downlink": (megabits) => megabits < 0.25,
  "NetworkInformation.rtt": (milliseconds) => milliseconds > 900,
};
const readers = {}; // in every global
for (const [type, members] of Object.entries(attributes))
  for (const member of members)
    readers[`${type}.${member}`] = (at, how) => {
      const value = how.get(at, objects[type](at, how), type, member);
      return coarse[`${type}.${member}`]?.(value) ?? value;
    };
const called = (type, member, values, show) => (at, how) =>
  Promise.resolve(how.call(at, objects[type](at, how), type, member, ...values)).then(show);
const names = (list) => [...list].map((entry) => entry.name ?? entry.type);
const pause = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));
const digest = (parts) => {
  let sum = 2166136261;
  for (const part of typeof parts == "string" ? new TextEncoder().encode(parts) : parts)
    sum = Math.imul(sum ^ part, 16777619) >>> 0;
  return sum;
};

// ---- Time, languages, hardware: in windows and workers

const date = (at) => new at.Date(2026, 0, 1);
Object.assign(readers, {
  "Date.getTimezoneOffset": (at, how) => how.call(at, date(at), "Date", "getTimezoneOffset"),
  "Date.getHours": (at, how) => how.call(at, new at.Date(0), "Date", "getHours"),
  "Date.toString": (at, how) => how.call(at, new at.Date(0), "Date", "toString"),
  "the moment that a local date is": (at) => date(at).getTime(),
  "the moment that a local date is parsed as": (at) => at.Date.parse("2026-07-01T00:00"),
  "the moment of a date that is set to midnight": (at) => new at.Date(1e12).setHours(0, 0, 0, 0),
  "the local text of a date": (at) => new at.Date(1e12).toLocaleString("en", { timeZoneName: "long" }),
  "the local year of thousand days": (at) => {
    const day = new at.Date(0), found = [];
    for (let month = 0; month < 600; month += 5) found.push((day.setTime(month * 2.63e9), day.getTimezoneOffset()));
    return found;
  },
  "Temporal.Now.timeZoneId": (at) => at.Temporal.Now.timeZoneId(),
  "the offset that Temporal gives": (at) => at.Temporal.Now.zonedDateTimeISO().offset,
  "Intl.DateTimeFormat.resolvedOptions#timeZone": (at) => new at.Intl.DateTimeFormat().resolvedOptions().timeZone,
  "Intl.DateTimeFormat.formatToParts#timeZoneName": (at) =>
    new at.Intl.DateTimeFormat("en", { timeZoneName: "long" }).formatToParts().find(({ type }) => type === "timeZoneName").value,
  "Intl.DateTimeFormat.resolvedOptions#locale": (at) => new at.Intl.DateTimeFormat().resolvedOptions().locale,
  "Intl.NumberFormat.resolvedOptions#locale": (at) => new at.Intl.NumberFormat().resolvedOptions().locale,
  "Intl.Collator.resolvedOptions#locale": (at) => new at.Intl.Collator().resolvedOptions().locale,
  "Intl.PluralRules.resolvedOptions#locale": (at) => new at.Intl.PluralRules().resolvedOptions().locale,
  "Intl.ListFormat.resolvedOptions#locale": (at) => new at.Intl.ListFormat().resolvedOptions().locale,
  "Intl.RelativeTimeFormat.resolvedOptions#locale": (at) => new at.Intl.RelativeTimeFormat().resolvedOptions().locale,
  "Intl.DisplayNames.resolvedOptions#locale": (at) =>
    new at.Intl.DisplayNames(undefined, { type: "region" }).resolvedOptions().locale,
  "the local text of a number": (at) => (12345.5).toLocaleString() + new at.Intl.NumberFormat().format(12345.5),
  "the local name of a country": (at) => new at.Intl.DisplayNames(undefined, { type: "region" }).of("US"),
  "the local order of letters": () => ["z", "ä", "a", "ö"].sort((one, other) => one.localeCompare(other)),
  "a range of local time": (at) => new at.Intl.DateTimeFormat("en", { timeStyle: "long" }).formatRange(0, 9e6),
  "the local text of a list": (at) => new at.Intl.ListFormat().format(["a", "b"]),
  "FontFaceSet.check": (at, how) =>
    fontsTried.map((font) => how.call(at, (at.document ?? at).fonts, "FontFaceSet", "check", `12px "${font}"`)),
  "FontFace.load": (at) => Promise.all(fontsTried.map(async (font) => {
    const face = new at.FontFace("tried", `local("${font}")`), found = await face.load().then(() => 1, () => 0);
    return [found, await face.loaded.then(() => 1, () => 0), face.status];
  })),
  "PressureObserver.observe": (at) => new at.PressureObserver(() => {}).observe("cpu").then(() => "observed"),
  "IdleDetector.start": (at) => at.IdleDetector && new at.IdleDetector().start().then(() => "started"),
  "GPU.requestAdapter": called("GPU", "requestAdapter", [], (found) => found && "adapter"),
  "GPUAdapter.info": called("GPU", "requestAdapter", [], ({ info }) => [info.vendor, info.architecture, info.device, info.description]),
  "GPUAdapter.limits": called("GPU", "requestAdapter", [], ({ limits }) => {
    const found = {};
    for (const name in limits) found[name] = limits[name];
    return found;
  }),
  "HID.getDevices": called("HID", "getDevices", [], (found) => found.length),
  "Keyboard.getLayoutMap": called("Keyboard", "getLayoutMap", [], (found) => [...found]),
  "MediaCapabilities.decodingInfo": called("MediaCapabilities", "decodingInfo", [{
    type: "file", video: { contentType: "video/webm; codecs=vp9", width: 800, height: 600, bitrate: 1e5, framerate: 30 },
  }], (found) => [found.supported, found.smooth, found.powerEfficient]),
  "what MediaCapabilities says of AV1": called("MediaCapabilities", "decodingInfo", [{
    type: "file", video: { contentType: 'video/mp4; codecs="av01.0.05M.08"', width: 800, height: 600, bitrate: 1e5, framerate: 30 },
  }], (found) => [found.supported, found.smooth, found.powerEfficient]),
  "MediaDevices.enumerateDevices": called("MediaDevices", "enumerateDevices", [], (found) => found.map(({ kind }) => kind)),
  "Navigator.getBattery": called("Navigator", "getBattery", [], (found) => [found.charging, found.level]),
  "Navigator.getGamepads": called("Navigator", "getGamepads", [], (found) => found.length),
  "Navigator.requestMIDIAccess": called("Navigator", "requestMIDIAccess", [], () => "access"),
  "Serial.getPorts": called("Serial", "getPorts", [], (found) => found.length),
  // What a page has stored already is counted in, some kilobytes.
  "StorageManager.estimate": called("StorageManager", "estimate", [], (found) => Math.round(found.quota / 2 ** 26)),
  "USB.getDevices": called("USB", "getDevices", [], (found) => found.length),
  "VideoDecoder.isConfigSupported": (at) => at.VideoDecoder.isConfigSupported({ codec: "vp8" }).then(({ supported }) => supported),
  "AudioDecoder.isConfigSupported": (at) =>
    at.AudioDecoder.isConfigSupported({ codec: "mp3", sampleRate: 44100, numberOfChannels: 2 }).then(({ supported }) => supported),
  "what VideoDecoder says of AV1": (at) => at.VideoDecoder.isConfigSupported({ codec: "av01.0.05M.08" }).then(({ supported }) => supported),
  "Performance.now": (at) => { // its smallest step
    let step = 9;
    for (let turn = 0; turn < 60; turn++) {
      const start = at.performance.now();
      let end = start;
      while (end === start) end = at.performance.now();
      step = Math.min(step, end - start);
    }
    return step > 0.5 ? Math.round(step) : step > 0.05 ? 0.1 : "fine";
  },
  "a number that is raised to a power": () => [2 ** 0.1, Math.exp(1.5), Math.pow(Math.PI, -100)],
  "the text of an error": () => {
    try { null.member; } catch (error) { return error.message; }
  },
  "the depth of calls": () => typeof (function deeper(depth) { return depth > 50 ? depth : deeper(depth + 1); })(0),
  "whether features of a version exist": (at) =>
    ["Iterator", "Temporal", "WebTransport", "GPU", "VideoFrame", "Notification"].map((name) => typeof at[name]),
});
for (const hint of ["architecture", "bitness", "formFactors", "fullVersionList", "model", "platformVersion", "uaFullVersion", "wow64"])
  readers[`NavigatorUAData.getHighEntropyValues#${hint}`] =
    called("NavigatorUAData", "getHighEntropyValues", [[hint]], (found) => found[hint]);
readers["what is given beside hints"] = called("NavigatorUAData", "getHighEntropyValues", [[]], (found) => JSON.stringify(found));
readers["the text of NavigatorUAData"] = called("NavigatorUAData", "toJSON", [], (found) => JSON.stringify(found));
for (const name of ["tan", "sinh", "expm1", "cosh"]) readers[`Math.${name}`] = (at) => at.Math[name](1e0 / 3);

// ---- Windows

const windowReaders = {};
for (const name of ["devicePixelRatio", "innerHeight", "innerWidth", "outerHeight", "outerWidth", "screenLeft", "screenTop", "screenX", "screenY"])
  windowReaders[`Window.${name}`] = (at) => at[name];
const added = (at, tag, css = "", inner = "") => {
  const element = at.document.createElement(tag);
  element.style.cssText = css;
  element.innerHTML = inner;
  at.document.body.append(element);
  return element;
};
const computed = (at, css, property, tag = "p") => {
  const element = added(at, tag, css, "x");
  try { return at.getComputedStyle(element)[property]; } finally { element.remove(); }
};
const box = (at, tag, css = "", inner = "") => {
  const element = added(at, tag, css, inner), { width, height } = element.getBoundingClientRect();
  element.remove();
  return [width, height];
};
const input = (at, type) => Object.assign(at.document.createElement("input"), { type });
const boxOfInput = (at, type) => {
  const element = input(at, type);
  at.document.body.append(element);
  const { width, height } = element.getBoundingClientRect();
  element.remove();
  return [width, height];
};
const loadedImage = (at, source) => new Promise((done, failed) => {
  const image = new at.Image();
  image.onload = () => done(image);
  image.onerror = failed;
  image.src = source;
});
const requested = async (at, word) => { // names of what was loaded that holds a word
  for (let turn = 0; turn < 8; turn++) {
    await pause(100);
    const found = at.performance.getEntriesByType("resource").map(({ name }) => name.split("/").pop()).filter((name) => name.startsWith(word));
    if (found.length) return found.sort();
  }
};
const offer = (Connection, prepare = () => {}) => {
  const connection = new Connection();
  prepare(connection);
  return connection.createOffer({ offerToReceiveAudio: true }).then(({ sdp }) => (connection.close(), sdp.length > 0));
};
const withWindow = async (opened, read, change = () => {}) => {
  await pause(200);
  change(opened);
  await pause(200);
  try { return read(opened); } finally { opened.close(); }
};
const dots = [0.5, 1, 1.25, 1.5, 2, 3];
const fontsTried = ["Arial", "DejaVu Sans", "DejaVu Serif", "DejaVu Sans Mono", "Courier New", "TeX Gyre DejaVu Math", "Noto Color Emoji", "Liberation Sans", "Lab Sans"];
const wide = "mmmwwwlli 0123";
Object.assign(windowReaders, {
  "HTMLMediaElement.canPlayType": (at, how) =>
    how.call(at, at.document.createElement("video"), "HTMLMediaElement", "canPlayType", 'video/webm; codecs="vp9"'),
  "which codecs an element plays": (at) => ["audio/mpeg", 'video/mp4; codecs="avc1.42E01E"', 'video/mp4; codecs="av01.0.05M.08"',
    'video/webm; codecs="vp8"', "audio/ogg", "audio/wav", "audio/aac"].map((type) => at.document.createElement("video").canPlayType(type)),
  "MediaSource.isTypeSupported": (at) => ['video/webm; codecs="vp9"', 'video/mp4; codecs="av01.0.05M.08"'].map((type) => at.MediaSource.isTypeSupported(type)),
  "MediaRecorder.isTypeSupported": (at) => ["video/webm", "video/mp4", "audio/ogg"].map((type) => at.MediaRecorder.isTypeSupported(type)),
  "RTCRtpSender.getCapabilities": (at) => at.RTCRtpSender.getCapabilities("video").codecs.map(({ mimeType, sdpFmtpLine }) => mimeType + sdpFmtpLine),
  "RTCRtpReceiver.getCapabilities": (at) => at.RTCRtpReceiver.getCapabilities("video").codecs.map(({ mimeType, sdpFmtpLine }) => mimeType + sdpFmtpLine),
  "RTCPeerConnection.createOffer": (at) => offer(at.RTCPeerConnection),
  "RTCPeerConnection.localDescription": async (at) => {
    const connection = new at.RTCPeerConnection();
    connection.addTransceiver("video");
    await connection.setLocalDescription();
    const { sdp } = connection.localDescription;
    connection.close();
    return sdp.split("\n").filter((line) => line.startsWith("a=rtpmap"));
  },
  "a connection by its prefixed name": (at) => offer(at.webkitRTCPeerConnection),
  "Navigator.mimeTypes": (at, how) => names(how.get(at, at.navigator, "Navigator", "mimeTypes")),
  "Navigator.plugins": (at, how) => names(how.get(at, at.navigator, "Navigator", "plugins")),
  "Navigator.plugins#beyond-pdf": (at, how) =>
    names(how.get(at, at.navigator, "Navigator", "plugins")).filter((name) => !/pdf/i.test(name)),
  "what becomes of a spoken word": (at) => new Promise((done) => {
    const word = Object.assign(new at.SpeechSynthesisUtterance("a"), { volume: 0 });
    for (const event of ["start", "end", "error"]) word.addEventListener(event, ({ type, error }) => done([type, error]));
    at.speechSynthesis.speak(word);
    setTimeout(done, 1500, "nothing");
  }),
  "what is said of a microphone that is not there": (at) =>
    at.navigator.mediaDevices.getUserMedia({ audio: { deviceId: { exact: "none" } } }),
  "how many tracks a microphone gives": async (at) => {
    const tracks = (await at.navigator.mediaDevices.getUserMedia({ audio: true })).getTracks(), found = tracks.length;
    tracks.forEach((track) => track.stop());
    return found;
  },
  "SpeechSynthesis.getVoices": (at, how) => names(how.call(at, at.speechSynthesis, "SpeechSynthesis", "getVoices")),
  "the memory of a console": (at) => at.console.memory.jsHeapSizeLimit,
  "the quota of temporary storage": (at) => new Promise((done, failed) => at.navigator.webkitTemporaryStorage.queryUsageAndQuota((_, quota) => done(Math.round(quota / 2 ** 26)), failed)),
  "the quota of a bucket": async (at) => Math.round((await (await at.navigator.storageBuckets.open("lab")).estimate()).quota / 2 ** 26),
  "what MediaCapabilities says of a key system": (at) => at.navigator.mediaCapabilities.decodingInfo({
    type: "media-source", video: { contentType: 'video/webm; codecs="vp8"', width: 800, height: 600, bitrate: 1e5, framerate: 30 },
    keySystemConfiguration: { keySystem: "org.w3.clearkey" },
  }).then(({ keySystemAccess }) => !!keySystemAccess),
  "Window.getScreenDetails": (at) => at.getScreenDetails().then(({ screens }) => screens.map(({ width, height }) => [width, height])),
  "Window.queryLocalFonts": (at) => at.queryLocalFonts().then((found) => found.map(({ postscriptName }) => postscriptName)),
  "Performance.memory": (at) => at.performance.memory.jsHeapSizeLimit,
  "Document.lastModified": ({ document }) => Math.round((Date.parse(`${document.lastModified} UTC`) - Date.now()) / 9e5),
  "the date of a parsed document": (at) => Math.round((Date.parse(`${new at.DOMParser().parseFromString("<p>", "text/html").lastModified} UTC`) - Date.now()) / 9e5),
  "the date of a fetched document": (at) => new Promise((done, failed) => {
    const request = new at.XMLHttpRequest();
    request.open("GET", "/old.html");
    request.responseType = "document";
    request.onload = () => done(request.response.lastModified);
    request.onerror = failed;
    request.send();
  }),
  "the clock of a style sheet of XML": (at) => {
    const parse = (text) => new at.DOMParser().parseFromString(text, "text/xml"), processor = new at.XSLTProcessor();
    processor.importStylesheet(parse(`<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform" xmlns:d="http://exslt.org/dates-and-times">
      <xsl:output method="text"/><xsl:template match="/"><xsl:value-of select="d:date-time()"/></xsl:template></xsl:stylesheet>`));
    return processor.transformToFragment(parse("<a/>"), at.document).textContent.slice(19);
  },
  "the moment in a field for dates": (at) => { const field = input(at, "datetime-local"); field.valueAsNumber = 0; return field.value; },
  // languages
  "the text of a missing value": (at) => Object.assign(input(at, "text"), { required: true }).validationMessage,
  "the text of a broken document": (at) => new at.DOMParser().parseFromString("<a", "text/xml").documentElement.textContent.replace(/\S*\/\/\S*/, ""),
  "the width of a field for files": (at) => boxOfInput(at, "file"),
  "the width of a field for dates": (at) => boxOfInput(at, "date"),
  "the width of a button to send": (at) => boxOfInput(at, "submit"),
  "the width of a button to reset": (at) => boxOfInput(at, "reset"),
  "the width of Chinese and Japanese": (at) => box(at, "span", "font: 40px serif", "\u4e00\u9aa8\u3042"),
  "the quotes of a language": (at) => box(at, "q", "quotes: auto", "x"),
  "whether a field takes a comma": (at) => { const field = input(at, "number"); field.value = "1.5"; return [field.validity.valid, field.value]; },
  // the ratio of pixels
  "a border of 0.1px": (at) => computed(at, "border: 0.1px solid", "borderTopWidth"),
  "a border of 1.3px": (at) => computed(at, "border: 1.3px solid", "borderTopWidth"),
  "an outline of 0.1px": (at) => computed(at, "outline: 0.1px solid", "outlineWidth"),
  "an outline of 1.7px": (at) => computed(at, "outline: 1.7px solid", "outlineWidth"),
  "a rule between columns of 0.1px": (at) => computed(at, "column-rule: 0.1px solid", "columnRuleWidth"),
  "the width of a box with a thin border": (at) => box(at, "span", "display: inline-block; width: 10px; border: 0.3px solid"),
  "ResizeObserverEntry.devicePixelContentBoxSize": (at) => new Promise((done) => {
    const element = added(at, "p", "width: 100px; height: 50px");
    new at.ResizeObserver(([entry]) => done([entry.devicePixelContentBoxSize?.[0].inlineSize, element.remove()][0]))
      .observe(element, { box: "device-pixel-content-box" });
  }),
  // The request of the image has its width in a header, where the page asks for that.
  "the image of a width": (at) => { added(at, "img").outerHTML = "<img sizes=100px srcset='/image?wide 100w'>"; },
  "HTMLImageElement.currentSrc": async (at) => {
    const image = added(at, "img");
    image.srcset = dots.map((dot) => `/image?${dot} ${dot}x`).join();
    for (let turn = 0; turn < 40 && !image.currentSrc; turn++) await pause(20);
    image.remove();
    return image.currentSrc.split("?").pop();
  },
  "the image of a set that a style loads": (at) => {
    added(at, "p", `width: 9px; height: 9px; background: image-set(${dots.map((dot) => `url(/set?${dot}) ${dot}x`).join()})`);
    return requested(at, "set?");
  },
  "the place of a text that is scrolled": (at) => {
    const element = added(at, "p", "height: 20px; overflow: scroll", "<p style='height: 500px'>");
    element.scrollTop = 10.3;
    const found = element.scrollTop;
    element.remove();
    return found;
  },
  "the width of tiny text": (at) => box(at, "span", "font: 7.3px sans-serif", wide),
  "the height of a line": (at) => box(at, "span", "font: 13.7px serif; display: inline-block", "x"),
  "the width of a scroll bar": (at) => {
    const element = added(at, "p", "width: 100px; height: 50px; overflow: scroll");
    const found = element.offsetWidth - element.clientWidth;
    element.remove();
    return found;
  },
  "the matrix of a drawing": (at) => {
    const element = added(at, "div", "", "<svg width=10 height=10 />").firstChild, matrix = element.getScreenCTM();
    return [matrix.a, matrix.d];
  },
  // fonts
  "HTMLElement.offsetWidth": (at) => fontsTried.map((font) => {
    const element = added(at, "span", `font: 40px "${font}", monospace`, wide), found = element.offsetWidth;
    element.remove();
    return found;
  }),
  "the width of texts": (at) => fontsTried.map((font) => box(at, "span", `font: 40px "${font}", monospace`, wide)),
  "CanvasRenderingContext2D.measureText": (at) => fontsTried.map((font) => {
    const context = at.document.createElement("canvas").getContext("2d");
    context.font = `40px "${font}", monospace`;
    const { width, actualBoundingBoxAscent } = context.measureText(wide);
    return [width, actualBoundingBoxAscent];
  }),
  "the width of a text in a drawing": (at) => fontsTried.map((font) => {
    const element = added(at, "div", "", `<svg><text style='font: 40px "${font}", monospace'>${wide}</text></svg>`);
    const found = element.querySelector("text").getComputedTextLength();
    element.remove();
    return found;
  }),
  "the width of a range of text": (at) => {
    const element = added(at, "span", "font: 40px sans-serif", wide), range = at.document.createRange();
    range.selectNodeContents(element);
    const found = range.getBoundingClientRect().width;
    element.remove();
    return found;
  },
  "FontFaceSet.load": (at) => Promise.all(fontsTried.map((font, place) => {
    added(at, "style").textContent = `@font-face { font-family: tried${place}; src: local("${font}"); }`;
    return at.document.fonts.load(`12px tried${place}`).then((found) => found.length, () => "none");
  })),
  "the fonts that fail": async (at) => {
    const failed = [], faces = fontsTried.map((font) => new at.FontFace(`failed ${font}`, `local("${font}")`));
    at.document.fonts.addEventListener("loadingerror", ({ fontfaces }) => failed.push(...fontfaces.map(({ family }) => family)));
    faces.forEach((face) => (at.document.fonts.add(face), face.load().catch(() => {})));
    await pause(500);
    return failed.sort();
  },
  "the fonts of the system": (at) => ["menu", "caption", "status-bar"].map((font) => computed(at, `font: ${font}`, "fontFamily") + computed(at, `font: ${font}`, "fontSize")),
  "the size of a pictogram": (at) => box(at, "span", "font: 40px serif", "\u{1f603}\u2603"),
  "the size of a formula": (at) => box(at, "math", "", "<mfrac><mi>x</mi><mn>2</mn></mfrac>"),
  // colours
  "css:system-color": (at) => ["AccentColor", "Highlight", "ButtonFace", "LinkText", "Field", "GrayText"].map((colour) => computed(at, `color: ${colour}`, "color")),
  "the colour of either scheme": (at) => computed(at, "color-scheme: light dark; color: light-dark(red, blue)", "color"),
  "the colours of a page in either scheme": (at) => computed(at, "color-scheme: light dark; color: CanvasText", "color"),
  "the source of a picture for a scheme": async (at) => {
    const picture = added(at, "picture", "", '<source media="(prefers-color-scheme: dark)" srcset="/image?dark"><img src="/image?light">');
    for (let turn = 0; turn < 40 && !picture.lastChild.currentSrc; turn++) await pause(20);
    const found = picture.lastChild.currentSrc.split("?").pop();
    picture.remove();
    return found;
  },
  "the style sheet that is imported for a scheme": (at) => {
    added(at, "style").textContent = "@import url(/sheet?dark) (prefers-color-scheme: dark); @import url(/sheet?light) (prefers-color-scheme: light);";
    return requested(at, "sheet?");
  },
  "the scheme of an image that is drawn": async (at) => {
    const svg = '<svg xmlns="http://www.w3.org/2000/svg" width="4" height="4"><style>rect { fill: #fff } @media (prefers-color-scheme: dark) { rect { fill: #000 } }</style><rect width="4" height="4"/></svg>';
    const context = sized(at.document.createElement("canvas")).getContext("2d");
    context.drawImage(await loadedImage(at, `data:image/svg+xml,${encodeURIComponent(svg)}`), 0, 0);
    return context.getImageData(0, 0, 1, 1).data[0] > 127;
  },
  // screens and fingers
  "whether there are events of touch": (at) => ["ontouchstart" in at, typeof at.TouchEvent, typeof at.Touch],
  "whether an event of touch is made": (at) => !!at.document.createEvent("TouchEvent"),
  "the place of an event on the screen": (at) => { const event = new at.MouseEvent("x", { screenX: 5, clientX: 3 }); return [event.screenX, event.clientX]; },
  "the size of a window that is as large as it may be": async (at) => {
    const opened = at.open("about:blank", "", "width=9999,height=9999,left=0,top=0");
    await pause(200);
    const found = [opened.outerWidth, opened.outerHeight, opened.innerWidth];
    opened.close();
    return found;
  },
  "the size of a window that a document opens": (at) => withWindow(at.document.open("about:blank", "", "width=9999,height=9999,left=0,top=0"), (one) => [one.outerWidth, one.outerHeight]),
  "the size of a window by odd texts": (at) => withWindow(at.open("about:blank", "", "width==9999,height= +9999,left=0,top=0"), (one) => [one.outerWidth, one.outerHeight]),
  "the place of a window at the edge": (at) => withWindow(at.open("about:blank", "", "width=200,height=200,left=9999,top=9999"), (one) => [one.screenX, one.screenY]),
  "the place of a window that moves to the edge": (at) => withWindow(at.open("about:blank", "", "width=200,height=200,left=0,top=0"), (one) => [one.screenX, one.screenY], (one) => one.moveTo(9999, 9999)),
  "VisualViewport.width": (at) => [at.visualViewport.width, at.visualViewport.height, at.visualViewport.scale],
  "the size of a page": ({ document }) => [document.documentElement.clientWidth, document.documentElement.clientHeight],
  "the size of units of a window": (at) => box(at, "p", "width: 100vw; height: 100vh; position: fixed"),
  "the size of an embedded PDF": async (at) => {
    const element = added(at, "object", "width: 50px; height: 50px", "<i style='display: block; width: 3px'>x</i>");
    element.type = "application/pdf";
    element.data = "/file.pdf";
    await pause(300);
    const found = element.firstChild.offsetWidth > 0;
    element.remove();
    return found;
  },
});

// ---- Sound

const closed = async (Context, read) => {
  const context = new Context();
  try { return await read(context); } finally { context.close(); }
};
const wave = (rate, samples = 441) => { // a file of silence
  const view = new DataView(new ArrayBuffer(44 + samples)), text = (at, letters) => [...letters].forEach((letter, place) => view.setUint8(at + place, letter.charCodeAt(0)));
  [[0, "RIFF"], [8, "WAVEfmt "], [36, "data"]].forEach(([at, letters]) => text(at, letters));
  [[4, 36 + samples], [16, 16], [24, rate], [28, rate], [40, samples]].forEach(([at, number]) => view.setUint32(at, number, true));
  [[20, 1], [22, 1], [32, 1], [34, 8]].forEach(([at, number]) => view.setUint16(at, number, true));
  return view.buffer;
};
const rendered = async (Context, read, channels = 1) => {
  const context = new Context(channels, 5000, 44100), oscillator = context.createOscillator(), squeezed = context.createDynamicsCompressor();
  oscillator.type = "triangle";
  oscillator.frequency.value = 10000;
  oscillator.connect(squeezed);
  squeezed.connect(context.destination);
  oscillator.start();
  return read(await new Promise((done, failed) => {
    context.oncomplete = (event) => done(event.renderedBuffer);
    context.startRendering()?.catch(failed);
  }));
};
const samples = (buffer) => digest(buffer.getChannelData(0).slice(0, 4000).join());
const sounds = {
  "AudioContext.baseLatency": (at) => closed(at.AudioContext, (context) => context.baseLatency),
  "AudioContext.outputLatency": (at) => closed(at.AudioContext, (context) => context.outputLatency),
  "the highest frequency of an oscillator": (at) => closed(at.AudioContext, (context) => context.createOscillator().frequency.maxValue),
  "the length of a sound that is decoded": (at) => closed(at.AudioContext, async (context) => (await context.decodeAudioData(wave(44100))).length),
  "the settings of a track of sound": (at) => closed(at.AudioContext, (context) =>
    context.createMediaStreamDestination().stream.getAudioTracks()[0].getSettings().sampleRate),
  "AudioDestinationNode.maxChannelCount": (at) => closed(at.AudioContext, ({ destination }) => destination.maxChannelCount),
  "BaseAudioContext.sampleRate": (at) => closed(at.AudioContext, (context) => context.sampleRate),
  "OfflineAudioContext.startRendering": (at) => rendered(at.OfflineAudioContext, samples),
  "AudioBuffer.getChannelData": (at) => rendered(at.OfflineAudioContext, samples),
  "AudioBuffer.copyFromChannel": (at) => rendered(at.OfflineAudioContext, (buffer) => {
    const found = new Float32Array(4000);
    buffer.copyFromChannel(found, 0);
    return digest(found.join());
  }),
  "a sound that is rounded": (at) => rendered(at.OfflineAudioContext, (buffer) => digest(buffer.getChannelData(0).map((part) => Math.round(part * 1000)).join())),
  "the loudness of a sound": (at) => rendered(at.OfflineAudioContext, (buffer) => buffer.getChannelData(0).reduce((sum, part) => sum + Math.abs(part), 0).toFixed(2)),
  "a sound by its prefixed name": (at) => rendered(at.webkitOfflineAudioContext, samples),
  "the latency by its prefixed name": (at) => closed(at.webkitAudioContext, (context) => [context.baseLatency, context.sampleRate]),
};
for (const [name, read] of Object.entries(sounds)) windowReaders[name] = read;

// ---- Canvases: a drawing, what carries it, what takes it out, what is left of it

const sized = (canvas) => Object.assign(canvas, { width: 60, height: 20 });
const drawings = {
  "a text": (context) => { context.font = "13px sans-serif"; context.fillText("Cwm fjord \u{1f603}", 2, 14); },
  "a blend": (context) => {
    const fill = context.createLinearGradient(0, 0, 60, 0);
    fill.addColorStop(0, "red");
    fill.addColorStop(1, "blue");
    context.fillStyle = fill;
    context.fillRect(3, 2, 50, 15);
    context.font = "12px serif";
    context.fillText("Cwm fjord", 4, 14);
  },
  "a curve": (context) => { context.arc(30, 10, 8.3, 0, 5); context.shadowBlur = 3; context.shadowColor = "green"; context.stroke(); },
};
const plain = (data) => data;
const cleanings = {
  "as it is": plain,
  "without its low bits": (data) => data.map((part) => part >> 4),
  "in black and white": (data) => data.map((part) => (part > 127 ? 1 : 0)),
  "as sums of its columns": (data) => {
    const sums = new Array(60).fill(0);
    data.forEach((part, place) => { sums[(place >> 2) % 60] += part; });
    return sums.map((sum) => Math.round(sum / 200));
  },
};
const taken = { // what takes the pixels of a canvas out, four numbers a pixel
  "pixels": (_, canvas) => canvas.getContext("2d").getImageData(0, 0, 60, 20).data,
  "pixels one by one": (_, canvas) => {
    const found = [], context = canvas.getContext("2d");
    for (let place = 0; place < 60; place++) found.push(...context.getImageData(place, 10, 1, 1).data);
    return found;
  },
  "a frame of video": async (at, canvas) => {
    const frame = new at.VideoFrame(canvas, { timestamp: 0 }), found = new Uint8Array(frame.allocationSize());
    await frame.copyTo(found);
    frame.close();
    return found;
  },
  "a texture": (at, canvas) => {
    const gl = sized(canvas.ownerDocument ? canvas.ownerDocument.createElement("canvas") : new at.OffscreenCanvas(60, 20)).getContext("webgl");
    const texture = gl.createTexture(), buffer = gl.createFramebuffer(), found = new Uint8Array(60 * 20 * 4);
    gl.bindTexture(gl.TEXTURE_2D, texture);
    gl.texImage2D(gl.TEXTURE_2D, 0, gl.RGBA, gl.RGBA, gl.UNSIGNED_BYTE, canvas);
    gl.bindFramebuffer(gl.FRAMEBUFFER, buffer);
    gl.framebufferTexture2D(gl.FRAMEBUFFER, gl.COLOR_ATTACHMENT0, gl.TEXTURE_2D, texture, 0);
    gl.readPixels(0, 0, 60, 20, gl.RGBA, gl.UNSIGNED_BYTE, found);
    gl.getExtension("WEBGL_lose_context")?.loseContext();
    return found;
  },
  "a picture that is drawn again": async (at, canvas) => {
    const other = new at.OffscreenCanvas(60, 20).getContext("2d");
    other.drawImage(await at.createImageBitmap(canvas), 0, 0);
    return other.getImageData(0, 0, 60, 20).data;
  },
  "a pattern": (at, canvas) => {
    const other = new at.OffscreenCanvas(60, 20).getContext("2d");
    other.fillStyle = other.createPattern(canvas, "repeat");
    other.fillRect(0, 0, 60, 20);
    return other.getImageData(0, 0, 60, 20).data;
  },
  "a stream": async (at, canvas) => {
    const track = canvas.captureStream(10).getVideoTracks()[0], context = canvas.getContext("2d");
    const reader = new at.MediaStreamTrackProcessor({ track }).readable.getReader();
    context.clearRect(59, 19, 1, 1);
    const { value } = await reader.read(), found = new Uint8Array(value.allocationSize());
    await value.copyTo(found);
    value.close();
    track.stop();
    return found;
  },
  "a video of a stream": async (at, canvas) => {
    const video = at.document.createElement("video");
    video.muted = true;
    video.srcObject = canvas.captureStream(10);
    canvas.getContext("2d").clearRect(59, 19, 1, 1);
    await video.play();
    await pause(100);
    const other = new at.OffscreenCanvas(60, 20).getContext("2d");
    other.drawImage(video, 0, 0);
    return other.getImageData(0, 0, 60, 20).data;
  },
  "a picture, loaded again": async (at, canvas) => {
    const image = await loadedImage(at, canvas.toDataURL()), other = new at.OffscreenCanvas(60, 20).getContext("2d");
    other.drawImage(image, 0, 0);
    return other.getImageData(0, 0, 60, 20).data;
  },
};
const drawn = (canvas, drawing = "a blend") => {
  drawings[drawing](canvas.getContext("2d", canvas.readOften ? { willReadFrequently: true } : undefined));
  return canvas;
};
const most = (many) => many[0].map((_, place) => { // the commonest of several, pixel by pixel
  const found = many.map((one) => one[place]).sort();
  return found[found.length >> 1];
});
const bytes = async (blob) => digest(new Uint8Array(await blob.arrayBuffer()));
const unmasked = (gl, parameter) => (gl.getExtension("WEBGL_debug_renderer_info"), gl.getParameter(parameter));
const graphics = {
  "getContextAttributes": (gl) => gl.getContextAttributes().antialias,
  "getExtension": (gl) => gl.getExtension("WEBGL_lose_context") && "extension",
  "getParameter#limits": (gl) => { // all that a context says of itself
    const found = {};
    for (const name in gl)
      if (/^(MAX|ALIASED|SUBPIXEL|SAMPLE|[A-Z]+_BITS$)/.test(name)) found[name] = `${gl.getParameter(gl[name])}`;
    found.samples = `${gl.getInternalformatParameter?.(gl.RENDERBUFFER, gl.RGBA8, gl.SAMPLES)}`;
    found.anisotropy = gl.getExtension("EXT_texture_filter_anisotropic") && gl.getParameter(0x84ff);
    return found;
  },
  "getParameter#RENDERER": (gl) => gl.getParameter(gl.RENDERER),
  "getParameter#UNMASKED_RENDERER_WEBGL": (gl) => unmasked(gl, 0x9246),
  "getParameter#UNMASKED_VENDOR_WEBGL": (gl) => unmasked(gl, 0x9245),
  "getShaderPrecisionFormat": (gl) => gl.getShaderPrecisionFormat(gl.VERTEX_SHADER, gl.HIGH_FLOAT).precision,
  "getSupportedExtensions": (gl) => gl.getSupportedExtensions(),
  "readPixels": (gl) => {
    gl.clearColor(0.3, 0.6, 0.9, 1);
    gl.clear(gl.COLOR_BUFFER_BIT);
    const found = new Uint8Array(4);
    gl.readPixels(0, 0, 1, 1, gl.RGBA, gl.UNSIGNED_BYTE, found);
    return found;
  },
};
const triangle = (gl) => {
  const shader = (kind, text) => { const one = gl.createShader(kind); gl.shaderSource(one, text); gl.compileShader(one); return one; };
  const program = gl.createProgram();
  gl.attachShader(program, shader(gl.VERTEX_SHADER, "attribute vec2 p; varying vec2 q; void main() { q = p; gl_Position = vec4(p, 0, 1); }"));
  gl.attachShader(program, shader(gl.FRAGMENT_SHADER, "precision mediump float; varying vec2 q; void main() { gl_FragColor = vec4(sin(q * 9.7), q.x * q.y, 1); }"));
  gl.linkProgram(program);
  gl.useProgram(program);
  gl.bindBuffer(gl.ARRAY_BUFFER, gl.createBuffer());
  gl.bufferData(gl.ARRAY_BUFFER, new Float32Array([-0.9, -0.7, 0.8, -0.6, 0.1, 0.9]), gl.STATIC_DRAW);
  gl.enableVertexAttribArray(0);
  gl.vertexAttribPointer(gl.getAttribLocation(program, "p"), 2, gl.FLOAT, false, 0, 0);
  gl.drawArrays(gl.TRIANGLES, 0, 3);
  const found = new Uint8Array(60 * 20 * 4);
  gl.readPixels(0, 0, 60, 20, gl.RGBA, gl.UNSIGNED_BYTE, found);
  return found;
};
const largest = (gl) => {
  const fits = (make) => [1024, 2048, 4096, 8192, 16384, 32768].filter((side) => (make(side), gl.getError() === gl.NO_ERROR)).pop();
  gl.viewport(0, 0, 1e6, 1e6);
  gl.lineWidth(1e6);
  gl.bindTexture(gl.TEXTURE_2D, gl.createTexture());
  gl.bindRenderbuffer(gl.RENDERBUFFER, gl.createRenderbuffer());
  gl.canvas.width = 1e5;
  const asked = (name) => String(gl.getParameter?.(gl[name])); // a list may take `getParameter` away
  return [
    asked("VIEWPORT"), asked("LINE_WIDTH"), gl.drawingBufferWidth,
    fits((side) => gl.texImage2D(gl.TEXTURE_2D, 0, gl.RGBA, side, 1, 0, gl.RGBA, gl.UNSIGNED_BYTE, null)),
    fits((side) => gl.renderbufferStorage(gl.RENDERBUFFER, gl.RGBA4, side, 1)),
  ];
};
// A canvas by what vertices become: four of its pixels, through a buffer that takes them.
const vertices = (gl, canvas) => {
  const shader = (kind, text) => { const one = gl.createShader(kind); gl.shaderSource(one, text); gl.compileShader(one); return one; };
  const program = gl.createProgram(), found = new Float32Array(16);
  gl.attachShader(program, shader(gl.VERTEX_SHADER, "#version 300 es\nuniform highp sampler2D t; out vec4 v; void main() { v = texelFetch(t, ivec2(gl_VertexID * 3 + 5, 10), 0); gl_Position = vec4(0); gl_PointSize = 1.0; }"));
  gl.attachShader(program, shader(gl.FRAGMENT_SHADER, "#version 300 es\nprecision mediump float; out vec4 c; void main() { c = vec4(1); }"));
  gl.transformFeedbackVaryings(program, ["v"], gl.INTERLEAVED_ATTRIBS);
  gl.linkProgram(program);
  gl.useProgram(program);
  gl.bindTexture(gl.TEXTURE_2D, gl.createTexture());
  gl.texImage2D(gl.TEXTURE_2D, 0, gl.RGBA, gl.RGBA, gl.UNSIGNED_BYTE, canvas);
  gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_MIN_FILTER, gl.NEAREST);
  const buffer = gl.createBuffer();
  gl.bindBufferBase(gl.TRANSFORM_FEEDBACK_BUFFER, 0, buffer);
  gl.bufferData(gl.TRANSFORM_FEEDBACK_BUFFER, 64, gl.DYNAMIC_READ);
  gl.beginTransformFeedback(gl.POINTS);
  gl.drawArrays(gl.POINTS, 0, 4);
  gl.endTransformFeedback();
  gl.getBufferSubData(gl.TRANSFORM_FEEDBACK_BUFFER, 0, found);
  return digest(found.join());
};
const counts = (gl) => {
  const most = (make) => [2, 3, 4, 6, 8, 12, 16, 24, 28, 32, 36, 48, 64, 72, 80, 84, 96, 128, 160, 192, 256].filter((count) => (make(count), gl.getError() === gl.NO_ERROR)).pop();
  const shader = (kind, text) => { const one = gl.createShader(kind); gl.shaderSource(one, text); gl.compileShader(one); return one; };
  // The least of some numbers that is not below a constant: an array of a negative size is refused.
  const within = (name, counts) => counts.find((count) => gl.getShaderParameter?.(
    shader(gl.FRAGMENT_SHADER, `precision mediump float; float a[${count} - ${name} + 1]; void main() { a[0] = 1.0; gl_FragColor = vec4(a[0]); }`), gl.COMPILE_STATUS));
  const large = gl.createProgram();
  gl.attachShader(large, shader(gl.VERTEX_SHADER, "void main() { gl_Position = vec4(0); }"));
  gl.attachShader(large, shader(gl.FRAGMENT_SHADER,
    "precision mediump float; uniform vec4 u[500]; void main() { vec4 s = vec4(0); for (int i = 0; i < 500; i++) s += u[i]; gl_FragColor = s; }"));
  gl.linkProgram(large);
  const linked = !!gl.getProgramParameter?.(large, gl.LINK_STATUS);
  gl.useProgram(large);
  const used = gl.getError() === gl.NO_ERROR;
  gl.bindTexture(gl.TEXTURE_2D, gl.createTexture());
  gl.bindFramebuffer(gl.FRAMEBUFFER, gl.createFramebuffer());
  return [
    most((count) => gl.activeTexture(gl.TEXTURE0 + count - 1)),
    most((count) => gl.disableVertexAttribArray(count - 1)),
    most((count) => gl.vertexAttrib4f(count - 1, 0, 0, 0, 1)),
    gl.bindSampler && most((count) => gl.bindSampler(count - 1, null)),
    gl.bindBufferBase && most((count) => gl.bindBufferBase(gl.UNIFORM_BUFFER, count - 1, null)),
    gl.bindBufferBase && most((count) => gl.bindBufferBase(gl.TRANSFORM_FEEDBACK_BUFFER, count - 1, null)),
    gl.drawBuffers && most((count) => gl.drawBuffers(Array(count).fill(gl.NONE))),
    gl.readBuffer && most((count) => gl.readBuffer(gl.COLOR_ATTACHMENT0 + count - 1)),
    most((level) => gl.texImage2D(gl.TEXTURE_2D, level, gl.RGBA, 1, 1, 0, gl.RGBA, gl.UNSIGNED_BYTE, null)),
    within("gl_MaxFragmentUniformVectors", [224, 256, 1024, 4096]), within("gl_MaxVaryingVectors", [15, 16, 30, 31, 32]),
    within("gl_MaxVertex\\\nUniformVectors", [256, 1024, 4096]), linked, used,
  ];
};
// Readers of canvases: of an element's or an OffscreenCanvas, which `make` gives anew.
const canvasReaders = (at, make) => {
  const found = {};
  for (const [version, type] of [["webgl", "WebGL"], ["webgl2", "WebGL2"]]) {
    let gl; // one context for all of them: making one takes long
    const inContext = (read) => () => {
      gl ??= make().getContext(version);
      return read(gl);
    };
    for (const [name, read] of Object.entries(graphics)) found[`${type}RenderingContext.${name}`] = inContext(read);
    found[`a triangle of ${type}`] = inContext((gl) => digest(triangle(gl)));
    found[`a triangle of ${type} without its low bits`] = inContext((gl) => digest(triangle(gl).map((part) => part >> 4)));
    found[`${type}RenderingContext.getParameter#sizes`] = inContext(largest); // of the viewport, and which fail
    found[`${type}RenderingContext.getParameter#units`] = inContext(counts); // that are taken, and what shaders say of them
    found[`which extensions ${type} gives`] = inContext((gl) =>
      ["EXT_texture_filter_anisotropic", "WEBGL_compressed_texture_s3tc", "OES_texture_float_linear", "EXT_color_buffer_float"].map((name) => !!gl.getExtension(name)));
    found[`a context of ${type} that is given back`] = inContext((gl) => !!gl.getExtension("WEBGL_lose_context")?.loseContext());
  }
  found["what vertices become of a canvas"] = () => vertices(make().getContext("webgl2"), drawn(make(), "a text"));
  found["VideoFrame.copyTo"] = async () => digest(await taken["a frame of video"](at, drawn(make())));
  const pixels = (often) => () => {
    const canvas = make();
    canvas.readOften = often;
    return digest(drawn(canvas).getContext("2d").getImageData(0, 0, 60, 20).data);
  };
  const kind = make().ownerDocument ? "CanvasRenderingContext2D" : "OffscreenCanvasRenderingContext2D";
  found[`${kind}.getImageData`] = pixels(false);
  found["pixels that are read often"] = pixels(true);
  if (!make().ownerDocument) found["OffscreenCanvas.convertToBlob"] = () => drawn(make()).convertToBlob().then(bytes);
  else {
    found["HTMLCanvasElement.toDataURL"] = () => digest(drawn(make()).toDataURL());
    found["HTMLCanvasElement.toBlob"] = () => new Promise((done) => drawn(make()).toBlob(done)).then(bytes);
    for (const kind of ["jpeg", "webp"]) found[`a ${kind} of a canvas`] = () => digest(drawn(make()).toDataURL(`image/${kind}`, 0.5));
    found["the address of a canvas of another document"] = () =>
      digest(drawn(sized(at.document.implementation.createHTMLDocument().createElement("canvas"))).toDataURL());
  }
  return found;
};

// ---- Media features, by scripts and by style sheets

const enumerated = {
  "any-hover": ["none", "hover"], "any-pointer": ["none", "coarse", "fine"], "color-gamut": ["rec2020", "p3", "srgb"],
  "display-mode": ["fullscreen", "standalone", "minimal-ui", "browser"], "dynamic-range": ["high", "standard"],
  "forced-colors": ["none", "active"], "hover": ["none", "hover"], "inverted-colors": ["none", "inverted"],
  "monochrome": [0, 1, 8], "orientation": ["portrait", "landscape"], "overflow-block": ["none", "scroll", "paged"],
  "pointer": ["none", "coarse", "fine"], "prefers-color-scheme": ["light", "dark"],
  "prefers-contrast": ["no-preference", "more", "less", "custom"], "prefers-reduced-data": ["no-preference", "reduce"],
  "prefers-reduced-motion": ["no-preference", "reduce"], "prefers-reduced-transparency": ["no-preference", "reduce"],
  "scripting": ["none", "initial-only", "enabled"], "update": ["none", "slow", "fast"],
  "video-dynamic-range": ["high", "standard"], "color": [1, 4, 5, 6, 8, 10, 12],
  "resolution": dots.map((dot) => `${dot}dppx`), "-webkit-device-pixel-ratio": dots, "-moz-device-pixel-ratio": dots,
  "device-posture": ["continuous", "folded"], "nav-controls": ["none", "back"],
};
const measured = { "device-width": "px", "device-height": "px", "width": "px", "height": "px" };
const byStyle = (at, queries) => {
  const style = added(at, "style");
  style.textContent = queries.map((query, rank) => `@media ${query} { :root { --found: "${rank}"; } }`).join("\n");
  const rank = at.getComputedStyle(at.document.documentElement).getPropertyValue("--found");
  style.remove();
  return rank && queries[JSON.parse(rank)];
};
const bisected = (holds) => {
  let low = 0, high = 8192;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (holds(middle)) low = middle; else high = middle - 1;
  }
  return low;
};
const mediaReaders = {}, styleReaders = {};
for (const [feature, values] of Object.entries(enumerated)) {
  mediaReaders[`css:${feature}`] = (at) => values.find((value) => at.matchMedia(`(${feature}: ${value})`).matches);
  const styled = feature.startsWith("-") ? `a style sheet with ${feature}` : `css:${feature}`; // no API has a prefix
  styleReaders[styled] = (at) => byStyle(at, values.map((value) => `(${feature}: ${value})`)) || undefined;
}
for (const [feature, unit] of Object.entries(measured)) {
  mediaReaders[`css:${feature}`] = (at) => bisected((size) => at.matchMedia(`(min-${feature}: ${size}${unit})`).matches);
  styleReaders[`css:${feature}`] = (at) => bisected((size) => byStyle(at, [`(min-${feature}: ${size}${unit})`]));
}
mediaReaders["css:device-aspect-ratio"] = (at) => bisected((size) => at.matchMedia(`(min-device-aspect-ratio: ${size}/1000)`).matches);
styleReaders["css:device-aspect-ratio"] = (at) => bisected((size) => byStyle(at, [`(min-device-aspect-ratio: ${size}/1000)`]));
mediaReaders["the ratio by its smallest query"] = (at) => bisected((size) => at.matchMedia(`(min-resolution: ${size / 100}dppx)`).matches);
mediaReaders["the ratio by the other side of a query"] = (at) => bisected((size) => at.matchMedia(`(${size / 100}dppx <= resolution)`).matches);
mediaReaders["the ratio by a query with an escape"] = (at) => bisected((size) => at.matchMedia(`(min-r\\65 solution: ${size / 100}dppx)`).matches);
mediaReaders["the ratio in dots of an inch"] = (at) => bisected((size) => at.matchMedia(`not all and (max-resolution: ${size}dpi)`).matches);

// ---- Every getter of what a window or a worker has, and every method that needs nothing

const dangerous = /^(alert|confirm|prompt|print|close|stop|focus|blur|open|moveTo|moveBy|resize.*|scroll.*|reload|back|forward|go|remove.*|delete|clear.*|request.*|exit.*|show.*|click|submit|reset|play|pause|load|abort|write.*|empty.*|normalize|detach|disconnect|unregister|captureEvents|releaseEvents|normalize|getSelection|getAnimations|now|timeStamp|toJSON|cookie.*|location|href|title|referrer|getEntries.*|timeOrigin|find|caretPositionFromPoint|startViewTransition|register.*|set.*|replace.*|append|prepend|after|before|measure|mark|attachShadow|attachInternals|getDisplayMedia|getUserMedia|share|vibrate|install|persist|digest|generateKey|random.*|pdf.*|resume|suspend|createDocumentFragment)$/;
const roots = {
  Window: (at) => at, Navigator: (at) => at.navigator, Performance: (at) => at.performance, Screen: (at) => at.screen,
  Document: (at) => at.document, HTMLElement: (at) => at.document?.documentElement, VisualViewport: (at) => at.visualViewport,
  History: (at) => at.history, NetworkInformation: (at) => at.navigator.connection, ScreenOrientation: (at) => at.screen?.orientation,
  HTMLVideoElement: (at) => at.document?.createElement("video"), HTMLInputElement: (at) => at.document?.createElement("input"),
  HTMLCanvasElement: (at) => at.document?.createElement("canvas"), AudioContext: (at) => at.OfflineAudioContext && new at.OfflineAudioContext(2, 10, 44100),
  CanvasRenderingContext2D: (at) => (at.OffscreenCanvas ? new at.OffscreenCanvas(9, 9) : null)?.getContext("2d"),
  NavigatorUAData: (at) => at.navigator.userAgentData, MediaSession: (at) => at.navigator.mediaSession, UserActivation: (at) => at.navigator.userActivation,
};
const shown = (value) =>
  value === null || /^(string|number|boolean|undefined)$/.test(typeof value) ? value
  : typeof value?.length == "number" && value.length < 200 ? [...value].map((part) => (typeof part == "object" ? `${part}` : part)) : `${value}`;
const everyMember = (at) => {
  const found = {};
  for (const [root, give] of Object.entries(roots)) {
    let object;
    try { object = give(at); } catch { continue; }
    if (!object) continue;
    for (let level = object; level && level !== Object.prototype; level = Object.getPrototypeOf(level))
      for (const [member, { get, value }] of Object.entries(Object.getOwnPropertyDescriptors(level)))
        if (!dangerous.test(member) && !/^on/.test(member) && (get || (typeof value == "function" && value.length === 0 && /^(get|is|has|check)[A-Z]/.test(member))))
          found[`every member: ${root}.${member}`] ??= async () => shown(get ? object[member] : await object[member]());
  }
  return found;
};
const everyTag = (at) => {
  const found = {};
  for (const tag of ["a", "button", "code", "details", "fieldset", "h1", "hr", "input", "kbd", "legend", "li", "meter", "pre", "progress", "select", "sub", "table", "textarea", "video"]) {
    found[`the size of <${tag}>`] = () => box(at, tag, "", "x");
    found[`all styles of <${tag}>`] = () => {
      const element = added(at, tag, "", "x"), style = at.getComputedStyle(element), text = [];
      for (const property of style) if (!property.startsWith("--")) text.push(style.getPropertyValue(property));
      element.remove();
      return digest(text.join());
    };
  }
  return found;
};

// ---- Ways that nobody listed: compositions, drawn by a seed

const drawnBy = (seed) => () => { // numbers in [0, 1)
  seed = (seed + 0x6d2b79f5) | 0;
  let mixed = Math.imul(seed ^ (seed >>> 15), 1 | seed);
  mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
  return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
};
const compositions = (at, seed, count) => {
  const random = drawnBy(seed), found = {};
  const one = (list) => list[Math.floor(random() * list.length)];
  const units = ["px", "em", "rem", "ex", "ch", "ic", "lh", "cap", "vw", "vh", "vmin", "in", "mm", "pt", "pc", "cm", "Q"];
  const properties = ["width", "borderTopWidth", "outlineWidth", "columnRuleWidth", "letterSpacing", "fontSize", "lineHeight", "textIndent", "marginLeft", "borderSpacing", "outlineOffset", "tabSize"];
  const css = (property) => property.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
  const families = ["serif", "sans-serif", "monospace", "cursive", "fantasy", "system-ui", "math", ...fontsTried.map((font) => `"${font}"`)];
  const letters = ["mwli", "\u4e00\u3042", "\u0627\u0628", "\u05d0", "\u2603\u{1f603}", "\u221e\u222b", "fi ffl", "\u0e01", "AVAToe"];
  while (Object.keys(found).length < count) {
    const size = (random() * 30).toFixed(1), unit = one(units), family = one(families), letter = one(letters);
    const kind = Math.floor(random() * 5);
    if (kind === 0) {
      const property = one(properties), extra = /Width$/.test(property) && property !== "width" ? `${css(property).replace("-width", "-style")}: solid;` : "";
      found[`found: ${css(property)} of ${size}${unit}`] = () => computed(at, `${extra} ${css(property)}: ${size}${unit}`, property);
    } else if (kind === 1) found[`found: the box of ${letter} in ${size}px ${family}`] = () => box(at, "span", `font: ${size}px ${family}; display: inline-block`, letter);
    else if (kind === 2) {
      const tag = one(["input", "button", "select", "textarea"]);
      found[`found: the box of <${tag}> with a border of ${size}${unit} in ${family}`] = () => box(at, tag, `font-family: ${family}; border-width: ${size}${unit}`);
    }
    else {
      const drawing = one(Object.keys(drawings)), taking = one(Object.keys(taken)), cleaning = one(Object.keys(cleanings)), draws = one([1, 1, 5, 9]);
      const often = random() < 0.3, offscreen = random() < 0.3;
      found[`found: ${drawing}${offscreen ? " off the screen" : ""}${often ? ", read often" : ""}, by ${taking}, ${cleaning}${draws > 1 ? `, the middle of ${draws}` : ""}`] = async () => {
        const many = [];
        for (let turn = 0; turn < draws; turn++) {
          const canvas = offscreen ? new at.OffscreenCanvas(60, 20) : sized(at.document.createElement("canvas"));
          if (often) canvas.readOften = true;
          many.push([...await taken[taking](at, drawn(canvas, drawing))]);
        }
        return digest(cleanings[cleaning](draws > 1 ? most(many) : many[0]));
      };
    }
  }
  return found;
};
// Each way out of a canvas with each way to clean what came out: noise does not survive all of them.
const cleaned = (at) => {
  const found = {};
  for (const taking of Object.keys(taken))
    for (const cleaning of Object.keys(cleanings))
      found[`a canvas by ${taking}, ${cleaning}`] = async () => digest(cleanings[cleaning]([...await taken[taking](at, drawn(sized(at.document.createElement("canvas"))))]));
  found["a canvas by pixels, the middle of nine"] = async () => {
    const many = [];
    for (let turn = 0; turn < 9; turn++) {
      const canvas = sized(at.document.createElement("canvas"));
      const context = canvas.getContext("2d");
      context.translate(0, 0);
      many.push([...taken.pixels(at, drawn(canvas))]);
    }
    return digest(most(many));
  };
  found["a canvas, eight times as large, in black and white"] = () => {
    const canvas = Object.assign(at.document.createElement("canvas"), { width: 480, height: 160 }), context = canvas.getContext("2d");
    context.imageSmoothingEnabled = false;
    context.drawImage(drawn(sized(at.document.createElement("canvas"))), 0, 0, 480, 160);
    return digest(context.getImageData(0, 0, 480, 160).data.map((part) => (part > 127 ? 1 : 0)));
  };
  return found;
};
