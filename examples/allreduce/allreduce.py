"""An all-reduce that checks itself: every rank adds up the same vector and proves the sum.

Run one process per rank, with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT in the environment
(srun's own SLURM_PROCID and SLURM_NTASKS do for the first two). With torch installed the sum goes
over gloo, otherwise around a ring of plain sockets.
"""

from __future__ import annotations

import argparse
import os
import socket
import sys
import time
from array import array
from collections.abc import Callable
from datetime import timedelta

# Two jobs may use one port, one after the other or by mistake: peers name their job first.
JOB = os.environ.get("HPCKIT_JOB_ID") or os.environ.get("SLURM_JOB_ID") or "local"
GREETING = f"hpckit-allreduce/1 {JOB}"
GREETING_BYTES = len(GREETING) + 40
HELLO_S = 5.0
RETRY_S = 0.1
LOOPBACK = ("127.0.0.1", "::1")


def main() -> int:
    """Run one rank and return its exit code: 0 for a right sum, 1 for a wrong one or no peer."""
    options = parse_options(sys.argv[1:])
    rank = int(os.environ.get("RANK") or os.environ.get("SLURM_PROCID") or 0)
    world_size = int(os.environ.get("WORLD_SIZE") or os.environ.get("SLURM_NTASKS") or 1)
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29500")
    me = f"rank {rank} of {world_size} on {socket.gethostname()}"
    if rank == options.fail_rank:
        say(f"{me}: ends with code {options.fail_code}, as asked")
        return int(options.fail_code)
    name, all_reduce = choose_backend(options.backend)
    vector = array("q", ((rank + 1) * (index + 1) for index in range(options.size)))
    started_s = time.perf_counter()
    try:
        total = all_reduce(rank, world_size, vector, options.timeout_s)
    except (OSError, RuntimeError) as error:
        say(f"{me}: no sum ({name}): {error}")
        return 1
    elapsed_ms = (time.perf_counter() - started_s) * 1000
    wrong = first_difference(total, world_size, options.size)
    verdict = f"WRONG SUM, {wrong}" if wrong else "sum ok"
    say(f"{me}: {verdict} ({name}, {options.size} integers, {elapsed_ms:.1f} ms)")
    return 1 if wrong else 0


def say(line: str) -> None:
    """Print a line in one piece, so that the lines of many ranks do not run into one another."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def parse_options(words: list[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Sum a vector over all ranks and check it.")
    parser.add_argument("--size", type=int, default=1000, help="integers in the vector")
    parser.add_argument("--backend", choices=("auto", "ring", "gloo"), default="auto")
    parser.add_argument("--timeout-s", type=float, default=90.0, help="wait for peers this long")
    parser.add_argument("--fail-rank", type=int, help="this rank fails before the exchange")
    parser.add_argument("--fail-code", type=int, default=1, help="... with this exit code")
    return parser.parse_args(words)


def first_difference(total: array[int], world_size: int, size: int) -> str:
    """Compare with the closed form, n (n + 1) / 2 times the place; empty when all agree."""
    if len(total) != size:
        return f"got {len(total)} integers, expected {size}"
    factor = world_size * (world_size + 1) // 2
    for index, got in enumerate(total):
        if got != factor * (index + 1):
            return f"got {got}, expected {factor * (index + 1)} at {index}"
    return ""


# --- over torch ----------------------------------------------------------------------------------


def choose_backend(
    wanted: str,
) -> tuple[str, Callable[[int, int, array[int], float], array[int]]]:
    """Give the backend's name and its function; `auto` is gloo where torch can be imported."""
    if wanted != "ring":
        try:
            import torch.distributed  # noqa: F401
        except ImportError:
            if wanted == "gloo":
                raise
        else:
            return "gloo through torch", gloo_all_reduce
    return "ring over sockets", ring_all_reduce


def gloo_all_reduce(rank: int, world_size: int, vector: array[int], timeout_s: float) -> array[int]:
    """Sum `vector` over all ranks with torch's gloo backend."""
    import torch
    import torch.distributed as dist

    limit = timedelta(seconds=timeout_s)
    dist.init_process_group("gloo", rank=rank, world_size=world_size, timeout=limit)
    tensor = torch.tensor(vector.tolist(), dtype=torch.int64)
    dist.all_reduce(tensor)
    # A rank that leaves early takes its connections, and maybe the meeting point, with it.
    dist.barrier()
    return array("q", tensor.tolist())


# --- over sockets --------------------------------------------------------------------------------


def ring_all_reduce(rank: int, world_size: int, vector: array[int], timeout_s: float) -> array[int]:
    """Sum `vector` over all ranks: reduce-scatter, then all-gather, each once around the ring."""
    if world_size == 1:
        return vector
    total = array("q", vector)
    bounds = [len(vector) * part // world_size for part in range(world_size + 1)]
    left, right = join_ring(rank, world_size, time.monotonic() + timeout_s)
    with left, right:
        for step in range(2 * (world_size - 1)):
            sent = (rank - step) % world_size
            got = (rank - step - 1) % world_size
            outgoing = total[bounds[sent] : bounds[sent + 1]]
            incoming = array("q", bytes(8 * (bounds[got + 1] - bounds[got])))
            exchange(rank, left, right, outgoing, incoming)
            if step < world_size - 1:
                mine = total[bounds[got] : bounds[got + 1]]
                incoming = array("q", (a + b for a, b in zip(mine, incoming, strict=True)))
            total[bounds[got] : bounds[got + 1]] = incoming
    return total


def exchange(
    rank: int, left: socket.socket, right: socket.socket, out: array[int], into: array[int]
) -> None:
    """Send to the right and receive from the left; odd ranks receive first, so none waits."""
    if rank % 2 == 0:
        right.sendall(out)
    view = memoryview(into).cast("B")
    while view:
        count = left.recv_into(view)
        if count == 0:
            raise ConnectionError("the left neighbour has gone")
        view = view[count:]
    if rank % 2 == 1:
        right.sendall(out)


def join_ring(rank: int, world_size: int, deadline_s: float) -> tuple[socket.socket, socket.socket]:
    """Meet at rank 0, learn where everybody listens, and connect to both neighbours."""
    master = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
    with listen(0) as door:
        port = door.getsockname()[1]
        if rank == 0:
            addresses = host_meeting(world_size, master, port, deadline_s)
        else:
            addresses = attend_meeting(rank, master, port, deadline_s)
        if len(addresses) != world_size:
            raise ConnectionError("rank 0 has gone")
        before = ["ring", str((rank - 1) % world_size)]
        after = addresses[(rank + 1) % world_size]
        # Odd ranks open the door first: if all knocked at once, nobody would be there to open.
        if rank % 2 == 1:
            left = accept(door, before, deadline_s)[0]
            right = connect(after, f"ring {rank}", deadline_s)
        else:
            right = connect(after, f"ring {rank}", deadline_s)
            left = accept(door, before, deadline_s)[0]
    for neighbour in (left, right):
        neighbour.settimeout(remaining_s(deadline_s))
    return left, right


def host_meeting(
    world_size: int, master: tuple[str, int], port: int, deadline_s: float
) -> list[tuple[str, int]]:
    """As rank 0, collect every rank's address and hand the whole list to each."""
    addresses = {0: (master[0], port)}
    guests = {}
    with listen(master[1]) as door:
        while missing := set(range(world_size)) - set(addresses):
            try:
                guest, words = accept(door, ["meet"], deadline_s)
            except TimeoutError as error:
                raise TimeoutError(f"ranks that did not come: {sorted(missing)}") from error
            rank, guest_port = int(words[0]), int(words[1])
            host = guest.getpeername()[0].removeprefix("::ffff:")
            # A guest on this very host may come by the loopback, which others cannot use.
            addresses[rank] = (master[0] if host in LOOPBACK else host, guest_port)
            guests[rank] = guest
    ordered = [addresses[rank] for rank in range(world_size)]
    listing = "".join(f"{host} {number}\n" for host, number in ordered)
    for guest in guests.values():
        with guest:
            guest.sendall(listing.encode())
    return ordered


def attend_meeting(
    rank: int, master: tuple[str, int], port: int, deadline_s: float
) -> list[tuple[str, int]]:
    """As any other rank, tell rank 0 where this one listens and read the whole list."""
    with connect(master, f"meet {rank} {port}", deadline_s) as sock, sock.makefile() as stream:
        sock.settimeout(remaining_s(deadline_s))
        lines = [line.split() for line in stream]
    return [(host, int(number)) for host, number in lines]


# --- connections that know their peer -------------------------------------------------------------


def listen(port: int) -> socket.socket:
    """Listen on all addresses of this host; port 0 takes any free one."""
    if socket.has_dualstack_ipv6():
        family, dual = socket.AF_INET6, True
    else:
        family, dual = socket.AF_INET, False
    return socket.create_server(("", port), family=family, dualstack_ipv6=dual, backlog=1024)


def connect(address: tuple[str, int], words: str, deadline_s: float) -> socket.socket:
    """Connect to a peer of this job, again and again until one welcomes this rank."""
    while True:
        try:
            sock = socket.create_connection(address, timeout=HELLO_S)
            sock.sendall(f"{GREETING} {words}\n".encode())
            if read_greeting(sock) == ["welcome"]:
                return sock
            sock.close()
        except OSError:
            pass  # nobody there yet, or a stranger
        if time.monotonic() + RETRY_S > deadline_s:
            raise TimeoutError(f"no peer of this job at {address[0]} port {address[1]}")
        time.sleep(RETRY_S)


def accept(
    door: socket.socket, expected: list[str], deadline_s: float
) -> tuple[socket.socket, list[str]]:
    """Let in the next peer whose greeting goes on as expected, and give the words after that."""
    while True:
        door.settimeout(remaining_s(deadline_s))
        guest = door.accept()[0]
        guest.settimeout(HELLO_S)
        try:
            words = read_greeting(guest)
            if words[: len(expected)] == expected:
                guest.sendall(f"{GREETING} welcome\n".encode())
                return guest, words[len(expected) :]
        except OSError:
            pass  # gone again, or silent
        guest.close()


def read_greeting(sock: socket.socket) -> list[str]:
    """Read one line, byte by byte so as to take no more, and give the words after the greeting."""
    line = b""
    while len(line) < GREETING_BYTES and not line.endswith(b"\n"):
        byte = sock.recv(1)
        if not byte:
            break
        line += byte
    text = line.decode(errors="replace")
    whole = text.startswith(f"{GREETING} ") and text.endswith("\n")
    return text.removeprefix(GREETING).split() if whole else []


def remaining_s(deadline_s: float) -> float:
    """Give the seconds that are left, or raise TimeoutError."""
    left_s = deadline_s - time.monotonic()
    if left_s <= 0:
        raise TimeoutError("the time is up")
    return left_s


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    if "torch" in sys.modules:
        # gloo's threads may still run while the interpreter takes torch down, and abort the rank.
        os._exit(code)
    sys.exit(code)
