"""NCCL's files are read as NCCL reads them, and the value that counts is told."""

from __future__ import annotations

import pytest

from hpckit.comm.nccl_conf import (
    Overridden,
    already_set,
    conf_paths,
    conf_remarks,
    parse_nccl_conf,
)
from hpckit.spec.platform import CommLibrary, NcclVersion

OLD = NcclVersion(2, 27, 3)
NEW = NcclVersion(2, 30, 7)
SYSTEM = "/etc/nccl.conf"
ENVIRONMENT = {"HOME": "/home/ana"}
USER = "/home/ana/.nccl.conf"


def test_a_line_is_taken_as_it_stands() -> None:
    """Nothing is trimmed: spaces, quotes and what follows belong to the name or the value."""
    text = 'A=1\n B=2\nC =3\nD= 4\nE="5"\nF=6 # six\nG=a=b\nH=\n'
    assert parse_nccl_conf(text) == (
        ("A", "1", 1),
        (" B", "2", 2),
        ("C ", "3", 3),
        ("D", " 4", 4),
        ("E", '"5"', 5),
        ("F", "6 # six", 6),
        ("G", "a=b", 7),
        ("H", "", 8),
    )


@pytest.mark.parametrize("line", ["", "# A=1", "#A=1", "A", "=1"])
def test_some_lines_set_nothing(line: str) -> None:
    """A comment, a line without =, and one without a name set nothing."""
    assert parse_nccl_conf(f"{line}\nB=2") == (("B", "2", 2),)


def test_a_carriage_return_is_kept_before_2_30() -> None:
    """A file with Windows line ends gives NCCL before 2.30 values with one at their end."""
    assert parse_nccl_conf("A=1\r\n", OLD) == (("A", "1\r", 1),)
    assert parse_nccl_conf("A=1\r\n", NEW) == (("A", "1", 1),)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("export NCCL_DEBUG=INFO", "line 1 sets 'export NCCL_DEBUG', which no program reads"),
        ("NCCL_DEBUG = INFO", "line 1 sets 'NCCL_DEBUG ', which no program reads"),
        ("NCCL_DEBUG INFO", "line 1 sets nothing: it has no ="),
    ],
)
def test_a_line_that_does_not_do_what_it_seems_to_is_told(line: str, words: str) -> None:
    """Lines that a person would take for settings, and NCCL does not, have a remark."""
    (remark,) = conf_remarks(line, SYSTEM)
    assert remark.startswith(f"{SYSTEM} {words}")


def test_plain_lines_have_no_remark() -> None:
    """Settings, comments and blank lines are as they should be."""
    assert conf_remarks("# a\n\nNCCL_DEBUG=INFO\r\n", SYSTEM) == ()


@pytest.mark.parametrize(
    ("environment", "version", "paths"),
    [
        ({"HOME": "/h"}, None, ("/h/.nccl.conf", SYSTEM)),
        ({"HOME": "/h", "NCCL_CONF_FILE": "/c"}, None, ("/c", SYSTEM)),
        ({"HOME": "/h", "NCCL_CONF_FILE": "/c"}, NcclVersion(2, 23, 4), ("/c", SYSTEM)),
        ({"HOME": "/h", "NCCL_CONF_FILE": "/c"}, NcclVersion(2, 22, 3), ("/pw/.nccl.conf", SYSTEM)),
        ({"HOME": "/h", "NCCL_CONF_FILE": ""}, NEW, ("/h/.nccl.conf", SYSTEM)),
        ({"HOME": "/h"}, OLD, ("/pw/.nccl.conf", SYSTEM)),
        ({"NCCL_CONF_FILE": "~/c"}, NEW, ("~/c", SYSTEM)),
        ({}, NEW, (SYSTEM,)),
    ],
)
def test_which_files_count_is_the_release_s(
    environment: dict[str, str], version: NcclVersion | None, paths: tuple[str, ...]
) -> None:
    """NCCL_CONF_FILE stands for the user's file from 2.23 on, and HOME is the home from 2.30 on."""
    assert conf_paths(environment, version=version, account_home="/pw") == paths


def test_rccl_has_files_of_its_own() -> None:
    """RCCL reads rccl.conf, and up to 2.11 (ROCm 5.2) read nccl.conf."""
    rccl = CommLibrary.RCCL
    assert conf_paths(ENVIRONMENT, rccl) == ("/home/ana/.rccl.conf", "/etc/rccl.conf")
    assert conf_paths(ENVIRONMENT, rccl, NcclVersion(2, 11, 4)) == (USER, SYSTEM)


def test_the_environment_wins_over_the_user_and_the_user_over_the_system() -> None:
    """What loses is named with its place, in the order in which it would count."""
    environment = {**ENVIRONMENT, "NCCL_DEBUG": "WARN"}
    texts = {USER: "#\nNCCL_DEBUG=INFO\nNCCL_DEBUG=TRACE\n", SYSTEM: "NCCL_DEBUG=ABORT\n"}
    (setting,) = already_set(environment, texts).settings
    assert (setting.value, setting.set_by) == ("WARN", "environment")
    assert setting.overrides == (
        Overridden(value="INFO", set_by=f"{USER} line 2"),
        Overridden(value="TRACE", set_by=f"{USER} line 3"),
        Overridden(value="ABORT", set_by=f"{SYSTEM} line 1"),
    )


def test_who_set_a_variable_of_the_environment_is_named() -> None:
    """Where that is known; for all else it is the environment."""
    environment = {"NCCL_DEBUG": "WARN", "NCCL_PROTO": "Simple"}
    found = already_set(environment, {}, set_by={"NCCL_PROTO": "[tune] env of the job"})
    assert [one.set_by for one in found.settings] == ["environment", "[tune] env of the job"]


def test_only_variables_of_communication_are_told() -> None:
    """They are told by name, whatever order they came in."""
    environment = {"PATH": "/bin", "UCX_TLS": "rc", "NCCL_DEBUG": "WARN", "HSA_X": "1", "FI_X": "2"}
    names = [one.name for one in already_set(environment, {SYSTEM: "HOME=/\nRCCL_X=1\n"}).settings]
    assert names == ["FI_X", "HSA_X", "NCCL_DEBUG", "RCCL_X", "UCX_TLS"]


@pytest.mark.parametrize(
    ("environment", "text", "name", "words"),
    [
        ({"NCCL_NET": ""}, "NCCL_NET=gIB", "NCCL_NET", "empty: the default applies"),
        ({}, "NCCL_NET=gIB ", "NCCL_NET", "the value includes a space or line end"),
        ({}, 'NCCL_NET="gIB"', "NCCL_NET", "the value includes the quotes"),
        ({}, "UCX_TLS=rc", "UCX_TLS", "UCX sees it only if loaded after NCCL"),
    ],
)
def test_what_a_value_does_not_do_is_a_remark(
    environment: dict[str, str], text: str, name: str, words: str
) -> None:
    """A setting that has another effect than it seems to has a remark."""
    (setting,) = already_set(environment, {SYSTEM: text}).settings
    assert setting.name == name
    assert (setting.remark or "").startswith(words)


@pytest.mark.parametrize(
    ("environment", "version", "words"),
    [
        ({"NCCL_CONF_FILE": "/c"}, NcclVersion(2, 21, 5), "NCCL 2.21.5 does not read NCCL_CONF"),
        ({"NCCL_CONF_FILE": "/gone"}, OLD, "NCCL_CONF_FILE names a missing file"),
        ({"NCCL_CONF_FILE": "/c"}, None, "NCCL reads NCCL_CONF_FILE since 2.23"),
        ({"NCCL_ENV_PLUGIN": "x"}, NEW, "NCCL_ENV_PLUGIN names x"),
    ],
)
def test_what_cannot_be_relied_on_is_a_note(
    environment: dict[str, str], version: NcclVersion | None, words: str
) -> None:
    """A file that does not count, and a plugin that may give other values, are told."""
    (note,) = already_set(environment, {"/c": ""}, version).notes
    assert note.startswith(words)


@pytest.mark.parametrize(("plugin", "version"), [("none", NEW), ("x", OLD)])
def test_a_plugin_that_is_not_opened_is_no_note(plugin: str, version: NcclVersion) -> None:
    """`none` is no plugin, and there were none before 2.28.7."""
    assert already_set({"NCCL_ENV_PLUGIN": plugin}, {}, version).notes == ()
