"""Pairs of environments that differ in one secret: all else that a page reads is the same."""

from __future__ import annotations

from benchmarks.lab.browsers import Environment

Pair = tuple[Environment, Environment]
_SYSTEM = '<include ignore_missing="yes">/etc/fonts/fonts.conf</include>'
_SMOOTH = """<match target="font"><edit name="antialias" mode="assign"><bool>%s</bool></edit>
<edit name="hinting" mode="assign"><bool>%s</bool></edit>
<edit name="hintstyle" mode="assign"><const>%s</const></edit></match>"""
_WITHOUT = """<selectfont><rejectfont><pattern><patelt name="family"><string>%s</string></patelt>
</pattern></rejectfont></selectfont>"""


def _same(one: Environment, other: Environment) -> dict[str, Pair]:
    """Return the pair for both browsers."""
    return {"chromium": (one, other), "firefox": (one, other)}


def _flags(one: tuple[str, ...], other: tuple[str, ...]) -> dict[str, Pair]:
    return {"chromium": (Environment(flags=one), Environment(flags=other))}


def _blink(one: dict[str, str | int], other: dict[str, str | int]) -> dict[str, Pair]:
    return {"chromium": (Environment(blink=one), Environment(blink=other))}


def _preferences(one: dict[str, object], other: dict[str, object]) -> dict[str, Pair]:
    return {"firefox": (Environment(preferences=one), Environment(preferences=other))}


def _hints(**other: object) -> Environment:
    agent = f"Mozilla/5.0 (X11; Linux x86_64) {_ENGINE} Chrome/156.0.0.0 Safari/537.36"
    same = {"platform": "Linux", "architecture": "x86", "model": "", "mobile": False}
    same |= {"platformVersion": "6.1.0"}
    return Environment(hints={"userAgent": agent, "userAgentMetadata": same | other})


_ENGINE = "AppleWebKit/537.36 (KHTML, like Gecko)"

# Secret -> browser -> the two environments.
SECRETS: dict[str, dict[str, Pair]] = {
    "pixel ratio": _flags(
        (
            "--screen-info={1600x1200}",
            "--font-render-hinting=none",
            "--enable-font-subpixel-positioning",
        ),
        (
            "--screen-info={3200x2400 devicePixelRatio=2}",
            "--font-render-hinting=none",
            "--enable-font-subpixel-positioning",
        ),
    )
    | {
        "firefox": (
            Environment(preferences={"layout.css.devPixelsPerPx": "1.0"}),
            Environment(preferences={"layout.css.devPixelsPerPx": "2.0"}, screen="3200x2400"),
        )
    },
    "width of the screen": _same(Environment(screen="1600x1200"), Environment(screen="1920x1200")),
    "height of the screen": _same(Environment(screen="1600x1200"), Environment(screen="1600x1080")),
    "cores": {"chromium": (Environment(cores=1), Environment(cores=2))}
    | _preferences({"dom.maxHardwareConcurrency": 1}, {"dom.maxHardwareConcurrency": 2}),
    "canvas": _same(
        Environment(fonts=_SYSTEM + _SMOOTH % ("true", "true", "hintfull")),
        Environment(fonts=_SYSTEM + _SMOOTH % ("false", "false", "hintnone")),
    ),
    "fonts": _same(
        Environment(fonts=_SYSTEM), Environment(fonts=_SYSTEM + _WITHOUT % "DejaVu Serif")
    ),
    "GPU": _flags(("--use-angle=swiftshader",), ("--use-angle=gl-egl", "--ignore-gpu-blocklist"))
    | {
        "firefox": (
            Environment(variables={"GALLIUM_DRIVER": "llvmpipe"}),
            Environment(variables={"GALLIUM_DRIVER": "softpipe"}),
        )
    },
    "time zone": _same(
        Environment(variables={"TZ": "America/New_York"}),
        Environment(variables={"TZ": "Asia/Kolkata"}),
    ),
    "languages": {
        "chromium": (
            Environment(
                flags=("--lang=de", "--accept-lang=de-DE,de"),
                variables={"LANGUAGE": "de", "LANG": "de_DE.UTF-8"},
            ),
            Environment(
                flags=("--lang=fr", "--accept-lang=fr-FR,fr"),
                variables={"LANGUAGE": "fr", "LANG": "fr_FR.UTF-8"},
            ),
        ),
        "firefox": (
            Environment(
                preferences={
                    "intl.accept_languages": "de-DE, de",
                    "intl.regional_prefs.use_os_locales": True,
                },
                variables={"LANG": "de_DE.UTF-8", "LC_ALL": "de_DE.UTF-8"},
            ),
            Environment(
                preferences={
                    "intl.accept_languages": "fr-FR, fr",
                    "intl.regional_prefs.use_os_locales": True,
                },
                variables={"LANG": "fr_FR.UTF-8", "LC_ALL": "fr_FR.UTF-8"},
            ),
        ),
    },
    "colour scheme": _blink({"preferredColorScheme": 0}, {"preferredColorScheme": 1})
    | _preferences({"ui.systemUsesDarkTheme": 1}, {"ui.systemUsesDarkTheme": 0}),
    "motion": _flags((), ("--force-prefers-reduced-motion",))
    | _preferences({}, {"ui.prefersReducedMotion": 1}),
    "contrast": _flags((), ("--force-high-contrast",))
    | _preferences({}, {"browser.display.document_color_use": 2}),
    "transparency": _preferences({}, {"ui.prefersReducedTransparency": 1}),
    "inverted colours": _preferences({}, {"ui.invertedColors": 1}),
    "touch": _flags(
        (),
        (
            "--touch-events=enabled",
            "--blink-settings=maxTouchPoints=5,availablePointerTypes=2,primaryPointerType=2,availableHoverTypes=1,primaryHoverType=1",
        ),
    )
    | _preferences(
        {},
        {
            "dom.maxtouchpoints.testing.value": 5,
            "dom.w3c_touch_events.enabled": 1,
            "ui.allPointerCapabilities": 1,
            "ui.primaryPointerCapabilities": 1,
        },
    ),
    "user agent": _flags(
        (f"--user-agent=Mozilla/5.0 (X11; Linux x86_64) {_ENGINE} Chrome/156.0.0.0 Safari/537.36",),
        (f"--user-agent=Mozilla/5.0 (X11; Linux i686) {_ENGINE} Chrome/150.0.0.0 Safari/537.36",),
    )
    | _preferences(
        {},
        {
            "general.useragent.override": (
                "Mozilla/5.0 (X11; Linux i686; rv:150.0) Gecko/20100101 Firefox/150.0"
            ),
            "general.platform.override": "Linux i686",
            "general.oscpu.override": "Linux i686",
            "general.buildID.override": "20260101000000",
            "general.appversion.override": "5.0 (Linux)",
        },
    ),
    "sound": _flags((), ("--audio-buffer-size=4096",))
    | _preferences(
        {"media.cubeb.force_sample_rate": 44100}, {"media.cubeb.force_sample_rate": 48000}
    ),
    "clock": _preferences({}, {"privacy.reduceTimerPrecision": False}),
    "codecs": _preferences(
        {}, {"media.av1.enabled": False, "media.webm.enabled": False, "media.mp4.enabled": False}
    ),
    "voices": _preferences(
        {}, {"media.webspeech.synth.test": True, "media.webspeech.synth.force_global_queue": True}
    ),
    "storage": _same(Environment(disk=500), Environment(disk=1200)),
    "media devices": _flags(
        ("--use-fake-device-for-media-stream=device-count=1", "--use-fake-ui-for-media-stream"),
        ("--use-fake-device-for-media-stream=device-count=3", "--use-fake-ui-for-media-stream"),
    )
    | _preferences({}, {"media.navigator.streams.fake": True}),
    "wishes": {
        "chromium": (Environment(), Environment(profile={"enable_do_not_track": True})),
        "firefox": (
            Environment(),
            Environment(
                preferences={
                    "privacy.globalprivacycontrol.enabled": True,
                    "privacy.donottrackheader.enabled": True,
                }
            ),
        ),
    },
    "connection": _flags(
        ("--force-effective-connection-type=2G",), ("--force-effective-connection-type=3G",)
    ),
    "PDF viewer": {
        "chromium": (
            Environment(),
            Environment(profile={"plugins": {"always_open_pdf_externally": True}}),
        )
    }
    | _preferences({}, {"pdfjs.disabled": True}),
    "WebGPU": _flags((), ("--enable-unsafe-webgpu",)),
    "version of the platform": {"chromium": (_hints(), _hints(platformVersion="6.8.0"))},
    "brands": {
        "chromium": (
            _hints(brands=[{"brand": "One", "version": "155"}]),
            _hints(brands=[{"brand": "Two", "version": "156"}]),
        )
    },
    "platform of hints": {"chromium": (_hints(), _hints(platform="Windows"))},
    "battery": {"chromium": (Environment(battery=31), Environment(battery=78))},
    "keyboard": {"firefox": (Environment(keyboard="us"), Environment(keyboard="de"))},
}
