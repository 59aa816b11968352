"""What a captured machine looks like."""

from __future__ import annotations

from hpckit.decide.complete import complete
from hpckit.decide.merge import merge
from hpckit.errors import ParseError
from hpckit.model.hardware import NodeTopology
from hpckit.model.rules import InvalidValue
from hpckit.parse.capture import EXPECTED, parse_capture
from hpckit.parse.excerpt import refuse_node
from hpckit.parse.kfd import parse_kfd
from hpckit.parse.kfd_files import is_kfd_file
from hpckit.parse.sysfs_patterns import sysfs_wanted
from hpckit.parse.tar_stream import compressed_text, looks_like_tar
from hpckit.parse.tarball import file_tree, find_kfd, parse_tarball_sysfs


def inspect_capture(data: bytes, name: str) -> tuple[NodeTopology, ...]:
    """The machines in a capture, at least one; only a text can hold several.

    A text may be compressed with gzip, bzip2 or xz, as an archive may. `name` is how errors call
    it. Raises ParseError for what is no capture of a machine.
    """
    text = compressed_text(data)
    is_archive = text is None and looks_like_tar(data)
    try:
        machines = (_archived(data, name),) if is_archive else parse_capture(text or data, name)
        return tuple(complete(machine) for machine in machines)
    except ParseError as error:
        if not error.message.startswith(name):
            error.message = f"{name}: {error.message}"
        raise
    except InvalidValue as error:
        raise refuse_node(error, name) from error


def _archived(data: bytes, name: str) -> NodeTopology:
    tree = file_tree(data, lambda path: sysfs_wanted(path) or is_kfd_file(path))
    system, kfd = parse_tarball_sysfs(tree), find_kfd(tree)
    if kfd is None:
        if system is None:
            raise ParseError(
                "an archive without a machine in it"
                if tree.texts or not tree.links
                else "an archive of links alone, as /sys/class holds them, without the files",
                tool=name, line_no=1, line=", ".join(sorted(tree.texts)[:3]), expected=EXPECTED,
            )  # fmt: skip
        return system
    gpus = parse_kfd(tree, kfd)
    return gpus if system is None else merge(system, gpus)
