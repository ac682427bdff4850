// Elements of the page. Names come from files that anybody may have written: they only ever become
// text nodes, so that nothing in them is markup.

const hidden = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Co}\p{Cs}]/gu;
const longest = 160;

/** escaped shows characters that cannot be seen, or turn text around, by their numbers. */
export function escaped(text) {
  return text.replace(hidden, (c) => `\\u{${c.codePointAt(0).toString(16)}}`);
}

/** short cuts a text that is too long for its place in the middle. */
export function short(text, most = longest) {
  if (text.length <= most) {
    return text;
  }
  const half = Math.floor((most - 1) / 2);
  const chars = Array.from(text.slice(0, half + 1)).slice(0, -1);
  return `${chars.join("")}…${Array.from(text.slice(-half - 1))
    .slice(1)
    .join("")}`;
}

/** el makes an element. Properties whose names begin with "on" are listeners; others are attributes. */
export function el(tag, attributes = {}, ...children) {
  const e = document.createElement(tag);
  set(e, attributes);
  e.append(...children.flat().filter((c) => c !== null && c !== undefined));
  return e;
}

/** svg is el for elements of SVG. */
export function svg(tag, attributes = {}, ...children) {
  const e = document.createElementNS("http://www.w3.org/2000/svg", tag);
  set(e, attributes);
  e.append(...children);
  return e;
}

function set(e, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) {
      continue;
    }
    if (name.startsWith("on")) {
      e.addEventListener(name.slice(2), value);
    } else {
      e.setAttribute(name, value === true ? "" : value);
    }
  }
}

/** named shows a name: isolated, so that it does not turn the text around it, and cut if it is long. */
export function named(name, most = longest) {
  const text = escaped(short(name, most));
  const e = el("bdi", { class: "name" }, text === "" ? "(no name)" : text);
  if (name.length > most) {
    e.title = escaped(short(name, 2000));
  }
  return e;
}

/** choice makes a group of radio buttons. options has pairs of a value and its label. */
export function choice(legend, name, options, chosen, change) {
  const set = el("fieldset", { class: "choice" }, el("legend", {}, legend));
  for (const [value, label] of options) {
    const input = el("input", {
      type: "radio",
      name,
      value,
      checked: value === chosen,
      onchange: () => change(value),
    });
    set.append(el("label", {}, input, ` ${label}`));
  }
  return set;
}

const measures = [];

/** watched tells a listener the width of an element that is in the page: now, and when it changes. */
export function watched(element, changed) {
  let width = 0;
  const look = () => {
    const now = Math.floor(element.clientWidth);
    if (now > 0 && now !== width) {
      width = now;
      changed(now);
    }
  };
  measures.push(look);
  new ResizeObserver(look).observe(element);
  look();
}

/** measure looks at all widths at once, for a printer that does not wait. */
export function measure() {
  for (const look of measures) {
    look();
  }
}
