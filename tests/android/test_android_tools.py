"""The parts of `make android-check` that need little: the reader of the API list, and linking with aapt2."""

import shutil

import pytest
from api import check_calls, read_list
from check import Check
from class_file import count_parameters, read_members
from tools import missing_packages

from edgex.export.android.project import PROJECT

LIST = """
declare module android {
    export module view {
        export class View extends java.lang.Object {
            public constructor(context: android.content.Context);
            public static GONE: number;
            public setPadding(left: number, top: number, right: number, bottom: number): void;
            /** @since 31 */
            public newer(x: number): void;
            /** @since 21 @deprecated Deprecated in API 30 */
            public older(): void;
        }
        export module View {
            export interface OnClickListener {
                onClick(v: android.view.View): void;
            }
        }
        export class Group extends android.view.View {
            public add(children: java.util.Map<string, android.view.View>, deep: boolean): void;
        }
    }
}
"""


@pytest.fixture
def listed(tmp_path):
    (tmp_path / "list.d.ts").write_text(LIST)
    return read_list(tmp_path / "list.d.ts")


@pytest.mark.parametrize(
    ("member", "words"),
    [
        (("android/view/View", "setPadding", "(IIII)V"), None),
        (("android/view/View", "<init>", "(Landroid/content/Context;)V"), None),
        (("android/view/View", "GONE", "I"), None),
        (("android/view/View$OnClickListener", "onClick", "(Landroid/view/View;)V"), None),
        (("android/view/Group", "setPadding", "(IIII)V"), None),
        (("android/view/Group", "add", "(Ljava/util/Map;Z)V"), None),
        (("java/lang/Object", "fly", "()V"), None),
        (("android/view/View", "setPadding", "(III)V"), "no such member"),
        (("android/view/View", "fly", "()V"), "no such member"),
        (("android/view/View", "newer", "(I)V"), "since API 31"),
        (("android/view/View", "older", "()V"), "deprecated"),
        (("android/view/Toolbar", "show", "()V"), "no such member"),
    ],
)
def test_calls_are_held_against_the_list(listed, member, words):
    wrong = check_calls({member}, listed)
    assert len(wrong) == (words is not None)
    assert words is None or words in wrong[0]


@pytest.mark.parametrize(
    ("descriptor", "count"), [("()V", 0), ("(I)V", 1), ("(Ljava/lang/String;[[IJ[Ljava/lang/Object;)V", 4)]
)
def test_parameters_are_counted(descriptor, count):
    assert count_parameters(descriptor) == count


def test_members_of_a_class_file_are_read(tmp_path):
    if shutil.which("javac") is None:
        pytest.skip("no javac: install openjdk-17-jdk-headless")
    import subprocess

    (tmp_path / "A.java").write_text("class A { static long f(String s) { return s.length() + Long.MAX_VALUE; } }")
    subprocess.run(["javac", "-d", str(tmp_path), str(tmp_path / "A.java")], check=True)
    members = read_members((tmp_path / "A.class").read_bytes())
    assert ("java/lang/String", "length", "()I") in members


def test_resources_compile_and_link(tmp_path):
    if missing := [package for package in missing_packages() if package in ("aapt", "android-framework-res")]:
        pytest.skip(f"aapt2 or its framework are missing: apt-get install {' '.join(missing)}")
    project, work = tmp_path / "app", tmp_path / "work"
    shutil.copytree(PROJECT, project)
    (project / "model/src/main/assets/edgex").mkdir(parents=True, exist_ok=True)
    work.mkdir()
    check = Check(None, work, [project])
    check.resources()
    text = (work / "generated/dev/edgex/sample/R.java").read_text()
    assert "class plurals" in text
