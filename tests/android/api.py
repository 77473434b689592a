"""The list of Android's public methods, and whether what the app calls is in it, old enough, and not deprecated.

The list is a TypeScript declaration of the platform to API 37, with `@since` and `@deprecated`. It does not tell int
from long, so types of parameters are not compared, only their number.
"""

import re
from dataclasses import dataclass

from class_file import count_parameters

MIN_SDK = 26
LIST = "android-platform-21-37-merged.d.ts"
_MEMBER = re.compile(r"(?:public |static |abstract |final )*(\w+)(\(|\??:)")

# Newer than the oldest Android, and called behind a check of the version in the sources.
GUARDED = {
    ("android/graphics/ImageDecoder", 28),
    ("android/graphics/ImageDecoder$ImageInfo", 28),
    ("android/graphics/ImageDecoder$OnHeaderDecodedListener", 28),
    ("android/graphics/Insets", 29),
    ("android/os/PowerManager.getCurrentThermalStatus", 29),
    ("android/view/WindowInsets$Type", 30),
    ("android/view/WindowInsets.getInsets", 30),
    ("android/os/Build.SOC_MANUFACTURER", 31),
    ("android/os/Build.SOC_MODEL", 31),
}
# Deprecated, and called where their successors do not exist yet.
DEPRECATED = {f"android/view/WindowInsets.getSystemWindowInset{side}" for side in ("Left", "Top", "Right", "Bottom")}


@dataclass(frozen=True)
class Member:
    """One overload or field; `parameters` is None for a field, `since` the API level, 1 where the list names none."""

    parameters: int | None
    since: int
    deprecated: bool


def read_list(path):
    """Class -> (superclasses and interfaces, name -> members). Names with `/` and `$`."""
    classes, stack, comment = {}, [], ""
    for line in path.read_text(encoding="utf-8").splitlines():
        text = line.strip()
        if text.startswith("/**") or (comment and not comment.rstrip().endswith("*/")):
            comment = text if text.startswith("/**") else comment + " " + text
            continue
        if match := re.match(r"(?:declare|export) (?:module|namespace) ([\w.]+) \{", text):
            stack.append(("module", match[1], None))
        elif match := re.match(r"export (?:abstract |final )*(?:class|interface) (\w+)(?:<.*?>)?([^{]*)\{", text):
            name = _join(stack, match[1])
            parents = [_slashes(p) for p in re.findall(r"([a-z][\w]*(?:\.\w+)+)", match[2])]
            classes.setdefault(name, (parents, {}))[0].extend(parents)
            stack.append(("class", match[1], name))
        elif text == "}" and stack:
            stack.pop()
        elif (
            stack
            and stack[-1][0] == "class"
            and (match := re.match(r"(?:public |static |abstract |final )*(\w+)(\(|\??:)", text))
        ):
            _add(classes[stack[-1][2]][1], match, text, comment)
        if not text.startswith("*"):
            comment = ""
    return classes


def _add(members, match, text, comment):
    since = re.search(r"@since (\d+)", comment)
    parameters = None
    if match[2] == "(":
        inside = text[match.end() : text.rindex(")") if ")" in text else len(text)]
        inside = re.sub(r"<[^<>]*>", "", re.sub(r"<[^<>]*>", "", inside))
        parameters = len(re.findall(r"\w+\??:", inside))
    member = Member(parameters, int(since[1]) if since else 1, "@deprecated" in comment)
    members.setdefault(match[1], []).append(member)


def _join(stack, name):
    modules = [part for kind, part, _ in stack if kind == "module"]
    outer = [part for kind, part, _ in stack if kind == "class"]
    # A class inside another is written as a namespace of the outer one's name.
    parts = ".".join(modules).split(".")
    package = [p for p in parts if p[:1].islower()]
    nested = [p for p in parts if p[:1].isupper()] + outer + [name]
    return "/".join([*package, "$".join(nested)])


def _slashes(dotted):
    parts = dotted.split(".")
    package = [p for p in parts if p[:1].islower()]
    return "/".join([*package, "$".join(p for p in parts if p[:1].isupper())])


def check_calls(members, classes):
    """Everything that is wrong with what is called, one sentence each.

    Args:
        members: (class, name, descriptor) of what the app names.
        classes: Of `read_list`.
    """
    wrong = []
    for owner, name, descriptor in sorted(members):
        if not owner.startswith(("android/", "org/json/")):
            continue
        wanted = count_parameters(descriptor) if descriptor.startswith("(") else None
        found = list(_find(owner, "constructor" if name == "<init>" else name, wanted, classes, set()))
        title = f"{owner}.{name}"
        if not found:
            wrong.append(f"{title}{descriptor}: Android has no such member")
            continue
        since = min(member.since for member in found)
        if since > MIN_SDK and not {(title, since), (owner, 28), (owner, 29), (owner, 30)} & GUARDED:
            wrong.append(f"{title}: since API {since}, the app runs from {MIN_SDK} on")
        if all(member.deprecated for member in found) and title not in DEPRECATED:
            wrong.append(f"{title}: deprecated")
    return wrong


def _find(owner, name, parameters, classes, seen):
    """Members of that name and number of parameters, of a class or what it extends; not only the nearest."""
    if owner in seen or owner not in classes:
        return
    seen.add(owner)
    parents, members = classes[owner]
    for member in members.get(name, ()):
        if member.parameters == parameters:
            yield member
    if name != "constructor":
        for parent in parents:
            yield from _find(parent, name, parameters, classes, seen)
