// Runs in each page and frame before its own scripts, and at the beginning of its workers. `withheld` has, for each
// name that is withheld, the text of the value that all are told, or null for a plain refusal. `base` is the address
// of a worker's script, null in pages; `scope` is the window or the worker.
function install(withheld, base, scope) {
  "use strict";
  const { apply, construct } = Reflect;
  const { defineProperty, getOwnPropertyDescriptor } = Object;
  const { URL, Blob, DOMException } = scope;
  const mark = Symbol.for("fpmonitor");
  if (scope[mark]) return;
  defineProperty(scope, mark, { value: true });
  const names = Object.keys(withheld);
  const proxied = (original, how) =>
    new Proxy(original, { apply: (target, self, given) => how(target, self, given) });

  // A value as its reader expects it.
  const told = (text, real) => {
    if (text === null) return undefined;
    if (typeof real == "number") return Number(text);
    if (typeof real == "boolean") return text == "true";
    if (typeof real == "object" && real)
      try {
        return Object.freeze(JSON.parse(text));
      } catch {}
    return text;
  };
  const refused = () => new DOMException("The request is not allowed.", "NotAllowedError");
  const none = Object.freeze(Object.assign([], { item: () => null, namedItem: () => null, refresh() {} }));
  const blank = ({ width, height }) => Object.assign(scope.document.createElement("canvas"), { width, height });
  const clear = (_, [, , width, height]) => new scope.ImageData(Math.abs(width), Math.abs(height));

  // What a method gives in place of what it read; others throw, or reject where they would have promised.
  const instead = {
    "AnalyserNode.getByteFrequencyData": (_, [into]) => void into.fill(0),
    "AnalyserNode.getByteTimeDomainData": (_, [into]) => void into.fill(128),
    "AnalyserNode.getFloatFrequencyData": (_, [into]) => void into.fill(-Infinity),
    "AnalyserNode.getFloatTimeDomainData": (_, [into]) => void into.fill(0),
    "AudioBuffer.copyFromChannel": (_, [into]) => void into.fill(0),
    "AudioBuffer.getChannelData": (self) => new scope.Float32Array(self.length),
    "CanvasRenderingContext2D.getImageData": clear,
    "HTMLCanvasElement.toBlob": (self, given, real) => apply(real, blank(self), given),
    "HTMLCanvasElement.toDataURL": (self, given, real) => apply(real, blank(self), given),
    "MediaDevices.enumerateDevices": async () => [],
    "Navigator.getGamepads": () => [],
    "Navigator.javaEnabled": () => false,
    "NavigatorUAData.getHighEntropyValues": async ({ brands, mobile, platform }) => ({ brands, mobile, platform }),
    "OffscreenCanvas.convertToBlob": ({ width, height }, given, real) => {
      const copy = new scope.OffscreenCanvas(width, height);
      copy.getContext("2d");
      return apply(real, copy, given);
    },
    "OffscreenCanvasRenderingContext2D.getImageData": clear,
    "SpeechSynthesis.getVoices": () => [],
    "WebGL2RenderingContext.getSupportedExtensions": () => [],
    "WebGL2RenderingContext.readPixels": () => undefined,
    "WebGLRenderingContext.getSupportedExtensions": () => [],
    "WebGLRenderingContext.readPixels": () => undefined,
  };
  const promises =
    /^(Navigator\.(getBattery|request.*)|Keyboard\..*|GPU\.requestAdapter|VideoFrame\.copyTo|Window\.(queryLocalFonts|getScreenDetails))$/;
  const lists = /^Navigator\.(plugins|mimeTypes)$/;
  const numbers = {
    VENDOR: 0x1f00, RENDERER: 0x1f01, VERSION: 0x1f02, SHADING_LANGUAGE_VERSION: 0x8b8c,
    UNMASKED_VENDOR_WEBGL: 0x9245, UNMASKED_RENDERER_WEBGL: 0x9246,
  };

  const owner = (name) => (name == "Window" ? scope : scope[name]?.prototype);
  function trap(interfaceName, member, name) {
    const target = owner(interfaceName);
    const found = target && getOwnPropertyDescriptor(target, member);
    if (!found?.configurable) return;
    const text = withheld[name];
    if (found.get)
      found.get = proxied(found.get, (real, self) => {
        let value;
        try {
          value = apply(real, self, []);
        } catch (error) {
          if (error instanceof scope.TypeError) throw error; // for what is no such object, as without us
        }
        return lists.test(name) ? none : told(text, value);
      });
    else if (typeof found.value == "function")
      found.value = proxied(found.value, (real, self, given) => {
        if (instead[name]) return instead[name](self, given, real);
        if (promises.test(name)) return Promise.reject(refused());
        throw refused();
      });
    else found.value = told(text, found.value);
    defineProperty(target, member, found);
  }
  function trapGetter(target, member, how) {
    const found = target && getOwnPropertyDescriptor(target, member);
    if (!found?.get) return;
    found.get = proxied(found.get, (real, self) => how(self, apply(real, self, [])));
    defineProperty(target, member, found);
  }

  const parameters = new Map();
  const features = [];
  for (const name of names) {
    const [base, selector] = name.split("#");
    const [interfaceName, member] = base.split(".");
    if (name.startsWith("css:")) features.push(name.slice(4));
    else if (member == "getParameter") parameters.set(numbers[selector], withheld[name]);
    else if (member == "constructor") for (const prefix of ["", "webkit", "moz"]) delete scope[prefix + interfaceName];
    else if (member && selector === undefined) {
      trap(interfaceName, member, name);
      if (interfaceName == "Navigator") trap("WorkerNavigator", member, name);
    }
  }
  if (parameters.size)
    for (const name of ["WebGLRenderingContext", "WebGL2RenderingContext"]) {
      const target = owner(name);
      if (target)
        target.getParameter = proxied(target.getParameter, (real, self, given) =>
          parameters.has(given[0]) ? parameters.get(given[0]) : apply(real, self, given));
    }
  // Scripts are told that no media feature matches; style sheets are beyond reach.
  if (features.length && scope.matchMedia) {
    const feature = new RegExp(`\\(\\s*(-webkit-|-moz-)?(min-|max-|min--moz-|max--moz-)?(${features.join("|")})\\b`, "i");
    scope.matchMedia = proxied(scope.matchMedia, (real, self, [query, ...rest]) =>
      apply(real, self, [feature.test(query) ? "not all" : query, ...rest]));
  }
  if ("Window.devicePixelRatio" in withheld)
    trapGetter(owner("ResizeObserverEntry"), "devicePixelContentBoxSize", (self) => self.contentBoxSize);

  // Frames that a script reaches before they have loaded. Those of another origin run this script by themselves.
  const reach = (window) => {
    try {
      if (window?.document) install(withheld, null, window);
    } catch {}
    return window;
  };
  const reachAll = () => {
    for (let place = 0; place < scope.length; place++) reach(scope[place]);
  };
  // A window that may be as large as the screen tells its size: none that a script makes is larger than all screens.
  const most = { width: 800, height: 600 };
  const sides = Object.keys(most).filter((side) => `Screen.${side}` in withheld);
  const bounded = (features) =>
    sides.length && features
      ? `${features}`.replace(/\b(inner|outer)?(width|height)\s*=\s*(\d+)/gi, (text, part, side, size) =>
          sides.includes(side.toLowerCase()) ? `${part ?? ""}${side}=${Math.min(size, most[side.toLowerCase()])}` : text)
      : features;
  if (scope.document) {
    if (sides.length)
      for (const [member, now] of [["resizeTo", () => [0, 0]], ["resizeBy", (window) => [window.outerWidth, window.outerHeight]]])
        if (scope[member])
          scope[member] = proxied(scope[member], (real, self, given) => {
            const had = now(self ?? scope);
            const fits = (side, place) => !sides.includes(side) || had[place] + Number(given[place]) <= most[side];
            return fits("width", 0) && fits("height", 1) ? apply(real, self, given) : undefined;
          });
    for (const name of ["HTMLIFrameElement", "HTMLFrameElement", "HTMLObjectElement", "HTMLEmbedElement"]) {
      trapGetter(owner(name), "contentWindow", (_, value) => reach(value));
      trapGetter(owner(name), "contentDocument", (_, value) => (reach(value?.defaultView), value));
    }
    scope.open = proxied(scope.open, (real, self, [address, name, features, ...rest]) =>
      reach(apply(real, self, [address, name, bounded(features), ...rest])));
    for (const [name, members] of Object.entries({
      Node: "appendChild insertBefore replaceChild",
      Element: "append prepend before after replaceWith replaceChildren insertAdjacentElement insertAdjacentHTML moveBefore",
      CharacterData: "before after replaceWith",
      Document: "append prepend replaceChildren write writeln open close",
      DocumentFragment: "append prepend replaceChildren",
      Range: "insertNode surroundContents",
    }))
      for (const member of members.split(" ")) {
        const target = owner(name);
        if (target[member])
          target[member] = proxied(target[member], (real, self, given) => {
            const value = apply(real, self, given);
            reachAll();
            return value;
          });
      }
    for (const [name, member] of [["Element", "innerHTML"], ["Element", "outerHTML"], ["HTMLIFrameElement", "srcdoc"]]) {
      const target = owner(name), found = getOwnPropertyDescriptor(target, member);
      found.set = proxied(found.set, (real, self, given) => (apply(real, self, given), reachAll()));
      defineProperty(target, member, found);
    }
  }

  // Workers begin with this script. What theirs ask for lies beside it.
  const at = (address) => new URL(address, base ?? scope.document.baseURI).href;
  if (base !== null) {
    const { importScripts, fetch } = scope;
    if (importScripts) scope.importScripts = (...addresses) => importScripts.apply(scope, addresses.map(at));
    scope.fetch = (what, ...rest) => fetch.call(scope, typeof what == "string" ? at(what) : what, ...rest);
    const requests = owner("XMLHttpRequest");
    requests.open = proxied(requests.open, (real, self, [how, address, ...rest]) => apply(real, self, [how, at(address), ...rest]));
  }
  // Pages forget the addresses of their blobs early, and Firefox imports none without a type: their text is put behind ours.
  const blobs = new Map();
  const { createObjectURL, revokeObjectURL } = URL;
  URL.createObjectURL = proxied(createObjectURL, (real, self, given) => {
    const address = apply(real, self, given);
    if (given[0] instanceof Blob) blobs.set(address, given[0]);
    return address;
  });
  URL.revokeObjectURL = proxied(revokeObjectURL, (real, self, given) => (blobs.delete(`${given[0]}`), apply(real, self, given)));
  const file = (...parts) => apply(createObjectURL, URL, [new Blob(parts, { type: "text/javascript" })]);
  for (const name of ["Worker", "SharedWorker"])
    if (scope[name])
      scope[name] = new Proxy(scope[name], {
        construct(target, [address, options, ...rest], as) {
          const own = at(address), named = JSON.stringify(own);
          const first = `(${install})(${JSON.stringify(withheld)}, ${named}, globalThis);`;
          const script = blobs.get(own);
          const whole = options?.type == "module"
            ? [`import ${JSON.stringify(file(first))};\n`, script ?? `import ${named};`]
            : [`${first}\n`, script ?? `importScripts(${named});`];
          return construct(target, [file(...whole), options, ...rest], as);
        },
      });
}
install(/* what is withheld */ null, null, globalThis);
