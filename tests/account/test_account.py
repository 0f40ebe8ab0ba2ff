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
from fpmonitor.value_forms import FORMS

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
        "Permission denied",
        "[object Object]",
        "request timed out",
        "Fehler: Zeitüberschreitung",
        "<html><body>403 Forbidden</body></html>",
        "XXXX-XXXX",
        "*****",
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


@pytest.mark.parametrize(
    "text",
    [
        *("NA", "N/A", "NaN", "null", "-", "", "None", r"\N", "undefined", "NA_character_", "."),
        *("#NV", "#DIV/0!", "k. A.", "keine Angabe", "sin datos", "not supported", "无"),
    ],
)
def test_spellings_of_missing_are_told(text: str) -> None:
    assert is_missing_text(text)


@pytest.mark.parametrize("text", ["none", "0", "false", "no", "Nauru", "unknown"])
def test_values_are_no_spellings_of_missing(text: str) -> None:
    assert not is_missing_text(text)


@pytest.mark.parametrize(
    ("text", "is_mail"),
    [
        ("ann@shop.example", True),
        ("ann@mail.shop.example", True),
        ("<j\u00f6rg@m\u00fcller.example>", True),
        ("a@10.0.0.1", True),
        ('{"mail":"ann@shop.example","n":1}', True),
        ('{"at":1.5,"S@":{"":6.25}}', False),
        ('["@",0.25]', False),
        ("image/svg@2x", False),
    ],
)
def test_e_mail_addresses_have_a_host_after_their_at(text: str, is_mail: bool) -> None:
    """An API whose values are JSON with an @ and fractions must be stored."""
    [mail] = [form for form in FORMS if form.words == "e-mail addresses"]
    assert bool(mail.fits(text)) == is_mail
