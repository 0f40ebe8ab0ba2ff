// What else is read through functions of the page, each true where it is the browser's own.
const drawn = () => { const one = put("canvas", { width: 30, height: 30 }); one.getContext("2d").fillText("drawn", 3, 9); return one; };
const broken = () => { throw Error(); };
const inFrame = () => { const one = put("iframe", { src: "/slow" }) && last(); return one.matchMedia("(prefers-color-scheme: light)").matches || one.matchMedia("(prefers-color-scheme: dark)").matches; };
const others = {
  "a canvas that another gives": () => { const one = drawn(), empty = put("canvas", { width: 30, height: 30 }).toDataURL(); return changed(Document.prototype, "createElement", () => one, () => one.toDataURL() != empty); },
  "a scheme, by another text of its question": () => changed(MediaQueryList.prototype, "media", { get: () => "" }, () => ["light", "dark"].some((scheme) => matchMedia(`(prefers-color-scheme: ${scheme})`).matches)),
  "a scheme, in a frame that is made where lists break": () => changed(Array.prototype, Symbol.iterator, broken, inFrame),
  "a scheme, in a frame that is made without memories": () => changed(window, "WeakMap", broken, () => changed(window, "WeakSet", broken, inFrame)),
  "a scheme, by another search": () => changed(RegExp.prototype, "exec", () => null, () => ["light", "dark"].some((scheme) => matchMedia(`(prefers-color-scheme: ${scheme})`).matches)),
  "graphics, by a text": () => { const gl = document.createElement("canvas").getContext("webgl"); return Boolean(gl?.getParameter(gl.getExtension("WEBGL_debug_renderer_info") && "37446")); },
  "graphics, by a number that wraps": () => { const gl = document.createElement("canvas").getContext("webgl"); return Boolean(gl?.getExtension("WEBGL_debug_renderer_info") && gl.getParameter(37446 + 2 ** 32)); },
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
