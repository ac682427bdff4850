// The copies between device and host: a track each way below the timeline, and the bytes on the host.

import { color, text } from "./chart.js";
import { el, named } from "./dom.js";
import { bytes, thousands, time } from "./format.js";

const trackHeight = 22;
const hostHeight = 56;
const gap = 6;

/** tracks draws the copies of the execution that is shown below a timeline, on its horizontal axis; null where no
 * execution has any. */
export function tracks(section, state, chart) {
  const any = state.page.executions.some((e) => e.copies.length > 0);
  return any ? new Tracks(section, state, chart) : null;
}

class Tracks {
  constructor(section, state, chart) {
    this.state = state;
    this.chart = chart;
    this.answer = el("p", { class: "answer", id: "copies-answer" });
    this.canvas = el("canvas", {
      role: "img",
      "aria-label": "Copies to the host, bytes on the host, and copies back, over the same steps.",
    });
    this.frame = el("div", { class: "plot copies" }, this.canvas);
    this.read = el("p", { class: "readout", id: "copies-readout" });
    this.whole = el("div", { id: "copies" }, this.answer, this.frame, this.read);
    section.append(this.whole);
    this.canvas.addEventListener("mousemove", (e) => this.hover(e));
    this.canvas.addEventListener("click", (e) => this.press(e));
    state.on("execution", () => this.execution());
    this.execution();
  }

  execution() {
    const { execution: e } = this.state;
    this.whole.hidden = e.copies.length === 0;
    this.most = e.host === null ? 0 : e.host.reduce((a, b) => Math.max(a, b), 0);
    this.read.textContent = "";
    if (this.whole.hidden) {
      return;
    }
    const out = e.copies.filter((c) => c.out);
    const back = e.copies.filter((c) => !c.out);
    const sum = (list) => list.reduce((n, c) => n + c.bytes, 0);
    let waits = 0;
    for (const step of new Set(e.copies.map((c) => c.wait))) {
      waits += step < 0 ? 0 : e.seconds(step);
    }
    this.answer.replaceChildren(
      el("span", { "data-copied": sum(out) }, `To the host go ${bytes(sum(out))}`),
      ` in ${thousands(out.length)} copies, and ${bytes(sum(back))} come back in ${thousands(back.length)}; `,
      el("span", { "data-host": this.most }, `they take up to ${bytes(this.most)} there`),
      waits > 0 ? `. The step waits ${time(waits)} for copies.` : ". The step waits for no copy.",
    );
  }

  /** x is the place of a moment on the axis of the chart: in its time, or in the step that runs then. */
  x(seconds) {
    const { state, chart } = this;
    if (state.byTime) {
      return chart.valToPos(seconds, "x");
    }
    const { execution: e } = state;
    const step = e.stepAt(seconds);
    const part = e.seconds(step) > 0 ? (seconds - e.start[step]) / e.seconds(step) : 0;
    return chart.valToPos(step + Math.min(Math.max(part, 0), 1), "x");
  }

  /** place is where a copy is drawn: from the step that begins it, where the axis has steps. */
  place(copy) {
    const from = this.state.byTime
      ? this.x(copy.start)
      : Math.max(this.x(copy.start), this.chart.valToPos(copy.begun, "x"));
    return [from, Math.max(this.x(copy.end), from + 1)];
  }

  draw() {
    const { execution: e } = this.state;
    if (e.copies.length === 0) {
      return;
    }
    const ratio = devicePixelRatio;
    const left = this.chart.bbox.left / ratio;
    const wide = this.chart.bbox.width / ratio;
    const tall = 2 * trackHeight + hostHeight + 2 * gap;
    this.canvas.width = (left + wide) * ratio;
    this.canvas.height = tall * ratio;
    this.canvas.style.width = `${left + wide}px`;
    this.canvas.style.height = `${tall}px`;
    const ctx = this.canvas.getContext("2d");
    ctx.scale(ratio, ratio);
    this.rows = [
      ["to host", 0, trackHeight],
      ["on host", trackHeight + gap, hostHeight],
      ["back", trackHeight + hostHeight + 2 * gap, trackHeight],
    ];
    ctx.font = "12px system-ui, sans-serif";
    ctx.textAlign = "right";
    ctx.textBaseline = "middle";
    for (const [label, top, height] of this.rows) {
      ctx.fillStyle = color("free");
      ctx.fillRect(left, top, wide, height);
      ctx.fillStyle = color("ink-soft");
      ctx.fillText(label, left - 6, top + height / 2);
    }
    ctx.save();
    ctx.beginPath();
    ctx.rect(left, 0, wide, tall);
    ctx.clip();
    this.host(ctx, left);
    ctx.fillStyle = color("moved");
    ctx.strokeStyle = color("paper");
    ctx.lineWidth = 0.75;
    for (const copy of e.copies) {
      const [from, to] = this.place(copy);
      const [, top, height] = this.rows[copy.out ? 0 : 2];
      ctx.fillRect(left + from, top + 2, to - from, height - 4);
      if (to - from > 3) {
        ctx.strokeRect(left + from, top + 2, to - from, height - 4);
      }
    }
    ctx.fillStyle = color("accent");
    const at = this.state.byTime ? e.start[this.state.step] : this.state.step + 0.5;
    ctx.fillRect(left + this.chart.valToPos(at, "x") - 1, 0, 2, tall);
    ctx.restore();
    ctx.setTransform(1, 0, 0, 1, 0, 0);
    const label = `up to ${bytes(this.most)}`;
    text(ctx, label, (left + 6) * ratio, (trackHeight + gap + 14) * ratio, color("ink"), "left");
  }

  /** host draws the bytes on the host as an area. */
  host(ctx, left) {
    const { execution: e, byTime, range } = this.state;
    const [, top, height] = this.rows[1];
    const y = (n) => top + height - (n / Math.max(this.most, 1)) * (height - 2);
    const x = (step) => left + this.chart.valToPos(byTime ? e.start[step] : step, "x");
    const first = Math.max(0, Math.floor(range[0]));
    const last = Math.min(e.count, Math.ceil(range[1]) + 1);
    ctx.beginPath();
    ctx.moveTo(x(first), top + height);
    for (let s = first; s < last; s++) {
      ctx.lineTo(x(s), y(e.host[s]));
      ctx.lineTo(x(s + 1), y(e.host[s]));
    }
    ctx.lineTo(x(last), top + height);
    ctx.fillStyle = color("moved");
    ctx.fill();
  }

  /** at is the copy at a point; undefined where there is none. */
  at(event) {
    if (!this.rows) {
      return undefined;
    }
    const px = event.offsetX - this.chart.bbox.left / devicePixelRatio;
    const row = this.rows.findIndex(
      ([, top, tall]) => top <= event.offsetY && event.offsetY < top + tall,
    );
    return this.state.execution.copies.find((copy) => {
      const [from, to] = this.place(copy);
      return row === (copy.out ? 0 : 2) && from <= px && px <= to;
    });
  }

  hover(event) {
    const copy = this.at(event);
    if (!copy) {
      this.read.textContent = "";
      return;
    }
    this.read.replaceChildren(
      el("span", { class: "swatch moved" }),
      " ",
      named(copy.name, 80),
      ` ${copy.out ? "goes to the host" : "comes back"}: ${bytes(copy.bytes)}, `,
      `${time(copy.start)} to ${time(copy.end)}, begun by step ${thousands(copy.begun + 1)}`,
      copy.wait < 0 ? "" : `, awaited by step ${thousands(copy.wait + 1)}`,
    );
  }

  press(event) {
    const copy = this.at(event);
    if (copy) {
      this.state.choose(copy.begun);
    }
  }
}
