// A page that wants to know the number of cores, whatever stands in its way. Each way gives a number, or none.
const cores = (at) => at.navigator.hardwareConcurrency;
const last = () => self[length - 1];
const put = (tag, values = {}, at = document.body) => { const one = Object.assign(document.createElement(tag), values); at.append(one); return one; };
const heard = (how) => new Promise((done) => { const name = `heard${Math.random()}`; self[name] = done; how(`["${name}"]`); });
const answered = (one) => new Promise((done, fail) => { (one.port ?? one).onmessage = ({ data }) => done(data); one.onerror = () => fail(new Error("no worker")); });
const slow = "<iframe src=/slow></iframe>";
let found; // by what runs as soon as it is put in
const atOnce = (how) => { found = undefined; how(length); return found; };
customElements.define("at-once", class extends HTMLElement { connectedCallback() { found = self[this.getAttribute("place")] && cores(self[this.getAttribute("place")]); } });
const beside = (place) => `${slow}<at-once place=${place}></at-once>`;
const script = (after) => `javascript:${after}(navigator.hardwareConcurrency)`;
// A built-in function that is the page's own, while something is done.
const changed = (object, member, given, how) => {
  const had = Object.getOwnPropertyDescriptor(object, member), own = { __proto__: null, configurable: true };
  Object.defineProperty(object, member, Object.assign(own, typeof given == "function" ? { value: given, writable: true } : given));
  try { return how(); } finally { if (had) Object.defineProperty(object, member, Object.assign({ __proto__: null }, had)); else delete object[member]; }
};
const slowFrame = () => { put("iframe", { src: "/slow" }); return cores(last()); };
const scriptFrame = () => heard((told) => put("iframe", { src: script(`parent${told}`) }));
const ways = {
  "a frame of the page's text": () => parsed,
  "a frame that loads slowly": slowFrame,
  "a frame of the page's text that begins with a script": () => new Promise((done) => setTimeout(() => done(self.scripted), 500)),
  "a frame that begins with a script": scriptFrame,
  "such a frame in a text": () => heard((told) => put("p").setHTMLUnsafe?.(`<iframe src='${script(`parent${told}`)}'></iframe>`)),
  "such a frame of a frame's text": () => heard((told) => put("iframe", { srcdoc: `<iframe src='${script(`parent.parent${told}`)}'></iframe>` })),
  "such a frame in a closed tree": () => heard((told) => put("iframe", { src: script(`parent${told}`) }, put("p").attachShadow({ mode: "closed" }))),
  "such a frame in a tree that is put in": () => heard((told) => {
    const host = document.createElement("p");
    host.attachShadow({ mode: "closed" }).innerHTML = `<iframe src='${script(`parent${told}`)}'></iframe>`;
    document.body.append(host);
  }),
  "a link into a frame": () => heard((told) => { put("iframe", { name: "linked" }); put("a", { target: "linked", href: script(`parent${told}`) }).click(); }),
  "the constructor of workers": () => answered(new Worker.prototype.constructor("/worker.js")),
  "the constructor of shared workers": () => answered(new SharedWorker.prototype.constructor("/worker.js")),
  "the constructor in a worker": () => answered(new Worker("/constructor.js")),
  "an element beside a frame": () => atOnce((place) => { const one = document.createElement("at-once"); one.setAttribute("place", place); document.body.append(Object.assign(document.createElement("iframe"), { src: "/slow" }), one); }),
  "a script beside a frame": () => atOnce((place) => {
    const part = document.createElement("p");
    part.innerHTML = slow;
    part.append(Object.assign(document.createElement("script"), { textContent: `found = self[${place}] && cores(self[${place}])` }));
    document.body.append(part);
  }),
  "an element beside a frame, by innerHTML": () => atOnce((place) => { put("p").innerHTML = beside(place); }),
  "by outerHTML": () => atOnce((place) => { put("p").outerHTML = beside(place); }),
  "by insertAdjacentHTML": () => atOnce((place) => document.body.insertAdjacentHTML("beforeend", beside(place))),
  "by setHTMLUnsafe": () => atOnce((place) => put("p").setHTMLUnsafe?.(beside(place))),
  "by document.write": () => atOnce(() => { const other = put("iframe").contentDocument; other.open(); other.write(`${slow}<script>parent.found = undefined; parent.eval("found = " + self[0].navigator.hardwareConcurrency)</script>`); other.close(); }),
  "by another frame's function": () => { put("iframe").contentWindow.Element.prototype.append.call(document.body, Object.assign(document.createElement("iframe"), { src: "/slow" })); return cores(last()); },
  "another frame's getter": () => Object.getOwnPropertyDescriptor(put("iframe").contentWindow.Navigator.prototype, "hardwareConcurrency").get.call(navigator),
  "a getter, by what a Proxy inherits": () => { let real; changed(Object.prototype, "get", (target) => void (real ??= target), () => Object.getOwnPropertyDescriptor(Navigator.prototype, "hardwareConcurrency").get.other); return real && Reflect.apply(real, navigator, []); },
  "without keys": () => changed(Object, "keys", () => [], scriptFrame),
  "without lists": () => changed(Array.prototype, Symbol.iterator, function* () {}, slowFrame),
  "without a number of frames": () => changed(self, "length", () => 0, () => { put("iframe", { src: "/slow" }); }) ?? cores(last()),
  "a worker, by another text of functions": () => answered(changed(Function.prototype, "toString", () => "(() => {})", () => new Worker("/worker.js"))),
  "a worker, by another text of objects": () => answered(changed(Object.prototype, "toJSON", () => ({}), () => new Worker("/worker.js"))),
  "a worker, by the last part of a list": () => {
    const address = URL.createObjectURL(new Blob(["postMessage(navigator.hardwareConcurrency)"]));
    return answered(changed(Array.prototype, Symbol.iterator, function* () { yield this[this.length - 1]; }, () => new Worker(address)));
  },
};
// What else is read through functions of the page, each true where it is the browser's own.
const drawn = () => { const one = put("canvas", { width: 30, height: 30 }); one.getContext("2d").fillText("drawn", 3, 9); return one; };
const others = {
  "a canvas that another gives": () => { const one = drawn(), empty = put("canvas", { width: 30, height: 30 }).toDataURL(); return changed(Document.prototype, "createElement", () => one, () => one.toDataURL() != empty); },
  "a scheme, by another text of its question": () => changed(MediaQueryList.prototype, "media", { get: () => "" }, () => ["light", "dark"].some((scheme) => matchMedia(`(prefers-color-scheme: ${scheme})`).matches)),
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
