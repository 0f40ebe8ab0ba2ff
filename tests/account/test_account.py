"""The account of a log: what its members are taken for."""

import pytest

from fpmonitor.account import (
    Account,
    Member,
    is_error_text,
    is_missing_text,
    read_account,
    summary,
)

ACCOUNT = Account(
    20,
    "user",
    (
        Member("id", "user", None, "named by --user", 20, 20),
        Member("audio", "errors", "audio", "error texts", 20, 1, "ERR_TIMEOUT"),
        Member("ip", "identifier", None, "IP addresses", 20, 20),
        Member("ua", "API", "ua", "", 20, 3),
        Member("lang", "API", "lang", "", 20, 3),
    ),
)


def test_an_account_is_read_back_as_it_was_kept() -> None:
    assert read_account(ACCOUNT.to_text()) == ACCOUNT
    assert read_account(None) is None


def test_the_summary_counts_every_member_once() -> None:
    assert summary(ACCOUNT.members) == "from 5 columns: 2 APIs, 1 user, 1 identifier, 1 errors"
    assert [member.path for member in ACCOUNT.set_aside] == ["ip"]


@pytest.mark.parametrize(
    "text",
    [
        "ERR_TIMEOUT",
        "blocked by extension",
        "TypeError: undefined is not a function",
        "NotAllowedError",
        "error",
        "Error: 17",
        "not supported",
        "Permission denied",
        "[object Object]",
        "request timed out",
    ],
)
def test_texts_of_errors_are_told(text: str) -> None:
    assert is_error_text(text)


@pytest.mark.parametrize(
    "text",
    ["denied", "granted", "none", "Mozilla/5.0 (X11; Linux)", "Terror", "Blocks", "0", "unknown"],
)
def test_values_are_no_errors(text: str) -> None:
    assert not is_error_text(text)


@pytest.mark.parametrize("text", ["NA", "N/A", "NaN", "null", "-", "", "None", r"\N", "undefined"])
def test_spellings_of_missing_are_told(text: str) -> None:
    assert is_missing_text(text)


@pytest.mark.parametrize("text", ["none", "0", "false", "no", "Nauru", "unknown"])
def test_values_are_no_spellings_of_missing(text: str) -> None:
    assert not is_missing_text(text)
