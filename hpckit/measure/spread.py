"""How well samples of one job tell a mean: the variance of it, with all that samples share.

Samples of a GPU hang together in time (phases of the program, inertia of heat, the sensor's own
averaging), and GPUs of a job hang together at one time (they wait for each other). A mean over
them is known worse than their number says. Here its variance is the sum of two parts:

- time: the moving-block bootstrap (Künsch 1989) of the mean over all GPUs at each moment, so that
  what the GPUs share counts once. For a mean the bootstrap's variance has a closed form, hence no
  random numbers. Blocks are as long as Politis and White (2004) choose by the autocorrelation;
  where an AR process of the same autocorrelation would spread more, that counts, for blocks
  underestimate short series.
- GPUs as clusters: boards differ (5 % of power is usual), so between their means is more than
  time explains. Not where both jobs had the very same boards.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

LEAST_SAMPLES: Final = 16
"""With fewer moments no autocorrelation is to be seen, and no interval is given."""
LEAST_INDEPENDENT: Final = 4.0
"""… nor with samples that hang together so long that they are worth fewer than this many: by
simulation intervals then cover less than the 95 % that they claim (tests/property/test_spread)."""
_MOST_BLOCK_FRAC: Final = 0.2
"""Fewer than five blocks tell no variance."""
_MOST_RHO: Final = 0.995
_SWINGS: Final = -0.25
"""Second coefficient of AR(2) below which a series swings, and does not by chance alone."""

_T_DF: Final = (1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 30, 60, 120, 1e9)
_T_975: Final = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.306, 2.228, 2.179, 2.131, 2.086, 2.042),
    *(2.000, 1.980, 1.960),
)
_T_80: Final = (
    *(1.376, 1.061, 0.978, 0.941, 0.920, 0.906, 0.889, 0.879, 0.873, 0.866, 0.860, 0.854),
    *(0.848, 0.845, 0.842),
)
"""Quantiles of Student's t by degrees of freedom: tables of any textbook."""


class Spread(NamedTuple):
    """A mean, the variance of it, and the degrees of freedom of that variance."""

    mean: float
    variance: float
    df: float


class Lack(NamedTuple):
    """Why a series tells no variance of its mean: it has too few moments, or changes too slowly.

    `independent` is how many samples that do not hang together its moments are worth, None of too
    few moments.
    """

    moments: int
    independent: float | None


def spread_of(matrix: Floats, *, same_boards: bool) -> Spread | None:
    """The mean over GPUs (rows) and moments (columns), NaN being no measurement.

    None with fewer than LEAST_SAMPLES moments, or LEAST_INDEPENDENT that count.
    """
    if lack_of(matrix) is not None:
        return None
    matrix = _known(matrix)
    gpu_means = np.nanmean(matrix, axis=1)
    own = matrix - gpu_means[:, None]
    common = np.nanmean(own, axis=0)
    parts = [variance_of_mean(common)]
    if len(matrix) > 1 and not same_boards:
        parts.append(_between(gpu_means, own - common))
    return summed(float(gpu_means.mean()), parts)


def lack_of(matrix: Floats) -> Lack | None:
    """What a matrix of GPUs and moments lacks for a variance; None where it has one."""
    matrix = _known(matrix)
    moments = matrix.shape[1] if len(matrix) else 0
    if moments < LEAST_SAMPLES:
        return Lack(moments, None)
    common = np.nanmean(matrix - np.nanmean(matrix, axis=1)[:, None], axis=0)
    variance, _ = variance_of_mean(common)
    if float(common.var()) >= LEAST_INDEPENDENT * variance:
        return None
    return Lack(moments, float(common.var()) / variance)


def _known(matrix: Floats) -> Floats:
    matrix = matrix[np.isfinite(matrix).any(axis=1)]
    return matrix[:, np.isfinite(matrix).any(axis=0)]


def summed(mean: float, parts: list[tuple[float, float]]) -> Spread:
    """Independent parts of a variance with their degrees of freedom, after Satterthwaite."""
    total = sum(variance for variance, _ in parts)
    denominator = sum(variance**2 / df for variance, df in parts if np.isfinite(df))
    return Spread(mean, total, total**2 / denominator if denominator > 0 else np.inf)


def _between(gpu_means: Floats, residuals: Floats) -> tuple[float, float]:
    """What boards differ by beyond what their own samples explain, as a part of the mean's."""
    gpus = len(gpu_means)
    explained = [
        variance_of_mean(row[np.isfinite(row)])[0]
        for row in residuals
        if np.isfinite(row).sum() >= LEAST_SAMPLES
    ]
    by_time = float(np.mean(explained)) * gpus / (gpus - 1) if explained else 0.0
    boards = max(0.0, float(gpu_means.var(ddof=1)) - by_time)
    return boards / gpus, gpus - 1.0


def variance_of_mean(values: Floats) -> tuple[float, float]:
    """The variance of a series' mean and its degrees of freedom."""
    count = len(values)
    centred = values - values.mean()
    covariance = _autocovariance(centred)
    if covariance[0] <= 0:
        return 0.0, np.inf
    block = block_length(covariance, count)
    sums = np.concatenate([[0.0], np.cumsum(centred)])
    means = (sums[block:] - sums[:-block]) / block
    by_blocks = block / count * float(np.mean(means**2)) * count / (count - block)
    return max(by_blocks, _by_model(covariance, count)), max(1.0, count / block - 1)


def _by_model(covariance: Floats, count: int) -> float:
    """The variance of the mean of a simple process with the same first autocorrelations.

    AR(1); of what swings, as the steps of a training do, AR(2): a mean over whole swings is known
    far better than the slow change from one sample to the next makes believe.
    """
    rho, second = (float(value / covariance[0]) for value in covariance[1:3])
    if rho < 1:
        later = (second - rho**2) / (1 - rho**2)
        earlier = rho * (1 - later)
        if later < _SWINGS and earlier**2 + 4 * later < 0:
            noise = float(covariance[0]) * (1 - rho**2) * (1 - later**2)
            return noise / (1 - earlier - later) ** 2 / count
    # An estimate of rho is too small by (1 + 3 rho) / n (Kendall 1954).
    rho = min(max(rho + (1 + 3 * rho) / count, 0.0), _MOST_RHO)
    return float(covariance[0]) / (count - 1) * (1 + rho) / (1 - rho)


def block_length(covariance: Floats, count: int) -> int:
    """The length of moving blocks that Politis and White (2004, corrected 2009) choose."""
    rho = covariance / covariance[0]
    quiet = max(5, int(np.sqrt(np.log10(count))))
    limit = 2 * np.sqrt(np.log10(count) / count)
    most = min(len(rho) - 1, int(np.ceil(np.sqrt(count))) + quiet)
    loud = np.flatnonzero(np.abs(rho[1 : most + 1]) > limit) + 1
    last = _last_loud(loud, quiet)
    lags = np.arange(1, min(2 * max(last, 1), len(covariance) - 1) + 1)
    taper = np.clip(2 * (1 - lags / (2 * max(last, 1))), 0, 1)
    spectrum = covariance[0] + 2 * float(np.sum(taper * covariance[lags]))
    slope = 2 * float(np.sum(taper * lags * covariance[lags]))
    longest = max(1, int(count * _MOST_BLOCK_FRAC))
    if spectrum <= 0:
        return longest
    length = (1.5 * (slope / spectrum) ** 2 * count) ** (1 / 3)
    return int(min(max(1, np.ceil(length)), longest))


def _last_loud(loud: NDArray[np.intp], quiet: int) -> int:
    """The last lag with a correlation before `quiet` lags without any."""
    last = 0
    for lag in loud.tolist():
        if lag - last > quiet:
            break
        last = lag
    return last


def _autocovariance(centred: Floats) -> Floats:
    count = len(centred)
    size = 1 << (2 * count - 1).bit_length()
    transform = np.fft.rfft(centred, size)
    covariance: Floats = np.fft.irfft(transform * transform.conj(), size)[:count] / count
    return covariance


def t_quantile(df: float) -> float:
    """The half width of a 95 % interval in standard errors."""
    return _by_df(df, _T_975)


def t_power(df: float) -> float:
    """How many standard errors a difference must have to be seen in 8 of 10 cases."""
    return _by_df(df, _T_975) + _by_df(df, _T_80)


def _by_df(df: float, quantiles: tuple[float, ...]) -> float:
    """Linear in 1/df between the rows of the table, which is right to 1 %."""
    inverse = 1 / np.asarray(_T_DF)
    return float(np.interp(1 / max(df, 1.0), inverse[::-1], np.asarray(quantiles)[::-1]))
