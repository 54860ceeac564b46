"""Reports as a browser shows them: no error, no request, every plot drawn, tables that work, nothing axe objects to."""

from __future__ import annotations

import importlib.util
import shutil
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from synthetic_store import Size, make
from tests.fakes import PROBLEM, SILICON, SOFTWARE
from tuner.model import Config, Measurement, Record, Verdict
from tuner.report import build, pages, write
from tuner.store import open_store

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
MISSING = [name for name in ("playwright", "axe_playwright_python") if importlib.util.find_spec(name) is None]
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium here"),
    pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}"),
]
UNDRAWN = "figure:not(:has(.plot .main-svg))"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of pages and, beside it, one file."""
    folder = tmp_path_factory.mktemp("report")
    make(folder / "big.db", Size(trials=240, problems=6, devices=2, nights=12))
    opened = partial(open_store, str(folder / "big.db"), upgrade=False)
    build(opened, folder / "site", workers=1)
    with opened() as store:
        write(store, folder / "one.html", "html")
    return folder / "site"


def _addresses(site: Path) -> list[str]:
    """One page of each kind."""
    kinds = ["index", "device-*", "problem-1024*", "failures", "regret", "regret-*", "misses"]
    return [next(iter(sorted(site.glob(f"{kind}.html")))).as_uri() for kind in kinds] + [
        (site.parent / "one.html").as_uri()
    ]


def _watched(page: Page) -> list[str]:
    """What goes wrong on a page, as it happens: errors, and requests for anything but files."""
    wrong: list[str] = []
    page.on("console", lambda message: wrong.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("request", lambda one: None if one.url.startswith(("file:", "data:")) else wrong.append(one.url))
    page.on("requestfailed", lambda one: wrong.append(f"failed: {one.url}"))
    return wrong


def _wait_until_drawn(page: Page) -> None:
    for _ in range(300):
        if page.locator(UNDRAWN).count() == 0:
            return
        page.wait_for_timeout(50)
    raise AssertionError(f"{page.locator(UNDRAWN).count()} plots are not drawn")


def _serious(page: Page) -> list[str]:
    from axe_playwright_python.sync_playwright import Axe

    found: list[Any] = Axe().run(page).response["violations"]
    serious = [one for one in found if one["impact"] in ("serious", "critical")]
    return [f"{one['id']}: {one['help']}: {one['nodes'][0]['html'][:200]}" for one in serious]


def test_every_page_opens_draws_its_plots_and_asks_nobody(browser: Browser, site: Path) -> None:
    page = browser.new_page(viewport={"width": 390, "height": 800})
    wrong = _watched(page)
    drawn = 0
    for address in _addresses(site):
        page.goto(address)
        _wait_until_drawn(page)
        drawn += page.locator("figure").count()
        assert page.evaluate("() => document.documentElement.scrollWidth") <= 390, address
    assert not wrong and drawn > 40
    page.close()


@pytest.mark.parametrize(("scheme", "kinds"), [("light", 8), ("dark", 3)])
def test_axe_finds_no_serious_fault(browser: Browser, site: Path, scheme: Any, kinds: int) -> None:
    context = browser.new_context(color_scheme=scheme, bypass_csp=True)
    page = context.new_page()
    for address in _addresses(site)[:kinds]:
        page.goto(address)
        _wait_until_drawn(page)
        assert _serious(page) == [], address
    context.close()


def test_tables_sort_and_filter_by_keyboard(browser: Browser, site: Path) -> None:
    page = browser.new_page()
    page.goto((site / "index.html").as_uri())
    table = page.locator("#nights-table")
    rates = table.locator("tbody tr:not([hidden]) td:nth-child(6)")
    table.get_by_role("button", name="promoted").focus()
    page.keyboard.press("Enter")
    up = [int(text) for text in rates.all_inner_texts()]
    page.keyboard.press("Enter")
    down = [int(text) for text in rates.all_inner_texts()]
    assert up == sorted(up) and down == sorted(up, reverse=True) and len(set(up)) > 2
    assert table.locator("th[aria-sort=descending]").count() == 1
    first = table.locator("tbody tr td:first-child").first.inner_text()
    table.get_by_role("searchbox").fill(first)
    shown = table.locator("tbody tr:not([hidden])").all_inner_texts()
    assert len(shown) < 3 and all(word in text for text in shown for word in first.split())
    assert table.get_by_role("status").inner_text() == f"{len(shown)} of 12 rows"
    page.close()


def test_numbers_sort_as_numbers_and_the_unknown_come_last(browser: Browser, site: Path) -> None:
    page = browser.new_page()
    page.goto(next(site.glob("device-*9000*.html")).as_uri())
    table = page.locator("#champions-table")
    table.get_by_role("button", name="rate").click()
    texts = table.locator("tbody td:nth-child(2)").all_inner_texts()
    rates = [float(text.split()[0]) for text in texts if text != "–"]
    assert rates == sorted(rates) and len(rates) > 3
    assert "–" not in texts[: len(rates)]
    page.close()


def test_a_page_prints_and_redraws_in_other_colours(browser: Browser, site: Path) -> None:
    page = browser.new_page(color_scheme="light")
    page.goto((site / "index.html").as_uri())
    _wait_until_drawn(page)
    colour = "() => getComputedStyle(document.querySelector('.plot .xtick text')).fill"
    light = page.evaluate(colour)
    page.emulate_media(color_scheme="dark")
    page.wait_for_timeout(300)
    assert page.evaluate(colour) != light
    assert page.pdf().startswith(b"%PDF")
    page.close()


def test_paper_is_white_and_holds_the_whole_of_a_plot(browser: Browser, site: Path) -> None:
    page = browser.new_page(color_scheme="dark", viewport={"width": 1400, "height": 800})
    page.goto((site / "index.html").as_uri())
    _wait_until_drawn(page)
    look = """() => [...document.querySelectorAll("figure")].map((figure) => [
        figure.querySelector(".main-svg").clientWidth, getComputedStyle(figure.querySelector(".xtick text")).fill])"""
    screen = page.evaluate(look)
    page.evaluate("() => dispatchEvent(new Event('beforeprint'))")
    paper = page.evaluate(look)
    page.evaluate("() => dispatchEvent(new Event('afterprint'))")
    page.wait_for_timeout(300)
    assert len(screen) > 1 and max(width for width, _ in paper) <= 690 < sum(width for width, _ in screen[:2])
    assert {colour for _, colour in paper} == {"rgb(28, 33, 39)"} != {colour for _, colour in screen}
    assert page.evaluate(look) == screen
    page.close()


def test_on_a_phone_half_of_a_plot_at_least_is_plot(browser: Browser, site: Path) -> None:
    page = browser.new_page(viewport={"width": 390, "height": 800})
    for address in _addresses(site):
        page.goto(address)
        _wait_until_drawn(page)
        look = """() => [...document.querySelectorAll(".plot")].map((plot) => [plot.parentElement.id,
            plot.querySelector(".bg, .xy rect").getBoundingClientRect().width / plot.clientWidth])"""
        shares = page.evaluate(look)
        assert [id for id, share in shares if share < 0.5] == [], address
    page.close()


def test_a_served_page_shows_what_runs(browser: Browser, tmp_path: Path) -> None:
    with open_store(str(tmp_path / "tuner.db"), upgrade=True) as store:
        run = store.start_run(SILICON, SOFTWARE, PROBLEM, {"budget": {"evaluations": 4, "seconds": None}})
        now = datetime.now(UTC).isoformat(timespec="microseconds")
        good = Measurement(Verdict.CORRECT, (1.0,) * 5)
        store.add(Record(SILICON, SOFTWARE, PROBLEM, Config.of("f", x=1), good, "a" * 32, run, now))
        served = pages(store)

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                path = self.path.lstrip("/") or "index.html"
                self.send_response(200)
                self.send_header("Content-Type", served.content_type(path))
                self.end_headers()
                self.wfile.write(served[path])

            def log_message(self, format: str, *args: Any) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        page = browser.new_page()
        page.goto(f"http://127.0.0.1:{server.server_port}/")
        page.get_by_text("1 of 4 evaluated").wait_for()
        assert page.locator("progress").evaluate("(bar) => bar.value") == 0.25
        page.close()
        server.shutdown()
        server.server_close()
