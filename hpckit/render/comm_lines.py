"""The lines of a script's communication block: exports, each with its reason, and their sources."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hpckit.errors import RenderError
from hpckit.model.comm import CommLeft, CommProfile, CommSetting, SettingOrigin
from hpckit.model.comm_sources import sources
from hpckit.render.quoting import comment_text, sh_word

_COMMENT_COLUMN = 40
_EXPANDED = "${SLURM_JOB_ID}"


def export_line(setting: CommSetting) -> str:
    """The export of a variable with its reason, and the rule that stands behind it."""
    reason = setting.because
    if setting.origin is not SettingOrigin.JOB:
        reason += f" [{setting.rule}]"
    if setting.warning is not None:
        reason += f"; {setting.warning}"
    return with_comment(export_only(setting), reason)


def export_only(setting: CommSetting) -> str:
    """The export of a variable, for a shell that wants no reason."""
    export = f"export {setting.name}={_value(setting)}"
    return f"[[ -v {setting.name} ]] || {export}" if setting.yields else export


def with_comment(line: str, because: str | None) -> str:
    """A line of the script and the reason beside it."""
    if because is None:
        return line
    return f"{line:<{_COMMENT_COLUMN}} # {comment_text(because)}"


def left_line(left: CommLeft) -> str:
    """Why a variable is not exported, in a comment."""
    return comment_text(
        f"{left.name} is not set here: {left.because}; hpckit would set {left.value} [{left.rule}]"
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
        raise RenderError(f"{setting.name}: {setting.value!r} holds more than {_EXPANDED}")
    return f'"{setting.value}"'
