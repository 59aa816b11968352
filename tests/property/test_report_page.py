"""Whatever a job's words are, the report's page shows them and obeys none of them."""

from __future__ import annotations

from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st

from hpckit.account.page.html import PageParts, report_html
from hpckit.core.files import FileResources, packaged_data
from hpckit.jobs.sites import load_templates
from tests.fakes.report_values import HOSTILE, hostile_report

TEXTS = load_templates(FileResources([packaged_data()])).texts
PARTS = PageParts(texts=TEXTS, hpckit="1")
WORDS = st.one_of(
    st.text(max_size=40),
    st.sampled_from(HOSTILE),
    st.text(alphabet="<>&\"'/!-={}%scriptSTYLE \n\0\u202e", max_size=40),
)


class Elements(HTMLParser):
    """The tags of a page in their order, with the names of their attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, tuple[str, ...]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Remember an element."""
        self.found.append((tag, tuple(name for name, _ in attrs)))


def elements(page: str) -> list[tuple[str, tuple[str, ...]]]:
    """The elements of a page."""
    parser = Elements()
    parser.feed(page)
    parser.close()
    return parser.found


@given(words=st.lists(WORDS, min_size=1, max_size=9).map(tuple))
def test_words_make_no_elements(words: tuple[str, ...]) -> None:
    """Words of the job add no element and no attribute that plain words would not."""
    page = report_html(hostile_report(words), PARTS)

    found = elements(page)
    assert sum(tag == "script" for tag, _ in found) == 1
    assert {tag for tag, _ in found} <= KNOWN
    handlers = {name for _, names in found for name in names if name.startswith("on")}
    assert handlers == set()


KNOWN = {
    *("html", "head", "meta", "title", "link", "style", "body", "header", "main", "footer"),
    *("section", "div", "h1", "h2", "h3", "p", "span", "strong", "code", "ul", "ol", "li", "dl"),
    *("dt", "dd", "figure", "figcaption", "button", "table", "thead", "tbody", "tfoot", "tr"),
    *("th", "td", "b", "img"),
    *("svg", "defs", "pattern", "rect", "path", "line", "text", "image", "script"),
}
