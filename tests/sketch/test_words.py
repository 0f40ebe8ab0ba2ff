"""Words of values: as they are defined, spread evenly, and independent of each other."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np
import pytest

from fpmonitor.errors import InputError
from fpmonitor.secret_files import make_key_file
from fpmonitor.sketch.words import SketchKey, is_kept, read_sketch_key

if TYPE_CHECKING:
    from pathlib import Path

KEY = SketchKey(bytes(range(32)))
SIDE = 512


def words_of_pairs() -> np.ndarray:
    """Words of all pairs of values."""
    first, second = (KEY.words(api, map(str, range(SIDE))) for api in ("A", "B"))
    return KEY.chained([np.repeat(first, SIDE), np.tile(second, SIDE)])


def z_score(hits: int, trials: int, probability: float) -> float:
    """Deviations from what is expected."""
    spread = np.sqrt(trials * probability * (1 - probability))
    return float((hits - trials * probability) / spread)


def test_words_are_what_the_documents_say() -> None:
    def mixed(word: int) -> int:
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)):
            word = ((word ^ word >> shift) * factor) % 2**64
        return word

    state = KEY.start
    for api, cell in (("Navigator.language", "value\x1fde"), ("Screen.height", "")):
        digest = hashlib.sha256((KEY.prefix(api) + cell).encode()).hexdigest()
        assert KEY.words(api, [cell]).tolist() == [int(digest[:16], 16)]
        state = mixed(state ^ int(digest[:16], 16))
    columns = [KEY.words("Navigator.language", ["value\x1fde"]), KEY.words("Screen.height", [""])]
    assert KEY.chained(columns).tolist() == [state]


def test_words_never_change() -> None:
    """Sketches of years ago merge with those of today."""
    assert KEY.id == "73bc1278d7223d9e"
    words = KEY.chained([KEY.words("A", ["value\x1fa"]), KEY.words("B", ["value\x1fb"])])
    assert f"{int(words[0]):016x}" == "6d536d3034e421f9"


@pytest.mark.parametrize("level", [3, 6])
def test_kept_values_are_spread_evenly_and_in_no_pattern(level: int) -> None:
    """The xor of the words of the parts fails: three of a block bring the fourth."""
    kept = is_kept(words_of_pairs(), level).reshape(SIDE, SIDE)
    share = 2.0**-level
    assert abs(z_score(int(kept.sum()), SIDE**2, share)) < 5
    for pairs in (kept[:, 1:] & kept[:, :-1], kept[1:] & kept[:-1]):
        assert abs(z_score(int(pairs.sum()), pairs.size, share**2)) < 5
    assert kept.sum(axis=1).var() == pytest.approx(SIDE * share * (1 - share), rel=0.4)
    blocks = [kept[a::2, b::2] for a in (0, 1) for b in (0, 1)]
    three = int((blocks[0] & blocks[1] & blocks[2]).sum())
    four = int((blocks[0] & blocks[1] & blocks[2] & blocks[3]).sum())
    assert four <= three / 2, "a fourth follows from three"
    if level == 3:
        assert abs(z_score(three, blocks[0].size, share**3)) < 5


def test_keys_and_names_choose_other_values() -> None:
    other = SketchKey(bytes(32))
    assert KEY.id != other.id
    assert KEY.words("A", ["x"]) != other.words("A", ["x"])
    assert KEY.words("A", ["x"]) != KEY.words("B", ["x"])


def test_a_key_is_for_its_owner_alone_and_never_shown(tmp_path: Path) -> None:
    path = tmp_path / "key"
    make_key_file(path)
    key = read_sketch_key(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert key.secret.hex() in path.read_text()
    assert key.secret.hex() not in repr(key)
    with pytest.raises(InputError):
        make_key_file(path)
    path.chmod(0o640)
    with pytest.raises(InputError, match="read by others"):
        read_sketch_key(path)
    path.chmod(0o600)
    path.write_text("00" * 16)
    with pytest.raises(InputError, match="no key of sketches"):
        read_sketch_key(path)
