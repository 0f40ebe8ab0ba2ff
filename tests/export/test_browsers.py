"""Exported lists in real browsers: what a page reads before and after.

Needs Debian's `chromium`, `firefox-esr` and, for WebGL in Firefox, `xvfb` and `libgl1-mesa-dri`.
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
import time
import zipfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest

from fpmonitor.decide.decision import Decision
from fpmonitor.export.exporter import ExportOptions
from fpmonitor.export.firefox import POLICIES, USERJS
from fpmonitor.export.firefox_targets import installed_targets, shipped_tables
from fpmonitor.export.permissions_policy import PERMISSIONS_POLICY
from fpmonitor.policy import Policy

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

pytestmark = pytest.mark.browser

CHROMIUM = shutil.which("chromium")
FIREFOX = Path("/usr/lib/firefox-esr")
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")
needs_firefox = pytest.mark.skipif(
    not (FIREFOX / "firefox-esr").is_file(), reason="firefox-esr is not installed"
)
needs_display = pytest.mark.skipif(shutil.which("Xvfb") is None, reason="xvfb is not installed")
SECONDS = 120  # a browser that has not reported by then never will

PAGE = """<!doctype html><meta charset="utf-8"><title>probe</title><script>
const read = async (get) => { try { return await get(); } catch (error) { return error.name; } };
const renderer = () => {
  const gl = document.createElement("canvas").getContext("webgl");
  const info = gl.getExtension("WEBGL_debug_renderer_info");
  return gl.getParameter(info ? info.UNMASKED_RENDERER_WEBGL : gl.RENDERER);
};
const hints = ["platformVersion", "architecture", "model"];
(async () => {
  const report = {
    timeZone: await read(() => Intl.DateTimeFormat().resolvedOptions().timeZone),
    offset: await read(() => new Date(2026, 0, 1).getTimezoneOffset()),
    gamepads: await read(() => navigator.getGamepads().length),
    maxTouchPoints: await read(() => navigator.maxTouchPoints),
    peerConnection: typeof RTCPeerConnection,
    renderer: await read(renderer),
    hints: await read(() => navigator.userAgentData.getHighEntropyValues(hints)),
    headers: await read(async () => (await fetch("/headers")).json()),
  };
  await fetch("/report", { method: "POST", body: JSON.stringify(report) });
})();
</script>"""


def decision_of(allow: Sequence[str], block: Sequence[str]) -> Decision:
    return Decision(
        policy=Policy(k=5, population=10, budget=0.1, delta=0.1, candidates=(*allow, *block)),
        setting="population",
        missing="value",
        users=10,
        digest="digest",
        guarantee="It holds.",
        allow=(tuple(sorted(allow)),) if allow else (),
        block=tuple((api,) for api in sorted(block)),
        undecided=(),
        recommended=tuple(sorted(allow)),
        complete=True,
        evaluated=1,
        seconds=0.0,
    )


@contextmanager
def page(headers: Sequence[tuple[str, str]] = ()) -> Iterator[tuple[str, queue.Queue[Any]]]:
    """Serve the page on localhost; give its address, and what it reports."""
    reports: queue.Queue[Any] = queue.Queue()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/headers":
                found = {name.lower(): value for name, value in self.headers.items()}
                self.answer("application/json", json.dumps(found), ())
            else:
                self.answer("text/html", PAGE, headers)

        def do_POST(self) -> None:
            reports.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.answer("text/plain", "", ())

        def answer(self, kind: str, body: str, more: Sequence[tuple[str, str]]) -> None:
            self.send_response(200)
            for name, value in (("Content-Type", kind), ("Content-Length", str(len(body))), *more):
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://localhost:{server.server_port}/", reports
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def running(command: Sequence[str], environment: dict[str, str] | None = None) -> Iterator[None]:
    """Run a process with all its children, and end them."""
    process = subprocess.Popen(
        command,
        env=os.environ | (environment or {}),
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


def chromium_reads(profile: Path, headers: Sequence[tuple[str, str]]) -> Any:
    assert CHROMIUM is not None
    with page(headers) as (address, reports):
        command = [
            CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run",
            "--remote-debugging-port=0", f"--user-data-dir={profile}", address,
        ]  # fmt: skip
        with running(command, {"HOME": str(profile)}):
            return reports.get(timeout=SECONDS)


def firefox_reads(folder: Path, *, userjs: str = "", policies: str = "", display: str = "") -> Any:
    """Report of a page in a Firefox with this `user.js` or these policies."""
    program, profile = folder / "firefox", folder / "profile"
    shutil.copytree(FIREFOX, program, copy_function=_link, symlinks=True)
    if policies:
        distribution = program / "distribution"
        distribution.unlink()  # Debian's link; ours must not write through it
        distribution.mkdir()
        (distribution / "policies.json").write_text(policies, encoding="utf-8")
    profile.mkdir()
    (profile / "user.js").write_text(userjs, encoding="utf-8")
    environment = {"HOME": str(profile), "TZ": "America/New_York"}
    if display:
        environment |= {"DISPLAY": display, "LIBGL_ALWAYS_SOFTWARE": "1"}
    with page() as (address, reports):
        command = [str(program / "firefox-esr"), "--no-remote", "--profile", str(profile), address]
        with running(command if display else [*command, "--headless"], environment):
            return reports.get(timeout=SECONDS)


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


@pytest.fixture(scope="module")
def display(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    number = 70 + os.getpid() % 900
    socket = Path(f"/tmp/.X11-unix/X{number}")
    with running(["Xvfb", f":{number}", "-screen", "0", "1024x768x24", "-nolisten", "tcp"]):
        for _ in range(100):
            if socket.exists():
                break
            time.sleep(0.1)
        else:
            pytest.fail(f"Xvfb did not start for {tmp_path_factory.getbasetemp()}")
        yield f":{number}"


def headers_of(text: str) -> list[tuple[str, str]]:
    return [(name, value) for name, value in (line.split(": ", 1) for line in text.splitlines())]


@needs_chromium
def test_exported_headers_empty_the_script_value_and_the_request_header(tmp_path: Path) -> None:
    names = ("model", "platformVersion", "architecture")
    script = [f"NavigatorUAData.getHighEntropyValues#{name}" for name in names]
    headers = ["http:sec-ch-ua-model", "http:sec-ch-ua-platform-version"]
    asked = ("Accept-CH", "Sec-CH-UA-Platform-Version, Sec-CH-UA-Model")
    before = chromium_reads(tmp_path / "before", [asked])
    assert set(names) <= set(before["hints"])
    assert before["headers"].keys() >= {"sec-ch-ua-model", "sec-ch-ua-platform-version"}
    assert isinstance(before["gamepads"], int)

    blocked = decision_of(["http:sec-ch-ua-model"], [*script, headers[1], "Navigator.getGamepads"])
    text = PERMISSIONS_POLICY.export(blocked, ExportOptions()).text
    after = chromium_reads(tmp_path / "after", [*headers_of(text), asked])
    assert set(after["hints"]) == {"brands", "mobile", "platform"}
    assert "sec-ch-ua-platform-version" not in after["headers"]
    assert "sec-ch-ua-model" in after["headers"]
    assert after["gamepads"] == "SecurityError"


@needs_firefox
@needs_display
def test_exported_policies_change_the_time_zone_and_the_renderer(
    tmp_path: Path, display: str
) -> None:
    for folder in ("before", "after"):
        (tmp_path / folder).mkdir()
    before = firefox_reads(tmp_path / "before", display=display)
    assert before["timeZone"] == "America/New_York"
    assert before["renderer"] not in {"Mozilla", "TypeError"}
    assert before["peerConnection"] == "function"

    renderer = "WebGLRenderingContext.getParameter#UNMASKED_RENDERER_WEBGL"
    zone = "Intl.DateTimeFormat.resolvedOptions#timeZone"
    blocked = decision_of(
        ["Navigator.maxTouchPoints"], [renderer, zone, "RTCPeerConnection.createOffer"]
    )
    text = POLICIES.export(blocked, ExportOptions()).text
    after = firefox_reads(tmp_path / "after", policies=text, display=display)
    assert after["timeZone"] == "Atlantic/Reykjavik"
    assert after["offset"] == 0
    assert after["renderer"] == "Mozilla"
    assert after["peerConnection"] == "undefined"
    assert after["maxTouchPoints"] == before["maxTouchPoints"], "allowed, and left alone"


@needs_firefox
def test_a_space_in_overrides_voids_them_as_our_reader_says(tmp_path: Path) -> None:
    text = USERJS.export(
        decision_of([], ["Date.getTimezoneOffset", "Navigator.maxTouchPoints"]), ExportOptions()
    ).text
    spaced = text.replace(",+", ", +")
    assert USERJS.validate(text) == []
    assert USERJS.validate(spaced)
    for folder in ("whole", "spaced"):
        (tmp_path / folder).mkdir()
    whole = firefox_reads(tmp_path / "whole", userjs=text)
    assert (whole["offset"], whole["maxTouchPoints"]) == (0, 5)
    void = firefox_reads(tmp_path / "spaced", userjs=spaced)
    assert void["timeZone"] == "America/New_York"


@needs_firefox
def test_exported_policies_fit_the_schema_in_firefox() -> None:
    with zipfile.ZipFile(FIREFOX / "browser" / "omni.ja") as omni:
        schema = json.loads(omni.read("modules/policies/policies-schema.json"))
    blocked = decision_of([], ["Date.getTimezoneOffset", "Navigator.languages", "Screen.width"])
    for site in (None, "example.com"):
        content = json.loads(POLICIES.export(blocked, ExportOptions(site=site)).text)
        assert list(content) == ["policies"]
        assert content["policies"].keys() <= schema["properties"].keys()
        jsonschema.Draft7Validator(schema).validate(content["policies"])
        for entry in content["policies"]["Preferences"].values():
            entry["Status"] = "loked"
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.Draft7Validator(schema).validate(content["policies"])


@needs_firefox
def test_targets_of_the_installed_firefox_are_read_and_known() -> None:
    found = installed_targets(FIREFOX)
    shipped = shipped_tables().get(found.version.split(".")[0])
    assert {"JSDateTimeUTC", "CanvasRandomization"} <= set(found.targets)
    assert shipped is None or shipped.targets == found.targets
