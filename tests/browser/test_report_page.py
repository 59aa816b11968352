"""The report's page as a reader meets it: in a headless Chromium, with nothing around it."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from hpckit.account.page.bokeh import bokeh_plots
from hpckit.account.page.html import PageParts, node_pictures, report_html
from hpckit.account.values import JobReport
from hpckit.core.files import FileResources, packaged_data
from hpckit.jobs.sites import load_templates
from tests.browser.chromium import Chromium
from tests.fakes.machines import dgx_h100
from tests.fakes.report_values import Shape, hostile_report, training_report

pytestmark = pytest.mark.xdist_group("browser")
PLOTS = 4  # a GPU each: nodes have none
SMALL = Shape(gpus=4, points=500)

HELPERS = """
window.figureOf = (key) => document.querySelector(`[data-plot="${key}"]`);
window.modelOf = (key) => Bokeh.documents.map((one) => one.roots()[0])
  .filter((root) => root.id.startsWith(`${key}-live`)).at(-1);
window.rangesOf = (key) => modelOf(key).children.map((plot) => plot.x_range)
  .map((range) => [range.start, range.end]);
window.canvasesOf = (node) => {
  const found = [];
  for (const element of node.querySelectorAll("*")) {
    if (element.localName === "canvas") found.push(element);
    if (element.shadowRoot) found.push(...canvasesOf(element.shadowRoot));
  }
  return found;
};
// Reading a canvas that is drawn to makes Chromium warn; its copy is made to be read.
window.pixelsOf = (canvas) => {
  const { width, height } = canvas;
  if (!width || !height) return [];
  const copy = document.createElement("canvas");
  Object.assign(copy, { width, height });
  const context = copy.getContext("2d", { willReadFrequently: true });
  context.drawImage(canvas, 0, 0);
  return context.getImageData(0, 0, width, height).data;
};
window.inkOf = (key) => canvasesOf(figureOf(key)).map((canvas) => {
  const data = pixelsOf(canvas);
  let painted = 0;
  for (let at = 3; at < data.length; at += 4) if (data[at] > 0) painted++;
  return painted;
});
window.coloursOf = (key) => {
  const found = new Set();
  for (const canvas of canvasesOf(figureOf(key))) {
    const data = pixelsOf(canvas);
    for (let at = 0; at < data.length; at += 4) {
      if (data[at + 3] === 255) found.add(`${data[at]},${data[at + 1]},${data[at + 2]}`);
    }
  }
  return [...found];
};
true
"""


def page(folder: Path, report: JobReport, package: str = "bokeh") -> Path:
    """The report as a file, with the plots of a package."""
    parts = PageParts(
        texts=load_templates(FileResources([packaged_data()])).texts,
        pictures=node_pictures({"n001": dgx_h100()}),
        plots=bokeh_plots(package),
        hpckit="0.0.0",
    )
    path = folder / "report.html"
    path.write_text(report_html(report, parts), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def report_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a synthetic job of 4 GPUs and an hour."""
    return page(tmp_path_factory.mktemp("page"), training_report(SMALL))


@pytest.fixture(scope="module")
def static_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same without a plotting library."""
    return page(tmp_path_factory.mktemp("static"), training_report(), "no_such_package")


@pytest.fixture
def opened(browser: Chromium, report_file: Path) -> Iterator[Chromium]:
    """The page in a light window of 1280 × 900."""
    show(browser, report_file)
    yield browser
    browser.call("Emulation.setEmulatedMedia", media="")


def show(browser: Chromium, path: Path) -> None:
    """Open a page in a light window of 1280 × 900, with the helpers above."""
    browser.screen(1280, 900)
    browser.open(path)
    browser.value(HELPERS)


def plot_shown(browser: Chromium, key: str) -> tuple[float, float, float, float]:
    """Where the first panel of a plot is in the window, once it is drawn: x, y, width, height."""
    browser.value(f"figureOf('{key}').scrollIntoView({{block: 'center'}})")
    browser.wait_for(f"figureOf('{key}').querySelector('.static').hidden")
    browser.wait_for(f"inkOf('{key}').some((painted) => painted > 1000)")
    box: dict[str, Any] = browser.value(
        f"(() => {{ const r = figureOf('{key}').querySelector('.live').getBoundingClientRect();"
        " return {x: r.x, y: r.y, w: r.width, h: r.height}; })()"
    )
    return box["x"], box["y"], box["w"], box["h"]


def seen_whole(browser: Chromium) -> None:
    """Scroll through the page until every plot in it was drawn."""
    keys = browser.value("[...document.querySelectorAll('[data-plot]')].map((f) => f.dataset.plot)")
    for key in keys:
        plot_shown(browser, key)


def test_nothing_complains_and_nothing_is_asked_for(browser: Chromium, tmp_path: Path) -> None:
    """A page of 8 GPUs seen whole asks for nothing but itself, and its console stays empty."""
    path = page(tmp_path, training_report())
    show(browser, path)

    seen_whole(browser)

    assert browser.heard.requests == [path.as_uri()]
    assert browser.heard.complaints == []


def test_every_plot_is_drawn(opened: Chromium) -> None:
    """Each plot has as many canvases with ink on them as it has panels."""
    seen_whole(opened)

    inks = opened.value(
        "[...document.querySelectorAll('[data-plot]')].map((f) => inkOf(f.dataset.plot))"
    )
    assert len(inks) == PLOTS
    assert all(len([ink for ink in one if ink > 500]) >= 2 for one in inks), inks


def test_drag_zooms_all_panels(opened: Chromium) -> None:
    """Dragging across one panel of a GPU zooms all of them to the same stretch of time."""
    x, y, width, _ = plot_shown(opened, "gpu-0")
    before = opened.value("rangesOf('gpu-0')")

    opened.drag((x + width * 0.4, y + 50), (x + width * 0.6, y + 50))

    opened.wait_for("rangesOf('gpu-0')[0][0] > 10")
    ranges = opened.value("rangesOf('gpu-0')")
    assert before == [[0, 60]] * 5
    assert len({tuple(one) for one in ranges}) == 1
    assert 10 < ranges[0][0] < ranges[0][1] < 45


def test_wheel_zooms_after_a_click(opened: Chromium) -> None:
    """The wheel zooms a plot that was clicked."""
    x, y, width, _ = plot_shown(opened, "gpu-1")

    opened.click(x + width / 2, y + 50)
    opened.mouse("mouseWheel", x + width / 2, y + 50, deltaX=0, deltaY=-240)

    opened.wait_for("rangesOf('gpu-1')[4][1] < 60")


def test_wheel_scrolls_before_a_click(opened: Chromium) -> None:
    """The wheel scrolls the page, and zooms nothing, over a plot that nobody clicked."""
    x, y, width, _ = plot_shown(opened, "gpu-2")
    before = opened.value("scrollY")

    opened.mouse("mouseWheel", x + width / 2, y + 50, deltaX=0, deltaY=240)

    opened.wait_for(f"scrollY > {before}")
    assert opened.value("rangesOf('gpu-2')[0]") == [0, 60]


def test_reset_shows_all_again(opened: Chromium) -> None:
    """The button Reset brings the whole time back."""
    plot_shown(opened, "gpu-0")
    opened.value("modelOf('gpu-0').children[0].x_range.setv({start: 10, end: 20})")

    opened.value("figureOf('gpu-0').querySelector('[data-do=reset]').click()")

    assert opened.value("rangesOf('gpu-0')[0]") == [0, 60]


def test_hover_tells_values(opened: Chromium) -> None:
    """Pointing at a curve shows the time, and the value with its unit."""
    x, y, width, _ = plot_shown(opened, "gpu-0")

    opened.mouse("mouseMoved", x + width * 0.5, y + 50)
    opened.mouse("mouseMoved", x + width * 0.52, y + 52)

    opened.value(
        "window.wordsOf = (node) => [...node.childNodes].map((one) =>"
        " ['style', 'script'].includes(one.localName) ? ''"
        " : wordsOf(one.shadowRoot ?? one) || one.nodeValue || '').join(' ')"
    )
    opened.wait_for(r"/\d+ W\b/.test(wordsOf(document.body))")


def test_dark_colours(opened: Chromium) -> None:
    """A reader who turns to dark gets a dark ground, and the plots in the colours made for it."""
    plot_shown(opened, "gpu-0")
    light = set(opened.value("coloursOf('gpu-0')"))

    opened.screen(1280, 900, dark=True)

    assert opened.value("getComputedStyle(document.body).backgroundColor") == "rgb(13, 17, 23)"
    opened.wait_for("coloursOf('gpu-0').includes('86,180,233')")
    assert "86,180,233" not in light
    assert opened.heard.complaints == []


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


def test_static_without_the_library(browser: Chromium, static_file: Path) -> None:
    """Without the plotting library the plots are there as SVG, and no script at all."""
    show(browser, static_file)

    assert browser.value("document.scripts.length") == 0
    paths = browser.value("document.querySelectorAll('[data-plot] svg path.line').length")
    assert paths >= 8 * 5
    assert browser.value("document.querySelector('.lacks').textContent").startswith(
        "Plots cannot be zoomed"
    )
    assert browser.heard.complaints == []
    assert browser.heard.requests == [static_file.as_uri()]


@pytest.mark.parametrize("package", ["bokeh", "no_such_package"])
def test_phone(browser: Chromium, tmp_path: Path, package: str) -> None:
    """On a phone nothing sticks out of the page."""
    path = page(tmp_path, training_report(SMALL), package)
    browser.screen(390, 800, touch=True)
    browser.open(path)
    browser.value(HELPERS)
    browser.value("document.querySelector('[data-plot]').scrollIntoView()")

    if package == "bokeh":
        browser.wait_for("inkOf('gpu-0').some((painted) => painted > 500)")
    assert browser.value("document.documentElement.scrollWidth") == 390
    assert browser.heard.complaints == []


def test_ticks_have_few_digits(browser: Chromium, tmp_path: Path) -> None:
    """An axis that ends at a GPU's memory of 79.647 GiB is marked 40 and 80, as the SVG is."""
    report = training_report(SMALL)
    gpus = tuple(replace(gpu, mem_bytes=round(79.647 * 1024**3)) for gpu in report.gpus)
    show(browser, page(tmp_path, replace(report, gpus=gpus)))
    plot_shown(browser, "gpu-0")

    marks = browser.value("""modelOf("gpu-0").children.map((plot) => plot.left[0])
      .map((axis) => axis.formatter.doFormat(axis.ticker.ticks, { loc: 0 }))""")
    assert ["0", "40", "80"] in marks
    assert max(len(text) for axis in marks for text in axis) <= 4


def test_ticks_do_not_touch_on_a_phone(browser: Chromium, tmp_path: Path) -> None:
    """The lines of no two figures of a static plot meet, and none sticks out of it."""
    browser.screen(390, 800, touch=True)
    browser.open(page(tmp_path, training_report(SMALL), "no_such_package"))

    near = browser.value("""[...document.querySelectorAll("svg.plot")].flatMap((plot) => {
      const boxes = [...plot.querySelectorAll(".tick")].map((one) => one.getBoundingClientRect());
      const whole = plot.getBoundingClientRect();
      const out = boxes.filter((one) => one.left < whole.left || one.bottom > whole.bottom);
      const pairs = boxes.flatMap((a, at) => boxes.slice(at + 1).map((b) => [a, b]));
      return [...out, ...pairs.filter(([a, b]) => {
        const above = Math.max(a.top - b.bottom, b.top - a.bottom);
        return Math.max(above, a.left - b.right, b.left - a.right) < 0;
      })];
    }).length""")
    assert near == 0


def test_the_topology_is_dark_in_the_dark(opened: Chromium) -> None:
    """A node's picture, which has a light ground, is no white card on a dark page."""
    filtered = "getComputedStyle(document.querySelector('.topology svg')).filter"

    assert opened.value(filtered) == "none"
    opened.screen(1280, 900, dark=True)
    assert opened.value(filtered).startswith("invert(")


@pytest.mark.parametrize(("width", "look"), [(390, "narrow"), (800, "narrow"), (1280, "wide")])
def test_heat_map_fits(browser: Chromium, tmp_path: Path, width: int, look: str) -> None:
    """At every width one heat map is shown, whole, with its scale, in letters of 9 px or more."""
    browser.screen(width, 800, touch=width < 500)
    browser.open(page(tmp_path, training_report(SMALL), "no_such_package"))

    shown = browser.value("""[...document.querySelectorAll("svg.heat")]
      .filter((one) => one.getBoundingClientRect().width > 0).map((one) => [
        one.classList[1], one.querySelectorAll("image").length,
        Math.max(...[...one.querySelectorAll("text, image")]
          .map((part) => part.getBoundingClientRect().right)) <= innerWidth,
        one.getScreenCTM().a * parseFloat(getComputedStyle(one.querySelector("text")).fontSize)
          >= 9])""")
    assert shown == [[look, 2, True, True]]
    assert browser.value("document.documentElement.scrollWidth") == width


def test_print_shows_the_static_plots(opened: Chromium) -> None:
    """On paper the plots are those of SVG, also those that were zoomed before."""
    plot_shown(opened, "gpu-0")

    opened.call("Emulation.setEmulatedMedia", media="print")

    shown = "getComputedStyle(figureOf('gpu-0').querySelector('{}')).display"
    assert opened.value(shown.format(".static")) == "block"
    assert opened.value(shown.format(".live")) == "none"
    pdf = base64.b64decode(opened.call("Page.printToPDF")["data"])
    assert pdf.startswith(b"%PDF")


def test_hostile_words_stay_words(browser: Chromium, tmp_path: Path) -> None:
    """Markup in names, nodes and findings is shown, and runs nothing."""
    show(browser, page(tmp_path, hostile_report()))

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
    show(browser, page(tmp_path, bare))

    words = browser.value("document.body.innerText")
    assert "not measured: there are no samples of the GPUs" in words
    assert "8 of 8 GPUs have no samples over time" in words
    assert browser.heard.complaints == []


def test_text_has_contrast(opened: Chromium) -> None:
    """Every text has a contrast of at least 4.5 to its ground, in light and in dark."""
    script = """
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
      for (const element of document.querySelectorAll("body *:not(svg):not(svg *):not(script)")) {
        const texts = [...element.childNodes].filter((one) => one.nodeType === 3);
        if (!texts.some((one) => one.nodeValue.trim())) continue;
        const pair = [light(parsed(getComputedStyle(element).color)), light(ground(element))];
        const contrast = (Math.max(...pair) + 0.05) / (Math.min(...pair) + 0.05);
        const name = `${element.localName}.${element.className}`;
        if (contrast < 4.5) bad.add(`${name} ${contrast.toFixed(2)}`);
      }
      return [...bad];
    })()"""

    light = opened.value(script)
    opened.screen(1280, 900, dark=True)

    assert light == []
    assert opened.value(script) == []
