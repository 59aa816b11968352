"""A chain at the command line: rendered a stage at a time, submitted and shown as a whole."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from hpckit import wiring
from hpckit.core.errors import ConfigError, HpckitError
from hpckit.slurm.values import JobEntry
from tests.fakes.cli_jobs import call, document, words, write_site
from tests.fakes.slurm_jobs import commands

CHAIN = """\
schema = "hpckit.job/1"
name = "llama"
[[stages]]
name = "prepare"
command = ["true"]
[[stages]]
name = "train"
command = ["false"]
"""
COUNTING = 'echo x >>"$0.count"; wc -l <"$0.count"'
ENDED = ("None", "2026-11-21T06:00:00", "2026-11-21T06:00:02", "c1")
UNSTARTED = ("Dependency", "2026-11-21T06:00:00", "2026-11-21T06:00:00", "")


@pytest.fixture
def chain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A job file of two stages, for a site with a Slurm that gives the ids 1, 2, …"""
    commands(tmp_path, monkeypatch, sbatch=COUNTING)
    config = Path(os.environ["XDG_CONFIG_HOME"]) / "hpckit" / "site_configs"
    site = write_site(config, "here", "a Slurm of scripts")
    with site.open("a") as file:
        file.write(f'submitter = "slurm"\njob_root = "{tmp_path}/jobs"\n')
    monkeypatch.setenv("HPCKIT_SITE", "here")
    path = tmp_path / "chain.toml"
    path.write_text(CHAIN)
    return path


def listed(tmp_path: Path, *states: tuple[str, ...]) -> list[JobEntry]:
    """The jobs of the chain, which squeue lists in these states."""
    entries = list(reversed(wiring.job_index().latest(None)))
    lines = [
        "\x1f".join((entry.job_id, *state, f"/jobs/submission-{entry.submission}.sbatch"))
        for entry, state in zip(entries, states, strict=True)
    ]
    (tmp_path / "listing").write_text("".join(f"{line}\n" for line in lines))
    return entries


def test_one_stage_is_rendered(chain: Path) -> None:
    """`render --stage` prints the script of that stage, and the error without one names them."""
    assert "#SBATCH --job-name=llama-train" in call("render", chain, "--stage", "train").stdout
    error = call("render", chain, refused=True).exception
    assert isinstance(error, ConfigError)
    assert error.hint == "choose one with --stage: prepare, train"


def test_a_chain_takes_no_command(chain: Path) -> None:
    """A command after -- is no stage's, and the usage error says so."""
    result = call("submit", chain, "--", "true")
    assert result.exit_code == 2
    assert "each stage has its own" in result.stderr


def test_a_dry_run_prints_every_script(chain: Path) -> None:
    """`--dry-run` prints the scripts of all stages, and submits none."""
    rendered = [call("render", chain, "--stage", name).stdout for name in ("prepare", "train")]
    assert call("submit", chain, "--dry-run").stdout == "".join(rendered)
    told = document("submit", chain, "--dry-run", "--json")
    assert [stage["script"] for stage in told["stages"]] == rendered
    assert wiring.job_index().latest(None) == []


def test_the_ids_of_a_chain(chain: Path) -> None:
    """`--quiet` prints the id of each stage on a line of its own."""
    assert call("submit", chain, "--quiet").stdout.split("\n") == ["1", "2", ""]


def test_the_document_of_a_chain(chain: Path) -> None:
    """`--json` is one document with that of each stage's submission."""
    told = document("submit", chain, "--json")
    assert told["schema"] == "hpckit.chain/1"
    assert [(one["schema"], one["job_id"], one["name"]) for one in told["stages"]] == [
        ("hpckit.submission/1", "1", "llama-prepare"),
        ("hpckit.submission/1", "2", "llama-train"),
    ]


def test_a_submitted_chain_is_told_to_people(chain: Path) -> None:
    """Each stage has a row with its id and what it asks for; the next commands are named."""
    said = words(call("submit", chain).stdout)
    assert "chain 2 stages" in said
    assert "prepare 1 1 node × 1 rank" in said
    assert "next hpckit status 2 · hpckit wait 1 2" in said


def test_one_stage_is_submitted_by_itself(chain: Path) -> None:
    """`submit --stage` is one job, without a chain."""
    call("submit", chain, "--stage", "train")
    (entry,) = wiring.job_index().latest(None)
    assert (entry.name, entry.chain) == ("llama-train", None)


def test_the_status_of_a_stage_shows_the_chain(tmp_path: Path, chain: Path) -> None:
    """`status` has a row with every stage, and a stage that never began says because of which."""
    call("submit", chain)
    listed(tmp_path, ("FAILED", *ENDED), ("CANCELLED", *UNSTARTED))
    said = words(call("status", "2").stdout)
    assert "2 llama-train CANCELLED · not started: prepare (1) FAILED" in said
    assert "chain prepare 1 FAILED → train 2 CANCELLED (not started)" in said
    told = document("status", "2", "--json")["chain"]
    assert [(one["stage"], one["job_id"], one["state"]) for one in told] == [
        ("prepare", "1", "FAILED"),
        ("train", "2", "CANCELLED"),
    ]


def test_the_report_of_a_stage_leads_to_the_one_that_failed(tmp_path: Path, chain: Path) -> None:
    """The newest stage, which never began, has none."""
    call("submit", chain)
    listed(tmp_path, ("FAILED", *ENDED), ("CANCELLED", *UNSTARTED))
    error = call("report", refused=True).exception
    assert isinstance(error, HpckitError)
    assert error.message.endswith("; the chain stopped at prepare (1): FAILED")
    assert error.hint == "hpckit report 1"


def test_a_stage_that_was_not_submitted_is_shown(tmp_path: Path, chain: Path) -> None:
    """Of a chain whose submission was cut short, the stages that are no jobs are named."""
    call("submit", chain)
    entries = listed(tmp_path, ("RUNNING", *ENDED), ("PENDING", *UNSTARTED))
    wiring.job_index().remove(entries[1].submission)
    assert "chain prepare 1 RUNNING → train (not submitted)" in words(call("status", "1").stdout)
    assert document("status", "1", "--json")["chain"][1]["state"] == "NOT_SUBMITTED"


LISTING = r"""#!/bin/bash
for file in $(ls {jobs}/*/submission-*.sbatch); do
  case $file in *prepare*) id=1 state=FAILED node=c1 ;; *) id=2 state=CANCELLED node= ;; esac
  printf '%s\x1f%s\x1fNone\x1f2026-11-21T06:00:00\x1f2026-11-21T06:00:02\x1f%s\x1f%s\n' \
    $id $state "$node" "$file"
done
"""


@pytest.mark.parametrize("as_json", [True, False])
def test_waiting_says_what_stopped_the_chain(tmp_path: Path, chain: Path, *, as_json: bool) -> None:
    """`submit --wait` ends with 1 when a stage failed, and names it."""
    squeue = tmp_path / "slurm" / "squeue"
    squeue.write_text(LISTING.replace("{jobs}", f"{tmp_path}/jobs"))
    result = call("submit", chain, "--wait", *(["--json"] if as_json else []))
    assert result.exit_code == 1
    if as_json:
        stages = json.loads(result.stdout)["stages"]
        assert [one["state"] for one in stages] == ["FAILED", "CANCELLED"]
        assert stages[1]["reason"] == "not started: prepare (1) FAILED"
    else:
        assert "stopped at prepare (1): FAILED" in words(result.stdout)
