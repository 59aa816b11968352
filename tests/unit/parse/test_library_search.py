"""The folders of the dynamic loader, in its order."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from hpckit.model.nccl_found import SharedLibrary
from hpckit.parse.library_search import (
    MOST_FOLDERS,
    before_the_cache,
    behind_the_cache,
    cut_lists,
    preloads,
)


def library(
    path: str, rpath: Sequence[str] = (), runpath: Sequence[str] | None = None
) -> SharedLibrary:
    """A library that looks there."""
    folders = None if runpath is None else tuple(runpath)
    return SharedLibrary(path=path, machine="x86_64", rpath=tuple(rpath), runpath=folders)


def folders(*chain: SharedLibrary, listed: str = "", workdir: str | None = None) -> list[str]:
    """The folders for what the first of the chain asks for."""
    environment = {"LD_LIBRARY_PATH": listed}
    return [place.folder for place in before_the_cache(chain, environment, workdir)]


def test_rpath_comes_before_the_variable_and_runpath_behind_it() -> None:
    """LD_LIBRARY_PATH loses against RPATH and wins over RUNPATH."""
    assert folders(library("/a/x", rpath=["/r"]), listed="/l") == ["/r", "/l"]
    assert folders(library("/a/x", runpath=["/r"]), listed="/l") == ["/l", "/r"]


def test_the_rpath_of_who_loaded_it_counts_unless_it_has_a_runpath() -> None:
    """RPATHs are handed down, RUNPATHs are not, and a RUNPATH ends the handing down."""
    program = library("/p", rpath=["/program"])
    assert folders(library("/x", rpath=["/own"]), program) == ["/own", "/program"]
    assert folders(library("/x", rpath=["/own"], runpath=["/run"]), program) == ["/run"]
    assert folders(library("/x"), library("/p", rpath=["/no"], runpath=["/run"])) == []


def test_origin_is_the_folder_of_the_file_that_says_it() -> None:
    """Tokens are replaced in both spellings, $LIB by both of its values."""
    assert folders(library("/a/b/x", rpath=["$ORIGIN/../c", "${ORIGIN}"])) == ["/a/b/../c", "/a/b"]
    assert folders(library("/x", rpath=["/n/$LIB"])) == ["/n/lib64", "/n/lib/x86_64-linux-gnu"]


def test_an_empty_folder_is_where_the_program_runs() -> None:
    """It counts only where that is known, and an empty variable has none."""
    assert folders(library("/x"), listed="/l:;r/", workdir="/w") == ["/l", "/w", "/w/r"]
    assert folders(library("/x"), listed="/l:") == ["/l"]
    assert folders(library("/x"), listed="", workdir="/w") == []


@pytest.mark.parametrize("text", ["a b", "a:b", " a : b "])
def test_preloaded_names_are_divided_by_spaces_or_colons(text: str) -> None:
    """LD_PRELOAD takes both."""
    assert preloads({"LD_PRELOAD": text}) == ("a", "b")


def test_a_list_of_thousands_is_cut_and_told() -> None:
    """Only so many folders are looked into."""
    listed = ":".join(f"/f{at}" for at in range(MOST_FOLDERS + 5))
    assert len(folders(library("/x"), listed=listed)) == MOST_FOLDERS
    (note,) = cut_lists({"LD_LIBRARY_PATH": listed})
    assert note.startswith("LD_LIBRARY_PATH has 1005 folders")
    assert list(cut_lists({"LD_LIBRARY_PATH": "/a:/b"})) == []


def test_the_default_folders_are_the_processor_s() -> None:
    """Debian's of this processor, and those that all others have."""
    assert "/lib/aarch64-linux-gnu" in [one.folder for one in behind_the_cache("aarch64")]
    assert [one.folder for one in behind_the_cache("riscv64")][:2] == ["/lib64", "/usr/lib64"]
