"""`hpckit sites`: which sites there are, what one says, and whether its cluster says the same."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import click

from hpckit import wiring
from hpckit.cli import output
from hpckit.cli.job_argument import complete_site

_DIR = click.option("--site-dir", "site_dirs", multiple=True, type=click.Path(path_type=Path),
                    help="Folder of site files that come first.")  # fmt: skip
_JSON = click.option("--json", "as_json", is_flag=True, help="One JSON document.")


_SHOWN = 7


@click.group("sites")
def sites_command() -> None:
    """List and show site files."""


@sites_command.command("list")
@_DIR
@_JSON
def list_(site_dirs: tuple[Path, ...], *, as_json: bool) -> None:
    """List every site and the file that won."""
    from hpckit.jobs.sites import list_sites

    found = list_sites(wiring.resources(site_dirs))
    if as_json:
        output.document(
            {
                "schema": "hpckit.sites/1",
                "sites": [
                    {
                        "name": one.name,
                        "description": one.site.description if one.site else None,
                        "submitter": str(one.site.submitter) if one.site else None,
                        "path": str(one.path),
                        "shadowed": [str(path) for path in one.shadowed],
                        "error": one.error,
                    }
                    for one in found
                ],
            }
        )
        return
    for one in found:
        text = one.site.description if one.site else f"wrong: {one.error}"
        first, *more = _lines(text, len(one.name) + 4)
        if not one.site:
            first = click.style(first, fg="red")
        rows = [("file", str(one.path)), *(("shadows", str(path)) for path in one.shadowed)]
        output.result(f" {click.style(one.name, bold=True)}   {first}")
        for line in more:
            output.result(f"{' ' * (len(one.name) + 4)}{line}")
        output.labelled([(f"  {label}", value) for label, value in rows])


def _lines(text: str, indent: int) -> list[str]:
    """A description: on a terminal in as many lines as it takes behind a name, else in one."""
    return output.prose(text, indent).split("\n") if sys.stdout.isatty() else [text]


@sites_command.command("show")
@click.argument("name", shell_complete=complete_site)
@_DIR
@_JSON
def show(name: str, site_dirs: tuple[Path, ...], *, as_json: bool) -> None:
    """Print the site file called NAME, or its values with defaults as JSON."""
    from hpckit.jobs.sites import load_site

    resources = wiring.resources(site_dirs)
    site = load_site(resources, name)
    paths = resources.site_files().get(name)
    if as_json or not paths:
        output.document(site)
        return
    output.talk(f" {paths[0]}")
    click.echo(resources.read(paths[0]), nl=False)


@sites_command.command("init")
@click.argument("name")
def init(name: str) -> None:
    """Draft a site file called NAME from the cluster that is here; it goes to stdout.

    Each line says where it comes from. What Slurm does not tell (where job folders lie, modules,
    network) is yours to add.
    """
    from hpckit.spec.site import SITE_NAME_PATTERN
    from hpckit.spec.site_draft import draft_site

    if re.fullmatch(SITE_NAME_PATTERN, name, re.ASCII) is None:
        raise click.UsageError(f"{name!r} is no name: letters, digits, dot, dash and underscore")
    view, rules, topology = wiring.live_cluster()
    click.echo(draft_site(name, view, rules, topology), nl=False)
    if sys.stdout.isatty():
        output.talk(
            f" keep it: hpckit sites init {name} > ~/.config/hpckit/site_configs/{name}.toml"
        )


@sites_command.command("check")
@click.argument("name", shell_complete=complete_site)
@_DIR
@_JSON
@click.pass_context
def check(ctx: click.Context, name: str, site_dirs: tuple[Path, ...], *, as_json: bool) -> None:
    """Compare the site file called NAME with the cluster that is here; exit 1 where they differ."""
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
        raise StorageFailed(f"the cluster's nodes cannot be compared: {view.unread}")
    if as_json:
        output.document({"schema": "hpckit.site-check/1", "site": name,
                         "findings": finding_trees(findings)})  # fmt: skip
    else:
        title = f"{name}: {verdict(findings, 'it says what the cluster says')}"
        lines = [Line(text=title, style=Style.TITLE)]
        for one in findings[:_SHOWN]:
            head, remedy = words_of(f"{one.subject}: {one.because}"), words_of(one.remedy)
            width = output.screen_width()
            lines += finding_lines(one.severity, head, ("fix:", *remedy), width=width)
        output.say([*lines, *left_lines(len(findings) - _SHOWN, f"hpckit sites check {name}")])
    ctx.exit(output.fail_code(findings, "error"))
