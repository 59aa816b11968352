"""What is shaped like a token, and must not stand where others may read it.

The shapes are those that the services document for their tokens, with a beginning of their own;
what has none (W&B's forty hex digits) is known by the name that it is given to. Sources: GitHub's
list of secret scanning patterns (docs.github.com), GitLab's of token prefixes, gitleaks' rules.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise
from math import log2
from typing import TYPE_CHECKING, Final

from hpckit.core.errors import ConfigError
from hpckit.core.late import Late, regex
from hpckit.core.values import dataclass

if TYPE_CHECKING:
    import tomllib
else:
    tomllib = Late("tomllib")

_HEX, _WORD = "[0-9a-f]", "[A-Za-z0-9]"
_UUID = f"{_HEX}{{8}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{12}}"
_SHAPES: Final[Sequence[tuple[str, str, str]]] = (
    # Models, data and experiments.
    ("Hugging Face", "hf_ api_org_", r"(?:hf_|api_org_)[A-Za-z0-9]{30,}"),
    ("Anthropic", "sk-ant-", r"sk-ant-[A-Za-z0-9_-]{20,}"),
    ("OpenRouter", "sk-or-", rf"sk-or-v1-{_HEX}{{40,}}"),
    ("OpenAI", "sk-", r"sk-(?:proj|svcacct|admin|None)-[A-Za-z0-9_-]{20,}|sk-[A-Za-z0-9]{32,}"),
    ("ElevenLabs", "sk_", rf"sk_{_HEX}{{48}}"),
    ("Cerebras", "csk-", r"csk-[a-z0-9]{40,}"),
    ("Groq", "gsk_", rf"gsk_{_WORD}{{40,}}"),
    ("Perplexity", "pplx-", rf"pplx-{_WORD}{{40,}}"),
    ("xAI", "xai-", rf"xai-{_WORD}{{60,}}"),
    ("Replicate", "r8_", rf"r8_{_WORD}{{37}}"),
    ("Together", "tgp_", r"tgp_v1_[A-Za-z0-9_-]{40,}"),
    ("Fireworks", "fw_", rf"fw_{_WORD}{{20,}}"),
    ("NVIDIA NGC", "nvapi-", r"nvapi-[A-Za-z0-9_-]{50,}"),
    ("Weights & Biases", "wandb_v1_", r"wandb_v1_[A-Za-z0-9_]{20,}"),
    ("Weights & Biases", "wandb login", rf"wandb login (?:--?[\w-]+[ =])*{_HEX}{{40}}"),
    ("Neptune", "eyJhcGlf", r"eyJhcGlfYWRkcmVzcyI6[A-Za-z0-9+/=_-]{40,}"),
    ("LangSmith", "lsv2_", rf"lsv2_(?:pt|sk)_{_HEX}{{32}}_{_HEX}{{10}}"),
    ("Pinecone", "pcsk_", r"pcsk_[A-Za-z0-9_]{50,}"),
    ("RunPod", "rpa_", r"rpa_[A-Z0-9]{40,}"),
    ("Kaggle", "KGAT_", rf"KGAT_{_HEX}{{32}}"),
    ("Modal", "ak- as-", rf"a[ks]-{_WORD}{{22}}"),
    ("Databricks", "dapi", rf"dapi{_HEX}{{32}}"),
    ("Prefect", "pnu_ pnb_", r"pn[ub]_[a-z0-9]{36}"),
    # Code and packages.
    (
        "GitHub",
        "ghp_ gho_ ghu_ ghs_ ghr_ github_pat_",
        rf"gh[pousr]_{_WORD}{{36,}}|github_pat_[A-Za-z0-9_]{{60,}}",
    ),
    (
        "GitLab",
        "gl",
        r"gl(?:pat|dt|rt|ptt|ft|soat|agent|cbt|oas|ffct|imt|feat|rtr)-[A-Za-z0-9_.-]{20,}",
    ),
    ("Atlassian", "ATATT3 ATCTT3 ATBB", r"AT(?:ATT3|CTT3)[A-Za-z0-9_=-]{60,}|ATBB[A-Za-z0-9]{32}"),
    ("Sourcegraph", "sgp_", rf"sgp_(?:{_HEX}{{16}}_|local_)?{_HEX}{{40}}"),
    ("npm", "npm_", rf"npm_{_WORD}{{36}}"),
    ("PyPI", "pypi-", r"pypi-AgE[A-Za-z0-9_-]{50,}"),
    ("RubyGems", "rubygems_", rf"rubygems_{_HEX}{{48}}"),
    ("Clojars", "CLOJARS_", r"CLOJARS_[a-z0-9]{60}"),
    ("Docker Hub", "dckr_", r"dckr_[po]at_[A-Za-z0-9_-]{20,}"),
    ("Artifactory", "AKC cmVmdGtuOj", r"AKC[A-Za-z0-9]{64,}|cmVmdGtuOj[A-Za-z0-9]{40,}"),
    ("CircleCI", "CCI", rf"CCI(?:PAT|PRJ)_{_WORD}{{22}}_{_HEX}{{40}}"),
    ("Buildkite", "bkua_", rf"bkua_{_HEX}{{40}}"),
    ("Linear", "lin_api_", rf"lin_api_{_WORD}{{40}}"),
    ("Postman", "PMAK-", rf"PMAK-{_HEX}{{24}}-{_HEX}{{34}}"),
    ("ReadMe", "rdme_", r"rdme_[a-z0-9]{70}"),
    # Clouds and what runs in them.
    (
        "AWS",
        "A3T AKIA ASIA ABIA ACCA ABSK",
        r"(?:A3T[A-Z0-9]|AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}|ABSK[A-Za-z0-9+/=]{100,}",
    ),
    (
        "Google",
        "AIza ya29. GOCSPX-",
        r"AIza[A-Za-z0-9_-]{35}|ya29\.[A-Za-z0-9_.-]{20,}|GOCSPX-[A-Za-z0-9_-]{28}",
    ),
    (
        "Azure",
        "AccountKey= Q~",
        r"AccountKey=[A-Za-z0-9+/]{86}==|[A-Za-z0-9_~.]{3}\dQ~[A-Za-z0-9_~.-]{31,34}",
    ),
    ("Alibaba Cloud", "LTAI", rf"LTAI{_WORD}{{16,}}"),
    ("Tencent Cloud", "AKID", rf"AKID{_WORD}{{32}}"),
    ("Yandex Cloud", "AQVN", r"AQVN[A-Za-z0-9_-]{35,}"),
    ("DigitalOcean", "_v1_", rf"do[opr]_v1_{_HEX}{{64}}"),
    ("Cloudflare", "v1.0-", rf"v1\.0-{_HEX}{{24}}-{_HEX}{{146}}"),
    ("Fly", "fo1_ fm", r"fo1_[A-Za-z0-9_-]{43}|fm[12][ar]?_[A-Za-z0-9+/=_-]{100,}"),
    ("Heroku", "HRKU-", r"HRKU-[A-Za-z0-9_-]{36,}"),
    ("Netlify", "nfp_", rf"nfp_{_WORD}{{36}}"),
    ("Render", "rnd_", rf"rnd_{_WORD}{{28,}}"),
    ("Vercel", "vc", rf"vc[pkiar]_{_WORD}{{24,}}"),
    ("Scalingo", "tk-us-", r"tk-us-[A-Za-z0-9_-]{48}"),
    ("Supabase", "sbp_ sbs_", rf"sb[ps]_(?:secret_)?{_WORD}{{36,}}"),
    ("PlanetScale", "pscale_", r"pscale_(?:tkn|pw|oauth)_[A-Za-z0-9_=.-]{32,}"),
    ("Terraform", ".atlasv1.", r"[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{60,}"),
    ("Vault", "hvs. hvb. hvr.", r"hv[sbr]\.[A-Za-z0-9_-]{24,}"),
    ("Pulumi", "pul-", rf"pul-{_HEX}{{40}}"),
    ("Doppler", "dp.", rf"dp\.(?:pt|st|ct|sa|scim|audit)\.(?:[a-z0-9_-]+\.)?{_WORD}{{40,}}"),
    ("Infracost", "ico-", rf"ico-{_WORD}{{32}}"),
    ("Tailscale", "tskey-", rf"tskey-(?:auth|api|client|scim|webhook)-{_WORD}+-{_WORD}+"),
    ("1Password", "ops_eyJ", r"ops_eyJ[A-Za-z0-9+/=_-]{100,}"),
    ("age", "AGE-SECRET-KEY-", r"AGE-SECRET-KEY-1[QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L]{58}"),
    ("Okta", "SSWS", r"SSWS 00[A-Za-z0-9_=-]{38,}"),
    ("LaunchDarkly", "api- sdk-", rf"(?:api|sdk)-{_UUID}"),
    # Watching and reporting.
    ("Grafana", "glc_ glsa_", rf"gl(?:c_[A-Za-z0-9+/=]{{32,}}|sa_{_WORD}{{32}}_{_HEX}{{8}})"),
    ("New Relic", "NR", r"NR(?:AK|JS|II|SP|RA)-[A-Za-z0-9_-]{19,}"),
    ("Sentry", "sntry", rf"sntry(?:s_eyJ[A-Za-z0-9+/=_]{{60,}}|u_{_HEX}{{64}})"),
    ("Dynatrace", "dt0", r"dt0[a-z]\d\d\.[A-Z0-9]{24}\.[A-Z0-9]{64}"),
    ("PostHog", "phc_ phx_", rf"ph[cx]_{_WORD}{{40,}}"),
    # Talking and paying.
    ("Slack", "xox xapp-", r"xox[a-z](?:\.xox[a-z])?-[A-Za-z0-9-]{10,}|xapp-\d-[A-Za-z0-9-]{20,}"),
    (
        "Slack",
        "hooks.slack",
        r"hooks\.slack\.com/(?:services|workflows|triggers)/[A-Za-z0-9+/]{30,}",
    ),
    ("Discord", ".", r"[MNO][A-Za-z0-9_-]{23,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,}"),
    ("Discord", "discord", r"discord(?:app)?\.com/api/webhooks/\d+/[A-Za-z0-9_-]{40,}"),
    ("Microsoft Teams", "webhook.office", r"webhook\.office\.com/webhookb2/[A-Za-z0-9@/-]{60,}"),
    ("Telegram", ":A", r"\d{8,10}:A[A-Za-z0-9_-]{34}"),
    ("Twilio", "SK", rf"SK{_HEX}{{32}}"),
    ("SendGrid", "SG.", r"SG\.[A-Za-z0-9_-]{20,24}\.[A-Za-z0-9_-]{39,50}"),
    ("Mailgun", "key-", rf"(?:pub)?key-{_HEX}{{32}}"),
    ("Mailchimp", "-us", rf"{_HEX}{{32}}-us\d{{1,2}}"),
    ("Brevo", "xkeysib-", rf"xkeysib-{_HEX}{{64}}-{_WORD}{{16}}"),
    ("Notion", "ntn_ secret_", rf"ntn_{_WORD}{{40,}}|secret_{_WORD}{{43}}"),
    ("Airtable", "pat", rf"pat{_WORD}{{14}}\.{_HEX}{{64}}"),
    ("Figma", "fig", r"fig[dou]_[A-Za-z0-9_-]{40,}"),
    ("Typeform", "tfp_", r"tfp_[A-Za-z0-9_.=-]{40,}"),
    ("HubSpot", "pat-", rf"pat-(?:na|eu)\d-{_UUID}"),
    ("Contentful", "CFPAT-", r"CFPAT-[A-Za-z0-9_-]{43}"),
    ("Dropbox", "sl.", r"sl\.(?:u\.)?[A-Za-z0-9_-]{100,}"),
    ("Facebook", "EAA", rf"EAA{_WORD}{{80,}}"),
    ("Twitter", "AAAAAAAA", r"A{20,}[A-Za-z0-9%]{60,}"),
    (
        "Stripe",
        "_test_ _live_ _prod_ whsec_",
        rf"[sr]k_(?:test|live|prod)_{_WORD}{{10,}}|whsec_[A-Za-z0-9+/=]{{32,}}",
    ),
    ("Square", "sq0 EAAA", r"sq0[a-z]{3}-[A-Za-z0-9_-]{22,}|EAAA[A-Za-z0-9_-]{60}"),
    ("Shopify", "shp", rf"shp(?:at|ca|pa|ss|tka)_{_HEX}{{32}}"),
    ("Shippo", "shippo_", rf"shippo_(?:live|test)_{_HEX}{{40}}"),
    ("EasyPost", "EZ", r"EZ[AT]K[A-Za-z0-9]{54}"),
    ("Plaid", "access-", rf"access-(?:sandbox|development|production)-{_UUID}"),
    ("Duffel", "duffel_", r"duffel_(?:test|live)_[A-Za-z0-9_=-]{43}"),
    ("Flutterwave", "FLW", r"FLW(?:SEC|PUB)K(?:_TEST)?-[A-Za-z0-9-]{32,}"),
    ("Lob", "live_ test_", rf"(?:live|test)_(?:pub_)?{_HEX}{{31,35}}"),
    ("Adafruit", "aio_", rf"aio_{_WORD}{{28}}"),
    # What every service may have.
    ("private key", "PRIVATE", r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----"),
    ("JSON Web Token", "eyJ", r"eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}"),
    (
        "password in a URL",
        "://",
        r"[a-z][a-z0-9+.-]+://[^\s/:@'\"$]*:[^\s/@'\"${}<>]{3,}@[\w.-]+",
    ),
    (
        "HTTP header",
        "uthorization",
        r"[Aa]uthorization: ?(?:Bearer|Basic|token) [A-Za-z0-9._~+/=-]{16,}",
    ),
)
"""What, the beginnings by one of which it is looked for at all, and the whole."""
_BEGINNINGS: Final = tuple(
    (beginning, at) for at, (_, several, _) in enumerate(_SHAPES) for beginning in several.split()
)
# After an escape (`\n`, `%20`) and after a short option, too.
_BEFORE: Final = r"(?:(?<![A-Za-z0-9_])|(?<=\\[nrt])|(?<=%[0-9A-Fa-f]{2})|(?<=\s-[A-Za-z]))"
_SECRET_NAME: Final = regex(
    r"(?:^|[_.-])(?:token|secret|passwd|password|passphrase|credentials?|pat"
    r"|(?:api|access|secret|private|account|auth)[_-]?key|apikey)$",
    re.IGNORECASE,
)
_OPAQUE: Final = regex(r"[A-Za-z0-9+/_~.-]{16,}={0,2}")
_LEAST_BITS: Final = 3.2
"""Of information a character; words stay below it, random hex digits have 3.6 and more."""
_NAMED: Final = regex(r"([A-Za-z_][\w.-]*)(?:=|: ?|[ \t]+)['\"]?$")
_LONGEST_NAME: Final = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """Something shaped like a token: of what, and between which characters of the text."""

    kind: str
    begin: int
    end: int


def tokens_in(text: str) -> Iterator[Token]:
    """Yield what in a text is shaped like a token."""
    for at in sorted({at for beginning, at in _BEGINNINGS if beginning in text}):
        kind, _, shape = _SHAPES[at]
        for match in re.finditer(_BEFORE + f"(?:{shape})", text):
            yield Token(kind=kind, begin=match.start(), end=match.end())
    for match in _OPAQUE.finditer(text):
        named = _NAMED.search(text[max(0, match.start() - _LONGEST_NAME) : match.start()])
        if named and is_named_secret(named[1], match[0]):
            yield Token(kind=named[1], begin=match.start(), end=match.end())


def masked(text: str) -> str:
    """Return a text in which each token is only named."""
    for token in sorted(tokens_in(text), key=lambda one: -one.begin):
        text = f"{text[: token.begin]}<{token.kind}>{text[token.end :]}"
    return text


_PART = r"(?:[a-z]+\d*|[A-Z]+\d*|\d+)"
_NUMBERED_WORDS = regex(rf"{_PART}(?:[-_.]{_PART})+")
"""Such as `conv2d_fp16_v2`."""


def is_named_secret(name: str, value: str) -> bool:
    """Return whether a value is opaque, and called as secrets are."""
    if not _SECRET_NAME.search(name) or not _OPAQUE.fullmatch(value):
        return False
    if value.startswith(("/", "./", "~")) or not re.search(r"\d", value):
        return False
    if _NUMBERED_WORDS.fullmatch(value):
        return False
    counts = Counter(value)
    bits = -sum(n / len(value) * log2(n / len(value)) for n in counts.values())
    return bits >= _LEAST_BITS and not re.fullmatch(r"[\d.-]+", value)


ALLOW: Final = "--not-secret"


def refuse_words(words: Sequence[str], command: Sequence[str]) -> None:
    """Raise ConfigError for a token among a command line's options, or the job's own words."""
    allowed = _allowed_by(words)
    option = "JOB"
    for word in words:
        if word.startswith("--"):
            option, _, word = word.partition("=")  # noqa: PLW2901  what is behind it is its value
        _refuse(word, option, option, allowed)
    _refuse(" ".join(command), "the command", "command", allowed)


def refuse_file(text: str, source: str, words: Sequence[str]) -> None:
    """Raise ConfigError for a token in a job file, comments too, of a command with these words."""
    try:
        tree = tomllib.loads(text)
        leaves = tuple(_leaves(tree))
    except (ValueError, RecursionError):
        tree, leaves = {}, ()  # whoever reads it says why
    environment = tree.get("environment")
    said = environment.get("not_secrets") if isinstance(environment, dict) else None
    said = [one for one in said if isinstance(one, str)] if isinstance(said, list) else []
    allowed = {*_allowed_by(words), *said}
    let_through = ""
    for key, value in leaves:
        _refuse(f"{key.rpartition('.')[2]}={value}", f"{source}: {key}", key, allowed)
        let_through += value if key in allowed else ""
    for number, line in enumerate(text.split("\n"), start=1):
        for token in tokens_in(line):
            if line[token.begin : token.end] not in let_through:
                raise _refusal(token, f"{source}: line {number}", None)


def refuse_script(script: str, said: str) -> None:
    """Raise ConfigError for a token in a script that what was `said` of the job does not hold.

    It stands in the site file then, or in a template.
    """
    for number, line in enumerate(script.split("\n"), start=1):
        for token in tokens_in(line):
            if line[token.begin : token.end] not in said:
                where = f"line {number} of the script (from the site file or a template)"
                raise _refusal(token, where, None)


def _allowed_by(words: Sequence[str]) -> set[str]:
    behind = {after for word, after in pairwise(words) if word == ALLOW}
    return behind | {word.partition("=")[2] for word in words if word.startswith(f"{ALLOW}=")}


def _refuse(text: str, where: str, name: str, allowed: Collection[str]) -> None:
    token = None if name in allowed else next(tokens_in(text), None)
    if token is not None:
        raise _refusal(token, where, name)


def _refusal(token: Token, where: str, name: str | None) -> ConfigError:
    return ConfigError(
        f"this looks like a secret ({token.kind}); it would be visible in files, in Slurm's "
        "records and on command lines",
        source=masked(where),
        hint="export NAME=… in this shell, then --secret NAME passes it to the ranks"
        + ("" if name is None else f"; if it is not a secret: {ALLOW} {masked(name)}"),
    )


def _leaves(tree: object, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield each text of a document, a list's together, and the key that it stands under."""
    if isinstance(tree, str):
        yield path, tree
    elif isinstance(tree, dict):
        for key, value in tree.items():
            yield from _leaves(value, f"{path}.{key}" if path else str(key))
    elif isinstance(tree, list):
        yield path, " ".join(value for value in tree if isinstance(value, str))
        for value in tree:
            yield from () if isinstance(value, str) else _leaves(value, path)
