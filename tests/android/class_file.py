"""What a compiled class names: the methods and fields of its constant pool."""

import struct

# Bytes of each constant's body; a string's length follows its tag.
_SIZES = {3: 4, 4: 4, 5: 8, 6: 8, 7: 2, 8: 2, 9: 4, 10: 4, 11: 4, 12: 4, 15: 3, 16: 2, 17: 4, 18: 4, 19: 2, 20: 2}
_MEMBERS = (9, 10, 11)


def read_members(content):
    """(class, name, descriptor) of every method and field that a class file refers to, with `/` in names."""
    count = struct.unpack_from(">H", content, 8)[0]
    entries, at, number = {}, 10, 1
    while number < count:
        tag = content[at]
        if tag == 1:
            length = struct.unpack_from(">H", content, at + 1)[0]
            entries[number] = (1, content[at + 3 : at + 3 + length].decode("utf-8", "replace"))
            at += 3 + length
        else:
            entries[number] = (tag, content[at + 1 : at + 1 + _SIZES[tag]])
            at += 1 + _SIZES[tag]
        number += 2 if tag in (5, 6) else 1

    def text(index):
        return entries[index][1]

    found = set()
    for tag, body in entries.values():
        if tag in _MEMBERS:
            owner, pair = struct.unpack(">HH", body)
            name, descriptor = struct.unpack(">HH", entries[pair][1])
            found.add((text(struct.unpack(">H", entries[owner][1])[0]), text(name), text(descriptor)))
    return found


def count_parameters(descriptor):
    """Number of parameters of a method's descriptor, for example 2 for `(ILjava/lang/String;)V`."""
    at, count = 1, 0
    while descriptor[at] != ")":
        while descriptor[at] == "[":
            at += 1
        at = descriptor.index(";", at) + 1 if descriptor[at] == "L" else at + 1
        count += 1
    return count
