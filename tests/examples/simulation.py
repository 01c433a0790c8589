"""Pi by throwing darts, with a progress bar on standard error."""

import random
import sys

random.seed(1)
rounds, darts, inside = 50, 2000, 0
for i in range(1, rounds + 1):
    for _ in range(darts):
        inside += random.random() ** 2 + random.random() ** 2 < 1
    done = i * 30 // rounds
    sys.stderr.write(f"\r[{'#' * done}{'.' * (30 - done)}] {i * 2:3d}%")
sys.stderr.write("\n")
print(f"pi is about {4 * inside / (rounds * darts):.3f}")
