// Elements, made of tags, properties and text. Nothing here, or anywhere on this page, turns text into markup.

const SVG = "http://www.w3.org/2000/svg";

/** An element. `class`, `on` (listeners by event), `data` (dataset); other names are properties or attributes. */
export function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null) continue;
    if (name === "class") element.className = value;
    else if (name === "data") Object.assign(element.dataset, value);
    else if (name === "on") for (const [event, act] of Object.entries(value)) element.addEventListener(event, act);
    else if (name in element) element[name] = value;
    else element.setAttribute(name, value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

const ICONS = {
  attach: "M15.5 7.5 8.9 14a2.2 2.2 0 0 0 3.1 3.1l7-7a4.2 4.2 0 0 0-6-6l-7.2 7.2a6.2 6.2 0 0 0 8.8 8.8l5.9-6",
  folder: "M3 18.5v-13h6l2 2.5h10v10.5z",
  send: "M12 19.5V5M5.5 11.5 12 5l6.5 6.5",
  stop: "M7 7h10v10H7z",
  close: "M6.5 6.5l11 11M17.5 6.5l-11 11",
  menu: "M4 7h16M4 12h16M4 17h16",
  plus: "M12 5v14M5 12h14",
  download: "M12 4v11M7 10.5l5 5 5-5M5 19.5h14",
  save: "M5 4.5h11l3 3v12H5zM8.5 4.5v5h6v-5M8.5 19.5v-6h7v6",
  copy: "M9 9h10v10.5H9zM6 15H5V4.5h10V6",
  code: "M8.5 7.5 4 12l4.5 4.5M15.5 7.5 20 12l-4.5 4.5",
  file: "M6.5 3.5h7l4 4v13h-11zM13.5 3.5v4h4",
  remove: "M5 7h14M9.5 7V4.5h5V7M7 7l1 12.5h8L17 7",
  retry: "M19 12a7 7 0 1 1-2.2-5.1M19.5 4v4h-4",
  edit: "M5 19l1-4L16.5 4.5l3 3L9 18zM14.5 6.5l3 3",
  up: "M12 19V6M6 11.5 12 5.5l6 6",
};

export function icon(name) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", "0 0 24 24");
  svg.setAttribute("class", "icon");
  svg.setAttribute("aria-hidden", "true");
  const path = document.createElementNS(SVG, "path");
  path.setAttribute("d", ICONS[name]);
  svg.append(path);
  return svg;
}

/** A name that nothing else has; `crypto.randomUUID` is only there over HTTPS and on this machine. */
export function unique() {
  return [...crypto.getRandomValues(new Uint8Array(12))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** A button: an icon, words, or both. One without words has its label read out. */
export function button({ label, icon: drawn, words = !drawn, ...properties }, act) {
  return make(
    "button",
    { type: "button", title: words ? null : label, ariaLabel: words ? null : label, ...properties, on: { click: act } },
    drawn ? icon(drawn) : null,
    words ? make("span", {}, label) : null,
  );
}

/** Changes that are drawn once a frame, however often they happen. */
export class Painter {
  #due = new Set();

  /** Draw soon; the same function twice is drawn once. */
  soon(draw) {
    if (!this.#due.size) requestAnimationFrame(() => this.now());
    this.#due.add(draw);
  }

  now() {
    const due = [...this.#due];
    this.#due.clear();
    for (const draw of due) draw();
  }
}
