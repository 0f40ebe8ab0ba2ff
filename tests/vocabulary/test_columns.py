"""What strangers call their columns is understood, asked back, or left alone; never guessed."""

from __future__ import annotations

import json
from importlib import resources

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fpmonitor.errors import InputError, UnknownNameError
from fpmonitor.vocabulary import (
    api_named,
    certain_meaning,
    is_known,
    known_apis,
    meaning,
    meanings,
    nearest,
    randomised_in,
    resolve,
)

COLUMNS = json.loads((resources.files("fpmonitor.vocabulary") / "apis.json").read_text())["columns"]


def test_names_of_libraries_and_tables_are_understood() -> None:
    expected = {
        "userAgent": "Navigator.userAgent",
        "ua": "Navigator.userAgent",
        "user_agent": "Navigator.userAgent",
        "USER AGENT": "Navigator.userAgent",
        "navigator.userAgent": "Navigator.userAgent",
        "window.navigator.userAgent": "Navigator.userAgent",
        "navigator.useragent": "Navigator.userAgent",
        "getUserAgent": "Navigator.userAgent",
        "Navigator.prototype.userAgent": "Navigator.userAgent",
        "system.useragent": "Navigator.userAgent",
        "screenWidth": "Screen.width",
        "screen.width": "Screen.width",
        "screen_width": "Screen.width",
        "platform": "Navigator.platform",
        "osCpu": "Navigator.oscpu",
        "pluginsLength": "Navigator.plugins#length",
        "connection.rtt": "NetworkInformation.rtt",
        "window.devicePixelRatio": "Window.devicePixelRatio",
        "hardware.videocard.rendererUnmasked": (
            "WebGLRenderingContext.getParameter#UNMASKED_RENDERER_WEBGL"
        ),
        "canvas.text": "HTMLCanvasElement.toDataURL#fingerprintjs.text",
        "speech.details.voiceCount": "SpeechSynthesis.getVoices",
        "webrtc.hash": "RTCPeerConnection.createOffer",
        "permissions.background-sync": "Permissions.query",
        "components.fontPreferences.value.apple": (
            "Element.getBoundingClientRect#fingerprintjs.fontPreferences"
        ),
        "prefersColorScheme": "css:prefers-color-scheme",
        "components.platform.value": "Navigator.platform",
        "canvas.value.text": "HTMLCanvasElement.toDataURL#fingerprintjs.text",
        "navigator.userAgentData.bitness": "NavigatorUAData.getHighEntropyValues#bitness",
        "User-Agent": "http:user-agent",
        "HTTP_ACCEPT_LANGUAGE": "http:accept-language",
        "Sec-CH-UA-Model": "http:sec-ch-ua-model",
    }
    assert {name: meaning(name, {}) for name in expected} == expected


@pytest.mark.parametrize(
    ("name", "api"),
    [
        ("context.userAgent", "Navigator.userAgent"),
        ("context.screen.width", "Screen.width"),
        ("a.b.c.d.screen.availTop", "Screen.availTop"),
        ("payload->client->hardwareConcurrency", "Navigator.hardwareConcurrency"),
        ("event__device_pixel_ratio", "Window.devicePixelRatio"),
        ("properties.$screen_width", "Screen.width"),
        ("properties.$raw_user_agent", "Navigator.userAgent"),
        ("request.headers.Sec-CH-UA-Model", "http:sec-ch-ua-model"),
        ("fingerprint.navigator.product", "Navigator.product"),
        ("navigator.user_agent", "Navigator.userAgent"),
        ("screen.outerHeight", "Window.outerHeight"),
        ("battery.level", "BatteryManager.level"),
        ("fp.battery.chargingTime", "BatteryManager.chargingTime"),
        ("context.userAgentData.mobile", "NavigatorUAData.mobile"),
        (
            "uaData.fullVersionList",
            "NavigatorUAData.getHighEntropyValues#fullVersionList",
        ),
        ("userAgentData.wow64", "NavigatorUAData.getHighEntropyValues#wow64"),
        ("css.any-hover", "css:any-hover"),
        ("data.platform", "Navigator.platform"),
    ],
)
def test_the_last_parts_of_a_name_decide(name: str, api: str) -> None:
    assert meanings(name) == (api,)


@pytest.mark.parametrize(
    "name", ["context.timezone", "data.fonts", "context.locale", "a.webgl.renderer"]
)
def test_what_is_unclear_alone_is_unclear_below_a_prefix(name: str) -> None:
    assert len(meanings(name)) > 1


@pytest.mark.parametrize(
    ("name", "apis"),
    [
        ("timezone", {"Intl.DateTimeFormat.resolvedOptions#timeZone", "Date.getTimezoneOffset"}),
        ("width", {"Screen.width", "Window.innerWidth"}),
        ("rtt", {"NetworkInformation.rtt", "http:rtt"}),
        ("dnt", {"Navigator.doNotTrack", "http:dnt"}),
    ],
)
def test_names_on_which_sources_disagree_are_asked_back(name: str, apis: set[str]) -> None:
    assert set(meanings(name)) == apis
    assert meaning(name, {}) == ""
    assert meaning(name, {name: "Screen.width"}) == "Screen.width"
    with pytest.raises(InputError, match="may be"):
        api_named(name)


@pytest.mark.parametrize(
    "name",
    [
        *("id", "name", "deviceId", "groupId", "product", "address", "level", "length", "memory"),
        *("date", "country", "weight", "deviceCategory", "serial", "storage", "type", "label"),
        *(
            "http:x-mine",
            "x:fingerprintjs:userAgent",
            "",
            ".",
            "é",
            "navigator",
            "value.",
            "window.id",
            "order.screen",
            "app.platform",
            "store.language",
            "image.width",
            "os.name",
            "browser_name",
            "device.model",
            "x:creepjs:navigator.userAgent",
        ),
    ],
)
def test_words_that_mean_other_things_elsewhere_are_left_alone(name: str) -> None:
    assert meanings(name) == ()


def test_every_name_of_a_column_leads_to_a_known_api() -> None:
    assert all(is_known(api) for apis in COLUMNS.values() for api in apis)
    assert all(meanings(name) == tuple(apis) for name, apis in COLUMNS.items())


@settings(deadline=None)  # the first call reads the vocabulary
@given(st.sampled_from(sorted(known_apis())), st.randoms(use_true_random=False))
def test_an_api_is_itself_and_in_any_case_never_another_interface(api: str, rng: object) -> None:
    assert meanings(api) == (api,)
    shuffled = "".join(rng.choice([c.upper(), c.lower()]) for c in api)  # type: ignore[attr-defined]
    assert api in meanings(shuffled) or "#" in api


@given(st.text(max_size=30))
def test_any_text_has_meanings_that_are_known(name: str) -> None:
    found = meanings(name)
    assert all(is_known(api) for api in found)
    assert len(set(found)) == len(found)


def test_only_the_name_of_an_api_or_the_users_word_makes_a_value_randomised() -> None:
    for name in ("canvas.text", "navigator.plugins", "plugins", "htmlcanvaselement.todataurl"):
        assert meanings(name)
        assert randomised_in(certain_meaning(name, {})) == {}
        said = {name: "HTMLCanvasElement.toDataURL"}
        assert randomised_in(certain_meaning(name, said))
    assert randomised_in(certain_meaning("HTMLCanvasElement.toDataURL", {}))


def test_misspelt_names_get_the_nearest() -> None:
    assert nearest("usrAgent") == ("Navigator.userAgent",)
    assert "Navigator.hardwareConcurrency" in nearest("hardwareConcurency")
    assert nearest("weight") == nearest("session") == ()
    with pytest.raises(UnknownNameError, match=r"Screen\.width"):
        api_named("Screen.widht")


def test_resolve_finds_what_a_column_is() -> None:
    assert [api for _, api in resolve("userAgent")] == ["Navigator.userAgent"]
    assert len(resolve("timezone")) >= 3
