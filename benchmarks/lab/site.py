"""A site whose pages call the readers, on as many hosts as there are lists."""

from __future__ import annotations

import http.server
import json
import queue
import re
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Self

from tests.patience import patience

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

_FOLDER = Path(__file__).parent
Reading = dict[str, str]
Headers = tuple[tuple[str, str], ...]
SECONDS = 400  # a browser that has not reported by then never will
SEED = 44
PAGES = frozenset(
    f"{name}@an ordinary page"
    for name in re.findall(
        r'^  "([^"]+)": ', (_FOLDER / "pages.js").read_text("utf-8"), re.MULTILINE
    )
)
HINTS = (
    "Sec-CH-UA-Arch, Sec-CH-UA-Bitness, Sec-CH-UA-Form-Factors, Sec-CH-UA-Full-Version, "
    "Sec-CH-UA-Full-Version-List, Sec-CH-UA-Model, Sec-CH-UA-Platform-Version, Sec-CH-UA-WoW64, "
    "Device-Memory, Sec-CH-Device-Memory, DPR, Sec-CH-DPR, Width, Sec-CH-Width, "
    "Viewport-Width, Sec-CH-Viewport-Width, Sec-CH-Viewport-Height, RTT, Downlink, ECT, "
    "Sec-CH-Prefers-Color-Scheme, "
    "Sec-CH-Prefers-Reduced-Motion, Sec-CH-Prefers-Reduced-Transparency"
)
# Headers that tell of the site, not of the browser.
_OF_THE_SITE = {
    "host", "referer", "connection", "origin", "cookie", "content-length", "if-modified-since",
    "if-none-match", "content-type", "service-worker", "sec-fetch-dest", "sec-fetch-mode",
    "sec-fetch-site", "sec-fetch-user", "priority", "te", "cache-control", "pragma", "accept",
    "upgrade-insecure-requests", "purpose",
}  # fmt: skip
# Two readings of a connection differ: whether it is slow does not.
_COARSE: dict[str, Callable[[float], bool]] = {
    "downlink": lambda megabits: megabits < 0.25,
    "rtt": lambda milliseconds: milliseconds > 900,
}
_SCRIPT = "".join(
    (_FOLDER / f"{name}.js").read_text("utf-8") for name in ("readers", "pages", "places")
)
FAILED = "the page fails@the page"
_PAGE = """<!doctype html><meta charset="utf-8"><title>lab</title><body>%s
<script src="/readers.js?%d"></script><script>
(async () => {
  let found = {};
  try {
    found = await readAll();
  } catch (error) {
    found = { "%s": String(error) };
  }
  await fetch("/resource");
  await fetch("/report", { method: "POST", body: JSON.stringify(found) });
  location = "/second";
})();
</script>"""
WAYS = (_FOLDER / "ways.js").read_text("utf-8")
_READING = WAYS.partition("// Pages")[0]
_TELL = "parent[location.search.slice(1)]?.(reading(self));"
# What ways of `ways.js` ask for, beside `/slow`; `WAYS_TEXT` stands in their page.
WAYS_TEXT = """<script src=/ways.js></script>
<iframe src=/slow></iframe><script>var parsed = reading(self[0])</script>
<iframe src="javascript:parent.scripted = parent.reading(self); void 0"></iframe>
<script>
var inText = {}, inList = (name, option) => { inText[name] = listed(option); };
</script>
<select><option id=own><iframe src=/slow></iframe></option></select>
<script>inList("own", own)</script>
<p id=begun><script>var moved = by("option", (one) => one.append(begun))</script>
<iframe src=/slow></iframe></p><script>inList("moved", moved)</script>
<select><option id=taken><script>{
  const option = taken;
  option.remove();
  document.write("<iframe src=/slow></iframe>");
  inList("written", option);
}</script></option></select>
<option id=loading><iframe src=/slow></iframe>
<iframe onload="inList('loaded', loading)"></iframe></option>"""
WAYS_FILES = {
    "/ways.js": ("text/javascript", WAYS),
    "/worker.js": (
        "text/javascript",
        _READING
        + """self.onconnect = ({ ports }) => ports[0].postMessage(reading(self));
if (!("SharedWorkerGlobalScope" in self)) postMessage(reading(self));""",
    ),
    "/constructor.js": (
        "text/javascript",
        """const one = new Worker.prototype.constructor("/worker.js");
one.onmessage = ({ data }) => postMessage(data);""",
    ),
    "/page.svg": (
        "image/svg+xml",
        f"""<svg xmlns="http://www.w3.org/2000/svg">
<script><![CDATA[{_READING}{_TELL}]]></script></svg>""",
    ),
    "/page.xml": (
        "text/xml",
        """<?xml version="1.0"?><?xml-stylesheet type="text/xsl" href="/page.xsl"?><page/>""",
    ),
    "/page.xsl": (
        "text/xsl",
        f"""<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform">
<xsl:output method="html"/><xsl:template match="/"><html><body><script>
<xsl:text disable-output-escaping="yes"><![CDATA[{_READING}{_TELL}]]></xsl:text>
</script></body></html></xsl:template></xsl:stylesheet>""",
    ),
}
_WAIT = """<!doctype html><title>wait</title><script>
(async () => {
  for (;;) {
    const next = await fetch("/next").then((answer) => answer.text()).catch(() => "");
    if (next) { location = next; return; }
    await new Promise((done) => setTimeout(done, 200));
  }
})();
</script>"""
_WHERE = {
    "/third": "the request of a page",
    "/resource": "the request of a resource",
    "/image": "the request of an image",
    "/readers.js": "the request of a script",
}


@dataclass
class Site:
    """A server on 127.0.0.1 for `*.localhost`; `headers` are those of the lists of hosts."""

    headers: Mapping[str, Headers] = field(default_factory=dict)

    def __enter__(self) -> Self:
        self._wanted: list[str] | None = None
        self._turn = 0
        self._next: queue.Queue[str] = queue.Queue()
        self._done: queue.Queue[Reading] = queue.Queue()
        self._reading: Reading = {}
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self._server.handle_error = lambda *_: None  # type: ignore[method-assign]  # pages that left
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def port(self) -> int:
        """The port."""
        return self._server.server_port

    @property
    def waiting_page(self) -> str:
        """Address of the page with which a browser begins."""
        return f"http://wait.localhost:{self.port}/wait"

    def visit(self, host: str, wanted: Collection[str] | None = None) -> Reading:
        """Have the browser read on a host: all, or some readers of some places.

        Raises
        ------
        queue.Empty
            It did not report.
        """
        self._wanted = None if wanted is None else sorted(wanted)
        self._turn += 1
        self._reading = {}
        while not self._done.empty():
            self._done.get_nowait()
        self._next.put(f"http://{host}:{self.port}/lab")
        found = self._done.get(timeout=patience(SECONDS))
        return found if wanted is None else {key: found[key] for key in wanted if key in found}

    def script(self, host: str) -> str:
        """Return the script of the readers, for what is wanted now."""
        home, slowness = f"http://{host}", min(patience(1), 5)
        given = {
            "wanted": self._wanted, "seed": SEED, "turn": self._turn, "home": home,
            "slowness": slowness,
        }  # fmt: skip
        return "".join(f"const {n} = {json.dumps(v)};\n" for n, v in given.items()) + _SCRIPT


def _handler(site: Site) -> type[http.server.BaseHTTPRequestHandler]:
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            host = (self.headers["Host"] or "").partition(":")[0]
            own = site.headers.get(host, ())
            if where := _WHERE.get(path):
                self.note_headers(where)
            match path:
                case "/lab":
                    page = _PAGE % (WAYS_TEXT, site._turn, FAILED)
                    self.answer("text/html", page, (*own, ("Accept-CH", HINTS)))
                case "/readers.js":
                    text = site.script(self.headers["Host"] or "")
                    self.answer(
                        "text/javascript", text, (*own, ("Access-Control-Allow-Origin", "*"))
                    )
                case "/second":
                    self.answer("text/html", "<script>location = '/third'</script>", own)
                case "/third":
                    site._done.put(dict(site._reading))
                    self.answer("text/html", f"<script>location = '{site.waiting_page}'</script>")
                case "/wait":
                    self.answer("text/html", _WAIT)
                case "/next":
                    self.answer("text/plain", self.next_page())
                case "/slow":
                    time.sleep(0.3)  # many frames wait for it
                    self.answer("text/plain", "slow")
                case _ if path in WAYS_FILES:
                    self.answer(*WAYS_FILES[path], own)
                case "/old.html":
                    old = (("Last-Modified", "Mon, 01 Jun 2026 12:00:00 GMT"),)
                    self.answer("text/html", "<p>", old)
                case _:
                    self.answer("text/plain", "")

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            site._reading |= json.loads(body)
            self.answer("text/plain", "")

        def next_page(self) -> str:
            try:
                return site._next.get(timeout=15)
            except queue.Empty:
                return ""

        def note_headers(self, where: str) -> None:
            for name, value in self.headers.items():
                if name.lower() not in _OF_THE_SITE:
                    coarse = _COARSE.get(name.lower())
                    told = str(coarse(float(value))) if coarse else value
                    site._reading[f"http:{name.lower()}@{where}"] = told

        def answer(self, kind: str, text: str, headers: Headers = ()) -> None:
            body = text.encode()
            self.send_response(200)
            fixed = (("Content-Type", f"{kind}; charset=utf-8"), ("Content-Length", str(len(body))))
            for name, value in (*fixed, ("Cache-Control", "no-store"), *headers):
                self.send_header(name, value)
            self.end_headers()
            try:
                self.wfile.write(body)
            except OSError:
                self.close_connection = True

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    return Handler
