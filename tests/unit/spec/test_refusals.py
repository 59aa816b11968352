"""What a ConfigError says: the file, the key, what was got, what was expected, what to do."""

from __future__ import annotations

import pytest

from hpckit.core.document import parse_toml, refuse_unknown_keys
from hpckit.core.errors import ConfigError
from hpckit.core.fields import to_tree
from hpckit.script.launchers.registry import refuse_launch
from hpckit.spec.job import JobSpec
from hpckit.spec.merge import effective_job, option_layer, parse_site_file, site_layer
from tests.fakes.layers import job_layer

HEAD = 'schema = "hpckit.job/1"\nname = "x"\ncommand = ["true"]\n'


def refusal(text: str, head: str = HEAD) -> ConfigError:
    """The error of a job file."""
    with pytest.raises(ConfigError) as caught:
        effective_job([option_layer({}), job_layer(head + text, "job.toml")], refuse_launch)
    return caught.value


@pytest.mark.parametrize(
    ("text", "key", "says"),
    [
        ("[resources]\nnode = 2", "resources.node", "did you mean `nodes`?"),
        ("resorces = 1", "resorces", "did you mean `resources`?"),
        ("[environment]\npass_ = []", "environment.pass_", "did you mean `pass`?"),
        ("[environment.sett]\nA = '1'", "environment.sett", "did you mean `set`?"),
        ("[parallel]\ntensr = 2", "parallel.tensr", "did you mean `tensor`?"),
        ("resources = 3", "resources", "got a whole number, expected a table"),
        ("slurm = []", "slurm", "got a list, expected a table"),
        ("tune = 'x'", "tune", "got text, expected a table"),
        ("tune = true", "tune", "got true or false, expected a table"),
        ("tune = 1.5", "tune", "got a number, expected a table"),
        ("[resources]\nnodes = '2'", "resources.nodes", "got text, expected a whole number"),
        ("[resources]\nnodes = 1.5", "resources.nodes", "got a number, expected a whole number"),
        ("[resources]\nnodes = true", "resources.nodes", "expected a whole number"),
        ("[resources]\nnodes = 0", "resources.nodes", "got 0, expected 1 or more"),
        ("[resources]\nnodes = -1", "resources.nodes", "got -1, expected 1 or more"),
        ("[resources]\nexclusive = 1", "resources.exclusive", "expected true or false"),
        ("[resources]\ncpus_per_task = 0", "resources.cpus_per_task", "1 or more"),
        ("[resources]\ngpus_per_node = -1", "resources.gpus_per_node", "0 or more"),
        ("[resources]\ntime_limit = '-1'", "resources.time_limit", "expected a Slurm time"),
        ("[resources]\ntime_limit = 30", "resources.time_limit", "expected text"),
        ("[resources]\nmem = '1.5G'", "resources.mem", "expected a Slurm memory size"),
        ("[resources]\nmem = '1G'\nmem_per_cpu = '1G'", "resources.mem_per_cpu", "only one of"),
        ("[resources]\nmem = '0'\nmem_per_gpu = '1G'", "resources.mem_per_gpu", "only one of"),
        ("[resources]\nmem_per_cpu = '1'\nmem_per_gpu = '1'", "resources.mem_per_gpu", "only one"),
        ("[resources]\ngpu_type = 'a b'", "resources.gpu_type", "such as h100"),
        ("[launch]\nkind = 'torch'", "launch.kind", "did you mean 'torchrun'?"),
        ("[launch]\nkind = 'zzz'", "launch.kind", "expected one of: plain, mpi, torchrun"),
        ("[launch]\nkind = 1", "launch.kind", "expected"),
        ("[launch]\nmpi = 'pmix'\nkind = 'torchrun'", "launch.mpi", 'as mpi'),
        ("[launch]\nargs = ['--x']", "launch.args", "a launch.kind with a launcher"),
        ("[launch]\nkind = 'torchrun'\nargs = ['x']", "launch.args[0]", "dash"),
        ("[launch]\ndistribution = 'a b'", "launch.distribution", "block:block"),
        ("[launch]\nwait_s = -1", "launch.wait_s", "0 or more"),
        ("[environment]\ninherit = 'some'", "environment.inherit", "expected one of: all, none"),
        ("[environment]\npass = ['A B']", "environment.pass[0]", "a shell variable name"),
        ("[environment]\npass = ['A', '*B']", "environment.pass[1]", "a shell variable name"),
        ("[environment]\npass = 'A'", "environment.pass", "expected a list"),
        ("[environment]\nvenv = 'a'\nconda = 'b'", "environment.conda", "either venv or conda"),
        ("[environment]\nvenv = ' '", "environment.venv", "text that is not empty"),
        ("[environment]\nmodules = ['-gcc']", "environment.modules[0]", "would unload it"),
        ("[environment]\nset = { 'A-B' = '1' }", "environment.set", "a shell variable name"),
        ("[environment]\nset = { BASH_ENV = '1' }", "environment.set", "bash does not evaluate"),
        ("[tune]\nenv = { PS4 = '1' }", "tune.env", "bash does not evaluate"),
        ("[environment]\nset = { A = 1 }", "environment.set.A", "expected text"),
        ("[environment]\nset = { SLURM_X = '1' }", "environment.set", "neither hpckit's nor"),
        ("[environment]\nset = { HPCKIT_X = '1' }", "environment.set", "neither hpckit's nor"),
        ('[environment]\nset = { A = "a\\u0000" }', "environment.set.A", "without a NUL"),
        ("[environment]\nsetup = ['#SBATCH -N 2']", "environment.setup[0]", "not a directive"),
        ("[environment]\nsetup = ['a', ' #PBS -q x']", "environment.setup[1]", "not a directive"),
        ("[environment]\nsetup = ['a \\']", "environment.setup[0]", "end in a backslash"),
        ("[environment]\nsetup = ['']", "environment.setup[0]", "text that is not empty"),
        ("[slurm]\narray = '1-'", "slurm.array", 'an array such as "0-31%8"'),
        ("[slurm]\narray = '0-3%0'", "slurm.array", 'an array such as "0-31%8"'),
        ("[slurm]\narray = '0-9:0'", "slurm.array", 'an array such as "0-31%8"'),
        ("[slurm]\nsignal = 'usr2'", "slurm.signal", "USR2@120"),
        ("[slurm]\nmail_type = ['end']", "slurm.mail_type[0]", "an event: BEGIN"),
        ('[slurm]\ncomment = "a\\nb"', "slurm.comment", "one line of printable text"),
        ('[slurm]\npartition = ""', "slurm.partition", "text that is not empty"),
        ("[slurm.extra]\n'--x' = 1", "slurm.extra", "without its dashes"),
        ('[slurm.extra]\nx = "a\\nb"', "slurm.extra.x", "one line"),
        ("[slurm.extra]\nx = 1.5", "slurm.extra.x", "got a number"),
        ("[tune]\nenv = { 'A B' = '1' }", "tune.env", "a shell variable name"),
        ("[parallel]\ntensor = 0", "parallel.tensor", "1 or more"),
        ("[parallel]\ntensor = 0x8000000000000000", "parallel", "more than 64 bits"),
    ],
)  # fmt: skip
def test_a_wrong_value(text: str, key: str, says: str) -> None:
    """A wrong key or value is refused with the file, the dotted key, and what is right."""
    error = refusal(text)
    assert error.source == "job.toml"
    assert error.key == key
    assert says in str(error)
    assert str(error).startswith(f"job.toml: {key}: ")
    assert error.exit_code == 3


@pytest.mark.parametrize(
    ("head", "key", "says"),
    [
        ("", "schema", 'is missing, expected "hpckit.job/1"'),
        ('schema = "hpckit.job/2"\n', "schema", "got 'hpckit.job/2', expected"),
        ('schema = "hpckit.job/2"\nof_version_2 = 1\n', "schema", "got 'hpckit.job/2', expected"),
        ('schma = "hpckit.job/1"\n', "schma", "did you mean `schema`?"),
        ("schema = 1\n", "schema", "is not text, expected"),
        ('schema = "hpckit.job/1"\ncommand = ["x"]\n', "name", "is missing"),
        ('schema = "hpckit.job/1"\nname = "x"\n', "command", "is missing"),
        ('schema = "hpckit.job/1"\nname = ""\ncommand = ["x"]\n', "name", "not empty"),
        ('schema = "hpckit.job/1"\nname = "x"\ncommand = []\n', "command", "a program"),
        ('schema = "hpckit.job/1"\nname = "x"\ncommand = [""]\n', "command", "a program"),
        ('schema = "hpckit.job/1"\nname = "x"\ncommand = ["-x"]\n', "command", "not an option"),
        ('schema = "hpckit.job/1"\nname = "x"\ncommand = "x"\n', "command", "expected a list"),
    ],
)
def test_a_wrong_head(head: str, key: str, says: str) -> None:
    """A job file says its format, a name and a command."""
    error = refusal("", head)
    assert error.key == key
    assert says in str(error)


def test_bad_toml_names_the_place() -> None:
    """Text that is no TOML is refused with the line and column."""
    with pytest.raises(ConfigError, match=r"job.toml: is not valid TOML: .*line 2"):
        parse_toml("a = 1\nb = \n", "job.toml")


def test_the_layer_is_blamed() -> None:
    """A wrong value is blamed on what gave it: the option, the file, or the site."""
    job = job_layer(HEAD + "[slurm]\narray = '0-3'", "dir/job.toml")
    for layers, source in (
        ([option_layer({"slurm.array": ("x", "--array")}), job], "--array"),
        ([option_layer({}), job, site_layer({"resources": {"nodes": 0}}, "here")], "site here"),
        ([option_layer({}), job_layer(HEAD + "[slurm]\narray = 'x'", "a/b.toml")], "a/b.toml"),
    ):
        with pytest.raises(ConfigError) as caught:
            effective_job(layers)
        assert caught.value.source == source


def test_what_is_missing_is_the_files() -> None:
    """A missing key is blamed on the job file, where there is one."""
    job = job_layer('schema = "hpckit.job/1"\nname = "x"\n', "job.toml")
    with pytest.raises(ConfigError) as caught:
        effective_job([option_layer({}), job])
    assert (caught.value.source, caught.value.key) == ("job.toml", "command")
    with pytest.raises(ConfigError) as caught:
        effective_job([option_layer({})])
    assert caught.value.source == "command line"
    with pytest.raises(ConfigError) as caught:
        effective_job([])
    assert caught.value.source == "job"


@pytest.mark.parametrize(
    "key", ["name.x", "resources.nodes.x", "resources.x", "x", "", ".", "slurm", "environment.set"]
)
def test_an_option_for_no_key(key: str) -> None:
    """`--set` for what is no key, or a table, is refused."""
    with pytest.raises(ConfigError):
        effective_job([option_layer({"resources.nodes": (2, "--nodes"), "name": ("x", "--name"),
                                     "command": (["x"], "--"), key: (1, "--set")})])  # fmt: skip


@pytest.mark.parametrize("key", ["resources.exclusive", "account.enabled", "resources.nodes"])
def test_bytes_that_are_no_text_in_the_place_of_something_else(key: str) -> None:
    """An option's bytes that are not UTF-8 are refused by key also where no text is expected."""
    with pytest.raises(ConfigError, match="got text, expected") as caught:
        effective_job([option_layer({"command": (["x"], "--"), key: ("\udcff", "--set")})])
    assert caught.value.key == key


SITE = 'schema = "hpckit.site/1"\nname = "here"\n'


@pytest.mark.parametrize(
    ("text", "key", "says"),
    [
        ('name = "here"', "schema", "is missing"),
        ('schema = "hpckit.site/2"\nname = "here"', "schema", "hpckit.site/1"),
        ('schema = "hpckit.site/2"\nof_version_2 = {}', "schema", "hpckit.site/1"),
        ('schema = "hpckit.site/1"\nname = "other"', "name", "the name of the file"),
        ('schema = "hpckit.site/1"\nname = "../x"', "name", "letters, digits"),
        (SITE + 'submitter = "pbs"', "submitter", "expected one of: slurm, local"),
        (SITE + 'template = "../x.j2"', "template", "a template name"),
        (SITE + "poll_interval_s = 0", "poll_interval_s", "0.05 or more"),
        (SITE + "kill_wait_s = -1", "kill_wait_s", "0 or more"),
        (SITE + 'job_root = ""', "job_root", "not empty"),
        (SITE + "job = 1", "job", "expected a table"),
        (SITE + 'job.schema = "hpckit.job/1"', "job.schema", "a site cannot set this"),
        (SITE + 'job.command = ["x"]', "job.command", "a site cannot set this"),
        (SITE + "job.resources.nodes = 0", "job.resources.nodes", "1 or more"),
        (SITE + "job.resources.node = 1", "job.resources.node", "did you mean `nodes`?"),
        (SITE + "jobs = 1", "jobs", "did you mean `job`?"),
        (SITE + "partitions.gpu.nod = 1", "partitions.gpu.nod", "did you mean `nodes`?"),
        (SITE + "partitions.gpu.nodes = 0", "partitions.gpu.nodes", "got 0, expected 1 or more"),
        (SITE + "partitions.gpu.nodes = 'a'", "partitions.gpu.nodes", "got text"),
        (
            SITE + "partitions.gpu = {nodes = 1, mem_per_node = '0'}",
            "partitions.gpu.mem_per_node",
            "of at least 1M",
        ),
        (SITE + "partitions.gpu = {}", "partitions.gpu.nodes", "is missing"),
    ],
)
def test_a_wrong_site(text: str, key: str, says: str) -> None:
    """A site file is held to the same rules, its defaults as a job file's."""
    with pytest.raises(ConfigError) as caught:
        parse_site_file(text, "here.toml", "here")
    assert caught.value.source == "here.toml"
    assert caught.value.key == key
    assert says in str(caught.value)


def test_a_good_site() -> None:
    """A site file gives its values, the rest by default, its job table as written."""
    site = parse_site_file(SITE + "job.slurm.partition = 'p'", "here.toml", "here")
    assert (site.name, site.template, site.poll_interval_s) == ("here", "base.sbatch.j2", 15.0)
    assert to_tree(site)["job"] == {"slurm": {"partition": "p"}}


def test_a_tree_is_tables() -> None:
    """Only tables have keys to walk, and only plain values become a document."""
    with pytest.raises(ConfigError, match="expected a table"):
        refuse_unknown_keys([1], JobSpec, "x")
    with pytest.raises(TypeError, match="set has no place"):
        to_tree({1, 2})


@pytest.mark.parametrize(
    ("weak", "strong", "left"),
    [
        ({"environment": {"venv": "~/v"}}, "environment.conda = 'c'", ("environment", "venv")),
        ({"environment": {"conda": "c"}}, "environment.venv = '~/v'", ("environment", "conda")),
        ({"resources": {"mem": "1G"}}, "resources.mem_per_cpu = '1G'", ("resources", "mem")),
    ],
)
def test_a_stronger_word_excludes(
    weak: dict[str, object], strong: str, left: tuple[str, str]
) -> None:
    """Where two keys exclude each other, the stronger layer's is kept and the other dropped."""
    layers = [option_layer({}), job_layer(HEAD + strong, "job.toml"), site_layer(weak, "here")]
    effective = effective_job(layers)
    assert to_tree(effective.spec)[left[0]][left[1]] is None
    assert ".".join(left) not in {one.key for one in effective.origins}
