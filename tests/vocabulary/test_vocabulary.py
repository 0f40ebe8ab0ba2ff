"""Names mean one thing: the vocabulary, its aliases, and names that it does not have."""

from __future__ import annotations

import json
import re
from importlib import resources
from typing import Any

import pytest

from fpmonitor.errors import UnknownNameError
from fpmonitor.export.controls import controls_of
from fpmonitor.export.enforce import ControlExporter, judge
from fpmonitor.export.lists import ApiAction
from fpmonitor.plugins import EXPORTERS, load_plugin, plugin_names
from fpmonitor.vocabulary import (
    FAMILIES,
    aliases_of,
    api_named,
    api_of,
    api_of_instrumented,
    base_api,
    entry_of,
    is_known,
    known_apis,
    randomised_in,
    resolve,
    same_information,
)

CONTENT: dict[str, Any] = json.loads(
    (resources.files("fpmonitor.vocabulary") / "apis.json").read_text(encoding="utf-8")
)
NAME = re.compile(r"((http|css|transport):[a-z0-9-]+|[A-Z]\w*(\.[A-Z]\w*)?\.\w+)(#[\w.-]+)?")


def test_it_has_the_size_and_the_form_that_was_promised() -> None:
    apis = known_apis()
    assert len(apis) >= 150
    assert all(NAME.fullmatch(api) for api in apis)
    assert {entry.kind for entry in apis.values()} == {
        "attribute", "method", "header", "media", "connection"
    }  # fmt: skip
    groups = {entry.group for entry in apis.values()}
    assert groups == {"hardware", "software", "locale", "preference", "network"}


def test_kinds_are_those_of_webidl() -> None:
    kinds = {
        "Navigator.userAgent": "attribute",
        "HTMLCanvasElement.toDataURL": "method",
        "Intl.DateTimeFormat.resolvedOptions#timeZone": "method",
        "http:sec-ch-ua": "header",
        "css:prefers-color-scheme": "media",
    }
    assert {api: known_apis()[api].kind for api in kinds} == kinds
    assert not known_apis()["Navigator.cpuClass"].standard


@pytest.mark.parametrize("source", CONTENT["aliases"])
def test_every_alias_leads_to_an_api(source: str) -> None:
    bases = {base_api(api) for api in known_apis()}
    assert {base_api(api) for api in aliases_of(source).values()} <= bases


@pytest.mark.parametrize("source", CONTENT["aliases"])
def test_two_names_of_a_source_never_share_an_api_by_accident(source: str) -> None:
    # The reporting features of camera and microphone do: both are one call. FingerprintJS renamed
    # `videoCard` to `webGlBasics` and returns the same.
    apis = list(aliases_of(source).values())
    twice = {api for api in apis if apis.count(api) > 1}
    assert twice <= {
        "MediaDevices.enumerateDevices",
        "WebGLRenderingContext.getParameter#UNMASKED_RENDERER_WEBGL",
        "WebGLRenderingContext.getParameter#UNMASKED_VENDOR_WEBGL",
    }


def test_a_value_that_a_source_shapes_is_marked_with_the_source() -> None:
    assert api_of("fingerprintjs", "audio") == "OfflineAudioContext.startRendering#fingerprintjs"
    assert api_of("thumbmarkjs", "audio.sampleHash").endswith("#thumbmarkjs")
    for source in CONTENT["aliases"]:
        for api in aliases_of(source).values():
            mark = api.partition("#")[2].partition(".")[0]
            assert mark not in CONTENT["aliases"] or mark == source


def test_unknown_names_keep_their_source() -> None:
    assert api_of("fingerprintjs", "novelty") == "x:fingerprintjs:novelty"
    assert api_of("nobody", "a b") == "x:nobody:a b"


@pytest.mark.parametrize(
    ("symbol", "api"),
    [
        ("window.navigator.userAgent", "Navigator.userAgent"),
        ("window.screen.colorDepth", "Screen.colorDepth"),
        ("window.localStorage.getItem", "Storage.getItem"),
        ("HTMLCanvasElement.toDataURL", "HTMLCanvasElement.toDataURL"),
        ("Navigator.prototype.hardwareConcurrency", "Navigator.hardwareConcurrency"),
        ("AudioContext.createOscillator", "BaseAudioContext.createOscillator"),
        ("Intl.DateTimeFormat.prototype.resolvedOptions", "Intl.DateTimeFormat.resolvedOptions"),
        ("Document.cookie getter", "Document.cookie"),
        ("Document.cookie setter", "Document.cookie"),
        ("speechSynthesis.__proto__.getVoices", "SpeechSynthesis.getVoices"),
        ("document.fonts.check", "FontFaceSet.check"),
        ('window.matchMedia("prefers-color-scheme")', "css:prefers-color-scheme"),
        ('window.matchMedia("no-such-feature")', 'x:openwpm:window.matchMedia("no-such-feature")'),
        ("console.memory", "Performance.memory"),
        ("OfflineAudioContext.prototype.constructor", "OfflineAudioContext.startRendering"),
        ("RTCPeerConnection.prototype.constructor", "RTCPeerConnection.createOffer"),
        ("RTCPeerConnectionIceEvent.prototype.candidate", "RTCPeerConnectionIceEvent.candidate"),
        ("SharedWorker.prototype.constructor", "SharedWorker.port"),
        ("Gyroscope.prototype.constructor", "Gyroscope.constructor"),
        ("Gyroscope.prototype.x", "Gyroscope.x"),
        ("BarProp.prototype.visible", "BarProp.visible"),
        ("CookieStore.prototype.getAll", "CookieStore.getAll"),
        ("PerformanceTiming.prototype.navigationStart", "PerformanceTiming.navigationStart"),
        ("DeviceOrientationEvent.prototype.absolute", "DeviceOrientationEvent.absolute"),
        ("TouchEvent.prototype.constructor", "TouchEvent.constructor"),
        ("URL.createObjectURL", "URL.createObjectURL"),
        ("Notification.permission", "Notification.permission"),
        ("MediaSource.isTypeSupported", "MediaSource.isTypeSupported"),
        ("Date.prototype.getTime", "Date.getTime"),
        ("window.foo", "x:openwpm:window.foo"),
        ("nothing", "x:openwpm:nothing"),
    ],
)
def test_instrumented_symbols_are_named_by_interface(symbol: str, api: str) -> None:
    assert api_of_instrumented("openwpm", symbol) == api


# Symbols of Tracker Radar's api_fingerprint_weights.json beside those above: interface, members.
WEIGHED = {
    "window": (
        "localStorage name innerHeight innerWidth devicePixelRatio screenX screenY outerWidth "
        "outerHeight screenLeft screenTop sessionStorage indexedDB"
    ),
    "Navigator": (
        "userAgent language plugins cookieEnabled deviceMemory vendor connection getBattery "
        "javaEnabled webdriver storage platform languages maxTouchPoints vendorSub productSub "
        "doNotTrack mimeTypes webkitTemporaryStorage hardwareConcurrency appCodeName appName "
        "appVersion product onLine keyboard mediaDevices mediaCapabilities permissions "
        "presentation webkitPersistentStorage getGamepads requestMediaKeySystemAccess"
    ),
    "PerformanceTiming": "navigationStart",
    "Date": "getTime getTimezoneOffset",
    "Screen": (
        "width height availHeight availWidth colorDepth availTop pixelDepth availLeft orientation"
    ),
    "Element": "getClientRects",
    "NavigatorUAData": "getHighEntropyValues platform brands",
    "HTMLCanvasElement": "toDataURL toBlob",
    "Event": "timeStamp",
    "SharedWorker": "constructor",
    "OfflineAudioContext": "constructor",
    "Performance": "memory",
    "RTCPeerConnection": "constructor",
    "HTMLMediaElement": "canPlayType",
    "Intl.DateTimeFormat": "resolvedOptions",
    "BarProp": "visible",
    "BroadcastChannel": "constructor",
    "WebGLRenderingContext": (
        "getExtension getParameter getSupportedExtensions readPixels getContextAttributes "
        "getShaderPrecisionFormat"
    ),
    "WebGL2RenderingContext": (
        "getExtension getParameter getSupportedExtensions getContextAttributes "
        "getShaderPrecisionFormat readPixels"
    ),
    "RTCPeerConnectionIceEvent": "candidate",
    "MediaDevices": "enumerateDevices",
    "DeviceMotionEvent": "accelerationIncludingGravity acceleration rotationRate",
    "DeviceOrientationEvent": "beta gamma alpha absolute",
    "CookieStore": "getAll set get",
    "AudioBuffer": "getChannelData",
    "CanvasRenderingContext2D": "isPointInPath measureText getImageData",
    "Sensor": "start",
    "Animation": "currentTime startTime",
    "Gyroscope": "constructor x y z",
    "KeyboardEvent": "code keyCode",
    "TouchEvent": "constructor",
}


def test_every_symbol_that_tracker_radar_weighs_is_known() -> None:
    symbols = [
        f"{owner}.{member}" if owner == "window" else f"{owner}.prototype.{member}"
        for owner, members in WEIGHED.items()
        for member in members.split()
    ]
    unknown = [name for name in symbols if not is_known(api_of_instrumented("any", name))]
    assert (len(symbols), unknown) == (111, [])


def test_randomised_is_what_the_vocabulary_names_with_browser_version_and_source() -> None:
    named = CONTENT["randomised"]
    aliases = {api for source in CONTENT["aliases"] for api in aliases_of(source).values()}
    assert named
    for api in named:
        assert api in known_apis() or api in aliases or api.endswith("#fpmonitor"), api
        for family, entry in randomised_in(api).items():
            assert family in FAMILIES
            assert 0 < entry.since <= (entry.until or entry.since)
            assert entry.source.startswith("https://")


def test_names_of_one_information_are_known_and_know_each_other() -> None:
    for names in CONTENT["information"].values():
        assert len(names) > 1
        for name in names:
            assert name in known_apis()
            assert set(names) <= {name, *same_information(name)}
    assert same_information("Screen.width#fingerprintjs.screenResolution") == ("css:device-width",)
    of_page = same_information("Navigator.languages")
    assert {*of_page, "Navigator.languages"} == {*same_information("WorkerNavigator.languages")}
    assert "http:sec-ch-ua-model" in same_information("NavigatorUAData.getHighEntropyValues")
    assert same_information("Navigator.webdriver") == same_information("x:mine:y") == ()


def test_a_selector_does_not_inherit_the_randomness_of_its_api() -> None:
    assert randomised_in("HTMLCanvasElement.toDataURL")["firefox"].since == 153
    assert randomised_in("OffscreenCanvas.convertToBlob")["firefox"].since == 153
    assert randomised_in("HTMLCanvasElement.toDataURL#fingerprintjs.text")["firefox"].since == 153
    for api in ("HTMLCanvasElement.toDataURL#mine.jpeg", "Navigator.plugins#fingerprintjs"):
        assert randomised_in(api) == {}


@pytest.mark.parametrize(
    "api",
    [
        "MediaDeviceInfo.deviceId",  # kept for a site
        "StorageManager.estimate",
        "Performance.memory",
        "Performance.memory#thumbmarkjs.jsHeapSizeLimit",  # a constant of the device
        "BatteryManager.level",
        "NetworkInformation.rtt",
        "Performance.now",
        "History.length",
        "x:thumbmarkjs:math.sin",
    ],
)
def test_what_merely_changes_or_is_kept_is_not_randomised(api: str) -> None:
    assert randomised_in(api) == {}


def test_resolve_tells_what_a_name_means() -> None:
    [(source, api)] = resolve("canvas.text")
    assert (source, base_api(api)) == ("fingerprintjs", "HTMLCanvasElement.toDataURL")
    assert {api for _, api in resolve("window.navigator.platform")} == {"Navigator.platform"}
    assert resolve("http:User-Agent")[0][1] == "http:user-agent"
    sources = {"fingerprintjs", "fingerprintjs2", "glean", "columns"}
    assert {source for source, _ in resolve("timezone")} == sources
    with pytest.raises(UnknownNameError, match=r"Navigator\.userAgent"):
        resolve("Navigator.userAgnet")


def test_what_a_server_sees_of_a_connection_is_known_and_out_of_reach_of_every_list() -> None:
    names = {
        "http_ssl_ja3_hash": "transport:ja3",
        "JA3Hash": "transport:ja3",
        "JA4": "transport:ja4",
        "ja4Fingerprint": "transport:ja4",
        "http2_fingerprint": "transport:http2-settings",
        "header_order": "transport:header-order",
    }
    assert {name: api_named(name) for name in names} == names
    assert randomised_in("transport:ja3")["chromium"].since == 110
    assert {entry.kind for entry in map(entry_of, names.values())} == {"connection"}
    assert api_of_instrumented("any", "WorkerNavigator.prototype.platform") == "Navigator.platform"
    decided = [ApiAction(api, "block", "above the budget alone", api) for api in names.values()]
    for name in plugin_names(EXPORTERS):
        exporter = load_plugin(EXPORTERS, name)
        if isinstance(exporter, ControlExporter):
            controls = controls_of(exporter.families)
            verdicts = [judge(one, decided, controls, exporter.product).verdict for one in decided]
            assert set(verdicts) == {"impossible"}, name
