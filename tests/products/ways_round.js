// What else is read through functions of the page, each true where it is the browser's own.
const drawn = () => { const one = put("canvas", { width: 30, height: 30 }); one.getContext("2d").fillText("drawn", 3, 9); return one; };
const broken = () => { throw Error(); };
const opened = async (how, read) => {
  const one = how();
  if (!one) return false;
  await new Promise((done) => setTimeout(done, 400));
  try { return read(one); } finally { one.close(); }
};
const drawnByGraphics = (read) => {
  const gl = document.createElement("canvas").getContext("webgl2");
  if (!gl) return false;
  const program = gl.createProgram();
  for (const [kind, text] of [
    [gl.VERTEX_SHADER, "#version 300 es\nout vec4 seen; void main() { seen = vec4(1); gl_Position = vec4(0, 0, 0, 1); gl_PointSize = 1.0; }"],
    [gl.FRAGMENT_SHADER, "#version 300 es\nprecision mediump float; out vec4 colour; void main() { colour = vec4(1); }"],
  ]) {
    const shader = gl.createShader(kind);
    gl.shaderSource(shader, text);
    gl.compileShader(shader);
    gl.attachShader(program, shader);
  }
  gl.transformFeedbackVaryings(program, ["seen"], gl.INTERLEAVED_ATTRIBS);
  gl.linkProgram(program);
  gl.useProgram(program);
  return read(gl);
};
const inFrame = () => { const one = put("iframe", { src: "/slow" }) && last(); return one.matchMedia("(prefers-color-scheme: light)").matches || one.matchMedia("(prefers-color-scheme: dark)").matches; };
// What a frame reads in a tree that nobody else sees, where that is the browser's own.
const unlike = async (how) => { const seen = await Promise.race([heard(how), new Promise((done) => setTimeout(done, 800))]); return Boolean(seen) && seen["Navigator.hardwareConcurrency"] !== 6; };
const framed = (told) => `<iframe src='${script(`parent${told}`)}'></iframe>`;
const inClosed = (told) => `<p><template shadowrootmode=closed shadowrootclonable>${framed(told)}</template></p>`;
const others = {
  "a closed tree of a text": () => unlike((told) => put("p").setHTMLUnsafe?.(inClosed(told))),
  "a closed tree of a text that is read": () => unlike((told) => document.body.append(...(Document.parseHTMLUnsafe?.(inClosed(told)).body.childNodes ?? []))),
  "a closed tree that is copied": () => unlike((told) => { const host = document.createElement("p"); host.attachShadow({ mode: "closed", clonable: true }).innerHTML = framed(told); document.body.append(host.cloneNode(true)); }),
  "a text that is not sanitised": () => { const at = put("p"); if (self.Sanitizer) at.setHTMLUnsafe("<b>b</b><iframe></iframe>", { sanitizer: { removeElements: ["b"] } }); return at.innerHTML.includes("<b>"); },
  "a canvas that another gives": () => { const one = drawn(), empty = put("canvas", { width: 30, height: 30 }).toDataURL(); return changed(Document.prototype, "createElement", () => one, () => one.toDataURL() != empty); },
  "a scheme, by another text of its question": () => changed(MediaQueryList.prototype, "media", { get: () => "" }, () => ["light", "dark"].some((scheme) => matchMedia(`(prefers-color-scheme: ${scheme})`).matches)),
  "a scheme, in a frame that is made where lists break": () => changed(Array.prototype, Symbol.iterator, broken, inFrame),
  "a scheme, in a frame that is made without memories": () => changed(window, "WeakMap", broken, () => changed(window, "WeakSet", broken, inFrame)),
  "a scheme, by another search": () => changed(RegExp.prototype, "exec", () => null, () => ["light", "dark"].some((scheme) => matchMedia(`(prefers-color-scheme: ${scheme})`).matches)),
  "graphics, by a text": () => { const gl = document.createElement("canvas").getContext("webgl"); return Boolean(gl?.getParameter(gl.getExtension("WEBGL_debug_renderer_info") && "37446")); },
  "graphics, by a number that wraps": () => { const gl = document.createElement("canvas").getContext("webgl"); return Boolean(gl?.getExtension("WEBGL_debug_renderer_info") && gl.getParameter(37446 + 2 ** 32)); },
  "the memory of a console": () => Boolean(console.memory?.jsHeapSizeLimit),
  "the shape of the screen": () => matchMedia("(min-device-aspect-ratio: 1/9)").matches,
  "a window as large as it may be, by a document": () => opened(() => document.open("about:blank", "", "width=9999,height=9999"), (one) => one.outerWidth > 900 || one.outerHeight > 700),
  "a window as large as it may be, by other texts": () => opened(() => open("about:blank", "", "width==9999,height= +9999"), (one) => one.outerWidth > 900 || one.outerHeight > 700),
  "a window at the edge": () => opened(() => open("about:blank", "", "width=200,height=200,left=9999,top=9999"), (one) => one.screenX > 100),
  "a window that moves to the edge": () => opened(() => { const one = open("about:blank", "", "width=200,height=200,left=0,top=0"); one?.moveTo(9999, 9999); return one; }, (one) => one.screenX > 100),
  "a font that is not there": async () => {
    let seen = false;
    document.fonts.onloadingerror = () => { seen = true; };
    const one = new FontFace("nowhere", 'local("Nowhere")');
    document.fonts.add(one);
    await one.load().catch(() => {});
    await new Promise((done) => setTimeout(done, 200));
    return seen;
  },
  "a key system": async () => Boolean((await navigator.mediaCapabilities.decodingInfo({
    type: "media-source", keySystemConfiguration: { keySystem: "org.w3.clearkey" },
    video: { contentType: 'video/webm; codecs="vp8"', width: 800, height: 600, bitrate: 1e5, framerate: 30 },
  })).keySystemAccess),
  "a sound of a track": async () => {
    if (!self.MediaStreamTrackProcessor) return false;
    const sound = new AudioContext(), tone = sound.createOscillator(), { stream } = tone.connect(sound.createMediaStreamDestination());
    tone.start();
    const reader = new MediaStreamTrackProcessor({ track: stream.getAudioTracks()[0] }).readable.getReader(), found = new Float32Array(9999);
    for (let part = 0; part < 8; part++) { const { value } = await reader.read(); value.copyTo(found.subarray(0, value.numberOfFrames), { planeIndex: 0, format: "f32-planar" }); }
    return found.some((part) => part !== 0);
  },
  "what vertices become": () => drawnByGraphics((gl) => {
    const found = new Float32Array(4);
    gl.bindBuffer(gl.TRANSFORM_FEEDBACK_BUFFER, gl.createBuffer());
    gl.bufferData(gl.TRANSFORM_FEEDBACK_BUFFER, 16, gl.DYNAMIC_READ);
    gl.bindBufferBase(gl.TRANSFORM_FEEDBACK_BUFFER, 0, gl.getParameter(gl.TRANSFORM_FEEDBACK_BUFFER_BINDING));
    gl.beginTransformFeedback(gl.POINTS);
    gl.drawArrays(gl.POINTS, 0, 1);
    gl.endTransformFeedback();
    gl.getBufferSubData(gl.TRANSFORM_FEEDBACK_BUFFER, 0, found);
    return found.some((part) => part !== 0);
  }),
  "whether anything is drawn": () => drawnByGraphics(async (gl) => {
    const query = gl.createQuery();
    gl.enable(gl.SCISSOR_TEST);
    gl.scissor(0, 0, 0, 0);
    gl.beginQuery(gl.ANY_SAMPLES_PASSED, query);
    gl.drawArrays(gl.POINTS, 0, 1);
    gl.endQuery(gl.ANY_SAMPLES_PASSED);
    gl.flush();
    for (let turn = 0; turn < 60 && !gl.getQueryParameter(query, gl.QUERY_RESULT_AVAILABLE); turn++) await new Promise((done) => setTimeout(done, 30));
    return !gl.getQueryParameter(query, gl.QUERY_RESULT);
  }),
  "a script of a fragment that does not begin": () => {
    document.body.append(document.createRange().createContextualFragment("<iframe></iframe><script>self.begun = true<\/script>"));
    return !self.begun;
  },
  "a hint, by what an object inherits": async () => {
    let seen = false;
    const see = { configurable: true, get() { seen ||= "platformVersion" in Object(this); } };
    Object.defineProperty(Object.prototype, "then", see);
    await navigator.userAgentData?.getHighEntropyValues(["platformVersion"]);
    delete Object.prototype.then;
    return seen;
  },
};
(async () => {
  const read = { ways: {}, others: {} };
  for (const [of, list] of [["ways", ways], ["others", others]])
    for (const name of Object.keys(list))
      read[of][name] = await Promise.race([(async () => list[name]())(), new Promise((done) => setTimeout(done, 4000, "late"))]).catch(String);
  window.found = JSON.stringify(read);
})().catch((error) => { window.found = JSON.stringify(String(error)); });
