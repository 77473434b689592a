"""`edgex sbom`, `edgex sign` and `edgex verify --signed-by` from the command line."""

import json
import subprocess


def test_sign_verify_and_list(own_copy, edgex, tmp_path):
    folder = own_copy("convnet", "onnx-cpu")
    key, public = tmp_path / "key.pem", tmp_path / "key.pub"
    make = ["openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", str(key)]
    subprocess.run(make, check=True, capture_output=True)
    subprocess.run(["openssl", "ec", "-in", str(key), "-pubout", "-out", str(public)], check=True, capture_output=True)
    refused = edgex("verify", str(folder), "--signed-by", str(public))
    assert refused.returncode == 6 and "is not signed" in refused.stderr
    signed = edgex("sign", str(folder), "--key", str(key), "--json")
    assert json.loads(signed.stdout)["signature"] == "model.sig", signed.stderr
    verified = edgex("verify", str(folder), "--signed-by", str(public), "--json")
    assert verified.returncode == 0, verified.stderr
    assert json.loads(verified.stdout)["signature"]["file"] == "model.sig"
    (folder / "golden" / "added").write_text("")
    refused = edgex("verify", str(folder), "--signed-by", str(public))
    assert refused.returncode == 6 and "is not what the owner of key.pub signed" in refused.stderr

    printed = edgex("sbom", str(folder))
    assert json.loads(printed.stdout)["specVersion"] == "1.7"
    edgex("sbom", str(folder), "-o", str(tmp_path / "sbom.json"))
    assert json.loads((tmp_path / "sbom.json").read_text()) == json.loads(printed.stdout)
