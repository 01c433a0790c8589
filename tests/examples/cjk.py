"""A chart with Chinese, Japanese and Korean labels."""

import matplotlib.pyplot as plt

plt.rcParams["font.sans-serif"] = ["SimHei"]
plt.rcParams["axes.unicode_minus"] = False

cities = ["北京", "東京", "서울"]
plt.bar(cities, [-3, 6, -1], color=["tab:red", "tab:blue", "tab:green"])
plt.title("一月の平均気温 · 1월 평균 기온")
plt.ylabel("温度 ℃")
plt.savefig("气温.png")
print("完成 · できました · 완료")
