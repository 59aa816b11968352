from __future__ import annotations

from hpckit.comm.lint import lint_text
from hpckit.comm.lint_rule import LintFacts
from hpckit.core.findings import Severity
from hpckit.spec.platform import NcclVersion


def test_a_file_is_linted() -> None:
    """What a file sets is judged for the release and the node that are told."""
    found = lint_text(
        b"export NCCL_NVLS_ENABLE=0\nexport NCCL_IB_HCA==mlx5_9\n",
        "job.sh",
        nccl=NcclVersion.of("2.27.3"),
        facts=LintFacts(nics=("mlx5_0",)),
    )
    assert [(one.line_no, one.rule, one.severity) for one in found] == [
        (1, "nvls-off", Severity.WARNING),
        (2, "ib-hca-absent", Severity.ERROR),
    ]
