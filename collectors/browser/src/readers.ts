/** How an API of the vocabulary is read: `Interface.member[#selector]` or `css:feature`. */

type Read = () => unknown;

/** What a reader gives when there was nothing to read. */
export const NOTHING = Symbol();

const page = window as any;
const device = navigator as any;
const canvas = () => document.createElement("canvas");
const list = (entries: Iterable<any>, member: string) => Array.from(entries, (entry) => entry[member]);

/** Interfaces with an object of their name in the page; the others' objects stand below. */
const GLOBALS = /^(Document|History|Navigator|Performance|Screen|VisualViewport|Window)$/;
const owners: Record<string, Read> = {
  __proto__: null as any, // "constructor" is no interface
  AudioContext: closedAudio,
  AudioDestinationNode: () => closedAudio().destination,
  BaseAudioContext: closedAudio,
  BatteryManager: () => device.getBattery?.(),
  GPUAdapterInfo: async () => (await device.gpu?.requestAdapter())?.info,
  NavigatorUAData: () => device.userAgentData,
  NetworkInformation: () => device.connection,
  Notification: () => page.Notification,
  ScreenOrientation: () => screen.orientation,
};

/** Methods whose argument is the selector. */
const methods: Record<string, (argument: string) => unknown> = {
  "FontFaceSet.check": (font) => document.fonts.check(`9px "${font}"`),
  "HTMLMediaElement.canPlayType": (type) => document.createElement("video").canPlayType(type),
  "NavigatorUAData.getHighEntropyValues": async (hint) =>
    device.userAgentData && listed(await device.userAgentData.getHighEntropyValues([hint]), hint),
  "Permissions.query": async (name) => (await device.permissions?.query({ name }))?.state,
  "Window.matchMedia": (query) => matchMedia(query).matches,
};

/** Readers without an argument; `#fpmonitor` marks values that are shaped here. */
const readers: Record<string, Read> = {
  "Date.getTimezoneOffset": () => new Date().getTimezoneOffset(),
  "HTMLCanvasElement.toDataURL#fpmonitor": drawing,
  "MediaDevices.enumerateDevices#fpmonitor": async () =>
    list((await device.mediaDevices.enumerateDevices()) as any[], "kind").sort(),
  "Navigator.javaEnabled": () => device.javaEnabled(),
  "Navigator.mimeTypes#fpmonitor": () => list(device.mimeTypes, "type"),
  "Navigator.plugins#fpmonitor": () => list(device.plugins, "name"),
  "OfflineAudioContext.startRendering#fpmonitor": sound,
  "SpeechSynthesis.getVoices#fpmonitor": voices,
};

/** Keywords of all media features; of those that match, the first counts. */
const KEYWORDS =
  "rec2020 p3 srgb none hover coarse fine fullscreen standalone minimal-ui window-controls-overlay " +
  "picture-in-picture borderless tabbed unframed browser high standard active inverted portrait landscape " +
  "scroll paged optional-paged light dark more less custom reduce no-preference interlace progressive " +
  "initial-only enabled slow fast back continuous folded opaque additive subtractive rect round 1 0";

/** Give the reader of an API, or nothing where the page cannot read it without side effects. */
export function readerOf(api: string): Read | undefined {
  if (api in readers) return readers[api];
  const [, base, owner, member, argument] = /^((?:css:)?([^.#]*)\.?([^#]*))#?(.*)$/s.exec(api) as any;
  if (argument && base in methods) return () => methods[base]!(argument);
  if (argument && /^(CSS.supports|Media(Recorder|Source).isTypeSupported)$/.test(base))
    return () => page[owner][member](argument);
  if (/^Intl\.\w+\.resolvedOptions$/.test(base))
    return () => {
      const [kind] = member.split(".");
      // Names of nothing in particular are refused.
      const options = new page.Intl[kind](undefined, kind == "DisplayNames" ? { type: "region" } : {}).resolvedOptions();
      return argument ? listed(options, argument) : options;
    };
  if (/^WebGL2?R/.test(base)) return graphicsReader(owner, member, argument);
  if (argument) return undefined;
  if (base.startsWith("css:")) return mediaReader(owner);
  if (owner in owners) return async () => attribute((await owners[owner]!()) ?? lacking(owner), member);
  if (GLOBALS.test(owner)) return () => attribute(page[owner[0].toLowerCase() + owner.slice(1)], member);
  return undefined;
}

/** What the selector names; where nothing bears its name, nothing was read. */
const listed = (members: any, name: string) => (name in members ? members[name] : NOTHING);

/** In place of an object: nothing to read where the browser knows its interface, as of a GPU that is not there. */
const lacking = (owner: string) => (owner in page ? NOTHING : undefined);

/** A method is no attribute: what it would return is not known before it is called. */
function attribute(owner: any, member: string): unknown {
  const value = owner === NOTHING ? NOTHING : owner?.[member];
  return typeof value == "function" ? NOTHING : value;
}

function mediaReader(feature: string): Read | undefined {
  const matches = (test: string) => matchMedia(`(${test})`).matches;
  if (/ratio|resolution|system-color/.test(feature)) return undefined;
  const number = /^(color|monochrome|(device-)?(width|height))$/.exec(feature);
  if (!number)
    return () => {
      const found = KEYWORDS.split(" ").filter((word) => matches(feature + ":" + word));
      if (!found[0]) return NOTHING; // a feature or a keyword that the browser or this list lacks
      return feature.startsWith("any-") ? found : found[0];
    };
  return () => {
    const reaches = (size: number) => matches(`min-${feature}:${size}${number[3] ? "px" : ""}`);
    if (!reaches(0)) return NOTHING;
    let low = 0;
    for (let step = 1 << 15; step; step >>= 1)
      if (reaches(low + step)) low += step;
    return low;
  };
}

function graphicsReader(owner: string, member: string, name: string): Read | undefined {
  const context = () => canvas().getContext(owner[5] == "2" ? "webgl2" : "webgl") as any;
  if (member == "getParameter" && name)
    return () => {
      const found = context();
      if (!found) return lacking(owner);
      const extended = () => found.getSupportedExtensions().find((one: string) => name in found.getExtension(one));
      const number = found[name] ?? found.getExtension(extended())?.[name];
      if (!(number > 0)) return NOTHING;
      const value = found.getParameter(number);
      return value?.buffer ? Array.from(value) : value;
    };
  return /^get(SupportedExtensions|ContextAttributes)$/.test(member) ? () => (context() ? context()[member]() : lacking(owner)) : undefined;
}

/** Text, curves and blended colours; a change of anything here needs another selector. */
function drawing(): string {
  const surface = canvas();
  surface.width = 240;
  surface.height = 60;
  const context = surface.getContext("2d")!;
  context.font = "15px serif";
  context.fillText("Sphinx of black quartz 😃", 3, 15);
  context.globalCompositeOperation = "multiply";
  ["#f2c", "#2cf", "#cf2"].forEach((colour, index) => {
    context.fillStyle = colour;
    context.beginPath();
    context.arc(160 + 20 * index, 30, 22, 0, 7);
    context.fill();
  });
  context.font = "italic 17px sans-serif";
  context.fillText("judge my vow", 30.3, 45.7);
  return surface.toDataURL();
}

/** Sum of the samples of a compressed tone. */
async function sound(): Promise<number> {
  const audio = new OfflineAudioContext(1, 5000, 44100);
  const tone = audio.createOscillator();
  tone.frequency.value = 7000;
  tone.type = "sawtooth";
  tone.connect(audio.createDynamicsCompressor()).connect(audio.destination);
  tone.start();
  const samples = (await audio.startRendering()).getChannelData(0);
  return samples.slice(4500).reduce((sum, sample) => sum + Math.abs(sample), 0);
}

/** Its attributes can be read after it has given its resources back. */
function closedAudio(): AudioContext {
  const audio = new AudioContext();
  audio.close();
  return audio;
}

/** Some browsers load the voices only when they are first asked for. */
async function voices(): Promise<string[]> {
  const found = () => list(speechSynthesis.getVoices(), "name").sort();
  if (!found().length) await new Promise((resolve) => setTimeout(resolve, 500));
  return found();
}
