"""Configurations in short: nothing that does nothing, and nothing that is lost without a word."""

from __future__ import annotations

from tuner.family import BuiltIn, brief, load_families
from tuner.model import Config


def test_axes_that_do_nothing_are_left_out_and_the_tile_comes_first() -> None:
    axes: dict[str, int | str] = {
        "tsm": 64,
        "tsn": 32,
        "tsk": 16,
        "wptm": 8,
        "wptn": 1,
        "pad_a": 0,
        "turn_a": 1,
        "order": "rows",
    }
    assert brief(Config.of("register_tiled", axes), BuiltIn()) == "register_tiled tsm=64 tsn=32 tsk=16 wptm=8 turn_a"


def test_what_no_family_declares_is_shown_whole() -> None:
    assert brief(Config.of("mine", b=0, a=1), BuiltIn()) == "mine a=1 b=0"
    assert brief(Config.of("tiled", gone=0), BuiltIn()).endswith("gone=0")


def test_two_defaults_of_a_family_never_read_alike() -> None:
    families = load_families()
    for family in families.values():
        told = [brief(config, families) for config in family.defaults]
        assert len(set(told)) == len(set(family.defaults)), told
