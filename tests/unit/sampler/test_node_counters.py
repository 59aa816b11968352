"""Counters of the whole node, from synthetic trees of /sys."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpckit.sampler.host import NodePressure, NodeUse, NumberFiles, energy, network


class Root:
    """A root that files are written into."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, folder: str, **files: str) -> None:
        """Files of a folder, a line each."""
        where = self.path / folder
        where.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (where / name).write_text(f"{text}\n")


@pytest.fixture
def root(tmp_path: Path) -> Root:
    """An empty root."""
    return Root(tmp_path)


def values(files: NumberFiles) -> dict[str, int | None]:
    """The columns by name."""
    return dict(zip([column.name for column in files.columns], files.read(), strict=True))


PORT = "sys/class/infiniband/mlx5_0/ports/1/counters"
PORT_FILES = {
    "port_xmit_data": "100",
    "port_rcv_data": "200",
    "port_xmit_wait": "7",
    "symbol_error": "1",
    "link_error_recovery": "2",
    "link_downed": "3",
}


def test_port_counts_words_of_4_bytes(root: Root) -> None:
    """port_*_data are multiplied by four, the others are as they are."""
    root.write(PORT, **PORT_FILES)
    assert values(network(str(root.path), None)) == {
        "ib_mlx5_0_1_tx_bytes": 400,
        "ib_mlx5_0_1_rx_bytes": 800,
        "ib_mlx5_0_1_xmit_wait_ticks": 7,
        "ib_mlx5_0_1_symbol_errors": 1,
        "ib_mlx5_0_1_link_recoveries": 2,
        "ib_mlx5_0_1_link_downs": 3,
    }


def test_errors_are_asked_seldom(root: Root) -> None:
    """Every tenth time: each reading of a port's counter is a command to its firmware."""
    root.write(PORT, **PORT_FILES)
    files = network(str(root.path), None)
    values(files)
    root.write(PORT, symbol_error="9", port_xmit_wait="8")
    later = [values(files) for _ in range(10)]
    assert later[0]["ib_mlx5_0_1_xmit_wait_ticks"] == 8
    assert later[0]["ib_mlx5_0_1_symbol_errors"] == 1
    assert later[9]["ib_mlx5_0_1_symbol_errors"] == 9


def test_ports_of_a_shared_node_are_not_read(root: Root) -> None:
    """Their traffic may be another job's."""
    root.write(PORT, **PORT_FILES)
    files = network(str(root.path), "the job has 8 of 64 CPUs")
    assert files.columns == []
    assert files.refused == {"network": "the job has 8 of 64 CPUs"}


def test_node_without_ports(root: Root) -> None:
    """It is said that there is no port."""
    assert "network" in network(str(root.path), None).refused


def test_rapl_has_its_range(root: Root) -> None:
    """A domain's counter begins again after max_energy_range_uj, which META says."""
    domain = "sys/class/powercap/intel-rapl:0"
    root.write(domain, name="package-0", energy_uj="123", max_energy_range_uj="262143328850")
    root.write(
        "sys/class/powercap/intel-rapl:0:0", name="dram", energy_uj="5", max_energy_range_uj="9"
    )
    files = energy(str(root.path))
    assert [(one.name, one.wraps_at) for one in files.columns] == [
        ("rapl_0_package_0_uj", 262143328850),
        ("rapl_0_0_dram_uj", 9),
    ]
    assert files.read() == [123, 5]


def test_rapl_is_not_counted_twice(root: Root) -> None:
    """The domain below intel-rapl-mmio is the package's own counter once more."""
    for name in ("intel-rapl:0", "intel-rapl-mmio:0"):
        root.write(
            f"sys/class/powercap/{name}", name="package-0", energy_uj="1", max_energy_range_uj="9"
        )
    assert len(energy(str(root.path)).columns) == 1


def test_rapl_without_a_range_is_refused(root: Root) -> None:
    """A wrap could not be told from a reset."""
    root.write("sys/class/powercap/intel-rapl:0", name="package-0", energy_uj="1")
    files = energy(str(root.path))
    assert files.columns == []
    assert "rapl" in files.refused


def test_power_of_a_grace_hopper(root: Root) -> None:
    """Sensors of hwmon with the labels of a module are columns, in µW, others are not."""
    root.write("sys/class/hwmon/hwmon0", power1_label="Module Power Socket 0", power1_average="9")
    root.write("sys/class/hwmon/hwmon1", power1_label="Grace Power Socket 0", power1_average="4")
    root.write("sys/class/hwmon/hwmon2", power1_label="fan", power1_average="1")
    found = values(energy(str(root.path)))
    assert found == {"hwmon_module_power_socket_0_uw": 9, "hwmon_grace_power_socket_0_uw": 4}


def test_power_of_a_grace(root: Root) -> None:
    """acpi_power_meter names its sensors in power1_oem_info of the device, and has no labels."""
    for number, name in enumerate(("Module", "Grace", "CPU", "SysIO")):
        device = f"sys/devices/LNXSYSTM:00/ACPI000D:0{number}"
        files = {"power1_oem_info": f"{name} Power Socket 0", "power1_average": f"{number}9000000"}
        root.write(device, **files)
        root.write(f"sys/class/hwmon/hwmon{number}", name="power_meter")
        (root.path / f"sys/class/hwmon/hwmon{number}/device").symlink_to(root.path / device)
    assert values(energy(str(root.path))) == {
        "hwmon_module_power_socket_0_uw": 9_000_000,
        "hwmon_grace_power_socket_0_uw": 19_000_000,
        "hwmon_cpu_power_socket_0_uw": 29_000_000,
        "hwmon_sysio_power_socket_0_uw": 39_000_000,
    }


def test_a_sensor_is_read_once(root: Root) -> None:
    """Newer kernels have the files of acpi_power_meter in hwmon's own folder, and a link to it."""
    folder = "sys/class/hwmon/hwmon0"
    root.write(folder, power1_oem_info="Module Power Socket 0", power1_average="5")
    (root.path / folder / "device").symlink_to(root.path / folder)
    assert values(energy(str(root.path))) == {"hwmon_module_power_socket_0_uw": 5}


def test_crays_counters(root: Root) -> None:
    """pm_counters are read with their freshness, and those of each accelerator."""
    root.write(
        "sys/cray/pm_counters",
        energy="4580000 J 1577883600 us",
        power="350 W 1577883600 us",
        freshness="17",
        accel0_energy="99 J 1 us",
    )
    assert values(energy(str(root.path))) == {
        "node_energy_j": 4580000,
        "node_power_w": 350,
        "cray_freshness": 17,
        "node_accel0_energy_j": 99,
    }


def test_what_a_node_lacks_is_said(root: Root) -> None:
    """Each source that is not there has a reason."""
    assert set(energy(str(root.path)).refused) == {"cray", "rapl", "hwmon"}


def test_use_of_the_node(root: Root) -> None:
    """Busy time of all CPUs, and memory that is not available."""
    root.write(
        "proc", stat="cpu 1 1 1 50 50 1 1 1 0 0", meminfo="MemTotal: 10 kB\nMemAvailable: 4 kB"
    )
    assert NodeUse(str(root.path)).read() == [60_000, 6144]


def test_pressure_of_the_node(root: Root) -> None:
    """Resources that the kernel does not tell are not measured."""
    root.write("proc/pressure", cpu="some avg10=0.00 total=5\nfull avg10=0.00 total=0")
    source = NodePressure(str(root.path))
    assert source.refused == {}
    assert source.read() == [5, 0, None, None, None, None]


def test_node_without_pressure(root: Root) -> None:
    """A kernel without PSI is said to be one."""
    assert "node_psi" in NodePressure(str(root.path)).refused
