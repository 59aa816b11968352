"""Counters of the whole node, from synthetic trees of /sys."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpckit.sampler.cgroups_and_node import Source, energy, network, node_use, pressure

PORT = "sys/class/infiniband/mlx5_0/ports/1/counters"
PORT_FILES = {
    "port_xmit_data": "100",
    "port_rcv_data": "200",
    "port_xmit_wait": "7",
    "symbol_error": "1",
    "link_error_recovery": "2",
    "link_downed": "3",
}
RAPL = "sys/class/powercap/intel-rapl"
CRAY = {"energy": "4580000 J 1577883600 us", "power": "350 W 1577883600 us", "freshness": "17"}


def write(root: Path, folder: str, **files: str) -> None:
    """Write files of a folder, a line each."""
    (root / folder).mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (root / folder / name).write_text(f"{text}\n")


def values(files: Source) -> dict[str, int | None]:
    """Return the columns by name."""
    return dict(zip([column.name for column in files.columns], files.read(), strict=True))


def test_port_counts_words_of_4_bytes(tmp_path: Path) -> None:
    """port_*_data are multiplied by four; errors are asked every tenth time: it costs firmware."""
    write(tmp_path, PORT, **PORT_FILES)
    files = network(str(tmp_path), None)
    assert values(files) == {
        "ib_mlx5_0_1_tx_bytes": 400,
        "ib_mlx5_0_1_rx_bytes": 800,
        "ib_mlx5_0_1_xmit_wait_ticks": 7,
        "ib_mlx5_0_1_symbol_errors": 1,
        "ib_mlx5_0_1_link_recoveries": 2,
        "ib_mlx5_0_1_link_downs": 3,
    }
    write(tmp_path, PORT, symbol_error="9", port_xmit_wait="8")
    later = [values(files) for _ in range(10)]
    assert later[0]["ib_mlx5_0_1_xmit_wait_ticks"] == 8
    assert [row["ib_mlx5_0_1_symbol_errors"] for row in later] == [1] * 9 + [9]


def test_ports_of_a_shared_node_are_not_read(tmp_path: Path) -> None:
    """Their traffic may be another job's; a node without ports says so too."""
    assert "network" in network(str(tmp_path), None).refused
    write(tmp_path, PORT, **PORT_FILES)
    files = network(str(tmp_path), "the job has 8 of 64 CPUs")
    assert (files.columns, files.refused) == ([], {"network": "the job has 8 of 64 CPUs"})


def test_rapl_has_its_range(tmp_path: Path) -> None:
    """A domain's counter begins again after max_energy_range_uj, which META says.

    The domain below intel-rapl-mmio is the package's own counter once more.
    """
    package = {"name": "package-0", "energy_uj": "123", "max_energy_range_uj": "262143328850"}
    write(tmp_path, f"{RAPL}:0", **package)
    write(tmp_path, f"{RAPL}-mmio:0", **package)
    write(tmp_path, f"{RAPL}:0:0", name="dram", energy_uj="5", max_energy_range_uj="9")
    files = energy(str(tmp_path))
    assert [(column.name, column.wraps_at) for column in files.columns] == [
        ("rapl_0_package_0_uj", 262143328850),
        ("rapl_0_0_dram_uj", 9),
    ]
    assert files.read() == [123, 5]


def test_rapl_without_a_range_is_refused(tmp_path: Path) -> None:
    """A wrap could not be told from a reset."""
    write(tmp_path, f"{RAPL}:0", name="package-0", energy_uj="1")
    files = energy(str(tmp_path))
    assert files.columns == []
    assert "rapl" in files.refused


def test_power_of_a_grace_hopper(tmp_path: Path) -> None:
    """Sensors of hwmon with the labels of a module are columns, in µW, others are not."""
    labels = ("Module Power Socket 0", "Grace Power Socket 0", "fan")
    for number, label in enumerate(labels):
        folder = f"sys/class/hwmon/hwmon{number}"
        write(tmp_path, folder, power1_label=label, power1_average=str(number))
    found = values(energy(str(tmp_path)))
    assert found == {"hwmon_module_power_socket_0_uw": 0, "hwmon_grace_power_socket_0_uw": 1}


@pytest.mark.parametrize("is_linked", [False, True])
def test_power_of_a_grace(tmp_path: Path, *, is_linked: bool) -> None:
    """acpi_power_meter names its sensors in power1_oem_info of the device, and has no labels.

    Newer kernels have the files in hwmon's own folder and a link to it: a sensor is read once.
    """
    for number, name in enumerate(("Module", "Grace", "CPU", "SysIO")):
        folder = f"sys/class/hwmon/hwmon{number}"
        device = folder if is_linked else f"sys/devices/LNXSYSTM:00/ACPI000D:0{number}"
        files = {"power1_oem_info": f"{name} Power Socket 0", "power1_average": f"{number}9"}
        write(tmp_path, device, **files)
        write(tmp_path, folder, name="power_meter")
        (tmp_path / folder / "device").symlink_to(tmp_path / device)
    assert values(energy(str(tmp_path))) == {
        "hwmon_module_power_socket_0_uw": 9,
        "hwmon_grace_power_socket_0_uw": 19,
        "hwmon_cpu_power_socket_0_uw": 29,
        "hwmon_sysio_power_socket_0_uw": 39,
    }


def test_crays_counters(tmp_path: Path) -> None:
    """pm_counters are read with their freshness, and those of each accelerator."""
    write(tmp_path, "sys/cray/pm_counters", accel0_energy="99 J 1 us", **CRAY)
    assert values(energy(str(tmp_path))) == {
        "node_energy_j": 4580000,
        "node_power_w": 350,
        "cray_freshness": 17,
        "node_accel0_energy_j": 99,
    }


def test_what_a_node_lacks_is_said(tmp_path: Path) -> None:
    """Each source that is not there has a reason, a kernel without PSI too."""
    assert set(energy(str(tmp_path)).refused) == {"cray", "rapl", "hwmon"}
    assert "node_psi" in pressure("node", f"{tmp_path}/proc/pressure").refused


def test_use_and_pressure_of_the_node(tmp_path: Path) -> None:
    """Busy time of all CPUs, memory that is not available, and the pressure that is told."""
    memory = "MemTotal: 10 kB\nMemAvailable: 4 kB"
    write(tmp_path, "proc", stat="cpu 1 1 1 50 50 1 1 1 0 0", meminfo=memory)
    assert node_use(str(tmp_path)).read() == [60_000, 6144]
    cpu = "some avg10=0.00 total=5\nfull avg10=0.00 total=0"
    write(tmp_path, "proc/pressure", cpu=cpu)
    source = pressure("node", f"{tmp_path}/proc/pressure")
    assert (source.refused, source.read()) == ({}, [5, 0, None, None, None, None])
