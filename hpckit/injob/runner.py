"""The runner: the process between the batch script and the srun that starts a job's ranks.

The batch script becomes this process, so it gets the signals that are meant for the batch shell.
What it does besides running the command never fails the job.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time

from hpckit.core.talk import reason, restart_words, say
from hpckit.injob.entry import not_started, without_coerced_locale
from hpckit.injob.steps import end_steps, hostnames
from hpckit.injob.supervise import catch_signals, exit_code_of, forward, spawn_quietly
from hpckit.spec.folder_in_job import (
    BEGAN_FILE,
    PLACE_FOLDER,
    SAMPLER_STEP,
    WAITING_FILE,
    component_folder,
    of_start,
)

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hpckit.injob.serve import Server


# --- What the runner starts, as words: the step with an order of nodes, and the sampler's step.


_SAMPLER_OPTIONS = (
    "--ntasks-per-node=1",
    "--overlap",  # shares CPUs, memory and GPUs with the command's step, and takes none away
    "--cpus-per-task=1",
    "--cpu-bind=none",
    "--mem=0",  # the job's limit, counted against no other step
    "--mpi=none",
    "--export=ALL",
    "--no-kill",  # one lost node does not end the samplers of the others
    "--wait=0",
    "--kill-on-bad-exit=0",
    "--input=none",
    f"--job-name={SAMPLER_STEP}",
)
"""Source: srun(1), Slurm 22.05 to 26.05."""
# The sampler's step asks for nothing of its own: what the job asks for each task or node would
# narrow it to one task's GPUs and memory, or contradict the options above. Nor does it run in the
# job's container, under its profiler, with what it preloads or with its output files.
_HELD_BACK_PREFIXES = (
    *("SLURM_CPU", "SLURM_GPU", "SLURM_MEM", "SLURM_NTASKS", "SLURM_TRES", "SRUN_"),
    *("SLURM_THREAD", "SLURM_CONTAINER", "SLURM_BCAST", "SLURM_STD"),
)
_HELD_BACK = frozenset(
    (
        *("SLURM_STEP_GRES", "SLURM_GRES", "SLURM_NPROCS", "SLURM_DISTRIBUTION", "SLURM_HOSTFILE"),
        *("SLURM_EXACT", "SLURM_EXCLUSIVE", "SLURM_WHOLE", "SLURM_HINT", "SLURM_TASK_PROLOG"),
        *("SLURM_TASK_EPILOG", "SLURM_PROLOG", "SLURM_EPILOG", "SLURM_NETWORK", "SLURM_PROFILE"),
        *("SLURM_TIMELIMIT", "SLURM_LABELIO", "SLURM_UNBUFFEREDIO", "SLURM_MULTI_PROG"),
        *("SLURM_CONSTRAINT", "LD_PRELOAD"),
    )
)
_NOT_ORDERED = ("--nodes=", "--distribution=")
"""What srun does not take beside an order, or what the order is in place of. Tried with 22.05,
24.11 and 26.05, trees and blocks: --nodes is refused from 24.11 on."""


_GROUP = "--het-group"
_IN_CONTAINER = ("--container-image=", "--container-name=")


_FLAGS = frozenset(
    (
        "--local",
        "--order",
        "--keep-numbers",
        "--bind",
        "--strict",
        "--secrets",
        "--keep-secrets",
    )
)


_NUMBERS = {"--ranks": "ranks", "--kill-wait": "kill_wait_s", "--idle": "idle_s"}
_TEXTS = {
    "--measure": "hz",
    "--container": "container",
    "--component": "component",
    "--serve": "serve",
}


class RunOptions:
    """The options of `injob run`; None where one is not given. `container` are names.

    `component` is the one of a heterogeneous job, `serve` the port and path of its server.
    """

    def __init__(self) -> None:
        self.local = self.order = self.keep_numbers = self.bind = self.strict = False
        self.container: str | None = None
        self.component: str | None = None
        self.secrets = self.keep_secrets = False
        self.ranks: int | None = None
        self.hz: str | None = None
        self.kill_wait_s: int | None = None
        self.serve: str | None = None
        self.idle_s: int | None = None


def read_options(words: Sequence[str]) -> tuple[RunOptions, list[str]] | None:
    """Return the options and the command behind `--`, None for a wrong command line."""
    options, rest = RunOptions(), list(words)
    try:
        while (word := rest.pop(0)) != "--":
            name = word.removeprefix("--").replace("-", "_")
            if word in _FLAGS:
                setattr(options, name, True)
            elif word in _NUMBERS:
                setattr(options, _NUMBERS[word], int(rest.pop(0)))
            elif word in _TEXTS:
                setattr(options, _TEXTS[word], rest.pop(0))
            else:
                return None
    except (IndexError, ValueError):
        return None
    return (options, rest) if rest else None


def option_of(command: Sequence[str], name: str) -> str | None:
    """Return the value of one of srun's options, None where it is not among the words."""
    values = (
        word[len(name) + 1 :] for word in _srun_options(command) if word.startswith(f"{name}=")
    )
    return next(values, None)


def _srun_options(command: Sequence[str]) -> Sequence[str]:
    end = 1
    while end < len(command) and command[end].startswith("--"):
        end += 1
    return command[1:end]


def through_entry(command: Sequence[str], agent: Sequence[str]) -> list[str]:
    """Return the srun command with an entry of hpckit's in front of what each task starts.

    That is the rank entry, which is there already, or the node entry in front of a launcher. A
    command of a template's own, or with options that are not understood here, stays as it is; so
    does one in whose container (Pyxis) the entry's Python need not be.
    """
    options = _srun_options(command)
    end = 1 + len(options)
    first = command[end : end + len(agent) + 1]
    is_inside = any(word.startswith(_IN_CONTAINER) for word in options)
    is_own = command[0] != "srun" or not first or first[0].startswith("-") or is_inside
    if is_own or [*agent, "rank"] == list(first):
        return list(command)
    return [*command[:end], *agent, "node", "--", *command[end:]]


def ordered(command: Sequence[str]) -> list[str]:
    """Return the srun command for a step whose nodes come from SLURM_HOSTFILE.

    An order is one host a task: then srun takes the nodes from it, and no --nodes. srun takes no
    second level here (`arbitrary:block` is refused): ranks bind themselves.
    """
    options = _srun_options(command)
    kept = [word for word in options if not word.startswith(_NOT_ORDERED)]
    return [command[0], "--distribution=arbitrary", *kept, *command[1 + len(options) :]]


def sampler_command(
    agent: Sequence[str], step: Sequence[str], folder: str, hz: str, parent: int | None
) -> list[str]:
    """Return what samples: a step, or beside a local job whose runner is `parent`.

    `step` says where, in srun's options. In its own session it gets no signal that is meant for
    the command.
    """
    sample = [*agent, "sample", "--out", folder, "--hz", hz]
    if parent is not None:
        return ["setsid", *sample, "--parent", str(parent)]
    return ["setsid", "srun", *step, *_SAMPLER_OPTIONS, *sample]


def sampler_step(nodes: str | None, group: str | None = None) -> list[str]:
    """Return srun's options for one sampler a node, in one group of a heterogeneous job."""
    words = [] if nodes is None else [f"--nodes={nodes}", f"--ntasks={nodes}"]
    return words if group is None else [*words, f"{_GROUP}={group}"]


def sampler_environment(env: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of the sampler's step, which is told what the job has of memory."""
    told = {
        f"HPCKIT_MEM_PER_{unit}": env.get(f"SLURM_MEM_PER_{unit}", "")
        for unit in ("NODE", "CPU", "GPU")
    }
    kept = (name for name in env if name not in _HELD_BACK)
    return {name: env[name] for name in kept if not name.startswith(_HELD_BACK_PREFIXES)} | told


_REFUSED_WITHIN_S = 60
_LOOK_S = 0.5
_BY_SIGNALS = (128 + int(signal.SIGTERM), 128 + int(signal.SIGKILL))
_REFUSALS = (1, 255)  # srun's own codes: 255 is for an option


def run(words: list[str], env: dict[str, str]) -> int | None:
    """Run the command behind `--` as the options say; None when `words` is no command line.

    Returns the code of the first rank that failed where one left it, else the command's own, 128+N
    after signal N; with `--local --ranks` the first of its ranks that failed gives the code.
    """
    read = read_options(words)
    if read is None:
        return None
    options, command = read
    caught = [signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGCHLD]
    wake = catch_signals([*caught, *([signal.SIGINT, signal.SIGHUP] if options.local else [])])
    env = without_coerced_locale(env)
    if mark := restart_words(env):
        say(mark)
    if options.component is not None:
        told = _component_environment(env, options.component, option_of(command, _GROUP), wake)
        if told is None:
            if options.secrets and not options.keep_secrets:
                forget_secrets(component_folder(env, options.component))
            return 0
        env = told
    agent = sys.orig_argv[: len(sys.orig_argv) - len(sys.argv) + 1]
    secrets = None
    if options.secrets:
        from hpckit.injob.secrets import Secrets

        secrets = Secrets(env)
    runner = _Runner(options, env, agent, wake, secrets.values if secrets else {})
    code = runner.local(command) if options.local else runner.step(command)
    if secrets is not None and not (code and options.keep_secrets):
        secrets.forget()
    # Python takes its handlers back as it ends: a late signal would end the job in its own name.
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    return _first_failure(env) or code if code else 0


def forget_secrets(folder: str) -> None:
    """Remove the secrets of a component that is not started."""
    from hpckit.injob.secrets import Secrets

    Secrets({"HPCKIT_JOB_FOLDER": folder}).forget()


def _component_environment(
    env: dict[str, str], name: str, group: str | None, wake: int
) -> dict[str, str] | None:
    """Wait until the component may start; return its environment, None where it is not to."""
    from hpckit.injob.het_group import await_start, of_group

    told = await_start(env, name, wake)
    if told is None:
        return None
    return {**of_group(env, group or "0"), **told, "HPCKIT_JOB_FOLDER": component_folder(env, name)}


def _first_failure(env: dict[str, str]) -> int:
    """Return the code that the first failing rank left, 0 without one.

    The ranks that a failing one took with it end by signals; the first failure is the answer.
    """
    if not env.get("HPCKIT_JOB_FOLDER"):
        return 0
    try:
        with open(of_start(env, "logs", "failed"), encoding="utf-8") as file:
            return int(file.read().split()[0])
    except (OSError, ValueError, IndexError):
        return 0


class _Runner:
    """One run of a command."""

    def __init__(
        self,
        options: RunOptions,
        env: dict[str, str],
        agent: Sequence[str],
        wake: int,
        secrets: Mapping[str, str],
    ) -> None:
        self._secrets = secrets
        self._options = options
        self._env = env
        self._agent = agent
        self._wake = wake
        self._folder = env.get("HPCKIT_JOB_FOLDER", "")
        # scancel sends TERM to the step itself; the runner stays to return the program's code.
        self._forwarded = {signal.SIGUSR1, signal.SIGUSR2}
        self._server: Server | None = None
        self._was_asked = False
        self._kill_s = float("inf")
        if options.component:
            self._forwarded |= {signal.SIGTERM}  # it comes from what ends the components
        if options.local:
            self._forwarded |= {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}

    def step(self, command: list[str]) -> int:
        """Run an srun command in the order of nodes that was decided, if there is one."""
        nodes = hostnames(self._env.get("SLURM_JOB_NODELIST", ""), self._env)
        command = through_entry(command, self._agent)
        hosts = self._place(nodes, command)
        if nodes:
            # The first node of the allocation; rank 0 is there too, also in an order of nodes.
            self._env["MASTER_ADDR"] = nodes[0]
        group = option_of(command, _GROUP)
        self._meet(self._env.get("SLURM_JOB_ID", ""), group or "")
        self._serve()
        self._tell_outside()
        count = option_of(command, "--nodes") or self._env.get("SLURM_JOB_NUM_NODES")
        self._sample(sampler_step(count, group), None)
        if hosts is None:
            return self._wait([self._start(command, self._env)])
        return self._ordered(hosts, command)

    def local(self, command: list[str]) -> int:
        """Start the ranks on this machine, or once what starts them itself."""
        self._env["MASTER_ADDR"] = "127.0.0.1"
        self._meet(self._env.get("HPCKIT_JOB_ID") or str(os.getpid()))
        self._serve()
        self._tell_outside()
        self._sample((), os.getpid())
        ranks = self._options.ranks
        if ranks is None:
            return self._wait([self._start(command, self._env)])
        identity = {"WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(ranks), "NODE_RANK": "0"}
        pids: list[int] = []
        for rank in map(str, range(ranks)):
            of_rank = {**self._env, **identity, "RANK": rank, "LOCAL_RANK": rank}
            pids.append(self._start(command, of_rank))
        return self._wait(pids)

    def _ordered(self, hosts: str, command: list[str]) -> int:
        """Run the step in the order of the file `hosts`, and once more without where srun refuses.

        srun does so at once, and no rank has begun, which each would have said twice: by a file
        that it makes, and by one that it removes. srun reads the file of SLURM_HOSTFILE whatever
        the step is, so no other step has it.
        """
        began_s = time.monotonic()
        order = {"SLURM_HOSTFILE": hosts, "HPCKIT_ORDERED": "1"}
        code = self._wait([self._start(ordered(command), {**self._env, **order})])
        place = self._env["HPCKIT_PLACE"]
        refused = (
            code in _REFUSALS
            and not os.path.exists(f"{place}/{BEGAN_FILE}")
            and os.access(f"{place}/{WAITING_FILE}", os.R_OK)
            and time.monotonic() - began_s <= _REFUSED_WITHIN_S
        )
        if not refused:
            return code
        numbers = "ranks are in Slurm's own order"
        if not self._options.keep_numbers:
            numbers = "hpckit numbers the ranks itself"
            self._env["HPCKIT_RANK_MAP"] = hosts
        say(f"warning: srun rejected the node order: {numbers}")
        return self._wait([self._start(command, self._env)])

    def _place(self, nodes: Sequence[str], command: Sequence[str]) -> str | None:
        """Tell the ranks what is to be done about places; return the file of the order of nodes."""
        options = self._options
        if not (self._folder and (options.order or options.bind)):
            return None
        self._env["HPCKIT_PLACE"] = of_start(self._env, PLACE_FOLDER, "restart")
        self._env |= {"HPCKIT_BIND": "1"} if options.bind else {}
        self._env |= {"HPCKIT_STRICT": "1"} if options.strict else {}
        plan = f"{self._folder}/order.json"
        tasks = option_of(command, "--ntasks-per-node") or ""
        if not (options.order and nodes and tasks.isdigit() and os.access(plan, os.R_OK)):
            return None
        from hpckit.placement.in_job import order_file

        return order_file(plan, nodes, int(tasks), self._env["HPCKIT_PLACE"])[0]

    def _meet(self, job: str, group: str = "") -> None:
        """Let the ranks meet at a port that is free here, those of each component at another."""
        from hpckit.injob.port import free_port

        found = free_port(job, self._env.get("SLURM_ARRAY_TASK_ID", group)) if job else None
        if found is None:
            say("warning: no free port found for MASTER_PORT")
        else:
            port, self._port_name = found
            self._env["MASTER_PORT"] = str(port)

    def _serve(self) -> None:
        """Watch the server that the command is; ranks find its port in HPCKIT_SERVE_PORT."""
        options = self._options
        if options.serve is None or not self._folder:
            return
        from hpckit.injob.serve import Server

        server = Server(options.serve, options.idle_s, self._env["MASTER_ADDR"], self._env)
        self._env["HPCKIT_SERVE_PORT"] = str(server.port)
        self._server = server

    def _end_server(self, why: str, alive: set[int]) -> None:
        """Ask the server to end; its own end, or that by TERM, is then a good one."""
        if self._was_asked:
            return
        self._was_asked = True
        say(f"{why}: stopping the server")
        if self._options.local or not end_steps([self._env.get("SLURM_JOB_ID", "")], self._env):
            _send(alive, signal.SIGTERM)

    def _tell_outside(self) -> None:
        """Let the ranks in a container compare what they find there with what is decided here."""
        names = self._options.container
        if self._folder and names is not None:
            from hpckit.binding.in_job import outside

            self._env.setdefault("HPCKIT_PLACE", of_start(self._env, PLACE_FOLDER, "restart"))
            self._env["HPCKIT_OUTSIDE"] = outside(self._env, names.split(","))

    def _sample(self, step: Sequence[str], parent: int | None) -> None:
        """Start the sampler, for `hpckit report`. The job goes on without it."""
        if self._options.hz is None:
            return
        self._env["HPCKIT_LEDGER"] = "1"
        logs = f"{self._folder}/logs"
        if not self._folder or not os.path.isdir(logs):
            return
        command = sampler_command(self._agent, step, self._folder, self._options.hz, parent)
        env = sampler_environment(self._env)
        try:
            fd = os.open(
                f"{logs}/sampler.log", os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666
            )
            spawn_quietly(command, env, fd)
            os.close(fd)
        except OSError as error:
            say(f"warning: no sampler: {reason(error)}")

    def _start(self, command: list[str], env: dict[str, str]) -> int:
        try:
            return spawn_quietly(command, {**env, **self._secrets})
        except OSError as error:
            raise SystemExit(not_started(command[0], None, error, None)) from None

    def _wait(self, pids: Sequence[int]) -> int:
        """Forward signals until all have ended; return the code of the first that failed.

        With `--kill-wait` it ends the others: TERM, and KILL after so many seconds.
        """
        alive, code = set(pids), 0
        while alive:
            self._listen(alive, self._kill_s - time.monotonic())
            for pid, status in _ended():
                if pid not in alive:
                    continue
                alive.remove(pid)
                ended = exit_code_of(status)
                ended = 0 if self._was_asked and ended in _BY_SIGNALS else ended
                if ended and not code and self._options.kill_wait_s is not None:
                    self._kill_s = time.monotonic() + self._options.kill_wait_s
                    _send(alive, signal.SIGTERM)
                code = code or ended
            if time.monotonic() >= self._kill_s:
                # srun makes KILL of it.
                _send(alive, signal.SIGKILL if self._options.local else signal.SIGTERM)
                self._kill_s = float("inf")
        return code

    def _listen(self, alive: set[int], timeout_s: float) -> None:
        """Forward the signals that come, and look at the server."""
        for number in self._arrived(timeout_s):
            if number in self._forwarded:
                _send(alive, number)
            elif number == signal.SIGTERM and self._server:
                self._end_server("TERM", alive)
        if self._server and not self._was_asked and self._server.look():
            self._end_server(f"no connection for {self._options.idle_s} s", alive)
            self._kill_s = time.monotonic() + (self._options.kill_wait_s or 0)

    def _arrived(self, timeout_s: float) -> bytes:
        timeout_s = min(timeout_s, _LOOK_S) if self._server else timeout_s
        timeout = None if timeout_s == float("inf") else max(0.0, timeout_s)
        ready, _, _ = select.select([self._wake], [], [], timeout)
        return os.read(self._wake, 512) if ready else b""


def _send(pids: set[int], number: int) -> None:
    for pid in pids:
        forward(pid, number)


def _ended() -> Iterator[tuple[int, int]]:
    """Give each child that has ended, and its wait status."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        yield pid, status
