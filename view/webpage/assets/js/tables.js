// Tables that can be searched and sorted: of clusters, and of what is stashed.

import { el } from "./dom.js";
import { thousands } from "./format.js";

const atOnce = 20;

/** table makes a table of rows. A column has a title, whether it is a number, the key to sort by, and the
 * cell to show; words is the text in which a row is searched, and by the column that sorts at first. */
export function table(id, title, columns, rows, words, by) {
  return new Sortable(id, title, columns, rows, words, by).element;
}

class Sortable {
  constructor(id, title, columns, rows, words, by) {
    Object.assign(this, { columns, rows, words, by: -1, down: false, text: "", most: atOnce });
    this.count = el("span", { class: "soft", role: "status" });
    this.body = el("tbody");
    this.more = el("button", { type: "button", onclick: () => this.grow() }, "Show more");
    const search = el("input", {
      type: "search",
      id: `${id}-search`,
      oninput: (e) => {
        this.text = e.target.value.toLowerCase();
        this.most = atOnce;
        this.fill();
      },
    });
    this.heads = columns.map((c, i) =>
      el(
        "th",
        { scope: "col", class: c.number ? "number" : null },
        el(
          "button",
          { type: "button", onclick: () => this.sort(i) },
          c.title,
          el("span", { class: "arrow", "aria-hidden": "true" }),
        ),
      ),
    );
    this.element = el(
      "div",
      {},
      el(
        "div",
        { class: "controls" },
        el("label", {}, `Search ${title.toLowerCase()} `, search),
        this.count,
      ),
      el(
        "div",
        { class: "scroll", tabindex: 0, role: "region", "aria-label": title },
        el("table", { id, class: "wide" }, el("thead", {}, el("tr", {}, this.heads)), this.body),
      ),
      el("p", { class: "buttons" }, this.more),
    );
    this.sort(by);
  }

  sort(column) {
    this.down = this.by === column ? !this.down : Boolean(this.columns[column].number);
    this.by = column;
    this.heads.forEach((h, i) => {
      h.removeAttribute("aria-sort");
      if (i === column) {
        h.setAttribute("aria-sort", this.down ? "descending" : "ascending");
      }
    });
    this.fill();
  }

  grow() {
    this.most += 10 * atOnce;
    this.fill();
  }

  /** found are the rows that the search finds, in the order that is asked for. */
  found() {
    const out = this.rows.filter(
      (r) => this.text === "" || this.words(r).toLowerCase().includes(this.text),
    );
    if (this.by >= 0) {
      const { key } = this.columns[this.by];
      const sign = this.down ? -1 : 1;
      out.sort((a, b) => sign * compared(key(a), key(b)));
    }
    return out;
  }

  fill() {
    const rows = this.found();
    this.body.replaceChildren(...rows.slice(0, this.most).map((r) => this.row(r)));
    if (rows.length === 0) {
      this.body.append(
        el("tr", {}, el("td", { colspan: this.columns.length }, "No row is found.")),
      );
    }
    this.more.hidden = rows.length <= this.most;
    this.count.textContent = `${thousands(rows.length)} of ${thousands(this.rows.length)}`;
  }

  row(r) {
    return el(
      "tr",
      {},
      this.columns.map((c) => el("td", { class: c.number ? "number" : null }, c.cell(r))),
    );
  }
}

/** compared orders what is unknown behind everything else. */
function compared(a, b) {
  if (a === b) {
    return 0;
  }
  if (a === null || a === undefined) {
    return 1;
  }
  if (b === null || b === undefined) {
    return -1;
  }
  return a < b ? -1 : 1;
}
