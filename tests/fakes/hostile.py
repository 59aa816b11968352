"""Texts that break quoting, parsing or reading; `$CANARY` is a file that none may create."""

from __future__ import annotations

from itertools import product
from typing import Final

_RUN = "touch $CANARY"

SUBSTITUTIONS: Final = (
    f"$({_RUN})", f"`{_RUN}`", f'"$({_RUN})"', f"'$({_RUN})'", f'"; {_RUN}; "', f"'; {_RUN}; '",
    f"; {_RUN}", f"& {_RUN} &", f"| {_RUN}", f"|| {_RUN}", f"&& {_RUN}", f"\n{_RUN}\n",
    f"\r\n{_RUN}\r\n", f"\r{_RUN}\r", f"x\n{_RUN} #", f"'\n{_RUN}\n'", f'"\n{_RUN}\n"',
    f"\\\n{_RUN}", f"<({_RUN})", f">({_RUN})", f"$(({_RUN}))", f"${{x:-$({_RUN})}}",
    f"${{x:=`{_RUN}`}}", f"x[$({_RUN})]", f"a[$({_RUN})]=1", f"{{ {_RUN}; }}", f"({_RUN})",
    f"$'\\n{_RUN}'", f'$"{_RUN}"', f"\\$({_RUN})", f"\\\\$({_RUN})", f"\\`{_RUN}\\`",
    f"'\\''$({_RUN})'\\''", f"'$({_RUN})", f'"$({_RUN})', f"' $({_RUN}) '", f"''$({_RUN})''",
    f"\\'$({_RUN})\\'", f"${{x@P}}$({_RUN})", f"$[{_RUN}]", f"eval {_RUN}", f"exec {_RUN}",
    f"trap '{_RUN}' EXIT", f"() {{ :; }}; {_RUN}", f"x=$({_RUN}) y", f"# {_RUN}\n{_RUN}",
    f"EOF\n{_RUN}\nEOF", f"<<EOF\n{_RUN}\nEOF", f"<<<$({_RUN})", f"\u2028{_RUN}", f"\u2029{_RUN}",
    f"\x85{_RUN}", f"\v{_RUN}", f"\f{_RUN}", f"\x1c{_RUN}", f"fi; {_RUN}; if :; then",
    f"done; {_RUN}; for i in 1; do", f"esac; {_RUN}", f"}}; {_RUN}; x() {{", f"$\u200b({_RUN})",
)  # fmt: skip

DIRECTIVES: Final = (
    "#SBATCH --nodes=99", "\n#SBATCH --nodes=99", "x\n#SBATCH --nodes=99\n", "\r#SBATCH --nodes=99",
    "\r\n#SBATCH --nodes=99", "\v#SBATCH --nodes=99", "\f#SBATCH --nodes=99",
    "\x85#SBATCH --nodes=99", "\u2028#SBATCH --nodes=99", "x --nodes=99", 'x" --nodes=99 "',
    "x' --nodes=99 '", "x\\ --nodes=99", 'x\\" --nodes=99', "x # --nodes=99", "x#y", "#", "##",
    "\\#", "a\\", "a\\\\", "\\", '\\"', "\\'", '"', "'", "\"'", "'\"", '""', "''", "packjob",
    "PackJob", "a packjob b", "packjobpackjob", "hetjob", "HETJOB", "a hetjob b", "hetjobpackjob",
    ":", ": hetjob", "\n#SBATCH hetjob\n", "#SLURM --nodes=99", "\n#SLURM --nodes=99",
    "#PBS -l nodes=99", "\n#PBS -l nodes=99", "\n#BSUB -n 99", "=", "==", "--nodes=99", "-N99", "-",
    "--", "---", "-c", "-rf", "--help", "--version", "--no-python", "--nnodes=9", "%j", "%A_%a",
    "%%", "%x-%u.%N", "%s%n", "x\t--nodes=99",
)  # fmt: skip

SHELL: Final = (
    "", " ", "  ", "\t", "\n", "\r", "\r\n", "\n\n", " x ", "\tx\t", "~", "~/", "~root", "~/x y",
    "~+", "*", "?", "[a-z]", "{a,b}", "{1..9}", "/*", "**", "!", "!!", "!$", "^a^b", "$", "$$",
    "$?", "$!", "$0", "$1", "$@", '"$@"', "$*", "$#", "${", "${}", "${x", "$x", "$HOME", "$PATH",
    "${HOME}", "$SLURM_JOB_ID", "$IFS", "$'", '$"', "$(", "$((", "`", "``", "(", ")", "()", "{",
    "}", "[", "]", "[[", "]]", "<", ">", ">>", "<<", "&", "&&", "|", "||", ";", ";;", ",", ".",
    "..", "../../x", "/", "//", "@", "+", "1", "0", "x=y", "PATH=/x", "if", "then", "function",
    "a b", "a  b", "it's", 'say "x"', "a\\nb", "a\\ b", "\\x41", "\\u0041", "a\nb", "a\tb",
)  # fmt: skip

FORMATS: Final = (
    "{{ 7*7 }}", "{{ plan }}", "{% raw %}", "{% endraw %}", "{% include 'x' %}", "{# x #}", "{{",
    "}}", "{%", "%}", "{#", "#}", "{{ ''.__class__ }}", "%(x)s", "{0}", "{x!r}", "${x}", "<x/>",
    "<!-- x -->", "&amp;", "---", "...", "- x", "x: y", "x: [", "&a", "*a", "!!python/object:x",
    "| x", "> x", "null", "true", "~null", "0x10", "1e9", "NaN", '"""', "'''", "[x]", "x = 1",
    "\\u",    '{"a":1}', '\\"', "\\/", "/* x */", "// x", "','", '","', "%00", "%0a", "&#10;",
)  # fmt: skip

UNICODE: Final = (
    "é", "e\u0301", "日本語", "العربية", "עברית", "😀", "👩\u200d👩\u200d👧", "ﬁ", "İ", "ß",
    "\u00a0", "\u3000", "\u2003", "\u202eevil\u202c", "\u202dx", "\u2066x\u2069", "\u200f",
    "a\u200bb",
    "a\u200cb", "a\ufeffb", "\ufeffx", "\u00ad", "\u2060", "\ufff9x\ufffb", "\ufffd", "\uffff",
    "\U0010ffff", "\ue000", "\U000e0041", "\u0600", "\u180e", "\u115f", "\u2028", "\u2029", "\x85",
    "\x9b31m", "\u037e", "\uff04(x)", "\u2018x\u2019", "\uff02", "\u0338", "Z" + "\u0301" * 50,
)  # fmt: skip

CONTROLS: Final = (
    *(chr(code) for code in range(1, 32)), "\x7f", "\x80", "\x9f", "\x1b[31mred\x1b[0m",
    "\x1b]0;title\x07", "\x1b[2J", "\x1bc", "a\bb", "a\x07", "\0", "a\0b", "\0x",
    f"\0$({_RUN})", "\ud800", "\udfff", "a\udc80b", "\udcff\udcfe", f"\udc0a{_RUN}", "\x04", "\x1a",
)  # fmt: skip

LONG: Final = (
    "x" * 5000, "é" * 3000, "'" * 500, '"' * 500, "\\" * 501, "$" * 501, "`" * 501, "\n" * 300,
    " " * 500, "a b " * 500, "$(" * 200, "'\"" * 200, "packjob" * 50, "#" * 300, "{{" * 200,
    "-" * 300, "/x" * 400,
)  # fmt: skip

MIXED: Final = tuple(
    f"{before}{middle}{after}"
    for (before, after), middle in product(
        (("'", "'"), ('"', '"'), ("\\", "\\"), ("$'", "'"), ("\n", "\n"), ("~/", "/bin")),
        (f"$({_RUN})", "a b", "#SBATCH --x=1", "\u202e"),
    )
)

HOSTILE: Final = tuple(
    dict.fromkeys(
        (*SUBSTITUTIONS, *DIRECTIVES, *SHELL, *FORMATS, *UNICODE, *CONTROLS, *LONG, *MIXED)
    )
)


def is_utf8(text: str) -> bool:
    """Whether a file in UTF-8 can hold `text`."""
    return not any("\ud800" <= char <= "\udfff" for char in text)
