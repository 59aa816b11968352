from __future__ import annotations

import pytest

from hpckit.comm.lint_rule import SettingForm, SettingsKind
from hpckit.comm.settings_files import MOST_BYTES, parse_settings
from hpckit.core.errors import ParseError

JOB = """\
schema = "hpckit.job/1"
name = "train"
command = ["python", "train.py"]
[resources]
nodes = 4
[environment]
setup = [
  "module load nccl",
  "export NCCL_PROTO=Simple NCCL_ALGO=Tree",
]
[environment.set]
# NCCL_DEBUG = "x"
UCX_TLS = "all"
[tune]
env = { NCCL_DEBUG = "INFO", NCCL_ALGO = "Ring" }
[slurm.srun_extra]
gpu-bind = "single:1"
"""


def kind(text: str, name: str = "file") -> SettingsKind:
    """What a text is taken for."""
    return parse_settings(text.encode(), name).kind


def pairs(data: bytes, name: str) -> list[tuple[int, str, str | None, SettingForm | None]]:
    """Line, name, value and form of each assignment."""
    found = parse_settings(data, name).assignments
    return [(one.line, one.name, one.value, one.form) for one in found]


@pytest.mark.parametrize(
    ("text", "name", "expected"),
    [
        ("#!/bin/bash\nA=b\n", "x", SettingsKind.SCRIPT),
        ("A=b\n#SBATCH -N 1\n", "x", SettingsKind.SCRIPT),
        ("NCCL_DEBUG=WARN\n", "vars.sh", SettingsKind.SCRIPT),
        ("export NCCL_DEBUG=WARN\n", "x", SettingsKind.SCRIPT),
        ('NCCL_DEBUG="WARN"\n', "x", SettingsKind.SCRIPT),
        ("NCCL_DEBUG=WARN\nsrun a\n", "x", SettingsKind.SCRIPT),
        ("", "x", SettingsKind.SCRIPT),
        ("PATH=/x:$PATH\nexport NCCL_DEBUG=WARN\n", "x", SettingsKind.SCRIPT),
        ("HOME=/h\nNCCL_DEBUG=WARN\n", "x", SettingsKind.ENV),
        ("HOME=/h\nF=() {  a\n it's\n}\n", "x", SettingsKind.ENV),
        ("NCCL_DEBUG=WARN\nUCX_TLS=all\n", "x", SettingsKind.ENV),
        ("NCCL_DEBUG=WARN\n", "/etc/nccl.conf", SettingsKind.CONF),
        ("# ours\nNCCL_DEBUG=WARN\n", "x", SettingsKind.CONF),
        ("NCCL_DEBUG=WARN\n", "ours.conf", SettingsKind.CONF),
        (JOB, "job.toml", SettingsKind.JOB),
        (JOB, "x", SettingsKind.JOB),
    ],
)
def test_what_a_file_is(text: str, name: str, expected: SettingsKind) -> None:
    """A file is told by its name, and else by its lines."""
    assert kind(text, name) is expected


def test_a_job_file() -> None:
    """A job file sets variables by two tables and by its setup, each with its line."""
    assert pairs(JOB.encode(), "job.toml") == [
        (9, "NCCL_PROTO", "Simple", SettingForm.EXPORT),
        (9, "NCCL_ALGO", "Tree", SettingForm.EXPORT),
        (13, "UCX_TLS", "all", SettingForm.JOB),
        (15, "NCCL_DEBUG", "INFO", SettingForm.JOB),
        (15, "NCCL_ALGO", "Ring", SettingForm.JOB),
    ]


def test_options_of_a_job_file() -> None:
    """Options of Slurm in a job file are those of its programs."""
    found = parse_settings(JOB.encode(), "job.toml").options
    assert [(one.program, one.name, one.value, one.line) for one in found] == [
        ("srun", "--gpu-bind", "single:1", 17),
        ("sbatch", "--nodes", "4", 5),
    ]


def test_the_command_of_a_job_file() -> None:
    """What the command itself sets is told, with the line that it stands on."""
    text = (
        'schema = "hpckit.job/1"\ncommand = ["env", "A=$B", "bash", "-c", """\nexport C=d\n'
        'E=f python train.py"""]\n[tune]\nenv = { G = 1, H = true }\n'
    )
    assert pairs(text.encode(), "x.toml") == [
        (2, "A", "$B", SettingForm.PREFIX),
        (3, "C", "d", SettingForm.EXPORT),
        (4, "E", "f", SettingForm.PREFIX),
        (6, "G", "1", SettingForm.JOB),
        (6, "H", "true", SettingForm.JOB),
    ]


@pytest.mark.parametrize(
    "table",
    [
        'command = ["bash", "-c", "export A=1; export A=2; train"]\n\n',
        'command = [\n  "bash", "-c",\n  "export A=\\"1\\"; export A=2; train",\n]\n',
        'command = ["bash", "-c", """\nexport A=1\nexport A=2; train"""]\n',
        '[environment]\nsetup = ["export A=1", "export A=2", "train"]\n',
        '[environment]\nsetup = ["""\nexport A=1\nexport A=2\ntrain"""]\n',
    ],
    ids=["command", "array", "text", "setup", "lines"],
)
def test_a_value_in_vain_has_its_line_in_a_job_file(table: str) -> None:
    """Both lines of a variable that is set twice are those of the job file."""
    text = f'schema = "hpckit.job/1"\nname = "a"\n{table}'
    one, *others = parse_settings(text.encode(), "x.toml").assignments
    lines = text.split("\n")
    assert (one.value, others) == ("2", [])
    assert one.instead_of is not None
    assert "A=2" in lines[one.line - 1]
    assert "A=" in lines[one.instead_of.line - 1]
    assert one.instead_of.value == "1"


@pytest.mark.parametrize(
    ("table", "line_no"),
    [
        ('[environment]\nsetup = [\n  "module load a",\n\n  "export A=\'b",\n]\n', 6),
        ('command = [\n  "bash",\n  "-c",\n  """\nexport A=1\nexport B=\'c""",\n]\n', 7),
    ],
    ids=["setup", "command"],
)
def test_shell_that_never_ends_has_its_line_in_a_job_file(table: str, line_no: int) -> None:
    """The error of shell in a job file shows the line of the job file."""
    with pytest.raises(ParseError) as caught:
        parse_settings(f'schema = "hpckit.job/1"\n{table}'.encode(), "x.toml")
    assert caught.value.line_no == line_no
    assert caught.value.line.strip().strip('",').startswith("export")


def test_stages_of_a_job_file() -> None:
    """Each stage of a chain sets its own variables."""
    text = (
        'schema = "hpckit.job/1"\n[[stages]]\nname = "a"\n[stages.tune.env]\nNCCL_DEBUG = "WARN"\n'
        '[[stages]]\nname = "b"\n[stages.tune.env]\nNCCL_DEBUG = "INFO"\n'
    )
    assert pairs(text.encode(), "x.toml") == [
        (5, "NCCL_DEBUG", "WARN", SettingForm.JOB),
        (9, "NCCL_DEBUG", "INFO", SettingForm.JOB),
    ]


def test_keys_of_a_job_file_in_quotes() -> None:
    """A key may stand in quotes, behind others, and in a comment or a text it is none."""
    text = (
        'schema = "hpckit.job/1"\nname = "A = b" # A = c\n[tune]\nenv = { "B" = "A=1", A = "2" }\n'
    )
    assert pairs(text.encode(), "x.toml") == [
        (4, "B", "A=1", SettingForm.JOB),
        (4, "A", "2", SettingForm.JOB),
    ]


def test_a_conf_is_no_shell() -> None:
    """In an nccl.conf all before the first `=` is the name, and all behind it the value."""
    text = b'# NCCL_A=1\nexport NCCL_B="2"\nNCCL_IB_HCA==mlx5_0\nword\n'
    assert pairs(text, "nccl.conf") == [
        (2, "export NCCL_B", '"2"', SettingForm.CONF),
        (3, "NCCL_IB_HCA", "=mlx5_0", SettingForm.CONF),
        (4, "word", None, SettingForm.CONF),
    ]


def test_zero_ended_output() -> None:
    """What `env -0` printed is told by its zeros; a value may hold new lines."""
    assert pairs(b"HOME=/h\0A=b\nc\0", "environ") == [
        (1, "HOME", "/h", SettingForm.ENV),
        (2, "A", "b\nc", SettingForm.ENV),
    ]


def test_lines_of_windows() -> None:
    """A file with the line ends of Windows says the same."""
    assert pairs(b"\xef\xbb\xbfexport A=b\r\nexport C=d\r\n", "x.sh") == [
        (1, "A", "b", SettingForm.EXPORT),
        (2, "C", "d", SettingForm.EXPORT),
    ]


@pytest.mark.parametrize(
    ("data", "name"),
    [
        pytest.param(b"\x7fELF\x01\x02", "a.out", id="program"),
        pytest.param(b"ab\0cd\0", "x", id="zeros"),
        pytest.param(b'{"NCCL_DEBUG": "WARN"}', "x", id="json"),
        pytest.param(b"<html></html>", "x", id="html"),
        pytest.param(b"#!/usr/bin/env python3\nimport os\n", "x", id="python"),
        pytest.param(b"import os\n", "train.py", id="python-name"),
        pytest.param(b"env:\n  NCCL_DEBUG: WARN\n", "job.yaml", id="yaml-name"),
        pytest.param(b"---\nNCCL_DEBUG: WARN\n", "x", id="yaml"),
        pytest.param(b"apiVersion: v1\n", "x", id="pod"),
        pytest.param(b"FROM cuda\nENV NCCL_DEBUG=WARN\n", "x", id="image"),
        pytest.param(b"ARG A\nFROM cuda\n", "Dockerfile", id="image-name"),
        pytest.param(b'setenv("NCCL_DEBUG", "WARN")\n', "2.27.lua", id="module"),
        pytest.param(b"server { listen = 1 }\n", "nginx.conf", id="other-conf"),
        pytest.param(b"a = [\n", "job.toml", id="not-toml"),
        pytest.param(b"a = 1\n", "other.toml", id="other-toml"),
        pytest.param(b"x = " + b"[" * 5000, "deep.toml", id="deep-toml"),
        pytest.param(b"#" * (MOST_BYTES + 1), "x.sh", id="long"),
    ],
)
def test_other_files_are_refused(data: bytes, name: str) -> None:
    """What is no file of settings is refused, and the error names it."""
    with pytest.raises(ParseError) as caught:
        parse_settings(data, name)
    assert caught.value.tool == name


def test_what_is_no_text_has_its_line() -> None:
    """The error of a file with control characters shows where the first one stands."""
    with pytest.raises(ParseError) as caught:
        parse_settings(b"a\nbc\x07d\n", "x")
    assert (caught.value.line_no, caught.value.line) == (2, "bc?d")


def test_a_file_of_variables_in_quotes() -> None:
    """The variables of an .env file are exported by who reads it; quotes are none of a value."""
    assert pairs(b'# ours\nNCCL_DEBUG="WARN"\nexport A=b\n', "/x/.env") == [
        (2, "NCCL_DEBUG", "WARN", SettingForm.ENV),
        (3, "A", "b", SettingForm.EXPORT),
    ]


def test_a_broken_job_file_has_its_line() -> None:
    """The error of a job file that is no TOML shows the line."""
    with pytest.raises(ParseError) as caught:
        parse_settings(b'schema = "hpckit.job/1"\nname = \n', "job.toml")
    assert caught.value.line_no == 2
