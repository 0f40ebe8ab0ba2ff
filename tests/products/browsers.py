"""Pages in real browsers, and what they report.

Needs Debian's `chromium` and `firefox-esr`, and for WebGL in Firefox `xvfb` and `libgl1-mesa-dri`.
"""

from __future__ import annotations

import http.server
import json
import os
import queue
import shutil
import signal
import subprocess
import threading
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from tests.patience import patience, wait

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

Reading = dict[str, dict[str, Any]]
Read = TypeVar("Read")
Headers = tuple[tuple[str, str], ...]
CHROMIUM = shutil.which("chromium")
FIREFOX = Path("/usr/lib/firefox-esr")
SECONDS = 45  # a browser that has not reported by then, on an idle machine, never will
HINTS = (
    "Sec-CH-UA-Arch, Sec-CH-UA-Bitness, Sec-CH-UA-Form-Factors, Sec-CH-UA-Full-Version, "
    "Sec-CH-UA-Full-Version-List, Sec-CH-UA-Model, Sec-CH-UA-Platform-Version, Sec-CH-UA-WoW64, "
    "Device-Memory, Sec-CH-Device-Memory, DPR, Sec-CH-DPR, Viewport-Width, Sec-CH-Viewport-Width, "
    "Sec-CH-Viewport-Height, RTT, Downlink, ECT, Sec-CH-Prefers-Color-Scheme, "
    "Sec-CH-Prefers-Reduced-Motion, Sec-CH-Prefers-Reduced-Transparency"
)
# Values that no control sets, so that it shows whether a control is in force.
PREFERENCES = {
    "browser.display.prefers_low_contrast": "true",
    "dom.disable_open_during_load": "false",
    "intl.accept_languages": '"de, fr"',
    "layout.css.prefers-color-scheme.content-override": "0",
    "pdfjs.disabled": "true",
    "ui.allPointerCapabilities": "1",
    "ui.invertedColors": "1",
    "ui.prefersReducedMotion": "1",
    "ui.prefersReducedTransparency": "1",
    "ui.primaryPointerCapabilities": "1",
}
STOCK = {**PREFERENCES, "privacy.baselineFingerprintingProtection": "false"}
_WAYS = Path(__file__).with_name("ways.js")
_FIRST = """<!doctype html><meta charset="utf-8"><title>ways</title><body>
<script src="/ways.js"></script><script>
(async () => {
  const report = await readAll();
  await fetch("/resource");
  await fetch("/report", { method: "POST", body: JSON.stringify(report) });
  location = "/second";
})();
</script>"""


@dataclass(frozen=True, kw_only=True)
class Stage:
    """What a site answers with: to its first page, which asks for all hints, and to the second.

    `host` tells sites apart that an extension acts on.
    """

    headers: Headers = ()
    host: str = "localhost"


class Site:
    """A server of the pages of a stage; `reading` is complete when the last page was asked for."""

    def __init__(self, stage: Stage, done: queue.Queue[Reading], then: str) -> None:
        self.reading: Reading = {}
        site = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.path == "/":
                    self.answer("text/html", _FIRST, (*stage.headers, ("Accept-CH", HINTS)))
                elif self.path == "/ways.js":
                    self.answer("text/javascript", _WAYS.read_text(encoding="utf-8"), stage.headers)
                elif self.path == "/resource":
                    self.note_headers("subresource")
                    self.answer("text/plain", "")
                elif self.path == "/second":
                    page = "<script>location = '/third'</script>"
                    self.answer("text/html", page, stage.headers)
                elif self.path == "/third":
                    self.note_headers("navigation")
                    self.answer("text/html", f"<script>location = {json.dumps(then)}</script>")
                    done.put(site.reading)
                else:
                    self.answer("text/plain", "")

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                site.reading |= json.loads(body)
                self.answer("text/plain", "")

            def note_headers(self, way: str) -> None:
                for name, value in self.headers.items():
                    site.reading.setdefault(f"http:{name.lower()}", {})[way] = value

            def answer(self, kind: str, text: str, headers: Headers = ()) -> None:
                body = text.encode()
                length = ("Content-Length", str(len(body)))
                self.send_response(200)
                for name, value in (("Content-Type", kind), length, *headers):
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://{stage.host}:{self._server.server_port}/"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@contextmanager
def sites(stages: Sequence[Stage]) -> Iterator[tuple[str, queue.Queue[Reading]]]:
    """Serve the stages, each of which leads to the next; give the first address."""
    done: queue.Queue[Reading] = queue.Queue()
    address = "about:blank"
    with ExitStack() as stack:
        for stage in reversed(stages):
            site = Site(stage, done, address)
            stack.callback(site.close)
            address = site.address
        yield address, done


@contextmanager
def running(command: Sequence[str], environment: Mapping[str, str]) -> Iterator[None]:
    """Run a process with all its children, and end them."""
    process = subprocess.Popen(
        command,
        env={**os.environ, **environment},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield
    finally:
        try:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@contextmanager
def displaying() -> Iterator[str]:
    """Run a screen without a monitor; give its name."""
    number = 70 + os.getpid() % 900
    socket = Path(f"/tmp/.X11-unix/X{number}")
    with running(["Xvfb", f":{number}", "-screen", "0", "1366x768x24", "-nolisten", "tcp"], {}):
        wait(socket.exists, 10)
        yield f":{number}"


def chromium_reads(
    folder: Path, stages: Sequence[Stage], *, extension: Path | None = None, policies: str = ""
) -> list[Reading]:
    """Readings of the stages in one Chromium, with an extension or with managed policies."""

    def start(folder: Path) -> list[Reading]:
        return _chromium_reads(folder, stages, extension=extension, policies=policies)

    return _started_again_where_it_hangs(start, folder)


def _started_again_where_it_hangs(start: Callable[[Path], Read], folder: Path) -> Read:
    """Read with a new browser where the first never reports: on a busy machine a few hang."""
    with suppress(queue.Empty):
        return start(folder / "first")
    return start(folder / "second")


def _chromium_reads(
    folder: Path, stages: Sequence[Stage], *, extension: Path | None, policies: str
) -> list[Reading]:
    profile = folder / "profile"
    command = [*chromium_command(profile, extension), "--remote-debugging-port=0"]
    if policies:
        managed = folder / "managed"
        managed.mkdir()
        (managed / "policies.json").write_text(policies, encoding="utf-8")
        place = "/etc/chromium/policies/managed"
        mount = f'mkdir -p {place} && mount --bind "$0" {place} && exec "$@"'
        command = ["unshare", "--mount", "sh", "-c", mount, str(managed), *command]
    environment = {"HOME": str(profile), "TZ": "America/New_York"}
    with sites(stages) as (address, done), running([*command, address], environment):
        return [done.get(timeout=patience(SECONDS)) for _ in stages]


def chromium_command(profile: Path, extension: Path | None) -> list[str]:
    """Return the command that starts Chromium with a new profile, in which it has graphics."""
    assert CHROMIUM is not None
    (profile / "Default").mkdir(parents=True)
    permitted = {"local_fonts": 1, "window_placement": 1, "midi": 1, "idle_detection": 1}
    preferences = {"profile": {"default_content_setting_values": permitted}}
    (profile / "Default" / "Preferences").write_text(json.dumps(preferences), encoding="utf-8")
    command = [
        CHROMIUM, "--headless=new", "--no-sandbox", "--no-first-run", "--disable-popup-blocking",
        "--enable-unsafe-swiftshader", "--use-angle=swiftshader", "--enable-unsafe-webgpu",
        "--use-webgpu-adapter=swiftshader", "--window-size=1200,800",
        "--force-device-scale-factor=2", f"--user-data-dir={profile}",
    ]  # fmt: skip
    if extension is not None:
        command += [
            f"--load-extension={extension}",
            f"--disable-extensions-except={extension}",
            "--disable-features=DisableLoadExtensionCommandLineSwitch",
        ]
    return command


def firefox_reads(folder: Path, *, display: str, userjs: str = "", policies: str = "") -> Reading:
    """Reading of a page in a Firefox with this `user.js` or these policies."""

    def start(folder: Path) -> Reading:
        return _firefox_reads(folder, display=display, userjs=userjs, policies=policies)

    return _started_again_where_it_hangs(start, folder)


def _firefox_reads(folder: Path, *, display: str, userjs: str, policies: str) -> Reading:
    program, profile = folder / "firefox", folder / "profile"
    shutil.copytree(FIREFOX, program, copy_function=_link, symlinks=True)
    if policies:
        distribution = program / "distribution"
        distribution.unlink()  # Debian's link; ours must not write through it
        distribution.mkdir()
        (distribution / "policies.json").write_text(policies, encoding="utf-8")
    profile.mkdir()
    (profile / "user.js").write_text(userjs, encoding="utf-8")
    command = [str(program / "firefox-esr"), "--no-remote", "--profile", str(profile)]
    environment = {"HOME": str(profile), "TZ": "America/New_York"}
    if display:
        environment |= {"DISPLAY": display, "LIBGL_ALWAYS_SOFTWARE": "1"}
    else:
        command.append("--headless")
    with sites([Stage()]) as (address, done), running([*command, address], environment):
        return done.get(timeout=patience(SECONDS))


def prefs(values: Mapping[str, str]) -> str:
    """Lines of a `user.js`."""
    return "".join(f'user_pref("{name}", {value});\n' for name, value in values.items())


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
