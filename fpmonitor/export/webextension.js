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
    // Whether a font is there: all are, and all load.
    "FontFace.load": (self, given, real) => apply(real, self, given).catch(() => self),
    "FontFaceSet.check": () => true,
    "FontFaceSet.load": async (self, given, real) => {
      await apply(real, self, given).catch((error) => {
        if (error.name == "SyntaxError") throw error;
      });
      const asked = `${given[0]}`.toLowerCase();
      return [...self].filter(({ family }) => asked.includes(family.replace(/^["']|["']$/g, "").toLowerCase()));
    },
    "GPU.requestAdapter": async () => null,
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
    "WebGLRenderingContext.getContextAttributes": (self, given, real) => {
      const told = apply(real, self, given);
      return told && Object.assign(told, { antialias: true });
    },
    "WebGLRenderingContext.getExtension": (self, given, real) => (common.test(given[0]) ? apply(real, self, given) : null),
    "WebGLRenderingContext.getSupportedExtensions": (self, given, real) =>
      apply(real, self, given)?.filter((name) => common.test(name)) ?? null,
    "WebGLRenderingContext.readPixels": () => undefined,
  };
  const promises =
    /^(Navigator\.(getBattery|request.*)|Keyboard\..*|VideoFrame\.copyTo|Window\.(queryLocalFonts|getScreenDetails))$/;
  const lists = /^Navigator\.(plugins|mimeTypes)$/;
  const numbers = {
    VENDOR: 0x1f00, RENDERER: 0x1f01, VERSION: 0x1f02, SHADING_LANGUAGE_VERSION: 0x8b8c,
    UNMASKED_VENDOR_WEBGL: 0x9245, UNMASKED_RENDERER_WEBGL: 0x9246,
  };
  // What nearly all graphics have: pages that ask for no more go on.
  const common =
    /^(ANGLE_instanced_arrays|EXT_blend_minmax|EXT_color_buffer_float|OES_(element_index_uint|standard_derivatives|texture_(half_)?float|vertex_array_object)|WEBGL_(debug_renderer_info|lose_context))$/i;
  const least = { // by OpenGL ES 3.0, tables 6.29 to 6.34, with textures of today
    ALIASED_LINE_WIDTH_RANGE: 1, ALIASED_POINT_SIZE_RANGE: 1, MAX_3D_TEXTURE_SIZE: 256, MAX_ARRAY_TEXTURE_LAYERS: 256,
    MAX_CLIENT_WAIT_TIMEOUT_WEBGL: 0, MAX_COLOR_ATTACHMENTS: 4, MAX_COMBINED_FRAGMENT_UNIFORM_COMPONENTS: 50048,
    MAX_COMBINED_TEXTURE_IMAGE_UNITS: 32, MAX_COMBINED_UNIFORM_BLOCKS: 24, MAX_COMBINED_VERTEX_UNIFORM_COMPONENTS: 50176,
    MAX_CUBE_MAP_TEXTURE_SIZE: 4096, MAX_DRAW_BUFFERS: 4, MAX_ELEMENTS_INDICES: 65536, MAX_ELEMENTS_VERTICES: 65536,
    MAX_ELEMENT_INDEX: 16777215, MAX_FRAGMENT_INPUT_COMPONENTS: 60, MAX_FRAGMENT_UNIFORM_BLOCKS: 12,
    MAX_FRAGMENT_UNIFORM_COMPONENTS: 896, MAX_FRAGMENT_UNIFORM_VECTORS: 224, MAX_PROGRAM_TEXEL_OFFSET: 7,
    MAX_RENDERBUFFER_SIZE: 4096, MAX_SAMPLES: 4, MAX_SERVER_WAIT_TIMEOUT: 0, MAX_TEXTURE_IMAGE_UNITS: 16,
    MAX_TEXTURE_LOD_BIAS: 2, MAX_TEXTURE_SIZE: 4096, MAX_TRANSFORM_FEEDBACK_INTERLEAVED_COMPONENTS: 64,
    MAX_TRANSFORM_FEEDBACK_SEPARATE_ATTRIBS: 4, MAX_TRANSFORM_FEEDBACK_SEPARATE_COMPONENTS: 4, MAX_UNIFORM_BLOCK_SIZE: 16384,
    MAX_UNIFORM_BUFFER_BINDINGS: 24, MAX_VARYING_COMPONENTS: 60, MAX_VARYING_VECTORS: 15, MAX_VERTEX_ATTRIBS: 16,
    MAX_VERTEX_OUTPUT_COMPONENTS: 64, MAX_VERTEX_TEXTURE_IMAGE_UNITS: 16, MAX_VERTEX_UNIFORM_BLOCKS: 12,
    MAX_VERTEX_UNIFORM_COMPONENTS: 1024, MAX_VERTEX_UNIFORM_VECTORS: 256, MAX_VIEWPORT_DIMS: 4096,
    MIN_PROGRAM_TEXEL_OFFSET: -8, SAMPLES: 4, SAMPLE_BUFFERS: 1, SUBPIXEL_BITS: 4, UNIFORM_BUFFER_OFFSET_ALIGNMENT: 256,
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
        const answer = instead[name.replace("WebGL2", "WebGL")];
        if (answer) return answer(self, given, real);
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
  const hints = new Map();
  const features = [];
  for (const name of names) {
    const [base, selector] = name.split("#");
    const [interfaceName, member] = base.split(".");
    if (name.startsWith("css:")) features.push(name.slice(4));
    else if (member == "getParameter") parameters.set(numbers[selector] ?? selector, withheld[name]);
    else if (member == "getHighEntropyValues" && selector) hints.set(selector, withheld[name]);
    else if (member == "constructor") for (const prefix of ["", "webkit", "moz"]) delete scope[prefix + interfaceName];
    else if (member && selector === undefined) {
      trap(interfaceName, member, name);
      if (interfaceName == "Navigator") trap("WorkerNavigator", member, name);
    }
  }
  if (parameters.size)
    for (const type of ["WebGLRenderingContext", "WebGL2RenderingContext"]) {
      const target = owner(type);
      if (!target) continue;
      const limits = new Map(parameters.has("limits") ? Object.entries(least).map(([name, limit]) => [target[name], limit]) : []);
      if (limits.size) limits.set(0x84ff, 2).delete(undefined); // of filters that follow a direction
      if (limits.size && target.getInternalformatParameter)
        target.getInternalformatParameter = proxied(target.getInternalformatParameter, (real, self, given) => {
          const samples = apply(real, self, given);
          return samples?.length ? scope.Int32Array.of(least.SAMPLES) : samples;
        });
      target.getParameter = proxied(target.getParameter, (real, self, given) => {
        if (parameters.has(given[0])) return parameters.get(given[0]);
        const value = apply(real, self, given);
        if (!limits.has(given[0]) || value === null) return value;
        return typeof value == "object" ? value.fill(limits.get(given[0])) : limits.get(given[0]);
      });
    }
  if (hints.size && owner("NavigatorUAData")) {
    const target = owner("NavigatorUAData");
    target.getHighEntropyValues = proxied(target.getHighEntropyValues, async (real, self, given) => {
      const found = await apply(real, self, given);
      for (const [hint, text] of hints)
        if (text === null) delete found[hint];
        else if (hint in found) found[hint] = told(text, found[hint]);
      return found;
    });
  }
  if ("FontFace.load" in withheld) {
    trapGetter(owner("FontFace"), "loaded", (self, value) => value.catch(() => self));
    trapGetter(owner("FontFace"), "status", (_, value) => (value == "error" ? "loaded" : value));
  }
  // Scripts are told that no media feature matches, however it is written; style sheets are beyond reach.
  if (features.length && scope.matchMedia) {
    if (features.includes("resolution")) features.push("device-pixel-ratio");
    const feature = new RegExp(`[(<>=]\\s*(-webkit-|-moz-)?(min-|max-|min--moz-|max--moz-)?(${features.join("|")})(?![\\w-])`, "i");
    scope.matchMedia = proxied(scope.matchMedia, (real, self, given) => {
      const query = apply(real, self, given);
      return feature.test(query.media) ? apply(real, self, ["not all"]) : query;
    });
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
