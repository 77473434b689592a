"""APKs, bundles and packs of generated apps, assembled, signed and validated by Debian's tools and bundletool."""

import json
import shutil
import struct
import sys
import zipfile

from process import require, run
from tools import FRAMEWORK

ABIS = ("arm64-v8a", "x86_64")
# Of memory, on devices of Android 15 and later; the store asks for it.
PAGE = 16384
KEY = ("-storepass", "android", "-keypass", "android", "-alias", "check")
# What Google's plug-in makes of modelpack/build.gradle.kts.
PACK_MANIFEST = """<manifest xmlns:android="http://schemas.android.com/apk/res/android"
    xmlns:dist="http://schemas.android.com/apk/distribution" package="{application}" split="modelpack">
  <dist:module dist:type="ai-pack">
    <dist:delivery><dist:on-demand /></dist:delivery>
    <dist:fusing dist:include="true" />
  </dist:module>
  <application android:hasCode="false" />
</manifest>
"""
BUNDLE = {
    "compression": {"uncompressedGlob": ["assets/**.pte", "assets/**.bin"]},
    "optimizations": {"uncompressNativeLibraries": {"enabled": True, "alignment": "PAGE_ALIGNMENT_16K"}},
}


def build_all(check):
    """An APK and a bundle of every app; of the first, what a phone would be given of the bundle."""
    sizes = []
    for app in check.apps:
        apk, bundle = build_apk(check, app), build_bundle(check, app)
        sizes.append(apk.stat().st_size)
        if app == check.app:
            take_apart(check, bundle)
    return (
        f"{len(sizes)} APKs of up to {max(sizes) / 1e6:.0f} MB, signed (v2), with the permissions that they should "
        "have, and as many AABs, validated by bundletool and signed; libraries on pages of 16 KB"
    )


def libraries(check):
    base = check.tools.executorch / "third-party" / "android" / "libs" / "executorch"
    return [(f"lib/{abi}/libexecutorch.so", base / abi / "libexecutorch.so") for abi in ABIS]


def keystore_of(check):
    store = check.work / "check.keystore"
    if not store.is_file():
        names = ("-dname", "CN=check", "-keyalg", "RSA", "-validity", "2")
        run("keytool", "-genkeypair", "-keystore", store, *KEY, *names)
    return store


def build_apk(check, app):
    """The signed APK, its permissions and its model looked at."""
    plain, aligned = check.work / "plain.apk", check.work / "app.apk"
    check.link(app, plain)
    with zipfile.ZipFile(plain, "a") as archive:
        archive.write(check.work / "dex" / "classes.dex", "classes.dex", zipfile.ZIP_DEFLATED)
        for name, path in libraries(check):
            archive.write(path, name, zipfile.ZIP_STORED)
    run("zipalign", "-f", "-p", "4", plain, aligned)
    run(
        "apksigner", "sign", "--ks", keystore_of(check), "--ks-pass", "pass:android", "--ks-key-alias", "check",
        "--min-sdk-version", "26", aligned,
    )  # fmt: skip
    verified = run("apksigner", "verify", "--verbose", "--min-sdk-version", "26", aligned)
    require("v2 scheme (APK Signature Scheme v2): true" in verified, "the APK has no v2 signature")
    badging = run("aapt2", "dump", "badging", aligned)
    require(f"package: name='{check.application}'" in badging, "the APK is called otherwise")
    records = "listener" in app.parts
    asked = [line for line in badging.splitlines() if line.startswith("uses-permission")]
    allowed = ["uses-permission: name='android.permission.RECORD_AUDIO'"] if records else []
    require(asked == allowed, f"{app}: the APK asks for {asked}")
    require("launchable-activity: name='dev.edgex.sample.MainActivity'" in badging, "no launcher activity")
    with zipfile.ZipFile(aligned) as archive:
        model = next(entry for entry in archive.infolist() if entry.filename.endswith("/model.pte"))
        require(model.compress_type == zipfile.ZIP_STORED, "the model is compressed")
    return aligned


def build_bundle(check, app):
    """The AAB, validated and signed."""
    linked, module, bundle = (check.work / name for name in ("proto.apk", "base.zip", "app.aab"))
    check.link(app, linked, "--proto-format")
    with zipfile.ZipFile(linked) as source, zipfile.ZipFile(module, "w", zipfile.ZIP_DEFLATED) as target:
        for name in source.namelist():
            moved = "manifest/AndroidManifest.xml" if name == "AndroidManifest.xml" else name
            target.writestr(moved, source.read(name))
        target.write(check.work / "dex" / "classes.dex", "dex/classes.dex")
        for name, path in libraries(check):
            target.write(path, name)
    config, tool = check.work / "BundleConfig.json", ("-jar", check.tools.bundletool)
    config.write_text(json.dumps(BUNDLE))
    bundle.unlink(missing_ok=True)
    check.java(*tool, "build-bundle", f"--modules={module}", f"--output={bundle}", f"--config={config}")
    check.java(*tool, "validate", f"--bundle={bundle}")
    store = keystore_of(check)
    run("jarsigner", "-keystore", store, "-storepass", "android", "-keypass", "android", bundle, "check")
    run("jarsigner", "-verify", bundle)
    return bundle


def take_apart(check, bundle):
    """The universal APK of a bundle: its libraries lie on pages."""
    apks = check.work / "app.apks"
    check.java(
        "-jar", check.tools.bundletool, "build-apks", f"--bundle={bundle}", f"--output={apks}", "--mode=universal",
        f"--ks={keystore_of(check)}", "--ks-pass=pass:android", "--ks-key-alias=check", "--key-pass=pass:android",
        f"--aapt2={shutil.which('aapt2')}",
    )  # fmt: skip
    with zipfile.ZipFile(apks) as archive:
        require("universal.apk" in archive.namelist(), "bundletool made no universal APK")
        archive.extract("universal.apk", check.work)
    places = stored_places(check.work / "universal.apk", ".so")
    require(len(places) == len(ABIS), f"the universal APK holds {len(places)} stored libraries")
    require(all(place % PAGE == 0 for place in places.values()), f"a library begins within a page: {places}")


def add_pack(check):
    """The first app with its model in an AI pack, as `--delivery on-demand` writes it."""
    packed = check.work / "packed"
    run(sys.executable, "-m", "edgex", "android", check.artifact, "-o", packed, "--delivery", "on-demand", "--force")
    library = packed / "model" / "src" / "main" / "kotlin" / "dev" / "edgex" / "model"
    check.kotlin(check.classes_of("play"), library / "PackDelivery.kt", [check.work / "stubs", check.stdlib])
    (check.work / "PackManifest.xml").write_text(PACK_MANIFEST.format(application=check.application))
    linked, module = check.work / "pack.apk", check.work / "modelpack.zip"
    run(
        "aapt2", "link", "-I", FRAMEWORK, "--proto-format", "--manifest", check.work / "PackManifest.xml",
        "-A", packed / "modelpack" / "src" / "main" / "assets", "-o", linked,
    )  # fmt: skip
    build_bundle(check, check.app)
    base = check.work / "thin.zip"
    with zipfile.ZipFile(check.work / "base.zip") as source, zipfile.ZipFile(base, "w") as target:
        for name in source.namelist():
            if not name.endswith("/model.pte"):
                target.writestr(name, source.read(name))
    with zipfile.ZipFile(linked) as source, zipfile.ZipFile(module, "w") as target:
        target.writestr("manifest/AndroidManifest.xml", source.read("AndroidManifest.xml"))
        for name in source.namelist():
            if name.startswith("assets/"):
                target.writestr(name, source.read(name))
    bundle, tool = check.work / "packed.aab", ("-jar", check.tools.bundletool)
    check.java(*tool, "build-bundle", f"--modules={base},{module}", f"--output={bundle}")
    printed = check.java(*tool, "validate", f"--bundle={bundle}")
    require("modelpack" in printed, "bundletool sees no pack")
    return "AAB with the model in an on-demand AI pack, validated by bundletool"


def stored_places(path, suffix):
    """Where in an archive the content of each file that is stored, not compressed, begins."""
    places = {}
    with zipfile.ZipFile(path) as archive, path.open("rb") as stream:
        for entry in archive.infolist():
            if entry.filename.endswith(suffix) and entry.compress_type == zipfile.ZIP_STORED:
                # The entry's own header has other extra fields than the archive's list.
                stream.seek(entry.header_offset + 26)
                name, extra = struct.unpack("<HH", stream.read(4))
                places[entry.filename] = entry.header_offset + 30 + name + extra
    return places
