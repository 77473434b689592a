"""A manifest knows whether somebody changed it after the export."""

import json


def test_a_manifest_edited_by_hand_is_noticed(edgex, own_copy, caplog):
    path = own_copy("convnet", "onnx-cpu")
    assert json.loads(edgex("inspect", str(path), "--json").stdout)["edited"] is False
    manifest = path / "manifest.json"
    document = json.loads(manifest.read_text())
    manifest.write_text(json.dumps(document))  # another layout says the same
    assert edgex("run", str(path)).returncode == 0 and caplog.text == ""
    document["verification"]["min_sqnr_db"] = 300.0
    manifest.write_text(json.dumps(document, indent=2))
    assert edgex("run", str(path)).returncode == 0
    assert "manifest.json was changed after the export" in caplog.text
    assert json.loads(edgex("inspect", str(path), "--json").stdout)["edited"] is True
