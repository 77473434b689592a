"""`--device adb` on the command line: documents, progress, exit codes."""

import json
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from adb_support import make_artifact, needs_adb
from standin_apk import write_apk
from standin_app import APP, StandInApp

from edgex.cli.main import main

pytestmark = needs_adb


@dataclass
class Ended:
    exit_code: int
    stdout: str
    stderr: str


@pytest.fixture
def run(capfd):
    """The command as a user calls it; its work is done by a child, so that only the descriptors see all of it."""

    def call(*arguments):
        with pytest.raises(SystemExit) as ended:
            main([str(a) for a in arguments])
        return Ended(ended.value.code or 0, *capfd.readouterr())

    return call


@pytest.fixture
def artifact(tmp_path):
    return make_artifact(tmp_path / "artifact")


def test_run_writes_what_the_device_computed(run, bench, artifact, tmp_path):
    phone = bench()
    done = run("run", artifact.path, "--device", "adb", "-o", tmp_path / "out.npz", "--json")
    assert done.exit_code == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["device"]["address"] == f"adb:{phone.serial}"
    np.testing.assert_array_equal(np.load(tmp_path / "out.npz")["y"], 2 * np.arange(6, dtype=np.float32).reshape(2, 3))


def test_verify_fails_with_4_where_the_device_computes_something_else(run, bench, artifact):
    phone = bench()
    good = run("verify", artifact.path, "--device", f"adb:{phone.serial}", "--json")
    assert good.exit_code == 0 and json.loads(good.stdout)["passed"]
    phone.app.fault = "wrong outputs"
    assert run("verify", artifact.path, "--device", "adb").exit_code == 4


def test_profile_gives_the_report_of_the_device(run, bench, artifact):
    bench()
    done = run("profile", artifact.path, "--device", "adb", "--app", APP, "--runs", "40", "--json")
    assert done.exit_code == 0, done.stderr
    report = json.loads(done.stdout)
    assert (report["schema"], report["source"], report["steady"]["n"]) == ("edgex.profile/2", "device", 40)
    assert "measure" in done.stderr
    shown = run("profile", artifact.path, "--device", "adb", "--runs", "40")
    assert "Nobody SoC 1" in shown.stdout


def test_compare_takes_turns_on_the_device(run, bench, artifact, tmp_path):
    phone = bench()
    other = make_artifact(tmp_path / "other", size=5000)
    done = run("compare", artifact.path, other.path, "--device", "adb", "--json", "--allow-different")
    assert done.exit_code == 0, done.stderr
    assert phone.app.tasks.count("job") == 6
    assert len(phone.files()) == 2, "both models, and nothing else"


def test_failures_end_with_8(run, bench, artifact):
    bench(StandInApp(fault="crash"))
    done = run("run", artifact.path, "--device", "adb")
    assert done.exit_code == 8
    assert "the app crashed on the device: Process crashed." in done.stderr and "SIGILL" in done.stderr


def test_app_goes_with_adb_only(run, artifact):
    done = run("run", artifact.path, "--app", "x.y")
    assert "--app is for a device" in done.stderr
    done = run("run", artifact.path, "--app", "x.y", "--device", "local-native")
    assert "--app is for Android devices" in done.stderr


def test_the_commands_of_the_page_work(run, bench, artifact, tmp_path, monkeypatch):
    phone = bench(StandInApp(installed=()))
    artifact.path.rename(tmp_path / "digits.xnnpack.edgex")
    write_apk(tmp_path / "app/app/build/outputs/apk/release/app-release.apk")
    monkeypatch.chdir(tmp_path)
    page = (Path(__file__).parents[4] / "docs" / "reference" / "adb.md").read_text()
    commands = re.findall(r"^edgex ((?:profile|verify) .*)$", page, re.MULTILINE)
    assert len(commands) == 2
    for command in commands:
        done = run(*command.split())
        assert done.exit_code == 0, done.stderr
    assert phone.app.installed == [APP]
    ways = set(re.findall(r"^\| `([\w-]+)` \| (?!does)", page, re.MULTILINE)) - {"returned_by"}
    assert ways == {"instrument", "pull", "run-as", "activity"}


def test_devices_lists_phones(run, bench):
    phone, locked = bench(), bench(authorized=False)
    done = run("devices", "--json")
    assert done.exit_code == 0, done.stderr
    found = {info["address"]: info for info in json.loads(done.stdout)["devices"]}
    assert found[f"adb:{phone.serial}"]["model"] == "Stand-in Phone 1"
    assert "accept the question" in found[f"adb:{locked.serial}"]["problems"][0]
