"""Signatures over whole artifacts: OpenSSF `model-signing` with a key, offline.

The signature lies in the artifact as `model.sig` and covers every other file in its folder. It is a Sigstore bundle:
`model_signing verify key` reads it, too.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from types import ModuleType
from typing import Any

from edgex.errors import ArtifactError, TargetUnavailable, UsageError
from edgex.runtime.artifact.artifact import Artifact
from edgex.runtime.support.native_stderr import stdout_on_stderr

SIGNATURE_FILE = "model.sig"
INSTALL_COMMAND = "pip install 'edgex-toolchain[sign]'"


def sign_artifact(artifact: Artifact, key: Path) -> Path:
    """Sign an artifact; an older signature is replaced.

    Args:
        artifact: Opened with its hashes checked: what is signed is whole.
        key: A private key of an elliptic curve, PEM, without a password.

    Returns:
        The signature's file.

    Raises:
        TargetUnavailable: `model-signing` is not installed.
        UsageError: The key cannot be used.
        ArtifactError: The signature cannot be written.
    """
    library = _import_library()
    _require_file(key)
    path = artifact.path / SIGNATURE_FILE
    try:
        signer = library.signing.Config().use_elliptic_key_signer(private_key=key)
    except _REFUSALS as error:
        fix = "openssl ecparam -name prime256v1 -genkey -noout -out key.pem makes one"
        raise UsageError(f"{key} is no private key of an elliptic curve", fix=fix, why=_why_refused(error)) from error
    try:
        with stdout_on_stderr():
            signer.set_hashing_config(_covering(library, path)).sign(artifact.path, path)
    except OSError as error:
        raise ArtifactError(f"cannot write {path}", why=error.strerror or str(error)) from error
    return path


def verify_signature(folder: Path, key: Path) -> str:
    """Check that an artifact is as somebody signed it.

    Args:
        folder: The artifact; nothing else of it has to be read before.
        key: The public key, PEM.

    Returns:
        SHA-256 of the key's file, in hex.

    Raises:
        TargetUnavailable: `model-signing` is not installed.
        UsageError: The key cannot be used.
        ArtifactError: There is no signature, it is another key's, or the files are not those that were signed.
    """
    library = _import_library()
    _require_file(key)
    path = folder / SIGNATURE_FILE
    if not path.is_file() or path.is_symlink():
        raise ArtifactError(
            f"{folder.name} is not signed",
            fix="edgex sign ARTIFACT --key KEY signs it",
            why=f"it has no {SIGNATURE_FILE}",
        )
    try:
        verifier = library.verifying.Config().use_elliptic_key_verifier(public_key=key)
    except _REFUSALS as error:
        fix = "openssl ec -in key.pem -pubout -out key.pub makes it of the private one"
        raise UsageError(f"{key} is no public key of an elliptic curve", fix=fix, why=_why_refused(error)) from error
    try:
        with stdout_on_stderr():
            verifier.set_hashing_config(_covering(library, path)).verify(folder, path)
    # A damaged signature ends in whatever its parser raises.
    except Exception as error:
        raise ArtifactError(
            f"{folder.name} is not what the owner of {key.name} signed",
            fix="do not use this artifact; get it again from whom you trust",
            why=" ".join(str(error).split()) or type(error).__name__,
        ) from error
    return hashlib.sha256(key.read_bytes()).hexdigest()


def _covering(library: ModuleType, signature: Path) -> Any:
    """All files of the folder but the signature."""
    return library.hashing.Config().set_ignored_paths(paths=[signature], ignore_git_paths=False)


# What the library raises for a key that it does not take: of another kind, it asks for a curve that is not there.
_REFUSALS = (ValueError, TypeError, AttributeError)


def _why_refused(error: Exception) -> str:
    return "it is a key of another kind, such as RSA or Ed25519" if isinstance(error, AttributeError) else str(error)


def _require_file(key: Path) -> None:
    if not key.is_file():
        raise UsageError(f"{key} is not a file")
    try:
        key.open("rb").close()
    except OSError as error:
        raise UsageError(f"cannot read {key}", why=error.strerror) from error


def _import_library() -> ModuleType:
    try:
        import model_signing
    except ImportError as error:
        what = "model-signing is not installed"
        raise TargetUnavailable(what, fix=INSTALL_COMMAND, why=str(error)) from error
    return model_signing
