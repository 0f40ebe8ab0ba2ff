// What one place reads: `at` is a window or a worker.
const read = async (at) => {
  const read = {}, note = async (name, how) => {
    try { read[name] = await Promise.race([how(), new Promise((done) => setTimeout(done, 5000, "late"))]); } catch (error) { read[name] = error.name; }
  };
  const { navigator, document } = at;
  await note("cores", () => navigator.hardwareConcurrency);
  await note("platform", () => navigator.platform);
  await note("agent", () => navigator.userAgent);
  await note("version", () => navigator.appVersion === undefined ? "undefined" : navigator.appVersion);
  await note("languages", () => [navigator.language, ...navigator.languages].join());
  await note("quota", async () => navigator.storage ? (await navigator.storage.estimate()).quota : 12345678);
  if (!document) return read;
  await note("screen", () => [at.screen.width, at.screen.colorDepth, at.screen.pixelDepth].join());
  await note("ratio", () => at.devicePixelRatio);
  const ratios = ["resolution: Rdppx", "-webkit-device-pixel-ratio: R", "Rdppx <= resolution", "min-r\\65 solution: Rdppx", "-moz-device-pixel-ratio: R"];
  await note("resolution", () => ratios.some((way) => [1, 1.25, 1.5, 2].some((r) => at.matchMedia(`(${way.replace("R", r)})`).matches)));
  await note("hover", () => at.matchMedia("(any-hover: none), (any-hover: hover)").matches);
  await note("scheme", () => at.matchMedia("(prefers-color-scheme: light)").matches || at.matchMedia("(prefers-color-scheme:dark)").matches);
  await note("plugins", () => navigator.plugins.length + navigator.mimeTypes.length + [...navigator.plugins].length);
  await note("battery", () => navigator.getBattery ? navigator.getBattery() : Promise.reject(new DOMException("", "NotAllowedError")));
  await note("devices", async () => navigator.mediaDevices ? (await navigator.mediaDevices.enumerateDevices()).length : 0);
  await note("voices", () => at.speechSynthesis.getVoices().length);
  await note("rtc", () => typeof at.RTCPeerConnection + typeof at.webkitRTCPeerConnection + typeof at.mozRTCPeerConnection);
  await note("memory", () => typeof at.performance.memory);
  await note("dnt", () => typeof navigator.doNotTrack);
  const draw = (text) => {
    const canvas = document.createElement("canvas");
    canvas.width = canvas.height = 40;
    canvas.getContext("2d").fillText(text, 5, 20);
    return canvas;
  };
  await note("canvas", () => draw("a").toDataURL() == draw("bb").toDataURL());
  await note("pixels", () => draw("a").getContext("2d").getImageData(0, 0, 40, 40).data.reduce((sum, part) => sum + part, 0));
  await note("blob", () => new Promise((done) => draw("a").toBlob((one) => draw("bb").toBlob(async (two) => done(await one.text() == await two.text())))));
  await note("offscreen", async () => {
    const drawn = (text) => { const one = new at.OffscreenCanvas(40, 40); one.getContext("2d").fillText(text, 5, 20); return one.convertToBlob(); };
    return await (await drawn("a")).text() == await (await drawn("bb")).text();
  });
  await note("renderer", () => {
    const gl = document.createElement("canvas").getContext("webgl");
    return gl ? String(gl.getParameter(0x9246)) : "null";
  });
  await note("limits", () => {
    const gl = document.createElement("canvas").getContext("webgl"), found = new Set();
    for (const name in gl ?? {}) if (/^(MAX|ALIASED)/.test(name)) found.add(gl.getParameter(gl[name]).toString());
    return gl ? [...found].sort().join(" ") : "1,1 15 16 224 256 32 4096 4096,4096";
  });
  await note("sizes", () => {
    const gl = document.createElement("canvas").getContext("webgl");
    if (!gl) return "0,0,4096,4096,1,4096,4096,4096,1281";
    const fits = (make) => [2048, 4096, 8192].filter((side) => (make(side), gl.getError() == 0)).pop();
    gl.viewport(0, 0, 1e6, 1e6);
    gl.lineWidth(1e6);
    gl.bindTexture(gl.TEXTURE_2D, gl.createTexture());
    gl.bindRenderbuffer(gl.RENDERBUFFER, gl.createRenderbuffer());
    gl.canvas.width = 1e5;
    const texture = fits((side) => gl.texImage2D(gl.TEXTURE_2D, 0, gl.RGBA, side, 1, 0, gl.RGBA, gl.UNSIGNED_BYTE, null));
    const buffer = fits((side) => gl.renderbufferStorage(gl.RENDERBUFFER, gl.RGBA4, side, 1));
    const wide = document.createElement("canvas");
    wide.width = 8192;
    gl.texImage2D(gl.TEXTURE_2D, 0, gl.RGBA, gl.RGBA, gl.UNSIGNED_BYTE, wide);
    return [gl.getParameter(gl.VIEWPORT), gl.getParameter(gl.LINE_WIDTH), gl.drawingBufferWidth, texture, buffer, gl.getError()].join();
  });
  await note("units", () => {
    const gl = document.createElement("canvas").getContext("webgl2");
    if (!gl) return "32,16,16,32,24,4,4,4,13,true,true,true,480,0,true";
    const taken = [];
    const most = (use) => {
      gl.getError();
      let count = 1;
      while (count < 300 && (use(count), gl.getError() == 0)) count++;
      taken.push(count - 1);
    };
    const program = (text) => {
      const made = gl.createProgram();
      for (const [kind, body] of [[gl.VERTEX_SHADER, "void main() { gl_Position = vec4(0); }"], [gl.FRAGMENT_SHADER, text]]) {
        const shader = gl.createShader(kind);
        gl.shaderSource(shader, body);
        gl.compileShader(shader);
        gl.attachShader(made, shader);
        if (gl.getShaderSource(shader) != body) taken.push("another source");
      }
      gl.linkProgram(made);
      return made;
    };
    const links = (text) => gl.getProgramParameter(program(text), gl.LINK_STATUS);
    const withUniforms = (count) =>
      `precision mediump float; uniform vec4 u[${count}]; void main() { vec4 s; for (int i = 0; i < ${count}; i++) s += u[i]; gl_FragColor = s; }`;
    most((count) => gl.activeTexture(gl.TEXTURE0 + count - 1));
    most((count) => gl.disableVertexAttribArray(count - 1));
    most((count) => gl.vertexAttrib4f(count - 1, 0, 0, 0, 1));
    most((count) => gl.bindSampler(count - 1, null));
    most((count) => gl.bindBufferBase(gl.UNIFORM_BUFFER, count - 1, null));
    most((count) => gl.bindBufferBase(gl.TRANSFORM_FEEDBACK_BUFFER, count - 1, null));
    gl.bindFramebuffer(gl.FRAMEBUFFER, gl.createFramebuffer());
    most((count) => gl.drawBuffers(Array(count).fill(gl.NONE)));
    most((count) => gl.readBuffer(gl.COLOR_ATTACHMENT0 + count - 1));
    gl.bindTexture(gl.TEXTURE_2D, gl.createTexture());
    most((count) => gl.texImage2D(gl.TEXTURE_2D, count - 1, gl.RGBA, 1, 1, 0, gl.RGBA, gl.UNSIGNED_BYTE, null));
    for (const [name, all] of [["gl_MaxVertexUniformVectors", 256], ["gl_MaxVarying\\\nVectors", 15], ["gl_MaxFragmentUniformVectors", 224]])
      taken.push(links(`precision mediump float; float a[${name} - ${all - 1}]; void main() { a[0] = 1.0; gl_FragColor = vec4(a[0]); }`)
        && !links(`precision mediump float; float a[${name} - ${all}]; void main() { gl_FragColor = vec4(1); }`));
    taken.push([200, 224, 480, 481, 1000].filter((count) => links(withUniforms(count))).pop());
    gl.getError();
    gl.useProgram(program(withUniforms(481)));
    taken.push(gl.getError() == 0 ? 1 : 0);
    gl.useProgram(program(withUniforms(200)));
    taken.push(gl.getError() == 0);
    return taken.join();
  });
  await note("extensions", () => {
    const gl = document.createElement("canvas").getContext("webgl");
    return !gl || gl.getSupportedExtensions().every((name) => gl.getExtension(name)) && !gl.getExtension("WEBGL_compressed_texture_s3tc");
  });
  await note("fonts", async () => {
    const faces = ["Nonesuch", "DejaVu Sans"].map((name) => new at.FontFace(name, `local("${name}")`));
    faces.forEach((face) => document.fonts.add(face));
    const loaded = await Promise.all(faces.map((face) => face.load().then(() => face.loaded).then(() => face.status)));
    const found = await Promise.all(["Nonesuch", "DejaVu Sans"].map((name) => document.fonts.load(`12px "${name}"`)));
    return [...loaded, ...found.map(({ length }) => length), document.fonts.check('12px "Nonesuch"')].join();
  });
  await note("adapter", () => navigator.gpu?.requestAdapter() ?? null);
  await note("hints", async () => {
    const found = await navigator.userAgentData?.getHighEntropyValues(["platformVersion", "model", "bitness"]);
    return found ? Object.keys(found).filter((name) => /Version|model|bitness/.test(name)).sort().join() : "bitness,model";
  });
  await note("told", async () => {
    const { wow64, formFactors, fullVersionList } = await navigator.userAgentData?.getHighEntropyValues(["wow64", "formFactors", "fullVersionList"])
      ?? { wow64: true, formFactors: ["Watch", "XR"], fullVersionList: [{ brand: "B", version: "1.2.3" }] };
    return [wow64, JSON.stringify(formFactors), JSON.stringify(fullVersionList)].join(" ");
  });
  await note("sound", async () => {
    const audio = new at.OfflineAudioContext(1, 500, 44100), tone = audio.createOscillator();
    tone.connect(audio.destination); tone.start();
    return (await audio.startRendering()).getChannelData(0).reduce((sum, part) => sum + Math.abs(part), 0);
  });
  return read;
};

// Kinds of pages, frames and workers; each gives what it reads, those that cannot be reached by a message.
const inside = (after) => `<script>(${read})(self).then((found) => ${after});<\/script>`;
const told = (named) => new Promise((done) => addEventListener("message", ({ data }) => data[0] == named && done(data[1])));
const tell = (named) => inside(`(parent === self ? opener : parent).postMessage(["${named}", found], "*")`);
const frame = (how) => { const one = document.createElement("iframe"); how(one); document.body.append(one); return one; };
const loaded = (how) => new Promise((done) => frame((one) => { how(one); one.onload = () => done(one.contentWindow); }));
const kinds = {
  page: () => read(self),
  "about:blank, at once": () => read(frame(() => {}).contentWindow),
  "about:blank, by its number": () => { frame(() => {}); return read(self[length - 1]); },
  "about:blank, by its name": () => { frame((one) => (one.name = "named")); return read(self["named"]); },
  "by innerHTML": () => { const at = document.createElement("p"); document.body.append(at); at.innerHTML = "<iframe></iframe>"; return read(self[length - 1]); },
  "by document.write": async () => { const one = frame(() => {}); const other = one.contentDocument; other.open(); other.write("<iframe></iframe>"); other.close(); return read(one.contentWindow[0]); },
  srcdoc: async () => read(await loaded((one) => (one.srcdoc = "x"))),
  "srcdoc, its own script": () => { const answer = told("srcdoc"); frame((one) => (one.srcdoc = tell("srcdoc"))); return answer; },
  "data:": () => { const answer = told("data"); frame((one) => (one.src = "data:text/html," + encodeURIComponent(tell("data")))); return answer; },
  "blob:": () => { const answer = told("blob"); frame((one) => (one.src = URL.createObjectURL(new Blob([tell("blob")], { type: "text/html" })))); return answer; },
  "sandboxed": () => { const answer = told("box"); frame((one) => { one.sandbox = "allow-scripts"; one.srcdoc = tell("box"); }); return answer; },
  "of another origin": () => { const answer = told("other"); frame((one) => (one.src = location.href.replace("127.0.0.1", "localhost").replace("/page", "/frame"))); return answer; },
};
const workerText = `const read = ${read};
  self.onconnect = ({ ports }) => read(self).then((found) => ports[0].postMessage(found));
  if (!("SharedWorkerGlobalScope" in self)) read(self).then((found) => postMessage(found));`;
const answered = (one) => new Promise((done, fail) => { (one.port ?? one).onmessage = ({ data }) => done(data); one.onerror = (event) => fail(new Error(`worker ${event.message} ${event.filename} ${event.lineno}`)); });
const workers = {
  "worker": () => answered(new Worker("/worker.js")),
  "worker of a blob": () => answered(new Worker(URL.createObjectURL(new Blob([workerText])))),
  "worker of data:": () => answered(new Worker("data:text/javascript," + encodeURIComponent(workerText))),
  "module worker": () => answered(new Worker("/worker.js", { type: "module" })),
  "worker of a worker": () => answered(new Worker("/nested.js")),
  "worker with imports": () => answered(new Worker("/imports.js")),
  "shared worker": () => answered(new SharedWorker("/worker.js")),
};
(async () => {
  const found = {};
  for (const [name, how] of Object.entries({ ...kinds, ...workers }))
    found[name] = await Promise.race([how(), new Promise((done) => setTimeout(done, 30000, "late"))]).catch((error) => String(error));
  window.found = JSON.stringify(found);
})();
