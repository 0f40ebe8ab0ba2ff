"""A log at fault is no news of users, and news of users is no fault of a log."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from fpmonitor.answers.log_faults import find_faults
from fpmonitor.answers.panel import WindowUsers

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

RENDERERS = [
    f"ANGLE ({maker}, {maker} {card} {number} Direct3D11 vs_5_0 ps_5_0, D3D11)"
    for maker, card in (("Intel", "UHD Graphics"), ("NVIDIA", "GeForce RTX"))
    for number in range(600, 680, 4)
]
LANGUAGES = ["de-DE", "en-US", "fr-FR", "pt-PT"]
AGENTS = [
    f"Mozilla/5.0 (X11; Linux x86_64) Chrome/{n}.0.0.0 Safari/537.36" for n in range(130, 142)
]


def window(texts: Sequence[str], *, known: list[str]) -> WindowUsers:
    """Users with these values, whose codes mean the same in both windows."""
    for text in texts:
        if text not in known:
            known.append(text)
    codes = np.array([known.index(text) + 1 for text in texts])
    return WindowUsers(
        people=None, columns={"api": codes}, texts=lambda _api: dict(enumerate(known, start=1))
    )


def fault(before: Sequence[str], after: Sequence[str]) -> str | None:
    known: list[str] = []
    pair = [window(texts, known=known) for texts in (before, after)]
    return find_faults(*pair, k=10).get("api")


@pytest.mark.parametrize(("users", "again", "bots"), [(1000, 500, 500), (4000, 300, 2000)])
def test_a_wave_of_bots_is_no_fault_of_a_log_and_a_fault_beside_one_is(
    users: int, again: int, bots: int
) -> None:
    """Who had come before tells, also where few come again: a fault changes their values, too."""
    head = "Mozilla/5.0 (X11; Linux x86_64) HeadlessChrome/{}.0.0.0 Safari/537.36"
    texts = [*AGENTS, *(head.format(n) for n in range(140, 144)), AGENTS[0][:40]]
    rng = np.random.default_rng(3)
    own = rng.integers(1, len(AGENTS) + 1, users)
    wave = rng.integers(len(AGENTS) + 1, len(AGENTS) + 5, bots)

    def seen(people: NDArray[np.int64], codes: NDArray[np.int64]) -> WindowUsers:
        return WindowUsers(
            people=people, columns={"api": codes}, texts=lambda _api: dict(enumerate(texts, 1))
        )

    before = seen(np.arange(users), own)
    everybody = np.arange(users - again, users + bots)
    after = np.concatenate([own[users - again :], wave])
    assert find_faults(before, seen(everybody, after), k=10) == {}
    after[:again] = len(texts)
    assert find_faults(before, seen(everybody, after), k=10).keys() == {"api"}


def drawn(texts: Sequence[str], users: int = 600, seed: int = 1) -> list[str]:
    return np.random.default_rng(seed).choice(np.array(texts, dtype=object), users).tolist()


@pytest.mark.parametrize(
    ("texts", "broken", "said"),
    [
        (RENDERERS, lambda text: text[:12], "cut short|far fewer"),
        (RENDERERS, lambda text: text[:40], "cut short"),
        (RENDERERS, lambda text: text.replace(" ", "%20").replace(",", "%2C"), "form"),
        (LANGUAGES, lambda text: text.replace("-", "_"), "form"),
        (LANGUAGES, str.lower, "form"),
        (LANGUAGES, lambda text: f'"{text}"', "form"),
        (LANGUAGES, lambda _: "de-DE", "same value"),
        (LANGUAGES, lambda _: "TypeError: x is undefined", "form|same value"),
        (["1", "1.25", "1.5", "2"], lambda _: "[object Object]", "form|same value"),
        (["24", "30"], lambda _: "true", "form|same value"),
        (AGENTS, lambda _: "node-fetch", "form|same value|far fewer"),
    ],
)
def test_values_that_lose_length_variety_or_form_are_a_fault(
    texts: list[str], broken: Callable[[str], str], said: str
) -> None:
    found = fault(drawn(texts), list(map(broken, drawn(texts, seed=2))))
    assert found is not None
    assert any(word in found for word in said.split("|"))
    # One host of four is enough.
    mixed = [broken(text) if at % 4 == 0 else text for at, text in enumerate(drawn(texts, seed=3))]
    if "form" in found or "short" in found:
        assert fault(drawn(texts), mixed) is not None


def test_news_of_users_is_no_fault() -> None:
    rng = np.random.default_rng(4)
    fonts = [",".join(rng.choice(200, 20).astype(str)) for _ in range(1200)]
    release = [text.replace("/141", "/142") for text in AGENTS]
    for before, after in (
        (drawn(AGENTS), drawn(release, seed=2)),
        (drawn(LANGUAGES), drawn(LANGUAGES[:3], seed=2)),  # a country leaves
        (fonts[:600], fonts[600:]),  # each has a list of its own
        (drawn(["24"] * 30 + ["30"]), ["24"] * 600),  # nearly all had it
        (drawn(RENDERERS), drawn(RENDERERS[10:], seed=2)),
        (drawn(RENDERERS), [*drawn(RENDERERS, 550, seed=2), *["another, form!"] * 50]),
        (drawn(LANGUAGES, 15), ["x_y"] * 15),  # too few to tell
    ):
        assert fault(before, after) is None, (before[0], after[0])
