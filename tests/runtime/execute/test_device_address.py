"""What `--device` takes, and what it says to the rest."""

from __future__ import annotations

import pytest

from edgex.errors import UsageError
from edgex.runtime.execute.address import parse_address
from edgex.runtime.execute.request import Address


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("adb", Address("adb")),
        ("adb:emulator-5554", Address("adb", serial="emulator-5554")),
        ("adb:192.168.1.7:5555", Address("adb", serial="192.168.1.7:5555")),
        ("local-native", Address("local-native")),
        ("ssh:pi", Address("ssh", host="pi")),
        ("ssh:me@pi.local:2222", Address("ssh", user="me", host="pi.local", port=2222)),
        ("ssh:[fe80::1%eth0]:22", Address("ssh", host="fe80::1%eth0", port=22)),
        ("ssh:me@[::1]", Address("ssh", user="me", host="::1")),
    ],
)
def test_addresses(text: str, address: Address) -> None:
    assert parse_address(text) == address
    assert str(address) == text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("shh:pi", "did you mean 'ssh'"),
        ("local", "local-native"),
        ("local-native:2", "takes no more"),
        ("adb:", "no serial number"),
        ("adb:-s", "no serial number"),
        ("ssh", "ssh:[USER@]HOST[:PORT]"),
        ("ssh:-oProxyCommand=x", "ssh:[USER@]HOST[:PORT]"),
        ("ssh:pi:99999", "99999 is no port"),
        ("ssh:pi;ls", "ssh:[USER@]HOST[:PORT]"),
        ("", "local-native"),
    ],
)
def test_others_are_refused(text: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_address(text)
    assert words in str(caught.value)
