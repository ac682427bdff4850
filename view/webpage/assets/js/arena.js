// The arena: which bytes of it hold what from which step to which.

import { color } from "./chart.js";
import { kinds } from "./data.js";
import { el, named, watched } from "./dom.js";
import { bytes, counts, percent, thousands, ticks } from "./format.js";

const leastArea = 0.02; // of a rectangle that is drawn, in square pixels
const margin = { left: 78, right: 8, top: 8, bottom: 28 };

/** arena fills the section of the arena. */
export function arena(section, state) {
  new Arena(section, state);
}

/** Rows knows which parts of the lines of pixels have been painted, so that of thousands of rectangles
 * that are thinner than a pixel only those are drawn that add something. */
class Rows {
  constructor(height) {
    this.from = new Float64Array(2 * height + 2).fill(Number.POSITIVE_INFINITY);
    this.to = new Float64Array(2 * height + 2).fill(Number.NEGATIVE_INFINITY);
  }

  /** covered reports whether a part of the line at y is painted, and notes that it is now. */
  covered(y, from, to) {
    const row = Math.max(0, Math.floor(2 * y));
    if (this.from[row] <= from && to <= this.to[row]) {
      return true;
    }
    const apart = from > this.to[row] || to < this.from[row];
    const wider = to - from > this.to[row] - this.from[row];
    if (!apart) {
      this.from[row] = Math.min(this.from[row], from);
      this.to[row] = Math.max(this.to[row], to);
    } else if (wider || this.to[row] < this.from[row]) {
      this.from[row] = from;
      this.to[row] = to;
    }
    return false;
  }
}

class Arena {
  constructor(section, state) {
    this.state = state;
    this.waiting = false;
    this.stale = true;
    this.under = -1;
    this.back = el("canvas");
    this.answer = el("p", { class: "answer" });
    this.canvas = el("canvas", {
      role: "img",
      "aria-label":
        "Chart of the arena: steps to the right, addresses upwards, a rectangle for each value.",
    });
    this.frame = el("div", { class: "plot arena" }, this.canvas);
    this.read = el("p", { class: "readout", id: "arena-readout" });
    section.append(this.answer, this.frame, this.read);
    this.canvas.addEventListener("mousemove", (e) => this.hover(e));
    this.canvas.addEventListener("click", () => this.press());
    for (const event of ["execution", "range", "theme"]) {
      state.on(event, () => this.later(true));
    }
    state.on("step", () => this.later(false));
    watched(this.frame, (width) => {
      this.width = width;
      this.height = Math.round(Math.min(Math.max(width * 0.42, 220), 460));
      this.stale = true;
      this.refresh();
    });
  }

  /** later draws again, all of it where more than the cursor has changed. */
  later(all) {
    this.stale ||= all;
    if (!this.waiting && this.width) {
      this.waiting = true;
      requestAnimationFrame(() => {
        this.waiting = false;
        this.refresh();
      });
    }
  }

  x(step) {
    const [from, to] = this.state.range;
    return margin.left + ((step - from) / (to - from)) * (this.width - margin.left - margin.right);
  }

  y(address) {
    const tall = this.height - margin.top - margin.bottom;
    return margin.top + tall * (1 - address / Math.max(this.state.execution.arenaBytes, 1));
  }

  refresh() {
    if (this.stale) {
      this.stale = false;
      this.background();
    }
    const ctx = this.canvas.getContext("2d");
    ctx.setTransform(1, 0, 0, 1, 0, 0);
    ctx.clearRect(0, 0, this.canvas.width, this.canvas.height);
    ctx.drawImage(this.back, 0, 0);
    ctx.scale(devicePixelRatio, devicePixelRatio);
    ctx.save();
    this.clip(ctx);
    this.cursor(ctx);
    ctx.restore();
    this.answers();
  }

  clip(ctx) {
    const tall = this.height - margin.top - margin.bottom;
    ctx.beginPath();
    ctx.rect(margin.left, margin.top, this.width - margin.left - margin.right, tall);
    ctx.clip();
  }

  /** background draws all but the cursor on a canvas of its own. */
  background() {
    const began = performance.now();
    for (const canvas of [this.canvas, this.back]) {
      canvas.width = this.width * devicePixelRatio;
      canvas.height = this.height * devicePixelRatio;
    }
    this.canvas.style.width = `${this.width}px`;
    this.canvas.style.height = `${this.height}px`;
    const ctx = this.back.getContext("2d");
    ctx.scale(devicePixelRatio, devicePixelRatio);
    ctx.save();
    this.clip(ctx);
    ctx.fillStyle = color("free");
    ctx.fillRect(0, 0, this.width, this.height);
    this.rectangles(ctx);
    ctx.restore();
    this.axes(ctx);
    performance.measure("arena", { start: began });
  }

  rectangles(ctx) {
    const b = this.state.execution.blocks;
    const [from, to] = this.state.range;
    const fills = kinds.map((k) => color(k));
    const rows = new Rows(this.height);
    const bottom = this.y(0);
    const perByte = bottom - this.y(1);
    const perStep = this.x(from + 1) - this.x(from);
    ctx.strokeStyle = color("paper");
    ctx.lineWidth = 0.75;
    for (let i = 0; i < b.first.length && b.first[i] <= to; i++) {
      if (b.last[i] < from || b.offset[i] < 0) {
        continue;
      }
      const x = margin.left + (b.first[i] - from) * perStep;
      const wide = (b.last[i] + 1 - b.first[i]) * perStep;
      const tall = b.bytes[i] * perByte;
      const y = bottom - b.offset[i] * perByte - tall;
      if (wide * tall < leastArea || (tall < 1 && rows.covered(y, x, x + wide))) {
        continue;
      }
      ctx.fillStyle = fills[b.kind[i]];
      ctx.fillRect(x, y, Math.max(wide, 0.5), Math.max(tall, 0.5));
      if (wide > 3 && tall > 3) {
        ctx.strokeRect(x, y, wide, tall);
      }
    }
  }

  cursor(ctx) {
    const b = this.state.execution.blocks;
    if (this.under >= 0 && this.under < b.first.length) {
      const i = this.under;
      const x = this.x(b.first[i]);
      const y = this.y(b.offset[i] + b.bytes[i]);
      ctx.strokeStyle = color("ink");
      ctx.lineWidth = 2;
      ctx.strokeRect(x, y, this.x(b.last[i] + 1) - x, this.y(b.offset[i]) - y);
    }
    ctx.fillStyle = color("accent");
    ctx.fillRect(this.x(this.state.step + 0.5) - 1, 0, 2, this.height);
  }

  axes(ctx) {
    const { execution: e, range } = this.state;
    ctx.fillStyle = color("ink-soft");
    ctx.font = "12px system-ui, sans-serif";
    ctx.textAlign = "right";
    ctx.textBaseline = "middle";
    for (const at of ticks(0, e.arenaBytes, 6)) {
      ctx.fillText(bytes(at).replace(/\.00 /, " "), margin.left - 6, Math.max(this.y(at), 10));
    }
    ctx.textAlign = "center";
    for (const step of counts(range[0], range[1], this.width / 110)) {
      ctx.fillText(thousands(step), this.x(step), this.height - margin.bottom / 2);
    }
  }

  answers() {
    const { execution: e, step } = this.state;
    const b = e.blocks;
    let used = 0;
    let top = 0;
    for (const i of e.liveAt(step)) {
      if (b.offset[i] >= 0) {
        used += b.bytes[i];
        top = Math.max(top, b.offset[i] + b.bytes[i]);
      }
    }
    const lost = e.arenaBytes - e.total[e.peak];
    this.answer.replaceChildren(
      el(
        "span",
        { "data-arena": e.title, "data-bytes": e.arenaBytes },
        `The arena takes ${bytes(e.arenaBytes)}`,
      ),
      `, ${bytes(Math.max(lost, 0))} more than the peak of live bytes: that is fragmentation and alignment. `,
      `At step ${thousands(step + 1)}, ${bytes(used)} are in use up to address ${bytes(top)}, `,
      `and ${bytes(top - used)} below that are free (${percent(top > 0 ? (top - used) / top : 0)}).`,
    );
  }

  /** at is the block at a point; -1 where there is none. */
  at(px, py) {
    const [from, to] = this.state.range;
    const step = Math.floor(
      from + ((px - margin.left) / (this.width - margin.left - margin.right)) * (to - from),
    );
    const tall = this.height - margin.top - margin.bottom;
    const address = (1 - (py - margin.top) / tall) * this.state.execution.arenaBytes;
    const b = this.state.execution.blocks;
    for (let i = 0; i < b.first.length && b.first[i] <= step; i++) {
      const inside = b.offset[i] <= address && address < b.offset[i] + b.bytes[i];
      if (b.last[i] >= step && b.offset[i] >= 0 && inside) {
        return i;
      }
    }
    return -1;
  }

  hover(event) {
    const i = this.at(event.offsetX, event.offsetY);
    if (i !== this.under) {
      this.under = i;
      this.tell();
      this.later(false);
    }
  }

  tell() {
    const { execution: e } = this.state;
    const i = this.under;
    if (i < 0) {
      this.read.textContent = "No value lies here.";
      return;
    }
    const b = e.blocks;
    this.read.replaceChildren(
      el("span", { class: `swatch ${kinds[b.kind[i]]}` }),
      " ",
      named(e.blockName(i), 80),
      `, ${kinds[b.kind[i]]}, ${bytes(b.bytes[i])} at address ${thousands(b.offset[i])}, `,
      `steps ${thousands(b.first[i] + 1)} to ${thousands(b.last[i] + 1)}, made by `,
      b.made[i] < 0 ? "no node" : named(e.name(b.made[i]), 80),
      ", read last by ",
      b.reader[i] < 0 ? "no node" : named(e.name(b.reader[i]), 80),
    );
  }

  press() {
    if (this.under >= 0) {
      const { made, first } = this.state.execution.blocks;
      this.state.choose(made[this.under] >= 0 ? made[this.under] : first[this.under]);
    }
  }
}
