"""Four views of one data set in one figure."""

import matplotlib.pyplot as plt
import numpy as np

rng = np.random.default_rng(3)
x = rng.normal(size=400)
y = 0.6 * x + rng.normal(scale=0.5, size=400)

fig, ((a, b), (c, d)) = plt.subplots(2, 2, figsize=(8, 6))
a.scatter(x, y, s=8, alpha=0.6)
a.set_title("scatter")
b.hist(x, bins=24, color="tab:green")
b.set_title("histogram")
c.boxplot([x, y], labels=["x", "y"])
c.set_title("spread")
d.imshow(np.histogram2d(x, y, bins=20)[0].T, origin="lower", cmap="viridis")
d.set_title("density")
fig.suptitle("Four views of 400 points")
fig.tight_layout()
plt.show()
print(f"correlation {np.corrcoef(x, y)[0, 1]:.2f}")
