// What code prints, as a terminal would show it: progress bars overwrite their line, colours are left out.

import { make } from "./dom.js";

const ESCAPES = /\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])/g;
const UNFINISHED = /\x1b(?:\[[0-?]*[ -/]*|\][^\x07\x1b]{0,200})?$/;
const PART = 8_000;
const MOST = 400_000;

export class Screen {
  #painter;
  #parts = [];
  #held = "";
  #return = false;
  #length = 0;
  #cut = make("span", { class: "cut", hidden: true }, "… what was printed before this is not shown\n");

  constructor(painter) {
    this.#painter = painter;
    this.element = make("pre", { class: "output", tabIndex: 0, ariaLabel: "Output" }, this.#cut);
    this.text = "";
  }

  /** What was printed, raw and whole. */
  write(text, stream = "stdout") {
    this.text += text;
    let clean = this.#held + text;
    this.#held = clean.match(UNFINISHED)?.[0] ?? "";
    clean = clean.slice(0, clean.length - this.#held.length).replace(ESCAPES, "");
    for (const piece of clean.split(/(\r\n|\r|\n)/)) {
      if (piece === "\r") this.#return = true;
      else if (piece === "\n" || piece === "\r\n") {
        this.#return = false;
        this.#append("\n", stream);
      } else if (piece) {
        if (this.#return) this.#eraseLine();
        this.#append(piece, stream);
      }
    }
    this.#painter.soon(this.#draw);
  }

  get empty() {
    return !this.text;
  }

  #append(text, stream) {
    let last = this.#parts.at(-1);
    if (!last || last.stream !== stream || last.text.length > PART) {
      last = { stream, text: "", node: make("span", { class: stream }) };
      this.#parts.push(last);
    }
    last.text += text;
    last.stale = true;
    this.#length += text.length;
    while (this.#length > MOST && this.#parts.length > 1) {
      const gone = this.#parts.shift();
      this.#length -= gone.text.length;
      gone.node.remove();
      this.#cut.hidden = false;
    }
  }

  #eraseLine() {
    this.#return = false;
    for (const part of this.#parts.toReversed()) {
      const kept = part.text.lastIndexOf("\n") + 1;
      this.#length -= part.text.length - kept;
      part.text = part.text.slice(0, kept);
      part.stale = true;
      if (kept) return;
    }
  }

  #draw = () => {
    for (const part of this.#parts) {
      if (!part.stale) continue;
      part.stale = false;
      part.node.textContent = part.text;
      if (!part.node.parentNode) this.element.append(part.node);
    }
    this.element.scrollTop = this.element.scrollHeight;
  };
}
