"""Tokens are refused wherever they are said, and what only looks opaque is not. All are made up."""

from __future__ import annotations

import random
import string
from collections.abc import Callable

import pytest

from hpckit.core.errors import ConfigError
from hpckit.spec.tokens import refuse_file, refuse_script, refuse_words, tokens_in

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
BENIGN = [
    "python train.py --config configs/llama-70b.yaml --tokenizer meta-llama/Llama-3.1-70B",
    "--max-tokens 4096 --seed 1234567890123456 --tokens 300B cache_key=conv2d_fp16_nchw_v2",
    "/scratch/project_465000123/checkpoints/2026-11-27-llama-6a2bb0ab/step-00012000",
    "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "docker://nvcr.io/nvidia/pytorch:24.10-py3 git@github.com:org/repo.git https://user@host/path",
    "mlx5_0:1,mlx5_1:1 NCCL_IB_HCA==mlx5_0,mlx5_3 GPU-8f6a2b1c-1111-2222-3333-444455556666",
    "ssh-rsa model-00001-of-00030.safetensors sk-learn-1.5.2 ghp-stats hf_transfer task-key-frame",
    "--key-file /home/u/.keys/a1b2c3d4e5f6a7b8 s3://bucket/key/part-0001-9f86d081884c7d65",
    "cuda/12.4.1-gcc-12.3.0-x5f7q2d conda-forge::pytorch=2.4.0=cuda120_py311h25b6552_300",
    "http_proxy=http://proxy:3128 HF_HOME=/scratch/hf WANDB_MODE=offline TOKENIZERS_PARALLELISM=0",
]


@pytest.mark.parametrize("shape", SHAPES)
def test_a_token_is_refused_and_never_shown(shape: str) -> None:
    """In each way to say it: exit 3, the place, the way to do it, and no part of the token."""
    token = made(shape)
    toml = token.replace('"', "'")
    ways: list[Callable[[], None]] = [
        lambda: refuse_words(["--env", f"X={token}"], ()),
        lambda: refuse_words([f"--set=environment.set.X={token}"], ()),
        lambda: refuse_words(["--site", "x"], ("python", "t.py", *token.split(" "))),
        lambda: refuse_file(f'[environment]\nset = {{ X = "{toml}" }}\n', "job.toml", ()),
        lambda: refuse_file(f'command = ["true"] # {token}\n', "job.toml", ()),
        lambda: refuse_script(f"#!/bin/bash\nexport X={token}\n", "true"),
    ]
    for way in ways:
        with pytest.raises(ConfigError) as caught:
            way()
        assert caught.value.exit_code == 3
        assert token[-8:] not in str(caught.value)


@pytest.mark.parametrize("text", BENIGN)
def test_no_false_alarm(text: str) -> None:
    """Paths, digests, names of models, devices and modules are no secrets."""
    assert list(tokens_in(text)) == []
    refuse_words([], text.split())


def test_let_through_by_name() -> None:
    """A key, an option or the command is let through by its name, and nothing else with it."""
    token = made("ghp_<w36>")
    refuse_words(["--not-secret", "command"], ["echo", token])
    refuse_words(["--not-secret=--env", "--env", f"X={token}"], [])
    with pytest.raises(ConfigError, match=r"^the command"):
        refuse_words(["--not-secret", "--env"], ["echo", token])
    allowed = f'[environment]\nnot_secrets = ["command"]\n[x]\ny = "{token}"\n'
    with pytest.raises(ConfigError, match=r"^job\.toml: x\.y"):
        refuse_file(f'command = ["echo", "{token}"]\n{allowed}', "job.toml", ())
    refuse_file(f'command = ["echo", "{token}"]\n', "job.toml", ("--not-secret", "command"))


def test_a_script_may_hold_what_was_let_through() -> None:
    """What stands in the job was judged there; only what the site or a template adds is new."""
    token = made("ghp_<w36>")
    refuse_script(f"echo {token}\n", f"echo {token}")
    with pytest.raises(ConfigError, match="line 1 of the script, from the site file"):
        refuse_script(f"echo {token}\n", "echo")
