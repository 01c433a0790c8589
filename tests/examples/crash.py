"""Reads from address zero, as a broken C library would."""

import ctypes

print("about to crash", flush=True)


def call_library():
    return ctypes.string_at(0)


call_library()
