// Ways round scripts that answer in place of the browser: each gives what a window or a worker reads, or nothing.
// Frames call `reading` and `tell`, or have their text.
var reading = (at) => ({
  "Navigator.hardwareConcurrency": at.navigator.hardwareConcurrency, "Navigator.userAgent": at.navigator.userAgent,
  "Navigator.language": at.navigator.language, "Navigator.platform": at.navigator.platform,
  "Screen.width": at.screen?.width, "Screen.height": at.screen?.height, "Window.devicePixelRatio": at.devicePixelRatio,
});
const readingText = `(${reading})(self)`.replace(/\s+/g, " ");
// Pages
const last = () => self[length - 1];
const put = (tag, values = {}, at = document.body) => { const one = Object.assign(document.createElement(tag), values); at.append(one); return one; };
const heard = (how) => new Promise((done) => { const name = `heard${Math.random()}`; self[name] = done; how(`["${name}"]`); });
const answered = (one) => new Promise((done, fail) => { (one.port ?? one).onmessage = ({ data }) => done(data); one.onerror = () => fail(new Error("no worker")); });
const slow = "<iframe src=/slow></iframe>";
let found; // by what runs as soon as it is put in
var tell = (value) => void (found = value);
const atOnce = (how) => { found = undefined; how(length); return found; };
customElements.define("at-once", class extends HTMLElement { connectedCallback() { found = self[this.getAttribute("place")] && reading(self[this.getAttribute("place")]); } });
customElements.define("own-frame", class extends HTMLIFrameElement { connectedCallback() { tell(self[this.own] && reading(self[this.own])); } }, { extends: "iframe" });
customElements.define("on-leave", class extends HTMLElement { disconnectedCallback() { tell(self[this.place] && reading(self[this.place])); } });
const leaver = (place) => put("on-leave", { place });
const holding = (tag) => { const one = document.createElement(tag); one.append(Object.assign(document.createElement("iframe"), { src: "/slow" })); return one; };
const beside = (place) => `${slow}<at-once place=${place}></at-once>`;
const inOption = `<option>${slow}</option>`;
const by = (tag, how) => { const one = document.createElement(tag); how(one); return one; };
const listed = (option) => { put("select")[0] = option; return option.querySelector("iframe") && reading(last()); };
// A frame, and what reads it as soon as both are put in.
const fill = (part, place) => void part.append(Object.assign(document.createElement("iframe"), { src: "/slow" }), by("at-once", (one) => one.setAttribute("place", place)));
const script = (after) => `javascript:${after}(${readingText})`;
// A built-in function that is the page's own, while something is done.
const changed = (object, member, given, how) => {
  const had = Object.getOwnPropertyDescriptor(object, member), own = { __proto__: null, configurable: true };
  Object.defineProperty(object, member, Object.assign(own, typeof given == "function" ? { value: given, writable: true } : given));
  try { return how(); } finally { if (had) Object.defineProperty(object, member, Object.assign({ __proto__: null }, had)); else delete object[member]; }
};
const slowFrame = () => { put("iframe", { src: "/slow" }); return reading(last()); };
const scriptFrame = () => heard((told) => put("iframe", { src: script(`parent${told}`) }));
var ways = {
  "a frame of the page's text": () => parsed,
  "a frame that loads slowly": slowFrame,
  "a frame of the page's text that begins with a script": async () => { for (let turn = 0; turn < 25 && !self.scripted; turn++) await new Promise((done) => setTimeout(done, 20)); return self.scripted; },
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
    part.append(Object.assign(document.createElement("script"), { textContent: `tell(self[${place}] && reading(self[${place}]))` }));
    document.body.append(part);
  }),
  "an element beside a frame, by innerHTML": () => atOnce((place) => { put("p").innerHTML = beside(place); }),
  "by outerHTML": () => atOnce((place) => { put("p").outerHTML = beside(place); }),
  "by insertAdjacentHTML": () => atOnce((place) => document.body.insertAdjacentHTML("beforeend", beside(place))),
  "by setHTMLUnsafe": () => atOnce((place) => put("p").setHTMLUnsafe?.(beside(place))),
  "a script in a frame": () => atOnce((place) => {
    const one = Object.assign(document.createElement("iframe"), { src: "/slow" });
    one.append(Object.assign(document.createElement("script"), { textContent: `tell(self[${place}] && reading(self[${place}]))` }));
    document.body.append(one);
  }),
  "an element in a frame": () => atOnce((place) => { const one = Object.assign(document.createElement("iframe"), { src: "/slow" }), within = document.createElement("at-once"); within.setAttribute("place", place); one.append(within); document.body.append(one); }),
  "an element that a frame replaces": () => atOnce((place) => leaver(place).replaceWith(Object.assign(document.createElement("iframe"), { src: "/slow" }))),
  "an element that a child replaces": () => atOnce((place) => document.body.replaceChild(Object.assign(document.createElement("iframe"), { src: "/slow" }), leaver(place))),
  "an element that a text replaces": () => atOnce((place) => { leaver(place).outerHTML = slow; }),
  "an element that a command replaces": () => atOnce((place) => { const part = put("p", { contentEditable: true }); part.append("x", leaver(place), "y"); part.focus(); getSelection().selectAllChildren(part); document.execCommand("insertHTML", false, slow); }),
  "an element beside a frame, by a command": () => atOnce((place) => { const part = put("p", { contentEditable: true }); part.innerHTML = beside(place); part.focus(); getSelection().selectAllChildren(part); document.execCommand("delete"); tell(undefined); document.execCommand("undo"); }),
  "an element beside a frame, in a range": () => atOnce((place) => { const part = put("p"), range = document.createRange(); part.innerHTML = beside(place); tell(undefined); range.selectNodeContents(part); range.surroundContents(document.createElement("b")); }),
  "a frame in a caption": () => { put("table").caption = holding("caption"); return reading(last()); },
  "a frame in the head of a table": () => { put("table").tHead = holding("thead"); return reading(last()); },
  "a frame in an option": () => { put("select").add(holding("option")); return reading(last()); },
  "a frame in one of the options": () => { put("select").options.add(holding("option")); return reading(last()); },
  "a frame in an option, by its number": () => listed(holding("option")),
  "such a frame, by the number of options": () => { const { options } = put("select"); options[0] = holding("option"); return options[0].firstChild && reading(last()); },
  "such a frame of a text": () => listed(by("p", (one) => { one.innerHTML = inOption; }).firstChild),
  "such a frame of a text that is put in": () => listed(by("option", (one) => one.insertAdjacentHTML("beforeend", slow))),
  "such a frame of a template": () => listed(by("template", (one) => { one.innerHTML = inOption; }).content.firstChild),
  "such a frame of a shadow tree": () => { const tree = document.createElement("p").attachShadow({ mode: "closed" }); tree.innerHTML = inOption; return listed(tree.firstChild); },
  "such a frame of another document": () => listed(new DOMParser().parseFromString(inOption, "text/html").querySelector("option")),
  "such a frame of a document of XML": () => listed(new DOMParser().parseFromString('<!DOCTYPE option [<!ENTITY f "&#60;iframe src=\'/slow\'/>">]><option xmlns="http://www.w3.org/1999/xhtml">&f;</option>', "text/xml").documentElement),
  "such a frame of a document that is written": () => { const other = document.implementation.createHTMLDocument(); other.write(inOption); return listed(other.querySelector("option")); },
  "such a frame of a fragment": () => listed(document.createRange().createContextualFragment(inOption).firstChild),
  "such a frame in a range": () => listed(by("option", (one) => { const range = document.createRange(); range.selectNodeContents(one); range.insertNode(holding("b")); })),
  "such a frame that moves": () => listed(by("option", (one) => { const part = put("p"); part.append(holding("b")); document.body.append(one); one.moveBefore?.(part, null); })),
  "such a frame that a script moves": () => { const one = document.createElement("option"), part = holding("p"); self.movedPart = () => one.append(part); document.body.append(part, Object.assign(document.createElement("script"), { textContent: "movedPart()" })); return listed(one); },
  "such a frame of the page's text": () => inText.own,
  "such a frame that the page's text goes on with": () => inText.moved,
  "such a frame that is written where the page's text goes on": () => inText.written,
  "such a frame, while another loads": () => inText.loaded,
  "a list that shows an option": () => { const list = put("select"); list.innerHTML = `<button><selectedcontent></selectedcontent></button><option>a</option><option value=b>${slow}</option>`; list.value = "b"; return list.querySelector("iframe") && reading(last()); },
  "an object that becomes a text": () => atOnce((place) => { const part = document.createElement("p"); document.body.append(part, { toString: () => fill(part, place) }); }),
  "an object that becomes a place": () => atOnce((place) => { const part = document.createElement("p"); document.body.insertAdjacentElement({ toString: () => fill(part, place) || "beforeend" }, part); }),
  "an object that becomes a number": () => atOnce((place) => { const part = document.createElement("optgroup"); put("select").add(part, { valueOf: () => fill(part, place) }); }),
  "a frame that goes, beside one that comes": () => atOnce((place) => { const part = put("p"), one = put("iframe", {}, part); one.contentWindow.onpagehide = () => fill(part, place); document.body.append(part); }),
  "a frame that is replaced": () => atOnce((place) => { const part = document.createElement("p"), one = put("iframe"); one.contentWindow.onpagehide = () => fill(part, place); document.body.replaceChild(part, one); }),
  "a caption that is replaced": () => atOnce((place) => { const table = put("table"), part = document.createElement("caption"), one = put("iframe", {}, table.createCaption()); one.contentWindow.onpagehide = () => fill(part, place); table.caption = part; }),
  "a field that is left": () => atOnce((place) => { const part = document.createElement("p"), field = put("input"); field.onblur = () => fill(part, place); field.focus(); field.replaceWith(part); }),
  "a picture that begins while a text is read": () => { const one = document.createElement("option"); self.movedPart = (part) => one.append(part); by("p", (part) => { part.innerHTML = `<b><svg><svg onload="movedPart(this.closest('b'))"></svg></svg>${slow}</b>`; }); return listed(one); },
  "a template beside a frame, by outerHTML": () => atOnce((place) => { put("template").outerHTML = beside(place); }),
  "an element that a command moves beside a frame": () => atOnce((place) => {
    const part = put("div", { contentEditable: true });
    part.innerHTML = `<p>a</p><p>${beside(place)}b</p>`;
    part.focus();
    getSelection().collapse(part.lastChild, 0);
    tell(undefined);
    document.execCommand("delete");
    getSelection().selectAllChildren(part);
    if (!found) document.execCommand("insertOrderedList");
  }),
  "a frame in another body": () => { const { contentWindow } = put("iframe"); contentWindow.document.body = contentWindow.document.adoptNode(holding("body")); return reading(contentWindow[0]); },
  "by document.write in parts": () => atOnce(() => { const other = put("iframe").contentDocument; other.open(); other.write("<ifr"); other.write("ame src=/slow"); other.write("></iframe><script>parent.tell(parent.reading(self[0]))</script>"); other.close(); }),
  "by document.write": () => atOnce(() => { const other = put("iframe").contentDocument; other.open(); other.write(`${slow}<script>parent.tell(parent.reading(self[0]))</script>`); other.close(); }),
  "by another frame's function": () => { put("iframe").contentWindow.Element.prototype.append.call(document.body, Object.assign(document.createElement("iframe"), { src: "/slow" })); return reading(last()); },
  "another frame's getter": () => ({ "Navigator.hardwareConcurrency": Object.getOwnPropertyDescriptor(put("iframe").contentWindow.Navigator.prototype, "hardwareConcurrency").get.call(navigator) }),
  "a getter, by what a Proxy inherits": () => { let real; changed(Object.prototype, "get", (target) => void (real ??= target), () => Object.getOwnPropertyDescriptor(Navigator.prototype, "hardwareConcurrency").get.other); return real && { "Navigator.hardwareConcurrency": Reflect.apply(real, navigator, []) }; },
  "without keys": () => changed(Object, "keys", () => [], scriptFrame),
  "without lists": () => changed(Array.prototype, Symbol.iterator, function* () {}, slowFrame),
  "without a number of frames": () => changed(self, "length", () => 0, () => { put("iframe", { src: "/slow" }); }) ?? reading(last()),
  "without another description": () => changed(Object.prototype, "get", () => 1, slowFrame),
  "without another value": () => changed(Object.prototype, "value", { get: () => undefined }, slowFrame),
  "where little room is left": () => { const one = Object.assign(document.createElement("iframe"), { src: "/slow" }), deeper = (depth) => { try { deeper(depth + 1); } catch {} if (depth % 50 == 0 && !one.isConnected) try { document.body.append(one); } catch {} }; deeper(0); return reading(last()); },
  "a worker, by another text of functions": () => answered(changed(Function.prototype, "toString", () => "(() => {})", () => new Worker("/worker.js"))),
  "a worker, by another text of objects": () => answered(changed(Object.prototype, "toJSON", () => ({}), () => new Worker("/worker.js"))),
  "a worker, by the last part of a list": () => {
    const address = URL.createObjectURL(new Blob([`postMessage(${readingText})`]));
    return answered(changed(Array.prototype, Symbol.iterator, function* () { yield this[this.length - 1]; }, () => new Worker(address)));
  },
  "a frame that is an element of the page's own": () => atOnce((place) => { const one = document.createElement("iframe", { is: "own-frame" }); one.own = place; one.src = "/slow"; document.body.append(one); }),
  "the load of a frame that is put in": () => atOnce((place) => put("iframe", { onload: () => tell(reading(self[place])) })),
  "the load of a frame beside a frame": () => atOnce((place) => {
    const part = document.createElement("p");
    part.append(Object.assign(document.createElement("iframe"), { src: "/slow" }), Object.assign(document.createElement("iframe"), { onload: () => tell(found ?? (self[place] && reading(self[place]))) }));
    document.body.append(part);
  }),
  "a load that the document hears": () => atOnce((place) => {
    const part = put("p"), hear = () => { found ??= self[place] && reading(self[place]); };
    document.addEventListener("load", hear, { capture: true, once: true });
    part.innerHTML = `${slow}<iframe></iframe>`;
  }),
  "a frame whose script gives its text": () => heard((told) => put("iframe", { src: `javascript:'<script>parent${told}(${readingText})</script>'` })),
  "a frame that gets such a script later": () => heard((told) => { const one = put("iframe"); setTimeout(() => { one.src = `javascript:'<script>parent${told}(${readingText})</script>'`; }, 100); }),
  "a form into a frame": () => heard((told) => { put("iframe", { name: "formed" }); put("form", { target: "formed", action: script(`parent${told}`) }).submit(); }),
  "an object that loads slowly": () => { const one = put("object", { data: "/slow", type: "text/html" }); one.offsetWidth; return self[length - 1] && reading(self[length - 1]); },
  "an object that gets its address later": () => atOnce((place) => { const one = put("object"); one.data = "/slow"; one.offsetWidth; tell(self[place] && reading(self[place])); }),
  "an embedded page that is shown later": () => atOnce((place) => { const one = put("embed", { type: "text/html", src: "/slow", hidden: true }); one.style.display = "none"; one.offsetWidth; one.style.display = ""; one.hidden = false; one.offsetWidth; tell(self[place] && reading(self[place])); }),
  "a page of XML and a style sheet": () => heard((told) => put("iframe", { src: `/page.xml?${told.slice(2, -2)}` })),
  "a picture with a script": () => heard((told) => put("iframe", { src: `/page.svg?${told.slice(2, -2)}` })),
  "a text with a frame in a picture": async () => {
    const one = put("iframe", { src: "/page.svg" });
    await new Promise((done) => { one.onload = done; });
    const part = one.contentDocument.documentElement.appendChild(one.contentDocument.createElementNS("http://www.w3.org/1999/xhtml", "p"));
    part.innerHTML = '<iframe src="/slow"></iframe>';
    return reading(one.contentWindow[0]);
  },
  "a frame that goes on to a blank page": async () => {
    const one = put("iframe", { src: "/page.svg" });
    await new Promise((done) => { one.onload = done; });
    const at = length - 1, until = Date.now() + 800, before = JSON.stringify(reading(self));
    self[at].location = "about:blank";
    while (Date.now() < until) {
      try { const now = reading(self[at]); if (JSON.stringify(now) != before) return now; } catch {}
      await new Promise((done) => { const { port1, port2 } = new MessageChannel(); port2.onmessage = done; port1.postMessage(0); });
    }
    return reading(self[at]);
  },
};
