// What charts have in common: colours from the style sheet, axes, and lines with a label.

import { bytes, ticks } from "./format.js";

const known = new Map();
const probe = document.createElement("span");
probe.hidden = true;

/** color is a colour of the style sheet as the theme has it now, in a form that canvases know. */
export function color(name) {
  let found = known.get(name);
  if (found === undefined) {
    if (!probe.isConnected) {
      document.body.append(probe);
    }
    probe.style.color = `var(--${name})`;
    found = getComputedStyle(probe).color;
    known.set(name, found);
  }
  return found;
}

/** recolor forgets colours: the theme has changed. */
export function recolor() {
  known.clear();
}

/** height is that of a chart on a screen of this width. */
export function height(width) {
  return Math.round(Math.min(Math.max(width * 0.42, 220), 480));
}

/** axis is an axis of a chart. */
export function axis(properties) {
  return {
    stroke: () => color("ink-soft"),
    grid: { stroke: () => color("grid"), width: 1 },
    ticks: { stroke: () => color("grid"), width: 1 },
    font: "12px system-ui, sans-serif",
    ...properties,
  };
}

/** bytesAxis is a vertical axis of bytes. */
export function bytesAxis() {
  return axis({
    size: 78,
    splits: (_u, _axis, low, high) => ticks(low, high, 6),
    values: (_u, splits) => splits.map((n) => bytes(n).replace(/\.00 /, " ")),
  });
}

/** rule draws a horizontal line across a chart, with a label below it. */
export function rule(u, at, label, stroke) {
  const y = Math.round(u.valToPos(at, "y", true));
  const { left, top, width, height: tall } = u.bbox;
  if (y < top || y > top + tall) {
    return;
  }
  const ratio = devicePixelRatio;
  line(u.ctx, stroke, [left, y, left + width, y]);
  text(u.ctx, label, left + 6 * ratio, y + 14 * ratio, stroke, "left");
}

/** mark draws a vertical line through a chart, with a label at its top. */
export function mark(u, at, label, stroke) {
  const x = Math.round(u.valToPos(at, "x", true));
  const { left, top, width, height: tall } = u.bbox;
  if (x < left || x > left + width) {
    return;
  }
  const ratio = devicePixelRatio;
  line(u.ctx, stroke, [x, top, x, top + tall]);
  const right = x + textWidth(u.ctx, label) > left + width;
  const side = right ? "right" : "left";
  text(u.ctx, label, x + (right ? -5 : 5) * ratio, top + 13 * ratio, stroke, side);
}

const font = "600 12px system-ui, sans-serif";

/** scaled is the font of labels for the pixels of the screen. */
function scaled() {
  return font.replace("12px", `${12 * devicePixelRatio}px`);
}

/** textWidth is how wide a label is, with some space. */
export function textWidth(ctx, label) {
  ctx.save();
  ctx.font = scaled();
  const { width } = ctx.measureText(label);
  ctx.restore();
  return width + 10 * devicePixelRatio;
}

function line(ctx, stroke, [x0, y0, x1, y1]) {
  ctx.save();
  ctx.strokeStyle = stroke;
  ctx.lineWidth = 1.5 * devicePixelRatio;
  ctx.setLineDash([6 * devicePixelRatio, 4 * devicePixelRatio]);
  ctx.beginPath();
  ctx.moveTo(x0, y0);
  ctx.lineTo(x1, y1);
  ctx.stroke();
  ctx.restore();
}

/** text writes on a chart, readable on whatever lies behind. */
export function text(ctx, label, x, y, fill, align) {
  ctx.save();
  ctx.font = scaled();
  ctx.textAlign = align;
  ctx.lineJoin = "round";
  ctx.lineWidth = 4 * devicePixelRatio;
  ctx.strokeStyle = color("paper");
  ctx.strokeText(label, x, y);
  ctx.fillStyle = fill;
  ctx.fillText(label, x, y);
  ctx.restore();
}
