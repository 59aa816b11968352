"""Manifests: valid against the published CRDs, the job's own words in them, and what is refused."""

from __future__ import annotations

import hashlib
import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from hpckit.core.errors import PlanError
from hpckit.script.kubernetes import Cluster, ManifestKind, manifest
from tests.fakes.cli_jobs import call, document
from tests.fakes.prepared import prepared

RECORDS = Path(__file__).parents[2] / "records" / "kubernetes-crds"
IMAGE = 'container.image = "nvcr.io#nvidia/pytorch:25.01-py3"\n'
BASE = 'name = "Llama 70b"\ncommand = ["train", "--out=$(date)"]\n'
LEVEL = "cloud.google.com/gce-topology-block"
FULL = """\
container.mounts = ["/lustre/data:/data:ro", "/scratch"]
container.workdir = "/work"
environment.set = { FOO = "$(x)" }
environment.secrets = ["WANDB_API_KEY"]
tune.env.NCCL_DEBUG = "WARN"
slurm.qos = "high"
[resources]
nodes = 4
gpus_per_node = 8
cpus_per_task = 2
mem = "1500G"
time_limit = "1-00:00:00"
"""


def rendered(
    text: str, kind: ManifestKind | None = None, cluster: Cluster | None = None
) -> tuple[str, Any]:
    """The heading and the document that a job becomes."""
    job = prepared(BASE + IMAGE + text, site="docker")
    told = manifest(job.effective, job.plan, job.site, cluster or Cluster(), kind)
    return told, yaml.safe_load(told)


def strict(schema: Any) -> Any:
    """The schema that takes no other keys than it has, as `kubectl --validate=strict` does."""
    if isinstance(schema, list):
        return [strict(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: strict(value) for key, value in schema.items()}
    if schema.get("type") == "object" and "properties" in schema:
        made["additionalProperties"] = False
    return made


@cache
def validator(name: str) -> jsonschema.Draft202012Validator:
    """What checks a manifest; a CRD leaves metadata to Kubernetes."""
    schema = json.loads((RECORDS / f"{name}.json").read_text())
    made = strict(schema)
    made["properties"]["metadata"] = {"type": "object"}
    return jsonschema.Draft202012Validator(made)


def pod(document: Any, role: str = "Worker") -> Any:
    """The one container of a pod's template."""
    spec = document["spec"]
    if document["kind"] == "JobSet":
        template = spec["replicatedJobs"][0]["template"]["spec"]["template"]
    else:
        template = spec.get("pytorchReplicaSpecs", spec.get("mpiReplicaSpecs"))[role]["template"]
    (container,) = template["spec"]["containers"]
    return container


@pytest.mark.parametrize("more", ["", FULL])
@pytest.mark.parametrize(
    ("launcher", "kind", "schema"),
    [
        ("torchrun", None, "jobset"),
        ("plain", None, "jobset"),
        ("torchrun", ManifestKind.PYTORCHJOB, "pytorchjob"),
        ("plain", ManifestKind.PYTORCHJOB, "pytorchjob"),
        ("mpi", None, "mpijob"),
    ],
)
def test_it_is_valid(launcher: str, kind: ManifestKind | None, schema: str, more: str) -> None:
    """Against the CRD, without a key that it does not know, and without YAML's aliases."""
    level = None if kind is ManifestKind.PYTORCHJOB else LEVEL
    cluster = Cluster(queue="gpu", level=level)
    told, document = rendered(f'launch.kind = "{launcher}"\n{more}', kind, cluster)
    validator(schema).validate(document)
    assert "&id" not in told
    assert document["metadata"]["name"] == "llama-70b"
    assert document["metadata"]["labels"] == {"kueue.x-k8s.io/queue-name": "gpu"}


def test_a_job_of_torchrun() -> None:
    """A pod a node, which torchrun knows by its index; what looks like a variable stays text."""
    _, document = rendered('launch.kind = "torchrun"\n' + FULL)
    container = pod(document)
    assert container["image"] == "nvcr.io/nvidia/pytorch:25.01-py3"
    assert container["command"] == [
        "torchrun", "--nnodes=4", "--nproc-per-node=8", "--node-rank=$(NODE_RANK)",
        "--master-addr=$(MASTER_ADDR)", "--master-port=$(MASTER_PORT)", "--no-python",
        "train", "--out=$$(date)",
    ]  # fmt: skip
    env = {one["name"]: one.get("value") for one in container["env"]}
    assert env["MASTER_ADDR"] == "llama-70b-node-0-0.llama-70b"
    assert (env["FOO"], env["NCCL_DEBUG"]) == ("$$(x)", "WARN")
    assert container["resources"]["limits"] == {
        "cpu": "16", "memory": "1536000Mi", "nvidia.com/gpu": "8"
    }  # fmt: skip
    mounts = {one["mountPath"]: one.get("readOnly", False) for one in container["volumeMounts"]}
    assert mounts == {"/dev/shm": False, "/data": True, "/scratch": False}
    assert container["workingDir"] == "/work"
    pods = document["spec"]["replicatedJobs"][0]["template"]["spec"]
    assert (pods["parallelism"], pods["completions"]) == (4, 4)
    assert pods["activeDeadlineSeconds"] == 86400


def test_a_secret_is_a_reference() -> None:
    """Its value is nowhere; how to make it is said."""
    told, document = rendered(FULL)
    (secret,) = (one for one in pod(document)["env"] if one["name"] == "WANDB_API_KEY")
    reference = {"name": "llama-70b-secrets", "key": "WANDB_API_KEY"}
    assert secret["valueFrom"] == {"secretKeyRef": reference}
    assert "# before you apply it: kubectl create secret generic llama-70b-secrets" in told


def test_what_is_not_carried_over_is_said() -> None:
    """By key, those of the site too."""
    told, _ = rendered(FULL)
    assert "# no effect on Kubernetes: slurm.partition, slurm.qos\n" in told
    assert "# no effect on Kubernetes: parallel.data, parallel.tensor, " in rendered(
        "parallel = { tensor = 16, data = 2 }\nlaunch.kind = 'torchrun'\n" + FULL
    )[0]  # fmt: skip


@pytest.mark.parametrize(
    ("tensor", "annotations"),
    [
        (8, None),
        (16, {"kueue.x-k8s.io/podset-slice-required-topology": LEVEL,
              "kueue.x-k8s.io/podset-slice-size": "2"}),
        (32, {"kueue.x-k8s.io/podset-required-topology": LEVEL}),
    ],
)  # fmt: skip
def test_groups_stay_in_a_block(tensor: int, annotations: dict[str, str] | None) -> None:
    """As Slurm's --segment keeps them, where the cluster says what a block is."""
    text = f"parallel = {{ tensor = {tensor}, data = {32 // tensor} }}\nlaunch.kind = 'torchrun'\n"
    _, document = rendered(text + FULL, cluster=Cluster(level=LEVEL))
    pods = document["spec"]["replicatedJobs"][0]["template"]["spec"]
    assert pods["template"].get("metadata", {}).get("annotations") == annotations
    told, _ = rendered(text + FULL)
    assert ("--topology-level LABEL" in told) == (annotations is not None)


def test_a_job_of_mpi() -> None:
    """Mpirun in a launcher without GPUs, which hands the variables on; sshd in the workers."""
    _, document = rendered('launch.kind = "mpi"\n' + FULL)
    launcher = pod(document, "Launcher")
    handed = [
        "-x",
        "PATH",
        "-x",
        "LD_LIBRARY_PATH",
        "-x",
        "FOO",
        "-x",
        "NCCL_DEBUG",
        "-x",
        "WANDB_API_KEY",
    ]
    assert launcher["command"] == ["mpirun", "--allow-run-as-root", "-n", "32", *handed, "train",
                                   "--out=$$(date)"]  # fmt: skip
    assert "resources" not in launcher
    assert pod(document)["command"] == ["/usr/sbin/sshd", "-De"]
    assert document["spec"]["slotsPerWorker"] == 8


def test_words_that_yaml_may_take_for_something_else() -> None:
    """They are quoted, as kubectl reads numbers and truth values where PyYAML reads text."""
    told, document = rendered(
        'environment.set = { A = "1e-4", B = "y", C = "on", E = "-1e4", D = "pa$$word" }\n'
    )
    for text in ('value: "1e-4"', 'value: "y"', 'value: "on"', 'value: "-1e4"'):
        assert text in told
    env = {one["name"]: one.get("value") for one in pod(document)["env"]}
    assert env["D"] == "pa$$$$word"


def test_what_the_manifest_says_itself_is_there_once() -> None:
    """A variable of the job's own does not stand beside it."""
    _, document = rendered('environment.set = { MASTER_ADDR = "x", RANK = "9" }\n')
    names = [one["name"] for one in pod(document)["env"]]
    assert len(names) == len(set(names))
    assert {one["name"]: one.get("value") for one in pod(document)["env"]}["RANK"] == "$(NODE_RANK)"


def test_what_a_sites_nodes_have_is_no_pods() -> None:
    """An interface of the host is none of the pod's; it is named."""
    text = "resources = { nodes = 2, gpus_per_node = 8 }\n"
    job = prepared(BASE + IMAGE + text, site="gcp-a3-high")
    told = manifest(job.effective, job.plan, job.site, Cluster())
    assert "NCCL_" not in told.partition("apiVersion")[2]
    assert "# not set, because it is for the site's nodes, not for pods: " in told


@pytest.mark.parametrize("name", ["7b-pretrain", "...", "Ünï"])
def test_a_name_begins_with_a_letter(name: str) -> None:
    """All three operators want that."""
    job = prepared(f'name = "{name}"\ncommand = ["x"]\n{IMAGE}', site="docker")
    found = yaml.safe_load(manifest(job.effective, job.plan, job.site, Cluster()))
    assert re.fullmatch("[a-z]([a-z0-9-]*[a-z0-9])?", found["metadata"]["name"])


def test_a_pytorchjob_is_not_kept_in_a_block() -> None:
    """Its first pod is a kind of its own to Kueue."""
    with pytest.raises(PlanError, match="apart from the others"):
        rendered("resources.nodes = 4\n", ManifestKind.PYTORCHJOB, Cluster(level=LEVEL))


def test_gpus_of_amd() -> None:
    """They are another resource."""
    _, document = rendered('resources = { gpus_per_node = 8, gpu_type = "mi300x" }\n')
    assert pod(document)["resources"]["limits"] == {"amd.com/gpu": "8"}


def test_the_command_prints_it() -> None:
    """`hpckit render --scheduler kubernetes`; what is for Kubernetes alone is refused for Slurm."""
    job = ("--site", "docker", "--set", "container.image=a/b:1", "--queue", "gpu", "--", "train")
    told = call("render", "--scheduler", "kubernetes", *job).stdout
    assert yaml.safe_load(told)["kind"] == "JobSet"
    printed = document("render", "--json", "--scheduler", "pytorchjob", *job)
    assert yaml.safe_load(printed["script"])["kind"] == "PyTorchJob"
    assert hashlib.sha256(printed["script"].encode()).hexdigest() == printed["script_sha256"]
    refused = call("render", *job)
    assert refused.exit_code == 2
    assert "need --scheduler kubernetes" in refused.output


@pytest.mark.parametrize(
    ("text", "kind", "said"),
    [
        ('container.image = "a.sif"\n', None, "an image from a registry"),
        ('container.image = "oras://a/b"\n', None, "an image from a registry"),
        ('container.image = "docker://"\n', None, "an image from a registry"),
        ('container.image = "a/B c"\n', None, "an image from a registry"),
        ('launch.kind = "ray"\n', None, "Kubernetes cannot run ray"),
        ('launch.kind = "mpi"\n', ManifestKind.JOBSET, "a jobset cannot run mpi"),
        ('slurm.array = "0-3"\n', None, "a manifest is one job"),
        ("resources.ntasks_per_node = 2\n", None, "a pod starts one process"),
        ('container.mounts = ["~/data:/data"]\n', None, "does not have your home folder"),
    ],
)
def test_what_is_refused(text: str, kind: ManifestKind | None, said: str) -> None:
    """What a manifest cannot say without meaning another job."""
    image = "" if "container.image" in text else IMAGE
    job = prepared(BASE + image + text, site="docker")
    with pytest.raises(PlanError, match=said):
        manifest(job.effective, job.plan, job.site, Cluster(), kind)
