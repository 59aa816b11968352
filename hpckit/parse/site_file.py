"""The site file: what is true of a cluster."""

from __future__ import annotations

from collections.abc import Callable

from hpckit.errors import ConfigError
from hpckit.model.job import JOB_SCHEMA, JobSpec
from hpckit.model.site import SITE_SCHEMA, SiteSpec
from hpckit.parse.document import convert, parse_toml, refuse_other_document
from hpckit.parse.job_file import effective_job, option_layer, site_layer

_PROBE = {"name": ("probe", "a probe job"), "command": (["true"], "a probe job")}


def parse_site_file(
    text: str,
    source: str,
    expected_name: str | None = None,
    refuse: Callable[[JobSpec], None] | None = None,
) -> SiteSpec:
    """The site in TOML `text`; its `[job]` defaults are checked as a job file would be.

    Raises ConfigError with `source`, the key, what was got and what was expected.
    """
    tree = parse_toml(text, source)
    refuse_other_document(tree, SiteSpec, SITE_SCHEMA, source)
    site = convert(tree, SiteSpec, source)
    if expected_name is not None and site.name != expected_name:
        raise ConfigError(
            f"got {site.name!r}, expected {expected_name!r} as the file is called",
            source=source,
            key="name",
        )
    for key in ("schema", "command"):
        if key in site.job:
            raise ConfigError(
                f"is not a default that a site can give (a job says its own, {JOB_SCHEMA})",
                source=source,
                key=f"job.{key}",
            )
    try:
        effective_job([option_layer(_PROBE), site_layer(site.job, site.name)], refuse)
    except ConfigError as error:
        raise ConfigError(
            error.reason, source=source, key=f"job.{error.key}", hint=error.hint
        ) from error
    return site
