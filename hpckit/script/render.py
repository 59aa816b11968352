"""A launch plan and template texts become a script: layout in the template, words quoted here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import ceil
from typing import TYPE_CHECKING

from hpckit.core.errors import RenderError
from hpckit.core.late import Late
from hpckit.script.components import ComponentPlan
from hpckit.script.plan import ContainerPlan, LaunchPlan, Option, Provenance, Script
from hpckit.script.quoting import comment_text, directive_value, sh_line, sh_path, sh_word
from hpckit.spec.platform import (
    CommLeft,
    CommProfile,
    CommSetting,
    ContainerRuntime,
    SettingOrigin,
    sources,
)

if TYPE_CHECKING:
    import hashlib

    import jinja2
    from jinja2.nodes import Template
else:
    hashlib = Late("hashlib")
    jinja2 = Late("jinja2")

# --- The lines of a script's communication block: exports, each with its reason, and their
# sources.


_COMMENT_COLUMN = 40
_WIDTH = 90
_EXPANDED = "${SLURM_JOB_ID}"


def export_lines(settings: Iterable[CommSetting]) -> Iterator[str]:
    """Return the lines that export variables; neighbours with one reason share a line."""
    lines: list[list[CommSetting]] = []
    for setting in settings:
        before = lines[-1] if lines else []
        is_long = len(export_only(*before, setting)) > _WIDTH
        if before and not is_long and _reason(setting) == _reason(before[0]) is not None:
            before.append(setting)
        else:
            lines.append([setting])
    return (export_line(*line) for line in lines)


def _reason(setting: CommSetting) -> tuple[str, str | None] | None:
    """Return what settings on one line have in common; None for one that stands alone."""
    if setting.yields or setting.origin is SettingOrigin.JOB:
        return None
    return setting.because, setting.warning


def export_line(*settings: CommSetting) -> str:
    """Return the export of variables with their reason, and the rules that stand behind it."""
    first = settings[0]
    reason = first.because
    if first.origin is not SettingOrigin.JOB:
        reason += f" [{', '.join(dict.fromkeys(setting.rule for setting in settings))}]"
    if first.warning is not None:
        reason += f"; {first.warning}"
    return with_comment(export_only(*settings), reason)


def export_only(*settings: CommSetting) -> str:
    """Return the export of variables, for a shell that wants no reason."""
    values = (f"{setting.name}={_value(setting)}" for setting in settings)
    export = f"export {' '.join(values)}"
    return f"[[ -v {settings[0].name} ]] || {export}" if settings[0].yields else export


def with_comment(line: str, because: str | None) -> str:
    """A line of the script and the reason beside it."""
    if because is None:
        return line
    return f"{line:<{_COMMENT_COLUMN}} # {comment_text(because)}"


def left_line(left: CommLeft) -> str:
    """Why a variable is not exported, in a comment."""
    return comment_text(
        f"{left.name} is not set: {left.because}; hpckit would set {left.value} [{left.rule}]"
    )


def source_line(profile: CommProfile) -> str:
    """The line that reads the provider's file, with the variables that it needs."""
    given = "".join(f"{name}={sh_word(value)} " for name, value in profile.environment)
    return f"{given}source {sh_word(profile.path)}"


def source_lines(settings: Iterable[CommSetting]) -> Iterator[str]:
    """Which document each rule stands on, one comment a document."""
    return (comment_text(line) for line in sources(settings))


def _value(setting: CommSetting) -> str:
    """A shell word; where the job's id belongs into it, in the quotes that let it in."""
    if not setting.is_expanded:
        word = sh_word(setting.value)
        # NCCL's = for exact names: `X==a` is right and looks wrong, to shellcheck too (SC1097).
        return f"'{word}'" if word.startswith("=") else word
    plain = setting.value.replace(_EXPANDED, "")
    if sh_word(plain) != plain or _EXPANDED not in setting.value:
        raise RenderError(f"{setting.name}: {setting.value!r} has more to expand than {_EXPANDED}")
    return f'"{setting.value}"'


def render_script(
    plan: LaunchPlan,
    provenance: Provenance,
    templates: Mapping[str, str],
    cache: jinja2.BytecodeCache | None = None,
) -> Script:
    """The script of `plan` from the template that `provenance` names.

    `templates` maps names to texts, all that may be extended or included; `cache` keeps
    compiled templates, and changes nothing but the time. Raises RenderError with the template
    and the variable or value at fault.
    """
    return _script({"plan": plan}, provenance, templates, cache)


def render_components(
    parts: Sequence[ComponentPlan],
    kill_wait_s: float,
    provenance: Provenance,
    templates: Mapping[str, str],
    cache: jinja2.BytecodeCache | None = None,
) -> Script:
    """Return the script of a heterogeneous job, likewise.

    Components that are asked to end have `kill_wait_s` for it.
    """
    environments = [part.plan.environment for part in parts]
    communications = [
        (part.plan.communication, part.plan.profile, part.plan.left, part.plan.container)
        for part in parts
    ]
    values = {
        "components": parts,
        "can_fail": any(
            env.modules_purge or env.modules or env.venv or env.conda or part.plan.profile
            for env, part in zip(environments, parts, strict=True)
        ),
        "same_environment": all(env == environments[0] for env in environments),
        "same_communication": all(comm == communications[0] for comm in communications),
        "kill_wait_s": ceil(kill_wait_s),
    }
    return _script(values, provenance, templates, cache)


def _script(
    values: Mapping[str, object],
    provenance: Provenance,
    templates: Mapping[str, str],
    cache: jinja2.BytecodeCache | None,
) -> Script:
    used: list[str] = []

    def source_of(name: str) -> str | None:
        if name in templates:
            used.append(name)
        return templates.get(name)

    environment = _environment(jinja2.FunctionLoader(source_of), cache)
    text = _rendered(environment, values, provenance, templates).decode().rstrip("\n") + "\n"
    _refuse_late_directives(text, provenance.template)
    if provenance.template_digest:
        text = _said_whose(text, provenance.template_digest)
        _refuse_lost_blocks({name: environment.parse(templates[name]) for name in used})
    digest = hashlib.sha256(text.encode()).hexdigest()
    return Script(text=text, sha256=digest, templates=tuple(used))


def _rendered(
    environment: jinja2.Environment,
    values: Mapping[str, object],
    provenance: Provenance,
    templates: Iterable[str],
) -> bytes:
    """Return the script as UTF-8: a lone surrogate is the template's mistake like any other."""
    name = provenance.template
    try:
        template = environment.get_template(name)
        return template.render(values, provenance=provenance).encode()
    except jinja2.TemplateNotFound as error:
        raise RenderError(
            f"no such template; available: {', '.join(sorted(templates))}", template=str(error)
        ) from error
    except jinja2.TemplateSyntaxError as error:
        where = f"{error.name or name} line {error.lineno}"
        raise RenderError(str(error.message), template=where) from error
    except RenderError:
        raise
    except Exception as error:  # a template is somebody's program, and may fail in any way
        raise RenderError(f"{type(error).__name__}: {error}", template=name) from error


def _environment(
    loader: jinja2.BaseLoader, cache: jinja2.BytecodeCache | None
) -> jinja2.Environment:
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    environment = ImmutableSandboxedEnvironment(
        loader=loader,
        bytecode_cache=cache,
        undefined=jinja2.StrictUndefined,
        autoescape=False,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters.update(
        sh=sh_word,
        shline=sh_line,
        shpath=sh_path,
        directive=directive_value,
        directive_line=_directive_line,
        options=_options,
        reason=with_comment,
        comment=comment_text,
        export_line=export_line,
        export_lines=export_lines,
        left_line=left_line,
        source_line=source_line,
        source_lines=source_lines,
        starter=_starter,
        in_container=_in_container,
        rule=lambda name: f"# --- {comment_text(name)}",
    )
    return environment


def _directive_line(option: Option) -> str:
    value = "" if option.value is None else f"={directive_value(option.value)}"
    return with_comment(f"#SBATCH --{option.name}{value}", option.because)


def _options(options: Sequence[Option]) -> str:
    """Return long options of srun, filled into lines."""
    return _filled(
        f"--{option.name}" + ("" if option.value is None else f"={option.value}")
        for option in options
    )


def _filled(words: Iterable[str]) -> str:
    lines = [""]
    for word in map(sh_word, words):
        if len(lines[-1]) + len(word) > _WIDTH:
            lines.append("")
        lines[-1] += f"{word} "
    return " \\\n  ".join(line.rstrip() for line in lines)


_FOLDER = "${HPCKIT_JOB_FOLDER:-$PWD}"


def _in_container(plan: ContainerPlan) -> str:
    """Return the words before what runs in the container: srun's last options, or Apptainer's.

    The job folder is mounted, for what the ranks write, and the folder in which the job runs.
    """
    workdir = '"$PWD"' if plan.workdir is None else sh_path(plan.workdir)
    image = sh_path(plan.image or "")
    if plan.runtime is ContainerRuntime.PYXIS:
        more = "".join(f",{mount.replace('~/', '$HOME/')}" for mount in plan.mounts)
        # Pyxis takes a name without a slash for one of a registry.
        image = f"./{image}" if image.endswith(".sqsh") and "/" not in image else image
        mounts = f'--container-mounts="$PWD:$PWD,{_FOLDER}:{_FOLDER}{more}"'
        return f"--container-image={image} --container-workdir={workdir} \\\n  {mounts}"
    mounts = f'--bind "{_FOLDER}"' + "".join(f" --bind {sh_path(mount)}" for mount in plan.mounts)
    options = sh_line(plan.options)
    words = (f"{plan.runtime} exec", options, mounts, f"--pwd {workdir}", image)
    return " ".join(word for word in words if word)


def _starter(words: Sequence[str]) -> str:
    """Return a launcher's words; what a shell of its own reads stands on a line of its own."""
    shell = 3 if list(words[:2]) == ["bash", "-c"] else 0
    parts = [sh_line(words[:shell])] if shell else []
    return " \\\n  ".join([*parts, _filled(words[shell:])])


def _said_whose(text: str, digest: str) -> str:
    """Return the script with the line that no template can leave out, below the first."""
    first, end, rest = text.partition("\n")
    return f"{first}{end}# custom template (not hpckit's): sha256 {digest[:12]}\n{rest}"


def _refuse_lost_blocks(trees: Mapping[str, Template]) -> None:
    """Jinja leaves out, without a word, a block that no extended template has."""
    from jinja2.nodes import Block, Extends

    for name, tree in trees.items():
        others = [other for other in trees.values() if other is not tree]
        known = {block.name for other in others for block in other.find_all(Block)}
        own = [block.name for block in tree.body if isinstance(block, Block)]
        if (lost := [block for block in own if block not in known]) and tree.find(Extends):
            says = (
                f"the template that it extends has no block {lost[0]}; its blocks: "
                f"{', '.join(sorted(known))}"
            )
            raise RenderError(says, template=name)


def _refuse_late_directives(text: str, template: str) -> None:
    """Slurm stops reading directives at the first command: a later one would be a silent no."""
    commands_begun = False
    for line_no, line in enumerate(text.split("\n"), start=1):
        if line.startswith("#SBATCH") and commands_begun:
            raise RenderError(
                f"line {line_no} of the script: sbatch ignores directives after the first command",
                template=template,
            )
        commands_begun = commands_begun or not (line.startswith("#") or not line.strip())
