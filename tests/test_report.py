"""Reports: the same numbers in every format, whatever the store holds and whatever things are called."""

from __future__ import annotations

import html.parser
import importlib
import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from synthetic_store import Size, make
from tests.fakes import PROBLEM, SILICON, SOFTWARE, FakeBench, small_family, tuned
from tuner import timing
from tuner.cli.app import run
from tuner.family import load_families
from tuner.model import CompilerInfo, Config, Measurement, Record, Rendered, Silicon, Software, UserError, Verdict
from tuner.report import build, pages, read_ladder, running, whole, write
from tuner.report.changes import manifest_of
from tuner.report.contents import read_contents
from tuner.report.markdown import ROWS
from tuner.report.numbers import UNKNOWN
from tuner.report.site import replace_file
from tuner.store import Store, open_store

HOSTILE = "<script>alert(1)</script> \"quoted\" 'single' & \U0001f680 " + "x" * 250


@pytest.fixture(scope="module")
def big(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A synthetic store: two devices, 8 problems, 12 nights."""
    place = tmp_path_factory.mktemp("synthetic") / "big.db"
    make(place, Size(trials=500, problems=8, devices=2, nights=12))
    return place


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(str(tmp_path / "tuner.db"), upgrade=True) as opened:
        yield opened


class _Tables(html.parser.HTMLParser):
    """The cells of every table by the id of its box, and every id and link."""

    def __init__(self) -> None:
        super().__init__()
        self.tables: dict[str, list[list[str]]] = {}
        self.ids: list[str] = []
        self.links: list[str] = []
        self.scripts: list[str] = []
        self.words: list[str] = []
        """Of paragraphs, captions and logs, in order, without the foot."""
        self._said: list[str] | None = None
        self._rows: list[list[str]] = []
        self._cell: list[str] | None = None
        self._script: list[str] | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag in ("td", "th", "tr", "tbody"):
            self._end_cell()
        if given.get("id"):
            self.ids.append(str(given["id"]))
        if tag == "div" and given.get("class") == "table":
            self._rows = self.tables.setdefault(str(given["id"]), [])
        elif tag == "tr":
            self._rows.append([])
        elif tag in ("td", "th"):
            self._cell = []
        elif tag == "a":
            self.links.append(str(given["href"]))
        elif tag == "script":
            self._script = []
        elif tag in ("p", "figcaption", "pre"):
            self._said = []

    def handle_endtag(self, tag: str) -> None:
        if tag == "table":
            self._end_cell()
        elif tag == "script" and self._script is not None:
            self.scripts.append("".join(self._script))
            self._script = None
        elif tag in ("p", "figcaption", "pre") and self._said is not None:
            self.words.append("".join(self._said))
            self._said = None
        elif tag == "footer":
            self.words.pop()

    def _end_cell(self) -> None:
        if self._cell is not None:
            self._rows[-1].append("".join(self._cell).strip())
            self._cell = None

    def handle_data(self, data: str) -> None:
        if self._cell is not None:
            self._cell.append(data)
        if self._script is not None:
            self._script.append(data)
        if self._said is not None:
            self._said.append(data)


def _parsed(data: bytes) -> _Tables:
    parser = _Tables()
    parser.feed(data.decode())
    return parser


def _same(text: str, row: dict[str, Any], column: dict[str, Any]) -> bool:
    """Whether a cell, as it is read by people, says what JSON does."""
    value, noise = row[column["key"]], row.get(f"{column['key']}_noise")
    if value is None:
        return text == UNKNOWN
    if isinstance(value, str):
        return text in (value, value + row.get(f"{column['key']}_whole", ""))
    found = re.fullmatch(r"(-?[\d.]+)(?: ± ([\d.]+) %)?", text)
    wanted = [value] if noise is None else [value, noise]
    return found is not None and [float(one) for one in found.groups() if one] == wanted


@dataclass(frozen=True)
class Formats:
    """One report, of one moment, in three formats."""

    values: dict[str, Any]
    html: bytes
    text: str


@pytest.fixture(scope="module")
def formats(big: Path, tmp_path_factory: pytest.TempPathFactory) -> Formats:
    """With a ladder, and after a report before which one champion was not there and another was slower."""
    module = importlib.import_module("tuner.report.whole")  # `tuner.report.whole` is the function
    ladder = tmp_path_factory.mktemp("ladder") / "ladder.json"
    with open_store(str(big), upgrade=False) as opened, pytest.MonkeyPatch.context() as patch:
        facts = read_contents(opened, None).facts
        before = {**manifest_of(facts), "trials": 100, "when": "2026-08-02T00:00:00+00:00"}
        first, second, *_ = before["champions"]
        before["champions"] = {name: one for name, one in before["champions"].items() if name != first}
        before["champions"][second] = {**before["champions"][second], "config": "f x=1", "time_ms": 123.0}
        _ladder(ladder, facts.devices[0].id.silicon, facts.devices[0].software)
        patch.setattr(module, "read_contents", partial(read_contents, now=datetime(2026, 12, 1, tzinfo=UTC)))
        made = [whole(opened, format, before, ladders=[read_ladder(ladder)])[0] for format in ("json", "html", "md")]
    return Formats(json.loads(made[0]), made[1], made[2].decode())


SECTIONS = {
    *("glance", "changes", "devices", "nights", "problems", "reading"),
    *("champions", "roofline", "sweep", "ladder", "drivers", "verdicts", "shapes", "asked"),
}
"""Of the pages about more than one problem; a device, or a type, has a section under its own name."""


def _is_brief(path: str) -> bool:
    """Whether Markdown has the page."""
    return not path.startswith(("problem-", "regret-"))


def test_json_html_and_markdown_show_the_same_numbers(formats: Formats) -> None:
    page, tables = _parsed(formats.html), list(_markdown_tables(formats.text))
    compared = 0
    for path, one in formats.values["pages"].items():
        for block in (block for section in one["sections"].values() for block in section if "table" in block):
            shown = [page.tables.pop(f"{path}--{block['table']}-table")[1:]]
            if _is_brief(path):
                caption, rows = tables.pop(0)
                assert caption == block["caption"]
                shown.append(rows)
            assert len(shown[0]) == len(block["rows"]) and (
                len(shown[-1]) == min(ROWS, len(block["rows"])) or not shown[1:]
            )
            for rows in shown:
                for cells, row in zip(rows, block["rows"], strict=False):
                    for cell, column in zip(cells, block["columns"], strict=True):
                        assert _same(cell, row, column), (block["table"], column["key"], cell, row)
                        compared += column["kind"] not in ("text", "date")
    assert compared > 500 and not tables and not page.tables
    assert {id for one in formats.values["pages"].values() for id in one["sections"]} >= SECTIONS


def test_json_html_and_markdown_say_the_same_words_and_draw_the_same_figures(formats: Formats) -> None:
    """Numbers stand in captions and sentences, too."""
    page = _parsed(formats.html)
    markdown = iter(_unescaped(formats.text).splitlines())
    drawn = [json.loads(script) for script in page.scripts if script.startswith("{")]
    for one in (found for path, found in formats.values["pages"].items() if _is_brief(path)):
        for words in (one["title"], one["lead"], *(text for text, in_markdown in _said(one) if in_markdown)):
            assert any(line.removeprefix("# ").removeprefix("## ") == words for line in markdown), words
    said = [text for one in formats.values["pages"].values() for text in (one["lead"], *(t for t, _ in _said(one)))]
    assert page.words == said and len(said) > 100
    blocks = (block for one in formats.values["pages"].values() for some in one["sections"].values() for block in some)
    figures = [{"data": block["data"], "layout": block["layout"]} for block in blocks if "figure" in block]
    assert drawn == figures and len(figures) > 40


def _said(page: dict[str, Any]) -> Iterator[tuple[str, bool]]:
    """What a page says besides its lead, in order, and whether Markdown says it, too."""
    for block in (block for section in page["sections"].values() for block in section):
        if "table" in block:
            yield block["caption"], True
            if block["left_out"]:
                yield f"{block['left_out']} further rows are not shown.", False
        elif "figure" in block:
            yield f"{block['title']}. {block['caption']}", False
        else:
            yield block["text"], "log" not in block


def _markdown_tables(text: str) -> Iterator[tuple[str, list[list[str]]]]:
    """Caption and rows, in order."""
    lines = _unescaped(text, bar="\x00").splitlines()
    for number, line in enumerate(lines):
        if line.startswith("| ---"):
            rows = []
            for row in lines[number + 1 :]:
                if not row.startswith("|"):
                    break
                rows.append([cell.strip().replace("\x00", "|") for cell in row.strip("|").split("|")])
            yield lines[number - 3], rows


def _unescaped(text: str, bar: str = "|") -> str:
    plain = re.sub(r"\\([\\`*_\[\]|#])", lambda found: bar if found[1] == "|" else found[1], text)
    return plain.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def test_a_folder_builds_once_and_then_only_what_changed(big: Path, tmp_path: Path) -> None:
    place = tmp_path / "copy.db"
    place.write_bytes(big.read_bytes())
    opened, site = partial(open_store, str(place), upgrade=False), tmp_path / "site"
    first = build(opened, site, workers=1)
    assert first.built == 8 and build(opened, site, workers=1).built == 0
    before = {path.name: path.read_bytes() for path in site.glob("problem-*.html")}
    with open_store(str(place), upgrade=True) as writing:
        record = max(writing.history(), key=lambda one: one.when)  # of the present driver
        fast = replace(record.measurement, samples_ms=(1e-3,) * 5, verdict=Verdict.CORRECT, message="")
        writing.add(replace(record, measurement=fast, when="2026-12-01T00:00:00.000000+00:00", source_hash="f" * 32))
    assert build(opened, site, workers=1).built == 1
    changed = [name for name, data in before.items() if (site / name).read_bytes() != data]
    assert len(changed) == 1


def test_every_link_of_a_folder_leads_somewhere(big: Path, tmp_path: Path) -> None:
    build(partial(open_store, str(big), upgrade=False), tmp_path / "site", workers=1)
    parsed = {path.name: _parsed(path.read_bytes()) for path in (tmp_path / "site").glob("*.html")}
    assert len(parsed) > 12
    for name, page in parsed.items():
        assert len(page.ids) == len(set(page.ids)), name
        for link in page.links:
            target, _, anchor = link.partition("#")
            assert not target or (tmp_path / "site" / target).exists(), (name, link)
            if anchor and target in ("", *parsed):
                assert anchor in parsed[target or name].ids, (name, link)


def test_every_page_is_small(big: Path, tmp_path: Path) -> None:
    build(partial(open_store, str(big), upgrade=False), tmp_path / "site", workers=1)
    assert max(path.stat().st_size for path in (tmp_path / "site").glob("*.html")) <= 300_000
    with open_store(str(big), upgrade=False) as opened:
        write(opened, tmp_path / "one.html", "html")
    assert (tmp_path / "one.html").stat().st_size <= 15_000_000


def test_an_empty_store_has_a_report_that_says_so(store: Store, tmp_path: Path) -> None:
    for format in ("html", "md", "json"):
        data, _ = whole(store, format, None)
        assert b"Nothing was tuned yet" in data
    build(partial(open_store, str(tmp_path / "tuner.db"), upgrade=False), tmp_path / "site", workers=1)
    assert "Nothing was tuned yet" in (tmp_path / "site" / "index.html").read_text()
    build(partial(open_store, str(tmp_path / "none.db"), upgrade=False), tmp_path / "other", workers=1)


def _fail(store: Store, silicon: Silicon = SILICON, software: Software = SOFTWARE, **axes: int) -> None:
    run = store.start_run(silicon, software, PROBLEM, {})
    log = "error: <b>no</b> </script>\n" + "x" * 40_000
    for number in range(6):
        failed = Measurement(Verdict.COMPILE_FAILED, message="error: no", compiler=CompilerInfo(log=log))
        config = Config.of("grid", vw=8, n=number, **axes)
        when = f"2026-01-01T00:00:0{number}+00:00"
        store.add(Record(silicon, software, PROBLEM, config, failed, f"{number:032d}", run, when))
    store.finish_run(run, {})


def test_a_store_with_only_failures_names_the_value_that_always_fails(store: Store) -> None:
    _fail(store)
    values = json.loads(whole(store, "json", None)[0])
    (section,) = [found for name, found in values["pages"]["failures"]["sections"].items() if name != "verdicts"]
    by_value = next(block for block in section if str(block.get("table", "")).startswith("values-"))
    row = next(row for row in by_value["rows"] if row["value"] == "vw = 8")
    assert (row["correct"], row["trials"], row["remark"]) == (0, 6, "fails every time")
    logs = [block for block in section if "log" in block]
    assert len(logs) == 1 and len(logs[0]["text"].encode()) <= 16 * 1024
    assert b"<b>no</b>" not in whole(store, "html", None)[0]


def test_names_of_any_kind_are_shown_and_never_obeyed(store: Store, tmp_path: Path) -> None:
    silicon, software = replace(SILICON, name=HOSTILE), replace(SOFTWARE, driver=HOSTILE, device_string=HOSTILE)
    _fail(store, silicon, software)
    config = Config.of(HOSTILE, {HOSTILE: HOSTILE})
    rendered = Rendered("source", "", (), (), "a" * 32)
    run = store.start_run(silicon, software, PROBLEM, {})
    good = Measurement(Verdict.CORRECT, (1.0,) * 5)
    for number in range(12):
        one = Config.of(HOSTILE, {HOSTILE: HOSTILE, "x": number})
        record = Record(
            silicon, software, PROBLEM, one, good, f"{number:032x}", run, f"2026-01-02T00:00:{number:02d}+00:00"
        )
        store.add(record)
    store.promote(silicon, software, PROBLEM, config, rendered, reason=HOSTILE, time_ms=1.0, noise=0.1)
    store.finish_run(
        run, {"races": [{"contenders": [{"family": HOSTILE, "config": {HOSTILE: HOSTILE}}], "rounds_ms": [[1]]}]}
    )
    data, _ = whole(store, "html", None)
    parsed = _parsed(data)
    assert all("alert(1)" not in script or script.lstrip().startswith("{") for script in parsed.scripts)
    assert b"<script>alert" not in data and b"\\u003cscript\\u003ealert" in data
    assert "<script>" not in whole(store, "md", None)[0].decode()
    assert (
        HOSTILE[:20]
        in json.loads(whole(store, "json", None)[0])["pages"]["index"]["sections"]["devices"][0]["rows"][0]["device"]
    )
    build(partial(open_store, str(tmp_path / "tuner.db"), upgrade=False), tmp_path / "site", workers=1)
    names = [path.name for path in (tmp_path / "site").rglob("*")]
    assert all(re.fullmatch(r"[\w.-]{1,80}", name) for name in names)


def test_a_device_that_is_no_longer_there_keeps_its_pages(store: Store) -> None:
    old = replace(SOFTWARE, platform="Gone OpenCL 1.0", driver="0.1")
    store.promote(
        SILICON,
        old,
        PROBLEM,
        Config.of("gone", x=1),
        Rendered("s", "", (), (), "a" * 32),
        reason="x",
        time_ms=2.0,
        noise=0.1,
    )
    found = json.loads(whole(store, "json", None)[0])
    (row,) = found["pages"]["index"]["sections"]["devices"][0]["rows"]
    assert (row["champions"], row["coverage"], row["driver"]) == (1, 0.0, "0.1")


def test_what_changed_since_the_report_before(store: Store, tmp_path: Path) -> None:
    rendered = Rendered("s", "", (), (), "a" * 32)
    key = (SILICON, SOFTWARE, PROBLEM)
    store.promote(*key, Config.of("f", x=1), rendered, reason="x", time_ms=2.0, noise=0.03)
    out = tmp_path / "report.json"
    assert b"first report" in whole(store, "json", None)[0]
    write(store, out, "json")
    store.promote(
        *key, Config.of("f", x=2), replace(rendered, source_hash="b" * 32), reason="x", time_ms=1.0, noise=0.04
    )
    write(store, out, "json")
    (block,) = json.loads(out.read_text())["pages"]["index"]["sections"]["changes"]
    (row,) = block["rows"]
    assert (row["what"], row["gain"], row["gain_noise"], row["now_ms"]) == ("new configuration", 2.0, 5.0, 1.0)
    write(store, out, "json")
    assert "no champion changed" in out.read_text()


def test_somebody_elses_index_is_not_overwritten(store: Store, tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "index.html").write_text("mine")
    with pytest.raises(UserError, match="no report of ours"):
        build(partial(open_store, str(tmp_path / "tuner.db"), upgrade=False), tmp_path / "site")
    assert (tmp_path / "site" / "index.html").read_text() == "mine"


def test_a_real_search_has_its_race_and_convergence_on_the_page(store: Store, tmp_path: Path) -> None:
    families = {"grid": small_family(tmp_path)}
    tuned(FakeBench(noise=0.01), store, families, evaluations=40)
    values = json.loads(whole(store, "json", None)[0])
    (page,) = [page for path, page in values["pages"].items() if path.startswith("problem-")]
    figures = [block for section in page["sections"].values() for block in section if "figure" in block]
    titles = [figure["title"] for figure in figures]
    assert titles[:3] == [
        "Convergence over evaluations",
        "Convergence over seconds",
        "The fastest measured again in turns",
    ]
    best = figures[0]["data"][-1]["y"]
    assert best == sorted(best) and best[-1] == pytest.approx(PROBLEM.gflops(1.0), rel=0.05)
    assert len(figures[2]["data"]) == 5 and len(figures[2]["data"][0]["y"]) == 7
    assert {"Which axes mattered", "Time by x", "The champion's history"} <= set(titles)


def test_served_pages_follow_the_store_and_show_what_runs(store: Store) -> None:
    served = pages(store)
    assert b"Nothing was tuned yet" in served["index.html"] and b"data-live" in served["index.html"]
    assert json.loads(served["live.json"])["running"] == []
    run = store.start_run(SILICON, SOFTWARE, PROBLEM, {"budget": {"evaluations": 4, "seconds": None}})
    good = Measurement(Verdict.CORRECT, (1.0,) * 5)
    now = datetime.now(UTC).isoformat(timespec="microseconds")
    store.add(Record(SILICON, SOFTWARE, PROBLEM, Config.of("f", x=1), good, "a" * 32, run, now))
    (one,) = json.loads(served["live.json"])["running"]
    assert (one["evaluated"], one["fraction"], one["verdicts"]) == (1, 0.25, {"correct": 1})
    assert one["best_gflops"] == pytest.approx(PROBLEM.gflops(1.0), rel=1e-3)
    store.finish_run(run, {})
    assert running(store)["running"] == []
    again = pages(store)
    (name,) = [name for name in again if name.startswith("problem-")]
    assert b"64" in again[name] and again.content_type(name).startswith("text/html")
    with pytest.raises(KeyError):
        again["problem-none.html"]
    assert {"report.css", "report.js", "plotly.min.js"} <= set(again)


def test_the_command_writes_each_format(big: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["report", "--db", str(big), "--out", str(tmp_path / "r.md")]) == 0
    assert (tmp_path / "r.md").read_text().startswith("# GEMM tuning report")
    capsys.readouterr()
    assert run(["report", "--db", str(big), "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["format"] == 1
    assert run(["report", "--db", str(big), "--format", "pdf"]) == 2


def test_a_share_of_peak_and_a_ratio_to_the_default_have_their_noise(store: Store) -> None:
    default = next(iter(load_families().values())).defaults[0]
    run = store.start_run(SILICON, SOFTWARE, PROBLEM, {})
    slow, fast = (2.0, 2.0, 2.0, 2.1, 2.1, 2.2), (0.9, 1.0, 1.0, 1.0, 1.1)
    for number, (config, samples) in enumerate([(default, slow), (Config.of("mine", x=1), fast)]):
        good = Measurement(Verdict.CORRECT, samples)
        record = Record(SILICON, SOFTWARE, PROBLEM, config, good, f"{number:032d}", run, f"2026-01-01T00:00:0{number}Z")
        store.add(record)
    best, rendered = Config.of("mine", x=1), Rendered("s", "", (), (), f"{1:032d}")
    store.promote(SILICON, SOFTWARE, PROBLEM, best, rendered, reason="x", time_ms=1.0, noise=0.03)
    store.set_peak(SILICON, SOFTWARE, "float32", "strict", 2 * PROBLEM.gflops(1.0), 0.04, "made up")
    values = json.loads(whole(store, "json", None)[0])
    (page,) = (page for path, page in values["pages"].items() if path.startswith("device-"))
    (row,) = page["sections"]["champions"][-1]["rows"]
    assert (row["of_peak"], row["of_peak_noise"]) == (50.0, 5.0)
    wanted = 100 * math.hypot(*(timing.summarise(some).noise or 0 for some in (slow, fast)))
    assert (row["default_ratio"], row["default_ratio_noise"]) == (2.05, round(wanted, 1))


def _ladder(path: Path, silicon: Silicon, software: Software) -> None:
    step = {"verdict": "correct", "noise": 0.01, "of_library": {"ratio": 0.5, "low": 0.4, "high": 0.6}}
    rungs = [{**step, "name": "naive", "time_ms": 2.0, "gflops": 10.0}, {**step, "name": "late", "time_ms": None}]
    problem = {"m": 64, "n": 64, "k": 64}
    device = {"silicon": {"key": silicon.key}, "software": {"platform": software.platform}}
    head = {"device": device, "when": "2026-01-01T00:00:00", "dtype": "float32", "layout": "row", "library": "Lib"}
    path.write_text(json.dumps({**head, "sizes": [{"problem": problem, "rungs": rungs, "libraries": []}]}))


def test_a_ladder_stands_on_its_devices_page(store: Store, tmp_path: Path) -> None:
    _fail(store)
    path = tmp_path / "ladder.json"
    _ladder(path, SILICON, SOFTWARE)
    values = json.loads(whole(store, "json", None, ladders=[read_ladder(path)])[0])
    (page,) = [page for path, page in values["pages"].items() if path.startswith("device-")]
    figure, table = page["sections"]["ladder"]
    assert figure["data"][0]["y"] == [10.0] and len(figure["data"]) == 1
    assert table["rows"] == [
        {"rung": "naive", "time_ms": 2.0, "time_ms_noise": 1.0, "gflops": 10.0, "gflops_noise": 1.0, "of_library": 50.0}
    ]
    path.write_text("{}")
    with pytest.raises(UserError, match="no ladder"):
        read_ladder(path)


def test_a_report_is_not_written_to_what_is_no_file() -> None:
    with pytest.raises(UserError, match="no regular file"):
        replace_file(Path("/dev/full"), b"a report")
