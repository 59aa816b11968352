"""What somebody asks for: a job file, options over it, and the layers that say something of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hpckit.core.errors import ConfigError
from hpckit.core.values import dataclass
from hpckit.script.launchers.registry import LAUNCHERS, Launchers, job_name_of, read_launchers
from hpckit.spec.components import component_layers
from hpckit.spec.merge import Layer, file_layers, option_layer, report_layer, site_layer
from hpckit.spec.tokens import refuse_file, refuse_words

if TYPE_CHECKING:
    from hpckit.account.advice.outcome import AdvisedJob
    from hpckit.node.topology import NodeTopology
    from hpckit.slurm.values import SlurmVersion
    from hpckit.spec.site import SiteSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSource:
    """What somebody asked for: a job file's text, options over it, and where it stands.

    `stage` is the one of the file's stages that is meant, None for a file without; likewise
    `component`, where None is all of them.

    `file_text` None is a job that has only a command. `options` maps a dotted key to its value
    and the option as typed; `option_words` are the same options as words of a command line.
    `slurm_version` is the release that somebody named in place of the site file's. `advised` is
    what a report says, which stands over the file and under the options. `topology` is what one of
    its nodes looks like, None where none was inspected. `defaults` are the user's own.
    """

    file_text: str | None
    file_name: str
    options: Mapping[str, tuple[object, str]]
    option_words: tuple[str, ...]
    command: tuple[str, ...]
    site_name: str | None
    template: str | None
    folder: Path
    slurm_version: SlurmVersion | None = None
    stage: str | None = None
    component: str | None = None
    advised: AdvisedJob | None = None
    topology: NodeTopology | None = None
    defaults: Layer | None = None


def source_of(
    command: Sequence[str],
    settings: Mapping[str, object],
    *,
    site: str | None,
    folder: Path,
    template: str | None = None,
    file: tuple[str, str] | None = None,
    defaults: Layer | None = None,
) -> JobSource:
    """Return what a program asks for: keys of a job file over those of a file (text, name).

    A key is dotted, or names a table that is a mapping itself; None is not said. `defaults` are
    the user's own. Raises ConfigError for a word that is shaped like a secret, in the file too.
    """
    said = dict(_leaves(settings))
    words = [word for key, value in said.items() for word in ("--set", f"{key}={_toml(value)}")]
    refuse_words(words, command)
    if file is not None:
        refuse_file(*file, words)
    return JobSource(
        file_text=file and file[0],
        file_name=file[1] if file else "",
        options={key: (value, "--set") for key, value in said.items()},
        option_words=tuple(words),
        command=tuple(command),
        site_name=site,
        template=template,
        folder=folder,
        defaults=defaults,
    )


def _leaves(settings: Mapping[str, object], above: str = "") -> Iterator[tuple[str, object]]:
    for key, value in settings.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{above}{key}.")
        elif value is not None:
            yield f"{above}{key}", list(value) if isinstance(value, tuple) else value


def _toml(value: object) -> str:
    """Return a number, text, a truth value or a list of them as TOML, which writes them as JSON."""
    import json

    return json.dumps(value, ensure_ascii=False)


def layers_of(source: JobSource, site: SiteSpec, launchers: Launchers = LAUNCHERS) -> list[Layer]:
    """Everything that says something of the job, the strongest first. Raises ConfigError."""
    layers = [option_layer(options_of(source))]
    if source.advised is not None:
        layers.append(report_layer(source.advised.values, source.advised.report_id))
    if source.file_text is not None:
        if source.component is None:
            layers += file_layers(source.file_text, source.file_name, source.stage)
        else:
            layers += component_layers(source.file_text, source.file_name, source.component)
    layers += defaults_of(source, site)
    return read_launchers(layers, launchers)


def defaults_of(source: JobSource, site: SiteSpec) -> list[Layer]:
    """Return the user's own defaults and the site's, the strongest first."""
    return [*([source.defaults] if source.defaults else []), site_layer(site.job, site.name)]


def options_of(source: JobSource) -> dict[str, tuple[object, str]]:
    """Return what the command line says, for one part of a file. Raises ConfigError."""
    options = dict(source.options)
    if source.command:
        options["command"] = (list(source.command), "-- COMMAND")
        if source.file_text is None and "name" not in options:
            options["name"] = (job_name_of(source.command), "named after the command")
    part = source.stage or source.component
    if part is not None and "name" in options:
        name, option = options["name"]
        options["name"] = (f"{name}-{part}", option)
    if part is not None and source.file_text is None:
        option = "--stage" if source.stage else "--component"
        raise ConfigError("this works only with a job file", key=option, hint="give a job file")
    return options
