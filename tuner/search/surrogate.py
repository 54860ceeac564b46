"""A small Gaussian process: what a few dozen measurements say about configurations that were not measured."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

TYPICAL_LENGTH = 0.3
"""Median of the prior of length scales, times the square root of the number of features (which lie in [0, 1]): the
distance between two configurations grows with that root, and they shall tell as much of each other in any space."""
LENGTH_SPREAD = 0.4
"""Standard deviation of the logarithm of a length scale. Narrow: dozens of points cannot tell twenty scales apart, and
a process that believes they can stops exploring."""
NOISE, NOISE_SPREAD = 1e-2, 1.5
"""Median and spread (of the logarithm) of the noise variance, as a part of the variance of all values."""
JITTER = 1e-6
FIRST_STEPS, LATER_STEPS = 15, 3
"""Steps of the search for length scales: at first, and from where it stood whenever there is more to learn from."""
_SQRT5 = math.sqrt(5.0)


@dataclass
class Expected:
    """What a process expects at many points, one row each: in single precision, which noise is far above."""

    points: Floats
    mean: Floats
    variance: Floats
    white: Floats
    """The covariance of two points is their kernel less the product of their rows."""

    @property
    def deviation(self) -> Floats:
        """Standard deviation at each point."""
        return np.sqrt(np.maximum(self.variance, 1e-6)).astype(np.float64)

    def join(self, more: Expected) -> None:
        """Append what the same process expects at `more` points."""
        self.points = np.concatenate([self.points, more.points])
        self.mean = np.concatenate([self.mean, more.mean])
        self.variance = np.concatenate([self.variance, more.variance])
        self.white = np.concatenate([self.white, more.white])


class GaussianProcess:
    """Regression with a Matérn 5/2 kernel and one length scale for each feature (Rasmussen & Williams 2006, ch. 4-5).

    Scales, signal and noise are found by maximum a posteriori, by sign steps (iRprop-, Igel & Hüsken 2000). Beside the
    noise of all, each value has a deviation of its own: `doubt` times its distance above the lowest.
    """

    def __init__(self, features: int, doubt: float = 0.0) -> None:
        self._doubt = doubt
        self._typical = math.log(TYPICAL_LENGTH) + 0.5 * math.log(max(1, features))
        centre = [self._typical] * features
        self._centre = np.array([*centre, 0.0, math.log(NOISE)])
        self._spread = np.array([LENGTH_SPREAD] * features + [1.0, NOISE_SPREAD])
        self._logs = self._centre.copy()
        """Logarithms of the length scales, the signal variance and the noise variance."""
        self._step = np.full(len(self._logs), 0.1)
        self._slope = np.zeros(len(self._logs))
        self._fitted = False
        self._points = np.empty((0, features))
        self._lowest = 0.0

    def fit(self, points: Floats, values: Floats) -> None:
        """Learn the scales from `points` (one row each, in [0, 1]) and standardised `values`."""
        self._lowest = float(values.min())
        best_height, best = -math.inf, self._logs
        for _ in range(LATER_STEPS if self._fitted else FIRST_STEPS):
            height, slope = self._posterior(points, values)
            if height > best_height:
                best_height, best = height, self._logs
            turned = slope * self._slope
            self._step = np.clip(self._step * np.where(turned > 0, 1.2, np.where(turned < 0, 0.5, 1.0)), 1e-3, 0.5)
            self._slope = np.where(turned < 0, 0.0, slope)
            self._logs = self._logs + np.sign(self._slope) * self._step
        if self._posterior(points, values)[0] < best_height:
            self._logs = best
        self._fitted = True

    def condition(self, points: Floats, values: Floats, awaited: Floats | None = None) -> None:
        """Take `points` and standardised `values` for what is known, without learning scales from them.

        The values at `awaited` are taken to be the mean expected there, which leaves every mean what it is.
        """
        self._lowest = float(values.min())
        covariance = self._covariance(self._kernel(points, points), values)
        self._weights = np.linalg.solve(covariance, values)
        if awaited is not None and len(awaited):
            values = np.concatenate([values, self._kernel(awaited, points) @ self._weights])
            points = np.vstack([points, awaited])
            self._weights = np.concatenate([self._weights, np.zeros(len(awaited))])
            covariance = self._covariance(self._kernel(points, points), values)
        self._points = points.astype(np.float32)
        self._whitening = np.linalg.inv(np.linalg.cholesky(covariance)).T.astype(np.float32)

    def predict(self, points: Floats) -> tuple[Floats, Floats]:
        """Mean and standard deviation at each point, of thousands."""
        expected = self.expect(points)
        return expected.mean, expected.deviation

    def expect(self, points: Floats) -> Expected:
        """Mean and variance at each point, with what `believe` needs."""
        points = points.astype(np.float32)
        kernel = self._kernel(points, self._points)
        white = kernel @ self._whitening
        variance = math.exp(self._logs[-2]) - np.einsum("ij,ij->i", white, white)
        return Expected(points, (kernel @ self._weights.astype(np.float32)).astype(np.float64), variance, white)

    def believe(self, expected: Expected, index: int) -> None:
        """Go on as if the value at one of the points were found to be the mean: no mean changes, variances shrink.

        One more row of the Cholesky factor, so that the variances are what `condition` with that point would bring.
        """
        kernel = self._kernel(expected.points, expected.points[index : index + 1])[:, 0]
        covariance = kernel - expected.white @ expected.white[index]
        own = max(0.0, float(expected.variance[index])) + float(self._noise(expected.mean[index]))
        column = covariance / np.float32(math.sqrt(own))
        expected.variance = expected.variance - column * column
        expected.white = np.column_stack([expected.white, column])

    def _kernel(self, one: Floats, other: Floats) -> Floats:
        """signal * (1 + r + r^2 / 3) * exp(-r), r the scaled distance times sqrt(5); in place, for many."""
        reach = self._reach(one, other)
        kernel = reach + 3.0
        kernel *= reach
        kernel += 3.0
        np.negative(reach, out=reach)
        kernel *= np.exp(reach, out=reach)
        kernel *= math.exp(self._logs[-2]) / 3.0
        return kernel

    def _steepness(self, points: Floats) -> Floats:
        """Minus the derivative of the kernel among `points` by the squared distance."""
        reach = self._reach(points, points)
        return np.asarray(math.exp(self._logs[-2]) * np.exp(-reach) * (1.0 + reach) * (5.0 / 6.0))

    def _reach(self, one: Floats, other: Floats) -> Floats:
        scale = (np.exp(-self._logs[:-2]) * _SQRT5).astype(one.dtype)
        one, other = one * scale, other * scale
        squared = one @ (-2.0 * other.T)
        squared += (one * one).sum(axis=1)[:, None]
        squared += (other * other).sum(axis=1)
        return np.asarray(np.sqrt(np.maximum(squared, 0.0, out=squared), out=squared))

    def _covariance(self, kernel: Floats, values: Floats) -> Floats:
        covariance = kernel.copy()
        covariance.flat[:: len(kernel) + 1] += self._noise(values)
        return covariance

    def _noise(self, values: Floats) -> Floats:
        """Variance of each value by itself."""
        doubt = self._doubt * np.maximum(0.0, values - self._lowest)
        return np.asarray(math.exp(self._logs[-1]) + JITTER + doubt * doubt)

    def _posterior(self, points: Floats, values: Floats) -> tuple[float, Floats]:
        """Logarithm of the posterior of the scales (up to a constant), and its gradient."""
        kernel, steepness = self._kernel(points, points), self._steepness(points)
        covariance = self._covariance(kernel, values)
        inverse = np.linalg.inv(covariance)
        weights = inverse @ values
        away = (self._logs - self._centre) / self._spread
        height = (
            -0.5 * float(values @ weights) - 0.5 * float(np.linalg.slogdet(covariance)[1]) - 0.5 * float(away @ away)
        )
        pull = np.outer(weights, weights) - inverse
        by_pair = pull * steepness
        scaled = points * np.exp(-self._logs[:-2])
        # The sum over pairs of by_pair * (difference of a feature)^2, without a matrix for each feature.
        slope = 2.0 * ((scaled * scaled).T @ by_pair.sum(axis=1) - np.einsum("ij,ij->j", scaled, by_pair @ scaled))
        signal, noise = 0.5 * float((pull * kernel).sum()), 0.5 * math.exp(self._logs[-1]) * float(np.trace(pull))
        return height, np.array([*slope, signal, noise]) - away / self._spread
