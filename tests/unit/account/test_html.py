"""The report's page as a text: what is in it, and what may not be."""

from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser
from typing import Any

import pytest
from msgspec.structs import replace

from hpckit.account.finding import Subject, finding, said
from hpckit.account.page.html import NodePicture, PageParts, facts, report_html
from hpckit.account.values import GPUS_ALONE, Advice, Cost, Energy, JobReport, ReportedJob, Share
from hpckit.core.errors import RenderError
from hpckit.core.files import FileResources, packaged_data
from hpckit.core.findings import Severity
from hpckit.jobs.sites import load_templates
from tests.fakes.report_values import Shape, training_report

TEXTS = load_templates(FileResources([packaged_data()])).texts
REPORT = training_report(Shape(points=100))


def made(report: JobReport = REPORT, **changes: Any) -> str:
    """The page of a report, its parts changed."""
    parts = PageParts(texts=TEXTS, hpckit="1.2.3")
    return report_html(report, replace(parts, **changes))


class Page(HTMLParser):
    """The elements of a page and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Remember an element."""
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        """Remember a text."""
        self.text += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        """The attributes of each element of a name."""
        return [attributes for name, attributes in self.elements if name == tag]


def policy(page: str) -> str:
    """The page's Content-Security-Policy."""
    (found,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]+)"', page)
    return str(found).replace("&#39;", "'")


def test_answer_is_first() -> None:
    """Job, state, duration, energy with its interval and source, and cost come first."""
    text = Page(made()).text

    order = ["llama-8b 4242", "COMPLETED", "1:00:00", "kWh", "counter, 99.8 % covered", "EUR"]
    places = [text.index(word) for word in order]
    assert places == sorted(places)
    assert max(places) < text.index("Where the GPU-hours went")


def test_a_cost_of_the_gpus_alone_is_called_so() -> None:
    """Energy with cooling, price and carbon each say that the nodes are not in them."""
    cost = Cost(
        facility_j=3.6e6,
        pue=1.2,
        price=0.4,
        currency="EUR",
        co2_g=59.6,
        because=GPUS_ALONE,
        is_of_gpus=True,
    )
    assert Page(made(replace(REPORT, cost=cost))).text.count(GPUS_ALONE) == 3


def test_synthetic_is_said_at_the_top() -> None:
    """A page of made-up measurements says so before anything else, one of real ones does not."""
    synthetic = made()
    real = made(replace(REPORT, job=replace(REPORT.job, synthetic=False)))

    assert synthetic.index("<strong>synthetic</strong>") < synthetic.index("<h1>")
    assert "<strong>synthetic</strong>" not in real
    assert "<strong>synthetic</strong>" not in made(replace(REPORT, gpus=()))


def test_nothing_is_loaded() -> None:
    """No element of the page names anything outside of it."""
    page = Page(made())

    places = [
        value
        for _, attributes in page.elements
        for name, value in attributes.items()
        if name in {"src", "href", "action", "data", "srcset", "poster"}
    ]
    assert places
    assert all(place is not None and place.startswith("data:") for place in places)


def test_policy_names_the_scripts() -> None:
    """Each script that runs is allowed by its digest, and nothing else is."""
    page = made()

    scripts = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    hashes = [hashlib.sha256(one.encode()).digest() for one in scripts]
    digests = " ".join(f"'sha256-{base64.b64encode(one).decode()}'" for one in hashes)
    assert len(scripts) == 1
    assert f"script-src {digests};" in policy(page)
    assert policy(page).startswith("default-src 'none';")
    assert "unsafe" not in policy(page)


def test_policy_names_the_styles_of_pictures() -> None:
    """A picture that brings colours for the dark is allowed them."""
    style = "@media (prefers-color-scheme: dark) { .gpu { fill: #123 } }"
    picture = NodePicture(nodes=("n1",), svg=f"<svg><style>{style}</style></svg>")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert f"'sha256-{digest}'" in policy(made(pictures=(picture,)))


def test_no_inline_styles() -> None:
    """No element carries a style or a handler, which the policy would refuse."""
    page = Page(made(pictures=(NodePicture(nodes=("n1",), svg="<svg></svg>"),)))

    names = {name for _, attributes in page.elements for name in attributes}
    assert not {name for name in names if name == "style" or name.startswith("on")}


def test_not_measured_is_said() -> None:
    """What was not measured is said with its reason, and is no 0."""
    bare = JobReport(
        job=ReportedJob(gpus_because="no driver"),
        started_s=0,
        ended_s=5,
        energy=replace(
            REPORT.energy,
            gpu=Energy(value_j=None, because="no driver"),
            node=Energy(value_j=None, because="no counter"),
            conservation=None,
        ),
        cost=Cost(),
        waste=Share(),
        missing=("no sampler ran",),
    )

    text = Page(made(bare)).text

    for word in (
        "samples",
        "no driver",
        "no counter",
        "no sampler ran",
    ):
        assert word in text
    assert "not measured: no GPU samples" in text


def test_a_job_without_gpus_lacks_none() -> None:
    """Nothing of GPUs is called not measured of a job that had and wanted none."""
    job = replace(REPORT.job, gpus=0, gpus_asked=0)
    bare = replace(REPORT, job=job, gpus=(), ranks=(), waste=Share(), findings=(), advice=())
    assert not [one["name"] for one in facts(bare) if one["name"] in ("GPU energy", "useful")]
    assert "Where the GPU-hours went" not in Page(made(bare)).text


@pytest.mark.parametrize(
    "cost", [Cost(facility_j=1.2e6, pue=1.2, because="why"), Cost(co2_g=9.0, because="why")]
)
def test_a_cost_says_what_it_is_of(cost: Cost) -> None:
    """The first figure of the cost has the sentence, whichever the site has factors for."""
    assert [one["about"] for one in facts(replace(REPORT, cost=cost))].count("why") == 1


def test_samples_that_tell_nothing_are_there() -> None:
    """Where samples cannot tell spinning from work it is not said that there are none."""
    gpus = tuple(replace(one, refused={"spin": "why"}) for one in REPORT.gpus)
    report = replace(REPORT, gpus=gpus, waste=Share(unknown_gpu_s=7200.0))
    (useful,) = [one for one in facts(report) if one["name"] == "useful"]
    assert useful["about"] == "samples of 2 GPU-hours cannot tell spinning from work"


LIMIT = Advice(key="resources.time_limit", now="01:00:00", proposed="0:10:00", because="it ran")


@pytest.mark.parametrize(
    ("report", "words", "absent"),
    [
        # Samples of no job are called so, as on the screen, and have no state.
        (
            replace(REPORT, job=ReportedJob(gpus=8, nodes=1)),
            ["samples"],
            ["state unknown", "job without a name"],
        ),
        (replace(REPORT, job=ReportedJob(job_id="4242")), ["state unknown"], []),
        (
            replace(REPORT, job=replace(REPORT.job, state="FAILED", exit_code=2, array_task=7)),
            ["FAILED, exit code 2", "llama-8b 4242_7"],
            [],
        ),
        # Of GPUs that no account names the page says that they were not measured.
        (
            replace(REPORT, gpus=(), ranks=(), waste=Share(unknown_gpu_s=7200.0)),
            ["no samples of 2 GPU-hours"],
            [],
        ),
        # A limit has one spelling wherever it stands, however the job file spells it.
        (
            replace(REPORT, job=replace(REPORT.job, time_limit_s=600.0), advice=(LIMIT,)),
            ["time limit 0:10:00", "resources.time_limit: 1:00:00 → 0:10:00"],
            [],
        ),
        # A rank of which nothing is known has a line that says so, and no bar.
        (REPORT, [], ["busy not measured"]),
    ],
)
def test_what_the_page_says(report: JobReport, words: list[str], absent: list[str]) -> None:
    """Of the job, its state, its limit and its ranks."""
    text = Page(made(report)).text
    assert [one for one in words if one not in text] == []
    assert [one for one in absent if one in text] == []


def test_refused_quantity_has_its_reason() -> None:
    """A cell that was not measured tells why, also on paper."""
    page = made()

    assert 'title="NVML: Not Supported">not measured</td>' in page
    assert "pcie_tx_mib was not measured: NVML: Not Supported (8 times)" in page


def test_topology_is_beside() -> None:
    """The picture of each kind of node is in the page with the names of its nodes."""
    names = tuple(f"n{at}" for at in range(10))

    page = made(pictures=(NodePicture(nodes=names, svg='<svg id="box"></svg>'),))

    assert '<svg id="box">' in page
    assert "n0, n1, n2, n3, n4, n5, n6, n7 and 2 more" in page


def test_many_gpus_are_bounded() -> None:
    """The page of 1,024 GPUs draws few of them, maps all, and says so."""
    page = made(training_report(Shape(gpus=1024, nodes=128, points=50)))

    assert len(page) < 1_000_000
    assert "1,019 other GPUs" in page
    assert "first 128 of 1024 rows; --json and --csv have all" in page
    assert "32 of 1,024 ranks: those that failed first or are farthest behind" in page


def test_headings_and_tables_can_be_read_aloud() -> None:
    """The page has a language, one first heading, heads of columns and rows, named pictures."""
    page = Page(made())

    assert page.all("html")[0]["lang"] == "en"
    assert len(page.all("h1")) == 1
    assert {one.get("scope") for one in page.all("th")} == {"col", "row"}
    named = [one for one in page.all("svg") if "aria-label" in one or "aria-hidden" in one]
    assert len(named) == len(page.all("svg"))


def test_ids_are_unique() -> None:
    """No two elements share an id."""
    ids = [one["id"] for _, one in Page(made()).elements if "id" in one]

    assert len(ids) == len(set(ids))


def test_same_report_same_page() -> None:
    """The page is a function of the report."""
    assert made() == made()


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("report/page.html.j2", "{% if %}", "line 1"),
        ("report/page.html.j2", "{{ nothing }}", "nothing"),
    ],
)
def test_template_at_fault(name: str, text: str, said: str) -> None:
    """A template that does not work is named with what is wrong in it."""
    with pytest.raises(RenderError) as caught:
        made(texts={**TEXTS, name: text})

    assert "report/page.html.j2" in str(caught.value)
    assert said in str(caught.value)


def test_template_missing() -> None:
    """A template that is not there is named."""
    with pytest.raises(RenderError, match=r"report/page\.js"):
        made(texts={name: text for name, text in TEXTS.items() if name != "report/page.js"})


def test_a_rank_that_was_not_compared_has_no_number() -> None:
    """It is neither 0 % behind nor unmeasured."""
    ranks = tuple(replace(one, behind_frac=None) for one in REPORT.ranks)
    page = Page(made(replace(REPORT, ranks=ranks)))

    cells = [one["title"] for one in page.all("td") if "title" in one]
    assert cells.count("not compared: no peer worked for as long") == len(ranks)


def test_advice_has_a_command_to_copy() -> None:
    """Each piece of advice has its own, all of it together one more; else the option alone."""
    commands = ("hpckit submit job.toml --gpus-per-node 7", "hpckit submit b", "hpckit submit all")
    page = made(commands=commands)
    assert re.findall(r"<code>(hpckit submit [^<]*)</code>", page) == list(commands)
    assert len(re.findall('<button type="button" class="copy"', page)) == 3
    assert "<code>--gpus-per-node 7</code>" in made()


def test_findings_alike_on_several_nodes_are_one() -> None:
    """As on the screen: the nodes folded, in their order."""
    alike = [
        finding("late-idle", Severity.WARNING, Subject(what="GPU0-7", nodes=(one,)), said("x"))
        for one in ("c2", "c1")
    ]
    page = made(replace(REPORT, findings=tuple(alike)))
    assert page.count("<strong>GPU0-7 on c[1-2]</strong>") == 1
    assert "<strong>GPU0-7 on c2</strong>" not in page
