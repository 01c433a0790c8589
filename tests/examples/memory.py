"""Takes memory until there is no more."""

print("filling", flush=True)
blocks = []
while True:
    blocks.append(bytearray(b"x") * (4 << 20))
