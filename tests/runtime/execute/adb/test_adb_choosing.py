"""Which adb, which server, which device: where there is none a sentence says so, and nobody's server is touched."""

import os
import socket
import threading

import pytest
from adb_support import ADB, adb, free_port, needs_adb
from standin_app import StandInApp

from edgex.errors import DeviceError
from edgex.runtime.execute.adb import Adb
from edgex.runtime.execute.adb.description import parse_description
from edgex.runtime.execute.adb.transport.client import find_client
from edgex.runtime.execute.adb.transport.listing import Listed, parse_devices, require_ready
from edgex.runtime.execute.adb.transport.server import find_server, read_server_version
from edgex.runtime.execute.address import open_executor

LISTING = """\
* daemon started successfully
List of devices attached
R58M12ABCDE            device usb:1-4 product:beyond model:SM_G973F device:beyond transport_id:3
emulator-5554          offline transport_id:1
0123456789             unauthorized usb:1-3 transport_id:4
????????????           no permissions (user in plugdev group; are your udev rules wrong?); see [http://x] usb:1-2
X1                     rescue usb:1-9 transport_id:9

"""


def refused(words):
    return pytest.raises(DeviceError, match=words)


def test_the_list_is_read():
    found = parse_devices(LISTING)
    assert [(one.serial, one.state) for one in found] == [
        ("R58M12ABCDE", "device"), ("emulator-5554", "offline"), ("0123456789", "unauthorized"),
        ("????????????", "no permissions"), ("X1", "rescue"),
    ]  # fmt: skip
    assert found[0].model == "SM G973F" and found[0].problem is None
    assert "accept the question about debugging" in found[2].problem[1]
    assert "udev" in found[3].problem[1] and "'rescue'" in found[4].problem[0]


@pytest.mark.parametrize("state", ["offline", "unauthorized", "no permissions", "bootloader", "strange"])
def test_a_device_that_is_not_ready_is_refused(state):
    with refused(rf"\({state}\)") as caught:
        require_ready(Listed("S1", state))
    assert caught.value.exit_code == 8 and caught.value.fix


def test_no_adb_is_said_with_what_installs_it(tmp_path):
    with refused("adb is not installed") as caught:
        find_client({"PATH": str(tmp_path)})
    assert "apt-get install adb" in caught.value.fix
    with refused("ADB=nothing: no such program"):
        find_client({"PATH": str(tmp_path), "ADB": "nothing"})


def test_no_server_is_started(tmp_path):
    """Asking is all: the program, which would start one, is not even called."""
    program = tmp_path / "adb"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/called\n")
    program.chmod(0o755)
    environment = {"PATH": str(tmp_path), "ANDROID_ADB_SERVER_PORT": str(free_port())}
    with refused("no adb server is running") as caught:
        find_client(environment)
    assert caught.value.fix == "adb start-server"
    assert not (tmp_path / "called").exists()


def test_a_list_without_adb_says_so(tmp_path, monkeypatch):
    for name in ("ADB", "ANDROID_HOME", "ANDROID_SDK_ROOT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    (info,) = Adb().list()
    assert info.address == "adb" and info.problems[0].startswith("adb is not installed: install")


@needs_adb
def test_a_server_of_another_version_is_left_alone():
    """The real adb would end it."""
    listener = socket.create_server(("127.0.0.1", 0))
    asked = []

    def answer():
        connection, _ = listener.accept()
        asked.append(connection.recv(100))
        connection.sendall(b"OKAY0004001f")
        connection.close()

    thread = threading.Thread(target=answer)
    thread.start()
    environment = {**os.environ, "ANDROID_ADB_SERVER_PORT": str(listener.getsockname()[1])}
    with refused("server that runs is of version 31, .*adb is of version 41"):
        find_client(environment)
    thread.join()
    listener.close()
    assert asked == [b"000chost:version"]


@pytest.mark.parametrize(
    ("environment", "shown"),
    [
        ({}, "tcp:127.0.0.1:5037"),
        ({"ANDROID_ADB_SERVER_PORT": "6000"}, "tcp:127.0.0.1:6000"),
        ({"ADB_SERVER_SOCKET": "tcp:box:5038", "ANDROID_ADB_SERVER_PORT": "6000"}, "tcp:box:5038"),
        ({"ADB_SERVER_SOCKET": "localfilesystem:/run/adb"}, "localfilesystem:/run/adb"),
    ],
)
def test_the_users_settings_say_where_the_server_is(environment, shown):
    assert find_server(environment)[2] == shown


def test_a_socket_of_another_kind_is_adbs_own_matter():
    assert read_server_version({"ADB_SERVER_SOCKET": "vsock:1:2"}) is None
    with refused("ANDROID_ADB_SERVER_PORT names no port: 'x'"):
        find_server({"ANDROID_ADB_SERVER_PORT": "x"})


@needs_adb
def test_something_else_on_the_port_is_no_server(monkeypatch):
    listener = socket.create_server(("127.0.0.1", 0))

    def answer():
        connection, _ = listener.accept()
        connection.recv(100)
        connection.sendall(b"HTTP/1.1 400\r\n\r\n")
        connection.close()

    thread = threading.Thread(target=answer)
    thread.start()
    with refused("what answers is not an adb server"):
        read_server_version({"ANDROID_ADB_SERVER_PORT": str(listener.getsockname()[1])})
    thread.join()
    listener.close()


@needs_adb
def test_without_a_device_it_says_how_to_connect_one(bench):
    with refused("no device is connected") as caught:
        open_executor("adb")
    assert "USB debugging" in caught.value.fix
    assert Adb().list() == []
    with refused("the device S1 is not connected"):
        open_executor("adb:S1")


@needs_adb
def test_of_two_devices_one_must_be_named(bench, monkeypatch):
    one, two = bench(model="Phone_1"), bench(model="Phone_2")
    with refused("2 devices are connected, and --device adb does not say which") as caught:
        open_executor("adb")
    assert one.serial in caught.value.why and "Phone 2" in caught.value.why
    # adb lists them in an order of its own.
    assert caught.value.fix in {f"--device adb:{phone.serial}" for phone in (one, two)}
    with refused("the device S1 is not connected") as caught:
        open_executor("adb:S1")
    assert two.serial in caught.value.why
    with open_executor(f"adb:{two.serial}") as device:
        assert device.describe().address == f"adb:{two.serial}"
    # What adb itself goes by.
    monkeypatch.setenv("ANDROID_SERIAL", one.serial)
    with open_executor("adb") as device:
        assert device.describe().address == f"adb:{one.serial}"


@needs_adb
def test_a_device_that_has_not_allowed_this_computer_is_named(bench):
    phone = bench(authorized=False)
    with refused("the device has not allowed this computer") as caught:
        open_executor("adb")
    assert "unlock it" in caught.value.fix and caught.value.exit_code == 8
    (listed,) = Adb().list()
    assert listed.address == f"adb:{phone.serial}" and "unlock it" in listed.problems[0]


@needs_adb
def test_the_list_says_what_devices_are(bench):
    phone = bench(StandInApp())
    (info,) = Adb().list()
    assert info.to_json() == {
        "kind": "adb", "address": f"adb:{phone.serial}", "model": "Stand-in Phone 1", "soc": "Nobody SoC 1",
        "abi": "arm64-v8a", "os": "Android 15 (API 35)", "libc": None, "free_memory_bytes": 4_096_000_000,
        "features": ["fp", "asimd", "asimddp"], "versions": {}, "problems": [],
    }  # fmt: skip
    assert phone.files() == [] and len(phone.lines) == 1


def test_what_is_no_android_is_said():
    with refused("the device does not answer as Android does"):
        parse_description("S1", "sh: getprop: not found")


@needs_adb
def test_the_users_server_is_still_there(bench, server):
    bench()
    Adb().list()
    assert "Phone_1" in adb(server, "devices", "-l")
    assert ADB is not None
