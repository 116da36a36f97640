"""The median of paired ratios, and how sure it is."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

_RESAMPLES = 2000


def median_ratio(numerators: Sequence[float], denominators: Sequence[float]) -> tuple[float, float, float]:
    """Median of ``numerator / denominator`` pair by pair, with its 95 % percentile-bootstrap interval.

    Rounds are resampled, not single times, so that what both sides shared in a round (clock, heat) cancels.
    The resampling is seeded: the same times give the same interval.

    Args:
        numerators: One positive time per round.
        denominators: As many.

    Returns:
        (median, low, high)
    """
    ratios = np.asarray(numerators, dtype=float) / np.asarray(denominators, dtype=float)
    resampled = np.random.default_rng(0).choice(ratios, size=(_RESAMPLES, ratios.size))
    low, high = np.percentile(np.median(resampled, axis=1), (2.5, 97.5))
    return float(np.median(ratios)), float(low), float(high)
