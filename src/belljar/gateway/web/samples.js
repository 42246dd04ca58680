// What a new chat suggests: Python for the built-in model, which runs it, and questions for one that thinks.

const CURVE = `import numpy as np
import matplotlib.pyplot as plt

x = np.linspace(0, 10, 500)
plt.plot(x, np.sin(x) * np.exp(-x / 5))
plt.title("A damped wave");`;

const TABLE = `import pandas as pd

df = pd.DataFrame({"n": range(1, 11)})
df["square"] = df.n ** 2
df.to_csv("squares.csv", index=False)
df`;

const ROWS = `import csv

with open("squares.csv", "w", newline="") as file:
    rows = csv.writer(file)
    rows.writerow(["n", "square"])
    rows.writerows([n, n ** 2] for n in range(1, 11))
print(open("squares.csv").read())`;

const COUNT = `import time

for n in range(1, 6):
    print(n, "of 5")
    time.sleep(0.5)`;

const STACK = ["matplotlib", "numpy", "pandas"];

const SAMPLES = {
  data: [
    ["Draw a curve", CURVE],
    ["Make a table", TABLE],
    ["Watch it count", COUNT],
  ],
  plain: [
    ["Make a table", ROWS],
    ["Watch it count", COUNT],
  ],
  other: [
    ["Draw a curve", "Plot a damped sine wave and mark its first three maxima."],
    ["Make a spreadsheet", "Make an Excel file with a mortgage schedule: 250 000 over 20 years at 3.5 %."],
    ["Count something", "How many prime numbers are there below ten million? Compute it."],
  ],
};

/** Pairs of a title and a text. `ours`: for the built-in model, by the `packages` that its code finds installed. */
export function samplesFor(ours, packages) {
  if (!ours) return SAMPLES.other;
  return STACK.every((name) => packages.includes(name)) ? SAMPLES.data : SAMPLES.plain;
}
