"""`hpckit sites`: which sites there are, what one says, and whether its cluster says the same."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hpckit import wiring
from hpckit.cli import output
from hpckit.cli.job_argument import complete_site

if TYPE_CHECKING:
    from hpckit.core.document import Tree
    from hpckit.jobs.sites import FoundSite

_DIR = click.option("--site-dir", "site_dirs", multiple=True, type=click.Path(path_type=Path),
                    help="Look for site files here first.")  # fmt: skip
_JSON = click.option("--json", "as_json", is_flag=True, help="One JSON document.")


_SHOWN = 7


@click.group("sites")
def sites_command() -> None:
    """List, show, draft and check site files."""


@sites_command.command("list")
@_DIR
@_JSON
def list_(site_dirs: tuple[Path, ...], *, as_json: bool) -> None:
    """List every site and the file that is used."""
    from hpckit.jobs.sites import list_sites

    found = list_sites(wiring.resources(site_dirs))
    if as_json:
        output.document(
            {
                "schema": "hpckit.sites/1",
                "sites": [
                    {
                        "name": one.name,
                        "description": one.tree and one.tree.get("description", ""),
                        "submitter": one.tree and one.tree.get("submitter", "slurm"),
                        "path": str(one.path),
                        "shadowed": [str(path) for path in one.shadowed],
                        "error": one.error,
                    }
                    for one in found
                ],
            }
        )
        return
    output.table(
        ("SITE", "GPUS OF A NODE", "NETWORK OF A NODE", "NODES", "FILE"),
        [_row(one) for one in found],
    )
    output.talk(" hpckit sites show NAME prints the file")


def _row(found: FoundSite) -> tuple[str, ...]:
    """Return a site on one line; of a file that is not hpckit's own also where it is."""
    where = "" if wiring.resources().is_packaged(found.path) else str(found.path)
    if found.tree is None:
        return (found.name, click.style(f"invalid: {found.error}", fg="red"), "", "", where)
    said, partitions = found.tree.get("platform", {}), found.tree.get("partitions", {}).values()
    speed = f"{said['nic_gbits']:g} Gb/s " if said.get("nic_gbits") else ""
    nics, carrier = said.get("nics"), said.get("interconnect", "")
    network = f"{nics} × {speed}{carrier}" if nics else ""
    largest: Tree = max(partitions, key=lambda partition: partition["nodes"], default={})
    number = said.get("gpus") or largest.get("gpus_per_node")
    kind = said.get("gpu") or largest.get("gpu_type") or "GPU"
    gpus = f"{number} × {kind}" if number else ""
    return (found.name, gpus, network, str(largest.get("nodes", "")), where)


@sites_command.command("show")
@click.argument("name", shell_complete=complete_site)
@_DIR
@_JSON
def show(name: str, site_dirs: tuple[Path, ...], *, as_json: bool) -> None:
    """Print the site file NAME; with --json its values and defaults."""
    from hpckit.jobs.sites import load_site

    resources = wiring.resources(site_dirs)
    site = load_site(resources, name)
    paths = resources.site_files().get(name)
    if as_json or not paths:
        output.document(site)
        return
    output.talk(f" {paths[0]}")
    output.as_file(resources.read(paths[0]))


@sites_command.command("init")
@click.argument("name")
def init(name: str) -> None:
    """Draft a site file NAME from this cluster, on stdout.

    Each line has its origin. Add what Slurm does not know: job_root, modules, network.
    """
    from hpckit.spec.site import SITE_NAME_PATTERN
    from hpckit.spec.site_draft import draft_site

    if re.fullmatch(SITE_NAME_PATTERN, name, re.ASCII) is None:
        raise click.UsageError(
            f"{name!r} is not a site name: use letters, digits, dots, dashes and underscores"
        )
    view, rules, topology = wiring.live_cluster()
    output.as_file(draft_site(name, view, rules, topology))
    if sys.stdout.isatty():
        output.talk(
            f" save it: hpckit sites init {name} > ~/.config/hpckit/site_configs/{name}.toml"
        )


@sites_command.command("check")
@click.argument("name", shell_complete=complete_site)
@_DIR
@_JSON
@click.pass_context
def check(ctx: click.Context, name: str, site_dirs: tuple[Path, ...], *, as_json: bool) -> None:
    """Compare the site file NAME with this cluster; exit 1 if they differ."""
    from hpckit.core.errors import StorageFailed
    from hpckit.core.finding_lines import finding_lines, left_lines, verdict, words_of
    from hpckit.core.findings import finding_trees
    from hpckit.core.text import Line, Style
    from hpckit.jobs.sites import load_site
    from hpckit.spec.site_draft import site_drift

    site = load_site(wiring.resources(site_dirs), name)
    view, rules, topology = wiring.live_cluster()
    findings = site_drift(site, view, rules, topology)
    if view.unread is not None:
        raise StorageFailed(f"cannot compare nodes: {view.unread}")
    if as_json:
        output.document({"schema": "hpckit.site-check/1", "site": name,
                         "findings": finding_trees(findings)})  # fmt: skip
    else:
        title = f"{name}: {verdict(findings, 'matches the cluster')}"
        lines = [Line(text=title, style=Style.TITLE)]
        for one in findings[:_SHOWN]:
            head, remedy = words_of(f"{one.subject}: {one.because}"), words_of(one.remedy)
            width = output.screen_width()
            lines += finding_lines(one.severity, head, ("fix:", *remedy), width=width)
        output.say([*lines, *left_lines(len(findings) - _SHOWN, f"hpckit sites check {name}")])
    ctx.exit(output.fail_code(findings, "error"))
