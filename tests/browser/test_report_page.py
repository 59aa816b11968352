"""The report's page as a reader meets it: in a headless Chromium, with nothing around it."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from hpckit.account.page.html import PageParts, node_pictures, report_html
from hpckit.account.values import JobReport
from hpckit.core.files import FileResources, packaged_data
from hpckit.jobs.sites import load_templates
from tests.browser.axe import violations
from tests.browser.chromium import Chromium
from tests.fakes.machines import dgx_h100
from tests.fakes.report_values import Shape, hostile_report, training_report

pytestmark = pytest.mark.xdist_group("browser")
SMALL = Shape(gpus=8, nodes=2, points=500)
COMMANDS = ("hpckit submit job.toml --gpus-per-node 7", "hpckit submit job.toml --time 1:15:00")


def page(folder: Path, report: JobReport) -> Path:
    """The report as a file."""
    parts = PageParts(
        texts=load_templates(FileResources([packaged_data()])).texts,
        pictures=node_pictures(report, {"n001": dgx_h100()}),
        commands=(*COMMANDS, "hpckit submit job.toml --from-report 4242"),
        hpckit="0.0.0",
    )
    path = folder / "report.html"
    path.write_text(report_html(report, parts), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def report_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a synthetic job of 2 nodes with 4 GPUs each and an hour, with a straggler."""
    return page(tmp_path_factory.mktemp("page"), training_report(SMALL))


@pytest.fixture
def opened(browser: Chromium, report_file: Path) -> Iterator[Chromium]:
    """The page in a light window of 1280 × 900."""
    browser.screen(1280, 900)
    browser.open(report_file)
    yield browser
    browser.call("Emulation.setEmulatedMedia", media="")


def point(browser: Chromium, plot: str, share: float) -> None:
    """Move the mouse over a plot, to a share of its width."""
    area = f"document.querySelector('{plot} .area')"
    browser.value(f"{area}.scrollIntoView({{block: 'center'}})")
    box = browser.value(
        f"(() => {{ const r = {area}.getBoundingClientRect();"
        " return [r.x, r.y + r.height / 2, r.width]; })()"
    )
    browser.mouse("mouseMoved", box[0] + box[2] * share, box[1])


CURSORS = """[...document.querySelectorAll(".cursor")].map((one) =>
  [one.getAttribute("visibility"), Math.round(one.transform.baseVal[0]?.matrix.e ?? -1)].join())"""
CLOCKS = "[...document.querySelectorAll('.now')].map((one) => one.textContent)"
READINGS = """Object.fromEntries([...document.querySelectorAll("#plot-2 .values li")].map((one) =>
  [one.textContent.replace(/ [^ ]*$/, ""), one.querySelector("b").textContent]))"""


def test_the_cursor_is_in_all_plots(opened: Chromium) -> None:
    """Pointing at one plot shows the same moment in every plot, map and row of ranks."""
    means = opened.value(READINGS)

    point(opened, "#plot-1", 0.75)

    (place,) = set(opened.value(CURSORS))
    assert place.startswith("visible,1") and abs(int(place[8:]) - 1500) < 4
    (clock,) = set(opened.value(CLOCKS))
    assert clock in {"44:59", "45:00", "45:01", "44:58"}

    opened.mouse("mouseMoved", 2, 2)
    assert set(opened.value(CLOCKS)) == {""}
    assert opened.value(READINGS) == means


def test_the_cursor_tells_values(opened: Chromium) -> None:
    """What stands beside a GPU's name is what it had at that moment; of the others the median."""
    report = training_report(SMALL)
    hot = report.gpus[3].curves[0]
    at = min(range(len(hot.at_s)), key=lambda one: abs(hot.at_s[one] - 2700))

    point(opened, "#plot-2", 0.75)

    readings = opened.value(READINGS)
    assert float(readings["GPU3 on n001"]) == pytest.approx(hot.values[at], abs=40)
    assert float(readings["GPU3 on n002"]) == pytest.approx(92, abs=25)
    assert 550 < float(readings["median"]) < 680


def test_a_button_copies_a_command(opened: Chromium) -> None:
    """The button beside a piece of advice puts its command on the clipboard."""
    opened.call("Browser.grantPermissions", permissions=["clipboardReadWrite"])
    opened.call("Page.bringToFront")
    buttons = "[...document.querySelectorAll('button.copy')]"
    assert opened.value(f"{buttons}.map((one) => one.hidden)") == [False] * 3

    opened.value(f"{buttons}[1].click()")

    opened.wait_for(f"{buttons}[1].textContent === 'Copied'")
    assert opened.value("navigator.clipboard.readText()") == COMMANDS[1]


def test_nothing_complains_and_nothing_is_asked_for(opened: Chromium, report_file: Path) -> None:
    """The page asks for nothing but itself, and its console stays empty."""
    point(opened, "#plot-1", 0.5)
    opened.screen(1280, 900, dark=True)

    assert opened.value("getComputedStyle(document.body).backgroundColor") == "rgb(13, 17, 23)"
    assert opened.heard.requests == [report_file.as_uri()]
    assert opened.heard.complaints == []


@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_axe(browser: Chromium, report_file: Path, axe: str, width: int, dark: bool) -> None:
    """axe-core finds nothing serious, and contrast enough, light and dark, wide and narrow."""
    browser.screen(width, 900, dark=dark)
    browser.open(report_file)

    assert violations(browser, axe) == []


def test_no_script_may_be_added(opened: Chromium) -> None:
    """A script that gets into the page does not run, and nothing that it names is fetched."""
    opened.value(
        "(() => { const s = document.createElement('script'); s.textContent = 'window.evil = 1';"
        " document.body.append(s); const i = new Image(); i.src = 'http://192.0.2.1/x.png';"
        " document.body.append(i); document.body.insertAdjacentHTML('beforeend',"
        ' \'<p id="p" style="color: red" onclick="window.evil = 1">x</p>\');'
        " document.getElementById('p').click(); })()"
    )

    assert opened.value("window.evil === undefined")
    assert opened.value("getComputedStyle(document.getElementById('p')).color") != "rgb(255, 0, 0)"
    said = " ".join(opened.heard.complaints)
    assert "192.0.2.1" in said
    assert "script-src" in said


def test_eval_is_refused(opened: Chromium) -> None:
    """The page may not evaluate text."""
    refused = opened.value(
        "new Promise((done) => { document.addEventListener('securitypolicyviolation',"
        " (event) => done(event.violatedDirective)); setTimeout('window.evil = 1', 0); })"
    )

    assert refused == "script-src"


TEXTS = """[...document.querySelectorAll("body *")].filter((one) => !one.closest(".topology svg")
  && one.getBoundingClientRect().width > 1 && [...one.childNodes].some((node) =>
    node.nodeType === 3 && node.nodeValue.trim()))"""


@pytest.mark.parametrize("width", [390, 700, 1280])
def test_it_fits_and_can_be_read(browser: Chromium, report_file: Path, width: int) -> None:
    """At every width nothing sticks out, no text is below 11 px, and marks of axes do not touch."""
    browser.screen(width, 800, touch=width < 500)
    browser.open(report_file)

    assert browser.value("document.documentElement.scrollWidth") == width
    small = browser.value(
        f"{TEXTS}.map((one) => [parseFloat(getComputedStyle(one).fontSize) *"
        " (one.getScreenCTM?.().a ?? 1), one.outerHTML.slice(0, 99)]).filter(([px]) => px < 11)"
    )
    assert small == []
    near = browser.value("""[...document.querySelectorAll("svg.xs, svg.ys")].flatMap((axis) => {
      const boxes = [...axis.querySelectorAll("text")].map((one) => one.getBoundingClientRect())
        .filter((one) => one.width > 0);
      const out = boxes.filter((one) => one.left < 0 || one.right > innerWidth);
      const pairs = boxes.flatMap((a, at) => boxes.slice(at + 1).map((b) => [a, b]));
      return [...out, ...pairs.filter(([a, b]) => Math.max(a.top - b.bottom, b.top - a.bottom,
        a.left - b.right, b.left - a.right) < 0)];
    }).length""")
    assert near == 0


def test_text_has_contrast(opened: Chromium) -> None:
    """Every text, of SVG too, has a contrast of at least 4.5 to its ground, light and dark."""
    script = (
        """
    (() => {
      const parsed = (text) => text.match(/[\\d.]+/g).map(Number);
      const light = ([r, g, b]) => [r, g, b].map((c) => c / 255)
        .map((c) => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
        .reduce((sum, c, at) => sum + c * [0.2126, 0.7152, 0.0722][at], 0);
      const ground = (element) => {
        for (let one = element; one; one = one.parentElement) {
          const colour = parsed(getComputedStyle(one).backgroundColor);
          if (colour.length === 3 || colour[3] > 0) return colour;
        }
        return [255, 255, 255];
      };
      const bad = new Set();
      for (const element of """
        + TEXTS
        + """) {
        const style = getComputedStyle(element);
        const ink = element.localName === "text" ? style.fill : style.color;
        const pair = [light(parsed(ink)), light(ground(element))];
        const contrast = (Math.max(...pair) + 0.05) / (Math.min(...pair) + 0.05);
        if (contrast < 4.5) bad.add(`${element.outerHTML.slice(0, 80)} ${contrast.toFixed(2)}`);
      }
      return [...bad];
    })()"""
    )

    light = opened.value(script)
    opened.screen(1280, 900, dark=True)

    assert light == []
    assert opened.value(script) == []


def test_the_topology_is_dark_in_the_dark(opened: Chromium) -> None:
    """A node's picture has its own dark colours, which the page's policy lets in."""
    ground = "getComputedStyle(document.querySelector('.topology svg > rect')).fill"

    assert opened.value(ground) == "rgb(255, 255, 255)"
    opened.screen(1280, 900, dark=True)
    assert opened.value(ground) == "rgb(13, 17, 23)"


def test_it_prints(opened: Chromium) -> None:
    """On paper the plots are there, and no button."""
    opened.call("Emulation.setEmulatedMedia", media="print")

    shown = "getComputedStyle(document.querySelector('{}')).display"
    assert opened.value(shown.format(".plot .area")) == "block"
    assert opened.value(shown.format("button.copy")) == "none"
    pdf = base64.b64decode(opened.call("Page.printToPDF")["data"])
    assert pdf.startswith(b"%PDF")


def test_hostile_words_stay_words(browser: Chromium, tmp_path: Path) -> None:
    """Markup in names, nodes and findings is shown, and runs nothing."""
    browser.screen(1280, 900)
    browser.open(page(tmp_path, hostile_report()))

    assert browser.value("window.evil === undefined")
    assert "<script>window.evil = 1</script>" in browser.value("document.body.innerText")
    assert "{{ 7 * 7 }}" in browser.value("document.body.innerText")
    assert browser.heard.complaints == []


def test_empty_report(browser: Chromium, tmp_path: Path) -> None:
    """A report of which nothing was measured is a page that says so."""
    whole = training_report()
    bare = replace(
        whole,
        gpus=tuple(replace(gpu, curves=(), windows=()) for gpu in whole.gpus),
        nodes=(),
        ranks=(),
        waste=type(whole.waste)(),
    )
    browser.open(page(tmp_path, bare))

    words = browser.value("document.body.innerText")
    assert "not measured: no GPU samples" in words
    assert "8 of 8 GPUs have no samples over time" in words
    assert browser.heard.complaints == []
