"""What is loaded, what lost, and what is set already, in lines of a terminal."""

from __future__ import annotations

from hpckit.comm.library_search import FoundNccl, NcclCandidate, already_lines, nccl_found_lines
from hpckit.comm.nccl_conf import Already, AlreadySet, Overridden
from hpckit.core.text import Style, columns
from hpckit.spec.platform import CommLibrary, NcclVersion

WHEEL = "/venv/site-packages/nvidia/nccl/lib/libnccl.so.2"
CHOSEN = NcclCandidate(
    library=CommLibrary.NCCL,
    path=WHEEL,
    how="the wheel nvidia_nccl_cu12-2.27.3.dist-info",
    version=NcclVersion(2, 27, 3),
    version_from="its metadata",
)
LOST = NcclCandidate(
    library=CommLibrary.NCCL,
    path="/opt/nccl/lib/libnccl.so.2",
    how="LD_LIBRARY_PATH",
    version_from="unknown: its file name has no release",
    lost="the wheel comes first",
)
FOUND = FoundNccl(
    chosen=CHOSEN,
    because=CHOSEN.how,
    others=(LOST,),
    notes=("something is odd",),
)


def test_the_answer_comes_first_with_its_reason() -> None:
    """Release, place and how that is known; then what lost and why, notes."""
    assert [line.text for line in nccl_found_lines(FOUND, width=200)] == [
        f" NCCL     NCCL 2.27.3, {WHEEL} · the wheel nvidia_nccl_cu12-2.27.3.dist-info · "
        "version from its metadata",
        " unused   NCCL of unknown version, /opt/nccl/lib/libnccl.so.2 (LD_LIBRARY_PATH): "
        "the wheel comes first",
        " note     something is odd",
    ]


def test_what_is_not_known_is_said_as_such() -> None:
    """With the reason, as a warning."""
    (line,) = nccl_found_lines(FoundNccl(chosen=None, because="nothing tells"), width=200)
    assert (line.text, line.style) == (" NCCL     unknown: nothing tells", Style.WARNING)


def test_a_setting_names_who_set_it_and_what_it_overrides() -> None:
    """And what a person may not expect of it."""
    setting = AlreadySet(
        name="NCCL_DEBUG",
        value="INFO ",
        set_by="environment",
        overrides=(Overridden(value="WARN", set_by="/etc/nccl.conf line 3"),),
        remark="the value includes a space or line end",
    )
    lines = already_lines(Already(settings=(setting,), notes=("a note",)), width=200)
    assert [line.text for line in lines] == [
        " set      NCCL_DEBUG='INFO ' · the job's environment · overrides WARN "
        "(/etc/nccl.conf line 3) · the value includes a space or line end",
        " note     a note",
    ]


def test_nothing_set_is_one_line() -> None:
    """An empty list is not left to be guessed."""
    (line,) = already_lines(Already())
    assert (
        line.text
        == " set      nothing, in the job's environment or in a configuration file of NCCL"
    )


def test_no_line_is_wider_than_the_terminal_or_moves_its_cursor() -> None:
    """Whatever a path or a value holds."""
    hostile = "/x\x1b[2J\n\u202e" + "y" * 300
    candidate = NcclCandidate(library=CommLibrary.RCCL, path=hostile, how=hostile, lost=hostile)
    found = FoundNccl(chosen=candidate, because="", others=(candidate,) * 3, notes=(hostile,))
    settings = tuple(AlreadySet(name="NCCL_X", value=hostile, set_by=hostile) for _ in range(3))
    for width in (40, 80):
        lines = [*nccl_found_lines(found, width=width), *already_lines(Already(settings=settings))]
        assert all(columns(line.text) <= max(width, 80) for line in lines)
        assert all(line.text.isprintable() for line in lines)
