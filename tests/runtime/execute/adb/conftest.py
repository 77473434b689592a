"""A private adb server, and stand-in phones that are connected to it."""

import pytest
from adb_support import adb, private_server
from standin_adbd import StandInPhone
from standin_app import StandInApp


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with private_server(tmp_path_factory.mktemp("adb-home")) as environment:
        yield environment


@pytest.fixture
def bench(server, tmp_path, monkeypatch):
    """Connect stand-in phones to the private server, and point this process at it."""
    for name in ("ADB_SERVER_SOCKET", "ANDROID_SERIAL", "ADB", "ANDROID_ADB_SERVER_ADDRESS"):
        monkeypatch.delenv(name, raising=False)
    for name in ("ANDROID_ADB_SERVER_PORT", "HOME", "TMPDIR"):
        monkeypatch.setenv(name, server[name])
    phones = []

    def connect(app=None, **settings):
        phone = StandInPhone(tmp_path / f"phone{len(phones)}", app or StandInApp(), **settings)
        phones.append(phone)
        adb(server, "connect", phone.serial)
        return phone

    yield connect
    for phone in phones:
        adb(server, "disconnect", phone.serial)
        phone.drop()
