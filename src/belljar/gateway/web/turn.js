// A turn: what the user said and what came of it, drawn from events as they come or, the same, from the store.

import { Cell } from "./cell.js";
import { button, icon, make } from "./dom.js";
import { Files } from "./files.js";
import { Markdown } from "./prose.js";
import { size } from "./words.js";

/** Text that grows; drawn once a frame. */
class Said {
  #painter;
  #markdown;
  #texts = [];

  constructor(painter, files) {
    this.#painter = painter;
    this.#markdown = new Markdown(files);
    this.element = this.#markdown.element;
  }

  add(at, delta) {
    this.#texts[at] = (this.#texts[at] ?? "") + delta;
    this.#painter.soon(this.#draw);
  }

  settle(item) {
    const parts = typeof item.content === "string" ? [{ text: item.content }] : item.content;
    this.#texts = parts.map((part) => part.text ?? part.refusal ?? "");
    this.#draw();
  }

  #draw = () => this.#markdown.set(this.#texts.filter(Boolean).join("\n\n"));
}

/** What the model thinks, where it tells; out of the way until asked for. */
class Thought {
  #painter;
  #texts = [];
  #text = make("div", { class: "thought" });

  constructor(painter) {
    this.#painter = painter;
    this.element = make("details", { class: "reasoning", hidden: true }, make("summary", {}, "Thinking"), this.#text);
  }

  add(at, delta) {
    this.#texts[at] = (this.#texts[at] ?? "") + delta;
    this.#painter.soon(this.#draw);
  }

  settle(item) {
    this.#texts = [...(item.summary ?? []), ...(item.content ?? [])].map((part) => part.text);
    this.#draw();
  }

  #draw = () => {
    const text = this.#texts.filter(Boolean).join("\n\n");
    this.#text.textContent = text;
    this.element.hidden = !text;
  };
}

/** An item that this page does not know: said, not hidden. */
class Other {
  constructor(item) {
    this.element = make("p", { class: "other" }, item.name ? `Called ${item.name}.` : `(${item.type})`);
    this.element.hidden = item.type === "compaction";
  }

  settle() {}
}

const WAITING = "Thinking …";

export class Turn {
  #painter;
  #files;
  #items = [];
  #answer = make("div", { class: "answer" });
  #waiting = make("p", { class: "waiting" }, WAITING);
  #trouble = make("div", { class: "trouble" });

  constructor(painter, api, { text, files = [] }, saving) {
    this.#painter = painter;
    this.text = text;
    this.files = files;
    this.#files = new Files(api, saving);
    this.element = make(
      "article",
      { class: "turn" },
      make(
        "div",
        { class: "asked" },
        make("div", { class: "bubble" }, text),
        files.map((one) => attached(one)),
      ),
      this.#answer,
      this.#waiting,
      this.#files.element,
      this.#files.trouble,
      this.#trouble,
    );
  }

  /** An event of the response's stream. */
  feed(event) {
    const view = this.#items[event.output_index];
    switch (event.type) {
      case "response.output_item.added":
        this.#open(event.output_index, event.item);
        break;
      case "response.output_text.delta":
      case "response.refusal.delta":
      case "response.reasoning_text.delta":
        view?.add(event.content_index, event.delta);
        break;
      case "response.reasoning_summary_text.delta":
        view?.add(event.summary_index, event.delta);
        break;
      case "response.code_interpreter_call_code.delta":
        view?.write(event.delta);
        break;
      case "response.code_interpreter_call.interpreting":
        view?.run();
        break;
      case "belljar:code_interpreter_call.output.delta":
        view?.print(event.delta, event.stream);
        break;
      case "response.output_item.done":
        this.#open(event.output_index, event.item).settle(event.item);
        this.#files.look(event.item);
        if (event.item.type === "code_interpreter_call") this.wait();
        break;
    }
  }

  /** The response as it is in the end. */
  async settle(response) {
    for (const [at, item] of response.output.entries()) {
      this.#open(at, item).settle(item);
      this.#files.look(item);
    }
    this.wait(null);
    this.#painter.now();
    await this.#files.show();
  }

  /** What is waited for; null for nothing. */
  wait(text = WAITING) {
    this.#waiting.hidden = text === null;
    this.#waiting.textContent = text ?? "";
  }

  /** Say what went wrong, with what can be done: `[label, act, icon]` each. */
  fail(message, remedies = [], kind = "error") {
    this.wait(null);
    const buttons = remedies.map(([label, act, drawn]) => button({ label, icon: drawn, words: true }, act));
    this.#trouble.replaceChildren(
      make("p", { class: kind, role: kind === "error" ? "alert" : "status" }, message),
      ...buttons,
    );
  }

  calm() {
    this.#trouble.replaceChildren();
  }

  #open(at, item) {
    if (!this.#items[at]) {
      this.#items[at] = this.#view(item);
      this.#answer.append(this.#items[at].element);
    }
    this.#waiting.hidden = item.type === "message" || item.type === "code_interpreter_call";
    return this.#items[at];
  }

  #view(item) {
    if (item.type === "message") return new Said(this.#painter, this.#files);
    if (item.type === "code_interpreter_call") return new Cell(this.#painter);
    if (item.type === "reasoning") return new Thought(this.#painter);
    return new Other(item);
  }
}

function attached({ name, size: bytes }) {
  return make(
    "div",
    { class: "file small", data: { name } },
    icon("file"),
    make("span", { class: "name" }, name),
    bytes === undefined ? null : make("span", { class: "kind" }, size(bytes)),
  );
}
