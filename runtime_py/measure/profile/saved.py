"""Read a report that was saved with `-o report.json`."""

from __future__ import annotations

from pathlib import Path

from edgex.errors import ArtifactError
from edgex.runtime.measure.profile.report import SCHEMA, ProfileReport
from edgex.runtime.support.json.reading import read_json
from edgex.runtime.support.printable import escape_document

MAX_REPORT_BYTES = 512 << 20

_AGAIN = "write it again: edgex profile ARTIFACT -o report.json"


def read_report(path: Path) -> ProfileReport:
    """Read a saved profile.

    Raises:
        ArtifactError: It cannot be read, is not whole, is damaged, or of another schema.
    """
    try:
        data = escape_document(read_json(path, MAX_REPORT_BYTES))
    except OSError as error:
        raise ArtifactError(f"{path.name} cannot be read", str(path), why=error.strerror or str(error)) from error
    except ValueError as error:  # not UTF-8, cut off, or no file
        if path.suffix != ".json":
            raise ArtifactError(
                f"{path.name} is no report: reports are read as .json, or as the folder of results of edgex sweep",
                str(path),
                "edgex profile ARTIFACT -o report.json writes one; an .html page is for a browser",
                why=str(error),
            ) from error
        raise ArtifactError(f"{path.name} is not whole JSON", str(path), _AGAIN, why=str(error)) from error
    schema = data.get("schema") if isinstance(data, dict) else None
    if schema != SCHEMA:
        found = f"of schema {schema!r}" if schema else "no profile: it names no schema"
        fix = _AGAIN
        if isinstance(schema, str) and schema.startswith("edgex.profile/"):
            fix = f"read it with the edgex that wrote it ({data.get('edgex_version')}), or profile again with this one"
        raise ArtifactError(f"{path.name} is {found}; this edgex reads {SCHEMA!r}", str(path), fix)
    try:
        return ProfileReport.from_json(data)
    except ValueError as error:
        raise ArtifactError(f"{path.name} is damaged", str(path), _AGAIN, why=str(error)) from error
