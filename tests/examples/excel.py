"""Reads orders.csv, an input file, and writes a workbook with totals."""

import csv
from collections import Counter

from openpyxl import Workbook

totals = Counter()
with open("data/orders.csv", newline="") as file:
    for row in csv.DictReader(file):
        totals[row["product"]] += int(row["count"]) * float(row["price"])

book = Workbook()
sheet = book.active
sheet.title = "totals"
sheet.append(["product", "total"])
for product, total in sorted(totals.items()):
    sheet.append([product, round(total, 2)])
    print(f"{product:<8}{total:>8.2f}")
book.save("data/totals.xlsx")
