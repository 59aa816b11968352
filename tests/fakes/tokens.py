"""Tokens by their shapes, all made up, and values that jobs have and that are no secrets."""

from __future__ import annotations

import random
import string
from collections.abc import Callable, Iterator

_CHARS = {
    "h": "0123456789abcdef",
    "w": string.ascii_letters + string.digits,
    "a": string.ascii_letters,
    "u": string.ascii_uppercase + "234567",
    "l": string.ascii_lowercase + string.digits,
    "d": string.digits,
}


def made(shape: str) -> str:
    """A token by its shape: `<w36>` stands for 36 letters and digits, and so on."""
    draw = random.Random(shape)  # noqa: S311  made up, the same in each run
    parts = shape.replace(">", "<").split("<")
    return "".join(
        "".join(draw.choice(_CHARS[part[0]]) for _ in range(int(part[1:]))) if odd else part
        for odd, part in zip([False, True] * len(parts), parts, strict=False)
    )


UUID = "<h8>-<h4>-<h4>-<h4>-<h12>"
SHAPES = [
    *("AKIA<u16>", "ASIA<u16>", "ghp_<w36>", "ghs_<w36>", "gho_<w36>", "github_pat_<w22>_<w59>"),
    *("glpat-<w20>", "gldt-<w20>", "hf_<a34>", "sk-<w48>", "sk-proj-<w74>T3BlbkFJ<w74>"),
    *("sk-ant-api03-<w93>AA", "xoxb-<d12>-<d12>-<w24>", "xoxp-<d12>-<d12>-<h32>"),
    *("xapp-1-A0<u9>-<d13>-<h64>", "https://hooks.slack.com/services/T<u8>/B<u8>/<w24>"),
    *("sk_live_<w24>", "rk_test_<w24>", "AIza<w35>", "ya29.<w60>", "GOCSPX-<w28>"),
    *("eyJ<w20>.eyJ<w40>.<w43>", "npm_<w36>", "pypi-AgEIcHlwaS5vcmc<w80>", "SG.<w22>.<w43>"),
    *("key-<h32>", "<h32>-us12", "SK<h32>", "<d9>:AA<w33>", "M<w23>.<w6>.<w27>"),
    *("https://discord.com/api/webhooks/<d18>/<w68>", "dop_v1_<h64>", "dapi<h32>", "hvs.<w90>"),
    *("dckr_pat_<w27>", "HRKU-AA<w58>", "<w14>.atlasv1.<w65>", "shpat_<h32>", "sq0atp-<w22>"),
    *("lin_api_<w40>", "ntn_<d11><w35>", "secret_<w43>", "PMAK-<h24>-<h34>", "pul-<h40>"),
    *("rubygems_<h48>", "NRAK-<u27>", "glsa_<w32>_<h8>", "glc_<w60>", "sntryu_<h64>"),
    *("figd_<w43>", "pat<w14>.<h64>", "ATATT3xFf<w180>", "r8_<w37>", "gsk_<w52>", "pplx-<w48>"),
    *("xai-<w80>", "sk-or-v1-<h64>", "nvapi-<w64>", "lsv2_pt_<h32>_<h10>", "pcsk_<w70>"),
    *("KGAT_<h32>", "rpa_<u44>", "fw_<w24>", "dp.pt.<w43>", "AccountKey=<w86>==", "abc8Q~<w34>"),
    *("CLOJARS_<l60>", "dt0c01.<u24>.<u64>", "EZAK<w54>", "pscale_tkn_<w43>", "pnu_<l36>"),
    *("xkeysib-<h64>-<w16>", "sgp_<h40>", "sbp_<h40>", "tfp_<w59>", "AQVN<w36>", "aio_<w28>"),
    *("bkua_<h40>", "CCIPAT_<w22>_<h40>", f"pat-na1-{UUID}", "nfp_<w36>", "phx_<w43>"),
    *(f"access-production-{UUID}", "tskey-auth-<w12>-<w32>", "LTAI<w20>", "AKID<w32>"),
    *("postgres://user:<w12>@db.example.org/x", "Authorization: Bearer <w40>", "csk-<l48>"),
    *("-----BEGIN RSA PRIVATE KEY-----", "WANDB_API_KEY=<h40>", "--password <w20>", "ico-<w32>"),
]


_WORDS = (
    *("llama", "resnet50", "checkpoint", "tokens", "train", "eval", "fp16", "node", "cache"),
    *("key", "dataset", "imagenet", "shard", "scratch", "project", "model", "token", "secret"),
)


def benign(count: int) -> Iterator[str]:
    """Yield values as jobs have them: digests, ids, paths, versions, hosts, times, options."""
    draw = random.Random(21)  # noqa: S311  made up, the same in each run

    def hexes(length: int) -> str:
        return "".join(draw.choice(_CHARS["h"]) for _ in range(length))

    def word() -> str:
        return draw.choice(_WORDS)

    kinds: tuple[Callable[[], str], ...] = (
        lambda: f"sha256:{hexes(64)}",
        lambda: f"--revision {hexes(40)}",
        lambda: f"--run-id {hexes(8)}-{hexes(4)}-{hexes(4)}-{hexes(4)}-{hexes(12)}",
        lambda: f"/{word()}/project_{draw.randrange(10**9)}/{word()}-{hexes(8)}/step-{hexes(6)}",
        lambda: f"nvcr.io/nvidia/{word()}:{draw.randrange(20, 27)}.{draw.randrange(1, 13):02}-py3",
        lambda: f"{word().upper()}_DIR=$SCRATCH/{word()}/{hexes(16)}",
        lambda: f"--{word()}-{word()}={draw.randrange(10**12)}",
        lambda: f"{word()}-{draw.randrange(10)}.{draw.randrange(40)}+cu12{hexes(3)}",
        lambda: f"GPU-{hexes(8)}-{hexes(4)}-{hexes(4)}-{hexes(4)}-{hexes(12)}",
        lambda: f"nid[{draw.randrange(1000):06}-{draw.randrange(1000, 9999):06}]",
        lambda: f"s3://{word()}-{word()}/{hexes(32)}/{word()}.tar.zst",
        lambda: f"2026-11-27T{draw.randrange(24):02}:00:00Z {word()}_{word()}",
        lambda: f"{word()}_key={word()}_{word()}_{draw.randrange(100)}",
        lambda: f"git@github.com:{word()}/{word()}.git@{hexes(40)}",
        lambda: f"{word()}.{word()}.layers.{draw.randrange(99)}.self_attn.q_proj.weight",
    )
    for number in range(count):
        yield kinds[number % len(kinds)]()
