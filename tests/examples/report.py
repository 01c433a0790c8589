"""A sales report with pandas: a pivot table, totals, and a chart of it."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

rng = np.random.default_rng(7)
sales = pd.DataFrame({
    "month": np.repeat(pd.period_range("2026-01", periods=6, freq="M"), 3),
    "region": ["north", "south", "west"] * 6,
    "revenue": rng.integers(80, 200, 18) * 100,
})
table = sales.pivot(index="month", columns="region", values="revenue")
table["total"] = table.sum(axis=1)
print(table.to_string())
print("best month:", table["total"].idxmax())

table.drop(columns="total").plot.bar(stacked=True, figsize=(6, 3.5))
plt.title("Revenue by region")
plt.tight_layout()
table.to_csv("report.csv")
table.describe().round(1)
