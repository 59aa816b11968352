"""`hpckit plan`: what it prints, its documents, its errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hpckit.planner.catalogue import CONFIGS
from tests.conftest import RunHpckit
from tests.fakes.cli_jobs import call, document

CONFIG = {
    "model_type": "llama",
    "hidden_size": 8192,
    "num_hidden_layers": 80,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "intermediate_size": 28672,
    "vocab_size": 128256,
}
TABLE = """\
hidden,layers,heads,vocab,gpu,gpus,seq,global_batch,micro_batch,tp,cp,ep,pp,vp,dp,zero,precision,recompute,step_s
6144,48,64,51200,A100-80GB-SXM,8,2048,4,4,8,1,1,1,1,1,0,bf16,full,1.42
12288,96,96,51200,A100-80GB-SXM,64,2048,64,1,8,1,1,8,3,1,0,bf16,selective,13.75
"""
WIDEST = 24
"""Lines that a screen has."""


def planned(*words: str | Path) -> dict[str, Any]:
    """The document of a plan."""
    return (
        document("plan", "--json", *words)
        if words[0] != "evaluate"
        else document("plan", "evaluate", "--json", *words[1:])
    )


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A config.json."""
    file = tmp_path / "config.json"
    file.write_text(json.dumps(CONFIG))
    return file


def test_175_billion_parameters_do_not_fit_one_a100() -> None:
    """350 GB at two bytes each, and what holds and trains them."""
    text = call("plan", "--params", "175e9", "--dtype", "fp16", "--gpu", "A100-SXM4-80GB").stdout
    assert "350 GB" in text
    assert "does not fit one A100-SXM4-80GB" in text
    assert "2.8 TB" in text
    same = call("plan", "--params", "175B", "--dtype", "fp16", "--gpu", "a100").stdout
    assert same == text


def test_ten_thousand_gpus_are_four_megawatts() -> None:
    """And the building needs more."""
    text = call("plan", "--gpus", "10000", "--gpu-power-w", "400").stdout
    assert "4 MW" in text
    assert "5.28–8.15 MW" in text
    tree = planned("--gpus", "10000", "--gpu-power-w", "400")
    assert tree["power"]["gpus_w"] == 4e6
    assert "4 MW" in call("plan", "--gpus", "10000", "--gpu", "a100").stdout


def test_the_answer_is_one_screen_and_ends_in_a_command(config: Path) -> None:
    """Verdict first, next command last, as many lines as a screen has at most."""
    lines = call("plan", config, "--gpu", "h100", "--gpus", "64", "--tp", "8").stdout.splitlines()
    assert len(lines) <= WIDEST
    assert "70.55 billion parameters" in lines[0]
    assert lines[1].startswith((" fits", " tight"))
    assert lines[-1].startswith(" next      hpckit plan ")
    assert lines[-1].endswith("--write job.toml")


def test_a_document_has_terms_that_add_up_and_layouts(config: Path) -> None:
    """Schema hpckit.fit/1: memory.terms, memory.peak_bytes, layouts with step_s, mfu and terms."""
    tree = planned(config, "--gpu", "h100", "--gpus", "64", "--seq", "4096")
    assert tree["schema"] == "hpckit.fit/1"
    assert tree["model"]["parameters"] == 70_553_706_496
    memory = tree["memory"]
    assert memory["peak_bytes"] == sum(term["bytes"] for term in memory["terms"])
    assert memory["verdict"] == "fits"
    assert len(tree["layouts"]) == 10
    for row in tree["layouts"]:
        assert row["step_s"] == pytest.approx(sum(term["s"] for term in row["terms"]))
        assert 0 < row["mfu_causal"] < row["mfu"] < 1
        assert row["tp"] * row["cp"] * row["pp"] * row["dp"] == row["gpus"] == 64
    assert tree["layout"] == {key: tree["layouts"][0][key] for key in tree["layout"]}


def test_a_layout_that_is_said_is_the_one_that_is_judged(config: Path) -> None:
    """What is not said of it has its documented default."""
    tree = planned(
        config, "--gpu", "B200", "--gpus", "8", "--layers", "12", "--tp", "2",
        "--seq", "4096", "--global-batch", "16", "--recompute", "none",
    )  # fmt: skip
    expected = {"tp": 2, "dp": 4, "zero": 1, "micro_batch": 1, "recompute": "none", "vp": 1}
    assert expected.items() <= tree["layout"].items()
    assert tree["memory"]["peak_bytes"] / 2**30 == pytest.approx(60.68, rel=0.05)  # SimuMax's


def test_without_gpus_the_fewest_that_fit_are_told() -> None:
    """Of a name of the catalogue."""
    tree = planned("Llama-3-70B", "--gpu", "h100")
    assert tree["gpus"] == 16
    assert tree["memory"]["verdict"] == "fits"


def test_what_does_not_fit_says_what_would(config: Path) -> None:
    """The change is in options, and the next command has them in place of what was typed."""
    text = call("plan", config, "--gpu", "a100", "--gpus", "8", "--tp", "2").stdout
    assert " does not fit " in text
    change = next(line for line in text.splitlines() if line.startswith(" change"))
    assert "--gpus" in change or "--tp" in change
    command = text.splitlines()[-1].removeprefix(" next      hpckit ").split()
    assert command.count("--tp") == 1
    assert " fits " in call(*command).stdout


def test_tokens_give_time_failures_and_energy() -> None:
    """With the stated failure rate; a slower one never gives a longer time."""
    words = ("Llama-3-70B", "--gpu", "h100", "--gpus", "1024", "--tokens", "1e12")
    tree, often = planned(*words), planned(*words, "--mttf-gpu-h", "1000")
    assert tree["failures"]["expected_s"] > tree["failures"]["ideal_s"]
    assert often["failures"]["expected_s"] > tree["failures"]["expected_s"]
    assert often["failures"]["interval_s"] < tree["failures"]["interval_s"]
    assert tree["power"]["facility_kwh"] > tree["power"]["it_kwh"] > 0
    capped = planned(*words, "--power-cap-w", "500")
    assert capped["time"]["step_s"] > tree["time"]["step_s"]
    assert capped["failures"]["mttf_gpu_h"] == 50_700


def test_a_sites_factors_give_cost_and_carbon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its price and its grams of the building's energy, its scale of step times, its own GPUs."""
    sites = tmp_path / "site_configs"
    sites.mkdir()
    (sites / "here.toml").write_text(
        'schema = "hpckit.site/1"\nname = "here"\n'
        '[energy]\npue = 1.2\nprice_per_kwh = 0.25\ncurrency = "EUR"\nco2_g_per_kwh = 400\n'
        "[planner]\nstep_scale = 2\n"
        "[accelerators.mine]\ntflops = 500\nmemory_mib = 81920\nmemory_gb_per_s = 2000\n"
        "tdp_w = 500\nlink_gb_per_s = 300\nnode_gpus = 4\n"
    )
    monkeypatch.setenv("HPCKIT_PATH", str(tmp_path))
    words = ("Llama-3-8B", "--gpus", "8", "--tokens", "1e10")
    here = planned(*words, "--gpu", "mine", "--site", "here")
    power = here["power"]
    assert power["facility_kwh"] == pytest.approx(1.2 * power["it_kwh"])
    assert power["cost"] == pytest.approx(0.25 * power["facility_kwh"])
    assert power["co2_kg"] == pytest.approx(0.4 * power["facility_kwh"])
    assert (here["accelerator"]["name"], here["node_gpus"]) == ("mine", 4)
    known, slower = (
        planned(*words, "--gpu", "h100", *more)["time"]["step_s"]
        for more in ((), ("--site", "here"))
    )
    assert slower == pytest.approx(2 * known)


def test_serving_is_weights_and_cache() -> None:
    """How many tokens have room is said; without room, how many GPUs would have it."""
    text = call("plan", "Llama-3-70B", "--gpu", "h100", "--inference", "--tp", "4").stdout
    assert "tokens of KV cache" in text
    none = call("plan", "Llama-3-405B", "--gpu", "h100", "--inference").stdout
    assert "does not fit" in none
    assert "--gpus 16" in none
    tree = planned("DeepSeek-V3", "--gpu", "h200", "--inference", "--tp", "8")
    assert tree["memory"]["peak_bytes"] == sum(term["bytes"] for term in tree["memory"]["terms"])


def test_a_table_is_evaluated(tmp_path: Path) -> None:
    """rows[], mean and worst error, and the baseline's."""
    (tmp_path / "t.csv").write_text(TABLE)
    tree = planned("evaluate", tmp_path / "t.csv")
    assert [row["published"] for row in tree["rows"]] == [1.42, 13.75]
    assert tree["mean_abs_err_pct"] <= tree["max_abs_err_pct"] < 5
    assert tree["naive_mean_abs_err_pct"] > 0
    text = call("plan", "evaluate", tmp_path / "t.csv").stdout
    assert " 2 rows predicted" in text
    assert "one efficiency fitted to this table" in text
    assert "evaluate" in call("plan", "evaluate", "--help").stdout


def test_a_plan_is_written_and_judged_again(
    tmp_path: Path, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a job file that `check` takes, that `plan` reads, and that is not written over."""
    monkeypatch.chdir(tmp_path)
    words = ("plan", config, "--gpu", "h100", "--gpus", "16", "--write", "job.toml")
    assert "wrote job.toml" in call(*words).stdout
    text = (tmp_path / "job.toml").read_text()
    assert 'config = "config.json"' in text
    assert "no problems" in call("check", "job.toml", "--offline", "--", "python", "t.py").stdout
    tree = planned("job.toml")
    assert (tree["gpus"], tree["accelerator"]["name"]) == (16, "H100-SXM5-80GB")
    assert "already exists" in str(call(*words, refused=True).exception)


def test_pictures_are_written(tmp_path: Path) -> None:
    """An SVG and a page, and the answer is printed too."""
    words = ("--svg", tmp_path / "p.svg", "--html", tmp_path / "p.html")
    text = call("plan", "Llama-3-8B", "--gpu", "h100", "--gpus", "8", *words).stdout
    assert " fits " in text
    assert (tmp_path / "p.svg").read_text().startswith("<svg")
    assert "<svg" in (tmp_path / "p.html").read_text()


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ((), 2, "what is to be planned"),
        (("Llama-3-8B",), 2, "--gpu NAME says on what"),
        (("Llama-3-8B", "--gpu", "nosuch"), 3, "unknown accelerator 'nosuch'"),
        (("nosuch.json", "--gpu", "h100"), 3, "no such file or built-in model"),
        (("Llama-3-8B", "--params", "1e9"), 2, "says the model"),
        (("--params", "many"), 2, "no number of parameters"),
        (("--gpus", "8", "--gpu", "Trainium2"), 3, "its maker publishes none"),
        (("Llama-3-8B", "--gpu", "h100", "--gpus", "8", "--tp", "3"), 5, "--gpus"),
        (("Llama-3-8B", "--gpu", "h100", "--gpus", "12", "--tp", "3"), 5, "--tp 2"),
        (("Llama-3-8B", "--gpu", "h100", "--qlora"), 2, "--lora RANK"),
        (("evaluate", "nosuch.csv"), 3, "no such file"),
        (("Llama-3-8B", "--gpu", "h100", "--json", "--write", "x"), 2, "does nothing with --write"),
        (("--params", "7B", "--gpus", "8"), 2, "does nothing with --gpus"),
        (("Llama-3-8B", "--gpu", "h100", "--inference", "--gpus", "8", "--tp", "2"), 2, "one copy"),
        (("Llama-3-8B", "--gpu", "h100", "--pue", "nan"), 2, "nan is no number"),
        (("Llama-3-8B", "--gpu", "v100", "--precision", "bf16"), 5, "--precision fp16"),
        (("--params", "7B", "--lora", "8"), 2, "takes no layout"),
    ],
)
def test_what_cannot_be_is_said_at_once(
    words: tuple[str, ...], code: int, said: str, run_hpckit: RunHpckit
) -> None:
    """Each with its exit code and what to do."""
    result = run_hpckit("plan", *words)
    assert result.returncode == code
    assert said in result.stderr


def test_a_megatron_command_is_read_after_two_dashes() -> None:
    """Its layout is judged as it stands."""
    command = [
        "torchrun",
        "pretrain_gpt.py",
        "--num-layers",
        "96",
        "--hidden-size",
        "12288",
        "--num-attention-heads",
        "96",
        "--seq-length",
        "2048",
        "--max-position-embeddings",
        "2048",
        "--micro-batch-size",
        "1",
        "--global-batch-size",
        "1536",
        "--tensor-model-parallel-size",
        "8",
        "--pipeline-model-parallel-size",
        "8",
        "--bf16",
        "--use-distributed-optimizer",
        "--vocab-size",
        "50257",
    ]
    tree = planned("--gpu", "a100", "--gpus", "1536", "--", *command)
    assert tree["layout"]["dp"] == 24
    assert tree["model"]["parameters"] == 174_604_259_328


def test_a_job_that_cannot_fit_is_refused_before_it_queues(
    tmp_path: Path, run_hpckit: RunHpckit
) -> None:
    """By `check`, and by `submit` before Slurm sees it."""
    (tmp_path / "c.json").write_text(json.dumps(dict(CONFIGS["Llama-3-405B"])))
    (tmp_path / "job.toml").write_text(
        'schema = "hpckit.job/1"\nname = "x"\ncommand = ["true"]\n'
        "[resources]\nnodes = 1\ngpus_per_node = 8\n"
        '[model]\nconfig = "c.json"\ngpu = "h100"\nseq = 4096\n'
    )
    for command in (("check", "--offline"), ("submit",), ("render",)):
        result = run_hpckit(*command, str(tmp_path / "job.toml"))
        assert result.returncode != 0
        assert "GB per GPU" in result.stdout + result.stderr
