"""Laws of values whose exposure is known: `fixtures/reference/exposure.json`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

REFERENCE = json.loads(
    (Path(__file__).parents[1] / "fixtures" / "reference" / "exposure.json").read_text("utf-8")
)


def law(name: str) -> np.ndarray:
    """Probabilities of the values of a law."""
    spec = REFERENCE["laws"][name]
    if "exponent" not in spec:
        return np.repeat(spec["probabilities"], spec["multiplicities"])
    weights = np.arange(1.0, spec["values"] + 1) ** -spec["exponent"]
    return weights / weights.sum()
