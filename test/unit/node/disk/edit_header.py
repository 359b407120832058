#!/usr/bin/env python3
# Replaces the encryption of the segments or key slots of a LUKS2 header, or the memory of its key
# derivation, as an owner of the disk can without the passphrase; or removes the key slots.
# Usage: edit_header.py DISK segments|keyslots CIPHER, or DISK memory KIB, or DISK remove keyslots.
# Source: LUKS2 On-Disk Format Specification, sections 2.1 and 3.
import hashlib
import json
import struct
import sys

BINARY, SUM_AT, SUM_SIZE = 4096, 448, 64

disk, part, value = sys.argv[1:]
with open(disk, "r+b") as f:
    size = struct.unpack(">Q", f.read(16)[8:])[0]
    f.seek(BINARY)
    text = json.loads(f.read(size - BINARY).split(b"\0")[0])
    if part == "memory":
        for slot in text["keyslots"].values():
            slot["kdf"] = {"type": "argon2id", "time": 4, "memory": int(value), "cpus": 1, "salt": slot["kdf"]["salt"]}
    elif part == "remove":
        text["keyslots"] = {}
        for digest in text["digests"].values():
            digest["keyslots"] = []
    else:
        for item in text[part].values():
            (item["area"] if part == "keyslots" else item)["encryption"] = value
    area = json.dumps(text).encode().ljust(size - BINARY, b"\0")
    for copy in 0, size:
        f.seek(copy)
        header = bytearray(f.read(BINARY))
        header[SUM_AT:SUM_AT + SUM_SIZE] = bytes(SUM_SIZE)
        header[SUM_AT:SUM_AT + 32] = hashlib.sha256(header + area).digest()
        f.seek(copy)
        f.write(header + area)
