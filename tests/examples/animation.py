"""A travelling wave, saved as an animated GIF."""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.animation import FuncAnimation

fig, ax = plt.subplots(figsize=(3, 2), dpi=60)
x = np.linspace(0, 2 * np.pi, 100)
line, = ax.plot(x, np.sin(x))


def update(frame):
    line.set_ydata(np.sin(x + frame / 2))
    return [line]


wave = FuncAnimation(fig, update, frames=5, interval=80)
wave.save("wave.gif", writer="pillow")
print("saved wave.gif")
