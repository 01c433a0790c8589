"""A damped oscillation: how an amplitude fades, as text and as a figure."""

import matplotlib.pyplot as plt
import numpy as np

decay, frequency = 0.25, 1.5
t = np.linspace(0, 10, 500)
wave = np.exp(-decay * t) * np.cos(2 * np.pi * frequency * t)
envelope = np.exp(-decay * t)

print(f"{'time':>6} {'amplitude':>10}")
for second in range(0, 11, 2):
    print(f"{second:>5}s {np.exp(-decay * second):>10.4f}")
print(f"half of it is gone after {np.log(2) / decay:.2f} s")

fig, ax = plt.subplots(figsize=(7, 4))
ax.plot(t, wave, color="tab:blue", label="oscillation")
ax.plot(t, envelope, color="tab:red", linestyle="--", label="envelope")
ax.plot(t, -envelope, color="tab:red", linestyle="--")
ax.fill_between(t, -envelope, envelope, color="tab:red", alpha=0.08)
ax.set_title("A damped oscillation")
ax.set_xlabel("time in seconds")
ax.set_ylabel("amplitude")
ax.grid(alpha=0.3)
ax.legend()
fig.tight_layout()
plt.show()
