"""What containers are told to let in."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hpckit.script.launch import closed_prefix, with_container_env
from hpckit.script.plan import Option
from hpckit.spec.platform import CommEnv, CommSetting, ContainerSite, SettingOrigin
from hpckit.spec.site import generic_site

IMAGE = Option(name="container-image", value="nvcr.io#nvidia/pytorch")
SITE = generic_site()
COMM = CommEnv(
    settings=(
        CommSetting(
            name="NCCL_NET", value="x", because="y", source="z", origin=SettingOrigin.RULE, rule="r"
        ),
    )
)


def let_in(*options: Option, comm: CommEnv = COMM) -> str | None:
    """The value of --container-env that the step has, None without."""
    made = with_container_env(options, comm, SITE)
    return next((one.value for one in made if one.name == "container-env"), None)


def test_a_step_without_a_container_is_as_it_was() -> None:
    """Nothing is added to a step that runs no container."""
    assert with_container_env((Option(name="label"),), COMM, SITE) == (Option(name="label"),)


def test_what_the_script_exports_is_let_in() -> None:
    """An image that sets the same variable does not win."""
    assert let_in(IMAGE) == "NCCL_NET"


def test_the_user_s_own_list_stays() -> None:
    """The user's names come first, and none twice."""
    own = Option(name="container-env", value="MY_TOKEN,NCCL_NET")
    assert let_in(IMAGE, own) == "MY_TOKEN,NCCL_NET"


def test_nothing_to_let_in_says_nothing() -> None:
    """Without variables there is no option."""
    assert let_in(IMAGE, comm=CommEnv()) is None


def test_a_site_may_name_more() -> None:
    """What the site's containers need besides is let in too."""
    site = replace(SITE, container=ContainerSite(variables=("LD_LIBRARY_PATH",)))
    (_, option) = with_container_env((IMAGE,), COMM, site)
    assert option.value == "NCCL_NET,LD_LIBRARY_PATH"


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
