"""The web extension in real browsers: what pages of all kinds, their frames and workers still read.

Needs Debian's `chromium` and `firefox-esr`.
"""

from __future__ import annotations

import json
import shutil
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from benchmarks.lab.site import WAYS_FILES, WAYS_TEXT
from fpmonitor.cli import run
from fpmonitor.monitor import Monitor
from tests.firefox import Firefox, firefox
from tests.patience import wait

if TYPE_CHECKING:
    from collections.abc import Iterator

CHROMIUM = shutil.which("chromium")
# A browser that has one user's values: 30 others share those that all are told.
SHARED = {
    "Navigator.hardwareConcurrency": 6,
    "Navigator.platform": "Made up",
    "Navigator.userAgent": "Shared/1.0",
    "Navigator.language": "eo",
    "Navigator.languages": ["eo", "ia"],
    "Screen.width": 1111,
    "Screen.colorDepth": 13,
    "Window.devicePixelRatio": 1.75,
    "StorageManager.estimate": 12345678,
    "NavigatorUAData.getHighEntropyValues#wow64": True,
    "NavigatorUAData.getHighEntropyValues#formFactors": ["Watch", "XR"],
    "NavigatorUAData.getHighEntropyValues#fullVersionList": [{"brand": "B", "version": "1.2.3"}],
}
REFUSED = [
    *("Navigator.plugins", "Navigator.mimeTypes", "Navigator.getBattery", "Navigator.getGamepads"),
    *("MediaDevices.enumerateDevices", "SpeechSynthesis.getVoices", "HTMLCanvasElement.toDataURL"),
    *("RTCPeerConnection.createOffer", "OfflineAudioContext.startRendering", "Performance.memory"),
    *("WebGLRenderingContext.getParameter#UNMASKED_RENDERER_WEBGL", "css:prefers-color-scheme"),
    *("Navigator.doNotTrack", "Keyboard.getLayoutMap", "CanvasRenderingContext2D.getImageData"),
    *("OffscreenCanvas.convertToBlob", "Navigator.requestMediaKeySystemAccess"),
    *("FontFaceSet.check", "GPU.requestAdapter", "WebGLRenderingContext.getParameter#limits"),
    *("NavigatorUAData.getHighEntropyValues#platformVersion", "css:hover"),
    *("WebGLRenderingContext.getSupportedExtensions", "AudioBuffer.getChannelData"),
    *("Screen.height", "WebGL2RenderingContext.readPixels"),
]
# `css:hover` must not hide `css:any-hover`, nor a hint of the platform the others.
ALLOWED = "Navigator.cookieEnabled"
HIDDEN = {
    "cores": 6, "platform": "Made up", "agent": "Shared/1.0", "version": "undefined",
    "languages": "eo,eo,ia", "quota": 12345678, "screen": "1111,13,13", "ratio": 1.75,
    "resolution": False, "scheme": False, "plugins": 0, "battery": "NotAllowedError",
    "devices": 0, "voices": 0, "rtc": "undefined" * 3, "memory": "undefined",
    "dnt": "undefined", "canvas": True, "pixels": 0, "blob": True, "offscreen": True,
    "renderer": "null", "sound": "NotAllowedError", "hover": True,
    "limits": "1,1 15 16 224 256 32 4096 4096,4096", "extensions": True,
    "sizes": "0,0,4096,4096,1,4096,4096,4096,1281",
    "units": "32,16,16,32,24,4,4,4,13,true,true,true,480,0,true",
    "fonts": "loaded,loaded,1,1,true", "adapter": None, "hints": "bitness,model",
    "told": 'true ["Watch","XR"] [{"brand":"B","version":"1.2.3"}]',
}  # fmt: skip
IN_WORKERS = ("cores", "platform", "agent", "version", "languages", "quota")
TOLD = SHARED | {name: HIDDEN[name] for name in IN_WORKERS}
READ, KINDS = (
    (Path(__file__).parent / "reached.js").read_text(encoding="utf-8").split("// Kinds of pages")
)
ROUND = (Path(__file__).parent / "ways_round.js").read_text(encoding="utf-8")
HOSTILE = f"<!doctype html><body>{WAYS_TEXT}<script>{ROUND}</script>"
ORDINARY = """<!doctype html>
<meta http-equiv="Content-Security-Policy" content="require-trusted-types-for 'script'">
<body><script>
const policy = trustedTypes.createPolicy("own", { createHTML: (text) => text });
document.write(policy.createHTML("<iframe id=own></iframe>"));
let refused = false;
try { resizeTo(100); } catch { refused = true; }
customElements.define("own-element", class extends HTMLElement {});
const editor = (part) => {
  const one = document.body.appendChild(document.createElement("div"));
  one.contentEditable = true;
  one.append(part);
  return one;
};
editor(document.createElement("iframe"));
const other = editor("a");
other.focus();
other.replaceChildren("b");
const stays = document.activeElement === other;
getSelection().selectAllChildren(other);
const bold = document.execCommand("bold");
document.title = `${own.contentWindow.navigator.hardwareConcurrency},${refused},${stays},${bold}`;
</script>"""
# What tells the browser, in a page, a frame and a worker, and what the browser itself gives first.
BROWSER = """<!doctype html><body><script>
const read = async ({ userAgentData: data }) => {
  const said = ({ brands, platform }) => [JSON.stringify(brands), platform].join();
  return [data, await data.getHighEntropyValues(["model"]), data.toJSON()].map(said);
};
(async () => {
  const frame = document.body.appendChild(document.createElement("iframe")), seen = [];
  const text = `const read = ${read}; read(navigator).then((found) => postMessage(found));`;
  const worker = new Worker(URL.createObjectURL(new Blob([text])));
  const found = [await read(navigator), await read(frame.contentWindow.navigator)];
  found.push(await new Promise((done) => { worker.onmessage = ({ data }) => done(data); }));
  const see = { configurable: true, get() { if (this.brands) seen.push(JSON.stringify(this)); } };
  Object.defineProperty(Object.prototype, "then", see);
  found.push(await read(navigator).then((told) => (delete Object.prototype.then, told)));
  for (const { brands, platform } of seen.map((text) => JSON.parse(text)))
    found.push([JSON.stringify(brands), platform].join());
  window.found = JSON.stringify([...new Set(found.flat())]);
})().catch((error) => { window.found = JSON.stringify(String(error)); });
</script>"""
WORKER = (
    READ
    + """
self.onconnect = ({ ports }) => read(self).then((found) => ports[0].postMessage(found));
if (!("SharedWorkerGlobalScope" in self)) read(self).then((found) => postMessage(found));
"""
)


class Site:
    """A site of its own; it keeps the headers of requests for pages."""

    def __init__(self) -> None:
        self.headers: list[dict[str, str]] = []
        page = f"<!doctype html><body><script>{READ}//{KINDS}</script>"
        frame = f"""<!doctype html><script>{READ}
          read(self).then((found) => parent.postMessage(["other", found], "*"));</script>"""
        nested = """const one = new Worker("worker.js");
          one.onmessage = ({ data }) => postMessage(data);"""
        self.files = {path: (text, kind) for path, (kind, text) in WAYS_FILES.items()} | {
            "/page": (page, "text/html"),
            "/hostile": (HOSTILE, "text/html"),
            "/slow": ("slow", "text/html"),
            "/ordinary": (ORDINARY, "text/html"),
            "/frame": (frame, "text/html"),
            "/browser": (BROWSER, "text/html"),
            "/worker.js": (WORKER, "text/javascript"),
            "/nested.js": (nested, "text/javascript"),
            "/imports.js": ("importScripts('worker.js')", "text/javascript"),
        }

    @contextmanager
    def serving(self) -> Iterator[str]:
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                path = self.path.partition("?")[0]
                text, kind = site.files.get(path, ("", "text/plain"))
                if self.path == "/slow":
                    time.sleep(0.3)
                if self.path in {"/page", "/browser"}:
                    site.headers.append({name.lower(): text for name, text in self.headers.items()})
                self.send_response(200)
                self.send_header("Content-Type", kind)
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, *_: Any) -> None: ...

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/page"
        finally:
            server.shutdown()
            server.server_close()


def written(folder: Path, shared: dict[str, Any], refused: list[str]) -> Path:
    """Write an extension by the command, of a decision that allows one API."""
    log = folder / "log.jsonl"
    crowd = [{"user": f"u{i}", **shared, ALLOWED: i % 2 == 0} for i in range(30)]
    alone = [
        {"user": f"a{i}", **dict.fromkeys((*shared, *refused), f"{i}"), ALLOWED: True}
        for i in range(30)
    ]
    log.write_text("".join(json.dumps(record) + "\n" for record in crowd + alone))
    database = folder / "d.duckdb"
    with Monitor(database, create=True) as monitor:
        monitor.ingest([str(log)])
        decision = monitor.decide(
            k=10, budget=0.01, candidates=[*shared, *refused, ALLOWED], setting="sample"
        )
    assert decision.recommended == (ALLOWED,)
    path = folder / "decision.json"
    path.write_text(json.dumps(decision.to_json()), encoding="utf-8")
    output = folder / "extension"
    command = ["export", str(path), "--to", "webextension", "--values", str(database)]
    run([*command, "-o", str(output), "--quiet"])
    assert (output / "manifest.json").is_file()
    return output


@pytest.fixture(scope="module")
def extension(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the command writes."""
    return written(tmp_path_factory.mktemp("extension"), SHARED, REFUSED)


def check(found: dict[str, Any]) -> None:
    """Nothing of the browser's own is read in any kind of page, frame or worker."""
    seen = {}
    for kind, read in found.items():
        assert isinstance(read, dict), (kind, read)
        wanted = {name: HIDDEN[name] for name in IN_WORKERS} if "worker" in kind else HIDDEN
        wrong = {name: read.get(name) for name, value in wanted.items() if read.get(name) != value}
        if wrong:
            seen[kind] = wrong
    assert seen == {}


def check_ways_round(read: dict[str, Any]) -> None:
    """No way round that a page makes gives a value, unless it is what all are told."""
    assert isinstance(read, dict), read
    told = {way: value for way, value in read["ways"].items() if isinstance(value, dict)}
    wrong = {
        (way, api): value
        for way, values in told.items()
        for api, value in values.items()
        if api in TOLD and value != TOLD[api]
    }
    assert wrong == {}
    assert len(told) >= 30, read["ways"].keys() - told.keys()
    assert "a text with a frame in a picture" in told, "its window went on from a blank page"
    assert {name: seen for name, seen in read["others"].items() if seen is not False} == {}


@pytest.mark.browser
@pytest.mark.parametrize(
    "hostile",
    [pytest.param(False, id="pages"), pytest.param(True, id="ways round", marks=pytest.mark.long)],
)
def test_chromium_reads_only_what_all_share(extension: Path, tmp_path: Path, hostile: bool) -> None:
    site = Site()
    with chromium(extension, tmp_path) as page, site.serving() as address:
        page.goto(address)
        page.wait_for_function("window.found", timeout=120_000)
        found = json.loads(page.evaluate("window.found"))
        if hostile:
            page.goto(address.replace("/page", "/hostile"), wait_until="commit")
            wait(lambda: page.evaluate("window.found"), 120)
            check_ways_round(json.loads(page.evaluate("window.found")))
        page.goto(address.replace("/page", "/ordinary"))
        ordinary = wait(page.title, 30)
    check(found)
    # A page of trusted texts writes a frame, errors stay errors, a field that gets other contents
    # stays where the user is, and an editor does what it can beside one that holds a frame.
    assert ordinary == "6,true,true,true"
    assert site.headers[-1]["user-agent"] == "Shared/1.0"
    assert "dnt" not in site.headers[-1]


@pytest.mark.browser
def test_chromium_tells_the_browser_that_all_share(tmp_path: Path) -> None:
    """Also what a promise of the browser's own gives before it could be changed."""
    shared = {
        "NavigatorUAData.brands": [{"brand": "B", "version": "9"}],
        "NavigatorUAData.platform": "Made up",
    }
    site, output = Site(), written(tmp_path, shared, [])
    with chromium(output, tmp_path) as page, site.serving() as address:
        page.goto(address.replace("/page", "/browser"))
        page.wait_for_function("window.found", timeout=60_000)
        found = json.loads(page.evaluate("window.found"))
    assert found == ['[{"brand":"B","version":"9"}],Made up']
    headers = site.headers[-1]
    assert (headers["sec-ch-ua"], headers["sec-ch-ua-platform"]) == ('"B";v="9"', '"Made up"')


@contextmanager
def chromium(extension: Path, folder: Path) -> Iterator[Any]:
    """Open a page of a Chromium with an extension."""
    sync_api = pytest.importorskip("playwright.sync_api")
    if CHROMIUM is None:
        pytest.skip("chromium is not installed")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch_persistent_context(
            str(folder / "profile"), executable_path=CHROMIUM, headless=False,
            args=["--headless=new", "--no-sandbox", f"--load-extension={extension}",
                  f"--disable-extensions-except={extension}", "--disable-popup-blocking",
                  "--autoplay-policy=no-user-gesture-required"],
        )  # fmt: skip
        try:
            yield browser.new_page()
        finally:
            browser.close()


@pytest.mark.long
@pytest.mark.browser
def test_firefox_reads_only_what_all_share(extension: Path, tmp_path: Path) -> None:
    site = Site()
    with site.serving() as address, firefox(tmp_path) as browser:
        install(browser, extension)
        # Firefox puts rules for headers in force a moment after it has installed an extension.
        wait(lambda: browser.open(address) or site.headers[-1]["user-agent"] == "Shared/1.0", 60)
        found = json.loads(wait(lambda: browser.run("window.found"), 120))
        browser.open(address.replace("/page", "/hostile"))
        round_it = json.loads(wait(lambda: browser.run("window.found"), 120))
    check(found)
    check_ways_round(round_it)
    assert site.headers[-1]["user-agent"] == "Shared/1.0"


def install(browser: Firefox, folder: Path) -> None:
    browser._call("Addon:Install", {"path": str(folder), "temporary": True})
