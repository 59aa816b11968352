"""`hpckit inspect --nodes` and `--job`: many nodes at once, the odd ones named."""

from __future__ import annotations

from typing import TYPE_CHECKING

import hpckit
from hpckit.cli import output
from hpckit.errors import HpckitError

if TYPE_CHECKING:
    from pathlib import Path

    from hpckit.app.inspect_nodes import NodesSeen
    from hpckit.cli.cmd_inspect import InspectOptions
    from hpckit.model.node_answer import NodeQuestion

NODES_SCHEMA = "hpckit.nodes/1"
_TIMEOUT_S = 60.0


def inspect_many(options: InspectOptions) -> int:
    """Ask the nodes, print what they are, and give the exit code."""
    from hpckit import wiring
    from hpckit.app.inspect_nodes import inspect_nodes
    from hpckit.cli.inspect_screen import fail_code
    from hpckit.cli.submission import interrupt_on_signals

    interrupt_on_signals()
    line = output.Progress()

    def progress(answered: int, asked: int) -> None:
        line.show(f"{_bar(answered, asked)} {answered} of {asked} nodes have answered")

    try:
        seen = inspect_nodes(
            wiring.node_probe(_shared_dir(options)), _question(options), options.nodelist, progress
        )
    finally:
        line.clear()
    if options.format_ == "json":
        output.document(_document(seen))
    else:
        from hpckit.cli.inspect_screen import say_nodes

        say_nodes(seen)
    if not seen.groups:
        return _nobody(is_json=options.format_ == "json")
    findings = [finding for group in seen.groups for finding in group.findings]
    return fail_code([*findings, *seen.silent], options.fail_on)


def _nobody(*, is_json: bool) -> int:
    error = HpckitError("no node answered", hint="scontrol show node NAME says how Slurm sees it")
    if not is_json:
        raise error
    # The one document is printed; an error would print another.
    output.talk(str(error))
    return error.exit_code


def _bar(done: int, total: int, width: int = 20) -> str:
    filled = width * done // total if total else width
    return "█" * filled + "░" * (width - filled)


def _question(options: InspectOptions) -> NodeQuestion:
    from hpckit import wiring
    from hpckit.model.node_answer import NodeQuestion

    return NodeQuestion(
        nodes=(),
        timeout_s=options.timeout_s or _TIMEOUT_S,
        job_id=options.job_id or (options.nodelist and wiring.surrounding_job()),
        expected_gpus=options.expected_gpus,
        partition=options.partition,
        account=options.account,
        qos=options.qos,
        reservation=options.reservation,
        gpus_per_node=options.gpus_per_node,
    )


def _shared_dir(options: InspectOptions) -> Path:
    from pathlib import Path

    from hpckit import wiring
    from hpckit.app.sites import load_site
    from hpckit.app.submit import expand_job_root

    if options.shared_dir is not None:
        return Path(options.shared_dir).absolute()
    site = load_site(wiring.resources(), options.site)
    return expand_job_root(site.job_root, wiring.caller())


def _document(seen: NodesSeen) -> dict[str, object]:
    from hpckit.core.findings import finding_trees
    from hpckit.model.hostlist import fold_hosts
    from hpckit.model.tree import to_tree

    return {
        "schema": NODES_SCHEMA,
        "hpckit": hpckit.__version__,
        "groups": [
            {
                "nodes": list(group.nodes),
                "nodelist": fold_hosts(group.nodes),
                "differs": list(group.differs),
                "findings": finding_trees(group.findings),
                "topology": to_tree(group.topology),
            }
            for group in seen.groups
        ],
        "silent": finding_trees(seen.silent),
        "words": list(seen.words),
    }
