"""Browsers in environments that differ in one thing.

Needs Debian's `chromium` and `firefox-esr`, and for screens `xvfb` and `libgl1-mesa-dri`.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import threading
import time
import urllib.request
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.lab.devtools import DevTools
from tests.firefox import Firefox, read_if_there
from tests.patience import wait

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

CHROMIUM = shutil.which("chromium")
FIREFOX = Path("/usr/lib/firefox-esr")
_CHOICE = threading.Lock()  # of a screen's number
_PERMITTED = {
    "local_fonts": 1, "window_placement": 1, "midi": 1, "idle_detection": 1, "popups": 1,
    "media_stream_mic": 1, "media_stream_camera": 1,
}  # fmt: skip
# What keeps a Firefox from asking, and its own protection from hiding what a list shall hide.
STOCK = {
    "app.normandy.enabled": False,
    "browser.aboutwelcome.enabled": False,
    "browser.shell.checkDefaultBrowser": False,
    "datareporting.policy.dataSubmissionEnabled": False,
    "dom.disable_open_during_load": False,
    "marionette.port": 0,
    "media.autoplay.default": 0,
    "network.captive-portal-service.enabled": False,
    "network.connectivity-service.enabled": False,
    "privacy.baselineFingerprintingProtection": False,
    "privacy.trackingprotection.enabled": False,
    "remote.prefs.recommended": False,
    "xpinstall.signatures.required": False,
}


@dataclass(frozen=True, kw_only=True)
class Environment:
    """What a browser is started in.

    Attributes
    ----------
    flags, blink, profile
        Of Chromium: options of its command, settings of its engine, of its profile.
    preferences
        Of Firefox.
    variables, cores, screen
        Variables of the process; how many cores it may use, 0 for all; size of its screen.
    fonts
        Rules of fontconfig, or the empty string for those of the system.
    disk
        Megabytes of the disk that holds the profile, or 0 for the disk as it is.
    keyboard
        Layout of the keyboard, or the empty string.
    battery
        Of Chromium: per cent that a laptop's battery holds, or 0 for a computer without one.
    hints
        Of Chromium: a user agent with the hints that it gives, or nothing for its own.
    """

    flags: tuple[str, ...] = ()
    blink: Mapping[str, str | int] = field(default_factory=dict)
    profile: Mapping[str, Any] = field(default_factory=dict)
    preferences: Mapping[str, Any] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    cores: int = 0
    screen: str = "1600x1200"
    fonts: str = ""
    disk: int = 0
    keyboard: str = ""
    battery: int = 0
    hints: Mapping[str, Any] = field(default_factory=dict)


@contextmanager
def running(
    command: Sequence[str], environment: Mapping[str, str], passed: Sequence[int] = ()
) -> Iterator[None]:
    """Run a process with all its children, and end them; it gets some file descriptors."""
    process = subprocess.Popen(
        command,
        pass_fds=passed,
        env={**os.environ, **environment},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield
    finally:
        for sign in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(process.pid, sign)
                process.wait(timeout=8)
                break
            except (ProcessLookupError, subprocess.TimeoutExpired):
                continue
        process.wait(timeout=8)


@contextmanager
def display(screen: str, keyboard: str = "") -> Iterator[str]:
    """Run a screen without a monitor; give its name."""
    with ExitStack() as stack:
        with _CHOICE:
            number = next(n for n in range(70, 900) if not Path(f"/tmp/.X11-unix/X{n}").exists())
            socket = Path(f"/tmp/.X11-unix/X{number}")
            command = ["Xvfb", f":{number}", "-screen", "0", f"{screen}x24", "-nolisten", "tcp"]
            stack.enter_context(running(command, {}))
            for _ in range(200):
                if socket.exists():
                    break
                time.sleep(0.1)
            else:
                message = "Xvfb did not start"
                raise RuntimeError(message)
        if keyboard:
            subprocess.run(["setxkbmap", "-display", f":{number}", keyboard], check=False)
        yield f":{number}"


@contextmanager
def _disk(profile: Path, megabytes: int) -> Iterator[None]:
    """Make the folder of a profile, on a disk of its own where a size is given."""
    profile.mkdir()
    if not megabytes:
        yield
        return
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "lab", str(profile)], check=True
    )
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(profile)], check=True)


@contextmanager
def _bus(folder: Path, battery: int) -> Iterator[dict[str, str]]:
    """Run a system bus on which a battery is told of; give the variables that name it."""
    if not battery:
        yield {}
        return
    address = f"unix:path={folder}/bus"
    teller = str(Path(__file__).with_name("upower.py"))
    with ExitStack() as stack:
        bus = ["dbus-daemon", "--session", "--nofork", f"--address={address}"]
        stack.enter_context(running(bus, {}))
        wait((folder / "bus").exists, 20)
        stack.enter_context(running(["/usr/bin/python3", teller, address, str(battery)], {}))
        time.sleep(1)  # until it has its name
        yield {"DBUS_SYSTEM_BUS_ADDRESS": address}


@contextmanager
def chromium(
    folder: Path, address: str, within: Environment, *, extensions: Sequence[Path] = (),
    policies: str = "",
) -> Iterator[None]:  # fmt: skip
    """Run Chromium on an address, with extensions and managed policies."""
    profile = folder / "profile"
    folder.mkdir(parents=True, exist_ok=True)
    settings: dict[str, Any] = {"profile": {"default_content_setting_values": _PERMITTED}}
    text = json.dumps(settings | dict(within.profile))
    width, height = within.screen.split("x")
    command = [
        str(CHROMIUM), "--headless=new", "--no-sandbox", "--no-first-run",
        "--disable-popup-blocking", "--enable-unsafe-swiftshader",
        "--autoplay-policy=no-user-gesture-required",
        # Windows that readers open must not slow the timers of the page behind them.
        "--disable-background-timer-throttling", "--disable-backgrounding-occluded-windows",
        "--disable-renderer-backgrounding",
        "--remote-debugging-port=0", f"--user-data-dir={profile}",
    ]  # fmt: skip
    given = {flag.partition("=")[0] for flag in within.flags}
    usual = [
        "--use-angle=swiftshader", "--use-webgpu-adapter=swiftshader", "--window-size=1000,700",
        f"--screen-info={{{width}x{height}}}",
    ]  # fmt: skip
    command += [flag for flag in usual if flag.partition("=")[0] not in given]
    if extensions:
        every = ",".join(map(str, extensions))
        command += [
            f"--load-extension={every}", f"--disable-extensions-except={every}",
            "--disable-features=DisableLoadExtensionCommandLineSwitch",
        ]  # fmt: skip
    if within.blink:
        command.append(f"--blink-settings={','.join(f'{n}={v}' for n, v in within.blink.items())}")
    command += [*within.flags, "about:blank"]
    if policies:
        managed = folder / "managed"
        managed.mkdir()
        (managed / "policies.json").write_text(policies, encoding="utf-8")
        place = "/etc/chromium/policies/managed"
        command = [
            "unshare", "--mount", "sh", "-c",
            f'mkdir -p {place} && mount --bind "$0" {place} && exec "$@"', str(managed), *command,
        ]  # fmt: skip
    with ExitStack() as stack:
        stack.enter_context(_disk(profile, within.disk))
        (profile / "Default").mkdir()
        (profile / "Default" / "Preferences").write_text(text, encoding="utf-8")
        command, variables = _within(within, command, profile)
        variables |= stack.enter_context(_bus(folder, within.battery))
        if within.hints:
            tools = DevTools()
            stack.enter_context(running(tools.command(command), variables, tools.passed))
            tools.started()
            tools.give_hints(within.hints)
        else:
            stack.enter_context(running(command, variables))
        # Beside an extension, Chromium does not always open the address of its command.
        port = wait(lambda: read_if_there(profile / "DevToolsActivePort"), 60).split()[0]
        opened = f"http://127.0.0.1:{port}/json/new?{address}"
        urllib.request.urlopen(urllib.request.Request(opened, method="PUT"), timeout=30).close()
        yield


@contextmanager
def firefox(
    folder: Path, address: str, within: Environment, *, policies: str = ""
) -> Iterator[Firefox]:
    """Run Firefox on an address, on a screen of its own; give its commands."""
    program, profile = FIREFOX, folder / "profile"
    folder.mkdir(parents=True, exist_ok=True)
    if policies:
        program = folder / "firefox"
        shutil.copytree(FIREFOX, program, copy_function=link_or_copy, symlinks=True)
        distribution = program / "distribution"
        distribution.unlink()  # Debian's link; ours must not write through it
        distribution.mkdir()
        (distribution / "policies.json").write_text(policies, encoding="utf-8")
    chosen = STOCK | dict(within.preferences)
    lines = [f"user_pref({json.dumps(n)}, {json.dumps(v)});\n" for n, v in chosen.items()]
    command = [
        str(program / "firefox-esr"), "--no-remote", "--profile", str(profile), "--marionette",
        "--remote-allow-system-access", "--width", "1000", "--height", "700", address,
    ]  # fmt: skip
    with ExitStack() as stack:
        stack.enter_context(_disk(profile, within.disk))
        (profile / "user.js").write_text("".join(lines), encoding="utf-8")
        name = stack.enter_context(display(within.screen, within.keyboard))
        command, variables = _within(within, command, profile)
        variables |= {"DISPLAY": name, "LIBGL_ALWAYS_SOFTWARE": "1"}
        stack.enter_context(running(command, variables))
        port = wait(lambda: read_if_there(profile / "MarionetteActivePort"), 60)
        browser = Firefox(int(port))
        stack.callback(browser.close)
        yield browser


def in_chrome(browser: Firefox, expression: str) -> Any:
    """Run a script with the rights of Firefox itself."""
    browser._call("Marionette:SetContext", {"value": "chrome"})
    try:
        return browser.run(expression)
    finally:
        browser._call("Marionette:SetContext", {"value": "content"})


def version_of(program: str) -> str:
    """Return the version of an installed browser."""
    done = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
    return next(word for word in done.stdout.split() if word[0].isdigit())


def _within(
    within: Environment, command: Sequence[str], profile: Path
) -> tuple[list[str], dict[str, str]]:
    variables = {"HOME": str(profile), "TZ": "Europe/Paris", "LANG": "C.UTF-8", **within.variables}
    command = list(command)
    if within.fonts:
        rules = profile / "fonts.conf"
        text = f"<fontconfig>{within.fonts}<cachedir>{profile}/fonts</cachedir></fontconfig>"
        rules.write_text(f'<?xml version="1.0"?>{text}', encoding="utf-8")
        variables["FONTCONFIG_FILE"] = str(rules)
    if within.cores:
        command = ["taskset", "--cpu-list", f"0-{within.cores - 1}", *command]
    return command, variables


def link_or_copy(source: str, target: str) -> None:
    """Give a file a second name, or copy it to another disk."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
