"""Who knows what, but not its name, finds the API: by a word, an alias, or what it tells."""

from __future__ import annotations

import json

import pytest

from fpmonitor.cli import run
from fpmonitor.errors import UnknownNameError
from fpmonitor.vocabulary import base_api, entries, known_apis
from fpmonitor.vocabulary.search import search_apis


def found(words: str) -> list[str]:
    return [api for api, _ in search_apis(words)]


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("os", {"Navigator.platform", "Navigator.oscpu", "http:sec-ch-ua-platform"}),
        ("country", {"Intl.DateTimeFormat.resolvedOptions#timeZone", "http:accept-language"}),
        ("gpu", {"GPUAdapterInfo.vendor", "WebGLRenderingContext.getParameter", "Navigator.gpu"}),
        ("GPU", {"GPUAdapter.limits"}),
        ("pixel-ratio", {"Window.devicePixelRatio", "css:resolution", "http:dpr"}),
        ("webGlBasics", {"WebGLRenderingContext.getParameter#RENDERER"}),
        ("cpu performance", {"Navigator.cpuPerformance"}),
        ("supportedvalues", {"Intl.supportedValuesOf"}),
        ("can make payment", {"PaymentRequest.canMakePayment"}),
        ("opsupport", {"MLContext.opSupportLimits"}),
    ],
)
def test_a_word_finds_what_tells_it(word: str, expected: set[str]) -> None:
    assert expected <= set(found(word))


def test_a_short_word_finds_no_half_of_the_vocabulary() -> None:
    assert "WebGLRenderingContext.drawingBufferColorSpace" not in {
        api for api, because in search_apis("os") if because.startswith("tells")
    }
    told = [because for _, because in search_apis("os")]
    assert told[0].startswith("tells os"), "what is told comes first"
    assert search_apis("device memory")[0][0] == "Navigator.deviceMemory"


def test_words_name_what_there_is() -> None:
    known = known_apis()
    for word, places in entries()["words"].items():
        for place in places:
            if place.endswith((".", ":")):
                assert any(api.startswith(place) for api in known), (word, place)
            else:
                assert place in known or base_api(place) in known, (word, place)


def test_the_command_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["db", "apis", "--search", "time-zone", "--format", "json"]) == 0
    rows = {row["api"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["Date.getTimezoneOffset"]["because"] == "tells time-zone"
    assert run(["db", "apis", "--search", "nonesuch"]) == 2
    assert "unknown word" in capsys.readouterr().err
    with pytest.raises(UnknownNameError):
        search_apis(" ")


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ("Navigator.cpuPerformance", {"Navigator.cpuPerformance"}),
        ("MLContext.opSupportLimits", {"MLContext.opSupportLimits"}),
        ("RTCPeerConnection", {"RTCPeerConnection.constructor", "RTCPeerConnection.getStats"}),
        ("Intl.supportedValuesOf", {"Intl.supportedValuesOf"}),
        (
            "ResizeObserverEntry",
            {
                f"ResizeObserverEntry.{name}"
                for name in ("borderBoxSize", "contentBoxSize", "contentRect")
            }
            | {"ResizeObserverEntry.devicePixelContentBoxSize"},
        ),
        (
            "WorkerNavigator",
            {
                "WorkerNavigator.appVersion",
                "WorkerNavigator.connection",
                "WorkerNavigator.deviceMemory",
                "WorkerNavigator.gpu",
                "WorkerNavigator.hardwareConcurrency",
                "WorkerNavigator.languages",
                "WorkerNavigator.platform",
                "WorkerNavigator.userAgentData",
            },
        ),
        ("PaymentRequest.canMakePayment", {"PaymentRequest.canMakePayment"}),
        ("ResizeObserverSize", {"ResizeObserverSize.blockSize", "ResizeObserverSize.inlineSize"}),
    ],
)
def test_names_of_browsers_that_were_missing_once_are_found_as_they_are_written(
    asked: str, expected: set[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert expected <= set(known_apis())
    assert run(["db", "apis", "--search", asked, "--format", "json"]) == 0
    rows = [row["api"] for row in json.loads(capsys.readouterr().out)]
    assert expected <= set(rows)
