"""A search that never ends, with what it had found until then."""

best, n = 0, 27
print("searching", flush=True)
while True:
    steps, k = 0, n
    while k != 1:
        k = 3 * k + 1 if k % 2 else k // 2
        steps += 1
    if steps > best:
        best = steps
        with open("best.txt", "w") as file:
            print(n, steps, file=file)
    n += 1
