"""What `am instrument` prints, the answer's packing, and the log: read without a device."""

import base64
import json
import zlib

import pytest

from edgex.errors import DeviceError
from edgex.runtime.execute.adb.answer import require_run, unpack
from edgex.runtime.execute.adb.app.instrumentation import read_transcript
from edgex.runtime.execute.adb.transport.logcat import filter_log


def read(text):
    told = []
    return read_transcript(text.splitlines(keepends=True), lambda *words: told.append(words)), told


def test_progress_is_told_as_it_comes():
    transcript, told = read(
        "INSTRUMENTATION_STATUS: edgex_stage=first_run\r\nINSTRUMENTATION_STATUS: edgex_done=0\r\n"
        "INSTRUMENTATION_STATUS: edgex_total=0\r\nINSTRUMENTATION_STATUS_CODE: 1\r\n"
        "INSTRUMENTATION_STATUS: edgex_stage=measure\nINSTRUMENTATION_STATUS: edgex_done=7\n"
        "INSTRUMENTATION_STATUS: edgex_total=50\nINSTRUMENTATION_STATUS_CODE: 1\n"
        "INSTRUMENTATION_RESULT: edgex_run_id=a1\nINSTRUMENTATION_CODE: -1\n"
    )
    assert told == [("first run", ""), ("measure", "7/50")]
    assert (transcript.code, transcript.result, transcript.answer) == (-1, {"edgex_run_id": "a1"}, None)


def test_pieces_are_joined_in_their_order_and_only_if_all_came():
    def piece(at, text):
        return (
            f"INSTRUMENTATION_STATUS: edgex_at={at}\nINSTRUMENTATION_STATUS: edgex_chunks=3\n"
            f"INSTRUMENTATION_STATUS: edgex_chunk={text}\nINSTRUMENTATION_STATUS_CODE: 2\n"
        )

    whole, _ = read(piece(2, "cc=") + piece(0, "aa") + piece(1, "bb") + "INSTRUMENTATION_CODE: -1\n")
    assert whole.answer == "aabbcc="
    lost, _ = read(piece(2, "cc=") + piece(0, "aa") + "INSTRUMENTATION_CODE: -1\n")
    assert lost.answer is None


def test_a_crash_keeps_all_its_lines():
    transcript, _ = read(
        "INSTRUMENTATION_RESULT: longMsg=java.lang.UnsatisfiedLinkError: dlopen failed\n  caused by: x\n"
        "INSTRUMENTATION_RESULT: shortMsg=java.lang.UnsatisfiedLinkError\nINSTRUMENTATION_CODE: 0\n"
    )
    assert transcript.crash.splitlines() == [
        "java.lang.UnsatisfiedLinkError", "java.lang.UnsatisfiedLinkError: dlopen failed", "  caused by: x",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "INSTRUMENTATION_STATUS: Error=Unable to find instrumentation info\nINSTRUMENTATION_STATUS_CODE: -1\n",
            "Unable",
        ),
        ("INSTRUMENTATION_FAILED: a.b/c.D\n", "a.b/c.D"),
        ("INSTRUMENTATION_ABORTED: System has crashed.\n", "System has crashed"),
        ("java.lang.SecurityException: Permission Denial: x\n\tat android.os\n", "Permission Denial"),
    ],
)
def test_what_never_began_says_why(text, words):
    transcript, _ = read(text)
    assert words in transcript.refusal and transcript.code is None


def test_a_stream_that_ends_is_no_end():
    transcript, _ = read("INSTRUMENTATION_STATUS: edgex_stage=load\nINSTRUMENTATION_STATUS_CODE: 1\n")
    assert transcript.code is None and transcript.refusal is None


def test_an_answer_is_unpacked_or_refused():
    packed = base64.b64encode(zlib.compress(json.dumps({"a": 1}).encode())).decode()
    assert unpack(packed, "adb:S1") == {"a": 1}
    for wrong in (
        packed[:-4],
        packed.replace(packed[5], "!"),
        base64.b64encode(zlib.compress(b"[1]")).decode(),
        "",
        "é",
    ):
        with pytest.raises(DeviceError, match="the device's answer is damaged"):
            unpack(wrong, "adb:S1")


def test_an_answer_that_would_fill_the_memory_is_refused():
    packed = base64.b64encode(zlib.compress(b" " * (65 * 2**20), 1)).decode()
    with pytest.raises(DeviceError) as caught:
        unpack(packed, "adb:S1")
    assert "too large" in caught.value.why


def test_answers_of_other_schemas_and_runs_are_refused():
    with pytest.raises(DeviceError, match=r"of schema 'edgex\.profile/2'"):
        require_run({"schema": "edgex.profile/2", "run_id": "a"}, "a", "adb:S1")
    with pytest.raises(DeviceError, match="another run: 'b' instead of 'a'"):
        require_run({"schema": "edgex.device-error/1", "run_id": "b"}, "a", "adb:S1")
    error = {"schema": "edgex.device-error/1", "run_id": "a", "kind": "space", "message": "ENOSPC"}
    with pytest.raises(DeviceError, match="no room left"):
        require_run(error, "a", "adb:S1")


def test_the_log_is_cut_to_what_matters():
    lines = [f"11-21 07:00:00.000  10  10 E AndroidRuntime: line {at}" for at in range(50)]
    lines += [
        "11-21 07:00:00.000  10  10 E Other   : private",
        "11-21 07:00:00.000  10  10 D libc    : chatter",
        "rubbish",
    ]
    lines += ["11-21 07:00:00.000  10  10 I lmkd    : Kill 'com.acme.app' (10)"]
    shown = filter_log("\n".join(lines), "com.acme.app").splitlines()
    assert len(shown) == 41 and shown[-1] == "(11 more lines)"
    assert "private" not in str(shown) and "chatter" not in str(shown)
    assert filter_log("\n".join(lines[-3:]), "com.acme.app") == "I lmkd: Kill 'com.acme.app' (10)"
    assert filter_log("", "com.acme.app") is None
