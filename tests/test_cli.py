"""The command line: what each command prints, its exit status, and one clear sentence for whatever goes wrong."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pty
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import sqlalchemy.exc

from tests.fakes import DEVICE as FAKE_DEVICE
from tuner import search
from tuner.bench import DeviceReport
from tuner.cli import device_commands, tune_command, wiring
from tuner.cli.app import run
from tuner.model import Device, Facts
from tuner.store import engine, open_store, trials
from tuner.store.schema import VERSION_TABLE

ROOT = Path(__file__).parents[1]
FEW = ROOT / "tests" / "families" / "few"
SIZE = ("32", "32", "32")
PIN = ("few", "group_m=1", "group_n=2", "--family-dir", str(FEW))

TUNE_KEYS = {
    *("problem", "device", "evaluated", "valid_space", "verdicts", "best", "promoted", "where_time_went", "seconds")
}
LOOKUP_KEYS = {
    *("family", "config", "origin", "certified", "gflops", "distance", "evidence", "launches", "build_options")
}
CHAMPION_KEYS = {
    *("device", "software", "problem", "family", "config", "time_ms", "noise", "gflops", "certified"),
    *("checks", "pinned", "reason", "when", "source_hash"),
}


class Said(NamedTuple):
    """How a command ended."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))

    def assert_refused(self, status: int, pattern: str) -> None:
        """Nothing but one or two sentences on standard error."""
        assert self.status == status, self.err
        assert self.out == ""
        assert re.fullmatch(r"gemm-tuner: [^\n]{10,}[.?]\n", self.err), self.err
        assert re.search(pattern, self.err), self.err


Cli = Callable[..., Said]


@pytest.fixture(scope="module")
def tuned(any_device: Device, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A store in which one product was tuned by the command on a real device, and what the command printed."""
    path = tmp_path_factory.mktemp("tuned") / "tuner.db"
    where = ["--device", any_device.address, "--db", str(path), "--json"]
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()):
        status = run(["tune", *SIZE, "--family", "few", "--family-dir", str(FEW), "--evals", "6", *where])
    assert status == 0
    return path, json.loads(out.getvalue())


@pytest.fixture
def cli(
    any_device: Device, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Cli]:
    """Run a command on an empty store; the devices are not asked for each time."""
    reports = [DeviceReport(any_device, works=True)]
    monkeypatch.setattr(wiring, "list_devices", lambda: reports)
    monkeypatch.setattr(device_commands, "list_devices", lambda: reports)
    monkeypatch.setenv("GEMM_TUNER_DB", str(tmp_path / "tuner.db"))

    def call(*arguments: str) -> Said:
        capsys.readouterr()
        status = run(list(arguments))
        return Said(status, *capsys.readouterr())

    yield call
    leftover = tmp_path / "tuner.db"
    if leftover.is_file() and leftover.read_bytes()[:6] == b"SQLite":
        assert call("db", "check").status in (0, 1)


@pytest.fixture
def full(cli: Cli, tuned: tuple[Path, dict[str, Any]], tmp_path: Path) -> Cli:
    """The same with a copy of the tuned store."""
    for path in tuned[0].parent.glob("tuner.db*"):
        shutil.copy(path, tmp_path)
    return cli


def rows(path: Path, table: str) -> int:
    with closing(sqlite3.connect(path)) as connection:
        return int(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0])


# Every command


def test_tune_prints_what_the_design_says(tuned: tuple[Path, dict[str, Any]]) -> None:
    found = tuned[1]
    assert found.keys() >= TUNE_KEYS
    assert (found["evaluated"], found["valid_space"], found["verdicts"]) == (
        6,
        {"size": 20, "exact": True},
        {"correct": 6},
    )
    best = found["best"]
    assert best.keys() == {"family", "config", "time_ms", "gflops", "noise"}
    assert best["gflops"] == pytest.approx(2 * 32**3 / best["time_ms"] / 1e6)
    assert found["promoted"] is True
    assert sum(found["where_time_went"].values()) == pytest.approx(found["seconds"], abs=0.1)


def test_lookup_prints_what_the_design_says(full: Cli, tuned: tuple[Path, dict[str, Any]]) -> None:
    found = full("lookup", *SIZE, "--family-dir", str(FEW), "--json").json
    assert found.keys() >= LOOKUP_KEYS
    assert (found["family"], found["origin"], found["certified"], found["distance"]) == ("few", "exact", True, 0.0)
    assert found["gflops"] > 0
    [launch] = found["launches"]
    assert launch.keys() == {"kernel", "global_size", "local_size", "scratch"}
    assert launch["kernel"] == "gemm_few"


def test_lookup_for_people_and_the_source_alone(full: Cli) -> None:
    said = full("lookup", *SIZE, "--family-dir", str(FEW))
    assert said.status == 0 and "origin     exact" in said.out and "certified on this driver" in said.out
    source = full("lookup", *SIZE, "--family-dir", str(FEW), "--source").out
    assert source.startswith("#define") and "__kernel void gemm_few" in source


def test_lookup_of_what_was_never_tuned_claims_nothing(cli: Cli) -> None:
    found = cli("lookup", "8", "3200", "3200", "--json").json
    assert found["origin"] in ("seed", "default")
    assert (found["certified"], found["gflops"]) == (False, None)


def test_devices(cli: Cli, any_device: Device) -> None:
    [found] = cli("devices", "--json").json["devices"]
    assert found["silicon"]["key"] == any_device.silicon.key and found["works"] is True
    assert found["facts"]["local_mem_bytes"] == any_device.facts.local_mem_bytes
    header, line = cli("devices").out.splitlines()
    assert header.startswith("address\tdevice") and line.startswith(any_device.address)


def test_champions(full: Cli, cli: Cli) -> None:
    [found] = full("champions", "--json").json["champions"]
    assert found.keys() >= CHAMPION_KEYS and found["certified"] and not found["pinned"]
    assert "32x32x32 float32" in full("champions").out
    assert full("champions", "--device", "no such device", "--json").json["champions"] == []


def test_an_empty_store_says_so(cli: Cli) -> None:
    assert cli("db", "upgrade").status == 0
    assert "Nothing is published" in cli("champions").out
    assert "Nothing was measured" in cli("history", *SIZE).out
    assert cli("champions", "--json").json["champions"] == []
    assert cli("db", "stats").status == cli("db", "check").status == 0


def test_history(full: Cli) -> None:
    found = full("history", *SIZE, "--json").json
    assert found.keys() >= {"problem", "log", "trials"}
    assert [event["action"] for event in found["log"]] == ["promote"]
    assert len(found["trials"]) == 7  # the winner was measured once more
    assert all(trial["verdict"] == "correct" and trial["samples_ms"] for trial in found["trials"])
    assert len(full("history", *SIZE, "--last", "3").out.splitlines()) == 2 + 1 + 3


def test_pin_unpin_withdraw_and_rollback(full: Cli) -> None:
    before = full("champions", "--json").json["champions"]
    pinned = full("pin", *SIZE, *PIN, "--reason", "ours", "--json").json["champion"]
    assert pinned.keys() >= CHAMPION_KEYS
    assert pinned["pinned"] and pinned["certified"] and pinned["config"] == {"group_m": 1, "group_n": 2}
    assert full("lookup", *SIZE, "--family-dir", str(FEW), "--json").json["origin"] == "pinned"
    assert full("unpin", *SIZE, "--json").json["champion"]["pinned"] is False
    assert full("withdraw", *SIZE, "--reason", "distrusted", "--json").json == {"champion": None}
    assert "there is nothing to withdraw" in full("withdraw", *SIZE).err
    changes = full("rollback", "--to", before[0]["when"], "--json").json["changes"]
    assert [event["action"] for event in changes] == ["promote"]
    [after] = full("champions", "--json").json["champions"]
    assert after["source_hash"] == before[0]["source_hash"]
    assert [e["action"] for e in full("history", *SIZE, "--json").json["log"]] == [
        *("promote", "pin", "unpin", "withdraw", "promote")
    ]


def test_pin_without_a_family_keeps_the_present_champion(full: Cli) -> None:
    champion = full("pin", *SIZE, "--json").json["champion"]
    assert champion["pinned"] and champion["time_ms"] > 0


def test_verify(full: Cli) -> None:
    for arguments in (SIZE, ("--all",)):
        [found] = full("verify", *arguments, "--family-dir", str(FEW), "--json").json["verified"]
        assert (found["certified"], found["verdict"]) == (True, "correct")
        assert len(found["checks"]) > 10


def test_db(full: Cli, tmp_path: Path) -> None:
    assert full("db", "upgrade", "--json").json.keys() == {"store", "schema", "snapshot"}
    assert full("db", "check", "--json").json["problems"] == []
    stats = full("db", "stats", "--json").json
    assert (stats["tables"]["trial"], stats["champions"], stats["verdicts"]) == (7, 1, {"correct": 7})
    with closing(sqlite3.connect(tmp_path / "tuner.db")) as connection, connection:
        connection.execute("UPDATE trial SET verdict = 'splendid' WHERE id = 1")
    said = full("db", "check", "--json")
    assert said.status == 1 and said.json["problems"]


def test_a_store_removed_while_tuning_keeps_nothing(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def removing(*arguments: Any, **more: Any) -> Any:
        found = tune_in_order(*arguments, **more)
        (tmp_path / "tuner.db").unlink()
        return found

    tune_in_order = search.tune
    monkeypatch.setattr(tune_command, "run_tune", removing)
    said = cli("tune", *SIZE, "--family", "few", "--family-dir", str(FEW), "--evals", "1")
    assert (said.status, said.out) == (1, "")
    assert re.search(r"^gemm-tuner: .*removed or replaced .* nothing of this run is kept", said.err, re.MULTILINE)


def test_only_a_store_that_lost_its_snapshot_is_said_to_lack_one(
    cli: Cli, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cli("misses")
    cli("tune", *SIZE, "--family", "few", "--family-dir", str(FEW), "--evals", "1")
    before = cli("lookup", *SIZE, "--family-dir", str(FEW), "--json")
    assert before.json["origin"] == "exact" and caplog.text == ""
    (tmp_path / "tuner.db.snapshot.json").unlink()
    assert cli("lookup", *SIZE, "--json").json["origin"] != "exact"
    assert "gemm-tuner db upgrade writes it" in caplog.text
    assert cli("db", "upgrade").status == 0
    assert cli("lookup", *SIZE, "--family-dir", str(FEW), "--json").json["origin"] == "exact"


# Empty products


@pytest.mark.parametrize("size", [("0", "8", "8"), ("8", "0", "8"), ("8", "8", "0"), ("8", "8", "8", "--batch", "0")])
def test_there_is_nothing_to_tune_about_an_empty_product(cli: Cli, size: tuple[str, ...]) -> None:
    said = cli("tune", *size)
    does = "so gemm makes C = beta C" if size == ("8", "8", "0") else "so gemm runs nothing"
    assert said.status == 0 and "nothing to tune" in said.out and does in " ".join(said.out.split())
    found = cli("tune", *size, "--json").json
    assert (found["evaluated"], found["best"], found["promoted"]) == (0, None, False)
    assert found.keys() >= TUNE_KEYS
    cli("pin", *size, "naive", "lanes=n").assert_refused(2, "empty product")
    cli("lookup", *size).assert_refused(2, f"empty product .*{does}")


@pytest.mark.parametrize("dtype", ["float64", "float16"])
def test_what_a_device_lacks_is_unsupported_and_no_failure(
    cli: Cli, any_device: Device, monkeypatch: pytest.MonkeyPatch, dtype: str
) -> None:
    facts = Facts(fp64=False, half_storage=False)
    poor = Device(any_device.silicon, any_device.software, "poor", facts, any_device.address)
    monkeypatch.setattr(tune_command, "the_device", lambda text: poor)
    said = cli("tune", "8", "8", "8", "--dtype", dtype, "--json")
    assert said.status == 0
    assert said.json["verdicts"] == {"unsupported": 1}
    assert said.json.keys() >= TUNE_KEYS


# Bad usage: status 2, one sentence, nothing changed


@pytest.mark.parametrize(
    ("arguments", "pattern"),
    [
        ("tune -5 8 8", "-5 is negative"),
        ("tune 8 8 --batch=-1 8", "batch must not be negative"),
        ("tune eight 8 8", "'M'"),
        ("tune 8.5 8 8", "'M'"),
        ("tune 8 8", "Missing argument 'K'"),
        ("tune 8 8 8 8", "8"),
        ("tune 8 8 2147483648", "too large"),
        (f"tune 8 8 {'9' * 5000}", "'K'"),
        ("tune 2000000 2000000 1", "GiB"),
        ("tune 8 8 8 --dtype int8", "int8.*float32, float64, float16, bfloat16"),
        ("tune 8 8 8 --math fast", "unknown math 'fast'"),
        ("tune 8 8 8 --device nowhere", "No device is called 'nowhere'; there is:"),
        ("tune 8 8 8 --family nosuch", "no family 'nosuch'; there is:"),
        ("tune 8 8 8 --family-dir /no/such/folder", "/no/such/folder"),
        ("tune 8 8 8 --evals 0", "--evals"),
        ("tune 8 8 8 --evals many", "--evals"),
        ("tune 8 8 8 --evals 1e99", "--evals"),
        ("tune 8 8 8 --seconds nan", "--seconds"),
        ("tune 8 8 8 --seconds inf --evals 1 --family tiled", "--seconds"),
        ("tune 8 8 8 --seconds 0", "--seconds"),
        ("tune 8 8 8 --seed -1", "-1 is negative"),
        ("tune 8 8 8 --nosuch", "--nosuch"),
        ("lookup 8 8 8 --dtype float128", "float128"),
        ("nosuch", "nosuch"),
        ("db nosuch", "nosuch"),
        ("pin 32 32 32 naive lanes=n group_m=1 group_n=1 tsm=1", "tsm"),
        ("pin 32 32 32 naive lanes=n group_m=3 group_n=1", "group_m = 3 is none of the choices"),
        ("pin 32 32 32 naive lanes=n group_m=1", "needs a value for group_n"),
        ("pin 32 32 32 naive lanes=n group_m=32 group_n=ten", "group_n"),
        ("pin 32 32 32 naive lanes", "'lanes' is no axis and value"),
        ("pin 32 32 32 nosuch a=1", "no family 'nosuch'"),
        ("pin 64 64 64", "no champion"),
        ("unpin 32 32 32", "nothing is pinned"),
        ("withdraw 64 64 64", "no champion"),
        ("verify", "--all"),
        ("verify 64 64 64", "no champion"),
        ("rollback --to yesterday", "'yesterday' is no date"),
        ("rollback --to 0001-01-01", "0001-01-01"),
    ],
)
def test_bad_usage(full: Cli, tmp_path: Path, arguments: str, pattern: str) -> None:
    before = [rows(tmp_path / "tuner.db", table) for table in ("trial", "champion_log", "certificate")]
    full(*arguments.split(" ")).assert_refused(2, pattern)
    assert [rows(tmp_path / "tuner.db", table) for table in ("trial", "champion_log", "certificate")] == before


@pytest.mark.parametrize("value", ["\u00b2", "--5", "9" * 5000, "4.5", ""])
def test_a_value_that_no_axis_has_is_one_sentence(full: Cli, value: str) -> None:
    full("pin", "40", "40", "40", "tiled", f"ts={value}", "pad=0").assert_refused(2, "none of the choices")


@pytest.mark.parametrize(
    ("arguments", "pattern"),
    [("--budget large", "no budget 'large'"), ("--budget quick --evals 3", "both say how many")],
)
def test_a_budget_is_one_of_three_and_alone(full: Cli, arguments: str, pattern: str) -> None:
    full("tune", "8", "8", "8", *arguments.split()).assert_refused(2, pattern)


def test_an_illegal_pin_names_the_rule(full: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    small = Device(FAKE_DEVICE.silicon, FAKE_DEVICE.software, "small", Facts(max_group_size=64))
    monkeypatch.setattr(wiring, "list_devices", lambda: [DeviceReport(small, works=True)])
    full("pin", *SIZE, "tiled", "ts=32", "pad=0").assert_refused(2, "breaks the rule “the work-items of a group fit")


def test_no_command_shows_the_help_and_no_empty_sentence(cli: Cli) -> None:
    for arguments in ((), ("db",)):
        said = cli(*arguments)
        assert "Usage: gemm-tuner" in said.out + said.err
        assert "gemm-tuner: ." not in said.err


def test_more_evaluations_than_there_are_configurations_end_early(cli: Cli) -> None:
    found = cli("tune", "16", "16", "16", "--family", "tiled", "--evals", str(10**30), "--json").json
    assert (found["stopped_by"], found["valid_space"]["exact"]) == ("exhausted", True)
    assert found["evaluated"] == found["valid_space"]["size"] <= 10


# Families that are wrong


def family(folder: Path, toml: str = "", template: str = "", name: str = "own") -> str:
    """Copy the family `few` under another name with something appended."""
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.toml").write_text((FEW / "few.toml").read_text() + toml)
    (folder / f"{name}.cl.j2").write_text((FEW / "few.cl.j2").read_text() + template)
    return str(folder)


@pytest.mark.parametrize(
    ("toml", "template", "where"),
    [
        ('[[rules]]\nsays = "x"\ntest = "group_m +"\n', "", r"own\.toml:\d+"),
        ('[[rules]]\nsays = "x"\ntest = "nosuch > 1"\n', "", r"own\.toml:\d+.*nosuch"),
        ('[[rules]]\nsays = "x"\ntest = "group_m.__class__ == 1"\n', "", r"own\.toml:\d+"),
        ('[[rules]]\nsays = "x"\ntest = "8 // (group_m - 1) > 1"\n', "", r"own\.toml:\d+"),
        ("[[default]]\ngroup_m = 1\ngroup_n = 1\ngroup_x = 1\n", "", r"own\.toml:\d+.*group_x"),
        ("[nosuch]\n", "", r"own\.toml.*nosuch"),
        ("= broken", "", r"own\.toml"),
        ("", "\n{{ group_x }}\n", r"own\.cl\.j2:\d+.*group_x"),
        ("", "\n{% if %}\n", r"own\.cl\.j2:\d+"),
        ("", "\n{{ ''.__class__.__mro__ }}\n", r"own\.cl\.j2:\d+"),
        ("", "\n{% include 'nosuch.j2' %}\n", r"own\.cl\.j2.*nosuch\.j2"),
    ],
)
def test_a_broken_family_is_refused_with_its_file_and_line(
    cli: Cli, tmp_path: Path, toml: str, template: str, where: str
) -> None:
    folder = family(tmp_path / "families", toml, template)
    for command in (("tune", *SIZE, "--family", "own"), ("lookup", *SIZE)):
        cli(*command, "--family-dir", folder).assert_refused(2, where)
    assert not (tmp_path / "tuner.db").exists()


@pytest.fixture
def wrong(tmp_path: Path) -> str:
    """A family whose kernel forgets to add."""
    folder = family(tmp_path / "families")
    path = Path(folder) / "own.cl.j2"
    text = path.read_text()
    assert "sum += a[" in text
    path.write_text(text.replace("sum += a[", "sum = a["))
    return folder


def test_a_wrong_configuration_is_not_pinned(full: Cli, wrong: str) -> None:
    said = full("pin", *SIZE, "own", "group_m=1", "group_n=1", "--family-dir", wrong)
    assert said.status != 0 and "wrong_result" in said.err and said.err.count("\n") == 1
    assert [event["action"] for event in full("history", *SIZE, "--json").json["log"]] == ["promote"]


def test_a_run_without_a_correct_configuration_fails_and_publishes_nothing(cli: Cli, wrong: str) -> None:
    said = cli("tune", *SIZE, "--family", "own", "--family-dir", wrong, "--evals", "3", "--json")
    assert said.status == 1
    assert (said.json["verdicts"], said.json["best"], said.json["promoted"]) == ({"wrong_result": 3}, None, False)
    assert cli("champions", "--json").json["champions"] == []
    assert (
        "No correct configuration" in cli("tune", *SIZE, "--family", "own", "--family-dir", wrong, "--evals", "1").out
    )


def test_verify_withdraws_what_fails(full: Cli, tmp_path: Path) -> None:
    with open_store(str(tmp_path / "tuner.db"), upgrade=True) as store:
        [right] = store.champions()
        wrong = replace(right.rendered, source=right.rendered.source.replace("sum += a[", "sum = a["))
        wrong = replace(wrong, source_hash="wrong")
        key = (right.silicon, right.software, right.problem)
        store.withdraw(*key, reason="makes room")
        store.promote(*key, right.config, wrong, reason="planted", time_ms=0.001, noise=None)
    said = full("verify", *SIZE, "--json")
    assert said.status == 1
    [found] = said.json["verified"]
    assert (found["certified"], found["verdict"]) == (False, "wrong_result")
    assert full("champions", "--json").json["champions"] == []


# What the machine does: status 1, one sentence, nothing lost


READING = ("champions", "history 32 32 32", "db check", "db stats")
WRITING = ("tune 32 32 32 --family tiled --evals 1", "db upgrade")


@pytest.mark.parametrize("command", [*READING, *WRITING])
def test_a_file_that_is_no_database(cli: Cli, tmp_path: Path, command: str) -> None:
    letter = tmp_path / "letter.txt"
    letter.write_text("Dear reader, this is no database at all.\n")
    cli(*command.split(), "--db", str(letter)).assert_refused(1, "is not a database")
    assert letter.read_text().startswith("Dear reader")
    cli(*command.split(), "--db", str(tmp_path)).assert_refused(1, "is a folder")


@pytest.mark.parametrize("command", [*READING, *WRITING])
def test_a_database_from_a_newer_version(full: Cli, tmp_path: Path, command: str) -> None:
    path = tmp_path / "tuner.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"UPDATE {VERSION_TABLE} SET version_num = '9999'")
    full(*command.split()).assert_refused(1, "newer gemm-tuner")
    assert rows(path, "trial") == 7


@pytest.mark.parametrize("command", [*READING, *WRITING])
def test_another_programs_database(cli: Cli, tmp_path: Path, command: str) -> None:
    with closing(sqlite3.connect(tmp_path / "tuner.db")) as connection, connection:
        connection.execute("CREATE TABLE bookmark (url TEXT)")
    cli(*command.split()).assert_refused(1, "another program")


@pytest.mark.parametrize(
    "place",
    ["/proc/tuner.db", "/proc/self/tuner.db", "/sys/tuner.db", "/dev/null/tuner.db", "/dev/full", "{}/" + "a" * 300],
)
@pytest.mark.parametrize("command", WRITING)
def test_a_place_that_cannot_be_written(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, command: str
) -> None:
    monkeypatch.setattr(engine, "_LOCK_SECONDS", 1.0)  # nobody waits two minutes for a test
    said = cli(*command.split(), "--db", place.format(tmp_path))
    said.assert_refused(1, "cannot|is not a database|too long")
    assert "another program" not in said.err


def test_a_name_that_is_too_long_is_refused_by_commands_that_read(cli: Cli, tmp_path: Path) -> None:
    cli("champions", "--db", f"{tmp_path}/{'a' * 300}").assert_refused(1, "aaa")


def test_a_disk_that_is_full_in_the_middle(full: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full_disk(*_: Any) -> None:
        error = sqlite3.OperationalError("database or disk is full")
        error.sqlite_errorcode = sqlite3.SQLITE_FULL
        raise sqlalchemy.exc.OperationalError("INSERT", {}, error)

    monkeypatch.setattr(trials, "add", full_disk)
    said = full("tune", *SIZE, "--family", "few", "--family-dir", str(FEW), "--evals", "2")
    assert said.status == 1, said.err
    assert "the disk is full" in said.err and "Traceback" not in said.err
    assert rows(tmp_path / "tuner.db", "trial") == 7


@pytest.mark.parametrize(
    "command", ["tune 8 8 8", "lookup 8 8 8", "pin 8 8 8", "withdraw 8 8 8", "verify --all", "devices"]
)
def test_no_device_at_all(cli: Cli, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    monkeypatch.setattr(wiring, "list_devices", lambda: [])
    monkeypatch.setattr(device_commands, "list_devices", lambda: [])
    cli(*command.split()).assert_refused(1, r'pip install "gemm-tuner\[intel\]" or pip install "gemm-tuner\[pocl\]"')


def test_only_devices_that_do_not_work(cli: Cli, any_device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wiring, "list_devices", lambda: [DeviceReport(any_device, works=False, problem="it is cold")])
    cli("tune", "8", "8", "8").assert_refused(1, "does not work \\(it is cold\\)")


def test_a_device_that_is_gone_when_it_is_opened(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wiring, "list_devices", lambda: [DeviceReport(FAKE_DEVICE, works=True)])
    cli("tune", *SIZE, "--family", "tiled", "--evals", "1").assert_refused(1, "Anvil 9|device")
    with open_store(str(tmp_path / "tuner.db"), upgrade=False) as store:
        assert store.history() == []


# Output


CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def test_plain_output_has_no_control_characters_and_tables_keep_their_columns(full: Cli) -> None:
    full("pin", *SIZE, "--reason", "fast\tand\x1b[31m red\nand\x07 loud")
    said = [
        full("devices"),
        full("champions"),
        full("history", *SIZE, "--last", "0"),
        full("lookup", *SIZE, "--family-dir", str(FEW)),
        full("db", "stats"),
        full("tune", *SIZE, "--family", "few", "--family-dir", str(FEW), "--evals", "1"),
    ]
    for one in said:
        assert one.status == 0
        assert CONTROL.search(one.out + one.err) is None, one.out + one.err
    for table in (said[0], said[1], said[2]):
        assert len({line.count("\t") for line in table.out.splitlines()}) == 1, table.out


def test_progress_goes_to_standard_error(full: Cli) -> None:
    said = full("tune", "16", "16", "16", "--family", "few", "--family-dir", str(FEW), "--evals", "2", "--json")
    assert said.json["evaluated"] == 2
    assert "searching" in said.err and "2 of 2 evaluated" in said.err


def test_a_terminal_sees_a_live_display_and_a_readable_end(any_device: Device, tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    what = ["tune", *SIZE, "--family", "few", "--family-dir", str(FEW), "--evals", "4", "--device", any_device.address]
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "100", "LINES": "40"}
    command = [sys.executable, "-m", "tuner", *what, "--db", str(tmp_path / "tuner.db")]
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, cwd=ROOT, env=environment)
    os.close(theirs)
    seen = b""
    with contextlib.suppress(OSError):  # a pseudo-terminal ends with EIO
        while chunk := os.read(ours, 65536):
            seen += chunk
    os.close(ours)
    text = seen.decode()
    assert process.wait() == 0, text
    stages = ("searching", "racing the best", "certifying")  # a short one may not be drawn
    assert "\x1b[2K" in text and any(stage in text for stage in stages)  # lines are drawn over
    assert text.count("\x1b[?25l") == text.count("\x1b[?25h")  # the cursor is back
    end = text.rpartition("\x1b[2K")[2]
    words = [line.split()[0] for line in end.splitlines() if line.strip()]
    assert [word for word in words if word in ("best", "champion", "time", "kept")] == [
        *("best", "champion", "time", "kept")
    ]


@pytest.mark.parametrize("arguments", [("history", *SIZE), ("champions", "--json"), ("--help",), ("db", "stats")])
def test_a_closed_pipe_gives_no_traceback(tuned: tuple[Path, Any], arguments: tuple[str, ...]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    environment = {**os.environ, "GEMM_TUNER_DB": str(tuned[0])}
    command = [sys.executable, "-m", "tuner", *arguments]
    found = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, cwd=ROOT, env=environment)
    os.close(writer)
    assert found.stderr == ""
    assert found.returncode in (0, 1)


def test_a_disk_full_of_output_is_one_sentence(tuned: tuple[Path, Any]) -> None:
    with Path("/dev/full").open("w") as full_disk:
        command = [sys.executable, "-m", "tuner", "history", *SIZE, "--db", str(tuned[0])]
        found = subprocess.run(command, stdout=full_disk, stderr=subprocess.PIPE, text=True, cwd=ROOT)
    assert found.returncode == 1
    assert re.fullmatch(r"gemm-tuner: .+\.\n", found.stderr), found.stderr


@pytest.mark.parametrize("closed", ["stdout", "stderr"])
def test_a_closed_stream_gives_no_traceback(tuned: tuple[Path, Any], closed: str) -> None:
    number = {"stdout": 1, "stderr": 2}[closed]
    shell = f'exec "$0" -m tuner champions --db "$1" {number}>&-'
    found = subprocess.run(["sh", "-c", shell, sys.executable, tuned[0]], capture_output=True, text=True, cwd=ROOT)
    assert "Traceback" not in found.stderr
    assert found.returncode in (0, 1)


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_an_output_that_knows_few_characters_gives_no_traceback(tuned: tuple[Path, Any], encoding: str) -> None:
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    command = [sys.executable, "-m", "tuner", "history", *SIZE, "--db", str(tuned[0])]
    found = subprocess.run(command, capture_output=True, cwd=ROOT, env=environment)
    assert (found.returncode, found.stderr) == (0, b"")
    assert b"correct" in found.stdout


def test_a_path_that_is_no_text_gives_no_traceback(tmp_path: Path) -> None:
    path = os.fsencode(tmp_path) + b"/\xff.db"
    command: list[str | bytes] = [sys.executable, "-m", "tuner", "champions", "--json", "--db", path]
    found = subprocess.run(command, capture_output=True, cwd=ROOT)
    assert found.returncode == 1 and found.stderr.startswith(b"gemm-tuner: there is no store at ")


@pytest.mark.parametrize("ignored", [False, True])
def test_ctrl_c_during_the_first_imports_is_quiet(ignored: bool) -> None:
    """Sent as numpy is imported; who ignores it, as nohup does, goes on."""
    code = f"""
import os, signal, sys
if {ignored}:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
class Press:
    def find_spec(self, name, path=None, target=None):
        if name == "numpy":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Press())
sys.argv = ["gemm-tuner", "--help"]
from tuner.__main__ import main
main()
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert (found.returncode, found.stderr) == ((0, "") if ignored else (130, ""))
    assert ("lookup" in found.stdout) is ignored
