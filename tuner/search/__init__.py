"""The search: what to try next, the tuning run, and how a champion is made."""

from tuner.search.certify import cases as certificate_cases
from tuner.search.certify import own_case
from tuner.search.loop import tune
from tuner.search.outcome import Budget, Outcome, Progress, Promotion, best_json

__all__ = ["Budget", "Outcome", "Progress", "Promotion", "best_json", "certificate_cases", "own_case", "tune"]
