#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Takes the ELF kernel out of a bzImage. Usage: extract-vmlinux.py VMLINUZ OUT"""
import lzma
import subprocess
import sys
import zlib


def xz(data):
    return lzma.LZMADecompressor(format=lzma.FORMAT_XZ).decompress(data)


def gzip(data):
    return zlib.decompressobj(31).decompress(data)


def zstd(data):  # bytes behind the stream are an error to the tool, not to us
    return subprocess.run(["zstd", "-dcq"], input=data, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout


FORMATS = ((b"\xfd7zXZ\0", xz), (b"\x1f\x8b\x08", gzip), (b"\x28\xb5\x2f\xfd", zstd))


def extract(image):
    for magic, unpack in FORMATS:
        at = image.find(magic)
        while 0 <= at < 1 << 20:
            try:
                kernel = unpack(image[at:])
            except (lzma.LZMAError, zlib.error):
                kernel = b""
            if kernel[:4] == b"\x7fELF":
                return kernel
            at = image.find(magic, at + 1)
    sys.exit("no ELF kernel found in " + sys.argv[1])


with open(sys.argv[1], "rb") as source:
    kernel = extract(source.read())
with open(sys.argv[2], "wb") as target:
    target.write(kernel)
