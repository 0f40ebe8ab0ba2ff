"""Whether a list leaves in real browsers the exposure that `preview` predicts.

    PYTHONPATH=. python benchmarks/recollection.py chromium --modules MODULES --ublock UBLOCK
    PYTHONPATH=. python benchmarks/recollection.py firefox --ublock UBLOCK [--visits 40]

80 visits of varied settings are read without a list and with each of three lists of a product, by
every name of the same information and by the page, the getter of the prototype, a new frame, a
worker and the headers of requests; windows that a page opens are not read, as the settings of its
visitor do not reach them. `predicted` is what `preview` makes of the visits without the list, and
for the web extension what its second headline is about; `measured` is the exposure of what was read
with it. Chromium runs AdGuard's scriptlets (npm package @adguard/scriptlets), those of uBlock
Origin, the headers of Permissions-Policy and the web extension, each on a host of its own, and its
policies; Firefox runs its policies, its `user.js`, uBlock Origin and the web extension. UBLOCK is
the folder of the extension in Debian's package `webext-ublock-origin-firefox`. Exit code 1: a
measured exposure lies outside its limits.
"""

from __future__ import annotations

import argparse
import http.server
import json
import os
import queue
import random
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from benchmarks.lab.browsers import FIREFOX, link_or_copy
from benchmarks.lab.devtools import DevTools
from benchmarks.lab.products import PRODUCTS, merged_extension, ublock_policies
from fpmonitor.answers.preview import preview_sets
from fpmonitor.decide.decision import Decision
from fpmonitor.estimate.exposure import empirical_exposure
from fpmonitor.export.effect import left_readable, left_unchanged
from fpmonitor.export.exporter import ExportOptions
from fpmonitor.monitor import Monitor
from fpmonitor.plugins import EXPORTERS, load_plugin
from fpmonitor.policy import Policy
from fpmonitor.vocabulary import same_information

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

VISITS, K, POPULATION = 80, 3, 80
CANDIDATES = (
    "Intl.DateTimeFormat.resolvedOptions#timeZone",
    "Navigator.hardwareConcurrency",
    "Navigator.languages",
    "Navigator.userAgent",
    "IdleDetector.start",
    "NavigatorUAData.getHighEntropyValues#platformVersion",
    "PressureObserver.observe",
    "Screen.width",
    "Window.devicePixelRatio",
    "css:prefers-color-scheme",
)
BLOCKED = {"all": CANDIDATES, "first": CANDIDATES[:4], "second": CANDIDATES[4:]}
HINTS = "Sec-CH-UA-Platform-Version, Sec-CH-DPR, DPR, Sec-CH-Prefers-Color-Scheme"
PROBE = r"""
const readers = {
  "Intl.DateTimeFormat.resolvedOptions#timeZone":
    (g) => new g.Intl.DateTimeFormat().resolvedOptions().timeZone,
  "Date.getTimezoneOffset": (g) => new g.Date(2026, 0, 1).getTimezoneOffset(),
  "Intl.DateTimeFormat.formatToParts#timeZoneName": (g) =>
    new g.Intl.DateTimeFormat("en", { timeZoneName: "long" }).formatToParts()
      .find((part) => part.type === "timeZoneName").value,
  "Navigator.hardwareConcurrency": (g, get) => get(g.navigator, "hardwareConcurrency"),
  "Navigator.language": (g, get) => get(g.navigator, "language"),
  "Navigator.languages": (g, get) => [...get(g.navigator, "languages")],
  "Intl.NumberFormat.resolvedOptions#locale":
    (g) => new g.Intl.NumberFormat().resolvedOptions().locale,
  "Navigator.userAgent": (g, get) => get(g.navigator, "userAgent"),
  "Navigator.appVersion": (g, get) => get(g.navigator, "appVersion"),
  "NavigatorUAData.getHighEntropyValues#platformVersion": async (g, get) =>
    (await get(g.navigator, "userAgentData").getHighEntropyValues(["platformVersion"]))
      .platformVersion,
  "Screen.width": (g, get) => get(g.screen, "width"),
  "css:device-width": (g) => {
    for (let low = 1, high = 8192; ;) {
      if (low === high) return low;
      const middle = (low + high + 1) >> 1;
      if (g.matchMedia(`(min-device-width: ${middle}px)`).matches) low = middle;
      else high = middle - 1;
    }
  },
  "Window.devicePixelRatio": (g) => g.devicePixelRatio,
  "css:resolution": (g) =>
    [1, 1.25, 1.5, 2, 3].find((ratio) => g.matchMedia(`(resolution: ${ratio}dppx)`).matches),
  "css:prefers-color-scheme": (g) => g.matchMedia("(prefers-color-scheme: dark)").matches,
  "IdleDetector.start": async (g) => {
    const detector = new g.IdleDetector();
    await detector.start({ threshold: 60000 });
    return detector.userState;
  },
  "PressureObserver.observe": (g, get) => g === self && g.document && get === direct
    ? new Promise((done, failed) => {
      const observer = new g.PressureObserver((found) => done(found[0].state));
      observer.observe("cpu", { sampleInterval: 100 }).catch(failed);
      setTimeout(failed, 2000);
    })
    : undefined,
};
const direct = (object, member) => object[member];
const getter = (object, member) => {
  for (let at = Object.getPrototypeOf(object); at; at = Object.getPrototypeOf(at)) {
    const found = Object.getOwnPropertyDescriptor(at, member);
    if (found) return found.get.call(object);
  }
};
async function read(global, get, way, report) {
  for (const [name, reader] of Object.entries(readers))
    try {
      const value = await reader(global, get);
      if (value !== undefined) (report[name] ??= {})[way] = value;
    } catch {}
  return report;
}
"""
PAGE = """<!doctype html><body><script src="/probe.js"></script><script>
(async () => {
  const report = await read(window, direct, "window", {});
  await read(window, getter, "getter", report);
  const frame = document.body.appendChild(document.createElement("iframe"));
  await read(frame.contentWindow, direct, "frame", report);
  const worker = new Worker("/worker.js");
  const told = await new Promise((done) => {
    worker.onmessage = (event) => done(event.data);
    worker.onerror = () => done({});
  });
  for (const [name, ways] of Object.entries(told)) Object.assign(report[name] ??= {}, ways);
  await fetch("/resource");
  await fetch("/report", { method: "POST", body: JSON.stringify(report) });
})();
</script>"""
WORKER = PROBE + 'read(self, direct, "worker", {}).then((report) => postMessage(report));'
ADGUARD = """
import { scriptlets } from "@adguard/scriptlets";
import { readFileSync } from "node:fs";
for (const [name, ...args] of JSON.parse(readFileSync(0, "utf-8"))) {
  const source = JSON.stringify({ name, args, engine: "extension", version: "1", verbose: false });
  console.log(`(${scriptlets.getScriptletFunction(name)})(${source}, ${JSON.stringify(args)});`);
}
"""
UBLOCK = """
import { builtinScriptlets } from "./js/resources/scriptlets.js";
import { readFileSync } from "node:fs";
const known = new Map(builtinScriptlets.flatMap((one) =>
  [one.name, ...(one.aliases ?? [])].map((name) => [name.replace(/[.]js$/, ""), one])));
const needed = new Map();
const need = (name) => {
  const one = known.get(name.replace(/[.]js$/, ""));
  if (needed.has(one.name)) return one;
  needed.set(one.name, one.fn.toString());
  (one.dependencies ?? []).forEach(need);
  return one;
};
const calls = JSON.parse(readFileSync(0, "utf-8")).map(([name, ...args]) =>
  `try { (${need(name).fn.name})(...${JSON.stringify(args)}); } catch {}`);
console.log("(() => { const scriptletGlobals = { canDebug: false };");
console.log([...needed.values(), ...calls].join("\\n"));
console.log("})();");
"""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What a visitor has."""

    zone: str
    language: str
    width: int
    ratio: float
    cores: int
    dark: bool
    version: str
    idle: bool
    pressure: str


@dataclass
class Place:
    """A server of the page on every host; `texts` by path, `headers` are sent by host."""

    headers: dict[str, tuple[tuple[str, str], ...]] = field(default_factory=dict)
    texts: dict[str, str] = field(
        default_factory=lambda: {"/": PAGE, "/probe.js": PROBE, "/worker.js": WORKER}
    )
    reports: queue.Queue[dict[str, Any]] = field(default_factory=queue.Queue)


def settings(visits: int) -> list[Setting]:
    """Return the settings of all visitors; some share all of them."""
    draw, rare = random.Random(24), random.Random(25)
    return [
        Setting(
            zone=draw.choice(["America/New_York", "Europe/Berlin", "Asia/Tokyo"]),
            language=draw.choice(["en-US", "de-DE", "fr-FR"]),
            width=draw.choice([1366, 1440, 1920]),
            ratio=draw.choice([1, 2]),
            cores=draw.choice([2, 4, 8]),
            dark=draw.random() < 0.3,
            version=draw.choice(["150", "151", "152"]),
            idle=rare.random() < 0.03,
            pressure=rare.choices(["nominal", "fair", "serious", "critical"], [60, 30, 8, 2])[0],
        )
        for _ in range(visits)
    ]


@contextmanager
def serving(place: Place) -> Iterator[int]:
    """Serve the page; give the port."""
    seen: dict[str, dict[str, str]] = {}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path in {"/", "/resource"}:
                way = "navigation" if self.path == "/" else "subresource"
                for name, value in self.headers.items():
                    seen.setdefault(f"http:{name.lower()}", {})[way] = value
            self.answer("text/html" if self.path == "/" else "text/javascript")

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            place.reports.put(json.loads(body) | seen)
            seen.clear()
            self.answer("text/plain")

        def answer(self, kind: str) -> None:
            body = place.texts.get(self.path, "").encode()
            host = (self.headers["Host"] or "").partition(":")[0]
            self.send_response(200)
            for name, value in (
                ("Content-Type", kind),
                ("Content-Length", str(len(body))),
                *place.headers.get(host, (("Accept-CH", HINTS),)),
            ):
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()


def visit_chromium(
    place: Place, port: int, hosts: Sequence[str], folder: Path,
    *, visitors: Sequence[Setting], extensions: Sequence[Path] = (), policies: str = "",
) -> dict[str, list[dict[str, Any]]]:  # fmt: skip
    """Return what every visitor tells each host."""
    command = [
        "chromium", "--headless=new", "--no-sandbox", "--no-first-run",
        f"--user-data-dir={folder / 'profile'}", "about:blank",
    ]  # fmt: skip
    if extensions:
        command += [
            f"--load-extension={','.join(map(str, extensions))}",
            "--disable-features=DisableLoadExtensionCommandLineSwitch",
        ]
    if policies:
        managed = folder / "managed"
        managed.mkdir(parents=True)
        (managed / "policies.json").write_text(policies, encoding="utf-8")
        place_of = "/etc/chromium/policies/managed"
        script = f'mkdir -p {place_of} && mount --bind "$0" {place_of} && exec "$@"'
        command = ["unshare", "--mount", "sh", "-c", script, str(managed), *command]
    call = DevTools()
    process = subprocess.Popen(
        call.command(command), pass_fds=call.passed, env={**os.environ, "HOME": str(folder)},
        stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    call.started()
    found: dict[str, list[dict[str, Any]]] = {host: [] for host in hosts}
    try:
        target = call("Target.createTarget", url="about:blank")["targetId"]
        session = call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        call("Page.enable", session)
        call("Browser.grantPermissions", permissions=["idleDetection"])
        call("Emulation.setPressureSourceOverrideEnabled", session, source="cpu", enabled=True)
        for host in hosts:  # from the second request on, hints come as they are asked for
            call("Page.navigate", session, url=f"http://{host}:{port}/")
            place.reports.get(timeout=60)
        for setting in visitors:
            emulate(call, session, setting)
            for host in hosts:
                call("Page.navigate", session, url=f"http://{host}:{port}/")
                found[host].append(place.reports.get(timeout=60))
    finally:
        process.terminate()
        process.wait()
    return found


def emulate(call: DevTools, session: str, setting: Setting) -> None:
    """Give a page the setting of a visitor."""
    call("Emulation.setTimezoneOverride", session, timezoneId=setting.zone)
    call("Emulation.setLocaleOverride", session)
    call("Emulation.setLocaleOverride", session, locale=setting.language)
    call(
        "Emulation.setDeviceMetricsOverride", session, width=setting.width, height=900,
        screenWidth=setting.width, screenHeight=900, deviceScaleFactor=setting.ratio, mobile=False,
    )  # fmt: skip
    call("Emulation.setPressureStateOverride", session, source="cpu", state=setting.pressure)
    call("Emulation.setIdleOverride", session, isUserActive=not setting.idle, isScreenUnlocked=True)
    scheme = "dark" if setting.dark else "light"
    call(
        "Emulation.setEmulatedMedia", session,
        features=[{"name": "prefers-color-scheme", "value": scheme}],
    )  # fmt: skip
    call("Emulation.setHardwareConcurrencyOverride", session, hardwareConcurrency=setting.cores)
    call(
        "Emulation.setUserAgentOverride", session,
        userAgent=f"Mozilla/5.0 (X11; Linux x86_64) Chrome/{setting.version}.0.0.0",
        acceptLanguage=setting.language,
        userAgentMetadata={
            "platform": "Linux", "platformVersion": f"6.{setting.version}", "architecture": "x86",
            "model": "", "mobile": False,
        },
    )  # fmt: skip


class Marionette:
    """Commands to a Firefox through its own port."""

    def __init__(self, port: int) -> None:
        for _ in range(600):
            try:
                self._socket = socket.create_connection(("127.0.0.1", port), timeout=60)
                break
            except OSError:
                threading.Event().wait(0.1)
        self._buffer, self._numbers = b"", count(1)
        self._receive()
        self("WebDriver:NewSession", pageLoadStrategy="none")  # pages report by themselves

    def close(self) -> None:
        self._socket.close()

    def __call__(self, name: str, **params: Any) -> Any:
        text = json.dumps([0, next(self._numbers), name, params]).encode()
        self._socket.sendall(str(len(text)).encode() + b":" + text)
        _, _, error, result = self._receive()
        if error:
            raise RuntimeError(f"{name}: {error}")
        return result

    def _receive(self) -> Any:
        while b":" not in self._buffer:
            self._buffer += self._socket.recv(1 << 16)
        length, _, rest = self._buffer.partition(b":")
        while len(rest) < int(length):
            rest += self._socket.recv(1 << 16)
        self._buffer = rest[int(length) :]
        return json.loads(rest[: int(length)])


@contextmanager
def firefox(
    folder: Path, policies: str, userjs: str = "", display: str = ""
) -> Iterator[Marionette]:
    """Run a Firefox with these policies and this `user.js`; give its commands."""
    program, profile = folder / "firefox", folder / "profile"
    shutil.copytree(FIREFOX, program, copy_function=link_or_copy, symlinks=True)
    distribution = program / "distribution"
    distribution.unlink()  # Debian's link; ours must not write through it
    distribution.mkdir()
    (distribution / "policies.json").write_text(policies or '{"policies": {}}', encoding="utf-8")
    profile.mkdir()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        door = free.getsockname()[1]
    fixed = {"marionette.port": door, "remote.prefs.recommended": "false"}
    lines = [f'user_pref("{name}", {value});\n' for name, value in fixed.items()]
    (profile / "user.js").write_text(userjs + "".join(lines), encoding="utf-8")
    screen = {"DISPLAY": display, "LIBGL_ALWAYS_SOFTWARE": "1"} if display else {}
    process = subprocess.Popen(
        [str(program / "firefox-esr"), *([] if display else ["--headless"]), "--marionette",
         "--no-remote", "--remote-allow-system-access", "--profile", str(profile)],
        env={**os.environ, "HOME": str(profile), **screen}, stderr=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        with closing(Marionette(door)) as call:
            yield call
    finally:
        process.terminate()
        process.wait()


def visit_firefox(
    place: Place, port: int, hosts: Sequence[str], folder: Path,
    *, visitors: Sequence[Setting], extensions: Sequence[Path] = (), policies: str = "",
    userjs: str = "",
) -> dict[str, list[dict[str, Any]]]:  # fmt: skip
    """Return what every visitor tells each host, in a Firefox with policies and a `user.js`."""
    found: dict[str, list[dict[str, Any]]] = {host: [] for host in hosts}
    folder.mkdir()
    with firefox(folder, policies, userjs) as call:
        for path in extensions:
            call("Addon:Install", path=str(path.resolve()), temporary=True)
        threading.Event().wait(8 if extensions else 0)  # until lists are compiled
        for setting in visitors:
            call("Marionette:SetContext", value="chrome")
            call("WebDriver:ExecuteScript", script=SET_PREFS, args=[firefox_prefs(setting)])
            call("Marionette:SetContext", value="content")
            for host in hosts:
                call("WebDriver:Navigate", url=f"http://{host}:{port}/")
                found[host].append(place.reports.get(timeout=60))
    return found


SET_PREFS = """
for (const [name, value] of Object.entries(arguments[0])) {
  if (typeof value === "number") Services.prefs.setIntPref(name, value);
  else Services.prefs.setStringPref(name, value);
}
"""


def firefox_prefs(setting: Setting) -> dict[str, int | str]:
    """Return the preferences that give Firefox the setting of a visitor."""
    return {
        "dom.maxHardwareConcurrency": setting.cores,
        "general.useragent.override": f"Mozilla/5.0 (X11; rv:{setting.version}.0) Gecko/20100101",
        "intl.accept_languages": setting.language,
        "layout.css.devPixelsPerPx": str(setting.ratio),
        "layout.css.prefers-color-scheme.content-override": 0 if setting.dark else 1,
    }


def decision_of(blocked: Sequence[str]) -> Decision:
    """Return a decision that blocks some candidates and recommends the others."""
    kept = tuple(api for api in CANDIDATES if api not in blocked)
    return Decision(
        policy=Policy(k=K, population=POPULATION, budget=0.1, delta=0.05, candidates=CANDIDATES),
        setting="population", missing="value", users=POPULATION, digest="digest", guarantee="None.",
        allow=(kept,) if kept else (), block=tuple((api,) for api in blocked), undecided=(),
        recommended=kept, complete=True, evaluated=1, seconds=0.0,
    )  # fmt: skip


def extension_of(folder: Path, scripts: dict[str, str]) -> Path:
    """Make an extension that runs a script on each host before its page."""
    folder.mkdir()
    entries = []
    for host, text in scripts.items():
        (folder / f"{host}.js").write_text(text, encoding="utf-8")
        entries.append(
            {
                "matches": [f"http://{host}/*"],
                "js": [f"{host}.js"],
                "run_at": "document_start",
                "all_frames": True,
                "match_about_blank": True,
                "match_origin_as_fallback": True,
                "world": "MAIN",
            }
        )
    manifest = {
        "manifest_version": 3,
        "name": "scriptlets",
        "version": "1",
        "content_scripts": entries,
    }
    (folder / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    return folder


def node(program: str, calls: Sequence[Sequence[str]], folder: Path) -> str:
    """Return what a program for Node.js makes of calls of scriptlets, run in a folder."""
    script = folder / "fpmonitor-scriptlets.mjs"
    script.write_text(program, encoding="utf-8")
    done = subprocess.run(
        ["node", str(script)], input=json.dumps(calls), capture_output=True, text=True, check=True
    )
    script.unlink()
    return done.stdout


def scriptlets(product: str, text: str) -> list[list[str]]:
    """Return the calls of a list."""
    if product == "adguard":
        rules = [line for line in text.splitlines() if "scriptlet(" in line]
        return [re.findall(r"'((?:[^'\\]|\\.)*)'", rule) for rule in rules]
    calls = re.findall(r"^\S*##\+js\((.*)\)$", text, re.MULTILINE)
    return [call.split(", ") for call in calls]


def told(report: dict[str, Any], api: str) -> str:
    """Return all that a page reads of an information, by every name and way."""
    names = [api, *same_information(api)]
    return json.dumps({name: report[name] for name in names if name in report}, sort_keys=True)


def monitor_of(reports: Sequence[dict[str, Any]], path: Path) -> Monitor:
    """Store what visitors told."""
    monitor = Monitor(path, create=True)
    columns = {api: [told(report, api) for report in reports] for api in CANDIDATES}
    users = [f"visitor {number}" for number in range(len(reports))]
    monitor.ingest(pl.DataFrame({"user": users} | columns))
    return monitor


def compare(product: str, decision: Decision, before: Monitor, after: Monitor) -> int:
    """Print predicted and measured exposures: of each candidate, and of all; count those outside.

    Outside are measured exposures beyond the limits, or beyond what the same visitors' exposure is
    at least and at most by what is said to be left: limits of few visitors are wide.
    """
    exporter = load_plugin(EXPORTERS, product)
    chosen = exporter.export(decision, ExportOptions()).controls
    # the visits are read where an extension reaches, and by no style sheet or service worker
    known = exporter.within_reach if exporter.beyond else exporter.product
    left = left_readable(CANDIDATES, chosen, known, decision.means)
    unchanged = left_unchanged(CANDIDATES, chosen, known, decision.means)
    sets = [*((api,) for api in CANDIDATES), CANDIDATES]
    predicted, lowest = (
        preview_sets(
            before.population(), decision, [[api for api in apis if api in kept] for apis in sets]
        )
        for kept in (left, unchanged)
    )
    sample = after.population()
    equal = within = 0
    for apis, report, least in zip(sets, predicted, lowest, strict=True):
        spectrum = sample.source(apis).spectrum(apis)
        measured = empirical_exposure(spectrum, K)
        equal += measured == report.empirical
        same_visitors = least.empirical <= measured <= report.empirical
        within += same_visitors and least.lower <= measured <= report.upper
        if measured != report.empirical:
            name = apis[0] if len(apis) == 1 else "all"
            print(f"    {name}: predicted {report.empirical:.4f}, measured {measured:.4f}")
    print(f"  left: {', '.join(left) or 'nothing'}")
    print(f"  {equal} of {len(sets)} equal, {within} within the limits", flush=True)
    return len(sets) - within


def lists_of(product: str) -> dict[str, str]:
    """Return the lists of a product, one for each choice of what is withheld."""
    exporter = load_plugin(EXPORTERS, product)
    return {
        name: exporter.export(decision_of(blocked), ExportOptions()).text
        for name, blocked in BLOCKED.items()
    }


def controls_by_host(product: str) -> dict[str, tuple[Any, ...]]:
    """Return the controls of each list by the host on which it is in force."""
    exporter = load_plugin(EXPORTERS, product)
    return {
        f"{product}.{name}.localhost": exporter.export(
            decision_of(blocked), ExportOptions()
        ).controls
        for name, blocked in BLOCKED.items()
    }


def product_of(name: str) -> Any:
    """Return a product of the laboratory by its name."""
    return next(product for product in PRODUCTS if product.name == name)


def in_chromium(
    place: Place, port: int, folder: Path, visitors: Sequence[Setting], *, modules: Path | None,
    ublock: Path | None,
) -> dict[str, list[dict[str, Any]]]:  # fmt: skip
    """Return what all visitors tell, by product and list, in Chromium."""
    scripts = {}
    if modules:
        for name, text in lists_of("adguard").items():
            calls = scriptlets("adguard", text)
            scripts[f"adguard.{name}.localhost"] = node(ADGUARD, calls, modules.parent)
    if ublock:
        for name, text in lists_of("ublock").items():
            calls = scriptlets("ublock", text)
            scripts[f"ublock.{name}.localhost"] = node(UBLOCK, calls, ublock)
    for name, text in lists_of("permissions-policy").items():
        listed = dict(line.split(": ", 1) for line in text.splitlines())
        headers = {"Accept-CH": HINTS} | listed
        place.headers[f"permissions-policy.{name}.localhost"] = tuple(headers.items())
    ours = controls_by_host("webextension")
    extensions = [
        extension_of(folder / "extension", scripts),
        merged_extension(folder / "ours", product_of("web extension in Chromium"), ours),
    ]
    hosts = ["before.localhost", *scripts, *place.headers, *ours]
    found = visit_chromium(
        place, port, hosts, folder / "all", visitors=visitors, extensions=extensions
    )
    for name, text in lists_of("chromium-policies").items():
        host = f"chromium-policies.{name}.localhost"
        found |= visit_chromium(
            place, port, [host], folder / name, visitors=visitors, policies=text
        )
    return found


def in_firefox(
    place: Place, port: int, folder: Path, visitors: Sequence[Setting], *, ublock: Path | None
) -> dict[str, list[dict[str, Any]]]:
    """Return what all visitors tell, by product and list, in Firefox."""
    ours, theirs = controls_by_host("webextension"), controls_by_host("ublock")
    extensions = [merged_extension(folder / "ours", product_of("web extension in Firefox"), ours)]
    policies, hosts = "", ["before.localhost", *ours]
    if ublock:
        extensions.append(ublock)
        policies = ublock_policies(product_of("uBlock Origin"), theirs)
        hosts += theirs
    found = visit_firefox(
        place, port, hosts, folder / "all", visitors=visitors, extensions=extensions,
        policies=policies,
    )  # fmt: skip
    for product, kind in (("firefox-policies", "policies"), ("firefox-userjs", "userjs")):
        for name, text in lists_of(product).items():
            host, where = f"{product}.{name}.localhost", folder / f"{product}.{name}"
            given = {kind: text}
            found |= visit_firefox(place, port, [host], where, visitors=visitors, **given)
    return found


def main() -> int:
    """Visit, compare, print; 1 where a measured exposure lies outside its limits."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("browser", choices=["chromium", "firefox"])
    parser.add_argument("--modules", type=Path, help="folder node_modules with @adguard/scriptlets")
    parser.add_argument("--ublock", type=Path, help="folder of the extension uBlock Origin")
    parser.add_argument("--visits", type=int, default=VISITS)
    options = parser.parse_args()
    folder, place = Path(tempfile.mkdtemp()), Place()
    visitors = settings(options.visits)
    with serving(place) as port:
        if options.browser == "firefox":
            visits = in_firefox(place, port, folder, visitors, ublock=options.ublock)
        else:
            visits = in_chromium(
                place, port, folder, visitors, modules=options.modules, ublock=options.ublock
            )
    before = monitor_of(visits.pop("before.localhost"), folder / "before.duckdb")
    outside = 0
    for host, reports in visits.items():
        product, blocked, _ = host.split(".")
        print(f"{product}, {blocked}")
        after = monitor_of(reports, folder / f"{product}.{blocked}.duckdb")
        outside += compare(product, decision_of(BLOCKED[blocked]), before, after)
    shutil.rmtree(folder, ignore_errors=True)
    return 1 if outside else 0


if __name__ == "__main__":
    sys.exit(main())
