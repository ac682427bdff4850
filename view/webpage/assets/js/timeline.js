// The timeline: what is live over the steps or the time of the plan, by kind, the baseline behind it.

import { axis, bytesAxis, color, height, mark, rule } from "./chart.js";
import { tracks } from "./copies.js";
import { kinds } from "./data.js";
import { choice, el, watched } from "./dom.js";
import { bytes, thousands, time } from "./format.js";

const mostPoints = 2000;

/** clock says what the times of steps are. */
function clock(page) {
  return page.plan.recompute.profile.startsWith("measured:") ? "Measured time" : "Estimated time";
}

/** timeline fills the section of the timeline. */
export function timeline(section, state) {
  new Timeline(section, state);
}

class Timeline {
  constructor(section, state) {
    this.state = state;
    this.pinned = false;
    this.waiting = false;
    this.peaks = new Map();
    this.answer = el("p", { class: "answer", id: "timeline-answer" });
    this.plot = el("div", {
      class: "plot",
      role: "img",
      "aria-label": "Chart of live bytes by kind over the step; the slider below walks through it.",
    });
    this.tip = el("div", { class: "tip", hidden: true });
    this.legend = el("div", { class: "legend", role: "group", "aria-label": "Kinds of bytes" });
    this.slider = el("input", {
      type: "range",
      id: "step",
      min: 0,
      value: 0,
      oninput: () => state.choose(Number(this.slider.value)),
      onkeydown: (e) => this.key(e),
    });
    section.append(this.controls(), this.answer, this.legend, this.plot);
    this.build();
    this.tracks = tracks(section, state, this.u);
    section.append(el("label", { class: "slider" }, "Step ", this.slider));
    state.on("execution", () => this.execution());
    state.on("range", () => this.later());
    state.on("kinds", () => this.later());
    state.on("theme", () => this.u.redraw(false));
    state.on("step", () => this.step());
    this.execution();
    this.step();
    watched(this.plot, (width) => {
      this.u.setSize({ width, height: height(width) });
    });
  }

  controls() {
    const { state } = this;
    const row = el("div", { class: "controls" });
    if (state.page.executions.length > 1) {
      const options = [
        ["plan", "Plan"],
        ["baseline", "Baseline"],
        ["both", "Plan over baseline"],
      ];
      row.append(choice("Show", "shown", options, state.shown, (v) => state.show(v)));
    }
    const axes = [
      ["steps", "Nodes"],
      ["time", clock(state.page)],
    ];
    row.append(
      choice("Over", "axis", axes, "steps", (v) => {
        state.byTime = v === "time";
        state.tell("range");
      }),
    );
    const buttons = [
      ["zoom-in", "Zoom in", "+", () => state.zoomBy(0.5, state.step)],
      ["zoom-out", "Zoom out", "−", () => state.zoomBy(2)],
      ["left", "Earlier", "←", () => state.pan(-0.25)],
      ["right", "Later", "→", () => state.pan(0.25)],
      ["all", "Whole step", "All", () => state.zoom(0, state.execution.count)],
      ["peak", "Go to the peak", "Peak", () => state.choose(state.execution.peak)],
    ];
    const group = el("div", { class: "buttons", role: "group", "aria-label": "Zoom" });
    for (const [name, label, sign, press] of buttons) {
      group.append(
        el(
          "button",
          { type: "button", "data-zoom": name, "aria-label": label, title: label, onclick: press },
          sign,
        ),
      );
    }
    row.append(group);
    return row;
  }

  key(event) {
    const { state } = this;
    const act = {
      "+": () => state.zoomBy(0.5, state.step),
      "-": () => state.zoomBy(2),
      p: () => state.choose(state.execution.peak),
    }[event.key];
    if (act) {
      event.preventDefault();
      act();
    }
  }

  build() {
    const stepped = uPlot.paths.stepped({ align: 1 });
    const series = [{}];
    for (let k = kinds.length - 1; k >= 0; k--) {
      const fill = () => color(kinds[k]);
      series.push({ fill, stroke: fill, width: 0, paths: stepped, points: { show: false } });
    }
    const options = {
      width: 600,
      height: 260,
      series,
      legend: { show: false },
      scales: { x: { time: false }, y: { range: () => [0, this.top] } },
      axes: [
        axis({ space: 90, values: (_u, splits) => splits.map((x) => this.where(x)) }),
        bytesAxis(),
      ],
      cursor: {
        points: { show: false },
        drag: { x: true, y: false, setScale: false },
        x: false,
        y: false,
      },
      hooks: {
        draw: [(u) => this.draw(u)],
        setSelect: [(u) => this.selected(u)],
        setCursor: [(u) => this.hover(u)],
      },
    };
    this.top = 1;
    const empty = [[0, 1], ...kinds.map(() => [0, 0])];
    this.u = new uPlot(options, empty, this.plot);
    this.u.over.append(this.tip);
    this.u.over.addEventListener("wheel", (e) => this.wheel(e), { passive: false });
    this.u.over.addEventListener("dblclick", () => this.state.zoom(0, this.state.execution.count));
    this.u.over.addEventListener("click", () => {
      this.pinned = !this.pinned;
      this.step();
    });
    this.u.over.addEventListener("mouseleave", () => {
      this.tip.hidden = true;
    });
  }

  /** where labels a place of the horizontal axis. */
  where(x) {
    if (this.state.byTime) {
      return time(x);
    }
    return Number.isInteger(x) ? thousands(x) : "";
  }

  /** x is the place of a step, or of a part of one, on the horizontal axis. */
  x(step) {
    if (!this.state.byTime) {
      return step;
    }
    const { start, count } = this.state.execution;
    const whole = Math.max(0, Math.min(count - 1, Math.floor(step)));
    return start[whole] + (start[whole + 1] - start[whole]) * (step - whole);
  }

  /** stepOf is the step at a place of the horizontal axis. */
  stepOf(x) {
    return this.state.byTime ? this.state.execution.stepAt(x) : Math.floor(x);
  }

  execution() {
    const e = this.state.execution;
    this.slider.max = e.count - 1;
    this.align();
    this.keys();
    this.later();
    this.answers();
  }

  answers() {
    const parts = [];
    const { behind, execution: e } = this.state;
    for (const one of behind ? [e, behind] : [e]) {
      const peak = one.total[one.peak];
      parts.push(
        el(
          "span",
          { "data-peak": one.title, "data-bytes": peak },
          `${one.title}: peak ${bytes(peak)}`,
        ),
        ` at node ${thousands(one.peak + 1)} of ${thousands(one.count)}`,
        one === e && behind ? "; " : "",
      );
    }
    const always = e.persistent.reduce((a, b) => a + b, 0);
    parts.push(
      `. Inputs, weights and states are live throughout and take ${bytes(always)} beside it.`,
    );
    this.answer.replaceChildren(...parts);
  }

  /** keys are the buttons of the legend. */
  keys() {
    const { execution: e, hiddenKinds } = this.state;
    this.legend.replaceChildren();
    kinds.forEach((kind, k) => {
      const n = e.persistent[k] + e.at(k, e.peak);
      if (n === 0 && e.live[k] === null) {
        return;
      }
      const button = el(
        "button",
        {
          type: "button",
          "data-kind": kind,
          "data-bytes": n,
          "aria-pressed": String(!hiddenKinds.has(k)),
          title: "Show or hide",
          onclick: () => {
            if (!hiddenKinds.delete(k)) {
              hiddenKinds.add(k);
            }
            button.setAttribute("aria-pressed", String(!hiddenKinds.has(k)));
            this.state.tell("kinds");
          },
        },
        el("span", { class: `swatch ${kind}` }),
        ` ${kind} `,
        el("span", { class: "soft" }, `${bytes(n)} at the peak`),
      );
      this.legend.append(button);
    });
  }

  /** align finds where the steps of the baseline lie beside those of the plan: where the plan runs the
   * same node first, if both run in the same order, else in proportion. */
  align() {
    const { behind, execution: e } = this.state;
    this.places = null;
    if (behind === null) {
      return;
    }
    const same = behind.graphIndex === e.graphIndex;
    const at = new Float64Array(behind.count + 1);
    let last = -1;
    let ordered = same;
    for (let s = 0; s < behind.count && ordered; s++) {
      at[s] = e.first[behind.node[s]];
      ordered = at[s] > last;
      last = at[s];
    }
    at[behind.count] = e.count;
    this.places = ordered ? at : at.map((_, s) => (s * e.count) / behind.count);
  }

  later() {
    if (!this.waiting) {
      this.waiting = true;
      requestAnimationFrame(() => {
        this.waiting = false;
        this.refresh();
      });
    }
  }

  /** base is what of a kind is live throughout and shown. */
  base(k) {
    return this.state.hiddenKinds.has(k) ? 0 : this.state.execution.persistent[k];
  }

  /** floor is all that is live throughout and shown: where lines of the arena begin. */
  floor() {
    return kinds.reduce((sum, _, k) => sum + this.base(k), 0);
  }

  refresh() {
    const began = performance.now();
    const { execution: e, hiddenKinds, range } = this.state;
    const steps = e.visible(range[0], range[1], mostPoints);
    const xs = steps.map((s) => this.x(s));
    const end = Math.min(e.count, steps.length > 0 ? steps[steps.length - 1] + 1 : 1);
    xs.push(Math.max(this.x(end), this.x(range[1])));
    const columns = [];
    let sum = new Float64Array(xs.length);
    kinds.forEach((_, k) => {
      const column = Float64Array.from(sum);
      if (!hiddenKinds.has(k)) {
        for (let i = 0; i < xs.length; i++) {
          column[i] += this.base(k) + e.at(k, steps[Math.min(i, steps.length - 1)]);
        }
      }
      columns.push(column);
      sum = column;
    });
    this.top = Math.max(this.highest(), 1) * 1.08;
    this.u.setData([xs, ...columns.reverse()], false);
    this.u.setScale("x", { min: this.x(range[0]), max: this.x(range[1]) });
    performance.measure("timeline", { start: began });
  }

  /** highest is the highest point of the whole chart: its scale stays when the range changes. */
  highest() {
    const { execution: e, behind, hiddenKinds } = this.state;
    let high = this.peakOf(e, hiddenKinds);
    if (behind) {
      high = Math.max(high, this.peakOf(behind, hiddenKinds));
    }
    for (const line of this.lines()) {
      if (line.at <= high * 1.5) {
        high = Math.max(high, line.at);
      }
    }
    return high;
  }

  /** peakOf is the most that is live of the kinds that are shown; it is kept for the next time. */
  peakOf(e, hiddenKinds) {
    const key = `${e.title} ${[...hiddenKinds].sort()}`;
    if (!this.peaks.has(key)) {
      let high = 0;
      for (let s = 0; s < e.count; s++) {
        high = Math.max(high, this.sum(e, s));
      }
      this.peaks.set(key, high);
    }
    return this.peaks.get(key) + this.floor();
  }

  /** lines are the budget and the bound. */
  lines() {
    const { limit_bytes: limit, lower_bound_bytes: bound } = this.state.page;
    const out = [];
    if (bound !== null && bound > 0) {
      out.push({ at: bound + this.floor(), label: `lower bound ${bytes(bound)}`, stroke: "bound" });
    }
    if (limit !== null) {
      out.push({
        at: limit + this.floor(),
        label: `budget of the arena ${bytes(limit)}`,
        stroke: "budget",
      });
    }
    return out;
  }

  draw(u) {
    const { execution: e, behind, range } = this.state;
    if (behind) {
      this.outline(u, behind, range);
    }
    for (const line of this.lines()) {
      rule(u, line.at, line.label, color(line.stroke));
    }
    mark(u, this.x(e.peak + 0.5), this.peakLabel(), color("ink"));
    const x = Math.round(u.valToPos(this.x(this.state.step + 0.5), "x", true));
    u.ctx.save();
    u.ctx.fillStyle = color("accent");
    const { left, top, width, height: tall } = u.bbox;
    if (x >= left && x <= left + width) {
      u.ctx.fillRect(x - devicePixelRatio, top, 2 * devicePixelRatio, tall);
    }
    u.ctx.restore();
    this.tracks?.draw();
  }

  /** peakLabel says how high the peak is: alone, and where it lies on the axis. */
  peakLabel() {
    const { execution: e } = this.state;
    const floor = this.floor();
    const alone = `peak ${bytes(e.total[e.peak])}`;
    return floor > 0 ? `${alone}, ${bytes(e.total[e.peak] + floor)} with weights` : alone;
  }

  /** outline draws the baseline as a line. */
  outline(u, behind, range) {
    const at = (s) => (this.state.byTime ? behind.start[s] : this.places[s]);
    const from = this.before(behind, at, this.x(range[0]));
    const to = this.before(behind, at, this.x(range[1]));
    const steps = behind.visible(from, to + 1, mostPoints);
    const { left, top, width, height: tall } = u.bbox;
    const floor = this.floor();
    const ctx = u.ctx;
    ctx.save();
    ctx.beginPath();
    ctx.rect(left, top, width, tall);
    ctx.clip();
    ctx.strokeStyle = color("ink");
    ctx.lineWidth = 1.5 * devicePixelRatio;
    ctx.beginPath();
    steps.forEach((s, i) => {
      const y = u.valToPos(this.sum(behind, s) + floor, "y", true);
      ctx.lineTo(u.valToPos(at(s), "x", true), y);
      const next = i + 1 < steps.length ? steps[i + 1] : s + 1;
      ctx.lineTo(u.valToPos(at(next), "x", true), y);
    });
    ctx.stroke();
    ctx.restore();
  }

  /** sum is what is live at a step of the kinds that are shown. */
  sum(e, step) {
    return kinds.reduce((n, _, k) => n + (this.state.hiddenKinds.has(k) ? 0 : e.at(k, step)), 0);
  }

  /** before is the last step whose place is not behind x. */
  before(e, at, x) {
    let low = 0;
    let high = e.count - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (at(middle) <= x) {
        low = middle;
      } else {
        high = middle - 1;
      }
    }
    return low;
  }

  selected(u) {
    if (u.select.width < 4) {
      return;
    }
    const from = u.posToVal(u.select.left, "x");
    const to = u.posToVal(u.select.left + u.select.width, "x");
    u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    this.state.zoom(this.stepOf(from), this.stepOf(to) + 1);
  }

  wheel(event) {
    if (!event.ctrlKey && !event.shiftKey && Math.abs(event.deltaX) <= Math.abs(event.deltaY)) {
      return; // the page scrolls
    }
    event.preventDefault();
    if (event.ctrlKey) {
      const x = this.u.posToVal(event.offsetX, "x");
      this.state.zoomBy(event.deltaY > 0 ? 1.25 : 0.8, this.stepOf(x));
    } else {
      this.state.pan((event.deltaX || event.deltaY) / this.u.over.clientWidth);
    }
  }

  hover(u) {
    const { left } = u.cursor;
    const { state } = this;
    if (left === null || left < 0 || this.pinned) {
      return;
    }
    const step = Math.max(
      0,
      Math.min(state.execution.count - 1, this.stepOf(u.posToVal(left, "x"))),
    );
    if (step !== state.step) {
      state.choose(step);
    }
    this.tip.hidden = false;
    this.tip.style.left = `${Math.min(left + 12, u.over.clientWidth - 180)}px`;
  }

  step() {
    const { execution: e, step } = this.state;
    this.slider.value = step;
    const total = e.total[step];
    const text = `${bytes(total)} live, step ${thousands(step + 1)}`;
    this.slider.setAttribute(
      "aria-valuetext",
      `${text}, ${e.operator(step)} ${e.name(step).slice(0, 200)}`,
    );
    this.tip.textContent = this.pinned ? `${text}, pinned: click to let go` : text;
    this.u.redraw(false);
  }
}
