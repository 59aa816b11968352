"""A job as a manifest for Kubernetes: a JobSet, a PyTorchJob or an MPIJob, and what it cannot say.

Nothing is sent anywhere. Sources: JobSet, api/jobset/v1alpha2 (pods are called
JOBSET-REPLICATEDJOB-0-INDEX in the subdomain JOBSET); Kubeflow Training Operator v1, PyTorchJob
(containers are called `pytorch`, torchrun's options come as PET_*); Kubeflow MPI Operator v2beta1;
Kueue, Topology-Aware Scheduling; Kubernetes, Define Dependent Environment Variables.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

from hpckit.core.errors import PlanError
from hpckit.core.late import regex
from hpckit.core.units import parse_slurm_mem_bytes, parse_slurm_time_s
from hpckit.core.values import dataclass
from hpckit.script.container import has_amd_gpus, is_image_file
from hpckit.script.plan import LaunchPlan
from hpckit.script.segment import GroupNodes, group_nodes
from hpckit.spec.job import JobSpec
from hpckit.spec.merge import EffectiveJob, OriginKind
from hpckit.spec.platform import CommSetting, SettingOrigin
from hpckit.spec.site import SiteSpec


class ManifestKind(StrEnum):
    """What a job becomes."""

    JOBSET = "jobset"
    PYTORCHJOB = "pytorchjob"
    MPIJOB = "mpijob"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """What the job file does not tell of a Kubernetes cluster, None for none.

    `queue` is Kueue's, `level` the label of nodes that says their block, such as
    `cloud.google.com/gce-topology-block`.
    """

    queue: str | None = None
    level: str | None = None


_STARTS: Final[Mapping[str, tuple[ManifestKind, ...]]] = {
    "plain": (ManifestKind.JOBSET, ManifestKind.PYTORCHJOB),
    "torchrun": (ManifestKind.JOBSET, ManifestKind.PYTORCHJOB),
    "mpi": (ManifestKind.MPIJOB,),
}
"""Launchers → what starts them, the usual one first."""
_CARRIED: Final = frozenset(
    (
        *("schema", "name", "command", "launch.kind", "launch.args", "container.image"),
        *("container.mounts", "container.workdir", "resources.nodes", "resources.gpus_per_node"),
        *("resources.ntasks_per_node", "resources.cpus_per_task", "resources.mem"),
        *("resources.time_limit", "environment.secrets", "tune.derive", "tune.nccl"),
        *("tune.plugin", "tune.overlays", "account.enabled"),
    )
)
_REFERENCE: Final = regex(
    r"([a-z0-9.-]+(:\d+)?/)?[a-z0-9]+([._/-]+[a-z0-9]+)*(:\w[\w.-]*)?(@sha256:[0-9a-f]{64})?",
    re.ASCII,
)
"""A registry's name of an image, after distribution's reference.go."""
_CARRIED_TABLES: Final = ("environment.set.", "tune.env.")
_PLAIN: Final = regex(r"(--?)?[A-Za-z/$][A-Za-z0-9_./:@$()=-]*", re.ASCII)
_WORDS: Final = frozenset(("y", "n", "yes", "no", "on", "off", "true", "false", "null"))
"""What YAML 1.1 takes for something else than text, which `kubectl` reads."""
_MOST_NAME: Final = 40
"""Of 63 characters that a pod's name may have, the rest is for the operator's own."""
_PORT: Final = 29500
"""A pod has its own address, so the port is free."""
_SHARED: Final = "/dev/shm"  # noqa: S108  the pod's
_NODE: Final = "node"
_INDEX: Final = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
_MIB: Final = 1024**2


def manifest(
    effective: EffectiveJob,
    plan: LaunchPlan,
    site: SiteSpec,
    cluster: Cluster,
    kind: ManifestKind | None = None,
) -> str:
    """Return the manifest as YAML, headed by what it does not carry over.

    `kind` None is the usual one for the job's launcher. Raises PlanError for a job that Kubernetes
    cannot run so.
    """
    import yaml

    spec = effective.spec
    kind = _kind(spec, kind)
    _refuse(spec, kind, cluster)
    build = {
        ManifestKind.JOBSET: _jobset,
        ManifestKind.PYTORCHJOB: _pytorchjob,
        ManifestKind.MPIJOB: _mpijob,
    }[kind]
    document = build(_Job(spec, plan, site, cluster))

    class Dumper(yaml.SafeDumper):
        """Quotes what a reader of another YAML would take for a number or a truth value."""

        def ignore_aliases(self, data: object) -> bool:
            """What stands in two places is written twice."""
            return True

    def text_node(dumper: Dumper, text: str) -> yaml.ScalarNode:
        style = None if _PLAIN.fullmatch(text) and text.lower() not in _WORDS else '"'
        return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)

    Dumper.add_representer(str, text_node)
    text = yaml.dump(document, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=120)
    heading = _heading(effective, plan, kind, cluster)
    return "".join(f"# {line}\n" for line in heading) + str(text)


def _kind(spec: JobSpec, kind: ManifestKind | None) -> ManifestKind:
    kinds = _STARTS.get(spec.launch.kind, ())
    if kind is None and kinds:
        return kinds[0]
    if kind is None or kind not in kinds:
        wanted = "Kubernetes" if kind is None else f"a {kind}"
        fitting = [name for name, known in _STARTS.items() if kind is None or kind in known]
        raise PlanError(
            f"{wanted} cannot run {spec.launch.kind}",
            have=f'launch.kind = "{spec.launch.kind}"',
            need=" or ".join(fitting),
            hint=f"--scheduler {kinds[0]}" if kinds else 'launch.kind = "torchrun"',
        )
    return kind


def _refuse(spec: JobSpec, kind: ManifestKind, cluster: Cluster) -> None:
    home = [mount for mount in spec.container.mounts if mount.startswith("~")]
    if home:
        raise PlanError(
            "a pod does not have your home folder",
            have=f"container.mounts with {home[0]}",
            need="absolute paths on the node",
            hint="give the absolute path of the folder",
        )
    if kind is ManifestKind.PYTORCHJOB and cluster.level and spec.resources.nodes > 1:
        raise PlanError(
            "Kueue places the first pod of a PyTorchJob apart from the others",
            have="--scheduler pytorchjob --topology-level",
            need="one kind of pod",
            hint="--scheduler jobset",
        )
    image = spec.container.image
    if image is None or is_image_file(image) or not _REFERENCE.fullmatch(_image(spec)):
        raise PlanError(
            "a pod needs an image from a registry",
            have="no container.image" if image is None else f"container.image = {image!r}",
            need="a name such as nvcr.io/nvidia/pytorch:25.01-py3",
            hint="--set container.image=NAME",
        )
    if spec.slurm.array is not None:
        raise PlanError(
            "a manifest is one job",
            have=f"slurm.array = {spec.slurm.array!r}",
            need="no array",
            hint="remove slurm.array to render one task",
        )
    if spec.launch.kind == "plain" and spec.ntasks_per_node > 1:
        raise PlanError(
            "a pod starts one process",
            have=f"{spec.ntasks_per_node} ranks per node",
            need='1 rank per node, or launch.kind = "torchrun", which starts several',
            hint="--ntasks-per-node 1",
        )


def _heading(
    effective: EffectiveJob, plan: LaunchPlan, kind: ManifestKind, cluster: Cluster
) -> Iterator[str]:
    spec = effective.spec
    yield f"{kind} of job {effective.digest[:12]}, rendered by hpckit; nothing was submitted"
    lost = [
        one.key
        for one in effective.origins
        if one.origin is not OriginKind.DEFAULT
        and one.key not in _CARRIED
        and not one.key.startswith(_CARRIED_TABLES)
        and not (one.key.startswith("parallel.") and _slice(spec, cluster))
    ]
    if lost:
        yield f"no effect on Kubernetes: {', '.join(sorted(lost))}"
    of_nodes = [one.name for one in plan.communication if not _is_of_job(one)]
    of_nodes += [] if plan.profile is None else [plan.profile.path]
    if of_nodes:
        yield f"not set, because it is for the site's nodes, not for pods: {', '.join(of_nodes)}"
    if kind is ManifestKind.MPIJOB:
        yield "ranks get their number from MPI only: RANK and MASTER_ADDR are not set"
    group = group_nodes(spec)
    if group is not None and cluster.level is None:
        yield (
            f"a {group.axis} group needs {group.nodes} nodes: --topology-level LABEL keeps them "
            "in one block"
        )
    if spec.environment.secrets:
        names = " ".join(f"--from-literal={name}=..." for name in spec.environment.secrets)
        yield f"before you apply it: kubectl create secret generic {_name(spec)}-secrets {names}"
    yield (
        "hpckit's runner does not run in pods: no node order, no binding, no measurement, no report"
    )


def _is_of_job(setting: CommSetting) -> bool:
    return setting.origin is SettingOrigin.JOB and not setting.is_expanded


def _slice(spec: JobSpec, cluster: Cluster) -> GroupNodes | None:
    """The groups that stay in one block, where the cluster says what a block is."""
    return group_nodes(spec) if cluster.level is not None else None


class _Job:
    """What the three kinds share."""

    def __init__(self, spec: JobSpec, plan: LaunchPlan, site: SiteSpec, cluster: Cluster) -> None:
        self.spec = spec
        self.nodes = spec.resources.nodes
        self.name = _name(spec)
        self._plan = plan
        self._site = site
        self._cluster = cluster

    def metadata(self) -> dict[str, Any]:
        """The name, and Kueue's queue."""
        queue = self._cluster.queue
        labels = {} if queue is None else {"labels": {"kueue.x-k8s.io/queue-name": queue}}
        return {"name": self.name, **labels}

    def pod_metadata(self) -> dict[str, Any]:
        """Kueue's request for nodes of one block, as Slurm has `--segment`."""
        group = _slice(self.spec, self._cluster)
        if group is None or self._cluster.level is None:
            return {}
        whole = {"kueue.x-k8s.io/podset-required-topology": self._cluster.level}
        sliced = {
            "kueue.x-k8s.io/podset-slice-required-topology": self._cluster.level,
            "kueue.x-k8s.io/podset-slice-size": str(group.nodes),
        }
        return {"metadata": {"annotations": whole if group.nodes >= self.nodes else sliced}}

    @property
    def deadline_s(self) -> dict[str, int]:
        """The time limit."""
        limit = self.spec.resources.time_limit
        return {} if limit is None else {"activeDeadlineSeconds": parse_slurm_time_s(limit)}

    def pod(self, container: str, command: Sequence[str], own: Sequence[dict[str, Any]]) -> Any:
        """A pod's template: the job's image, variables, resources and folders."""
        mounts = [*self._mounts()]
        if _SHARED not in (path for _, path, _ in mounts):
            mounts.insert(0, ("dshm", _SHARED, False))
        names = {one["name"] for one in own}
        env = [*own, *(one for one in self._variables() if one["name"] not in names)]
        described = {
            "name": container,
            "image": _image(self.spec),
            "command": list(command),
            **({} if self.spec.container.workdir is None
               else {"workingDir": self.spec.container.workdir}),
            **({"env": env} if env else {}),
            **self._resources(),
            "volumeMounts": [
                {"name": name, "mountPath": path, **({"readOnly": True} if is_read_only else {})}
                for name, path, is_read_only in mounts
            ],
        }  # fmt: skip
        spec = {"containers": [described], "volumes": self._volumes()}
        return {**self.pod_metadata(), "spec": spec}

    def _variables(self) -> Iterator[dict[str, Any]]:
        said = {**self.spec.environment.set}
        said |= {one.name: one.value for one in self._plan.communication if _is_of_job(one)}
        yield from ({"name": name, "value": _literal(value)} for name, value in said.items())
        for name in self.spec.environment.secrets:
            reference = {"name": f"{self.name}-secrets", "key": name}
            yield {"name": name, "valueFrom": {"secretKeyRef": reference}}

    def _resources(self) -> dict[str, Any]:
        request = self.spec.resources
        wanted: dict[str, str] = {}
        if request.cpus_per_task is not None:
            wanted["cpu"] = str(request.cpus_per_task * self.spec.ntasks_per_node)
        mem_bytes = parse_slurm_mem_bytes(request.mem) if request.mem else 0
        if mem_bytes:
            wanted["memory"] = f"{-(-mem_bytes // _MIB)}Mi"
        if request.gpus_per_node:
            maker = "amd.com" if has_amd_gpus(self.spec, self._site) else "nvidia.com"
            wanted[f"{maker}/gpu"] = str(request.gpus_per_node)
        return {"resources": {"limits": wanted}} if wanted else {}

    def _mounts(self) -> Iterator[tuple[str, str, bool]]:
        for at, mount in enumerate(self.spec.container.mounts):
            source, _, rest = mount.partition(":")
            target, _, flags = rest.partition(":")
            yield f"mount-{at}", target or source, flags == "ro"

    def _volumes(self) -> list[dict[str, Any]]:
        # NCCL and data loaders share memory; a pod has 64 MiB of it by itself.
        shared: dict[str, Any] = {"name": "dshm", "emptyDir": {"medium": "Memory"}}
        sources = [mount.partition(":")[0] for mount in self.spec.container.mounts]
        return [shared, *({"name": f"mount-{at}", "hostPath": {"path": source}}
                          for at, source in enumerate(sources))]  # fmt: skip


def _jobset(job: _Job) -> dict[str, Any]:
    command, own = _on_a_node(job)
    pods: dict[str, Any] = {
        "parallelism": job.nodes,
        "completions": job.nodes,
        "completionMode": "Indexed",
        "backoffLimit": 0,
        **job.deadline_s,
        "template": job.pod("ranks", command, own),
    }
    pods["template"]["spec"]["restartPolicy"] = "Never"
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": job.metadata(),
        "spec": {
            "failurePolicy": {"maxRestarts": 0},
            "replicatedJobs": [{"name": _NODE, "replicas": 1, "template": {"spec": pods}}],
        },
    }


def _on_a_node(job: _Job) -> tuple[list[str], list[dict[str, Any]]]:
    """What one pod of a JobSet runs, and the variables by which the pods find each other."""
    spec, command = job.spec, [_literal(word) for word in job.spec.command]
    own: list[dict[str, Any]] = [
        {"name": "NODE_RANK", "valueFrom": {"fieldRef": {"fieldPath": _INDEX}}},
        {"name": "MASTER_ADDR", "value": f"{job.name}-{_NODE}-0-0.{job.name}"},
        {"name": "MASTER_PORT", "value": str(_PORT)},
    ]
    if spec.launch.kind == "torchrun":
        options = [f"--nnodes={job.nodes}", f"--nproc-per-node={spec.ntasks_per_node}"]
        meeting = ["--master-addr=$(MASTER_ADDR)", "--master-port=$(MASTER_PORT)"]
        args = [_literal(word) for word in spec.launch.args]
        start = ["torchrun", *options, "--node-rank=$(NODE_RANK)", *meeting, *args, "--no-python"]
        return [*start, *command], own
    identity = {"RANK": "$(NODE_RANK)", "WORLD_SIZE": str(job.nodes), "LOCAL_RANK": "0",
                "LOCAL_WORLD_SIZE": "1"}  # fmt: skip
    return command, [*own, *({"name": name, "value": value} for name, value in identity.items())]


def _pytorchjob(job: _Job) -> dict[str, Any]:
    spec = job.spec
    command = [_literal(word) for word in spec.command]
    own = [{"name": "LOCAL_RANK", "value": "0"}, {"name": "LOCAL_WORLD_SIZE", "value": "1"}]
    if spec.launch.kind == "torchrun":
        command = ["torchrun", *map(_literal, spec.launch.args), "--no-python", *command]
        own = []
    counts = {"Master": 1, "Worker": job.nodes - 1}
    replicas = {
        role: {"replicas": count, "restartPolicy": "Never",
               "template": job.pod("pytorch", command, own)}
        for role, count in counts.items()
        if count
    }  # fmt: skip
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": job.metadata(),
        "spec": {
            "runPolicy": {"cleanPodPolicy": "Running", "backoffLimit": 0, **job.deadline_s},
            "nprocPerNode": str(spec.ntasks_per_node),
            "pytorchReplicaSpecs": replicas,
        },
    }


def _mpijob(job: _Job) -> dict[str, Any]:
    spec = job.spec
    names = [word for name in _let_through(job) for word in ("-x", name)]
    start = ["mpirun", "--allow-run-as-root", "-n", str(spec.ntasks), *names]
    command = [*start, *map(_literal, spec.command)]
    launcher = job.pod("launcher", command, ())
    launcher["spec"]["containers"][0].pop("resources", None)
    launcher.pop("metadata", None)
    worker = job.pod("worker", ("/usr/sbin/sshd", "-De"), ())
    return {
        "apiVersion": "kubeflow.org/v2beta1",
        "kind": "MPIJob",
        "metadata": job.metadata(),
        "spec": {
            "slotsPerWorker": spec.ntasks_per_node,
            "launcherCreationPolicy": "WaitForWorkersReady",
            "runPolicy": {"cleanPodPolicy": "Running", "backoffLimit": 0, **job.deadline_s},
            "mpiReplicaSpecs": {
                "Launcher": {"replicas": 1, "restartPolicy": "Never", "template": launcher},
                "Worker": {"replicas": job.nodes, "restartPolicy": "Never", "template": worker},
            },
        },
    }


def _let_through(job: _Job) -> Iterator[str]:
    """The variables that mpirun hands to its ranks, and what ssh does not bring along."""
    pod = job.pod("launcher", (), ())
    yield from ("PATH", "LD_LIBRARY_PATH")
    yield from (one["name"] for one in pod["spec"]["containers"][0].get("env", ()))


def _name(spec: JobSpec) -> str:
    """The job's name as operators take it: an RFC 1035 label, with room for what is added."""
    name = re.sub(r"[^a-z0-9]+", "-", spec.name.lower()).strip("-")
    name = name if name[:1].isalpha() else f"job-{name}"
    return name[:_MOST_NAME].rstrip("-")


def _image(spec: JobSpec) -> str:
    """The image as a registry has it: without Apptainer's `docker://` and Enroot's `#`."""
    return (spec.container.image or "").removeprefix("docker://").replace("#", "/", 1)


def _literal(text: str) -> str:
    """A word as Kubernetes gives it on: of `$$` it makes `$`, and `$(NAME)` it expands."""
    return text.replace("$", "$$")
