// Numbers as the reports of memopt print them.

const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

/** bytes prints a number of bytes in the largest unit of which there is at least one. */
export function bytes(n) {
  if (n === null || n === undefined) {
    return "unknown";
  }
  let unit = 0;
  let rest = Math.abs(n);
  while (rest >= 1024 && unit < units.length - 1) {
    rest /= 1024;
    unit++;
  }
  const text = unit === 0 ? String(rest) : thousands(rest, 2);
  return `${n < 0 ? "−" : ""}${text} ${units[unit]}`;
}

/** thousands prints a number with so many decimals, and commas between groups of three digits. */
export function thousands(n, decimals = 0) {
  return n.toLocaleString("en-US", {
    minimumFractionDigits: decimals,
    maximumFractionDigits: decimals,
  });
}

/** percent prints a share. */
export function percent(share) {
  return share === null || share === undefined ? "unknown" : `${thousands(share * 100, 1)} %`;
}

/** time prints a number of seconds. */
export function time(seconds) {
  if (seconds >= 1) {
    return `${thousands(seconds, 2)} s`;
  }
  if (seconds >= 1e-3) {
    return `${thousands(seconds * 1e3, 2)} ms`;
  }
  return `${thousands(seconds * 1e6, 1)} µs`;
}

/** ticks are round numbers of bytes for an axis: at most count of them from low to high. */
export function ticks(low, high, count) {
  const rough = Math.max((high - low) / Math.max(count, 1), 1);
  let step = 2 ** Math.floor(Math.log2(rough));
  for (const factor of [1, 2, 4]) {
    if (step * factor >= rough) {
      step *= factor;
      break;
    }
  }
  const out = [];
  for (let at = Math.ceil(low / step) * step; at <= high; at += step) {
    out.push(at);
  }
  return out;
}

/** counts are round whole numbers for an axis: at most count of them from low to high. */
export function counts(low, high, count) {
  const rough = Math.max((high - low) / Math.max(count, 1), 1);
  const ten = 10 ** Math.floor(Math.log10(rough));
  const step = ten * ([1, 2, 5, 10].find((f) => f * ten >= rough) ?? 10);
  const out = [];
  for (let at = Math.ceil(low / step) * step; at <= high; at += step) {
    out.push(at);
  }
  return out;
}
