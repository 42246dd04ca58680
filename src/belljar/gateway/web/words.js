// Numbers, sizes and times as people read them.

/** A number of bytes. */
export function size(bytes) {
  if (bytes < 1024) return bytes === 1 ? "1 byte" : `${bytes} bytes`;
  let value = bytes;
  for (const unit of ["KB", "MB", "GB"]) {
    value /= 1024;
    if (value < 1024 || unit === "GB") return `${value < 10 ? value.toFixed(1) : Math.round(value)} ${unit}`;
  }
}

export function seconds(value) {
  if (value < 0.95) return `${Math.max(1, Math.round(value * 1000))} ms`;
  if (value < 60) return `${value.toFixed(1)} s`;
  return `${Math.floor(value / 60)} min ${Math.round(value % 60)} s`;
}

export function count(number, one, many = `${one}s`) {
  return `${number} ${number === 1 ? one : many}`;
}

export function day(timestamp) {
  return new Date(timestamp * 1000).toLocaleString([], { dateStyle: "medium", timeStyle: "short" });
}
