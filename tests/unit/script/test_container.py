"""The container that ranks run in: its words, what is let in, and what keeps it from starting."""

from __future__ import annotations

import pytest

from hpckit.core.errors import ConfigError
from hpckit.core.findings import Level
from hpckit.script.container import closed_prefix, container_notices
from hpckit.slurm.values import SlurmConfig
from tests.fakes.prepared import prepared

BASE = 'name = "x"\ncommand = ["train"]\nresources.gpus_per_node = 1\n'
IMAGE = 'container.image = "a.sif"\n'
PYXIS = 'container.runtime = "pyxis"\n'


def script(text: str, site: str | None = "docker") -> str:
    """The script of a job, its continued lines joined."""
    return prepared(BASE + text, site=site).script.text.replace(" \\\n", "")


def step(text: str, site: str | None = "docker") -> str:
    """The line that starts the ranks."""
    lines = script(text, site).splitlines()
    return next(line for line in lines if "srun " in line and not line.startswith("#"))


def let_in(text: str, site: str | None = "docker") -> str | None:
    """The value of --container-env that the step has, None without."""
    words = step(text, site).split()
    return next((word.partition("=")[2] for word in words if "--container-env=" in word), None)


def test_without_an_image_nothing_is_said_of_containers() -> None:
    """A runtime or mounts alone, as a site may have them, start none."""
    assert "apptainer" not in script('container.mounts = ["/data"]\n')


@pytest.mark.parametrize(
    ("text", "site", "words"),
    [
        ("", "docker", ' exec --nv --bind "${HPCKIT_JOB_FOLDER:-$PWD}" --pwd "$PWD" a.sif '),
        ('resources.gpu_type = "mi250x"\n', "docker", "apptainer exec --rocm "),
        ("", "frontier", "apptainer exec --rocm "),
        ('container.runtime = "singularity"\n', "docker", "singularity exec --nv "),
        ("", "dgx-h100", " --container-image=a.sif "),
        ('container.mounts = ["/data:/d:ro"]\n', "docker", " --bind /data:/d:ro "),
        ('container.workdir = "/w"\n', "docker", " --pwd /w "),
        ('container.args = ["--fakeroot"]\n', "docker", "exec --nv --fakeroot "),
        ('container.mounts = ["~/d:/d"]\n', "docker", ' --bind "$HOME"/d:/d '),
        (PYXIS + 'container.mounts = ["~/d"]\n', "docker", ',$HOME/d:$HOME/d"'),
        (PYXIS, "docker", '--container-image=a.sif --container-workdir="$PWD"'),
        (PYXIS + 'container.mounts = ["/data"]\n', "docker", ':-$PWD},/data:/data"'),
        (PYXIS + 'container.args = ["--container-writable"]\n', "docker", " --container-writable "),
    ],
)  # fmt: skip
def test_what_starts_the_container(text: str, site: str | None, words: str) -> None:
    """The GPU's maker, the mounts and the folder follow from the job and its site."""
    assert words in step(IMAGE + text, site)


def test_an_image_in_the_home() -> None:
    """It is the home of whoever runs the job."""
    assert '"$HOME"/a.sif' in step('container.image = "~/a.sif"\n')


@pytest.mark.parametrize("runtime", ["apptainer", "pyxis"])
def test_the_rank_entry_runs_inside(runtime: str) -> None:
    """By the image's own Python: that of the login node need not be there."""
    assert 'hpckit_rank=(sh "${HPCKIT_INJOB' in script(f'{IMAGE}container.runtime = "{runtime}"\n')


def test_what_the_job_decides_wins_over_the_image() -> None:
    """A variable of the job's, or of its site, has the name that Apptainer puts first."""
    text = IMAGE + 'tune.env.NCCL_DEBUG = "INFO"\nenvironment.set.FOO = "1"\n'
    made = script(text)
    assert "for hpckit_i in FOO NCCL_DEBUG; do" in made
    assert 'export "APPTAINERENV_$hpckit_i=' in made
    assert "run --container FOO,NCCL_DEBUG --measure 1 --" in made


def test_pyxis_is_told_names() -> None:
    """Secrets too, whose values no script has; the user's own come first, and none twice."""
    text = IMAGE + PYXIS + 'tune.env.NCCL_DEBUG = "INFO"\nenvironment.secrets = ["KEY"]\n'
    assert let_in(text) == "NCCL_DEBUG,KEY"
    own = 'container.args = ["--container-env=MINE,KEY"]\n'
    assert let_in(text + own) == "MINE,KEY,NCCL_DEBUG"
    of_site = step(IMAGE, "gcp-a3-high")
    assert "LD_LIBRARY_PATH" in of_site.partition("--container-env=")[2].split()[0]
    extra = 'tune.env.NCCL_DEBUG = "INFO"\nslurm.srun_extra = { container-image = "x" }\n'
    assert let_in(extra) == "NCCL_DEBUG"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('environment.venv = "v"\n', "the container does not see it"),
        ('container.args = ["--cleanenv"]\n', "ranks know their number"),
        ('container.args = ["x"]\n', "starts with a dash"),
        ('container.mounts = ["$HOME"]\n', "FROM[:TO[:ro]]"),
        ('container.mounts = ["data"]\n', "absolute paths"),
        ('container.args = ["--compat"]\n', "ranks know their number"),
        ('container.runtime = "docker"\n', "apptainer, singularity, pyxis"),
    ],
)
def test_what_is_refused(text: str, expected: str) -> None:
    """What would be lost without a word, or is not understood."""
    with pytest.raises(ConfigError) as raised:
        script(IMAGE + text)
    assert expected in str(raised.value)


@pytest.mark.parametrize(
    ("text", "has_pyxis", "found"),
    [
        (IMAGE + PYXIS, False, [Level.ERROR]),
        ('slurm.srun_extra = { container-image = "x" }\n', False, [Level.ERROR]),
        (IMAGE + PYXIS, True, []),
        (IMAGE + PYXIS, None, []),
        (IMAGE, False, []),
    ],
)
def test_srun_without_the_plugin(text: str, *, has_pyxis: bool | None, found: list[Level]) -> None:
    """The job is refused where srun is certain not to know the options."""
    plan = prepared(BASE + text).plan
    notices = container_notices(plan, SlurmConfig(has_pyxis=has_pyxis))
    assert [one.level for one in notices] == found


@pytest.mark.parametrize(
    ("command", "prefix"),
    [
        (("apptainer", "exec", "--cleanenv", "a.sif", "x"), "APPTAINERENV_"),
        (("/usr/bin/singularity", "run", "-C", "a.sif"), "SINGULARITYENV_"),
        (("apptainer", "exec", "-e", "docker://a", "x"), "APPTAINERENV_"),
        (("apptainer", "exec", "--nv", "a.sif", "x"), None),
        (("apptainer", "exec", "a.sif", "x", "-e"), None),
        (("apptainer", "pull", "-e", "a.sif"), None),
        (("python", "-e"), None),
    ],
)
def test_a_closed_container_needs_names_of_its_own(
    command: tuple[str, ...], prefix: str | None
) -> None:
    """Apptainer's closed containers let in what has its prefix; open ones take everything."""
    assert closed_prefix(command) == prefix
