"""Signatures, made and checked by OpenSSF's library with real keys: what was changed is told, and another key."""

import subprocess
import sys

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed25519, rsa

from edgex.errors import ArtifactError, TargetUnavailable, UsageError
from edgex.runtime.artifact.artifact import open_artifact
from edgex.runtime.supply.signature import SIGNATURE_FILE, sign_artifact, verify_signature


@pytest.fixture
def keys(tmp_path):
    """A private key and its public one, twice."""
    made = []
    for name in ("mine", "other"):
        private = ec.generate_private_key(ec.SECP256R1())
        plain = serialization.NoEncryption()
        pem = private.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
        form = serialization.PublicFormat.SubjectPublicKeyInfo
        public = private.public_key().public_bytes(serialization.Encoding.PEM, form)
        for suffix, data in (("pem", pem), ("pub", public)):
            made.append(tmp_path / f"{name}.{suffix}")
            made[-1].write_bytes(data)
    return made


@pytest.fixture
def signed(own_copy, keys):
    folder = own_copy("convnet", "onnx-cpu")
    assert sign_artifact(open_artifact(folder), keys[0]) == folder / SIGNATURE_FILE
    return folder


def test_a_signed_artifact_is_its_owners(signed, keys):
    assert len(verify_signature(signed, keys[1])) == 64
    sign_artifact(open_artifact(signed), keys[0])  # once more: the older signature is no part of what is signed
    verify_signature(signed, keys[1])


def test_the_librarys_own_command_reads_it(signed, keys):
    command = [sys.executable, "-m", "model_signing", "verify", "key", str(signed), "--public_key", str(keys[1])]
    command += ["--signature", str(signed / SIGNATURE_FILE)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    "damage", ["other key", "changed", "rehashed", "added", "removed", "signature", "no signature"]
)
def test_what_is_not_the_owners_is_refused(signed, keys, damage):
    golden = next((signed / "golden").glob("*.safetensors"))
    if damage == "changed":
        (signed / "model.onnx").write_bytes((signed / "model.onnx").read_bytes() + b"\0")
    elif damage == "rehashed":  # what no hash in the manifest finds
        path = signed / "manifest.json"
        path.write_text(path.read_text().replace('"parameters"', '"Parameters"', 1))
        open_artifact(signed)
    elif damage == "added":
        (signed / "added").write_text("")
    elif damage == "removed":
        golden.unlink()
    elif damage == "signature":
        (signed / SIGNATURE_FILE).write_text("{}")
    elif damage == "no signature":
        (signed / SIGNATURE_FILE).unlink()
    with pytest.raises(ArtifactError, match="is not "):
        verify_signature(signed, keys[3] if damage == "other key" else keys[1])


@pytest.mark.parametrize("kind", ["rsa", "dsa", "ed25519"])
def test_a_key_of_another_kind_is_a_mistake_of_the_user(signed, tmp_path, kind):
    private = {
        "rsa": lambda: rsa.generate_private_key(65537, 2048),
        "dsa": lambda: dsa.generate_private_key(2048),
        "ed25519": ed25519.Ed25519PrivateKey.generate,
    }[kind]()
    plain = serialization.NoEncryption()
    (tmp_path / "odd.pem").write_bytes(
        private.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    )
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    (tmp_path / "odd.pub").write_bytes(private.public_key().public_bytes(serialization.Encoding.PEM, form))
    with pytest.raises(UsageError, match="no private key") as caught:
        sign_artifact(open_artifact(signed), tmp_path / "odd.pem")
    assert "another kind" in str(caught.value.why)
    with pytest.raises(UsageError, match="no public key"):
        verify_signature(signed, tmp_path / "odd.pub")


def test_what_is_no_key_is_a_mistake_of_the_user(signed, keys, tmp_path):
    with pytest.raises(UsageError, match="no private key"):
        sign_artifact(open_artifact(signed), keys[1])
    with pytest.raises(UsageError, match="no public key"):
        verify_signature(signed, signed / "manifest.json")
    with pytest.raises(UsageError, match="not a file"):
        verify_signature(signed, tmp_path / "missing")


def test_without_the_library_the_command_that_installs_it_is_named(signed, keys, monkeypatch):
    monkeypatch.setitem(sys.modules, "model_signing", None)
    for call in (lambda: sign_artifact(open_artifact(signed), keys[0]), lambda: verify_signature(signed, keys[1])):
        with pytest.raises(TargetUnavailable) as caught:
            call()
        assert caught.value.exit_code == 7 and caught.value.fix == "pip install 'edgex-toolchain[sign]'"
