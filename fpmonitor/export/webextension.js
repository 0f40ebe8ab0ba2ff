// Runs in each page and frame before its own scripts, and at the beginning of its workers. `withheld` has, for each
// name that is withheld, the text of the value that all are told, or null for a plain refusal. `base` is the address
// of a worker's script, null in pages.
//
// A page may put functions of its own in the place of the browser's, and objects that pass through these are seen. So
// what meets a value of the browser's own is taken here before the page begins: lists are read by their places, objects
// for the browser inherit nothing, and what a page gives is made a text or a number once, before it is judged.
function run(withheld, base) {
  "use strict";
  const { apply, construct, defineProperty, getOwnPropertyDescriptor: ownOf, setPrototypeOf } = Reflect;
  const { parse, stringify } = JSON;
  const { freeze, getPrototypeOf } = Object, { isArray } = Array;
  const { Map, Proxy, WeakMap, WeakSet } = globalThis;
  const { exec, [Symbol.replace]: replaceIn } = RegExp.prototype;
  const { iterator } = Symbol, { then } = Promise.prototype, { fill } = Int8Array.prototype;
  const mark = Symbol.for("fpmonitor"), code = `${run}`, table = stringify(withheld);

  // What is given to the browser as the description of a member inherits nothing of a page.
  const describe = (target, member) => {
    const found = ownOf(target, member);
    if (found) setPrototypeOf(found, null);
    return found;
  };
  const lengthOf = describe(getPrototypeOf(Int8Array.prototype), "length").get;
  const matches = (pattern, text) => apply(exec, pattern, [text]) !== null;
  const each = (list, how) => {
    for (let place = 0; place < list.length; place++) how(list[place]);
  };
  const put = (target, member, value, enumerable = true) =>
    defineProperty(target, member, { __proto__: null, value, writable: true, enumerable, configurable: true });
  const copied = (list) => {
    const copy = [];
    for (let place = 0; place < list.length; place++) put(copy, place, list[place]);
    return copy;
  };
  // A pattern that is searched and replaced without functions of the page.
  const fixed = (pattern, flags) => {
    put(pattern, "exec", exec);
    put(pattern, "flags", flags);
    put(pattern, "global", true);
    put(pattern, "unicode", false);
    return pattern;
  };
  const attempt = (how, self, given, failed) => {
    try {
      return apply(how, self, given);
    } catch {
      return failed;
    }
  };
  const proxied = (original, how) =>
    new Proxy(original, { __proto__: null, apply: (target, self, given) => how(target, self, given) });
  const after = (promise, kept, failed) => {
    put(promise, "constructor", undefined);
    return apply(then, promise, [kept, failed]);
  };
  const listed = (parts) => ({
    __proto__: null,
    [iterator]() {
      let place = 0;
      return { __proto__: null, next: () => ({ __proto__: null, done: place >= parts.length, value: parts[place++] }) };
    },
  });

  // A value as its reader expects it.
  const told = (text, real) => {
    if (text === null) return isArray(real) ? freeze([]) : undefined;
    if (typeof real == "number") return +text;
    if (typeof real == "boolean") return text == "true";
    if (typeof real == "object" && real)
      try {
        return freeze(parse(text));
      } catch {}
    return text;
  };
  const none = freeze(Object.assign([], { item: () => null, namedItem: () => null, refresh() {} }));
  const promises =
    /^(Navigator\.(getBattery|request.*)|Keyboard\..*|VideoFrame\.copyTo|Window\.(queryLocalFonts|getScreenDetails))$/;
  const numbers = {
    VENDOR: 0x1f00, RENDERER: 0x1f01, VERSION: 0x1f02, SHADING_LANGUAGE_VERSION: 0x8b8c,
    UNMASKED_VENDOR_WEBGL: 0x9245, UNMASKED_RENDERER_WEBGL: 0x9246,
  };
  // Of storage all are told as much as by a browser that tells no disk, or what users share.
  const quotaOf = (text) => {
    const found = attempt(parse, null, [text]);
    return +(attempt((value) => value.quota, null, [found]) ?? found) || 10 * 2 ** 30;
  };
  const estimated = async () => ({ quota: quotaOf(withheld["StorageManager.estimate"]), usage: 0 });
  const kindsOfHints = { wow64: false, formFactors: [], fullVersionList: [] };
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
  const limited = Object.entries(least);
  // Methods that make textures and buffers, with the places of their sizes; what an image's size is read by.
  const sized = {
    __proto__: null, compressedTexImage2D: [3, 4], compressedTexImage3D: [3, 4, 5], copyTexImage2D: [5, 6],
    renderbufferStorage: [2, 3], renderbufferStorageMultisample: [3, 4], texImage2D: [3, 4], texImage3D: [3, 4, 5],
    texStorage2D: [3, 4], texStorage3D: [3, 4, 5],
  };
  // Methods that name one of several units: how many all are told, where numbers begin, and the place of the number.
  const ATTACHMENT = 0x8ce0, placed = { __proto__: null };
  for (const [most, first, place, names] of [
    [least.MAX_COMBINED_TEXTURE_IMAGE_UNITS, 0x84c0, 0, "activeTexture"],
    [least.MAX_COMBINED_TEXTURE_IMAGE_UNITS, 0, 0, "bindSampler"],
    [least.MAX_VERTEX_ATTRIBS, 0, 0, "disableVertexAttribArray enableVertexAttribArray getVertexAttrib getVertexAttribOffset"],
    [least.MAX_VERTEX_ATTRIBS, 0, 0, "vertexAttrib1f vertexAttrib2f vertexAttrib3f vertexAttrib4f vertexAttribI4i vertexAttribI4ui"],
    [least.MAX_VERTEX_ATTRIBS, 0, 0, "vertexAttrib1fv vertexAttrib2fv vertexAttrib3fv vertexAttrib4fv vertexAttribI4iv"],
    [least.MAX_VERTEX_ATTRIBS, 0, 0, "vertexAttribDivisor vertexAttribI4uiv vertexAttribIPointer vertexAttribPointer"],
    [least.MAX_VERTEX_ATTRIBS, 0, 1, "bindAttribLocation"],
    [least.MAX_COLOR_ATTACHMENTS, ATTACHMENT, 0, "readBuffer"],
    [least.MAX_COLOR_ATTACHMENTS, ATTACHMENT, 1, "framebufferRenderbuffer framebufferTexture2D framebufferTextureLayer"],
    [least.MAX_COLOR_ATTACHMENTS, ATTACHMENT, 1, "getFramebufferAttachmentParameter"],
    [least.MAX_DRAW_BUFFERS, 0, 1, "clearBufferfv clearBufferiv clearBufferuiv"],
    [least.MAX_UNIFORM_BUFFER_BINDINGS, 0, 1, "bindBufferBase bindBufferRange getIndexedParameter"],
    [least.MAX_UNIFORM_BUFFER_BINDINGS, 0, 2, "uniformBlockBinding"],
    // A texture of the largest size has so many levels.
    [13, 0, 1, "compressedTexImage2D compressedTexImage3D copyTexImage2D texImage2D texImage3D"],
  ])
    for (const name of names.split(" ")) placed[name] = { most, first, place };
  // What shaders read of these limits.
  const constants = { __proto__: null, gl_MaxFragmentInputVectors: 15, gl_MaxVertexOutputVectors: 16 };
  for (const [name, most] of limited)
    constants[`gl_${name.toLowerCase().replace(/(?:^|_)(.)/g, (_, letter) => letter.toUpperCase())}`] = most;
  const images = [
    ["HTMLCanvasElement", "width", "height"], ["HTMLImageElement", "naturalWidth", "naturalHeight"],
    ["HTMLVideoElement", "videoWidth", "videoHeight"], ["ImageBitmap", "width", "height"], ["ImageData", "width", "height"],
    ["OffscreenCanvas", "width", "height"], ["VideoFrame", "displayWidth", "displayHeight"],
  ];

  // What is to be done in each window and worker.
  const traps = [], gone = [], features = [], parameters = { __proto__: null }, hints = { __proto__: null };
  for (const name of Object.keys(withheld)) {
    const [base, selector] = name.split("#"), [type, member] = base.split("."), text = withheld[name];
    if (name.startsWith("css:")) features.push(name.slice(4));
    else if (member == "getParameter") parameters[numbers[selector] ?? selector] = text;
    else if (member == "getHighEntropyValues" && selector) hints[selector] = text;
    else if (member == "constructor") gone.push(type, `webkit${type}`, `moz${type}`);
    else if (member && selector === undefined)
      for (const owner of type == "Navigator" ? [type, "WorkerNavigator"] : [type])
        traps.push({
          owner, member, text, by: name.replace("WebGL2", "WebGL"), promises: promises.test(name),
          isList: /^Navigator\.(plugins|mimeTypes)$/.test(name),
        });
  }
  const hasHints = Object.keys(hints).length > 0;
  if (features.includes("resolution")) features.push("device-pixel-ratio");
  const feature = new RegExp(`[(<>=]\\s*(-webkit-|-moz-)?(min-|max-|min--moz-|max--moz-)?(${features.join("|")})(?![\\w-])`, "i");
  // A window that may be as large as the screen tells its size: none that a script makes is larger than all screens.
  const most = { __proto__: null, width: 800, height: 600 };
  const bounded = { __proto__: null };
  for (const side in most) if (`Screen.${side}` in withheld) bounded[side] = most[side];
  // In Firefox, the edge at which a popup is stopped tells the pixel ratio as well.
  const isBounded = "width" in bounded || "height" in bounded || "Window.devicePixelRatio" in withheld;
  const sizes = fixed(/\b(?:(inner|outer)?(width|height)|(left|top|screen[xy]))[\s=]*=[\s=]*[+-]?(\d+)/gi, "gi");
  // Constants of shaders; what joins two lines.
  const constant = fixed(/\bgl_M(ax|in)\w+/g, "g"), joint = fixed(/\\\r?\n/g, "g");

  function install(scope) {
    // A window that goes on to another document keeps what it has, but for the view of what is put in.
    const known = describe(scope, mark);
    if (known) return known.value();
    const { ImageData, OffscreenCanvas, Float32Array, Int32Array, TypeError, DOMException } = scope;
    const owned = (type) => (type == "Window" ? scope : scope[type]?.prototype);
    const native = (type, member, part = "value") => {
      const target = owned(type);
      return target && describe(target, member)?.[part];
    };
    const exchange = (target, member, part, how) => {
      const found = target && describe(target, member);
      if (typeof found?.[part] != "function" || !found.configurable) return;
      found[part] = proxied(found[part], how);
      defineProperty(target, member, found);
    };
    const method = (type, member, how) => exchange(owned(type), member, "value", how);
    const getter = (type, member, how) =>
      exchange(owned(type), member, "get", (real, self) => how(self, apply(real, self, [])));

    let hearFonts = () => {};
    const listen = native("EventTarget", "addEventListener"), stop = native("Event", "stopImmediatePropagation");
    const nameOf = native("DOMException", "name", "get"), createElement = native("Document", "createElement");
    const contextOf = native("OffscreenCanvas", "getContext");
    const setWidth = native("HTMLCanvasElement", "width", "set"), setHeight = native("HTMLCanvasElement", "height", "set");
    const blank = (self) => {
      const made = apply(createElement, scope.document, ["canvas"]);
      apply(setWidth, made, [self.width]);
      apply(setHeight, made, [self.height]);
      return made;
    };
    const clear = (_, given) => new ImageData(Math.abs(given[2]), Math.abs(given[3]));
    const refused = () => new DOMException("The request is not allowed.", "NotAllowedError");
    // What a method gives in place of what it read; others throw, or reject where they would have promised.
    const instead = {
      __proto__: null,
      "AnalyserNode.getByteFrequencyData": (_, given) => void apply(fill, given[0], [0]),
      "AnalyserNode.getByteTimeDomainData": (_, given) => void apply(fill, given[0], [128]),
      "AnalyserNode.getFloatFrequencyData": (_, given) => void apply(fill, given[0], [-Infinity]),
      "AnalyserNode.getFloatTimeDomainData": (_, given) => void apply(fill, given[0], [0]),
      "AudioBuffer.copyFromChannel": (_, given) => void apply(fill, given[0], [0]),
      "AudioBuffer.getChannelData": (self) => new Float32Array(self.length),
      // Whether a font is there: all are, and all load.
      "FontFace.load": (self, given, real) => after(apply(real, self, given), undefined, () => self),
      "FontFaceSet.check": () => true,
      "FontFaceSet.load": (self, given, real) => {
        const asked = `${given[0]}`.toLowerCase();
        const found = () => [...self].filter(({ family }) => asked.includes(family.replace(/^["']|["']$/g, "").toLowerCase()));
        return after(apply(real, self, given), found, (error) => {
          if (apply(nameOf, error, []) == "SyntaxError") throw error;
          return found();
        });
      },
      "GPU.requestAdapter": async () => null,
      "CanvasRenderingContext2D.getImageData": clear,
      "HTMLCanvasElement.toBlob": (self, given, real) => apply(real, blank(self), given),
      "HTMLCanvasElement.toDataURL": (self, given, real) => apply(real, blank(self), given),
      "MediaDevices.enumerateDevices": async () => [],
      "Navigator.getGamepads": () => [],
      "Navigator.javaEnabled": () => false,
      "NavigatorUAData.getHighEntropyValues": async ({ brands, mobile, platform }) => ({ brands, mobile, platform }),
      "OffscreenCanvas.convertToBlob": (self, given, real) => {
        const copy = new OffscreenCanvas(self.width, self.height);
        apply(contextOf, copy, ["2d"]);
        return apply(real, copy, given);
      },
      "OffscreenCanvasRenderingContext2D.getImageData": clear,
      "SpeechSynthesis.getVoices": () => [],
      "StorageAccessHandle.estimate": estimated,
      "StorageBucket.estimate": estimated,
      "StorageManager.estimate": estimated,
      "WebGLRenderingContext.getContextAttributes": (self, given, real) => {
        const found = apply(real, self, given);
        if (found) put(found, "antialias", true);
        return found;
      },
      "WebGLRenderingContext.getExtension": (self, given, real) => {
        const name = `${given[0]}`;
        return matches(common, name) ? apply(real, self, [name]) : null;
      },
      "WebGLRenderingContext.getSupportedExtensions": (self, given, real) => {
        const found = apply(real, self, given), kept = [];
        for (let place = 0; place < found?.length; place++)
          if (matches(common, found[place])) put(kept, kept.length, found[place]);
        return found && kept;
      },
      "WebGLRenderingContext.readPixels": () => undefined,
    };
    each(gone, (name) => delete scope[name]);
    each(traps, ({ owner, member, text, by, promises, isList }) => {
      const target = owned(owner), found = target && describe(target, member);
      if (!found?.configurable) return;
      if (found.get)
        found.get = proxied(found.get, (real, self) => {
          let value;
          try {
            value = apply(real, self, []);
          } catch (error) {
            if (error instanceof TypeError) throw error; // for what is no such object, as without us
          }
          return isList ? none : told(text, value);
        });
      else if (typeof found.value == "function")
        found.value = proxied(found.value, (real, self, given) => {
          if (instead[by]) return instead[by](self, given, real);
          if (promises) return (async () => { throw refused(); })();
          throw refused();
        });
      else found.value = told(text, found.value);
      defineProperty(target, member, found);
    });
    each(["WebGLRenderingContext", "WebGL2RenderingContext"], (type) => {
      const target = owned(type), limits = { __proto__: null };
      if (!target) return;
      if ("limits" in parameters) {
        each(limited, (limit) => {
          if (target[limit[0]] !== undefined) limits[target[limit[0]]] = limit[1];
        });
        limits[0x84ff] = 2; // of filters that follow a direction
        method(type, "getInternalformatParameter", (real, self, given) => {
          const samples = apply(real, self, given);
          return samples && apply(lengthOf, samples, []) ? Int32Array.of(least.SAMPLES) : samples;
        });
        limitSizes(type, { native, method, getter });
        limitUnits(type, { method });
        limitShaders(type, { native, method });
      }
      method(type, "getParameter", (real, self, given) => {
        const asked = given[0] >>> 0;
        if (asked in parameters) return parameters[asked];
        const value = apply(real, self, given.length ? [asked] : []);
        // The viewport and the scissors begin as large as what is drawn in.
        if ((asked == 0x0ba2 || asked == 0x0c10) && "limits" in parameters && value)
          for (let side = 2; side < 4; side++) if (value[side] > least.MAX_VIEWPORT_DIMS) value[side] = least.MAX_VIEWPORT_DIMS;
        if (!(asked in limits) || value === null) return value;
        return typeof value == "object" ? apply(fill, value, [limits[asked]]) : limits[asked];
      });
    });
    if (hasHints)
      method("NavigatorUAData", "getHighEntropyValues", (real, self, given) => {
        const asked = [], answered = [];
        try {
          for (const one of given[0]) {
            const hint = `${one}`, to = hint in hints ? answered : asked;
            put(to, to.length, hint);
          }
        } catch {
          return apply(real, self, []);
        }
        return after(apply(real, self, [listed(asked)]), (found) => {
          each(answered, (hint) => hints[hint] !== null && put(found, hint, told(hints[hint], kindsOfHints[hint])));
          return found;
        });
      });
    each(["brands", "mobile", "platform"], (part) => {
      const name = `NavigatorUAData.${part}`;
      if (name in withheld)
        method("NavigatorUAData", "toJSON", (real, self, given) => {
          const found = apply(real, self, given);
          put(found, part, told(withheld[name], found[part]));
          return found;
        });
    });
    if ("FontFace.load" in withheld) {
      hearFonts = () => {
        const fonts = scope.document ? apply(native("Document", "fonts", "get"), scope.document, []) : scope.fonts;
        if (fonts) apply(listen, fonts, ["loadingerror", (event) => apply(stop, event, [])]);
      };
      hearFonts();
      getter("FontFaceSetLoadEvent", "fontfaces", () => none);
      getter("FontFace", "loaded", (self, value) => after(value, undefined, () => self));
      getter("FontFace", "status", (_, value) => (value == "error" ? "loaded" : value));
    }
    // Scripts are told that no media feature matches, however it is written; style sheets are beyond reach.
    if (features.length && scope.matchMedia) {
      const mediaOf = native("MediaQueryList", "media", "get");
      method("Window", "matchMedia", (real, self, given) => {
        const query = apply(real, self, given);
        return matches(feature, apply(mediaOf, query, [])) ? apply(real, self, ["not all"]) : query;
      });
    }
    // Other names of the same.
    if ("Performance.memory" in withheld) exchange(scope.console, "memory", "get", () => told(withheld["Performance.memory"]));
    if ("AudioBuffer.getChannelData" in withheld) method("AudioData", "copyTo", () => undefined);
    if ("WebGL2RenderingContext.readPixels" in withheld) hideDraws({ method });
    if ("Navigator.requestMediaKeySystemAccess" in withheld)
      method("MediaCapabilities", "decodingInfo", (real, self, given) =>
        after(apply(real, self, given), (found) => {
          if (found.keySystemAccess) {
            each(["supported", "smooth", "powerEfficient"], (part) => put(found, part, false));
            put(found, "keySystemAccess", null);
          }
          return found;
        }));
    if ("Window.devicePixelRatio" in withheld)
      getter("ResizeObserverEntry", "devicePixelContentBoxSize", (self) => self.contentBoxSize);
    const watchAgain = scope.document && installFrames(scope, { native, method, getter, exchange, owned });
    installWorkers(scope, { native, method });
    defineProperty(scope, mark, { __proto__: null, value: () => (hearFonts(), watchAgain?.()) });
  }

  // What vertices become, and whether anything is drawn, tell of pixels.
  function hideDraws({ method }) {
    const targets = new WeakMap(), ANY_SAMPLES = 0x8c2f, ANY_SAMPLES_BY_HALF = 0x8d6a, RESULT = 0x8866, type = "WebGL2RenderingContext";
    method(type, "getBufferSubData", () => undefined);
    method(type, "beginQuery", (real, self, given) => {
      const target = given[0] >>> 0;
      attempt(set, targets, [given[1], target]);
      return apply(real, self, given.length > 1 ? [target, given[1]] : given);
    });
    method(type, "getQueryParameter", (real, self, given) => {
      if (given.length < 2) return apply(real, self, given);
      const asked = given[1] >>> 0, value = apply(real, self, [given[0], asked]), target = attempt(get, targets, [given[0]]);
      if (asked !== RESULT || value === null || (target !== ANY_SAMPLES && target !== ANY_SAMPLES_BY_HALF)) return value;
      return typeof value == "boolean" ? true : 1;
    });
  }

  // Graphics that take no more than all are told refuse larger sizes, or cut them: pages that try must see the same.
  function limitSizes(type, { native, method, getter }) {
    const most = least.MAX_TEXTURE_SIZE, cut = (size) => (size > most ? most : size), sizesOf = [];
    each(images, (image) => {
      for (let part = 1; part < 3; part++) {
        const read = native(image[0], image[part], "get");
        if (read) put(sizesOf, sizesOf.length, read);
      }
    });
    const isLarger = (source) => {
      for (let place = 0; place < sizesOf.length; place++) if (attempt(sizesOf[place], source, [], 0) > most) return true;
      return false;
    };
    // What the browser is given: a number where a size is, read once.
    const sent = (given, places, judge) => {
      const parts = copied(given);
      each(places, (place) => place < given.length && put(parts, place, judge(parts[place] | 0, place)));
      return parts;
    };
    for (const name in sized)
      method(type, name, (real, self, given) => {
        if (name == "texImage2D" && given.length < 7) {
          const refused = given.length == 6 && isLarger(given[5]);
          return apply(real, self, refused ? [given[0], given[1], given[2], -1, -1, 0, given[3], given[4], null] : given);
        }
        const places = sized[name], target = given[0] | 0;
        const parts = sent(given, places, (size, place) => {
          const isDeep = target == 0x806f || place == places[2];
          return size > (isDeep ? least.MAX_3D_TEXTURE_SIZE : most) ? -1 : size;
        });
        if (given.length) put(parts, 0, target);
        if (name == "renderbufferStorageMultisample" && given.length > 1)
          put(parts, 1, (given[1] | 0) > least.MAX_SAMPLES ? 1 << 30 : given[1] | 0);
        return apply(real, self, parts);
      });
    method(type, "viewport", (real, self, given) => apply(real, self, sent(given, [2, 3], cut)));
    method(type, "lineWidth", (real, self, given) => {
      const width = +given[0];
      return apply(real, self, given.length ? [width > 1 ? 1 : width] : given);
    });
    each(["drawingBufferWidth", "drawingBufferHeight"], (side) => getter(type, side, (_, size) => cut(size)));
  }

  // So for units that have a number, of which all have so many: the browser is given one that nothing has.
  function limitUnits(type, { method }) {
    const isBeyond = (number, most, first) => number - first >= most && (first != ATTACHMENT || number - first < 32);
    for (const name in placed)
      method(type, name, (real, self, given) => {
        const { most, first, place } = placed[name], parts = copied(given);
        if (place < given.length) {
          const isOfOutput = place == 1 && most == least.MAX_UNIFORM_BUFFER_BINDINGS && (parts[0] |= 0) == 0x8c8e;
          const number = parts[place] >>> 0;
          const all = isOfOutput ? least.MAX_TRANSFORM_FEEDBACK_SEPARATE_ATTRIBS : most;
          put(parts, place, isBeyond(number, all, first) ? -1 : number);
        }
        return apply(real, self, parts);
      });
    // Lists are read once, as the browser would.
    const withList = (name, place, judge) =>
      method(type, name, (real, self, given) => {
        const parts = copied(given), list = [];
        try {
          for (const one of parts[place]) put(list, list.length, typeof one == "string" ? one : one >>> 0);
        } catch {
          return apply(real, self, parts);
        }
        put(parts, place, listed(list));
        judge(list, parts);
        return apply(real, self, parts);
      });
    const withoutBeyond = (list) => {
      for (let place = 0; place < list.length; place++)
        if (isBeyond(list[place], least.MAX_COLOR_ATTACHMENTS, ATTACHMENT)) put(list, place, -1);
    };
    each(["invalidateFramebuffer", "invalidateSubFramebuffer"], (name) => withList(name, 1, withoutBeyond));
    withList("drawBuffers", 0, (list) => {
      withoutBeyond(list);
      if (list.length > least.MAX_DRAW_BUFFERS) put(list, 255, 0);
    });
    withList("transformFeedbackVaryings", 1, (list, parts) => {
      if ((parts[2] | 0) == 0x8c8d && list.length > least.MAX_TRANSFORM_FEEDBACK_SEPARATE_ATTRIBS) put(parts, 2, -1);
    });
  }

  // Shaders read the limits that all are told; a program that needs more than these is not linked.
  function limitShaders(type, { native, method }) {
    const sources = new WeakMap(), judged = new WeakMap();
    const limitOf = (name) => {
      const isThere = name in constants && (type == "WebGL2RenderingContext" || name != "gl_MaxDrawBuffers");
      return isThere ? `(${constants[name]})` : name;
    };
    method(type, "shaderSource", (real, self, given) => {
      if (given.length < 2) return apply(real, self, given);
      const source = `${given[1]}`, answer = apply(real, self, [
        given[0], apply(replaceIn, constant, [apply(replaceIn, joint, [source, ""]), limitOf]),
      ]);
      apply(set, sources, [given[0], source]);
      return answer;
    });
    method(type, "getShaderSource", (real, self, given) => {
      const found = apply(real, self, given);
      return found ? apply(get, sources, [given[0]]) ?? found : found;
    });
    const parameterOf = native(type, "getProgramParameter");
    const uniformOf = native(type, "getActiveUniform"), blocksOf = native(type, "getActiveUniforms");
    const sizeOf = native("WebGLActiveInfo", "size", "get"), kindOf = native("WebGLActiveInfo", "type", "get");
    const createProgram = native(type, "createProgram"), deleteProgram = native(type, "deleteProgram");
    const columns = { // of matrices
      __proto__: null, 0x8b5a: 2, 0x8b5b: 3, 0x8b5c: 4, 0x8b65: 2, 0x8b66: 2, 0x8b67: 3, 0x8b68: 3, 0x8b69: 4, 0x8b6a: 4,
    };
    // Vertices and fragments have theirs each; which of both a uniform is of is not told.
    const mostVectors = least.MAX_VERTEX_UNIFORM_VECTORS + least.MAX_FRAGMENT_UNIFORM_VECTORS;
    const isTooLarge = (gl, program) => {
      const known = apply(get, judged, [program]);
      if (known !== undefined) return known;
      if (attempt(parameterOf, gl, [program, 0x8b82]) !== true) return false; // it is not linked in any case
      let vectors = 0, samplers = 0;
      const count = apply(parameterOf, gl, [program, 0x8b86]);
      for (let place = 0; place < count; place++) {
        if (blocksOf && apply(blocksOf, gl, [program, listed([place]), 0x8a3a])[0] != -1) continue;
        const found = apply(uniformOf, gl, [program, place]);
        if (!found) continue; // the context was lost
        const kind = apply(kindOf, found, []), size = apply(sizeOf, found, []);
        if ((kind >= 0x8b5e && kind <= 0x8b60) || kind == 0x8b62 || (kind >= 0x8dc1 && kind <= 0x8dd8)) samplers += size;
        else vectors += size * (columns[kind] ?? 1);
      }
      const isLarge =
        vectors > mostVectors || samplers > least.MAX_COMBINED_TEXTURE_IMAGE_UNITS ||
        apply(parameterOf, gl, [program, 0x8b89]) > least.MAX_VERTEX_ATTRIBS ||
        (blocksOf && apply(parameterOf, gl, [program, 0x8a36]) > least.MAX_COMBINED_UNIFORM_BLOCKS);
      apply(set, judged, [program, isLarge]);
      return isLarge;
    };
    method(type, "linkProgram", (real, self, given) => {
      const answer = apply(real, self, given);
      attempt(drop, judged, [given[0]]);
      return answer;
    });
    method(type, "getProgramParameter", (real, self, given) => {
      if (given.length < 2) return apply(real, self, given);
      const asked = given[1] >>> 0, value = apply(real, self, [given[0], asked]);
      return asked == 0x8b82 && value === true ? !isTooLarge(self, given[0]) : value;
    });
    method(type, "useProgram", (real, self, given) => {
      if (!given[0] || !isTooLarge(self, given[0])) return apply(real, self, given);
      const none = apply(createProgram, self, []);
      apply(real, self, [none]);
      apply(deleteProgram, self, [none]);
    });
  }

  const { has, add } = WeakSet.prototype, { delete: drop, get, set } = WeakMap.prototype, { slice, toLowerCase } = String.prototype;
  const FRAMES = "iframe,frame,object,embed";
  const isFrameKind = /^(i?frame|object|embed)$/i, hasFrame = /<\/?([^\s<>/]*:)?(i?frame|object|embed)\b/i, hasPicture = /<([^\s<>/]*:)?svg\b/i, hasLoad = /\bonload\b/i, isUndone = /^(undo|redo)$/i, movesNothing = /^(copy|selectAll|styleWithCSS|useCSS|defaultParagraphSeparator|enable\w*)$/i, runsAtOnce = /<[a-z][^\s>]*-|\s(on|is)[a-z]*\s*=/i;

  const isDeclared = /shadowrootmode/i, declaring = fixed(/shadowrootmode/gi, "gi");
  let hasElements = false; // of a page's own
  // Where a page calls near the end of the stack, it gets the error before there is a frame that we could not reach.
  const room = (depth = 2000) => depth && room(depth - 1);
  const isNew = (window) => window?.document && !describe(window, mark);
  // Frames that a script reaches before they have loaded. Those of another origin run this script by themselves.
  const reach = (window) => {
    if (attempt(isNew, null, [window])) room();
    try {
      if (window?.document) install(window);
    } catch {}
    return window;
  };

  function installFrames(scope, { native, method, getter, exchange, owned }) {
    const { document } = scope, roots = new WeakMap(), watched = new WeakSet();
    const countOf = describe(scope, "length")?.get, isTrusted = scope.trustedTypes?.isHTML;
    const isOf = native("Element", "matches"), closest = native("Element", "closest"), remove = native("Element", "remove"), nodesIn = native("NodeList", "length", "get"), observe = native("MutationObserver", "observe"), listen = native("EventTarget", "addEventListener");
    const addedOf = native("MutationRecord", "addedNodes", "get"), removedOf = native("MutationRecord", "removedNodes", "get"), takeRecords = native("MutationObserver", "takeRecords"), stateOf = native("Document", "readyState", "get"), shadowOf = native("Element", "shadowRoot", "get");
    const typeOf = native("Node", "nodeType", "get"), documentOf = native("Node", "ownerDocument", "get"), viewOf = native("Document", "defaultView", "get");
    const isConnectedOf = native("Node", "isConnected", "get"), rootOf = native("Document", "documentElement", "get"), parentOf = native("Node", "parentNode", "get"), firstOf = native("Node", "firstChild", "get"), appendChild = native("Node", "appendChild");
    const replaced = native("Element", "replaceWith"), restored = native("CharacterData", "replaceWith");
    const write = native("Document", "write"), createComment = native("Document", "createComment"), createFragment = native("Document", "createDocumentFragment");
    const importNode = native("Document", "importNode"), implementationOf = native("Document", "implementation", "get");
    const createDocument = native("DOMImplementation", "createHTMLDocument"), setInner = native("Element", "innerHTML", "set"), innerOf = native("Element", "innerHTML", "get"), setText = native("Node", "textContent", "set"), bodyOf = native("Document", "body", "get");
    const finders = { __proto__: null, 1: native("Element", "querySelectorAll"), 9: native("Document", "querySelectorAll"), 11: native("DocumentFragment", "querySelectorAll") };
    const contentOf = native("HTMLTemplateElement", "content", "get"), rootOfEvent = native("Event", "currentTarget", "get"), hostOf = native("ShadowRoot", "host", "get");
    const windowsOf = { __proto__: null };
    each(["HTMLIFrameElement", "HTMLFrameElement", "HTMLObjectElement", "HTMLEmbedElement"], (type) => {
      windowsOf[type] = native(type, "contentWindow", "get");
    });

    const written = { __proto__: null };
    each(["before", "after", "append", "prepend", "replaceWith", "replaceChildren"], (member) => {
      written[member] = native("Element", member);
    });
    const kindOf = (node) => (typeof node == "object" && node ? attempt(typeOf, node, []) : 0); // 1: an element, 9: a document, 11: a fragment
    const eachNode = (list, how) => {
      for (let place = 0, many = apply(nodesIn, list, []); place < many; place++) how(list[place]);
    };
    const within = (node, wanted, how) => {
      const find = finders[kindOf(node)];
      if (!find) return;
      const found = apply(find, node, [wanted]);
      eachNode(found, how);
    };
    // An option holds no frame: of one that is put into a list by its number, no script is told.
    const ancestorOf = native("Range", "commonAncestorContainer", "get");
    const OPTION = freeze(["option"]);
    const optionOf = (self) => {
      const kind = kindOf(self), at = kind ? self : attempt(ancestorOf, self, []); // of a range
      if (kind === 9 || kind === 11) return null;
      if (kind === 1) return apply(closest, self, OPTION);
      const holder = kindOf(at) === 1 ? at : attempt(parentOf, at, []);
      return kindOf(holder) === 1 ? apply(closest, holder, OPTION) : null;
    };
    const bare = (root) => (within(root, FRAMES, (frame) => optionOf(frame) && apply(remove, frame, [])), root);
    const meets = native("Range", "intersectsNode");
    const isFrame = (node) => kindOf(node) === 1 && apply(isOf, node, [FRAMES]);
    const reachAll = (view = scope) => {
      for (let place = countOf ? apply(countOf, view, []) : view.length; place-- > 0; ) reach(view[place]);
    };
    const reachFrom = (node) => {
      const view = attempt(viewOf, attempt(documentOf, node, []) ?? node, []);
      if (view && view !== scope) attempt(reachAll, null, [view]);
      reachAll();
    };
    // What the text of a page puts in, and shadow trees: scripts of a frame's address begin a moment later.
    const reachFrame = (frame) => {
      if (optionOf(frame)) return apply(remove, frame, []);
      for (const type in windowsOf) reach(windowsOf[type] && attempt(windowsOf[type], frame, []));
    };
    let shadows = false;
    const look = (node) => {
      if (kindOf(node) !== 1) return;
      if (isFrame(node)) reachFrame(node);
      within(node, FRAMES, reachFrame);
      enter(node);
      if (shadows) within(node, "*", enter);
    };
    const enter = (host) => {
      const root = apply(get, roots, [host]) ?? attempt(shadowOf, host, []);
      if (!root) return;
      shadows = true;
      watch(root);
      within(root, FRAMES, reachFrame);
      within(root, "*", enter);
    };
    // The browser goes on reading a page's text into what a script took out of the page.
    let isOpened = false; // a document, by a script
    const isRead = () => isOpened || apply(stateOf, scope.document, []) == "loading";
    const heed = (node) => {
      if (kindOf(node) !== 1) return;
      const option = optionOf(node);
      if (option) watch(option);
      within(node, "option", watch);
    };
    const see = (records) => {
      const isMoved = isRead();
      for (let place = 0; place < records.length; place++) {
        eachNode(apply(addedOf, records[place], []), look);
        if (isMoved) eachNode(apply(removedOf, records[place], []), heed);
      }
    };
    const watcher = new scope.MutationObserver((records) => (see(records), reachAll()));
    const seeNow = () => see(apply(takeRecords, watcher, []));
    const hear = (event) => (seeNow(), reachFrom(apply(rootOfEvent, event, []))); // of an empty frame, while others are put in
    const watch = (root) => {
      apply(listen, root, ["load", hear, true]); // again, where a document was opened anew
      if (apply(has, watched, [root])) return;
      apply(add, watched, [root]);
      bare(root);
      apply(observe, watcher, [root, { __proto__: null, childList: true, subtree: true }]);
    };
    watch(document);
    // A closed tree is not copied: nobody is given the copy.
    const attach = (real, self, asked) => {
      const of = { __proto__: null };
      each(["customElementRegistry", "delegatesFocus", "mode", "referenceTarget", "serializable", "slotAssignment"], (name) => {
        const value = asked[name];
        if (value !== undefined) of[name] = name == "mode" ? `${value}` : value;
      });
      if (of.mode != "closed") of.clonable = asked.clonable;
      const root = apply(real, self, [of]);
      shadows = true;
      apply(set, roots, [self, root]);
      watch(root);
      return root;
    };
    const attachShadow = native("Element", "attachShadow"), attributeOf = native("Element", "getAttribute"), hasAttribute = native("Element", "hasAttribute");
    method("Element", "attachShadow", (real, self, given) => (given[0] ? attach(real, self, given[0]) : apply(real, self, given)));
    // Trees that a script's text declares are made here, if they may hold a frame; where it is to be sanitised, none is.
    const declares = (text) => matches(isDeclared, `${text}`) && matches(hasFrame, `${text}`);
    const undeclared = (text) => apply(replaceIn, declaring, [`${text}`, "data-$&"]);
    const declare = (root) => {
      within(root, "template[shadowrootmode]", (template) => {
        const content = declare(apply(contentOf, template, [])), of = { __proto__: null };
        of.mode = apply(toLowerCase, apply(attributeOf, template, ["shadowrootmode"]), []);
        each(["clonable", "delegatesFocus", "serializable"], (name) => (of[name] = apply(hasAttribute, template, [`shadowroot${name}`])));
        const shadow = attempt(attach, null, [attachShadow, apply(parentOf, template, []), of]);
        if (!shadow) return;
        apply(appendChild, shadow, [content]);
        apply(remove, template, []);
      });
      return root;
    };

    // A frame is put in alone and empty: what is put in with it or in it, or told that it goes, would run before us.
    const emptied = (frame) => {
      let parts = null;
      for (let node; (node = apply(firstOf, frame, [])); ) apply(appendChild, (parts ??= apply(createFragment, document, [])), [node]);
      return parts;
    };
    // In Chromium, a field that goes tells that it is left.
    const blurs = scope.InternalError ? [] : [native("HTMLElement", "blur"), native("SVGElement", "blur")], activeOf = native("Document", "activeElement", "get"), contains = native("Node", "contains");
    const calm = (node, stays) => {
      if (!blurs.length || kindOf(node) !== 1 || !apply(isConnectedOf, node, [])) return;
      const active = apply(activeOf, apply(documentOf, node, []), []);
      if (active && !(stays && active === node) && apply(contains, node, [active])) each(blurs, (blur) => attempt(blur, active, []));
    };
    // What a node or a range that goes holds is held, too: a page that is told of its end could put frames into what comes.
    const hold = (given, first, end, leaving, isAlone, stays) => {
      const held = [];
      const keep = (frame, isAlone) => {
        if (!held.length) room();
        const comment = isAlone ? null : apply(createComment, document, [""]), parts = emptied(frame);
        put(held, held.length, [comment, frame, parts]);
        return { comment, parts };
      };
      const takeOut = (frame) => apply(replaced, frame, [keep(frame).comment]);
      const keepWithin = (node) => (calm(node, stays && node === leaving), within(node, FRAMES, takeOut));
      for (let had = -1; had < held.length && !(isAlone && had == 0); ) {
        had = held.length;
        if (kindOf(leaving)) keepWithin(leaving);
        else if (leaving) within(attempt(ancestorOf, leaving, []), FRAMES, (frame) => apply(meets, leaving, [frame]) && takeOut(frame));
        for (let place = first; place < end; place++)
          if (isFrame(given[place])) {
            const { comment, parts } = keep(given[place], isAlone);
            if (comment) put(given, place, comment);
            keepWithin(parts);
          } else keepWithin(given[place]);
      }
      return held;
    };
    const insert = (real, self, given, first = 0, end = given.length, leaving = null, stays = false) => {
      const option = optionOf(self), isLoose = !option && attempt(isConnectedOf, self, []) === false;
      if (isLoose) return apply(real, self, given);
      if (option && isRead()) watch(option);
      if (leaving && isFrame(leaving) && (leaving === self || apply(parentOf, leaving, []) === self)) {
        const comment = apply(createComment, document, [""]);
        apply(replaced, leaving, [comment]);
        if (leaving === self) return insert(restored, comment, given);
        insert(real, self, [given[0], comment], 0, 1, comment);
        return leaving;
      }
      const held = hold(given, first, end, leaving, !option && !leaving && end - first == 1 && isFrame(given[first]), stays);
      try {
        return apply(real, self, given);
      } finally {
        for (let place = 0; place < held.length; place++) {
          const comment = held[place][0]; // where it is now
          if (comment) apply(restored, comment, optionOf(comment) ? [] : [held[place][1]]);
          reachFrom(self);
          attempt(reachFrame, null, [held[place][1]]); // in a closed tree, no window has its number
          if (held[place][2]) apply(appendChild, held[place][1], [held[place][2]]);
        }
        reachFrom(self);
        if (shadows) for (let place = first; place < end; place++) attempt(look, null, [given[place]]);
      }
    };
    // Objects of the page's own become texts before nodes are looked at: their functions may put frames into these.
    const isPlain = (one) => one === null || one === undefined || (typeof one != "object" && typeof one != "function" && typeof one != "undefined");
    const inserting = (types, members, first, end, leaves, judge = typeOf) =>
      each(types, (type) => each(members, (member) =>
        method(type, member, (real, self, given) => {
          for (let place = 0; place < given.length && given.length > 1 && type != "Node"; place++)
            if (!isPlain(given[place]) && attempt(place == first ? typeOf : judge, given[place], []) === undefined) put(given, place, `${given[place]}`);
          return insert(real, self, given, first, end ?? given.length, leaves?.(self, given), member == "replaceChildren");
        })));
    const NODES = ["Element", "CharacterData", "DocumentType"], PARENTS = ["Element", "Document", "DocumentFragment"];
    inserting(["Node"], ["appendChild", "insertBefore"], 0, 1);
    inserting(["Node"], ["replaceChild"], 0, 1, (_, given) => given[1]);
    inserting(["Range"], ["insertNode"], 0, 1);
    method("Range", "surroundContents", (real, self, given) => {
      if (attempt(isOf, given[0], ["option"])) watch(given[0]);
      return insert(real, self, given, 0, 1, self);
    });
    inserting(["Element"], ["insertAdjacentElement"], 1, 2);
    inserting(PARENTS, ["append", "prepend"], 0);
    inserting(PARENTS, ["replaceChildren"], 0, undefined, (self) => self);
    inserting(NODES, ["before", "after"], 0);
    inserting(NODES, ["replaceWith"], 0, undefined, (self) => self);
    inserting(["HTMLSelectElement", "HTMLOptionsCollection"], ["add"], 0, 1, undefined, native("HTMLElement", "title", "get"));
    const putting = (type, member) => {
      const now = native(type, member, "get");
      exchange(owned(type), member, "set", (real, self, given) => insert(real, self, given, 0, 1, attempt(now, self, [], null)));
    };
    each(["caption", "tHead", "tFoot"], (part) => putting("HTMLTableElement", part));
    putting("Document", "body");
    each(["Element", "Document", "DocumentFragment"], (type) => method(type, "moveBefore", (real, self, given) => {
      if (optionOf(self)) return insert(real, self, given, 0, 1);
      apply(real, self, given);
      reachFrom(self);
    }));
    method("Document", "close", (real, self, given) => (apply(real, self, given), reachFrom(self)));

    // Elements of the page's own hear at once that they are put in: none is a frame.
    method("CustomElementRegistry", "define", (real, self, given) => {
      hasElements = true;
      const of = given[2]?.extends, kind = of === undefined ? "" : `${of}`;
      return matches(isFrameKind, kind) ? undefined : apply(real, self, [given[0], given[1], kind ? { __proto__: null, extends: kind } : undefined]);
    });

    // The same for texts: those with frames are read in a document where nothing runs, and their nodes put in.
    const textOf = (given) => (given !== null && typeof given == "object" && isTrusted && apply(isTrusted, scope.trustedTypes, [given]) ? given : `${given}`);
    const parsed = (context, how) => {
      // The document is the one of now; where a window is gone, nothing is put in.
      const inert = attempt(createDocument, attempt(implementationOf, scope.document, []), [""]);
      if (!inert) return null;
      const nodes = apply(createFragment, inert, []);
      const copy = attempt(isOf, context, [":not(html)"]) ? apply(importNode, inert, [context, false]) : apply(bodyOf, inert, []);
      each([how(copy) ?? attempt(contentOf, copy, []) ?? copy, copy], (from) => {
        for (let node; (node = apply(firstOf, from, [])); ) apply(appendChild, nodes, [node]);
      });
      within(nodes, "noscript", (node) => apply(setText, node, [apply(innerOf, node, [])])); // where nothing runs, it is read
      return bare(nodes);
    };
    // Pictures in a text may begin with a script while it is read.
    const isRisky = (text) => matches(hasFrame, `${text}`) || (matches(hasPicture, `${text}`) && matches(hasLoad, `${text}`));
    const writing = (real, self, given, text, how, context, parse = (copy) => void apply(setInner, copy, [text])) => {
      const at = isRisky(text) ? context(self) : null, content = at && how === written.replaceChildren ? attempt(contentOf, self, []) : undefined;
      const nodes = at && !content && !attempt(isOf, at, ["noscript"]) ? parsed(at, parse) : null;
      if (nodes) insert(how, self, [nodes]);
      else apply(real, self, given);
      if (at) bare(content ?? self);
      reachFrom(self);
    };
    const itself = (self) => self, parent = (self) => apply(parentOf, self, []), host = (self) => apply(hostOf, self, []);
    const places = {
      __proto__: null, beforebegin: ["before", parent], afterbegin: ["prepend", itself], beforeend: ["append", itself], afterend: ["after", parent],
    };
    const replaceAll = native("DocumentFragment", "replaceChildren");
    const setting = (type, member, how, context) =>
      exchange(owned(type), member, "set", (real, self, given) => {
        const text = given[0] === null ? "" : textOf(given[0]);
        writing(real, self, [text], text, how, context);
      });
    setting("Element", "innerHTML", written.replaceChildren, itself);
    setting("Element", "outerHTML", written.replaceWith, parent);
    setting("ShadowRoot", "innerHTML", replaceAll, host);
    method("Element", "insertAdjacentHTML", (real, self, given) => {
      const where = apply(toLowerCase, `${given[0]}`, []), text = textOf(given[1]);
      if (!(where in places)) return apply(real, self, [where, text]);
      writing(real, self, [where, text], text, written[places[where][0]], places[where][1]);
    });
    const setUnsafe = native("Element", "setHTMLUnsafe");
    each([["Element", written.replaceChildren, itself], ["ShadowRoot", replaceAll, host]], (of) =>
      method(of[0], "setHTMLUnsafe", (real, self, given) => {
        const asked = textOf(given[0]), isOurs = given[1] === undefined && declares(asked), text = isOurs || !declares(asked) ? asked : undeclared(asked);
        shadows = true;
        if (isOurs)
          writing(native(of[0], "innerHTML", "set"), self, [text], text, of[1], of[2], (copy) => {
            apply(setInner, copy, [text]);
            declare(attempt(contentOf, copy, []) ?? copy);
          });
        else writing(real, self, [text, given[1]], text, of[1], of[2], (copy) => void apply(setUnsafe, copy, [text, given[1]]));
        if (isOurs) declare(attempt(contentOf, self, [], null));
        look(self);
      }));
    // What else reads texts, and what was read before.
    const createRange = native("Document", "createRange"), select = native("Range", "selectNodeContents"), adopt = native("Document", "adoptNode"), startOf = native("AbstractRange", "startContainer", "get") ?? native("NodeRange", "startContainer", "get");
    method("Range", "createContextualFragment", (real, self, given) => {
      const text = given.length ? textOf(given[0]) : "", start = attempt(startOf, self, []);
      if (!start || !isRisky(text)) return apply(real, self, given.length ? [text] : given);
      const nodes = parsed(attempt(isOf, start, ["*"]) ? start : apply(parentOf, start, []), (copy) => {
        const range = apply(createRange, apply(documentOf, copy, []), []);
        apply(select, range, [copy]);
        return apply(real, range, [text]); // whose scripts begin where they are put in, as without us
      });
      return nodes ? apply(adopt, apply(documentOf, start, []) ?? start, [nodes]) : bare(apply(real, self, [text]));
    });
    const baring = (target, member) => exchange(target, member, "value", (real, self, given) => bare(apply(real, self, given)));
    const parseText = native("DOMParser", "parseFromString"), { DOMParser } = scope;
    baring(owned("DOMParser"), "parseFromString");
    baring(scope.Document, "parseHTML");
    exchange(scope.Document, "parseHTMLUnsafe", "value", (real, self, given) => {
      const text = given.length ? textOf(given[0]) : "";
      if (!declares(text)) return bare(apply(real, self, given.length ? [text, given[1]] : given));
      if (given[1] !== undefined) return bare(apply(real, self, [undeclared(text), given[1]]));
      return bare(declare(apply(parseText, new DOMParser(), [text, "text/html"])));
    });
    each(["transformToFragment", "transformToDocument"], (member) => baring(owned("XSLTProcessor"), member));
    each(["response", "responseXML"], (member) => getter("XMLHttpRequest", member, (_, value) => bare(value)));
    getter("HTMLTemplateElement", "content", (_, value) => (value && !apply(has, watched, [value]) && watch(value), value));
    each(["Element", "ElementInternals"], (type) =>
      getter(type, "shadowRoot", (_, value) => {
        if (value && !apply(has, watched, [value])) {
          const of = apply(hostOf, value, []);
          apply(set, roots, [of, value]);
          enter(of);
        }
        return value;
      }));
    exchange(scope.HTMLIFrameElement?.prototype, "srcdoc", "set", (real, self, given) => (apply(real, self, given), reachFrom(self)));
    // Commands put in what they will, and move what is there: what a page's own elements would be told of is refused.
    const designOf = native("Document", "designMode", "get"), selectionOf = native("Document", "getSelection"), anchorOf = native("Selection", "anchorNode", "get");
    const HOST = "[contenteditable]:not([contenteditable] *)";
    // The editor that a command acts in; all of them where that is not told, as in shadow trees.
    const editorOf = (self) => {
      const anchor = attempt(anchorOf, attempt(selectionOf, self, []), []), at = kindOf(anchor) === 1 ? anchor : attempt(parentOf, anchor, []);
      return attempt(designOf, self, []) != "on" && kindOf(at) === 1 ? apply(closest, at, [HOST]) : null;
    };
    let isEdited = false; // an editor that holds frames, or held some
    method("Document", "execCommand", (real, self, given) => {
      if (!given.length) return apply(real, self, given);
      const command = `${given[0]}`, text = textOf(given[2]), isFramed = matches(hasFrame, `${text}`);
      let holdsFrame = false;
      if (hasElements) {
        const editor = editorOf(self), isDesigned = attempt(designOf, self, []) == "on";
        within(editor ?? attempt(rootOf, self, []), editor || isDesigned ? FRAMES : `[contenteditable] :is(${FRAMES})`, () => { isEdited = holdsFrame = true; });
      }
      const isRefused = matches(isUndone, command) ? isEdited : holdsFrame && !matches(movesNothing, command);
      if (isFramed ? hasElements || matches(runsAtOnce, `${text}`) : isRefused) return false;
      room();
      const done = apply(real, self, given.length > 2 ? [command, given[1], text] : [command, given[1]]);
      bare(self);
      reachFrom(self);
      return done;
    });
    // Tags are written one by one: scripts among them find the frames before them reached. A page that writes
    // trusted texts alone takes no parts of them.
    let isWritten = false, end = ""; // a frame, whose tag may have several parts
    const takesParts = (self) => attempt(write, self, [""], false) !== false;
    each(["write", "writeln"], (member) =>
      method("Document", member, (real, self, given) => {
        let text = "", from = 0;
        isOpened = true;
        each(given, (one) => (text += `${one}`));
        if (member == "writeln") text += "\n";
        isWritten ||= matches(hasFrame, (end += text));
        end = apply(slice, end, [-8]);
        if (!isWritten || !takesParts(self)) {
          apply(real, self, given);
          watch(self);
          seeNow();
          return reachFrom(self);
        }
        watch(self);
        room();
        for (let place = 1; place <= text.length; place++)
          if (place == text.length || text[place] == "<") {
            apply(write, self, [apply(slice, text, [from, place])]);
            from = place;
            seeNow();
            reachFrom(self);
          }
      }));
    const reachDocument = (value) => (reach(value && attempt(viewOf, value, [])), value);
    for (const type in windowsOf) {
      getter(type, "contentWindow", (_, value) => reach(value));
      getter(type, "contentDocument", (_, value) => reachDocument(value));
      method(type, "getSVGDocument", (real, self, given) => reachDocument(apply(real, self, given)));
    }

    method("DocumentPictureInPicture", "requestWindow", (real, self, given) => after(apply(real, self, given), reach));
    getter("DocumentPictureInPicture", "window", (_, value) => reach(value));
    const smaller = (features) =>
      isBounded && features != null
        ? apply(replaceIn, sizes, [`${features}`, (_, part, side, edge, size) => {
            if (edge !== undefined) return `${edge}=0`; // a place beyond the screen is moved to its edge
            const limit = bounded[apply(toLowerCase, side, [])];
            return `${part ?? ""}${side}=${limit === undefined || +size < limit ? size : limit}`;
          }])
        : features;
    method("Document", "open", (real, self, given) => {
      const opened = apply(real, self, given.length > 2 ? [given[0], given[1], smaller(given[2])] : given);
      isOpened = true;
      watch(self);
      reachFrom(self);
      return reach(opened);
    });
    method("Window", "open", (real, self, given) => reach(apply(real, self, [given[0], given[1], smaller(given[2])])));
    const outerWidth = describe(scope, "outerWidth")?.get, outerHeight = describe(scope, "outerHeight")?.get;
    const fits = (side, size) => bounded[side] === undefined || size <= bounded[side];
    const resizing = (member, had) =>
      method("Window", member, (real, self, given) => {
        if (given.length < 2) return apply(real, self, given);
        const by = [+given[0], +given[1]], fit = fits("width", had(self, outerWidth) + by[0]) && fits("height", had(self, outerHeight) + by[1]);
        return fit ? apply(real, self, by) : undefined;
      });
    if (isBounded) {
      resizing("resizeTo", () => 0);
      resizing("resizeBy", (self, side) => apply(side, self ?? scope, []));
      each(["moveTo", "moveBy"], (member) =>
        method("Window", member, (real, self, given) => (given.length < 2 ? apply(real, self, given) : undefined)));
    }
    return () => watch(scope.document);
  }

  const { get: kept, set: keep, delete: forget } = Map.prototype;

  // Workers begin with this script. What theirs ask for lies beside it.
  function installWorkers(scope, { native, method }) {
    const { URL, Blob } = scope, hrefOf = native("URL", "href", "get"), blobs = new Map(), { createObjectURL } = URL;
    const at = (address) => apply(hrefOf, new URL(address, base ?? scope.document.baseURI), []);
    if (base !== null) {
      const { importScripts, fetch } = scope;
      if (importScripts) scope.importScripts = (...addresses) => apply(importScripts, scope, addresses.map(at));
      scope.fetch = (what, options) => apply(fetch, scope, [typeof what == "string" ? at(what) : what, options]);
      method("XMLHttpRequest", "open", (real, self, given) => {
        put(given, 1, at(given[1]));
        return apply(real, self, given);
      });
    }
    // Pages forget the addresses of their blobs early, and Firefox imports none without a type: their text is put behind ours.
    const sizeOf = native("Blob", "size", "get");
    const isBlob = (object) => attempt(sizeOf, object, []) >= 0;
    URL.createObjectURL = proxied(createObjectURL, (real, self, given) => {
      const address = apply(real, self, given);
      if (isBlob(given[0])) apply(keep, blobs, [address, given[0]]);
      return address;
    });
    URL.revokeObjectURL = proxied(URL.revokeObjectURL, (real, self, given) => {
      const address = `${given[0]}`;
      apply(forget, blobs, [address]);
      return apply(real, self, [address]);
    });
    const file = (parts) => apply(createObjectURL, URL, [new Blob(listed(parts), { __proto__: null, type: "text/javascript" })]);
    const begin = (original) => {
      const wrapped = new Proxy(original, {
        __proto__: null,
        construct(target, given, as) {
          const own = at(given[0]), named = stringify(own), options = given[1];
          const first = `(${code})(${table}, ${named});`;
          const script = apply(kept, blobs, [own]);
          const whole = options?.type == "module"
            ? [`import ${stringify(file([first]))};\n`, script ?? `import ${named};`]
            : [`${first}\n`, script ?? `importScripts(${named});`];
          return construct(target, [file(whole), options], as);
        },
      });
      put(original.prototype, "constructor", wrapped, false);
      return wrapped;
    };
    if (scope.Worker) put(scope, "Worker", begin(scope.Worker), false);
    if (scope.SharedWorker) put(scope, "SharedWorker", begin(scope.SharedWorker), false);
  }

  install(globalThis);
}
run(/* what is withheld */ null, null);
