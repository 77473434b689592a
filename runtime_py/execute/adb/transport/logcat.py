"""The lines of the device's log that say why an app crashed."""

from __future__ import annotations

import re

from edgex.runtime.execute.adb.transport.client import AdbClient

# Java's crashes, native crashes, the linker, ExecuTorch, and the killer of apps that take too much memory.
_TAGS = ("AndroidRuntime", "DEBUG", "libc", "linker", "ExecuTorch", "executorch")
# These tell of every app at level I; only this one matters.
_KILLERS = ("lowmemorykiller", "lmkd", "ActivityManager")
_MOST = 40
_LINE = re.compile(r"^\S+ \S+\s+\d+\s+\d+ ([VDIWEF]) (.*?)\s*: (.*)$")


def read_clock(client: AdbClient) -> str | None:
    """The device's time as its log has it, for `read_crash`; None where it does not tell."""
    done = client.shell("date +'%m-%d %H:%M:%S.000'")
    text = done.text.strip()
    return text if re.fullmatch(r"\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}", text) else None


def read_crash(client: AdbClient, since: str | None, application_id: str) -> str | None:
    """What the log says of a crash, at most forty lines; None where it says nothing.

    Args:
        client: For the device.
        since: Where to begin, from `read_clock`; None takes the last lines.
        application_id: The app: lines that name it count whatever their tag.
    """
    begin = f"-T '{since}'" if since else "-t 1000"
    done = client.shell(f"logcat -d -v threadtime -b main,system,crash {begin}")
    return filter_log(done.text, application_id) if done.returncode == 0 else None


def filter_log(text: str, application_id: str) -> str | None:
    """The lines that matter; None where there are none."""
    kept = []
    for line in text.splitlines():
        match = _LINE.match(line.rstrip())
        if match is None:
            continue
        level, tag, said = match[1], match[2].strip(), match[3]
        serious, about = level in "WEF", application_id in said
        if (serious and (tag in _TAGS or about)) or (about and tag in _KILLERS):
            kept.append(f"{level} {tag}: {said}")
    shown = kept if len(kept) <= _MOST else [*kept[:_MOST], f"({len(kept) - _MOST} more lines)"]
    return "\n".join(shown) or None
