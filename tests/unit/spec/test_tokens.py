"""Tokens are refused wherever they are said, and what only looks opaque is not. All are made up."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hpckit.core.errors import ConfigError
from hpckit.spec.tokens import refuse_file, refuse_script, refuse_words, tokens_in
from tests.fakes.tokens import SHAPES, benign, made

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


def test_a_thousand_values_without_an_alarm() -> None:
    """Digests, ids, paths, versions, times and options as jobs have them are no secrets."""
    assert [text for text in benign(1000) if list(tokens_in(text))] == []


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
    with pytest.raises(ConfigError, match="command"):  # what is no name lets nothing through
        refuse_file(
            f'command = "{token}"\n[environment]\nnot_secrets = [["command"]]\n', "job.toml", ()
        )


def test_a_script_may_hold_what_was_let_through() -> None:
    """What stands in the job was judged there; only what the site or a template adds is new."""
    token = made("ghp_<w36>")
    refuse_script(f"echo {token}\n", f"echo {token}")
    with pytest.raises(ConfigError, match=r"line 1 of the script \(from the site file"):
        refuse_script(f"echo {token}\n", "echo")
