// What is chosen in the page, and who wants to know when that changes.

/** State is what the views share. */
export class State {
  constructor(page) {
    this.page = page;
    this.shown = page.executions.length > 1 ? "plan" : "baseline";
    this.byTime = false;
    this.hiddenKinds = new Set();
    this.range = [0, 0];
    this.step = 0;
    this.node = 0;
    this.listeners = new Map();
    this.whole();
    this.step = this.execution.peak;
    this.node = this.execution.node[this.step];
  }

  /** execution is the one that is shown, or lies in front. */
  get execution() {
    const e = this.page.executions;
    return this.shown === "baseline" ? e[0] : e[e.length - 1];
  }

  /** behind is the execution that lies behind the one that is shown, or null. */
  get behind() {
    return this.shown === "both" ? this.page.executions[0] : null;
  }

  on(event, listener) {
    const list = this.listeners.get(event) ?? [];
    list.push(listener);
    this.listeners.set(event, list);
  }

  tell(event) {
    for (const listener of this.listeners.get(event) ?? []) {
      listener();
    }
  }

  /** whole sets the range to all steps. */
  whole() {
    this.range = [0, Math.max(1, this.execution.count)];
  }

  show(what) {
    const all = this.range[0] === 0 && this.range[1] >= this.execution.count;
    const node = this.node;
    this.shown = what;
    if (all || this.range[1] > this.execution.count) {
      this.whole();
    }
    const first = this.execution.first[node];
    this.step = first >= 0 ? first : this.execution.peak;
    this.step = Math.min(this.step, this.execution.count - 1);
    this.tell("execution");
    this.tell("step");
  }

  /** zoom sets the range of steps, within what there is. */
  zoom(from, to) {
    const count = this.execution.count;
    const width = Math.min(Math.max(to - from, Math.min(4, count)), count);
    const start = Math.min(Math.max(from, 0), count - width);
    this.range = [start, start + width];
    this.tell("range");
  }

  /** zoomBy changes the width of the range by a factor around a place in it. */
  zoomBy(factor, around = (this.range[0] + this.range[1]) / 2) {
    this.zoom(
      around - (around - this.range[0]) * factor,
      around + (this.range[1] - around) * factor,
    );
  }

  /** pan moves the range by a share of its width. */
  pan(share) {
    const by = (this.range[1] - this.range[0]) * share;
    this.zoom(this.range[0] + by, this.range[1] + by);
  }

  /** choose chooses a step, and the node that it runs. */
  choose(step) {
    const last = this.execution.count - 1;
    this.step = Math.max(0, Math.min(last, Math.round(step)));
    this.tell("step");
  }

  /** pick chooses a node of the graph of the execution that is shown. */
  pick(node) {
    this.node = node;
    const first = this.execution.first[node];
    if (first >= 0) {
      this.step = first;
      this.tell("step");
    }
    this.tell("node");
  }
}
