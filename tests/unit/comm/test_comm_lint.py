from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Final

import pytest

from hpckit.comm.lint import LINT_RULES, lint_settings
from hpckit.comm.lint_rule import (
    SURELY_SINCE,
    LintFacts,
    LintFinding,
    LintRule,
    Settings,
    comm_lint_lines,
    held_before,
    held_from,
)
from hpckit.comm.settings_files import parse_settings
from hpckit.comm.variables import NCCL_VARIABLES
from hpckit.core.findings import Severity
from hpckit.spec.platform import CommLibrary, NcclVersion
from tests.fakes.comm_lint_cases import CASES, DERIVED, Case

MODERN = """\
#!/bin/bash
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=8
#SBATCH --gpus-per-node=8
#SBATCH --gpu-bind=none
set -euo pipefail
module load cuda/12.9 nccl/2.27
# export NCCL_P2P_DISABLE=1
export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
export MASTER_PORT=$((61000 + SLURM_JOB_ID % 4536))
export NCCL_DEBUG=WARN
export NCCL_SOCKET_IFNAME==ens1f0
export NCCL_IB_HCA==mlx5_0,mlx5_1
srun --kill-on-bad-exit=1 --cpus-per-task=14 python train.py
"""

# What MLPerf training submissions export for H100 nodes, with a line of a debugging session.
BENCHMARK = """\
export NCCL_NVLS_ENABLE=0
export NCCL_MIN_CTAS=32
export NCCL_MAX_CTAS=32
export NCCL_NCHANNELS_PER_NET_PEER=32
export NCCL_P2P_NET_CHUNKSIZE=2097152
export NCCL_WORK_FIFO_DEPTH=1048576
export NCCL_IB_SL=1
export NCCL_COLLNET_ENABLE=1
export NCCL_SHARP_GROUP_SIZE_THRESH=2
export NCCL_IB_SPLIT_DATA_ON_QPS=0
export NCCL_DEBUG=INFO
srun python pretrain.py
"""


@cache
def read(text: str, name: str) -> Settings:
    """What a file sets."""
    return parse_settings(text.encode(), name)


def lint(
    text: str,
    name: str = "job.sh",
    nccl: str = "",
    *,
    facts: LintFacts | None = None,
    library: CommLibrary | None = None,
    rules: Sequence[LintRule] = LINT_RULES,
) -> tuple[LintFinding, ...]:
    """What is wrong with a file; `nccl` "" is not known."""
    settings = read(text, name)
    return lint_settings(
        settings.assignments,
        settings.options,
        nccl=NcclVersion.of(nccl) if nccl else None,
        library=library,
        facts=facts,
        has_steps=settings.has_steps,
        rules=rules,
    )


def missed(case: Case, rules: Sequence[LintRule] = LINT_RULES) -> list[str]:
    """The rules that speak in its near miss."""
    name = case.name if case.miss_name is None else case.miss_name
    nccl = case.nccl if case.miss_nccl is None else case.miss_nccl
    facts = case.facts if case.miss_facts is None else case.miss_facts
    library = case.library if case.miss_library is None else case.miss_library
    found = lint(case.misses, name, nccl, facts=facts, library=library, rules=rules)
    return [one.rule for one in found]


def brief(findings: Sequence[LintFinding]) -> list[tuple[int, str, str]]:
    """Line, rule and severity of each."""
    return [(one.line_no, one.rule, one.severity.value) for one in findings]


@pytest.mark.parametrize(
    "case", [pytest.param(case, id=f"{at}-{case.rule}") for at, case in enumerate(CASES)]
)
def test_a_rule_speaks_in_its_case_and_not_in_its_near_miss(case: Case) -> None:
    """A rule finds what it is about, once a line and name, and nothing in what only looks so."""
    found = lint(case.fires, case.name, case.nccl, facts=case.facts, library=case.library)
    keys = [(finding.rule, finding.line_no, finding.subject) for finding in found]
    assert case.rule in [finding.rule for finding in found]
    assert len(keys) == len(set(keys))
    assert case.rule not in missed(case)


def test_each_rule_has_a_name_of_its_own_and_a_case() -> None:
    """No two rows share a name, and without any one row some case fails."""
    names = [rule.name for rule in LINT_RULES]
    assert len(names) == len(set(names))
    assert set(names) == {case.rule for case in CASES}


def test_a_modern_script_is_left_in_peace() -> None:
    """A script that sets what a site must, in the way of today, has no finding."""
    facts = LintFacts(interfaces=("lo", "ens1f0"), nics=("mlx5_0", "mlx5_1"), is_vm=False)
    assert lint(MODERN, nccl="2.27.3", facts=facts, library=CommLibrary.NCCL) == ()
    assert lint(MODERN) == ()


def test_exports_of_a_benchmark() -> None:
    """Of exports tuned for a benchmark those are told that are off, gone, default or chatty."""
    assert brief(lint(BENCHMARK, nccl="2.27.3")) == [
        (1, "nvls-off", "note"),
        (6, "nccl-gone", "warning"),
        (10, "nccl-default", "note"),
        (11, "nccl-debug-info", "note"),
    ]


SURE: Final = (
    ("gpus-per-task", "#SBATCH -n 8 --gpus-per-task=1\nexport NCCL_DEBUG=WARN\nsrun a\n",
     "#SBATCH -n 8 --gpus-per-task=1\nexport MPICH_GPU_SUPPORT_ENABLED=1\nsrun a\n"),
    ("gpus-per-task", "#SBATCH -n 8 --gpus-per-task=1\nexport NCCL_DEBUG=WARN\nsrun a\n",
     "#SBATCH -n 8 --gpus-per-task=1\nexport NCCL_DEBUG=WARN\ndeepspeed a.py\n"),
    ("gpus-per-task", "#SBATCH -n 8 --gpus-per-task=1\nexport NCCL_P2P_LEVEL=SYS\nsrun a\n",
     "#SBATCH -n 8 --gpus-per-task=1\nexport NCCL_P2P_LEVEL=LOC\nsrun a\n"),
    ("gpus-per-task", "#SBATCH -n 8 --gpus-per-task=1\nNCCL_P2P_LEVEL=LOC\nsrun python a.py\n",
     "#SBATCH -n 8 --gpus-per-task=1\nexport NCCL_P2P_LEVEL=LOC\nsrun python a.py\n"),
    ("gpus-per-task", "#SBATCH -n 8 --gpus-per-task=1\nexport NCCL_P2P_DISABLE=0\nsrun a\n",
     "#SBATCH -n 8 --gpus-per-task=1\nexport NCCL_P2P_DISABLE=1\nsrun a\n"),
    ("gpus-per-task",
     "export NCCL_DEBUG=WARN\nNCCL_P2P_DISABLE=1 srun a\nsrun -n8 --gpus-per-task=1 b\n",
     "#SBATCH -n 8 --gpus-per-task=1\nexport NCCL_DEBUG=WARN\nNCCL_P2P_DISABLE=1 srun a\n"),
    ("gpus-per-task", '#SBATCH -n 8 --gpus-per-task=a100:1\nexport NCCL_DEBUG=WARN\nsrun "$a"\n',
     "#SBATCH -n 8 --gpus-per-task=a100:2\nexport NCCL_DEBUG=WARN\nsrun a\n"),
    ("fi-memhooks", "export FI_MR_CACHE_MONITOR=memhooks NCCL_NET='AWS Libfabric'\n",
     "export FI_MR_CACHE_MONITOR=memhooks\n"),
    ("port-fixed", "#SBATCH --gpus-per-node=1\nexport MASTER_PORT=29500\n",
     "export MASTER_PORT=29500\n"),
    ("visible-fixed", "#SBATCH --gres=gpu:1\nexport CUDA_VISIBLE_DEVICES=0,1\n",
     "#SBATCH --gres=gpu:2\nexport CUDA_VISIBLE_DEVICES=0,1\n"),
    ("ifname-lo", "#SBATCH -N 2\nexport GLOO_SOCKET_IFNAME=lo\n",
     "export GLOO_SOCKET_IFNAME=lo\n"),
    ("ifname-virtual", "#SBATCH -N 2\nexport GLOO_SOCKET_IFNAME=docker0\n",
     "export GLOO_SOCKET_IFNAME=docker0\n"),
    ("visible-twice", "export ROCR_VISIBLE_DEVICES=4,5 HIP_VISIBLE_DEVICES=4,5\n",
     "export ROCR_VISIBLE_DEVICES=0,1 HIP_VISIBLE_DEVICES=0,1\n"),
    ("visible-twice", "export ROCR_VISIBLE_DEVICES=1 HIP_VISIBLE_DEVICES=1\n",
     "export ROCR_VISIBLE_DEVICES=$SLURM_LOCALID HIP_VISIBLE_DEVICES=0\n"),
    ("master-local", "#SBATCH -N 2\nexport MASTER_ADDR=localhost\n",
     "#SBATCH -N 2\nexport MASTER_ADDR=localhost\nsource a\nMASTER_ADDR=$(hostname) srun a\n"),
    ("ib-idle", "export NCCL_IB_HCA=mlx5_0 NCCL_IB_DISABLE=1\nsrun a\n",
     "export NCCL_IB_HCA=mlx5_0\nsrun a\nexport NCCL_IB_DISABLE=1\nsrun a\n"),
    ("p2p-level-idle", "export NCCL_P2P_LEVEL=NVL NCCL_P2P_DISABLE=1\nsrun a\n",
     "export NCCL_P2P_LEVEL=NVL\nNCCL_P2P_DISABLE=1 srun a\nsrun a\n"),
    ("ifname-virtual", "#SBATCH -N 2\nexport NCCL_SOCKET_IFNAME=docker0\n",
     "#SBATCH -N 2\nexport NCCL_SOCKET_IFNAME=bond0,docker0\n"),
    ("export-without-all", "export NCCL_DEBUG=WARN\nsrun -n 4 --export=NONE a\n",
     "export NCCL_DEBUG=WARN\nsrun -n 1 --export=NONE hostname\n"),
)  # fmt: skip


@pytest.mark.parametrize(
    "lines",
    [
        'if [ "$NET" = tcp ]; then\n  export TORCH_DISTRIBUTED_DEBUG=DETAIL\nfi\n',
        "if (( N == 1 )); then :; else\n  export TORCH_DISTRIBUTED_DEBUG=DETAIL\nfi\n",
        "case $1 in\n  tcp) export TORCH_DISTRIBUTED_DEBUG=DETAIL ;;\nesac\n",
        "[[ $NET == tcp ]] && export TORCH_DISTRIBUTED_DEBUG=DETAIL\n",
        "ibstat || export TORCH_DISTRIBUTED_DEBUG=DETAIL\n",
        'test "$NET" = tcp && {\n  export TORCH_DISTRIBUTED_DEBUG=DETAIL\n}\n',
        "export TORCH_DISTRIBUTED_DEBUG=${TORCH_DISTRIBUTED_DEBUG:-DETAIL}\n",
        "export TORCH_DISTRIBUTED_DEBUG=DETAIL\n"
        "if lspci | grep -q Mellanox; then\n  export TORCH_DISTRIBUTED_DEBUG=OFF\nfi\n",
        "if $tcp; then\n  TORCH_DISTRIBUTED_DEBUG=DETAIL mpirun a\nfi\n",
        "if $tcp; then\n  mpirun -x TORCH_DISTRIBUTED_DEBUG=DETAIL a\nfi\n",
    ],
)
def test_what_holds_in_some_runs_is_a_note(lines: str) -> None:
    """A branch, a default and what a branch sets anew say that the author knows of the case."""
    (found,) = (
        one for one in lint(f"#SBATCH -N 2\n{lines}srun a\n") if one.rule == "torch-debug-left"
    )
    assert found.severity is Severity.NOTE


@pytest.mark.parametrize(
    ("lines", "rule"),
    [
        ("if $tcp; then :; fi\nexport TORCH_DISTRIBUTED_DEBUG=DETAIL\n", "torch-debug-left"),
        ("run() {\n  export TORCH_DISTRIBUTED_DEBUG=DETAIL\n}\n", "torch-debug-left"),
        ("cd /opt && export TORCH_DISTRIBUTED_DEBUG=DETAIL\n", "torch-debug-left"),
        ("if $debug; then\n  export NCCL_DEBG=INFO\nfi\n", "nccl-misspelt"),
    ],
)
def test_what_holds_in_every_run_is_accused(lines: str, rule: str) -> None:
    """What stands behind a branch, in a function, or is a mistake in any branch."""
    (found,) = (one for one in lint(f"#SBATCH -N 2\n{lines}srun a\n") if one.rule == rule)
    assert found.severity is not Severity.NOTE


@pytest.mark.parametrize(
    "text",
    [
        'NCCL_IB_TC=41\nssh node1 "NCCL_IB_TC=$NCCL_IB_TC python a.py"\n',
        "NCCL_IB_TC=41\nNCCL_IB_TC=${NCCL_IB_TC} python a.py\n",
        "# read with set -a\nNCCL_IB_TC=41\nUCX_TLS=all\n",
        "NCCL_IB_TC=41\nfor name in NCCL_IB_TC; do set -- -x $name; done\nmpirun $@ a\n",
        "NCCL_NET_PLUGIN=$(python -c 'import a')\nNCCL_IB_TC=41\n",
    ],
)
def test_a_variable_that_is_handed_on_need_not_be_exported(text: str) -> None:
    """A script may pass it by its value, and a file of assignments alone is read by another."""
    assert "not-exported" not in [one.rule for one in lint(text)]


@pytest.mark.parametrize(
    "text",
    [
        "#SBATCH -n 8 --gpus-per-task=0\nexport NCCL_DEBUG=WARN\nsrun a\n",
        "#SBATCH -n 2 --gpus-per-task=1\nexport NCCL_DEBUG=WARN\n"
        "srun --gres-flags=allow-task-sharing a\n",
        "export NCCL_DEBUG=INFO\nexport NCCL_DEBUG=info\nsrun a\n",
    ],
)
def test_what_hides_nothing_and_changes_nothing_is_left_in_peace(text: str) -> None:
    """No GPU a task, tasks that share their GPUs, and the same word in other letters."""
    assert {one.rule for one in lint(text)} <= {"nccl-debug-info"}


def test_an_empty_value_is_not_told_as_idle() -> None:
    """`NCCL_IB_HCA=` takes back what was set before."""
    found = lint("export NCCL_IB_DISABLE=1 NCCL_IB_HCA=\nsrun a\n")
    assert [one.rule for one in found] == ["ib-off"]


def test_rdma_devices_are_no_interfaces() -> None:
    """`NCCL_SOCKET_IFNAME=mlx5_0` does nothing unexported; exported it would stop the job."""
    (found,) = lint("NCCL_SOCKET_IFNAME=mlx5_0,mlx5_1\nsrun a\n")
    assert found.rule == "not-exported"
    assert found.remedy == "remove it: RDMA devices belong in NCCL_IB_HCA"


@pytest.mark.parametrize(("rule", "sure", "perhaps"), SURE)
def test_what_the_file_does_not_show_is_a_note(rule: str, sure: str, perhaps: str) -> None:
    """A script is accused where it shows the harm: NCCL, several nodes, a shared node, no test."""
    (grave,) = (one.severity for one in lint(sure) if one.rule == rule)
    assert grave is not Severity.NOTE
    assert [one.severity for one in lint(perhaps) if one.rule == rule] == [Severity.NOTE]


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ("export NCCL_IB_DISABLE=1\n", "ib-off"),
        ("export NCCL_NET=Socket\n", "net-socket"),
        ("export FI_PROVIDER=tcp\n", "fi-provider-tcp"),
        ("export NCCL_NET_GDR_LEVEL=LOC\n", "gdr-off"),
    ],
)
def test_rdma_that_is_turned_off_is_a_warning_where_there_is_some(line: str, rule: str) -> None:
    """Between nodes with RDMA NICs it is one; on Ethernet, or on a node alone, it is right."""
    for script, facts, severity in (
        (f"#SBATCH -N 2\n{line}", LintFacts(nics=("mlx5_0",)), Severity.WARNING),
        (line, LintFacts(nics=("mlx5_0",)), Severity.NOTE),
        (f"#SBATCH -N 2\n{line}", LintFacts(), Severity.NOTE),
    ):
        (found,) = (one for one in lint(script, facts=facts) if one.rule == rule)
        assert found.severity is severity


@pytest.mark.parametrize("line", ["NCCL_P2P_DISABLE=1", "NCCL_P2P_LEVEL=LOC"])
def test_p2p_that_is_turned_off_is_a_warning_where_there_is_some(line: str) -> None:
    """Consumer GPUs have no P2P, and libraries ask to turn it off there."""
    for directive, facts, severity in (
        ("#SBATCH --gres=gpu:a100:4\n", LintFacts(), Severity.WARNING),
        ("", LintFacts(has_nvlink=True), Severity.WARNING),
        ("#SBATCH --gres=gpu:rtx4090:4\n", LintFacts(), Severity.NOTE),
        ("#SBATCH --gres=gpu:4\n", LintFacts(has_nvlink=False), Severity.NOTE),
    ):
        (found,) = lint(f"{directive}export {line}\n", facts=facts)
        assert found.severity is severity
    (test,) = (
        one for one in lint("NCCL_P2P_DISABLE=1 NCCL_SHM_DISABLE=1 srun --gres=gpu:h100:8 a\n")
        if one.rule == "p2p-off"
    )  # fmt: skip
    assert test.severity is Severity.NOTE


def test_who_fails_without_an_interface_is_named() -> None:
    """`GLOO_SOCKET_IFNAME` is Gloo's, not NCCL's."""
    (found,) = lint("export GLOO_SOCKET_IFNAME=eth0\n")
    assert found.because.endswith("without a match Gloo fails")


def test_an_unknown_release_gives_notes() -> None:
    """What holds on newer releases alone is a note, and says since which, where none is known."""
    bounds = {
        rule.name: [NcclVersion.of(one) for one in (rule.since, rule.before) if one]
        for rule in LINT_RULES
    }
    names = {name for name, said in bounds.items() if said and max(said) > SURELY_SINCE}
    assert names
    for case in CASES:
        for one in lint(case.fires, case.name, facts=case.facts, library=case.library):
            if one.rule in names:
                assert one.severity is Severity.NOTE
                assert "NCCL 2." in one.because


def test_a_release_that_is_sure_raises_the_severity() -> None:
    """What fails on the one that is known, and what NCCL dropped before every one in use."""
    (found,) = lint("export NCCL_ALGO=Tree\n", nccl="2.27.3")
    assert (found.severity, found.since) == (Severity.ERROR, "2.24")
    (found,) = lint("export NCCL_TREE_THRESHOLD=0\n")
    assert (found.severity, found.since) == (Severity.WARNING, "2.5")


def test_a_line_of_releases_is_not_guessed() -> None:
    """Of 2.29 without its last number nothing is claimed that came with 2.29.7."""
    assert held_from(NcclVersion.of("2.29"), "2.29.7") is None
    assert held_before(NcclVersion.of("2.29"), "2.29.7") is None
    assert held_from(NcclVersion.of("2.29"), "2.29") is True
    assert held_from(NcclVersion.of("2.29.3"), "2.29.7") is False


def test_findings_come_by_line_and_gravity() -> None:
    """Findings are in the order of the lines, on one line the gravest first."""
    found = lint("export NCCL_CROSS_NIC=1\nexport UCX_LOG_LEVEL=debug NCCL_P2P_LEVEL=nvl\n")
    assert [(one.line_no, one.severity) for one in found] == [
        (1, Severity.NOTE),
        (2, Severity.ERROR),
        (2, Severity.WARNING),
    ]


@pytest.mark.parametrize(
    ("text", "rule", "fix"),
    [
        ("export NCCL_IB_HCA=^mlx5_1\n", "ib-hca-prefix", "NCCL_IB_HCA=^=mlx5_1"),
        (
            "export NCCL_NET_GDR_LEVEL=3\n",
            "level-number",
            "NCCL_NET_GDR_LEVEL=PHB, or remove it",
        ),
        ("srun --export=NONE a\n", "export-without-all", "--export=ALL"),
        ("srun --export=A=1,PATH a\n", "export-without-all", "--export=ALL,A=1,PATH"),
        ("srun --export=NONE,A=1 a\n", "export-without-all", "--export=ALL,A=1"),
    ],
)
def test_the_fix_can_be_taken_as_it_is(text: str, rule: str, fix: str) -> None:
    """It is the same list, exact, the word for a number, an export that srun takes as meant."""
    found = lint(f"export NCCL_NET=x\n{text}")
    assert [one.remedy for one in found if one.rule == rule] == [fix]


def test_the_value_that_never_counts_is_named() -> None:
    """Of two values the finding stands at the one that counts, and names the other's line."""
    (found,) = lint("export NCCL_SOCKET_IFNAME=ens\nexport NCCL_SOCKET_IFNAME=eno\nsrun a\n")
    assert (found.line_no, found.rule) == (2, "set-twice")
    assert "NCCL_SOCKET_IFNAME=ens on line 1 has no effect" in found.because
    assert lint("export TP_COMM_OVERLAP=1\nexport TP_COMM_OVERLAP=0\nsrun a\n") == ()
    (found,) = lint("NCCL_SOCKET_IFNAME=ens\nNCCL_SOCKET_IFNAME=eno\n", "nccl.conf")
    assert "set to ens here, so NCCL_SOCKET_IFNAME=eno on line 2 has no effect" in found.because


def test_a_value_is_shown_as_it_is() -> None:
    """Braces do no harm, and control characters are shown as escapes."""
    (found,) = lint("export NCCL_P2P_LEVEL='{0}{x}%s'\n")
    assert "{0}{x}%s" in found.because
    (found,) = lint("HOME=/h\nNCCL_DEBUG=\x1b[2Jx\n", "env")
    assert "\x1b" not in found.because


def test_a_variable_of_the_library_is_not_misspelt_on_amd() -> None:
    """RCCL reads names of its own, so none is called misspelt there."""
    assert lint("export NCCL_IB_SLX=1\n", library=CommLibrary.RCCL) == ()


def test_known_variables_are_not_one_another_misspelt() -> None:
    """No variable that NCCL reads is called misspelt."""
    text = "".join(f"export {one.name}=x\n" for one in NCCL_VARIABLES)
    assert "nccl-misspelt" not in {one.rule for one in lint(text)}


def test_what_hpckit_sets_too_may_still_be_set_the_wrong_way() -> None:
    """The value is fine; that the shell keeps it to itself is not."""
    text = "NCCL_NET_GDR_LEVEL=PHB\nsrun true\n"
    assert [one.rule for one in lint(text, facts=DERIVED)] == ["not-exported"]


def finding(
    line_no: int = 3,
    severity: Severity = Severity.NOTE,
    *,
    subject: str = "NCCL_DEBUG",
    because: str = "it is chatty",
    remedy: str = "remove it",
) -> LintFinding:
    """A finding about NCCL_DEBUG."""
    return LintFinding(
        rule="nccl-debug-info", line_no=line_no, severity=severity, subject=subject,
        because=because, remedy=remedy, source="env.rst", date="2026-11",
    )  # fmt: skip


def texts(*findings: LintFinding, width: int = 80, command: str | None = None) -> list[str]:
    """The lines of the screen."""
    shown = comm_lint_lines(findings, name="job.sh", width=width, command=command)
    return [line.text for line in shown]


def test_a_finding_has_its_line_and_its_fix() -> None:
    """The count comes first, then what is wrong on which line, what to do, and what shows more."""
    assert texts(finding(), command="hpckit tune --lint job.sh --json") == [
        "job.sh: 1 note",
        "note     line 3 NCCL_DEBUG: it is chatty",
        "         fix: remove it",
        "next  hpckit tune --lint job.sh --json",
    ]


def test_nothing_to_change() -> None:
    """A file without findings says so, and offers nothing."""
    assert texts(command="hpckit tune --lint job.sh --json") == ["job.sh: nothing to change"]


def test_the_gravest_come_first() -> None:
    """Errors stand before warnings and notes, whatever their lines."""
    shown = texts(finding(1), finding(2, Severity.WARNING), finding(3, Severity.ERROR))
    assert shown[0] == "job.sh: 1 error, 1 warning, 1 note"
    assert [line.split()[0] for line in shown[1::2]] == ["error", "warn", "note"]


def test_lines_fit() -> None:
    """No line is wider than it may be."""
    long = finding(because="a word and another one " * 9, remedy="remove it now " * 9)
    assert max(len(line) for line in texts(long, width=50)) <= 50


def test_many_findings_are_counted() -> None:
    """Of very many the rest is counted."""
    assert "… 5 more: --json shows all" in texts(*(finding(at) for at in range(1, 36)))


def test_a_name_hides_nothing() -> None:
    """What a terminal would obey is shown as escapes, and is in no command."""
    shown = texts(finding(subject="NCCL_\x1b[2J"), command="hpckit tune --lint \x1b")
    assert not any("\x1b" in line for line in shown)
    assert not any(line.startswith("next") for line in shown)
